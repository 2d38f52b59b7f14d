"""MCP over a stream: one JSON-RPC message for each line, over a connection or over stdio.

The server answers every line. A malformed or too long line gets a JSON-RPC error, and the
conversation continues until the end of the stream. Meanwhile the server renews the claims of the
client's session.
"""

import asyncio
import os
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final

import anyio
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, JSONRPCError, JSONRPCRequest, JSONRPCResponse

from interlock.doors.mcp.service import (
    ELSEWHERE,
    MAX_MESSAGE_BYTES,
    Here,
    cancelled,
    encoded,
    error,
    parsed,
    release,
    server,
)
from interlock.errors import Refusal
from interlock.node.live import LiveNode
from interlock.rooms.identity.verbs import KeepSession, StartSession
from interlock.verbs.credentials import Credentials
from interlock.verbs.flows import run_async

ReadBytes = Callable[[], Awaitable[bytes]]
WriteBytes = Callable[[bytes], Awaitable[None]]

CHUNK_BYTES: Final = 1 << 16
MAX_PENDING: Final = 256
LAST_ANSWERS_S: Final = 2.0
KEEP_INTERVAL_S: Final = 0.4
KEEP_WINDOW_INTERVAL_S: Final = 30.0


async def serve(
    live: LiveNode,
    credentials: Credentials,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    here: Here = ELSEWHERE,
) -> None:
    """Serve one client over a connection until it is closed. `here` is the client's repository and
    directory, if known."""

    async def write(data: bytes) -> None:
        if writer.is_closing():
            raise BrokenPipeError
        writer.write(data)
        await writer.drain()

    app = server(live, lambda _: credentials, here)
    await converse(app, partial(reader.read, CHUNK_BYTES), write)


async def converse(app: Server[Any], read: ReadBytes, write: WriteBytes) -> None:
    """Serve one client until `read` returns no more bytes, or until `read` or `write` fails."""
    inward, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outward, answers = anyio.create_memory_object_stream[SessionMessage](0)
    errors = outward.clone()
    pending = _Pending()

    async def hear() -> None:
        async with inward, errors:
            async for line in _lines(read):
                if line is not None and not line.strip():
                    continue
                too_long = f"The message is longer than {MAX_MESSAGE_BYTES} bytes."
                message = parsed(line) if line is not None else error(INVALID_REQUEST, too_long)
                if isinstance(message, JSONRPCError):
                    await errors.send(SessionMessage(message))
                elif message is not None:
                    if isinstance(message, JSONRPCRequest):
                        pending.add(message.id)
                    else:
                        pending.discard(cancelled(message))
                    await inward.send(SessionMessage(message))
                    await pending.at_most(MAX_PENDING)
            # The client has closed its side. Answer its requests for a short time. Then closing the
            # stream cancels the requests that still wait.
            with anyio.move_on_after(LAST_ANSWERS_S):
                await pending.at_most(0)

    async def speak() -> None:
        async with answers:
            async for answer in answers:
                message = answer.message
                try:
                    await write(encoded(message) + b"\n")
                except OSError:
                    tasks.cancel_scope.cancel()
                    return
                if isinstance(message, JSONRPCResponse | JSONRPCError):
                    pending.discard(message.id)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hear)
        tasks.start_soon(speak)
        await app.run(received, outward, app.create_initialization_options())


class _Pending:
    """The requests that wait for an answer. A cancelled request gets no answer."""

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


async def _lines(read: ReadBytes) -> AsyncIterator[bytes | None]:
    """Yield the lines of a stream, and None for each line that is too long."""
    held: list[bytes] = []
    size = 0
    while True:
        try:
            chunk = await read()
        except OSError:
            chunk = b""
        if not chunk:
            break
        for number, part in enumerate(chunk.split(b"\n")):
            if number > 0:
                yield b"".join(held) if size <= MAX_MESSAGE_BYTES else None
                held, size = [], 0
            size += len(part)
            if size <= MAX_MESSAGE_BYTES:
                held.append(part)
    yield b"".join(held) if size <= MAX_MESSAGE_BYTES else None


# --- standard input and output


def standard_streams() -> tuple[ReadBytes, WriteBytes]:
    """Return the streams of the client that started this process. Afterwards, other code in this
    process reads an empty standard input and prints to standard error.

    Threads read and write, because asyncio cannot wait for files and some devices."""
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    in_reader, in_writer = _thread(), _thread()

    def write_all(data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(sink, rest) :]

    async def read() -> bytes:
        data: bytes = await in_reader(partial(os.read, source, CHUNK_BYTES))
        return data

    async def write(data: bytes) -> None:
        await in_writer(partial(write_all, data))

    return read, write


def _thread() -> Callable[[Callable[[], Any]], Awaitable[Any]]:
    """Return a function that runs jobs one after another in a thread of their own. The process can
    end without waiting for the thread, unlike for the threads of an executor."""
    jobs: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()

    def work() -> None:
        while True:
            job, future = jobs.get()
            with suppress(InvalidStateError):  # the loop has ended and cancelled the future
                try:
                    future.set_result(job())
                except OSError as trouble:
                    future.set_exception(trouble)

    async def run(job: Callable[[], Any]) -> Any:
        future: Future[Any] = Future()
        jobs.put((job, future))
        return await asyncio.wrap_future(future)

    threading.Thread(target=work, daemon=True).start()
    return run


# --- the session of the client


@asynccontextmanager
async def kept(
    live: LiveNode,
    credentials: Credentials,
    own: str | None,
    gives_up: Callable[[], bool] = lambda: True,
) -> AsyncIterator[None]:
    """Renew the claims of a session that the client's configuration names. Release them at the end,
    unless `gives_up` then returns False because the client still runs. The session does not end,
    because the client uses the same configuration at its next start."""
    if own is None:
        yield
        return
    await live.call(credentials, StartSession(own))
    keeper = asyncio.create_task(_keep(live, lambda: (credentials, own), KEEP_INTERVAL_S))
    try:
        yield
    finally:
        keeper.cancel()
        if gives_up():
            with suppress(Refusal):
                await run_async(release({"all": True}), partial(live.call, credentials))


@asynccontextmanager
async def window_kept(
    live: LiveNode, credentials_of: Callable[[object], Credentials]
) -> AsyncIterator[None]:
    """Renew the claims of the client window that started this process, in its current session. An
    idle client runs no hooks that would renew them, and there is no server that does it."""

    def current() -> tuple[Credentials, str | None]:
        credentials = credentials_of(None)
        return credentials, credentials.session

    keeper = asyncio.create_task(_keep(live, current, KEEP_WINDOW_INTERVAL_S))
    try:
        yield
    finally:
        keeper.cancel()


async def _keep(
    live: LiveNode, current: Callable[[], tuple[Credentials, str | None]], interval_s: float
) -> None:
    while True:
        await asyncio.sleep(interval_s)
        credentials, session = current()
        if session is not None:
            with suppress(Refusal):
                await live.call(credentials, KeepSession(session))
