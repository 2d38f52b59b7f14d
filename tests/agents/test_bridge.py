"""`interlock mcp` while a server runs: a small process that forwards to the server, and keeps
running after the server ends."""

import asyncio
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from interlock.agents.bridge import Bridge, FdPair, channel_notification
from interlock.local.link import is_served
from world.commandline import LIMIT_S, Place, lines, until
from world.doors import HELLO
from world.fork_server import Running, Servers
from world.mcp_clients import MODES, Caller, awaited

pytestmark = pytest.mark.every_engine

TWENTY_MB = 20 << 20
GONE = -32000
WAITING = {"name": "inbox", "arguments": {"wait_s": 45}}


class ServedWorkspace:
    """A workspace with the senders otto-cli and vera, and its server, which a test can end and
    restart."""

    def __init__(self, place: Place, servers: Servers) -> None:
        self.place, self._servers = place, servers
        self.tokens = {
            "otto-cli": place.join("otto", "cli"),
            "vera": place.join("vera", None, "--kind", "human"),
        }
        self._running: Running | None = None
        self.start()

    def start(self) -> None:
        place = self.place
        self._running = self._servers.start(str(place.workspace), place.environ, str(place.cwd))

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def end(self) -> None:
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        assert self._running is not None
        os.kill(self._running.pid, number)
        self._running = None
        until(lambda: not is_served(str(self.place.workspace)))

    def close(self) -> None:
        if self._running is not None:
            self._running.end()

    def environ(self, sender: str, **more: str) -> dict[str, str]:
        return self.place.environ | {"INTERLOCK_TOKEN": self.tokens[sender]} | more

    def until_waiting(self, sender: str) -> None:
        """Wait until a client waits for the sender's mail."""
        until(lambda: self.reach(sender) == "wakes")

    def reach(self, sender: str) -> str:
        agents = self.place.ok("agents")["agents"]
        return {agent["address"]: str(agent["reach"]) for agent in agents}[f"@{sender}"]


@pytest.fixture
def workspace(tmp_path: Path, servers: Servers) -> Iterator[ServedWorkspace]:
    """A workspace whose server runs at the start of the test."""
    workspace = ServedWorkspace(Place(tmp_path), servers)
    yield workspace
    workspace.close()


# --- the official client


@asynccontextmanager
async def client(
    workspace: ServedWorkspace, sender: str, mode: str, **more: str
) -> AsyncIterator[Caller]:
    bridge = StdioServerParameters(
        command=sys.executable,
        args=["-m", "interlock", "mcp"],
        env=workspace.environ(sender, **more),
        cwd=workspace.place.cwd,
    )
    async with Client(stdio_client(bridge), mode=mode) as opened:
        yield Caller(opened)


@pytest.mark.parametrize("is_served", [True, False])
@awaited
async def test_a_client_without_hooks_has_the_reach_of_its_last_call(
    is_served: bool, workspace: ServedWorkspace
) -> None:
    if not is_served:
        workspace.end()
    bridge = StdioServerParameters(
        command=sys.executable,
        args=["-m", "interlock", "mcp", "--from", "otto-cli"],
        env=workspace.place.environ,
        cwd=workspace.place.cwd,
    )
    async with Client(stdio_client(bridge), mode=MODES[0]) as opened:
        await Caller(opened).ok("whoami")
        assert workspace.reach("otto-cli") == "waits"
    assert workspace.reach("otto-cli") == "waits"


@pytest.mark.parametrize("mode", MODES)
@awaited
async def test_the_client_lists_and_calls_tools_through_the_server(
    mode: str, workspace: ServedWorkspace
) -> None:
    async with client(workspace, "otto-cli", mode) as otto, client(workspace, "vera", mode) as vera:
        assert len((await otto.client.list_tools()).tools) == 12
        assert (await otto.ok("whoami"))["sender"] == "otto-cli"
        sent = await otto.ok("send", to="@vera", text="hello")
        (message,) = (await vera.ok("inbox"))["messages"]
        assert message["id"] == sent["message"]["id"]
        refused = await otto("send", to="AGENT:vera", text="hello")
        assert refused.code == "INVALID_RECIPIENT_SHAPE"
        assert refused.answer["did_you_mean"] == ["@vera"]


