"""Live events: a client that reconnects continues where it stopped, without gaps or repeats, and
gets only the events that it may see."""

import asyncio
import contextlib
import itertools
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from world.commandline import LIMIT_S, Place, until
from world.event_streams import Event, Listener, Stream, listen
from world.fork_server import Servers
from world.served_workspace import ServedWorkspace
from world.server import ForkedServer, RunningServer
from world.traffic import senders, until_each_has

SHORT = {"interlock.doors.http.routes.HEARTBEAT_S": 0.5}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedWorkspace]:
    """A server for this module, with the agents otto, vera and eve, and ada, who is an admin."""
    place = Place(tmp_path_factory.mktemp("events"))
    with RunningServer(place, constants=SHORT) as server:
        workspace = ServedWorkspace(server)
        for name in ("otto", "vera", "eve"):
            workspace.add_sender(name)
        workspace.add_sender("ada", None, "--scope", "admin")
        yield workspace


def mark(workspace: ServedWorkspace) -> None:
    """Write a fact that every listener gets."""
    body = {"name": f"mark-{time.monotonic_ns()}", "members": ["@otto"]}
    marked = workspace.ask("owner", "POST", "/v1/groups", body)
    assert marked.status == 200, marked


def events_until_mark(workspace: ServedWorkspace, sender: str, after: int) -> list[Event]:
    """Return the events that a sender gets after a position, up to the first mark."""
    with workspace.listen(sender, after=after) as stream:
        return stream.until("group_set")


# --- resuming


def test_a_stream_has_the_format_of_server_sent_events(workspace: ServedWorkspace) -> None:
    with workspace.listen("otto", after=0) as stream:
        assert stream.response.status == 200
        assert stream.response.headers["content-type"].startswith("text/event-stream")
        assert stream.response.headers["cache-control"] == "no-store"
        first = stream.next()
    assert first is not None
    assert (first.id, first.kind) == (1, "workspace_created")
    assert first.data["seq"] == 1


def test_a_stream_without_a_position_starts_now(workspace: ServedWorkspace) -> None:
    workspace.send("otto", "@vera")
    with workspace.listen("vera") as stream:
        seq = workspace.send("otto", "@vera")
        (event,) = stream.until("message_sent")
    assert event.id == event.data["seq"] == event.data["message"]["seq"] == seq
    assert event.data["message"]["from"] == "@otto"
    assert "payload" not in event.data["message"]


def test_a_client_that_reconnects_continues_where_it_stopped(workspace: ServedWorkspace) -> None:
    after = workspace.head()
    sent = [workspace.send("otto", "@vera") for _ in range(30)]
    heard: list[int | None] = []
    while len(heard) < 30:
        last = heard[-1] if heard else after
        with workspace.listen("vera", last_id=last) as stream:
            for _ in range(7 if len(heard) < 28 else 2):
                event = stream.next()
                assert event is not None
                heard.append(event.id)
    assert heard == sent


def test_the_last_event_id_overrides_the_position_in_the_url(workspace: ServedWorkspace) -> None:
    """A browser that reconnects requests the same URL again, with the id of its last event."""
    workspace.send("otto", "@vera")
    last = workspace.send("otto", "@vera")
    with workspace.listen("vera", after=0, last_id=last) as stream:
        seq = workspace.send("otto", "@vera")
        event = stream.next()
    assert event is not None
    assert event.id == seq


def test_a_client_that_was_offline_for_long_gets_every_event(workspace: ServedWorkspace) -> None:
    """There are more events than the server keeps in memory, and new ones arrive."""
    after = workspace.head()
    with senders(workspace.server, "@vera", 2) as sending:
        until_each_has(sending, 150)
        with workspace.listen("owner", after=after) as stream:
            ids = [stream.next() for _ in range(300)]
    assert [event.id for event in ids if event] == list(range(after + 1, after + 301))


def test_a_position_that_was_just_answered_causes_no_reset(workspace: ServedWorkspace) -> None:
    for _ in range(40):
        seq = workspace.send("otto", "@vera")
        with workspace.listen("vera", last_id=seq) as stream:
            more = workspace.send("otto", "@vera")
            event = stream.next()
        assert event is not None
        assert (event.kind, event.id) == ("message_sent", more)


