"""Fixtures of the tests that use Interlock as people and programs do.

The tests of the command run twice: with the workspace's file alone, and with a server for every
workspace. `DIRECT_ONLY` lists those that do not, and why.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commandline import Place
from forking import Served, Servers

import interlock.link

BOTH_WAYS = {"test_cli", "test_bad_input", "test_identity_rules", "test_terminal"}

NO_WORKSPACE = "it needs no workspace"
MAKES_ONE = "it is about when a workspace is made, and a server makes one"
UNUSABLE = "no server starts where there is no workspace to be used"
THE_FILE = "it is about the file, which a server has open"
DIRECT_ONLY = {
    # test_cli
    "test_help_too_is_one_document_with_json": NO_WORKSPACE,
    "test_the_version_is_told": NO_WORKSPACE,
    "test_schema_prints_the_published_files": NO_WORKSPACE,
    "test_a_command_that_needs_no_workspace_makes_none": MAKES_ONE,
    "test_the_shared_runner_passes_with_the_real_command": "it makes workspaces of its own",
    "test_the_shared_runner_passes_with_the_real_command_and_real_servers": "it starts its own",
    # test_bad_input
    "test_a_workspace_that_is_a_file_is_refused": UNUSABLE,
    "test_a_workspace_below_a_file_is_refused": UNUSABLE,
    "test_a_workspace_that_cannot_be_made_is_refused": UNUSABLE,
    "test_a_workspace_whose_name_is_no_text_works_or_is_refused": UNUSABLE,
    "test_a_directory_of_other_files_is_left_alone": UNUSABLE,
    "test_a_directory_that_cannot_be_written_is_refused": UNUSABLE,
    "test_a_directory_where_the_log_should_be_is_refused": UNUSABLE,
    "test_a_log_that_is_no_database_is_refused_and_left_alone": UNUSABLE,
    "test_somebody_elses_database_is_refused_and_left_alone": UNUSABLE,
    "test_a_database_with_our_mark_and_nothing_of_ours_is_refused": UNUSABLE,
    "test_a_newer_format_is_refused_and_says_to_upgrade": THE_FILE,
    "test_a_log_last_used_on_another_host_is_refused_until_it_is_adopted": THE_FILE,
    "test_a_log_cut_short_is_refused_or_found_damaged": THE_FILE,
    # test_identity_rules
    "test_a_named_workspace_comes_first": MAKES_ONE,
    "test_init_says_whether_it_made_one": MAKES_ONE,
    "test_run_exits_with_125_where_there_is_no_workspace": UNUSABLE,
    # test_terminal
    "test_help_of_every_command_says_what_it_does_and_how_to_type_it": NO_WORKSPACE,
    "test_help_fits_a_narrow_terminal": NO_WORKSPACE,
    "test_help_is_as_wide_as_the_terminal": NO_WORKSPACE,
    "test_the_overview_names_every_command": NO_WORKSPACE,
    "test_the_page_of_a_command_looks_like_this": NO_WORKSPACE,
    "test_the_page_of_a_group_lists_its_commands": NO_WORKSPACE,
    "test_a_usage_error_shows_the_usage_and_the_nearest_word": NO_WORKSPACE,
    "test_there_is_a_completion_for_each_shell": NO_WORKSPACE,
    "test_bash_completes_with_the_script": NO_WORKSPACE,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    is_there = "served" in metafunc.fixturenames and metafunc.module.__name__ in BOTH_WAYS
    if is_there and metafunc.function.__name__ not in DIRECT_ONLY:
        metafunc.parametrize("served", ["direct", "served"], indirect=True)


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    servers = Servers()
    yield servers
    servers.close()


@pytest.fixture
def served(
    request: pytest.FixtureRequest, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Served | None]:
    """The servers of the test, where it is the one with servers."""
    if getattr(request, "param", "direct") == "direct":
        yield None
        return
    monkeypatch.setattr(interlock.link, "open_node", _unless_served)
    served = Served(servers)
    yield served
    served.close()


_open_node = interlock.link.open_node


def _unless_served(directory: str, **given: Any) -> Any:
    """Opens a workspace's file, unless there is a server that should have been asked."""
    assert not interlock.link.is_served(directory), "the server was not asked"
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
