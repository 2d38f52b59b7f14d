"""Fixtures that all tests share: places, prepared workspaces, and servers with the usual people.

The tests of the command run twice: with the workspace's file alone, and with a server for every
workspace. See both_ways.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

import interlock.local.link
from world.both_ways import BOTH_WAYS, DIRECT_ONLY
from world.commandline import Place
from world.fork_server import Servers, ServersByWorkspace
from world.furnished import Furnished
from world.people_and_apps import App, Browser, Caller
from world.prepared import Prepared
from world.remotes import Remotes
from world.sample_log import Sample, make_sample
from world.served_workspace import Serve, ServedWorkspace
from world.server import ForkedServer, RunningServer, servers
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
    """Start a process that has done all imports. The MCP tests fork their commands from it."""
    with closing(Prepared(tmp_path_factory.mktemp("mcp"))) as prepared:
        yield prepared


@pytest.fixture
def only_through_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test if a command opens the file of a workspace that has a server."""
    monkeypatch.setattr(interlock.local.link, "open_node", _unless_served)


@pytest.fixture
def served(request: pytest.FixtureRequest, servers: Servers) -> Iterator[ServersByWorkspace | None]:
    """The servers of the test in its run through servers, or None in its run without."""
    if getattr(request, "param", "direct") == "direct":
        yield None
        return
    request.getfixturevalue("only_through_servers")
    served = ServersByWorkspace(servers)
    yield served
    served.close()


_open_node = interlock.local.link.open_node


def _unless_served(directory: str, **given: Any) -> Any:
    """Open a node, but only for a workspace without a server."""
    assert not interlock.local.link.is_served(directory), "the command did not use the server"
    return _open_node(directory, **given)


@pytest.fixture
def place(tmp_path: Path, served: ServersByWorkspace | None) -> Place:
    """An empty home and workspace for one test, without any senders."""
    return Place(tmp_path, served)


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory, servers: Servers) -> Iterator[Serve]:
    """Start servers for new workspaces. They end after the tests of the module."""
    with ExitStack() as running:

        def start(
            *,
            host: str = "127.0.0.1",
            words: Sequence[str] = (),
            constants: Mapping[str, Any] | None = None,
            other_servers: Mapping[str, RunningServer] | None = None,
        ) -> ServedWorkspace:
            place = Place(tmp_path_factory.mktemp("served"))
            server = ForkedServer(place, servers, host=host, words=words, constants=constants)
            return ServedWorkspace(running.enter_context(server), other_servers)

        yield start


@pytest.fixture
def vera(workspace: ServedWorkspace) -> Browser:
    """The browser of the person vera, who joined the workspace."""
    return workspace.person("vera")


@pytest.fixture
def app(workspace: ServedWorkspace) -> App:
    """An OAuth app, registered at the server of the workspace."""
    return workspace.app


@pytest.fixture
def stranger(workspace: ServedWorkspace) -> Caller:
    """A caller without any credentials, at the server of the workspace."""
    return workspace.stranger


@pytest.fixture(scope="session")
def first_joined(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The original of each `joined`."""
    place = Place(tmp_path_factory.mktemp("joined"))
    place.join("otto", "cli")
    place.join("vera", None, "--kind", "human")
    return place


@pytest.fixture
def joined(first_joined: Place, tmp_path: Path, served: ServersByWorkspace | None) -> Place:
    """A place for one test, with the senders otto-cli (an agent) and vera (a person)."""
    return first_joined.copied(tmp_path, served)


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Furnished:
    """A workspace with data for every verb. Tests run rows in copies of it. It is created for each
    module, because its claims last an hour and a run of all tests may take longer."""
    return Furnished(tmp_path_factory.mktemp("furnished"))


@pytest.fixture(scope="session")
def first_shop(first_joined: Place, tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """The original of each `shop`."""
    return Workshop(first_joined.copied(tmp_path_factory.mktemp("shop")))


@pytest.fixture
def shop(first_shop: Workshop, tmp_path: Path, served: ServersByWorkspace | None) -> Workshop:
    """The place `joined`, in a repository with a gate, for one test."""
    return first_shop.copied(tmp_path, served)


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """An empty workspace without a server, on a clock that the test moves."""
    with Workspace(tmp_path / "workspace") as workspace:
        yield workspace


@pytest.fixture(scope="session")
def original_sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """The original of each `sample`."""
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
