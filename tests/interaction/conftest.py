"""Fixtures of the tests that use Interlock as people and programs do: by its command."""

from pathlib import Path

import pytest
from commandline import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A workspace and a home of the test's own, where nobody has joined."""
    return Place(tmp_path)


@pytest.fixture(scope="session")
def first_town(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("town"))
    place.join("otto", "cli")
    place.join("vera", None, "--kind", "human")
    return place


@pytest.fixture
def town(first_town: Place, tmp_path: Path) -> Place:
    """The same, with the senders otto-cli (an agent) and vera (a person)."""
    return first_town.copied(tmp_path)
