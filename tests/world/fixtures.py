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
from world.furnished import Furnished
from world.prepared import Prepared
from world.serving import servers
from world.working import Workshop

__all__ = ["servers"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    is_there = "served" in metafunc.fixturenames and metafunc.module.__name__ in BOTH_WAYS
    if is_there and metafunc.function.__name__ not in DIRECT_ONLY:
        metafunc.parametrize("served", ["direct", "served"], indirect=True)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
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
    place = Place(tmp_path_factory.mktemp("town"))
    place.join("otto", "cli")
    place.join("vera", None, "--kind", "human")
    return place


@pytest.fixture
def town(first_town: Place, tmp_path: Path, served: Served | None) -> Place:
    """The same, with the senders otto-cli (an agent) and vera (a person)."""
    return first_town.copied(tmp_path, served)


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Furnished:
    """The workspace with something for every verb to work on. Tests play rows in copies of it. Its
    claims last an hour, which a run of all tests may take."""
    return Furnished(tmp_path_factory.mktemp("furnished"))


@pytest.fixture(scope="session")
def first_shop(first_town: Place, tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(first_town.copied(tmp_path_factory.mktemp("shop")))


@pytest.fixture
def shop(first_shop: Workshop, tmp_path: Path, served: Served | None) -> Workshop:
    """The same, in a repository and with a gate."""
    return first_shop.copied(tmp_path, served)