@pytest.mark.parametrize("mode", MODES)
@awaited
async def test_identity_and_session_come_from_the_environment(
    mode: str, workspace: ServedWorkspace
) -> None:
    async with client(workspace, "otto-cli", mode, INTERLOCK_SESSION="s-1") as otto:
        assert (await otto.ok("whoami"))["session"] == "s-1"
        claim = (await otto.ok("claim", item="B-1"))["claim"]
        assert (claim["holder"], claim["session"]) == ("@otto-cli", "s-1")
        for member in ("from", "sender", "source"):
            other = await otto("send", to="@vera", text="x", **{member: "vera"})
            assert other.code == "IDENTITY_MISMATCH"
        assert not (await otto("send", to="@vera", text="x", **{"from": "otto-cli"})).error


@pytest.mark.parametrize("mode", MODES)
@awaited
async def test_a_killed_server_fails_only_the_open_call(
    mode: str, workspace: ServedWorkspace
) -> None:
    async with client(workspace, "otto-cli", mode) as otto:
        before = await otto.ok("send", to="@vera", text="hello", key="k")
        waiting = asyncio.create_task(otto("inbox", wait_s=45))
        await asyncio.to_thread(workspace.until_waiting, "otto-cli")
        workspace.kill()
        lost = await waiting
        assert lost.code == "ENGINE_UNAVAILABLE"
        assert lost.answer["outcome"] == "unknown"
        assert json.loads(lost.text) == lost.answer
        workspace.start()
        after = await otto.ok("send", to="@vera", text="hello", key="k")
        assert after["message"] == before["message"]
        assert len((await otto.client.list_tools()).tools) == 12


@pytest.mark.parametrize("mode", MODES)
@awaited
async def test_the_bridge_starts_its_own_node_if_the_server_does_not_return(
    mode: str, workspace: ServedWorkspace
) -> None:
    async with client(workspace, "otto-cli", mode, INTERLOCK_SESSION="s-1") as otto:
        await otto.ok("claim", item="B-1")
        workspace.end()
        assert (await otto.ok("whoami"))["session"] == "s-1"
        assert (await otto.ok("release", item="B-1")) == {"released": True}


@awaited
async def test_the_bridge_starts_its_own_node_without_a_server(workspace: ServedWorkspace) -> None:
    workspace.end()
    async with client(workspace, "otto-cli", "legacy") as otto:
        assert (await otto.ok("whoami"))["sender"] == "otto-cli"


# --- the bridge's process


class Talk:
    """A running bridge, and a client that sends it lines."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self._lines = lines(process)
        self._count = 0

    def say(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def begin(self, method: str, params: Any = None) -> int:
        """Send a request, and return its id."""
        self._count += 1
        said = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params or {}}
        self.say(json.dumps(said).encode())
        return self._count

    def hear(self) -> Any:
        return json.loads(next(self._lines))

    def greet(self) -> None:
        self.begin("initialize", HELLO)
        assert self.hear()["id"] == self._count
        self.say(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')

    def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool that answers at once, and return its result."""
        number = self.begin("tools/call", {"name": tool, "arguments": arguments})
        answer = self.hear()
        assert answer["id"] == number, answer
        return answer["result"]["structuredContent"]

    def end(self) -> None:
        """Close the input, and check that the bridge ends without an error."""
        _, complaint = self.process.communicate(timeout=LIMIT_S)
        assert (self.process.returncode, complaint) == (0, b"")

    def children(self) -> list[int]:
        pid = self.process.pid
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


