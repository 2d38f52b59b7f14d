"""The official MCP client over every transport: a process on stdio, a Unix socket, HTTP.

Each test opens a transport to its own workspace, for both families of revisions: "legacy" has a
handshake, "2026-07-28" has none.
"""

import asyncio
import functools
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import httpx2
import uvicorn
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import CallToolResult, TextContent, jsonrpc_message_adapter
from starlette.types import Scope

from interlock.doors.http import Guard
from interlock.doors.http.metrics import Metrics
from interlock.doors.mcp import Mounted, serve
from interlock.doors.mcp.service import Here
from interlock.node import Node
from interlock.node.live import LiveNode
from interlock.verbs.credentials import Credentials
from world import chosen
from world.prepared import Prepared
from world.workspace import join

LIMIT_S = 60.0
MODES = ("legacy", "2026-07-28")
ENTRANCES = ("stdio", "stream", "http")
# The command that a client starts. It takes a second to start.
PROCESS = (sys.executable, "-m", "interlock.doors.mcp")


def awaited(story: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a coroutine as a test, with a time limit."""

    @functools.wraps(story)
    def told(*arguments: Any, **named: Any) -> None:
        async def limited() -> None:
            async with asyncio.timeout(2 * LIMIT_S):
                await story(*arguments, **named)

        asyncio.run(limited())

    return told


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition, with a time limit."""
    async with asyncio.timeout(LIMIT_S):
        while not await condition():
            await asyncio.sleep(0.02)


class Said(NamedTuple):
    """The answer of a tool."""

    error: bool
    text: str
    answer: dict[str, Any]

    @property
    def code(self) -> str:
        assert self.error, self
        code: str = self.answer["code"]
        return code


class Caller:
    """One client of one sender."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, tool: str, /, **arguments: Any) -> Said:
        return said(await self.client.call_tool(tool, arguments))

    async def ok(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Return the answer of a call that must not be refused."""
        result = await self(tool, **arguments)
        assert not result.error, result
        return result.answer


def said(result: Any) -> Said:
    assert isinstance(result, CallToolResult)
    (block,) = result.content
    assert isinstance(block, TextContent)
    assert isinstance(result.structured_content, dict)
    return Said(bool(result.is_error), block.text, result.structured_content)


class McpWorkspace:
    """A workspace for MCP clients, with the senders otto-cli, nova (an agent) and vera (a person).

    Its node is open only inside `live`, because a client's process opens the file itself."""

    def __init__(self, tmp_path: Path, prepared: Prepared) -> None:
        self.prepared = prepared
        self.directory = str(tmp_path / "workspace")
        self.home = tmp_path
        os.mkdir(self.directory)
        with Node(self.directory) as node:
            self._joined = {
                "otto-cli": join(node, "otto", "cli"),
                "nova": join(node, "nova"),
                "vera": join(node, "vera", kind="human"),
            }
        self.tokens = {sender: str(by.token) for sender, by in self._joined.items()}

    def credentials(self, sender: str, session: str | None = None) -> Credentials:
        """The credentials of a sender in one of its sessions."""
        return self._joined[sender]._replace(session=session)

    @asynccontextmanager
    async def live(self) -> AsyncIterator[LiveNode]:
        """The workspace's node on the event loop."""
        with Node(self.directory) as node:
            async with LiveNode(node) as live:
                yield live

    @asynccontextmanager
    async def entrance(self, kind: str, live: LiveNode) -> AsyncIterator["Entrance"]:
        """Open a transport for many clients."""
        async with AsyncExitStack() as stack:
            place = ""
            if kind == "stream":
                place = await stack.enter_async_context(unix_socket(self, live))
            elif kind == "http":
                place = await stack.enter_async_context(http_server(live))
            yield Entrance(self, kind, place)

    def environment(self, sender: str, **more: str) -> dict[str, str]:
        """The environment of a sender's client."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "INTERLOCK_WORKSPACE": self.directory,
            "INTERLOCK_TOKEN": self.tokens[sender],
            **chosen.variables(),
        } | more


class Entrance(NamedTuple):
    """One kind of transport to a workspace, and its address."""

    workspace: McpWorkspace
    kind: str
    place: str

    @asynccontextmanager
    async def client(
        self, sender: str, mode: str = "legacy", session: str | None = None
    ) -> AsyncIterator[Caller]:
        async with Client(self._transport(sender, session), mode=mode) as client:
            yield Caller(client)

    @staticmethod
    @asynccontextmanager
    async def over(opened: "Line", mode: str) -> AsyncIterator[Caller]:
        """Start a client over an open connection."""
        async with Client(transport(opened), mode=mode) as client:
            yield Caller(client)

    def _transport(self, sender: str, session: str | None) -> Any:
        if self.kind == "stream":
            return lines(self.place, f"{sender} {session or ''}")
        if self.kind == "http":
            return over_http(self.place, self.workspace.tokens[sender], session)
        more = {"INTERLOCK_SESSION": session} if session else {}
        environment = self.workspace.environment(sender, **more)
        command, *words = PROCESS if self.kind == "process" else self.workspace.prepared.command()
        return stdio_client(StdioServerParameters(command=command, args=words, env=environment))


# --- over a stream


@asynccontextmanager
async def unix_socket(workspace: McpWorkspace, live: LiveNode) -> AsyncIterator[str]:
    """Serve a socket. The first line of each connection names its sender, as with the bridge."""
    clients: set[asyncio.Task[Any]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        clients.add(task)
        try:
            sender, _, session = (await reader.readline()).decode().rstrip("\n").partition(" ")
            shown = workspace.credentials(sender, session or None)
            await serve(live, shown, reader, writer, Here("example"))
        finally:
            clients.discard(task)
            writer.close()

    path = os.path.join(workspace.directory, "mcp.sock")
    async with await asyncio.start_unix_server(connected, path):
        yield path
        for task in clients:
            task.cancel()
        await asyncio.gather(*clients, return_exceptions=True)


class Line:
    """A connection as bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.heard: list[bytes] = []

    async def say(self, data: bytes) -> None:
        self.writer.write(data + b"\n")
        await self.writer.drain()

    async def hear(self) -> bytes:
        async with asyncio.timeout(LIMIT_S):
            self.heard.append(await self.reader.readline())
        return self.heard[-1]

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()


async def line(path: str, hello: str) -> Line:
    opened = Line(*await asyncio.open_unix_connection(path, limit=1 << 26))
    await opened.say(hello.encode())
    return opened


@asynccontextmanager
async def lines(path: str, hello: str) -> AsyncIterator[Any]:
    """Connect to a socket, and yield the transport for the official client."""
    opened = await line(path, hello)
    async with transport(opened) as streams:
        yield streams
    await opened.close()


@asynccontextmanager
async def transport(opened: Line) -> AsyncIterator[Any]:
    inward, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outward, spoken = anyio.create_memory_object_stream[SessionMessage](0)

    async def hear() -> None:
        async with inward:
            while data := await opened.reader.readline():
                opened.heard.append(data)
                await inward.send(SessionMessage(jsonrpc_message_adapter.validate_json(data)))

    async def speak() -> None:
        async with spoken:
            async for message in spoken:
                await opened.say(
                    message.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
                )

    async with received, outward, anyio.create_task_group() as tasks:
        tasks.start_soon(hear)
        tasks.start_soon(speak)
        yield received, outward
        tasks.cancel_scope.cancel()


# --- over HTTP


def identify(scope: Scope) -> Credentials:
    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
    token = headers.get("authorization", "").removeprefix("Bearer ") or None
    return Credentials(token=token, session=headers.get("interlock-session"))


@asynccontextmanager
async def http_server(live: LiveNode) -> AsyncIterator[str]:
    """Serve the MCP application behind its guard on a free port, as the server process does."""
    mounted = Mounted(live, identify)
    app = Guard(mounted, Metrics(), loopback=True)
    config = uvicorn.Config(app, port=0, log_level="error", lifespan="off", ws="none")
    running = uvicorn.Server(config)
    async with mounted.running():
        task = asyncio.create_task(running.serve())

        async def started() -> bool:
            return running.started or task.done()

        await until(started)
        port = running.servers[0].sockets[0].getsockname()[1]
        try:
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            running.should_exit = running.force_exit = True
            await task


def http_client(token: str | None, session: str | None = None) -> httpx2.AsyncClient:
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    if session is not None:
        headers["Interlock-Session"] = session
    return httpx2.AsyncClient(headers=headers, timeout=LIMIT_S)


@asynccontextmanager
async def over_http(url: str, token: str, session: str | None) -> AsyncIterator[Any]:
    async with http_client(token, session) as client:
        opened: AbstractAsyncContextManager[Any] = streamable_http_client(url, http_client=client)
        async with opened as streams:
            yield streams
