"""The official MCP client as agents have it: a process on stdio that is a node of its own or leads
to a server, and that server's own entrance.

Nothing here is a test, and nothing here decides what is right.
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
    """Clients at one entrance of a workspace. With a running server, a process leads to it."""

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
