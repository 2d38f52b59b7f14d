"""The server's MCP endpoints: /mcp over HTTP, and a socket for the bridges of local clients.

The import of the SDK takes longer than everything else together. A thread imports it, so that the
server starts without waiting.
"""

import asyncio
import importlib
import logging
import os
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from starlette.types import Receive, Scope, Send

from interlock.errors import Refusal
from interlock.local.repository import name_here
from interlock.log.encoding import decode
from interlock.node.live import LiveNode
from interlock.verbs.credentials import Credentials

if TYPE_CHECKING:
    from interlock.doors import mcp

_LOG = logging.getLogger("interlock.mcp")
GREETING_WITHIN_S = 10.0
FAREWELL_S = 5.0

# Two doors use the SDK, whose modules import each other. Two threads that import them from
# different ends at the same time would deadlock.
_one_at_a_time = threading.Lock()


async def loaded(module: str) -> Any:
    """Import a module in a thread."""

    def imported() -> Any:
        with _one_at_a_time:
            return importlib.import_module(module)

    return await asyncio.to_thread(imported)


class Tools:
    """The application at /mcp. Requests wait until it is loaded."""

    def __init__(self, live: LiveNode, credentials_of: Callable[[Scope], Credentials]) -> None:
        self._live, self._credentials_of = live, credentials_of
        self._loaded: asyncio.Future[mcp.Mounted] = asyncio.get_running_loop().create_future()
        self._ended = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        serving = asyncio.create_task(self._serve())
        try:
            yield
        finally:
            self._ended.set()
            await serving

    async def _serve(self) -> None:
        door = await loaded("interlock.doors.mcp")
        mounted = door.Mounted(self._live, self._credentials_of)
        async with mounted.running():
            self._loaded.set_result(mounted)
            await self._ended.wait()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        mounted = await asyncio.shield(self._loaded)
        await mounted(scope, receive, send)


def local_socket(path: str) -> socket.socket:
    """Make a socket that only this user can open. Replace the socket of a killed server."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    local = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        local.bind(path)
    finally:
        os.umask(before)
    return local


class _Bridge:
    """The connection of one client's bridge."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.is_cut = False

    def cut(self) -> None:
        """Read the data that has arrived, and no more. The bridge can no longer write. So it knows
        which messages the server did not read, and sends them to the next server."""
        self.is_cut = not self.reader.at_eof()
        with suppress(OSError):
            own = os.dup(self.writer.get_extra_info("socket").fileno())
            with socket.socket(fileno=own) as connection:
                connection.shutdown(socket.SHUT_RD)

    async def serve(self, live: LiveNode) -> None:
        """Read one line of credentials, then serve MCP as over standard input and output."""
        async with asyncio.timeout(GREETING_WITHIN_S):
            greeting: dict[str, Any] = decode(await self.reader.readline())
        shown = Credentials(
            token=greeting.get("token"),
            session=greeting.get("session"),
            claimed=greeting.get("claimed"),
        )
        place = greeting["cwd"]
        repo = await asyncio.to_thread(name_here, place)
        mcp = await loaded("interlock.doors.mcp")
        async with mcp.kept(live, shown, greeting.get("own_session"), lambda: not self.is_cut):
            await mcp.serve(live, shown, self.reader, self.writer, mcp.Here(repo, place))


@asynccontextmanager
async def mcp_socket(live: LiveNode, path: str) -> AsyncIterator[None]:
    """Serve MCP to the bridges of clients on this machine. At the end, answer the requests that
    have arrived."""
    bridges: dict[asyncio.Task[None], _Bridge] = {}

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        bridge = bridges[task] = _Bridge(reader, writer)
        try:
            try:
                await bridge.serve(live)
            except (OSError, ValueError, KeyError, TimeoutError, Refusal):
                pass
            except Exception:  # noqa: BLE001 - a defect of one connection must not end the others
                _LOG.exception("an MCP connection failed")
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        finally:
            del bridges[task]
            writer.close()

    server = await asyncio.start_unix_server(connected, sock=local_socket(path))
    try:
        yield
    finally:
        server.close()
        await asyncio.sleep(0)  # lets a just accepted connection enter `bridges`
        for bridge in bridges.values():
            bridge.cut()
        if bridges:
            _, late = await asyncio.wait(list(bridges), timeout=FAREWELL_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
