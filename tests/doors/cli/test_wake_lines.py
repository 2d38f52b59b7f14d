"""Wake-ups without a hook: `watch --one-line` and the channel of `interlock mcp`. `mute` turns both
off."""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from interlock.doors.cli.context import Context
from interlock.doors.cli.grammar import COMMON, parse
from interlock.doors.cli.lookup import all_commands
from interlock.doors.cli.mcp_stdio import wake
from world.commandline import LIMIT_S, Place, lines, until

COMMANDS = all_commands()

pytestmark = [pytest.mark.long, pytest.mark.every_engine]

OTTO, VERA = ("--from", "otto-cli"), ("--from", "vera")
CHANNEL = "claude/channel"
GREETING = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}


class Listener:
    """A command that prints a line for each wake-up."""

    def __init__(self, place: Place, *words: str) -> None:
        self.process = place.start(*words, *OTTO)
        self._lines = lines(self.process)

    def line(self) -> str:
        return next(self._lines)

    def say(self, **what: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0"} | what).encode() + b"\n")
        self.process.stdin.flush()

    def heard(self) -> Any:
        return json.loads(self.line())

    def close(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=LIMIT_S)


@pytest.fixture
def quick(joined: Place) -> Place:
    """A place with a short quiet time after a wake-up."""
    joined.ok("settings", "wake.quiet_s", "1")
    return joined


@pytest.fixture
def watching(quick: Place) -> Iterator[Listener]:
    listener = Listener(quick, "watch", "--one-line")
    until(lambda: reach(quick) == "wakes")
    yield listener
    listener.close()


@pytest.fixture
def channel(quick: Place) -> Iterator[Listener]:
    listener = Listener(quick, "mcp", "--channel")
    yield listener
    listener.close()


def reach(place: Place) -> str:
    (found,) = [a for a in place.ok("agents")["agents"] if a["address"] == "@otto-cli"]
    return str(found["reach"])


def sent(place: Place, to: str = "@otto-cli", *words: str) -> str:
    return str(place.ok("send", to, "Hello there", *words, *VERA)["message"]["id"])


def history(place: Place, id: str) -> list[tuple[str, str | None]]:
    deliveries = place.ok("receipts", id, *VERA)["deliveries"]
    (found,) = [each for each in deliveries if each["recipient"].startswith("@otto")]
    return [(step["state"], step.get("adapter")) for step in found["history"]]


def untold(place: Place, id: str) -> bool:
    return history(place, id) == [("accepted", None)]


# --- watch --one-line


def test_new_mail_is_one_line_without_its_text(quick: Place, watching: Listener) -> None:
    id = sent(quick)
    line = watching.line()
    assert "1 new message, from @vera (verified)" in line
    assert id[:8] in line
    assert "Hello" not in line
    assert history(quick, id) == [("accepted", None), ("woken", "watch")]


def test_each_message_gets_one_line(quick: Place, watching: Listener) -> None:
    first = sent(quick)
    assert first[:8] in watching.line()
    second = sent(quick)
    line = watching.line()
    assert second[:8] in line
    assert "1 new message (2 unread in all)" in line


def test_broadcast_wakes_only_with_the_flag_wake(quick: Place, watching: Listener) -> None:
    quiet = sent(quick, "AGENT:*")
    loud = sent(quick, "AGENT:*", "--wake")
    assert loud[:8] in watching.line()
    assert untold(quick, quiet)


def test_mail_with_the_flag_no_wake_does_not_wake(quick: Place, watching: Listener) -> None:
    quiet = sent(quick, "@otto-cli", "--no-wake")
    assert sent(quick)[:8] in watching.line()
    assert untold(quick, quiet)


def test_with_json_each_line_is_one_document(quick: Place) -> None:
    listener = Listener(quick, "watch", "--one-line", "--json")
    try:
        until(lambda: reach(quick) == "wakes")
        id = sent(quick)
        told = listener.heard()
        assert [message["id"] for message in told["news"]] == [id]
        assert "payload" not in told["news"][0]
    finally:
        listener.close()


# --- mute


def test_muted_sender_is_not_woken_until_it_is_unmuted(quick: Place, watching: Listener) -> None:
    muted = quick.ok("mute", "@otto-cli")
    assert (muted["address"], muted["muted"]) == ("@otto-cli", True)
    id = sent(quick, "@otto-cli", "--priority", "critical")
    quick.ok("send", "@vera", "Another", *OTTO)
    assert untold(quick, id)
    assert quick.ok("mute", "@otto-cli", "--off")["muted"] is False
    assert id[:8] in watching.line()


def test_agent_can_mute_only_itself(quick: Place) -> None:
    assert quick.ok("mute", *OTTO)["address"] == "@otto-cli"
    quick.no("MISSING_SCOPE", "mute", "@vera", *OTTO)
    assert quick.ok("mute", "@otto-cli", "--off", *VERA)["muted"] is False
    quick.no("NOT_FOUND", "mute", "@nobody", *VERA)


# --- the channel


def greeted(channel: Listener) -> dict[str, Any]:
    channel.say(id=1, method="initialize", params=GREETING)
    answer: dict[str, Any] = channel.heard()
    channel.say(method="notifications/initialized")
    return answer


def test_initialize_answers_with_the_channel_capability(channel: Listener) -> None:
    capabilities = greeted(channel)["result"]["capabilities"]
    assert capabilities["experimental"] == {CHANNEL: {}}
    assert "tools" in capabilities


def test_without_the_flag_there_is_no_channel(quick: Place) -> None:
    listener = Listener(quick, "mcp")
    try:
        assert CHANNEL not in json.dumps(greeted(listener))
    finally:
        listener.close()


def test_mail_is_one_notification_on_the_channel(quick: Place, channel: Listener) -> None:
    greeted(channel)
    until(lambda: reach(quick) == "wakes")
    id = sent(quick)
    notice = channel.heard()
    assert notice["method"] == f"notifications/{CHANNEL}"
    assert "id" not in notice
    assert id[:8] in notice["params"]["content"]
    assert "Hello" not in notice["params"]["content"]
    assert notice["params"]["meta"] == {"count": "1"}
    assert history(quick, id) == [("accepted", None), ("woken", "channel")]
    channel.say(id=2, method="tools/call", params={"name": "whoami", "arguments": {}})
    assert channel.heard()["id"] == 2, "the channel sent a second notification"


def test_no_notification_is_sent_before_initialize(quick: Place, channel: Listener) -> None:
    id = sent(quick)
    assert reach(quick) != "wakes"
    assert untold(quick, id)
    assert greeted(channel)["id"] == 1
    assert id[:8] in channel.heard()["params"]["content"]


def test_muted_channel_sends_no_notification(quick: Place, channel: Listener) -> None:
    greeted(channel)
    until(lambda: reach(quick) == "wakes")
    quick.ok("mute", "@otto-cli")
    id = sent(quick)
    channel.say(id=2, method="tools/call", params={"name": "whoami", "arguments": {}})
    assert channel.heard()["id"] == 2
    assert untold(quick, id)
    quick.ok("mute", "@otto-cli", "--off")
    assert id[:8] in channel.heard()["params"]["content"]


def test_channel_continues_with_a_rotated_token(quick: Place, channel: Listener) -> None:
    greeted(channel)
    until(lambda: reach(quick) == "wakes")
    assert quick.ok("token", "rotate", "--sender", "otto-cli")["replaced"]
    id = sent(quick)
    assert id[:8] in channel.heard()["params"]["content"]


def test_wake_closes_its_pipe_if_there_is_no_reader(
    joined: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("INTERLOCK_TOKEN", "INTERLOCK_SESSION"):
        monkeypatch.delenv(name, raising=False)
    sent(joined)
    reader, writer = os.pipe()
    os.close(reader)
    said = ["--workspace", str(joined.workspace), "mcp", "--channel", *OTTO]
    with pytest.raises(BrokenPipeError):
        wake(Context(parse(said, COMMANDS, COMMON)), writer)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(writer)
