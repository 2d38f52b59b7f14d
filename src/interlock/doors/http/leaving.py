"""Whoever asks may leave before the answer is there."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.requests import ClientDisconnect, Request

# Rounds of the event loop in which the end of a connection is heard of that came with the request.
LOOKS = 5


async def while_there(request: Request, call: Coroutine[Any, Any, Any]) -> Any:
    """The answer to a call that waits or tells, which ends when whoever asked has gone: nobody
    must seem to be listening who is not, nor be shown mail. Who has gone before it begins, as while
    this process was stopped, is noticed by then."""
    leaving = asyncio.create_task(_gone(request))
    for _ in range(LOOKS):
        await asyncio.sleep(0)
    if leaving.done():
        call.close()
        raise ClientDisconnect
    calling = asyncio.create_task(call)
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
