"""A node that is started with an engine's URL: what is kept of it, and who can read it."""

from collections.abc import Iterator

import psutil  # type: ignore[import-untyped]
import pytest
from remotes import Remotes
from serving import free_port
from teams import Team

from interlock.link import is_served, server_of

pytestmark = pytest.mark.long


@pytest.fixture
def team(tmp_path_factory: pytest.TempPathFactory, remote: Remotes) -> Iterator[Team]:
    team = Team(tmp_path_factory.mktemp("team"), remote)
    yield team
    team.close()


def test_an_address_that_never_answered_does_not_replace_one_that_did(team: Team) -> None:
    place = team.place("north")
    kept = (place.workspace / "engine.json").read_bytes()
    wrong = team.url(free_port())
    refused = place.process("up", "--detach", "--port", "0", "--engine", wrong, "--json")
    assert refused.status == 4, refused
    assert refused.json["code"] == "ENGINE_UNAVAILABLE"
    assert not is_served(str(place.workspace))
    assert (place.workspace / "engine.json").read_bytes() == kept
    assert place.ok("status")["agents"] == 0


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
