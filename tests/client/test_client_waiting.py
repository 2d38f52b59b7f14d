"""The Python client over time: arriving mail, claims for a block, cancelled calls, and servers that
stop."""

import asyncio
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

import interlock
from interlock import __version__, errors
from interlock.client import Client
from world import chosen
from world.client_workspace import WAYS, ClientWorkspace, Manner, Way, opened_workspace
from world.commandline import LIMIT_S, until
from world.fork_server import Servers
from world.server import free_port

pytestmark = pytest.mark.every_engine

Collect = Callable[[Client, int | None, int, list[str]], None]


@pytest.fixture(autouse=True)
def clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the machine's own credentials, in the environment and in the home directory."""
    for name in chosen.others(os.environ):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture(params=WAYS)
def workspace(
    request: pytest.FixtureRequest, tmp_path: Path, servers: Servers
) -> Iterator[ClientWorkspace]:
    """A workspace with synchronous clients, connected in each way."""
    way: Way = request.param
    with opened_workspace(tmp_path, Manner(way, "sync"), servers) as found:
        yield found


def vera(workspace: ClientWorkspace) -> Client:
    return workspace.connect(workspace.tokens["vera"])


def reach(workspace: ClientWorkspace) -> str:
    """Return the reach of vera: `wakes` while one of her calls waits."""
    return str(workspace.otto.agents("vera")["agents"][0]["reach"])


# --- listening


def listened(client: Client, after: int | None, count: int, texts: list[str]) -> None:
    with client:
        for message in client.listen(after):
            texts.append(message["payload"]["text"])
            if len(texts) == count:
                return


def listened_asynchronously(
    client: Client, after: int | None, count: int, texts: list[str]
) -> None:
    async def listen() -> None:
        async with client as twin:
            async for message in twin.listen(after):
                texts.append(message["payload"]["text"])
                if len(texts) == count:
                    return

    asyncio.run(listen())


def listened_without_entering(
    client: Client, after: int | None, count: int, texts: list[str]
) -> None:
    async def listen() -> None:
        async for message in client.listen(after):
            texts.append(message["payload"]["text"])
            if len(texts) == count:
                return

    asyncio.run(listen())


LISTENERS = [listened, listened_asynchronously, listened_without_entering]
each_listener = pytest.mark.parametrize("listen", LISTENERS, ids=lambda each: each.__name__)


@contextmanager
def listening(
    listen: Collect, client: Client, after: int | None, count: int
) -> Iterator[list[str]]:
    """Listen for `count` messages in a thread. The list is complete after the block."""
    texts: list[str] = []
    thread = threading.Thread(target=listen, args=(client, after, count, texts), daemon=True)
    thread.start()
    yield texts
    thread.join(LIMIT_S)
    assert not thread.is_alive(), texts


@each_listener
def test_listen_yields_mail_as_it_arrives(workspace: ClientWorkspace, listen: Collect) -> None:
    workspace.otto.send("@vera", "1")
    workspace.otto.send("@vera", "2")
    with listening(listen, vera(workspace), 0, 4) as texts:
        until(lambda: texts == ["1", "2"])
        until(lambda: reach(workspace) == "wakes")
        workspace.otto.send("@vera", "3")
        until(lambda: texts == ["1", "2", "3"])
        workspace.otto.send("@vera", "4")
    assert texts == ["1", "2", "3", "4"]


@each_listener
def test_listen_starts_at_the_end_of_the_log_by_default(
    workspace: ClientWorkspace, listen: Collect
) -> None:
    workspace.otto.send("@vera", "before")
    with listening(listen, vera(workspace), None, 1) as texts:
        until(lambda: reach(workspace) == "wakes")
        workspace.otto.send("@vera", "after")
    assert texts == ["after"]


