"""MCP over Streamable HTTP: an ASGI application to be mounted, and the context it runs in.

The server identifies the caller from the headers, before it parses JSON-RPC. An answer is a single
JSON body. The server pushes nothing, so there is no stream to open with GET.

The SDK serves the stateless revisions. Its transport for the handshake revisions stores a session's
state in memory and refuses an unknown session. This module needs no state of earlier requests, so
clients do not notice a restart of the server. It uses the session's id only to find the call that a
notification cancels.
"""

import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import orjson
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult
from mcp.server.runner import ServerRunner
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, REQUEST_CANCELLED
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.jsonrpc_dispatcher import handler_exception_to_error_data
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    DEFAULT_NEGOTIATED_VERSION,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from interlock.doors.mcp.service import (
    MAX_MESSAGE_BYTES,
    Context,
    cancelled,
    encoded,
    error,
    parsed,
    server,
    waits,
)
from interlock.doors.mcp.tools import mcp_words
from interlock.errors import Refusal, Usage, by_code
from interlock.node.live import LiveNode
from interlock.rooms.workspace.verbs import Whoami
from interlock.verbs.credentials import Credentials
from interlock.verbs.wording import worded

# The sender, the session and the id of a call.
CallKey = tuple[str, str | None, str]

KNOWN_S: Final = 5.0
MAX_KNOWN: Final = 10_000

# Members of a request's scope: its credentials, and the error object of a token that failed.
_CREDENTIALS: Final = "interlock.credentials"
_FAILED: Final = "interlock.failed"
_TRANSPORT: Final = TransportContext(kind="streamable-http", can_send_request=False)


class NoStream(Usage):
    """The server pushes nothing, so there is no stream to open. To wait for mail, call the tool
    inbox with wait_s."""

    http = 405


class Unreadable(Usage):
    """The body does not have the content type application/json."""

    http = 415


