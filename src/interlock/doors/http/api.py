"""A request for a verb over HTTP: decode it, call the node, encode the answer.

Decoding is strict and guesses nothing. It checks the names of members and converts the text of a
query into values. The node checks the values, as it does for every door.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from hmac import compare_digest
from typing import Any, NamedTuple
from urllib.parse import unquote

import orjson
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response

from interlock.doors.http.metrics import Metrics
from interlock.errors import (
    MissingScope,
    NoIdentity,
    NotFound,
    RateLimited,
    Refusal,
    Remedy,
    TooLarge,
    Usage,
)
from interlock.log.encoding import decode
from interlock.machine.hosts import is_loopback
from interlock.node.live import LiveNode
from interlock.rooms.workspace.verbs import Attend
from interlock.verbs.credentials import Credentials
from interlock.verbs.http import (
    INTERFACE_HEADER,
    KEY_HEADER,
    OWNER_HEADER,
    SEEN_HEADER,
    SENDER_HEADER,
    SESSION_HEADER,
    WIRE_NAMES,
)
from interlock.verbs.types import SESSION_ID, Binary, Integer, Several, Shape, Switch
from interlock.verbs.verb import Field, Verb, fields_of
from interlock.verbs.wording import http_words, renamed, worded

LONG_BODY = 64 << 10
REQUESTS_PER_S = 600.0
BURST = 3000.0
FORGET_EVERY = 10_000
SENDER_MEMBERS = ("from", "source", "sender")
ADAPTER = "http"
MAX_DIGITS = 18
# Iterations of the event loop until a disconnect arrives that came together with the request.
DISCONNECT_ROUNDS = 5
Endpoint = Callable[[Request], Awaitable[Response]]


def by_method(endpoints: dict[str, Endpoint]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        # Starlette routes HEAD like GET. A GET route may mark mail as shown, so HEAD is refused.
        if request.method not in endpoints:
            raise HTTPException(405, headers={"Allow": ", ".join(endpoints)})
        return await endpoints[request.method](request)

    return endpoint


def endpoint_of(context: ApiContext, known: Decoder) -> Endpoint:
    """Return the endpoint of one route."""
    method, path = known.route.method, known.route.path
    declared = known.route.verb.declared
    media_type = "application/octet-stream" if known.raw else "application/json"
    fields = known.members | known.path
    names = {"session": SESSION_HEADER} | {field.name: name for name, field in fields.items()}

    async def call(http: Request) -> Response:
        headers, is_local = http.headers, http.scope.get("interlock.local")
        if declared.local and not is_local:
            raise NotFound(
                f"{path} uses files of the server's machine. Run the command on that machine: "
                f"interlock {declared.name}"
            )
        credentials = Credentials() if declared.anyone else context.credentials(http)

        # Read the query or the body.
        data: bytes | None = None
        if method == "GET" or known.raw:
            given = from_query(known, http.query_params)
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
                raise Unreadable(
                    f"The content type of the body is {kind[:80] or 'missing'}. Send {media_type}."
                )
            if known.raw:
                data = body
            else:
                given = from_body(body)

        # Make the request.
        claimed = claimed_sender(known, given)
        if claimed is not None:
            both = {claimed, (credentials.claimed or claimed).removeprefix("@")}
            credentials = credentials._replace(claimed=" and ".join(sorted(both)))
        key = headers.get(KEY_HEADER)
        key = unquote(key) if key is not None else None
        request = request_of(known, http.path_params, given, data=data, key=key)
        if isinstance(request, Attend) and not is_local:
            # A client on another machine has another clock, and no window on this machine.
            request = request._replace(window=None, until_ms=None)

        # Call the node.
        calling = context.live.call(credentials, request)
        waits = isinstance(request, Attend) or getattr(request, "wait_s", None) is not None
        answer = await (while_there(http, calling) if waits else calling)
        node = context.live.node
        # On a shared engine, the answer has the position of the log. A client sends it with its
        # next request, so that another node catches up first.
        seen = {SEEN_HEADER: str(node.reached)} if node.shared else None
        return response_class(headers)(answer, headers=seen)

    async def endpoint(http: Request) -> Response:
        try:
            return await call(http)
        except Refusal as refusal:
            context.metrics.refusals[refusal.code] += 1
            # A command names its own flags, so it needs the names of the fields.
            if http.headers.get(INTERFACE_HEADER) == "cli":
                raise
            raise renamed(refusal, names) from None

    return endpoint


async def _short_body(request: Request) -> bytes:
    """Read the body of a caller without a token. Raises TooLarge for a long one."""
    if int(request.headers.get("content-length") or 0) >= LONG_BODY:
        raise TooLarge
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) >= LONG_BODY:
            raise TooLarge
    return body


class Unreadable(Usage):
    """The body has a content type that this route does not accept."""

    http = 415


# --- the caller


class ApiContext:
    """The parts that every endpoint needs. `owner` is the owner's token. `open_metrics` allows
    callers without a token to read the metrics."""

    def __init__(
        self,
        live: LiveNode,
        metrics: Metrics,
        owner: str,
        *,
        open_metrics: bool = True,
        limit: RateLimit | None = None,
    ) -> None:
        self.live, self.metrics = live, metrics
        self.open_metrics = open_metrics
        self._owner = owner.encode()
        self._limit = limit or RateLimit()

    def credentials(self, request: HTTPConnection) -> Credentials:
        """Return the credentials of a request. A caller at the workspace's own socket may be its
        owner. For any other caller, the token decides. Raises NoIdentity, RateLimited and
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
                raise NoIdentity
            token = unquote(shown.strip())
        local = bool(scope.get("interlock.local"))
        if token is not None and not local:
            self._limit.take(token)
        if token is not None and compare_digest(token.encode(), self._owner):
            token, is_owner = None, True
        else:
            is_owner = local and token is None and headers.get(OWNER_HEADER) == "yes"
            if token is None and not local:
                raise NoIdentity
        given = headers.get(SEEN_HEADER)
        seen = position(
            given,
            f"The header {SEEN_HEADER} is {(given or '')[:80]!r}. Send the number that an earlier "
            "answer had in this header.",
        )
        # A token is valid for the address of MCP, or for the address of the server.
        base: str | None = scope.get("interlock.base")
        is_mcp = scope["path"].rstrip("/") == "/mcp"
        # All addresses of this machine count as one host.
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