@each_listener
@pytest.mark.parametrize("way", ["url", "socket"])
def test_listen_neither_loses_nor_repeats_mail_when_the_server_is_killed(
    way: Way, listen: Collect, tmp_path: Path, servers: Servers
) -> None:
    with opened_workspace(tmp_path, Manner(way, "sync"), servers) as workspace:
        file = interlock.connect(workspace.directory, workspace.tokens["otto"])
        with file as otto, listening(listen, vera(workspace), 0, 9) as texts:
            for number in range(3):
                otto.send("@vera", str(number))
            until(lambda: len(texts) == 3)
            until(lambda: otto.agents("vera")["agents"][0]["reach"] == "wakes")
            workspace.served.kill()
            for number in range(3, 6):
                otto.send("@vera", str(number))
            workspace.served.restart()
            until(lambda: len(texts) == 6)
            for number in range(6, 9):
                otto.send("@vera", str(number))
        assert texts == [str(number) for number in range(9)]


def test_listen_reconnects_after_the_server_stops(tmp_path: Path, servers: Servers) -> None:
    with opened_workspace(tmp_path, Manner("url", "sync"), servers) as workspace:
        with listening(listened, vera(workspace), 0, 1) as texts:
            until(lambda: reach(workspace) == "wakes")
            assert workspace.served.end() == 0
            workspace.served.restart()
            workspace.otto.send("@vera", "here again")
        assert texts == ["here again"]


def test_refusal_ends_listen(workspace: ClientWorkspace) -> None:
    refused: list[errors.Refusal] = []

    def listen() -> None:
        with vera(workspace) as client:
            try:
                next(iter(client.listen()))
            except errors.Refusal as refusal:
                refused.append(refusal)

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    until(lambda: reach(workspace) == "wakes")
    workspace.owner.revoke_token(sender="vera")
    workspace.otto.send("@vera", "not for you any more")
    thread.join(LIMIT_S)
    assert [type(refusal) for refusal in refused] == [errors.BadToken]


def test_second_loop_continues_after_the_last_message(workspace: ClientWorkspace) -> None:
    sent = [
        workspace.otto.send("@vera", text)["message"]["seq"] for text in ("one", "two", "three")
    ]
    with vera(workspace) as client:
        mail = client.listen(after=0)
        assert [next(iter(mail))["seq"] for _ in sent] == sent
        assert mail.after == sent[-1]


def test_listen_raises_at_once_if_no_server_ever_answered(tmp_path: Path) -> None:
    with interlock.connect(f"http://127.0.0.1:{free_port()}", "a token") as client:
        with pytest.raises(errors.EngineUnavailable):
            next(iter(client.listen()))
        with pytest.raises(errors.EngineUnavailable):
            asyncio.run(_first(client))


async def _first(client: Client) -> None:
    async for _ in client.listen(after=0):
        return


# --- cancelled calls


def test_cancelled_call_stops_waiting_and_leaves_no_thread(workspace: ClientWorkspace) -> None:
    assert reach(workspace) != "wakes"  # start the other client's threads before counting

    async def cancel() -> set[threading.Thread]:
        before = set(threading.enumerate())
        async with vera(workspace) as client:
            await client.whoami()
            task = asyncio.create_task(client.inbox(wait_s=3000))
            await asyncio.to_thread(until, lambda: reach(workspace) == "wakes")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.to_thread(until, lambda: reach(workspace) != "wakes")
            assert (await client.whoami())["sender"] == "vera"
        return set(threading.enumerate()) - before

    left = asyncio.run(cancel())
    until(lambda: not any(thread.is_alive() for thread in left))