def test_a_position_beyond_the_log_causes_a_reset(workspace: ServedWorkspace) -> None:
    head = workspace.head()
    with workspace.listen("otto", last_id=head + 1000) as stream:
        reset = stream.next()
        assert reset == Event(None, "reset", {"reached": head})
        mark(workspace)
        after_it = stream.next()
    assert after_it is not None
    assert after_it.id == head + 1


@pytest.mark.parametrize("position", ["x", "-1", "1.5", "1e3", "9" * 30, "٣"])
def test_a_position_that_is_not_a_whole_number_is_refused(
    workspace: ServedWorkspace, position: str
) -> None:
    from urllib.parse import quote

    target = f"/v1/events?after={quote(position)}"
    reply = workspace.ask("otto", "GET", target)
    assert (reply.status, reply.code) == (400, "USAGE")


def test_a_restore_ends_the_streams_and_resets_clients_that_reconnect(
    tmp_path: Path, servers: Servers
) -> None:
    with ForkedServer(Place(tmp_path), servers) as served:
        workspace = ServedWorkspace(served)
        for name in ("otto", "vera"):
            workspace.add_sender(name)
        copy = str(tmp_path / "copy")
        served.place.ok("backup", copy)
        with workspace.listen("owner", after=workspace.head()) as stream:
            last = [workspace.send("otto", "@vera") for _ in range(5)][-1]
            while (event := stream.next()) is not None and event.id != last:
                pass
            served.place.ok("restore", copy)
            rest = []
            while (event := stream.next()) is not None:
                rest.append(event)
        assert [event for event in rest if event.kind == "message_sent"] == []
        with workspace.listen("owner", last_id=last) as stream:
            reset = stream.next()
            assert reset is not None
            assert (reset.kind, reset.data) == ("reset", {"reached": workspace.head()})


def test_a_head_request_for_a_stream_ends(workspace: ServedWorkspace) -> None:
    reply = workspace.ask("otto", "HEAD", "/v1/events")
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/event-stream")


def test_a_quiet_stream_sends_heartbeats(workspace: ServedWorkspace) -> None:
    with workspace.listen("otto", last_id=workspace.head()) as stream:
        until(lambda: stream.response.readline().startswith(b":"))


# --- the audience of events


def kinds(events: list[Event]) -> list[str]:
    return [event.kind for event in events]


def test_events_about_mail_reach_only_its_sender_recipients_and_owner(
    workspace: ServedWorkspace,
) -> None:
    after = workspace.head()
    seq = workspace.send("otto", "@vera")
    read = workspace.ask("vera", "GET", f"/v1/messages/%23{seq}")
    assert read.status == 200
    mark(workspace)
    for name in ("otto", "vera", "owner"):
        events = events_until_mark(workspace, name, after)
        assert kinds(events) == ["message_sent", "mail_moved", "group_set"]
    for name in ("eve", "ada"):
        assert kinds(events_until_mark(workspace, name, after)) == ["group_set"]
    listed = workspace.ask("eve", "GET", f"/v1/audit/events?after={after}").json
    assert [event["kind"] for event in listed["events"]] == ["group_set"]


def test_a_broadcast_is_an_event_for_everyone(workspace: ServedWorkspace) -> None:
    after = workspace.head()
    workspace.send("otto", "AGENT:*")
    mark(workspace)
    for name in ("otto", "vera", "eve", "ada"):
        assert kinds(events_until_mark(workspace, name, after)) == ["message_sent", "group_set"]


def test_mail_to_an_agent_reaches_all_its_surfaces_and_mail_to_a_surface_only_one(
    workspace: ServedWorkspace,
) -> None:
    for surface in ("cli", "desktop"):
        workspace.add_sender("nina", surface)
    after = workspace.head()
    workspace.send("vera", "@nina")
    workspace.send("vera", "@nina-cli")
    mark(workspace)
    assert kinds(events_until_mark(workspace, "nina-cli", after)) == [
        "message_sent",
        "message_sent",
        "group_set",
    ]
    assert kinds(events_until_mark(workspace, "nina-desktop", after)) == [
        "message_sent",
        "group_set",
    ]