@contextmanager
def talk(
    workspace: ServedWorkspace, sender: str = "otto-cli", *words: str, **more: str
) -> Iterator[Talk]:
    place = workspace.place.but(**workspace.environ(sender, **more))
    with place.start("mcp", *words) as process:
        try:
            yield Talk(process)
        finally:
            process.kill()


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's /proc")
def test_the_bridge_uses_little_memory(workspace: ServedWorkspace) -> None:
    with talk(workspace) as otto:
        otto.greet()
        for number in range(20):
            otto.call("send", to="@vera", text=f"{number} " * 1000)
        status = Path(f"/proc/{otto.process.pid}/status").read_text()
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        assert int(peak.split()[1]) * 1024 <= TWENTY_MB
        assert otto.children() == []
        otto.end()


def test_the_bridge_has_no_slow_imports(workspace: ServedWorkspace) -> None:
    with talk(workspace, PYTHONPROFILEIMPORTTIME="1") as otto:
        otto.greet()
        otto.call("whoami")
        _, complaint = otto.process.communicate(timeout=LIMIT_S)
    imported = {line.rpartition("|")[2].strip() for line in complaint.decode().splitlines()}
    assert "interlock.agents.bridge" in imported
    heavy = {"asyncio", "pydantic", "mcp", "mcp_types", "anyio", "starlette", "apsw", "subprocess"}
    assert not heavy & {name.partition(".")[0] for name in imported}
    assert not any(name.startswith(("interlock.node", "interlock.rooms")) for name in imported)


def test_the_client_gets_no_second_answer_to_its_greeting_after_a_restart(
    workspace: ServedWorkspace,
) -> None:
    with talk(workspace) as otto:
        otto.greet()
        for _ in range(3):
            workspace.kill()
            workspace.start()
            assert otto.call("whoami")["sender"] == "otto-cli"
        otto.end()


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="needs Linux's /proc")
def test_the_bridge_uses_a_restarted_server_or_else_a_node_that_ends_with_the_bridge(
    workspace: ServedWorkspace,
) -> None:
    with talk(workspace) as otto:
        otto.greet()
        workspace.kill()
        workspace.start()
        otto.call("whoami")
        assert otto.children() == []
        workspace.end()
        otto.call("whoami")
        (node,) = otto.children()
        otto.end()
        until(lambda: not os.path.exists(f"/proc/{node}"))


def test_every_open_call_is_answered_when_the_server_dies(workspace: ServedWorkspace) -> None:
    with talk(workspace) as otto:
        otto.greet()
        opened = [otto.begin("tools/call", WAITING) for _ in range(3)]
        workspace.until_waiting("otto-cli")
        workspace.kill()
        lost = [otto.hear() for _ in opened]
        assert [answer["id"] for answer in lost] == opened
        for answer in lost:
            assert answer["result"]["isError"] is True
            error = answer["result"]["structuredContent"]
            assert (error["code"], error["outcome"]) == ("ENGINE_UNAVAILABLE", "unknown")
            assert {"error", "message"} <= set(error)
            (text,) = answer["result"]["content"]
            assert (text["type"], json.loads(text["text"])) == ("text", error)
        otto.end()


def test_two_bridges_have_two_identities(workspace: ServedWorkspace) -> None:
    with talk(workspace) as otto, talk(workspace, "vera") as vera:
        otto.greet()
        vera.greet()
        waiting = vera.begin("tools/call", WAITING)
        workspace.until_waiting("vera")
        sent = otto.call("send", to="@vera", text="hello")["message"]["id"]
        answer = vera.hear()
        assert answer["id"] == waiting
        assert answer["result"]["structuredContent"]["messages"][0]["id"] == sent
        otto.end()
        vera.end()


# --- the end of the bridge


def test_the_bridge_ends_at_the_end_of_its_input(workspace: ServedWorkspace) -> None:
    with talk(workspace) as otto:
        otto.end()


