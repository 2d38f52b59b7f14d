"""The routes of the API: every verb with a route, live events, health and metrics."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import unquote

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from interlock.doors.http import decoding
from interlock.doors.http.answers import JsonResponse, refused, while_there
from interlock.doors.http.decoding import Decoder, routes_of
from interlock.doors.http.hooks import hook
from interlock.doors.http.limits import RateLimit
from interlock.doors.http.metrics import Metrics
from interlock.doors.http.openapi import document
from interlock.errors import NoIdentity, NotAllowed, NotFound, Refusal, TooLarge, Usage
from interlock.machine.hosts import is_loopback
from interlock.node.live import LiveNode
from interlock.rooms import catalogue
from interlock.rooms.workspace.verbs import Attend
from interlock.verbs.credentials import Credentials
from interlock.verbs.http import (
    KEY_HEADER,
    OWNER_HEADER,
    SEEN_HEADER,
    SENDER_HEADER,
    SESSION_HEADER,
)
from interlock.verbs.types import SESSION_ID

SHOW_A_TOKEN = "Show a token: Authorization: Bearer ilk_…; interlock join NAME makes one."  # noqa: S105
LONG_BODY = 64 << 10
HEARTBEAT_S = 15.0
EVENT_STREAM = "text/event-stream"
Endpoint = Callable[[Request], Awaitable[Response]]


class ApiContext:
    """The parts that every endpoint needs. `owner` says whether a token is the owner's;
    `open_metrics` says whether callers without a token may read the metrics."""

    def __init__(
        self,
        live: LiveNode,
        metrics: Metrics,
        owner: Callable[[str], bool],
        *,
        open_metrics: bool = True,
        limit: RateLimit | None = None,
    ) -> None:
        self.live, self.metrics = live, metrics
        self.open_metrics = open_metrics
        self._owner = owner
        self._limit = limit or RateLimit()

    def credentials(self, request: HTTPConnection) -> Credentials:
        """The credentials that a request shows. A caller at the workspace's own socket may be its
        owner; the token decides who any other caller is. Raises NoIdentity, RateLimited and
        Usage."""
        headers, scope = request.headers, request.scope
        session = unquote(headers.get(SESSION_HEADER, "")) or None
        if session is not None:
            SESSION_ID.check("session", session)
        claimed = headers.get(SENDER_HEADER)
        token: str | None = None
        if (authorization := headers.get("Authorization")) is not None:
            kind, _, shown = authorization.partition(" ")
            if kind.lower() != "bearer" or not shown.strip():
                raise NoIdentity(SHOW_A_TOKEN)
            token = unquote(shown.strip())
        local = bool(scope.get("interlock.local"))
        if token is not None and not local:
            self._limit.take(token)
        if token is not None and self._owner(token):
            token, is_owner = None, True
        else:
            is_owner = local and token is None and headers.get(OWNER_HEADER) == "yes"
            if token is None and not local:
                raise NoIdentity(SHOW_A_TOKEN)
        seen = _position(
            headers.get(SEEN_HEADER),
            f"{SEEN_HEADER} is a position of the log: the number that an answer had there.",
        )
        # A token is for the address of MCP, or for that of the rest.
        base: str | None = scope.get("interlock.base")
        is_mcp = scope["path"].rstrip("/") == "/mcp"
        # This machine has many addresses, and is one place.
        host = request.client.host if request.client is not None else ""
        is_remote = host and not local and not is_loopback(host)
        return Credentials(
            token=token,
            session=session,
            claimed=unquote(claimed) if claimed is not None else None,
            owner=is_owner,
            seen=seen or 0,
            audience=base + "/mcp" if base is not None and is_mcp else base,
            peer=host if is_remote else None,
        )


def _position(text: str | None, complaint: str) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise Usage(complaint)
    return int(text)


def api(context: ApiContext) -> list[BaseRoute]:
    # One route a path, so that the refusal of a method names all methods of the path. Paths without
    # a field come first, because those with one would match them too.
    by_path: dict[str, dict[str, Endpoint]] = {}
    declared = [route for verb in catalogue.verbs() for route in routes_of(verb)]
    for found in sorted(declared, key=lambda route: "{" in route.path):
        endpoint = _verb(context, decoding.decoder(found))
        by_path.setdefault(found.path, {})[found.method] = endpoint
    routes: list[BaseRoute] = [
        Route(path, _by_method(endpoints), methods=list(endpoints))
        for path, endpoints in by_path.items()
    ]
    described = document()

    async def openapi(request: Request) -> Response:
        return JsonResponse(described)

    async def health(request: Request) -> Response:
        return JsonResponse({"ok": True})

    async def ready(request: Request) -> Response:
        """Ready is a server that can read the log and, on a node, follow its engine."""
        entries = await context.live.entries()
        shared = context.live.node.shared
        if shared is not None and shared.trouble is not None:
            return refused(shared.trouble, 503)
        return JsonResponse({"ready": True, "entries": entries})

    async def metrics(request: Request) -> Response:
        if not context.open_metrics or request.scope.get("interlock.outside"):
            await context.live.find_viewer(context.credentials(request))
        shared = context.live.node.shared
        standing = await asyncio.to_thread(shared.standing) if shared else {}
        return PlainTextResponse(
            context.metrics.text(await context.live.entries(), standing, context.live.intrusions)
        )

    routes += [
        Route("/v1/events", _events(context)),
        Route("/hooks/{client}/{event}", hook(context.live, context.credentials), methods=["POST"]),
        Route("/openapi.json", openapi),
        Route("/healthz", health),
        Route("/readyz", ready),
        Route("/metrics", metrics),
    ]
    return routes


def _by_method(endpoints: dict[str, Endpoint]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        if request.method not in endpoints:  # HEAD: reading mail is an act, with or without a body
            raise HTTPException(405, headers={"Allow": ", ".join(endpoints)})
        return await endpoints[request.method](request)

    return endpoint


def _verb(context: ApiContext, known: Decoder) -> Endpoint:
    """The path of a request for a verb through this door."""
    method, path = known.route.method, known.route.path
    declared = known.route.verb.declared
    media_type = "application/octet-stream" if known.raw else "application/json"

    async def call(http: Request) -> Response:
        headers, is_local = http.headers, http.scope.get("interlock.local")
        if declared.local and not is_local:
            raise NotFound(f"{path} names files of the server's machine. Use the command there.")
        credentials = Credentials() if declared.anyone else context.credentials(http)

        # Read the query or the body.
        data: bytes | None = None
        if method == "GET" or known.raw:
            given = decoding.from_query(known, http.query_params)
        if method != "GET":
            if declared.anyone:
                body = await _short_body(http)
            else:
                if int(headers.get("content-length") or LONG_BODY) >= LONG_BODY:
                    # Authenticate the caller before reading a long body.
                    await context.live.find_viewer(credentials)
                body = await http.body()
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            if body and kind != media_type:
                raise Unreadable(f"The body is {kind[:80] or 'of no type'}. Send {media_type}.")
            if known.raw:
                data = body
            else:
                given = decoding.from_body(body)

        # Make the request.
        claimed = decoding.claimed_sender(known, given)
        if claimed is not None:
            both = {claimed, (credentials.claimed or claimed).removeprefix("@")}
            credentials = credentials._replace(claimed=" and ".join(sorted(both)))
        key = headers.get(KEY_HEADER)
        key = unquote(key) if key is not None else None
        request = decoding.request_of(known, http.path_params, given, data=data, key=key)
        if isinstance(request, Attend) and not is_local:
            # A client on another machine has another clock, and no window here.
            request = request._replace(window=None, until_ms=None)

        # Call the node.
        calling = context.live.call(credentials, request)
        waits = isinstance(request, Attend) or getattr(request, "wait_s", None) is not None
        answer = await (while_there(http, calling) if waits else calling)
        node = context.live.node
        # On a shared log the answer says how far the log went, for a next request to another node.
        return JsonResponse(
            answer, headers={SEEN_HEADER: str(node.reached)} if node.shared else None
        )

    async def endpoint(http: Request) -> Response:
        try:
            return await call(http)
        except Refusal as refusal:
            context.metrics.refusals[refusal.code] += 1
            raise

    return endpoint


async def _short_body(request: Request) -> bytes:
    """The body of a caller without a token, which must be short."""
    if int(request.headers.get("content-length") or 0) >= LONG_BODY:
        raise TooLarge
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) >= LONG_BODY:
            raise TooLarge
    return body


class Unreadable(Usage):
    """The body is of a type that this route does not read."""

    http = 415


def _events(context: ApiContext) -> Endpoint:
    """Live events: one stream for each listener, resumed from the last event that it has seen."""
    live = context.live

    async def chunks(shown: Credentials, after: int | None, head: int) -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        if after is not None and after > head:
            # The log was restored to an earlier state, which has no later events.
            yield b"event: reset\ndata: " + orjson.dumps({"reached": head}) + b"\n\n"
        start = head if after is None else min(after, head)
        try:
            async for events in live.events(shown, start, HEARTBEAT_S):
                encoded = [
                    b"id: %d\nevent: %s\ndata: %s\n\n"
                    % (event.seq, event.kind.encode(), event.json)
                    for event in events
                ]
                yield b"".join(encoded) or b": still here\n\n"
        except NotAllowed as refusal:
            yield b"event: refused\ndata: " + orjson.dumps(refusal.as_dict()) + b"\n\n"
        except Refusal:
            return  # the log is not available; the client comes back

    async def endpoint(request: Request) -> Response:
        shown = context.credentials(request)
        # A browser that comes back sends the header.
        given = request.headers.get("last-event-id") or request.query_params.get("after")
        after = _position(given, f"{(given or '')[:80]!r} is not a position in the log.")
        viewer = await live.find_viewer(shown)
        if request.method == "HEAD":
            return Response(media_type=EVENT_STREAM)
        # The head is read before the status is sent, so that no event after it is missed.
        head = await live.entries()

        async def stream() -> AsyncIterator[bytes]:
            context.metrics.streams += 1
            try:
                with live.present(viewer):
                    async for chunk in chunks(shown, after, head):
                        yield chunk
            finally:
                context.metrics.streams -= 1

        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(stream(), media_type=EVENT_STREAM, headers=headers)

    return endpoint