def position(text: str | None, complaint: str) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise Usage(complaint)
    return int(text)


class RateLimit:
    """A token bucket for each token: it holds a burst, and refills at a steady rate."""

    def __init__(
        self,
        per_s: float = REQUESTS_PER_S,
        burst: float = BURST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_s, self._burst, self._clock = per_s, burst, clock
        self._buckets: dict[bytes, tuple[float, float]] = {}
        self._max_buckets = FORGET_EVERY

    def take(self, token: str) -> None:
        """Count one request of a token. Raises RateLimited."""
        # A token can be any text of any length, so the bucket stores only its hash.
        who = hashlib.sha256(token.encode()).digest()
        now = self._clock()
        left, at = self._buckets.get(who, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_s)
        if left < 1:
            wait_s = max(1, round((1 - left) / self._per_s))
            raise RateLimited(
                f"This token sends more than {self._per_s:.0f} requests a second. Wait {wait_s} s. "
                "To wait for mail without polling:",
                Remedy(
                    "interlock inbox --wait 25s",
                    http="`GET /v1/inbox?wait=25` or `GET /v1/events`",
                    mcp="`inbox(wait_s: 25)`",
                ),
                retry_after_s=wait_s,
            )
        if len(self._buckets) > self._max_buckets:
            # Drop the buckets that are full again.
            full_s = self._burst / self._per_s
            self._buckets = {w: b for w, b in self._buckets.items() if now - b[1] < full_s}
            self._max_buckets = max(FORGET_EVERY, 2 * len(self._buckets))
        self._buckets[who] = left - 1, now


# --- from an HTTP request to a request for a verb


class Route(NamedTuple):
    """A method and a path of a verb. A shorthand is a second route, for requests typed by hand."""

    verb: type[Verb]
    method: str
    path: str
    shorthand: bool = False


class Decoder(NamedTuple):
    """Decodes the requests of one route. `members` are the fields in the query or the body, by
    their names in HTTP. `path` are the fields in the path. A `raw` body is bytes."""

    route: Route
    members: dict[str, Field]
    path: dict[str, Field]
    raw: bool
    takes_key: bool


def routes_of(verb: type[Verb]) -> list[Route]:
    """The routes of a verb, its main route first."""
    declared = verb.declared
    routes = []
    for line in [declared.http, *declared.http_also] if declared.http else []:
        method, path = line.split()
        routes.append(Route(verb, method, path, shorthand=line != declared.http))
    return routes


def decoder(route: Route) -> Decoder:
    fields = fields_of(route.verb)
    path = {name: field for name, field in fields.items() if "{" + name + "}" in route.path}
    raw = any(isinstance(field.shape, Binary) for field in fields.values())
    members = {
        WIRE_NAMES.get(name, name): field
        for name, field in fields.items()
        if name not in path and name != "key" and not isinstance(field.shape, Binary)
    }
    return Decoder(route, members, path, raw, "key" in fields)


def from_query(known: Decoder, query: QueryParams) -> dict[str, Any]:
    """The members of a query, each of the type of its field."""
    given: dict[str, Any] = {}
    for name in query:
        field = known.members.get(name)
        values = query.getlist(name)
        if field is not None and isinstance(field.shape, Several):
            each = field.shape.each
            given[name] = [_from_text(name, value, each) for value in values]
        elif len(values) > 1:
            raise Usage(f"The query has {name} {len(values)} times. Give it once.", member=name)
        else:
            given[name] = _from_text(name, values[0], field.shape) if field else values[0]
    return given


def _from_text(name: str, text: str, shape: Shape) -> Any:
    if isinstance(shape, Switch):
        if text not in ("true", "false"):
            raise Usage(f"{name} is {text[:80]!r}. Give true or false.", member=name)
        return text == "true"
    if isinstance(shape, Integer):
        if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= MAX_DIGITS):
            raise Usage(f"{name} is {text[:80]!r}. Give a whole number.", member=name)
        return int(text)
    return text