def test_the_bridge_ends_at_the_end_of_its_input_while_a_call_waits(
    workspace: ServedWorkspace,
) -> None:
    with talk(workspace) as otto:
        otto.greet()
        otto.begin("tools/call", WAITING)
        workspace.until_waiting("otto-cli")
        otto.end()
    workspace.place.ok("status")


def test_a_request_just_before_the_end_of_input_is_answered(workspace: ServedWorkspace) -> None:
    with talk(workspace) as otto:
        otto.greet()
        call = {"name": "send", "arguments": {"to": "@vera", "text": "last words"}}
        said = {"jsonrpc": "2.0", "id": "last", "method": "tools/call", "params": call}
        heard, _ = otto.process.communicate(json.dumps(said).encode() + b"\n", timeout=LIMIT_S)
    assert json.loads(heard)["id"] == "last"
    assert json.loads(heard)["result"]["isError"] is False


def test_a_client_that_closes_its_output_causes_no_error(workspace: ServedWorkspace) -> None:
    with talk(workspace) as otto:
        otto.greet()
        assert otto.process.stdout is not None
        otto.process.stdout.close()
        otto.begin("tools/call", {"name": "whoami", "arguments": {}})
        assert otto.process.wait(LIMIT_S) == 0
        assert otto.process.stderr is not None
        assert otto.process.stderr.read() == b""


def test_a_bridge_without_an_identity_fails_with_a_remedy(workspace: ServedWorkspace) -> None:
    with workspace.place.start("mcp") as process:
        heard, complaint = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, heard) == (3, b"")
    assert b"--from SENDER" in complaint


# --- invalid messages

JUNK = {
    b"not json": -32700,
    b"\xff\xfe\x00": -32700,
    b"[]": -32600,
    b"5": -32600,
    b'{"jsonrpc": "1.0", "id": 5, "method": "x"}': -32600,
    b'{"id": {"a": 1}, "method": "x"}': -32600,
    b"[" * 100_000: -32700,
    b'{"jsonrpc": "2.0", "id": "' + b"x" * 9_000_000 + b'", "method": "ping"}': -32600,
}


def test_invalid_lines_get_an_error_and_later_calls_work(workspace: ServedWorkspace) -> None:
    with talk(workspace) as otto:
        otto.greet()
        for junk, code in JUNK.items():
            otto.say(junk)
            answer = otto.hear()
            assert answer["error"]["code"] == code, (junk[:80], answer)
            assert otto.call("whoami")["sender"] == "otto-cli"
        otto.say(b"")
        otto.say(b"   ")
        assert otto.call("whoami")["sender"] == "otto-cli"
        otto.end()