def test_claims_are_events_for_everyone(workspace: ServedWorkspace) -> None:
    after = workspace.head()
    body = {"item": f"B-{after}"}
    assert workspace.ask("otto", "POST", "/v1/claims", body).status == 200
    mark(workspace)
    for name in ("otto", "eve"):
        assert kinds(events_until_mark(workspace, name, after)) == ["claim_granted", "group_set"]


def test_refusals_and_tokens_are_events_only_for_admins(workspace: ServedWorkspace) -> None:
    after = workspace.head()
    body = {"to": "@vera", "payload": {"text": "x"}, "from": f"@stranger-{after}"}
    refused = workspace.ask("eve", "POST", "/v1/messages", body)
    assert refused.code == "IDENTITY_MISMATCH"
    workspace.ask("ada", "POST", "/v1/tokens", {"sender": "eve"})
    mark(workspace)
    for name in ("otto", "eve"):
        assert kinds(events_until_mark(workspace, name, after)) == ["group_set"]
    for name in ("ada", "owner"):
        events = events_until_mark(workspace, name, after)
        assert kinds(events) == ["request_refused", "token_minted", "group_set"]
        assert "hash" not in json.dumps([event.data for event in events])


# --- tokens that end while a stream is open


def minted(workspace: ServedWorkspace, **more: Any) -> tuple[str, str]:
    """Mint another token of otto. Return the token and its id."""
    body = {"sender": "otto", **more}
    answer = workspace.ask("ada", "POST", "/v1/tokens", body).json
    return answer["token"], answer["id"]


def test_a_revoked_token_ends_the_stream(workspace: ServedWorkspace) -> None:
    token, id = minted(workspace)
    with listen(workspace.server, token) as stream:
        seq = workspace.send("vera", "@otto")
        event = stream.next()
        assert event is not None
        assert event.id == seq
        workspace.ask("ada", "POST", "/v1/tokens/revoke", {"id": id})
        workspace.send("vera", "@otto")
        refused = stream.next()
        assert refused is not None
        assert (refused.kind, refused.data["code"]) == ("refused", "BAD_TOKEN")
        assert stream.next() is None


def stream_that_expires(workspace: ServedWorkspace) -> Stream:
    """Open a stream whose token expires soon. On a busy machine, a token may expire before that."""
    for ttl_s in (1, 4, 16):
        token, _ = minted(workspace, ttl_s=ttl_s)
        stream = listen(workspace.server, token)
        if stream.response.status == 200:
            return stream
        stream.close()
    raise AssertionError("each token expired before the stream was open")


@pytest.mark.parametrize("busy", [False, True])
def test_an_expired_token_ends_a_quiet_or_busy_stream(
    workspace: ServedWorkspace, busy: bool
) -> None:
    with stream_that_expires(workspace) as stream, contextlib.ExitStack() as stack:
        if busy:
            stack.enter_context(claims_without_pause(workspace))
        refused = stream.until("refused")[-1]
        assert refused.data["code"] == "TOKEN_EXPIRED"
        assert stream.next() is None


@contextlib.contextmanager
def claims_without_pause(workspace: ServedWorkspace) -> Iterator[None]:
    """Eve acquires claims without pause, and every listener gets an event for each."""
    enough = threading.Event()

    def claim() -> None:
        for number in itertools.count():
            if enough.is_set():
                return
            body = {"item": f"noise-{number}", "ttl_s": 1}
            assert workspace.ask("eve", "POST", "/v1/claims", body).status == 200

    claiming = threading.Thread(target=claim)
    claiming.start()
    try:
        yield
    finally:
        enough.set()
        claiming.join(LIMIT_S)


def test_a_sender_with_an_open_stream_can_be_woken(workspace: ServedWorkspace) -> None:
    def reach() -> str:
        reply = workspace.ask("ada", "GET", "/v1/agents?name=eve")
        return str(reply.json["agents"][0]["reach"])

    with workspace.listen("eve"), workspace.listen("eve"):
        until(lambda: reach() == "wakes")
    until(lambda: reach() != "wakes")


