"""MCP over Streamable HTTP: an ASGI application to be mounted, and the context it runs in.

Who asks is known before any JSON-RPC is looked at, from the request's own headers and nothing
else. Answers are single JSON bodies. Nothing is pushed, so there is no stream to open with GET.
"""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import orjson
from mcp.server.context import CallNext, HandlerResult
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from interlock.doors.mcp.exchange import Exchanges
from interlock.doors.mcp.service import Context, server, waits
from interlock.doors.mcp.wire import LONGEST
from interlock.errors import Refusal, Usage, by_code
from interlock.node.live import LiveNode
from interlock.rooms.workspace.verbs import Whoami
from interlock.verbs.credentials import Credentials

Identify = Callable[[Scope], Credentials]

KNOWN_S: Final = 5.0
MAX_KNOWN: Final = 10_000

# What stands in a request's scope: whose it is, and the error object of a token that failed.
_CREDENTIALS: Final = "interlock.credentials"
_FAILED: Final = "interlock.failed"


class NoStream(Usage):
    """There is no stream to open here: nothing is pushed. Wait for mail with the inbox tool."""

    http = 405


class Unreadable(Usage):
    """The body is of a type that is not read here: it should be application/json."""

    http = 415


class Mounted:
    """The application. `identify` reads credentials from a request's scope, and may refuse."""

    def __init__(self, live: LiveNode, identify: Identify) -> None:
        self._identify = identify
        self._callers = _Callers(live)
        app = server(live, lambda ctx: _request(ctx).scope[_CREDENTIALS])
        app.middleware.insert(0, _while_there)
        self._handshake = Exchanges(app)
        self._stateless = StreamableHTTPSessionManager(
            app, json_response=True, stateless=True, max_request_body_size=LONGEST
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The lifespan: requests are served within it. It can be entered once."""
        async with self._stateless.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            scope[_CREDENTIALS] = credentials = self._identify(scope)
            sender = await self._callers.sender(credentials)
            body = await _body(request)
        except Refusal as refusal:
            await _refused(refusal.as_dict(), refusal.http)(scope, receive, send)
            return
        await self._served(request, sender, body, _unless_failed(scope, send))
        if _FAILED in scope:
            self._callers.forget(credentials)
            await _refused(scope[_FAILED], 401)(scope, receive, send)

    async def _served(self, request: Request, sender: str, body: bytes, send: Send) -> None:
        version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
        if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            again = _received_again(body, request.receive)
            await self._stateless.handle_request(request.scope, again, send)
        elif request.method == "DELETE":
            await Response(status_code=204)(request.scope, request.receive, send)
        else:
            response = await self._handshake.answer(request, sender, body)
            await response(request.scope, request.receive, send)


class _Callers:
    """Who was let in lately. It saves looking a token up twice for every call: what a call does is
    decided by the node, which looks at the token as it is then."""

    def __init__(self, live: LiveNode) -> None:
        self._live = live
        self._known: dict[Credentials, tuple[str, float]] = {}

    async def sender(self, credentials: Credentials) -> str:
        """The sender behind credentials, or the refusal of those that open nothing."""
        sender, until = self._known.get(credentials, ("", 0.0))
        if until < time.monotonic():
            sender = (await self._live.call(credentials, Whoami()))["sender"]
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[credentials] = sender, time.monotonic() + KNOWN_S
        return sender

    def forget(self, credentials: Credentials) -> None:
        self._known.pop(credentials, None)


async def _body(request: Request) -> bytes:
    """The whole body of a message; how large and how slow it may be, the server's guard knows."""
    if request.method not in ("POST", "DELETE"):
        raise NoStream
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.method == "POST" and kind != "application/json":
        raise Unreadable
    return await request.body()


def _received_again(body: bytes, receive: Receive) -> Receive:
    """A body that was read already, and then whatever comes after it."""
    kept: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return kept.pop() if kept else await receive()

    return received


def _unless_failed(scope: Scope, send: Send) -> Send:
    """Sends an answer, unless the token failed meanwhile: that is answered otherwise."""

    async def sending(message: Message) -> None:
        if _FAILED not in scope:
            await send(message)

    return sending


async def _while_there(ctx: Context, call_next: CallNext) -> HandlerResult:
    """A call that waits ends when its caller has gone. Where its token failed, that is noted."""
    waiting = waits(ctx.method, ctx.params)
    result = await (_unless_gone(ctx, call_next) if waiting else call_next(ctx))
    match result:
        case {"isError": True, "structuredContent": dict(error)} if _is_identity(error):
            _request(ctx).scope[_FAILED] = error
    return result


def _is_identity(error: dict[str, Any]) -> bool:
    return by_code(error["code"]).http == 401


async def _unless_gone(ctx: Context, call_next: CallNext) -> HandlerResult:
    result: HandlerResult = None
    trouble: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_when_gone, _request(ctx), tasks.cancel_scope)
        try:
            result = await call_next(ctx)
        except Exception as raised:  # noqa: BLE001 - a group would wrap it; it is raised below
            trouble = raised
        tasks.cancel_scope.cancel()
    if trouble is not None:
        raise trouble
    return result


async def _cancel_when_gone(request: Request, scope: anyio.CancelScope) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _request(ctx: Context) -> Request:
    assert isinstance(ctx.request, Request)
    return ctx.request


def _refused(error: dict[str, Any], status: int) -> Response:
    headers = {401: {"WWW-Authenticate": "Bearer"}, 405: {"Allow": "POST, DELETE"}}.get(status, {})
    if "retry_after_s" in error:
        headers["Retry-After"] = str(error["retry_after_s"])
    return Response(orjson.dumps(error), status, headers, "application/json")
