"""The routes of the API: every verb with a route, live events, health and metrics."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from interlock.doors.http import decoding
from interlock.doors.http.answers import Answer, refused
from interlock.doors.http.decoding import Decoder
from interlock.doors.http.events import event_stream
from interlock.doors.http.hooks import hook
from interlock.doors.http.leaving import while_there
from interlock.doors.http.limits import RateLimit
from interlock.doors.http.metrics import Metrics
from interlock.doors.http.openapi import document
from interlock.errors import NoIdentity, NotFound, Refusal, TooLarge, Usage
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
    routes_of,
)
from interlock.verbs.types import SESSION_ID
from interlock.verbs.verb import Verb

SHOW_A_TOKEN = "Show a token: Authorization: Bearer ilk_…; interlock join NAME makes one."  # noqa: S105
LONG_BODY = 64 << 10
Endpoint = Callable[[Request], Awaitable[Response]]


class ApiContext:
    """What every endpoint needs. `owner` says whether a token is the owner's; `open_metrics`
    whether metrics are for everybody who can reach the server."""

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
        """What the request shows. Whoever came through the workspace's own socket may be its
        owner; anybody else is whom the token makes them."""
        headers = request.headers
        session = unquote(headers.get(SESSION_HEADER, "")) or None
        if session is not None:
            SESSION_ID.check("session", session)
        claimed = headers.get(SENDER_HEADER)
        token = _bearer(headers.get("Authorization"))
        local = bool(request.scope.get("interlock.local"))
        if token is not None and not local:
            self._limit.take(token)
        if token is not None and self._owner(token):
            token, is_owner = None, True
        else:
            is_owner = local and token is None and headers.get(OWNER_HEADER) == "yes"
            if token is None and not local:
                raise NoIdentity(SHOW_A_TOKEN)
        return Credentials(
            token=token,
            session=session,
            claimed=unquote(claimed) if claimed is not None else None,
            owner=is_owner,
            seen=_position(headers.get(SEEN_HEADER)),
            audience=_audience(request),
            peer=None if local else _peer(request),
        )

    def answered(self, content: Any) -> Answer:
        """The answer, with how far the log went where it may be asked elsewhere."""
        node = self.live.node
        headers = {SEEN_HEADER: str(node.reached)} if node.shared else None
        return Answer(content, headers=headers)


def _audience(request: HTTPConnection) -> str | None:
    """The address of what is asked: of MCP, or of the rest."""
    base: str | None = request.scope.get("interlock.base")
    is_mcp = request.scope["path"].rstrip("/") == "/mcp"
    return base + "/mcp" if base is not None and is_mcp else base


def _peer(request: HTTPConnection) -> str | None:
    """The address of whoever asks; this machine has many, and is one place."""
    host = request.client.host if request.client is not None else ""
    return host if host and not is_loopback(host) else None


def _position(header: str | None) -> int:
    if header is None:
        return 0
    if not (header.isascii() and header.isdigit() and len(header) < 19):
        raise Usage(f"{SEEN_HEADER} is a position of the log: the number that an answer had there.")
    return int(header)


def _bearer(header: str | None) -> str | None:
    if header is None:
        return None
    kind, _, token = header.partition(" ")
    if kind.lower() != "bearer" or not token.strip():
        raise NoIdentity(SHOW_A_TOKEN)
    return unquote(token.strip())


def api(context: ApiContext) -> list[BaseRoute]:
    # One route a path, so that a refusal of a method names all that it takes; those without a name
    # in the path first, because the others would take them too.
    by_path: dict[str, dict[str, Endpoint]] = {}
    declared = [route for verb in catalogue.verbs() for route in routes_of(verb)]
    for found in sorted(declared, key=lambda route: "{" in route.path):
        endpoint = _endpoint(context, decoding.decoder(found))
        by_path.setdefault(found.path, {})[found.method] = endpoint
    routes: list[BaseRoute] = [
        Route(path, _by_method(endpoints), methods=list(endpoints))
        for path, endpoints in by_path.items()
    ]
    routes += [
        Route("/v1/events", event_stream(context.live, context.metrics, context.credentials)),
        Route("/hooks/{client}/{event}", hook(context.live, context.credentials), methods=["POST"]),
        Route("/openapi.json", _fixed(document())),
        Route("/healthz", _fixed({"ok": True})),
        Route("/readyz", _ready(context)),
        Route("/metrics", _metrics(context)),
    ]
    return routes


def _by_method(endpoints: dict[str, Endpoint]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        if request.method not in endpoints:  # HEAD: reading mail is an act, with or without a body
            raise HTTPException(405, headers={"Allow": ", ".join(endpoints)})
        return await endpoints[request.method](request)

    return endpoint


def _endpoint(context: ApiContext, known: Decoder) -> Endpoint:
    path, is_local = known.route.path, known.route.verb.declared.local

    async def endpoint(http: Request) -> Response:
        try:
            if is_local and not http.scope.get("interlock.local"):
                raise NotFound(
                    f"{path} names files of the server's machine. Use the command there."
                )
            credentials, request = await _decoded(context, known, http)
            if isinstance(request, Attend) and not http.scope.get("interlock.local"):
                # A client on another machine has another clock, and no window here.
                request = request._replace(window=None, until_ms=None)
            call = context.live.call(credentials, request)
            waits = isinstance(request, Attend) or getattr(request, "wait_s", None) is not None
            return context.answered(await (while_there(http, call) if waits else call))
        except Refusal as refusal:
            context.metrics.refusals[refusal.code] += 1
            raise

    return endpoint


async def _decoded(context: ApiContext, known: Decoder, http: Request) -> tuple[Credentials, Verb]:
    """The credentials of an HTTP request, and the request for a verb."""
    is_anyone = known.route.verb.declared.anyone
    credentials = Credentials() if is_anyone else context.credentials(http)
    headers = http.headers
    data: bytes | None = None
    if known.route.method == "GET" or known.raw:
        given = decoding.from_query(known, http.query_params)
    if known.route.method != "GET":
        wanted = "application/octet-stream" if known.raw else "application/json"
        if is_anyone:
            body = await _short(http)
        else:
            if int(headers.get("content-length") or LONG_BODY) >= LONG_BODY:
                # Authenticate the caller before reading a long body.
                await context.live.identify(credentials)
            body = await http.body()
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if body and kind != wanted:
            raise Unreadable(f"The body is {kind[:80] or 'of no type'}. Send {wanted}.")
        if known.raw:
            data = body
        else:
            given = decoding.from_body(body)
    claimed = decoding.claimed_sender(known, given)
    if claimed is not None:
        both = {claimed, (credentials.claimed or claimed).removeprefix("@")}
        credentials = credentials._replace(claimed=" and ".join(sorted(both)))
    key = headers.get(KEY_HEADER)
    return credentials, decoding.request_of(
        known,
        http.path_params,
        given,
        data=data,
        key=unquote(key) if key is not None else None,
    )


async def _short(request: Request) -> bytes:
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


def _fixed(content: object) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        return Answer(content)

    return endpoint


def _ready(context: ApiContext) -> Endpoint:
    """Ready is who can read the log just now and, on a node, follow the engine that keeps it."""

    async def endpoint(request: Request) -> Response:
        entries = await context.live.entries()
        shared = context.live.node.shared
        if shared is not None and shared.trouble is not None:
            return refused(shared.trouble, 503)
        return Answer({"ready": True, "entries": entries})

    return endpoint


def _metrics(context: ApiContext) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        if not context.open_metrics or request.scope.get("interlock.outside"):
            await context.live.identify(context.credentials(request))
        shared = context.live.node.shared
        standing = await asyncio.to_thread(shared.standing) if shared else {}
        return PlainTextResponse(
            context.metrics.text(await context.live.entries(), standing, context.live.intrusions)
        )

    return endpoint
