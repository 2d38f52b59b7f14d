"""Hooks over HTTP answer like the command, to a caller with a valid token."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from world.commandline import Place
from world.fork_server import Servers
from world.server import ForkedServer, Reply

pytestmark = pytest.mark.every_engine


class HookClient:
    """The client of otto-cli, which sends its hooks to a server."""

    def __init__(self, server: ForkedServer) -> None:
        self.server, self.place = server, server.place
        self.token = self.place.token_of("otto-cli")

    def post(
        self, event: str, body: Any = None, client: str = "claude-code", **headers: str
    ) -> Reply:
        given = {"session_id": "s1", "cwd": str(self.place.cwd)} if body is None else body
        path = f"/hooks/{client}/{event}"
        return self.server.ask("POST", path, given, token=self.token, headers=headers)

    def answer(self, event: str, body: Any = None, client: str = "claude-code") -> Any:
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
def hooks(joined: Place, servers: Servers) -> Iterator[HookClient]:
    """The client of otto-cli, with a running server. vera is another sender."""
    server = ForkedServer(joined, servers)
    with server:
        yield HookClient(server)


def test_each_step_gets_the_answer_of_the_command(hooks: HookClient) -> None:
    steps = ("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd")
    given = {"session_id": "s1", "cwd": str(hooks.place.cwd)}
    posted = [hooks.answer(event, given) for event in steps]
    assert posted == [hooks.command(event, given) for event in steps]
    assert "You are @otto-cli" in posted[0]["hookSpecificOutput"]["additionalContext"]
    assert posted[1:] == [{}] * 4


def test_stop_delivers_a_blocker_and_its_receipts_name_the_adapter(hooks: HookClient) -> None:
    id = hooks.blocker()
    held = hooks.answer("Stop")
    assert held["decision"] == "block"
    assert "It is red" in held["reason"]
    again = {"session_id": "s1", "stop_hook_active": True}
    assert hooks.answer("Stop", again) == {}
    (delivery,) = hooks.place.ok("receipts", id, "--from", "vera")["deliveries"]
    history = [(step["state"], step.get("adapter")) for step in delivery["history"]]
    assert history == [("accepted", None), ("woken", "claude-code"), ("shown", "claude-code")]


def test_the_pointer_to_new_mail_is_sent_once(hooks: HookClient) -> None:
    hooks.place.ok("send", "@otto-cli", "Hello", "--from", "vera")
    told = hooks.answer("PostToolUse")["hookSpecificOutput"]["additionalContext"]
    assert "from @vera (verified)" in told
    assert hooks.answer("PostToolUse") == {}


@pytest.mark.parametrize("token", [None, "ilk_nothing", ""])
def test_the_status_is_401_without_a_valid_token(token: str | None, hooks: HookClient) -> None:
    hooks.blocker()
    before = hooks.place.entries()
    reply = hooks.server.ask("POST", "/hooks/claude-code/Stop", {"session_id": "s1"}, token=token)
    assert reply.status == 401
    assert "It is red" not in reply.body.decode()
    assert hooks.place.entries() == before


def test_another_senders_session_is_refused_and_keeps_its_claims(hooks: HookClient) -> None:
    """Only the sender that started a session can use it."""
    vera = hooks.place.token_of("vera")
    assert hooks.server.ask("POST", "/v1/sessions", {"id": "hers"}, token=vera).status == 200
    hooks.place.ok("claim", "acquire", "--item", "B-1", "--session", "hers", "--from", "vera")
    for event in ("SessionStart", "SessionEnd"):
        assert hooks.answer(event, {"session_id": "hers", "cwd": str(hooks.place.cwd)}) == {}
    (claim,) = hooks.place.ok("claim", "list")["claims"]
    assert (claim["holder"], claim["session"]) == ("@vera", "hers")


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"null", b"[]", b"\xff\0", b"[" * 100_000, {"session_id": 5, "cwd": []}],
    ids=["empty", "cut", "null", "list", "bytes", "deep", "types"],
)
@pytest.mark.parametrize("client", ["claude-code", "cursor"])
def test_bad_input_gets_an_answer_without_effect(body: Any, client: str, hooks: HookClient) -> None:
    event = "preToolUse" if client == "cursor" else "PreToolUse"
    expected = {"permission": "allow"} if client == "cursor" else {}
    assert hooks.answer(event, body, client) == expected


def test_an_unknown_event_gets_an_empty_answer(hooks: HookClient) -> None:
    assert hooks.answer("Nothing") == {}


def test_an_unknown_client_gets_an_empty_answer(hooks: HookClient) -> None:
    reply = hooks.post("Stop", client="unknown")
    assert (reply.status, reply.json) == (200, {})


def test_a_session_in_the_header_replaces_and_outlives_the_clients_session(
    hooks: HookClient,
) -> None:
    session = {"Interlock-Session": "outer"}
    told = hooks.post("SessionStart", **session).json["hookSpecificOutput"]["additionalContext"]
    assert "session outer" in told
    words = ("claim", "acquire", "--item", "B-1", "--session", "outer", "--from", "otto-cli")
    hooks.place.ok(*words)
    assert hooks.post("SessionEnd", **session).json == {}
    assert len(hooks.place.ok("claim", "list")["claims"]) == 1
