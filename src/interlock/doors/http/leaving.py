"""Whoever asks may leave before the answer is there."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.requests import ClientDisconnect, Request


async def while_there(request: Request, call: Coroutine[Any, Any, Any]) -> Any:
    """The answer to a call that waits or tells, which ends when whoever asked has gone: nobody
    must seem to be listening who is not, nor be shown mail."""
    calling = asyncio.create_task(call)
    leaving = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait((calling, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not calling.done():
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
            await leaving
            raise ClientDisconnect
        return await calling
    finally:
        calling.cancel()
        leaving.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        continue