# --- the long run

LISTENERS = 200
SENDING_S = 60.0 if os.environ.get("CI") == "true" else 20.0
MIN_EVENTS = 500


@pytest.mark.long
def test_every_listener_gets_every_event_once_and_in_order_over_a_crash(tmp_path: Path) -> None:
    """Half of the listeners belong to the owner, who gets every event. The other half belong to
    vera, who receives half of the mail."""
    with RunningServer(Place(tmp_path)) as served:
        vera = served.place.join("vera")
        tokens = [served.place.join(f"sender-{number}") for number in range(8)]
        after = int(served.ask("GET", "/readyz").json["entries"])
        listeners = [
            Listener(served.port, vera if number % 2 else served.owner, after)
            for number in range(LISTENERS)
        ]
        head = asyncio.run(long_run(served, listeners, tokens))
        for token, some in ((served.owner, listeners[::2]), (vera, listeners[1::2])):
            expected = events_of(served, token, after, head)
            assert len(expected) > MIN_EVENTS
            for listener in some:
                assert list(listener.ids) == expected
                assert listener.connections >= 2


async def long_run(served: RunningServer, listeners: list[Listener], tokens: list[str]) -> int:
    """Let all listeners run and eight agents send, and kill the server halfway. Return the log's
    length after the last send, once every listener has all its events."""
    listening = [asyncio.create_task(listener.run()) for listener in listeners]
    await poll(lambda: served.metric("interlock_event_streams") == len(listeners))
    stop = asyncio.Event()
    sent: Counter[str] = Counter()
    sending = [
        asyncio.create_task(send_until(stop, served.port, token, to, sent))
        for token, to in zip(tokens, ["@vera", "@otto"] * 4, strict=True)
    ]
    await asyncio.sleep(SENDING_S / 2)
    await poll(lambda: sent["@vera"] > MIN_EVENTS / 2)
    await asyncio.to_thread(served.kill)
    await asyncio.to_thread(served.restart)
    await asyncio.sleep(SENDING_S / 2)
    await poll(lambda: sent["@vera"] > MIN_EVENTS)
    stop.set()
    await asyncio.gather(*sending)
    head = int((await asyncio.to_thread(served.ask, "GET", "/readyz")).json["entries"])
    heard_by_owner = listeners[::2]
    await poll(lambda: all(listener.last >= head for listener in heard_by_owner))
    last = max(listener.last for listener in listeners[1::2])
    await poll(lambda: all(listener.last >= last for listener in listeners))
    for task in listening:
        task.cancel()
    await asyncio.gather(*listening, return_exceptions=True)
    await asyncio.sleep(0)  # lets the connections close
    return head


async def poll(condition: Any) -> None:
    deadline = time.monotonic() + 2 * LIMIT_S
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < deadline, "the condition did not become true in time"
        await asyncio.sleep(0.05)


async def send_until(
    stop: asyncio.Event, port: int, token: str, to: str, sent: Counter[str]
) -> None:
    """Send one message after another, each until it is accepted. Count them by recipient."""
    number = 0
    while not stop.is_set():
        number += 1
        while not await accepted(port, token, to, f"{token[-8:]}-{number}"):
            await asyncio.sleep(0.05)
        sent[to] += 1
        await asyncio.sleep(0.01)


async def accepted(port: int, token: str, to: str, key: str) -> bool:
    body = json.dumps({"to": to, "payload": {"text": key}})
    head = (
        f"POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Idempotency-Key: {key}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    try:
        writer.write((head + body).encode())
        answer = await reader.read()
    except OSError:
        return False
    finally:
        writer.close()
    return answer.startswith(b"HTTP/1.1 200 ")


def events_of(served: RunningServer, token: str, after: int, head: int) -> list[int]:
    """Return the positions of the token's events, as the log has them."""
    found: list[int] = []
    while after < head:
        target = f"/v1/audit/events?after={after}&limit=1000"
        page = served.ask("GET", target, token=token).json
        found += [event["seq"] for event in page["events"] if event["seq"] <= head]
        after = page["reached"]
    return found
