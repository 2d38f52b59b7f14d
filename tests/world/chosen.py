"""The engine of all workspaces in a run of the tests: `pytest --engine redis`.

An environment variable names the engine, so every process creates its workspaces on a real server.
Such a run selects the marker `every_engine`, and skips tests of the embedded file (marker
`embedded`).
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
restores = pytest.mark.embedded("a backup cannot replace the log of a shared engine")
SERVERS: dict[str, type[Server]] = {"postgres": PostgresServer, "redis": ValkeyServer}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--engine",
        choices=(EMBEDDED, *SERVERS),
        default=EMBEDDED,
        help="the engine of every workspace that the tests create",
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
    """Start the engine of the run. Each test process has a server of its own."""
    kind = request.config.getoption("--engine")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(NEW, raising=False)
        if kind == EMBEDDED:
            yield
            return
        with SERVERS[kind](tmp_path_factory.mktemp(kind)) as server:
            patch.setenv(NEW, server.url)
            yield


# --- for tests that create environments and copies


def variables() -> dict[str, str]:
    """Return the variables that a test must copy into a new environment."""
    return {NEW: os.environ[NEW]} if NEW in os.environ else {}


def others(environ: Mapping[str, str]) -> list[str]:
    """Return the other variables of Interlock, such as the workspace and the token."""
    return [name for name in environ if name.startswith("INTERLOCK_") and name != NEW]


def move_out(directory: Path) -> None:
    """Give the copy of a node's directory a workspace of its own that starts with the same log.
    Otherwise the copy is the same node, and the original would get its writes."""
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
