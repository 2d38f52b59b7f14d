"""A node that is started with an engine's URL: when the URL is recorded, and who can read it."""

from collections.abc import Iterator
from contextlib import closing

import psutil  # type: ignore[import-untyped]
import pytest

from interlock.local.link import is_served, server_of
from world.remotes import Remotes
from world.server import free_port
from world.teams import Team

pytestmark = pytest.mark.long


@pytest.fixture
def team(tmp_path_factory: pytest.TempPathFactory, remote: Remotes) -> Iterator[Team]:
    team = Team(tmp_path_factory.mktemp("team"), remote)
    yield team
    team.close()


def test_an_address_that_never_answered_does_not_replace_the_recorded_one(team: Team) -> None:
    place = team.place("north")
    kept = (place.workspace / "engine.json").read_bytes()
    wrong = team.url(free_port())
    refused = place.process("up", "--detach", "--port", "0", "--engine", wrong, "--json")
    assert refused.status == 4, refused
    assert refused.json["code"] == "ENGINE_UNAVAILABLE"
    assert not is_served(str(place.workspace))
    assert (place.workspace / "engine.json").read_bytes() == kept
    assert place.ok("status")["agents"] == 0


def test_an_engine_without_the_workspace_does_not_replace_the_recorded_one(
    tmp_path_factory: pytest.TempPathFactory, own_remote: Remotes
) -> None:
    """Only a repair moves the workspace to it, for example after the loss of the first engine."""
    with (
        closing(Team(tmp_path_factory.mktemp("team"), own_remote)) as team,
        type(own_remote.server)(tmp_path_factory.mktemp("other")) as other,
    ):
        place = team.place("north")
        place.join("otto")
        kept = (place.workspace / "engine.json").read_bytes()
        url = f"{other.url}?workspace={own_remote.name}"
        refused = place.process("up", "--detach", "--port", "0", "--engine", url, "--json")
        assert (refused.status, refused.json["code"]) == (2, "USAGE")
        assert "does not have this workspace" in refused.json["message"]
        assert (place.workspace / "engine.json").read_bytes() == kept
        place.ok("send", "@otto", "still there", "--from", "otto")
        own_remote.server.kill()
        place.no("USAGE", "repair", "--engine", url)
        assert place.ok("repair", "--restore", "--engine", url)["restored"] == 4
        place.ok("send", "@otto", "moved on", "--from", "otto")
        assert len(place.ok("inbox", "--from", "otto")["messages"]) == 2


@pytest.mark.parametrize("words", [(), ("--detach",)])
def test_a_servers_command_line_does_not_show_the_engines_url(
    team: Team, words: tuple[str, ...]
) -> None:
    place = team.place("north")
    starting = place.start("up", "--port", "0", "--engine", team.url(), "--json", *words)
    try:
        assert starting.stdout is not None
        assert starting.stdout.readline().startswith(b'{"up": true, "started": true')
        about = server_of(str(place.workspace))
        assert about is not None
        shown = " ".join(psutil.Process(about.pid).cmdline())
        assert "interlock.server" in shown
        assert "://" not in shown
    finally:
        assert place.ok("down")["stopped"] is True
        starting.communicate()