def test_cancelled_acquire_leaves_the_queue(workspace: ClientWorkspace) -> None:
    async def cancel() -> None:
        async with vera(workspace) as client:
            task = asyncio.create_task(client.acquire("B-1", wait_s=3000))
            await asyncio.to_thread(until, lambda: workspace.owner.status()["waiting"] == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.to_thread(until, lambda: workspace.owner.status()["waiting"] == 0)

    workspace.otto.acquire("B-1")
    asyncio.run(cancel())
    workspace.otto.release("B-1")
    assert not workspace.owner.check("B-1")["claimed"]


def test_many_calls_wait_concurrently(workspace: ClientWorkspace) -> None:
    async def wait() -> list[int]:
        async with vera(workspace) as client:
            tasks = [asyncio.create_task(client.inbox(wait_s=int(LIMIT_S))) for _ in range(150)]
            await asyncio.to_thread(until, lambda: reach(workspace) == "wakes")
            await asyncio.to_thread(workspace.otto.send, "@vera", "for all of you")
            return [len(answer["messages"]) for answer in await asyncio.gather(*tasks)]

    assert asyncio.run(wait()) == [1] * 150


# --- claims for a block


def test_claim_is_held_in_the_block_and_released_after_it(
    workspace: ClientWorkspace,
) -> None:
    with vera(workspace) as client:
        with client.claimed("B-1", note="for a while", ttl_s=60) as claim:
            assert workspace.owner.check("B-1")["claims"] == [claim]
        assert not workspace.owner.check("B-1")["claimed"]
        with client.claimed(paths=["src/**"], repo="github.com/o/r") as claim:
            assert workspace.owner.claims()["claims"] == [claim]
        assert workspace.owner.claims()["claims"] == []


def test_async_claim_is_held_in_the_block_and_released_after_it(workspace: ClientWorkspace) -> None:
    async def claim() -> None:
        async with vera(workspace) as client:
            async with client.claimed("B-1") as claim:
                assert (await client.check("B-1"))["claims"] == [claim]
            assert not (await client.check("B-1"))["claimed"]
            workspace.otto.acquire("B-1")
            with pytest.raises(errors.ClaimHeld):
                async with client.claimed("B-1"):
                    raise AssertionError("the block was entered without the claim")

    asyncio.run(claim())


def test_block_is_not_entered_if_another_holder_has_the_claim(workspace: ClientWorkspace) -> None:
    held = workspace.otto.acquire("B-1")["claim"]
    with (
        vera(workspace) as client,
        pytest.raises(errors.ClaimHeld) as caught,
        client.claimed("B-1"),
    ):
        raise AssertionError("the block was entered without the claim")
    assert caught.value.members["held_by"] == [held]


def test_claim_lost_in_the_block_raises_stale_fence_at_its_end(workspace: ClientWorkspace) -> None:
    otto = workspace.connect(workspace.tokens["otto"])
    with otto, pytest.raises(errors.StaleFence), otto.claimed("B-1"):
        workspace.vera.take_over("B-1", reason="it is urgent")
    assert workspace.owner.check("B-1")["claims"][0]["holder"] == "@vera"


def test_error_in_the_block_is_raised_instead_of_a_refused_release(
    workspace: ClientWorkspace,
) -> None:
    with workspace.connect(workspace.tokens["otto"]) as client:
        with pytest.raises(ZeroDivisionError), client.claimed("B-1"):
            raise ZeroDivisionError
        assert not workspace.owner.check("B-1")["claimed"]
        with pytest.raises(ZeroDivisionError), client.claimed("B-1"):
            _lose_and_fail(workspace)


def _lose_and_fail(workspace: ClientWorkspace) -> None:
    workspace.vera.take_over("B-1", reason="it is urgent")
    raise ZeroDivisionError


# --- lost answers


ANSWERS = {
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\ncontent-le",
    "half an answer": b'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"accepted": true',
}


def read_request(connection: socket.socket) -> None:
    """Read the whole request. Closing a connection with unread bytes would reset it, and the client
    would lose the answer."""
    with connection.makefile("rb") as request:
        length = 0
        for line in iter(request.readline, b"\r\n"):
            if not line:
                return
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        request.read(length)


@contextmanager
def dying_server(listener: socket.socket, answer: bytes) -> Iterator[None]:
    """Serve each connection: read a request, send these bytes, and close the connection."""

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                read_request(connection)
                connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(LIMIT_S)


def refusals(client: Client) -> list[errors.Refusal]:
    """Return the refusals of a write and a read, from both clients."""
    found = []
    with client:
        for ask in (lambda: client.send("@vera", "hello"), client.whoami):
            with pytest.raises(errors.Refusal) as caught:
                ask()
            found.append(caught.value)

    async def ask_twice() -> None:
        async with client as twin:
            for verb in (twin.send("@vera", "hello"), twin.whoami()):
                with pytest.raises(errors.Refusal) as caught:
                    await verb
                found.append(caught.value)

    asyncio.run(ask_twice())
    return found


@pytest.mark.parametrize("answer", ["nothing", "half an answer"])
def test_lost_answer_of_a_write_has_an_unknown_outcome(answer: str) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with dying_server(listener, ANSWERS[answer]):
        found = refusals(interlock.connect(url, "a token"))
    assert [type(refusal) for refusal in found] == [errors.EngineUnavailable] * 4
    assert [refusal.members for refusal in found] == [{"outcome": "unknown"}, {}] * 2


@pytest.mark.parametrize("answer", ANSWERS)
def test_read_over_a_broken_socket_falls_back_to_the_file(answer: str, tmp_path: Path) -> None:
    path = str(tmp_path / "server.sock")
    with interlock.connect(tmp_path / "workspace") as owner:
        token = owner.join("otto").get("token")
    about = {"pid": 0, "url": "", "socket": path, "mcp": "", "version": __version__}
    (tmp_path / "workspace" / "server.json").write_text(json.dumps(about))
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(path)
        listener.listen()
        with dying_server(listener, ANSWERS[answer]):
            with interlock.connect(tmp_path / "workspace", token) as client:
                assert client.whoami()["sender"] == "otto"
            asyncio.run(_read_after_send(interlock.connect(tmp_path / "workspace", token)))
            with (
                interlock.connect(tmp_path / "workspace", token) as client,
                pytest.raises(errors.EngineUnavailable) as caught,
            ):
                client.send("@vera", "hello")
    assert caught.value.members == {"outcome": "unknown"}


async def _read_after_send(client: Client) -> None:
    async with client as twin:
        with pytest.raises(errors.EngineUnavailable) as caught:
            await twin.send("@vera", "hello")
        assert caught.value.members == {"outcome": "unknown"}
        assert (await twin.whoami())["sender"] == "otto"


def test_refused_connection_has_no_unknown_outcome() -> None:
    found = refusals(interlock.connect(f"http://127.0.0.1:{free_port()}", "a token"))
    assert [type(refusal) for refusal in found] == [errors.EngineUnavailable] * 4
    assert all(refusal.members == {} for refusal in found)


@pytest.mark.parametrize(("status", "body"), [(b"200 OK", b"<html>"), (b"502 Bad Gateway", b"[]")])
def test_other_web_server_is_reported_as_not_interlock(status: bytes, body: bytes) -> None:
    # `connection: close` stops the client from reusing a connection that is being closed.
    head = b"HTTP/1.1 %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
    page = head % (status, len(body)) + body
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with dying_server(listener, page):
        found = refusals(interlock.connect(url, "a token"))
    assert all("not an Interlock server" in refusal.message for refusal in found)


def test_stale_socket_of_a_killed_server_falls_back_to_the_file(
    tmp_path: Path, servers: Servers
) -> None:
    with opened_workspace(tmp_path, Manner("socket", "sync"), servers) as workspace:
        workspace.served.kill()
        assert workspace.hand(workspace.tokens["otto"]).send("@vera", "hello")["accepted"]
        asyncio.run(_sent(workspace.connect(workspace.tokens["otto"])))
        workspace.served.restart()


async def _sent(client: Client) -> None:
    async with client as twin:
        assert (await twin.send("@vera", "hello"))["accepted"]


def test_threads_can_share_a_client(workspace: ClientWorkspace) -> None:
    accepted: list[bool] = []
    with workspace.connect(workspace.tokens["otto"]) as otto:
        together = threading.Barrier(8)

        def send() -> None:
            together.wait(LIMIT_S)
            accepted.append(otto.send("@vera", "hello")["accepted"])

        threads = [threading.Thread(target=send) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_S)
    assert accepted == [True] * 8
    assert open_logs(workspace) == []


def open_logs(workspace: ClientWorkspace) -> list[str]:
    """Return the log files that this process has open, on systems with /proc."""
    try:
        numbers = os.listdir("/proc/self/fd")
    except OSError:
        return []
    paths = []
    for number in numbers:
        with suppress(OSError):
            paths.append(os.readlink(f"/proc/self/fd/{number}"))
    return [path for path in paths if path.startswith(str(workspace.directory / "log.db"))]


def test_client_cannot_be_entered_twice_at_once(tmp_path: Path) -> None:
    async def twice() -> None:
        client = interlock.connect(tmp_path / "workspace")
        async with client as twin:
            assert (await twin.status())["messages"] == 0
            with pytest.raises(RuntimeError):
                await client.__aenter__()
        async with client as twin:
            assert (await twin.status())["messages"] == 0

    asyncio.run(twice())
