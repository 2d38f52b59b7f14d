"""MCP, loaded beside the rest: its SDK takes longer to import than everything else together, and
nobody who starts a server should wait for it."""

import asyncio
import importlib
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from starlette.types import Receive, Scope, Send

from interlock.node.live import LiveNode
from interlock.verbs.credentials import Credentials

if TYPE_CHECKING:
    from interlock.doors import mcp


# Two doors are made of the SDK, whose modules import each other: two threads that did so at once,
# beginning at different ends, would wait for each other.
_one_at_a_time = threading.Lock()


async def loaded(module: str) -> Any:
    """A module, imported in a thread of its own the first time."""
    return await asyncio.to_thread(_imported, module)


def _imported(module: str) -> Any:
    with _one_at_a_time:
        return importlib.import_module(module)


async def door() -> Any:
    """The MCP door."""
    return await loaded("interlock.doors.mcp")


class Tools:
    """The application at /mcp. Requests that come before it is loaded wait for it."""

    def __init__(self, live: LiveNode, identify: Callable[[Scope], Credentials]) -> None:
        self._live, self._identify = live, identify
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
        mounted = (await door()).Mounted(self._live, self._identify)
        async with mounted.running():
            self._loaded.set_result(mounted)
            await self._ended.wait()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        mounted = await asyncio.shield(self._loaded)
        await mounted(scope, receive, send)
