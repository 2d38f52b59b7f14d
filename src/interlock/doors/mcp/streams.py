"""MCP over a stream: one JSON-RPC message a line, as over stdio.

Whatever arrives is answered. A line that is no message, or too long to be one, gets a JSON-RPC
error and the conversation goes on; only the end of the stream ends it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, JSONRPCError, JSONRPCRequest, JSONRPCResponse

from interlock.doors.mcp.plans import ELSEWHERE, Here
from interlock.doors.mcp.service import server
from interlock.doors.mcp.wire import LONGEST, cancelled, encoded, understood, wrong
from interlock.node.live import LiveNode
from interlock.verbs.credentials import Credentials

Read = Callable[[], Awaitable[bytes]]
Write = Callable[[bytes], Awaitable[None]]
Inward = MemoryObjectSendStream[SessionMessage | Exception]
Outward = MemoryObjectSendStream[SessionMessage]

CHUNK: Final = 1 << 16
MAX_PENDING: Final = 256
LAST_ANSWERS_S: Final = 2.0
_TOO_LONG: Final = wrong(INVALID_REQUEST, f"A message has at most {LONGEST} bytes.")


async def serve(
    live: LiveNode,
    credentials: Credentials,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    here: Here = ELSEWHERE,
) -> None:
    """Serves one client over a connection until it is closed. `here` is where the client
    stands, as far as that is known."""

    async def read() -> bytes:
        return await reader.read(CHUNK)

    async def write(data: bytes) -> None:
        if writer.is_closing():
            raise BrokenPipeError
        writer.write(data)
        await writer.drain()

    await converse(server(live, lambda _: credentials, here), read, write)


async def converse(app: Server[Any], read: Read, write: Write) -> None:
    """Serves one client until `read` gives nothing more, or either of them fails."""
    inward, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outward, answers = anyio.create_memory_object_stream[SessionMessage](0)
    pending = _Pending()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_hear, read, inward, outward.clone(), pending)
        tasks.start_soon(_speak, write, answers, pending, tasks.cancel_scope)
        await app.run(received, outward, app.create_initialization_options())


class _Pending:
    """The requests that are not answered yet. What was cancelled never will be."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._fewer = anyio.Event()

    def add(self, id: Any) -> None:
        self._ids.add(str(id))

    def discard(self, id: Any) -> None:
        self._ids.discard(str(id))
        self._fewer.set()
        self._fewer = anyio.Event()

    async def at_most(self, count: int) -> None:
        while len(self._ids) > count:
            await self._fewer.wait()


async def _hear(read: Read, inward: Inward, outward: Outward, pending: _Pending) -> None:
    """Hands on what the client says. When it has said all, what it asked is still answered for a
    moment; then whatever waits is told to stop."""
    async with inward, outward:
        async for line in _lines(read):
            if line is not None and not line.strip():
                continue
            said = understood(line) if line is not None else _TOO_LONG
            if isinstance(said, JSONRPCError):
                await outward.send(SessionMessage(said))
            elif said is not None:
                if isinstance(said, JSONRPCRequest):
                    pending.add(said.id)
                else:
                    pending.discard(cancelled(said))
                await inward.send(SessionMessage(said))
                await pending.at_most(MAX_PENDING)
        with anyio.move_on_after(LAST_ANSWERS_S):
            await pending.at_most(0)


async def _speak(
    write: Write,
    answers: MemoryObjectReceiveStream[SessionMessage],
    pending: _Pending,
    conversation: anyio.CancelScope,
) -> None:
    async with answers:
        async for answer in answers:
            message = answer.message
            try:
                await write(encoded(message) + b"\n")
            except OSError:
                conversation.cancel()
                return
            if isinstance(message, JSONRPCResponse | JSONRPCError):
                pending.discard(message.id)


async def _lines(read: Read) -> AsyncIterator[bytes | None]:
    """The lines of a stream that is read to its end, and None for each that is too long to keep."""
    held: list[bytes] = []
    size = 0
    while chunk := await _read_on(read):
        for number, part in enumerate(chunk.split(b"\n")):
            if number > 0:
                yield b"".join(held) if size <= LONGEST else None
                held, size = [], 0
            size += len(part)
            if size <= LONGEST:
                held.append(part)
    yield b"".join(held) if size <= LONGEST else None


async def _read_on(read: Read) -> bytes:
    try:
        return await read()
    except OSError:
        return b""
