"""The official MCP client as agents use it: over a process on stdio, which opens the workspace or
calls a server, or over HTTP.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from world.commandline import Place
from world.fork_server import Running
from world.mcp_clients import Caller, over_http


class Clients:
    """Clients over one transport of a workspace. A process on stdio uses a running server."""

    def __init__(self, place: Place, *, over_http: bool, running: Running | None) -> None:
        self.place = place
        self.over_http = over_http
        self._running = running

    @asynccontextmanager
    async def client(self, sender: str, session: str | None = None) -> AsyncIterator[Caller]:
        async with Client(self._transport(sender, session), mode="legacy") as client:
            yield Caller(client)

    def _transport(self, sender: str, session: str | None) -> Any:
        token = self.place.token_of(sender)
        if self.over_http:
            assert self._running is not None
            return over_http(f"{self._running.url}/mcp", token, session)
        shown = {"INTERLOCK_TOKEN": token} | ({"INTERLOCK_SESSION": session} if session else {})
        return stdio_client(
            StdioServerParameters(
                command=sys.executable,
                args=["-m", "interlock", "mcp"],
                env=self.place.environ | shown,
                cwd=self.place.cwd,
            )
        )