def from_body(body: bytes) -> dict[str, Any]:
    """The members of a JSON body. An empty body has no members."""
    if not body:
        return {}
    try:
        given = decode(body)
    except ValueError as wrong:
        raise Usage(f"The body is not JSON: {wrong}. Send one JSON object.") from None
    if not isinstance(given, dict):
        raise Usage("The body is not a JSON object.")
    return given


def claimed_sender(known: Decoder, given: dict[str, Any]) -> str | None:
    """Remove the members that name a sender, and return the names. The token decides the sender,
    and the names must match it."""
    named = [given.pop(n) for n in SENDER_MEMBERS if n in given and n not in known.members]
    if not all(isinstance(name, str) for name in named):
        raise Usage(
            "from, source and sender must be strings. Omit them, because the token decides the "
            "sender."
        )
    names = {name.removeprefix("agent:").removeprefix("@") for name in named}
    return " and ".join(sorted(names)) if names else None


def request_of(
    known: Decoder,
    path: Mapping[str, str],
    given: dict[str, Any],
    *,
    data: bytes | None = None,
    key: str | None = None,
) -> Verb:
    """Return the request for the route's verb. Raises Usage for unknown and missing members."""
    values: dict[str, Any] = {}
    for name, value in given.items():
        field = known.members.get(name)
        if field is None:
            raise Usage(
                f"This route has no member {name[:80]!r}. See /openapi.json.", member=name[:80]
            )
        is_list = isinstance(field.shape, Several) and isinstance(value, list)
        values[field.name] = tuple(value) if is_list else value
    for name, field in known.path.items():
        value = _from_text(name, path[name], field.shape)
        values[name] = (value,) if isinstance(field.shape, Several) else value
    for name, field in known.members.items():
        if field.required and field.name not in values:
            raise Usage(f"The member {name!r} is missing. See /openapi.json.", member=name)
    if "adapter" in known.members and values.get("adapter") is None:
        values["adapter"] = ADAPTER
    if data is not None:
        values["data"] = data
    if key is not None:
        if not known.takes_key:
            raise Usage(
                "This route takes no Idempotency-Key, only messages and evidence do. Omit the "
                "header."
            )
        values["key"] = key
    return known.route.verb(**values)


# --- answers


class JsonResponse(Response):
    """An answer whose remedies are requests to the HTTP API."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return in_json(content)


class CommandResponse(JsonResponse):
    """An answer whose remedies are commands, for a command that calls the server."""

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content)


def in_json(content: Any) -> bytes:
    """Encode an answer. Its remedies become requests to the HTTP API."""

    def words(text: Any) -> str:
        if not isinstance(text, str):
            raise TypeError(f"{type(text).__name__} is not a JSON type.")
        return str(worded(text, http_words))

    return orjson.dumps(content, words, orjson.OPT_PASSTHROUGH_SUBCLASS)


def response_class(headers: Mapping[str, str]) -> type[JsonResponse]:
    return CommandResponse if headers.get(INTERFACE_HEADER) == "cli" else JsonResponse


def refused(
    refusal: Refusal, status: int | None = None, request: Mapping[str, str] | None = None
) -> JsonResponse:
    """The response for a refusal. `request` are the headers of the request."""
    status = status or refusal.http
    headers = {}
    if isinstance(refusal, RateLimited):
        headers["Retry-After"] = str(refusal.members.get("retry_after_s", 1))
    if isinstance(refusal, MissingScope):
        scope = refusal.members.get("scope", "")
        headers["WWW-Authenticate"] = f'Bearer error="insufficient_scope", scope="{scope}"'
    return response_class(request or {})(refusal.as_dict(), status, headers)


async def while_there(request: Request, call: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a call that waits or shows mail. Raises ClientDisconnect when the caller
    disconnects, also before the call starts. A disconnected caller must not count as a listener,
    and its mail must not count as shown."""

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
