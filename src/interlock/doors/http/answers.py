"""Responses: JSON, one error object for every refusal, and none to a caller that has gone."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from interlock.errors import MissingScope, RateLimited, Refusal

# Rounds of the event loop within which a disconnect arrives that came together with the request.
DISCONNECT_ROUNDS = 5


class JsonResponse(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content)


def refused(refusal: Refusal, status: int | None = None) -> JsonResponse:
    status = status or refusal.http
    headers = {}
    if isinstance(refusal, RateLimited):
        headers["Retry-After"] = str(refusal.members.get("retry_after_s", 1))
    if isinstance(refusal, MissingScope):
        scope = refusal.members.get("scope", "")
        headers["WWW-Authenticate"] = f'Bearer error="insufficient_scope", scope="{scope}"'
    return JsonResponse(refusal.as_dict(), status, headers)


async def while_there(request: Request, call: Coroutine[Any, Any, Any]) -> Any:
    """The result of a call that waits or shows mail. Raises ClientDisconnect when the caller
    disconnects, also before the call begins, as while this process was stopped: an absent caller
    must not seem to listen, nor be shown mail."""

    async def disconnected() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            continue

    leaving = asyncio.create_task(disconnected())
    for _ in range(DISCONNECT_ROUNDS):
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
