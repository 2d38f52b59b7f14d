"""Fixtures of the tests that use Interlock as people and programs do.

The tests of the command run twice: with the workspace's file alone, and with a server for every
workspace. See both_ways.py.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import interlock.local.link
from world.both_ways import BOTH_WAYS, DIRECT_ONLY
from world.commandline import Place
from world.forking import Served, Servers
from world.prepared import Prepared
from world.remotes import Remotes
from world.sample_log import Sample, make_sample
from world.serving import servers
from world.teams import Team
from world.working import Workshop
from world.workspace import Workspace

__all__ = ["servers"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    is_there = "served" in metafunc.fixturenames and metafunc.module.__name__ in BOTH_WAYS
    if is_there and metafunc.function.__name__ not in DIRECT_ONLY:
        metafunc.parametrize("served", ["direct", "served"], indirect=True)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    """The process that tests fork instead of starting an MCP command."""
    with closing(Prepared(tmp_path_factory.mktemp("mcp"))) as prepared:
        yield prepared


@pytest.fixture
def only_through_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a server runs, a command that opens the workspace's file by itself fails the test."""
    monkeypatch.setattr(interlock.local.link, "open_node", _unless_served)


@pytest.fixture
def served(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Served | None]:
    """The servers of the test, where it is the one with servers."""
    if getattr(request, "param", "direct") == "direct":
        yield None
        return
    request.getfixturevalue("only_through_servers")
    served = Served(servers)
    yield served
    served.close()


_open_node = interlock.local.link.open_node


def _unless_served(directory: str, **given: Any) -> Any:
    """Opens a workspace's file, unless there is a server that should have been asked."""
    assert not interlock.local.link.is_served(directory), "the server was not asked"
    return _open_node(directory, **given)


@pytest.fixture
def place(tmp_path: Path, served: Served | None) -> Place:
    """A workspace and a home of the test's own, where nobody has joined."""
    return Place(tmp_path, served)


@pytest.fixture(scope="session")
def first_town(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The workspace that each `town` is a copy of."""
    place = Place(tmp_path_factory.mktemp("town"))
    place.join("otto", "cli")
    place.join("vera", None, "--kind", "human")
    return place


@pytest.fixture
def town(first_town: Place, tmp_path: Path, served: Served | None) -> Place:
    """The same, with the senders otto-cli (an agent) and vera (a person)."""
    return first_town.copied(tmp_path, served)


@pytest.fixture(scope="session")
def first_shop(first_town: Place, tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """The workshop that each `shop` is a copy of."""
    return Workshop(first_town.copied(tmp_path_factory.mktemp("shop")))


@pytest.fixture
def shop(first_shop: Workshop, tmp_path: Path, served: Served | None) -> Workshop:
    """The same, in a repository and with a gate."""
    return first_shop.copied(tmp_path, served)


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """An empty workspace without a server, on a clock that the test moves."""
    with Workspace(tmp_path / "workspace") as workspace:
        yield workspace


@pytest.fixture(scope="session")
def original_sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """The sample log that each `sample` is a copy of."""
    return make_sample(tmp_path_factory.mktemp("sample") / "workspace")


@pytest.fixture
def sample(original_sample: Sample, tmp_path: Path) -> Sample:
    """A copy of the sample log, closed, for the test to damage."""
    return original_sample.copied(tmp_path / "workspace")


@pytest.fixture
def team(tmp_path_factory: pytest.TempPathFactory, remote: Remotes) -> Iterator[Team]:
    """A workspace of several nodes on each kind of shared engine."""
    with closing(Team(tmp_path_factory.mktemp("team"), remote)) as team:
        yield team
