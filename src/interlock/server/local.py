"""The workspace's own sockets: for whoever could write its file as well, and nobody else."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from interlock.contracts.acts import Credentials
from interlock.contracts.encoding import decode
from interlock.doors import mcp
from interlock.errors import Refusal
from interlock.node.live import LiveNode
from interlock.repository import name_here

_LOG = logging.getLogger("interlock.mcp")
GREETING_WITHIN_S = 10.0


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


@asynccontextmanager
async def mcp_socket(live: LiveNode, path: str) -> AsyncIterator[None]:
    """Serves MCP to the bridges of clients on this machine: a line of credentials, then MCP as it
    is spoken over standard input and output."""
    clients: set[asyncio.Task[None]] = set()

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        clients.add(task)
        try:
            await _converse(live, reader, writer)
        except (OSError, ValueError, KeyError, TimeoutError, Refusal):
            return
        except Exception:  # noqa: BLE001 - one client's trouble is not the others'
            _LOG.exception("defect")
        finally:
            clients.discard(task)
            writer.close()

    server = await asyncio.start_unix_server(client, sock=local_socket(path))
    try:
        yield
    finally:
        server.close()
        for task in list(clients):
            task.cancel()
        await asyncio.gather(*clients, return_exceptions=True)


async def _converse(
    live: LiveNode, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    async with asyncio.timeout(GREETING_WITHIN_S):
        greeting: dict[str, Any] = decode(await reader.readline())
    shown = Credentials(
        token=greeting.get("token"),
        session=greeting.get("session"),
        claimed=greeting.get("claimed"),
    )
    repo = await asyncio.to_thread(name_here, greeting["cwd"])
    async with mcp.kept(live, shown, greeting.get("own_session")):
        await mcp.serve(live, shown, reader, writer, repo)
