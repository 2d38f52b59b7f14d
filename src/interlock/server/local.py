"""The workspace's own sockets: for whoever could write its file as well, and nobody else."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from interlock.errors import Refusal
from interlock.local.repository import name_here
from interlock.log.encoding import decode
from interlock.node.live import LiveNode
from interlock.server.tools import door
from interlock.verbs.credentials import Credentials

_LOG = logging.getLogger("interlock.mcp")
GREETING_WITHIN_S = 10.0
FAREWELL_S = 5.0


def local_socket(path: str) -> socket.socket:
    """A socket for this user alone. What a killed server left there is replaced."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    local = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        local.bind(path)
    finally:
        os.umask(before)
    return local


class _Client:
    """One bridge's connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.is_cut = False

    def cut(self) -> None:
        """Hears what was said until now, and then an end. The bridge cannot write any more, and so
        it knows what was not heard, and says it elsewhere."""
        self.is_cut = not self.reader.at_eof()
        with suppress(OSError):
            own = os.dup(self.writer.get_extra_info("socket").fileno())
            with socket.socket(fileno=own) as connection:
                connection.shutdown(socket.SHUT_RD)

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()


@asynccontextmanager
async def mcp_socket(live: LiveNode, path: str) -> AsyncIterator[None]:
    """Serves MCP to the bridges of clients on this machine: a line of credentials, then MCP as it
    is spoken over standard input and output. In the end, what was asked is answered."""
    clients: dict[asyncio.Task[None], _Client] = {}

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        client = clients[task] = _Client(reader, writer)
        try:
            await _served(live, client)
            await client.close()
        finally:
            del clients[task]
            writer.close()

    server = await asyncio.start_unix_server(connected, sock=local_socket(path))
    try:
        yield
    finally:
        server.close()
        await asyncio.sleep(0)  # who was let in just now is a client by then
        for client in clients.values():
            client.cut()
        await _ended(list(clients))


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=FAREWELL_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


async def _served(live: LiveNode, client: _Client) -> None:
    try:
        await _converse(live, client)
    except (OSError, ValueError, KeyError, TimeoutError, Refusal):
        return
    except Exception:  # noqa: BLE001 - one client's trouble is not the others'
        _LOG.exception("defect")


async def _converse(live: LiveNode, client: _Client) -> None:
    async with asyncio.timeout(GREETING_WITHIN_S):
        greeting: dict[str, Any] = decode(await client.reader.readline())
    shown = Credentials(
        token=greeting.get("token"),
        session=greeting.get("session"),
        claimed=greeting.get("claimed"),
    )
    place = greeting["cwd"]
    repo = await asyncio.to_thread(name_here, place)
    mcp = await door()
    async with mcp.kept(live, shown, greeting.get("own_session"), lambda: not client.is_cut):
        await mcp.serve(live, shown, client.reader, client.writer, mcp.Here(repo, place))
