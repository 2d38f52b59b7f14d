"""Hooks over HTTP answer as the command does, to whoever shows a token."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from world.commandline import Place
from world.fork_server import Servers
from world.server import ForkedServer, Reply

pytestmark = pytest.mark.every_engine


class Desk:
    """otto-cli's client, which posts its hooks; vera is the other."""

    def __init__(self, server: ForkedServer) -> None:
        self.server, self.place = server, server.place
        self.token = self.token_of("otto-cli")

    def token_of(self, sender: str) -> str:
        kept = (self.place.workspace / "credentials" / f"{sender}.json").read_text()
        return str(json.loads(kept)["token"])

    def post(
        self, event: str, body: Any = None, client: str = "claude-code", **headers: str
    ) -> Reply:
        given = {"session_id": "s1", "cwd": str(self.place.cwd)} if body is None else body
        path = f"/hooks/{client}/{event}"
        return self.server.ask("POST", path, given, token=self.token, headers=headers)

    def said(self, event: str, body: Any = None, client: str = "claude-code") -> Any:
        reply = self.post(event, body, client)
        assert reply.status == 200, reply
        return reply.json

    def command(self, event: str, given: Any) -> Any:
        words = ("hook", "claude-code", event, "--from", "otto-cli")
        return self.place.process(*words, stdin=json.dumps(given).encode()).json

    def blocker(self) -> str:
        words = ("send", "@otto-cli", "It is red", "--type", "blocker", "--from", "vera")
        return str(self.place.ok(*words)["message"]["id"])


@pytest.fixture
def desk(town: Place, servers: Servers) -> Iterator[Desk]:
    server = ForkedServer(town, servers)
    with server:
        yield Desk(server)


def test_each_step_is_answered_as_by_the_command(desk: Desk) -> None:
    steps = ("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd")
    given = {"session_id": "s1", "cwd": str(desk.place.cwd)}
    posted = [desk.said(event, given) for event in steps]
    assert posted == [desk.command(event, given) for event in steps]
    assert "You are @otto-cli" in posted[0]["hookSpecificOutput"]["additionalContext"]
    assert posted[1:] == [{}] * 4


def test_a_blocker_is_handed_over_and_its_receipts_name_the_adapter(desk: Desk) -> None:
    id = desk.blocker()
    held = desk.said("Stop")
    assert held["decision"] == "block"
    assert "It is red" in held["reason"]
    again = {"session_id": "s1", "stop_hook_active": True}
    assert desk.said("Stop", again) == {}
    (delivery,) = desk.place.ok("receipts", id, "--from", "vera")["deliveries"]
    history = [(step["state"], step.get("adapter")) for step in delivery["history"]]
    assert history == [("accepted", None), ("woken", "claude-code"), ("shown", "claude-code")]


def test_new_mail_is_pointed_to_once(desk: Desk) -> None:
    desk.place.ok("send", "@otto-cli", "Hello", "--from", "vera")
    told = desk.said("PostToolUse")["hookSpecificOutput"]["additionalContext"]
    assert "from @vera (verified)" in told
    assert desk.said("PostToolUse") == {}


@pytest.mark.parametrize("token", [None, "ilk_nothing", ""])
def test_without_a_good_token_the_status_is_401(token: str | None, desk: Desk) -> None:
    desk.blocker()
    before = desk.place.entries()
    reply = desk.server.ask("POST", "/hooks/claude-code/Stop", {"session_id": "s1"}, token=token)
    assert reply.status == 401
    assert "It is red" not in reply.body.decode()
    assert desk.place.entries() == before


def test_anothers_session_is_refused_and_does_no_harm(desk: Desk) -> None:
    """A session that was started is its sender's alone."""
    vera = desk.token_of("vera")
    assert desk.server.ask("POST", "/v1/sessions", {"id": "hers"}, token=vera).status == 200
    desk.place.ok("claim", "acquire", "--item", "B-1", "--session", "hers", "--from", "vera")
    for event in ("SessionStart", "SessionEnd"):
        assert desk.said(event, {"session_id": "hers", "cwd": str(desk.place.cwd)}) == {}
    (claim,) = desk.place.ok("claim", "list")["claims"]
    assert (claim["holder"], claim["session"]) == ("@vera", "hers")


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"null", b"[]", b"\xff\0", b"[" * 100_000, {"session_id": 5, "cwd": []}],
    ids=["empty", "cut", "null", "list", "bytes", "deep", "types"],
)
@pytest.mark.parametrize("client", ["claude-code", "cursor"])
def test_what_cannot_be_understood_does_no_harm(body: Any, client: str, desk: Desk) -> None:
    event = "preToolUse" if client == "cursor" else "PreToolUse"
    expected = {"permission": "allow"} if client == "cursor" else {}
    assert desk.said(event, body, client) == expected


def test_an_unknown_event_does_no_harm(desk: Desk) -> None:
    assert desk.said("Nothing") == {}


def test_a_client_that_there_is_not_gets_what_does_no_harm(desk: Desk) -> None:
    reply = desk.post("Stop", client="nobody")
    assert (reply.status, reply.json) == (200, {})


def test_a_named_session_goes_before_the_clients_own_and_outlives_it(desk: Desk) -> None:
    session = {"Interlock-Session": "outer"}
    told = desk.post("SessionStart", **session).json["hookSpecificOutput"]["additionalContext"]
    assert "session outer" in told
    words = ("claim", "acquire", "--item", "B-1", "--session", "outer", "--from", "otto-cli")
    desk.place.ok(*words)
    assert desk.post("SessionEnd", **session).json == {}
    assert len(desk.place.ok("claim", "list")["claims"]) == 1
