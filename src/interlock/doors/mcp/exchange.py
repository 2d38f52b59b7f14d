"""One POST of the handshake revisions: a message comes, and its answer goes back as one JSON body.

The SDK's own transport for these revisions keeps a session's state and several tasks in memory, and
refuses a session that it does not know. Here a request needs nothing of the ones before it, so
clients do not notice when the server is started anew. A session's id only tells apart whose call a
notification cancels.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import anyio
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.runner import ServerRunner
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, REQUEST_CANCELLED
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

from interlock.doors.mcp.service import waits
from interlock.doors.mcp.wire import cancelled, encoded, understood, wrong

_NO_TRANSPORT: Final = TransportContext(kind="streamable-http", can_send_request=False)


class Exchanges:
    """Answers messages, and knows the calls that wait."""

    def __init__(self, app: Server[Any]) -> None:
        self._app = app
        self._runners = {version: self._runner(version) for version in HANDSHAKE_PROTOCOL_VERSIONS}
        self._waiting: dict[_Key, anyio.CancelScope] = {}

    def _runner(self, version: str) -> ServerRunner[Any]:
        return ServerRunner(self._app, Connection.from_envelope(version, None, None), None)

    async def answer(self, request: Request, sender: str, body: bytes) -> Response:
        """The answer to what was posted, which `sender` is known to have sent."""
        said = understood(body)
        if isinstance(said, JSONRPCError):
            return _json(said, 400)
        if not isinstance(said, JSONRPCRequest):
            if said is not None and (id := cancelled(said)) is not None:
                self._cancel(_key(request, sender, id))
            return Response(status_code=202)
        if waits(said.method, said.params):
            return await self._waited(request, sender, said)
        response = _json(await self._done(request, said))
        if said.method == "initialize":
            response.headers[MCP_SESSION_ID_HEADER] = secrets.token_hex(16)
        return response

    async def _waited(self, request: Request, sender: str, said: JSONRPCRequest) -> Response:
        """The answer to a call that its client may cancel meanwhile."""
        key = _key(request, sender, said.id)
        with anyio.CancelScope() as scope:
            self._waiting[key] = scope
            try:
                return _json(await self._done(request, said))
            finally:
                if self._waiting.get(key) is scope:
                    del self._waiting[key]
        return _json(wrong(REQUEST_CANCELLED, "Request cancelled", said.id))

    def _cancel(self, key: "_Key") -> None:
        if key.session is not None and (scope := self._waiting.get(key)) is not None:
            scope.cancel()

    async def _done(self, request: Request, said: JSONRPCRequest) -> JSONRPCResponse | JSONRPCError:
        version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER, DEFAULT_NEGOTIATED_VERSION)
        # What is agreed upon while shaking hands is remembered by the client, and by nobody here.
        fresh = said.method == "initialize"
        runner = self._runner(version) if fresh else self._runners[version]
        exchange = _Exchange(said.id, ServerMessageMetadata(request_context=request))
        try:
            result = await runner.on_request(exchange, said.method, said.params)
        except Exception as trouble:
            error = handler_exception_to_error_data(trouble)
            if error is None:
                raise
            return JSONRPCError(jsonrpc="2.0", id=said.id, error=error)
        return JSONRPCResponse(jsonrpc="2.0", id=said.id, result=result)


class _Key(NamedTuple):
    """What a call is cancelled by. Without a session it cannot be told from another client's."""

    sender: str
    session: str | None
    id: str


def _key(request: Request, sender: str, id: RequestId) -> _Key:
    return _Key(sender, request.headers.get(MCP_SESSION_ID_HEADER), str(id))


@dataclass
class _Exchange:
    """What the SDK wants to know of a request. Nothing can be sent to the client but its answer."""

    request_id: RequestId
    message_metadata: ServerMessageMetadata
    transport: TransportContext = _NO_TRANSPORT
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


def _json(message: JSONRPCResponse | JSONRPCError, status: int = 200) -> Response:
    return Response(encoded(message), status, media_type="application/json")
