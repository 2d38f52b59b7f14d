"""The engine that a run of the tests has its workspaces on: `pytest --engine redis`.

Every workspace that is made during such a run has its log on a real server, in whatever process it
is made, because the environment says so. Such a run selects the marker `every_engine`, and leaves
out the tests that concern the embedded file (marker `embedded`).
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from interlock.node.keys import Keys
from interlock.stores.recognition import NEW, RECORD
from interlock.stores.shared.engine import SharedEngine
from interlock.stores.shared.locating import Located, reach, record
from interlock.stores.sqlite import LogFile
from world.databases import PostgresServer, Server, ValkeyServer

EMBEDDED = "sqlite"
restores = pytest.mark.embedded("a log that an engine keeps is not restored over its nodes' heads")
SERVERS: dict[str, type[Server]] = {"postgres": PostgresServer, "redis": ValkeyServer}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--engine",
        choices=(EMBEDDED, *SERVERS),
        default=EMBEDDED,
        help="what keeps the log of every workspace that the tests make",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--engine") != EMBEDDED:
        left_out = [item for item in items if item.get_closest_marker("embedded")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session", autouse=True)
def _chosen(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """The engine of the run. Each process of the tests has a server of its own."""
    kind = request.config.getoption("--engine")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(NEW, raising=False)
        if kind == EMBEDDED:
            yield
            return
        with SERVERS[kind](tmp_path_factory.mktemp(kind)) as server:
            patch.setenv(NEW, server.url)
            yield


# --- for tests that make environments and copies


def variables() -> dict[str, str]:
    """What a test hands on to an environment that it makes itself."""
    return {NEW: os.environ[NEW]} if NEW in os.environ else {}


def others(environ: Mapping[str, str]) -> list[str]:
    """The variables of Interlock that say anything else: where the tests stand, and as whom."""
    return [name for name in environ if name.startswith("INTERLOCK_") and name != NEW]


def move_out(directory: Path) -> None:
    """Gives the copy of a node's directory a workspace of its own that begins with the same log.
    As it was copied it is the same node once more, and what it does would be seen by the other."""
    try:
        copied = Located(**json.loads((directory / RECORD).read_text()))
    except FileNotFoundError:
        return
    where = copied._replace(workspace=os.urandom(8).hex())
    record(str(directory), where)
    file = LogFile(str(directory), is_copy=True)
    with file.writing():
        file.note_copy(where.workspace)
    engine = SharedEngine(file, reach(where), Keys(str(directory)).sealing(), where.node)
    engine.push_entries(file.writer, 0)
    engine.close()
    file.close()