def test_many_calls_at_once_are_all_answered(workspace: ServedWorkspace) -> None:
    """They fill the buffers of both ends, so a bridge that waits for one end would deadlock."""
    with talk(workspace) as otto:
        otto.greet()
        sent = otto.call("send", to="@vera", text="x" * 50_000)["message"]["id"]
        read = {"name": "read", "arguments": {"id": sent}, "_meta": {"padding": "x" * 4000}}
        calls = [
            {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": read}
            for number in range(1000, 1400)
        ]
        said = "".join(json.dumps(call) + "\n" for call in calls).encode()
        heard, complaint = otto.process.communicate(said, timeout=2 * LIMIT_S)
    answers = [json.loads(line) for line in heard.splitlines()]
    assert complaint == b""
    assert sorted(answer["id"] for answer in answers) == [call["id"] for call in calls]
    assert not any(answer["result"]["isError"] for answer in answers)


def test_a_client_may_send_all_requests_before_it_reads(workspace: ServedWorkspace) -> None:
    with talk(workspace) as otto:
        otto.greet()
        params = {"_meta": {"example.org/padding": "x" * 10_000}}
        asked = [
            {"jsonrpc": "2.0", "id": number, "method": "tools/list", "params": params}
            for number in range(1000, 1060)
        ]
        _say_all(otto, asked[:20])
        until(lambda: _unread(otto) > 60_000)
        _say_all(otto, asked[20:])
        heard = [otto.hear() for _ in asked]
        assert sorted(answer["id"] for answer in heard) == [line["id"] for line in asked]
        assert all(answer["result"]["tools"] for answer in heard)
        otto.end()


def _say_all(otto: Talk, asked: list[Any]) -> None:
    assert otto.process.stdin is not None
    inward = otto.process.stdin.fileno()
    os.set_blocking(inward, False)
    said = "".join(json.dumps(line) + "\n" for line in asked).encode()
    while said:
        _, takes_more, _ = select.select([], [inward], [], LIMIT_S)
        assert takes_more, f"the bridge did not read {len(said)} bytes"
        said = said[os.write(inward, said) :]


def _unread(otto: Talk) -> int:
    """Return the number of bytes of answers in the pipe."""
    assert otto.process.stdout is not None
    count = fcntl.ioctl(otto.process.stdout.fileno(), termios.FIONREAD, bytes(4))
    return int.from_bytes(count, sys.byteorder)


# --- a server that shuts down

OWN = ("--session", "window")


def test_claims_of_a_running_client_outlive_the_server(workspace: ServedWorkspace) -> None:
    with talk(workspace, "otto-cli", *OWN) as otto:
        otto.greet()
        before = otto.call("claim", item="B-1")["claim"]
        workspace.end()
        (after,) = otto.call("claim", item="B-1", check=True)["claims"]
        assert (after["id"], after["session"]) == (before["id"], "window")
        otto.end()


def test_claims_of_a_client_are_released_when_it_ends(workspace: ServedWorkspace) -> None:
    with talk(workspace, "otto-cli", *OWN) as otto, talk(workspace, "vera") as vera:
        otto.greet()
        vera.greet()
        otto.call("claim", item="B-1")
        assert vera.call("claim", item="B-1", check=True)["claimed"] is True
        otto.end()
        until(lambda: not vera.call("claim", item="B-1", check=True)["claimed"])


def test_requests_during_a_shutdown_are_executed_once(workspace: ServedWorkspace) -> None:
    """The old server or the next node executes each request, and no outcome is unknown."""
    results: list[Any] = []
    ended = threading.Event()

    def send(otto: Talk) -> None:
        while not ended.is_set():
            otto.begin("tools/call", {"name": "send", "arguments": {"to": "@vera", "text": "x"}})
            results.append(otto.hear()["result"])

    with ExitStack() as stack:
        talks = [stack.enter_context(talk(workspace)) for _ in range(3)]
        for otto in talks:
            otto.greet()
        threads = [threading.Thread(target=send, args=[otto]) for otto in talks]
        for thread in threads:
            thread.start()
        try:
            until(lambda: len(results) > 50)
            workspace.end()
        finally:
            ended.set()
            for thread in threads:
                thread.join()
    assert [result for result in results if result["isError"]] == []
    sent = [result["structuredContent"]["message"]["id"] for result in results]
    stored = workspace.place.query("SELECT id FROM mail_messages WHERE sender = 'otto-cli'")
    assert sorted(sent) == sorted(id for (id,) in stored)


# --- a bridge in this process, with a fake client and fake servers


class Ends:
    """A bridge in a thread. The test acts as its client, and as its far ends, one after another."""

    def __init__(self, stack: ExitStack, count: int, news: Callable[[], int] | None = None) -> None:
        def pair() -> list[socket.socket]:
            return [stack.enter_context(end) for end in socket.socketpair()]

        self.client, near = pair()
        self.client.settimeout(LIMIT_S)
        pairs = [pair() for _ in range(count)]
        self.servers = [server for server, _ in pairs]
        for server in self.servers:
            server.settimeout(LIMIT_S)
        self.left = [far for _, far in pairs]
        bridge = Bridge(FdPair(near.fileno(), near.fileno()), self._find, news=news)
        self._thread = threading.Thread(target=bridge.run, daemon=True)
        self._thread.start()
        self._heard = self.client.makefile("rb")
        stack.enter_context(self._heard)

    def _find(self) -> FdPair:
        if not self.left:
            raise FileNotFoundError
        end = self.left.pop(0).detach()
        return FdPair(end, end)

    def say(self, id: int, method: str) -> bytes:
        said = {"jsonrpc": "2.0", "id": id, "method": method}
        self.client.sendall(json.dumps(said).encode() + b"\n")
        return json.dumps(said).encode() + b"\n"

    def hear(self) -> Any:
        return json.loads(self._heard.readline())

    def end(self) -> None:
        self.client.shutdown(socket.SHUT_WR)
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """A stack of contexts that end with the test."""
    with ExitStack() as stack:
        yield stack


def answer_to(id: int) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": {}}).encode() + b"\n"


@pytest.mark.parametrize("last", ["answer", "nothing"])
def test_requests_that_the_server_did_not_receive_go_to_the_next_one(
    last: str, stack: ExitStack
) -> None:
    ends = Ends(stack, 2)
    one, other = ends.servers
    first = ends.say(1, "tools/call")
    assert one.recv(1000) == first
    one.shutdown(socket.SHUT_RD)
    second = ends.say(2, "tools/call")
    if last == "answer":
        one.sendall(answer_to(1))
        assert ends.hear() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    one.close()
    if last == "nothing":
        lost = ends.hear()
        assert lost["id"] == 1
        assert lost["result"]["structuredContent"]["outcome"] == "unknown"
    assert other.recv(1000) == second
    other.sendall(answer_to(2))
    assert ends.hear() == {"jsonrpc": "2.0", "id": 2, "result": {}}
    ends.end()


def test_a_notification_alone_starts_no_new_far_end(stack: ExitStack) -> None:
    ends = Ends(stack, 2)
    one = ends.servers[0]
    one.shutdown(socket.SHUT_RD)
    ends.client.sendall(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    one.close()
    ends.end()
    assert len(ends.left) == 1


@pytest.mark.parametrize(("count", "left"), [(1, 0), (9, 6)])
def test_a_request_that_no_server_receives_has_no_unknown_outcome(
    count: int, left: int, stack: ExitStack
) -> None:
    """The bridge retries once, and not for ever."""
    ends = Ends(stack, count)
    for server in ends.servers:
        server.shutdown(socket.SHUT_RD)
    ends.say(1, "tools/call")
    for server in ends.servers:
        server.close()
    refused = ends.hear()["result"]["structuredContent"]
    assert refused["code"] == "ENGINE_UNAVAILABLE"
    assert "outcome" not in refused
    assert len(ends.left) >= left
    ends.end()


def test_the_bridge_closes_the_pipe_of_notices_at_its_end(stack: ExitStack) -> None:
    news, read = (stack.enter_context(end) for end in socket.socketpair())
    news.settimeout(LIMIT_S)
    ends = Ends(stack, 1, read.detach)
    (server,) = ends.servers
    said = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n'
    ends.client.sendall(said)
    assert server.recv(1000) == said
    news.sendall(channel_notification("mail", 1))
    assert ends.hear() == json.loads(channel_notification("mail", 1))
    news.shutdown(socket.SHUT_WR)
    assert news.recv(1) == b"", "the other end is closed"
    asked = ends.say(1, "tools/call")
    assert server.recv(1000) == asked
    server.sendall(answer_to(1))
    assert ends.hear()["id"] == 1
    ends.end()


def test_only_tool_calls_are_answered_with_a_tool_error(stack: ExitStack) -> None:
    ends = Ends(stack, 1)
    (server,) = ends.servers
    asked = ends.say(1, "tools/list")
    assert server.recv(1000) == asked
    server.close()
    lost = ends.hear()
    assert (lost["id"], lost["error"]["code"]) == (1, GONE)
    assert "may have executed" in lost["error"]["message"]
    ends.end()