class Mounted:
    """The application. `credentials_of` reads the credentials of a scope, and may refuse."""

    def __init__(self, live: LiveNode, credentials_of: Callable[[Scope], Credentials]) -> None:
        self._live, self._credentials_of = live, credentials_of
        # The senders of recent credentials, each with its expiry. The node authenticates every
        # call itself, so this cache saves a second lookup of the token.
        self._senders: dict[Credentials, tuple[str, float]] = {}
        self._waiting: dict[CallKey, anyio.CancelScope] = {}
        self._app = server(live, lambda ctx: _request(ctx).scope[_CREDENTIALS])
        self._app.middleware.insert(0, _while_connected)
        self._runners = {version: self._runner(version) for version in HANDSHAKE_PROTOCOL_VERSIONS}
        self._stateless = StreamableHTTPSessionManager(
            self._app, json_response=True, stateless=True, max_request_body_size=MAX_MESSAGE_BYTES
        )

    def _runner(self, version: str) -> ServerRunner[Any]:
        return ServerRunner(self._app, Connection.from_envelope(version, None, None), None)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The lifespan of the application. Enter it once, before the first request."""
        async with self._stateless.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            scope[_CREDENTIALS] = credentials = self._credentials_of(scope)
            sender = await self._sender(credentials)
            if request.method not in ("POST", "DELETE"):
                raise NoStream
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if request.method == "POST" and kind != "application/json":
                raise Unreadable
            body = await request.body()  # the server's guard limits its size and its time
        except Refusal as refusal:
            await _refused(worded(refusal.as_dict(), mcp_words), refusal.http)(scope, receive, send)
            return

        async def send_unless_failed(message: Message) -> None:
            if _FAILED not in scope:
                await send(message)

        unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_again() -> Message:
            return unread.pop() if unread else await receive()

        version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
        if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            await self._stateless.handle_request(scope, receive_again, send_unless_failed)
        else:
            ended = request.method == "DELETE"
            response = Response(status_code=204) if ended else await self._answer(request, sender)
            await response(scope, receive, send_unless_failed)
        if _FAILED in scope:
            self._senders.pop(credentials, None)
            await _refused(scope[_FAILED], 401)(scope, receive, send)

    async def _sender(self, credentials: Credentials) -> str:
        """Return the sender of credentials. Raises Refusal for an invalid token."""
        sender, until = self._senders.get(credentials, ("", 0.0))
        if until < time.monotonic():
            sender = (await self._live.call(credentials, Whoami()))["sender"]
            if len(self._senders) >= MAX_KNOWN:
                self._senders.clear()
            self._senders[credentials] = sender, time.monotonic() + KNOWN_S
        return sender

    async def _answer(self, request: Request, sender: str) -> Response:
        """Answer a message of a handshake revision."""
        session = request.headers.get(MCP_SESSION_ID_HEADER)
        message = parsed(await request.body())
        if isinstance(message, JSONRPCError):
            return _json(message, 400)
        if not isinstance(message, JSONRPCRequest):
            id = cancelled(message) if message is not None else None
            # Without a session, the call could belong to another client.
            if id is not None and session is not None:
                waiting = self._waiting.get((sender, session, str(id)))
                if waiting is not None:
                    waiting.cancel()
            return Response(status_code=202)
        if not waits(message.method, message.params):
            response = _json(await self._result(request, message))
            if message.method == "initialize":
                response.headers[MCP_SESSION_ID_HEADER] = secrets.token_hex(16)
            return response
        key = (sender, session, str(message.id))
        with anyio.CancelScope() as scope:
            self._waiting[key] = scope
            try:
                return _json(await self._result(request, message))
            finally:
                if self._waiting.get(key) is scope:
                    del self._waiting[key]
        return _json(error(REQUEST_CANCELLED, "Request cancelled", message.id))

    async def _result(
        self, request: Request, message: JSONRPCRequest
    ) -> JSONRPCResponse | JSONRPCError:
        version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER, DEFAULT_NEGOTIATED_VERSION)
        # Only the client stores the outcome of a handshake.
        is_first = message.method == "initialize"
        runner = self._runner(version) if is_first else self._runners[version]
        exchange = _Exchange(message.id, ServerMessageMetadata(request_context=request))
        try:
            result = await runner.on_request(exchange, message.method, message.params)
        except Exception as trouble:
            data = handler_exception_to_error_data(trouble)
            if data is None:
                raise
            return JSONRPCError(jsonrpc="2.0", id=message.id, error=data)
        return JSONRPCResponse(jsonrpc="2.0", id=message.id, result=result)


@dataclass
class _Exchange:
    """A request in the form that the SDK expects. The server sends the client only the answer."""

    request_id: RequestId
    message_metadata: ServerMessageMetadata
    transport: TransportContext = _TRANSPORT
    can_send_request: bool = False
    cancel_requested: anyio.Event = field(default_factory=anyio.Event)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raise NoBackChannelError(method)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        return

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        return


async def _while_connected(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Cancel a call that waits when its caller disconnects. Store the error of an invalid token."""
    request = _request(ctx)
    result: HandlerResult = None
    trouble: Exception | None = None
    if waits(ctx.method, ctx.params):
        async with anyio.create_task_group() as tasks:

            async def cancel_when_gone() -> None:
                while (await request.receive())["type"] != "http.disconnect":
                    pass
                tasks.cancel_scope.cancel()

            tasks.start_soon(cancel_when_gone)
            try:
                result = await call_next(ctx)
            except Exception as raised:  # noqa: BLE001 - raised below, because a group wraps it
                trouble = raised
            tasks.cancel_scope.cancel()
        if trouble is not None:
            raise trouble
    else:
        result = await call_next(ctx)
    match result:
        case {"isError": True, "structuredContent": {"code": str(code)} as failed}:
            if by_code(code).http == 401:
                request.scope[_FAILED] = failed
    return result


def _request(ctx: Context) -> Request:
    assert isinstance(ctx.request, Request)
    return ctx.request


def _json(message: JSONRPCResponse | JSONRPCError, status: int = 200) -> Response:
    return Response(encoded(message), status, media_type="application/json")


def _refused(refusal: dict[str, Any], status: int) -> Response:
    headers = {401: {"WWW-Authenticate": "Bearer"}, 405: {"Allow": "POST, DELETE"}}.get(status, {})
    if "retry_after_s" in refusal:
        headers["Retry-After"] = str(refusal["retry_after_s"])
    return Response(orjson.dumps(refusal), status, headers, "application/json")
