"""The guard in front of all routes: it refuses foreign requests, and encodes errors.

Browsers send requests that pages of other sites make. The guard refuses them by their headers
Origin and Sec-Fetch-Site. By the header Host, it refuses a name that an attacker pointed at this
machine (DNS rebinding). It returns every error as the error object.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable
from urllib.parse import parse_qsl, unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from interlock.doors.http.api import refused
from interlock.doors.http.metrics import Metrics
from interlock.errors import ForeignOrigin, Internal, NotFound, Refusal, TooLarge, Usage
from interlock.machine.hosts import Proxies, is_loopback, written_by_proxy
from interlock.rooms.identity.scopes import BASIC_SCOPES
from interlock.rooms.identity.token_format import PREFIX, PREFIXES, REFRESH

_LOG = logging.getLogger("interlock.http")
# Other sites may link to these pages. Each of them forbids other pages to frame it.
CONSENT = "/consent"
VISITED = ("/", "/authorize", CONSENT, "/person", "/docs")
VISITED_BELOW = ("/invite/", "/docs/")
MAX_BODY_BYTES = 8 << 20
SLOWEST_BODY_S = 30.0
OPEN = ("/register", "/token", "/revoke")
PUBLISHED = "/.well-known/oauth-"
# Names and patterns by which the guard finds a token in an address. Invitations and codes are in
# addresses by design. Error texts omit them.
_NAMES = ("token", "access_token", "refresh_token", "authorization", "bearer", "api_key")
_TOKEN = re.compile(r"(?<![A-Za-z0-9])il[kr]_[a-z2-7]{4}|il[kr]_[a-z2-7]{32}")
_SECRET = re.compile(f"(?:{'|'.join(PREFIXES)})[A-Za-z0-9]+")
Report = Callable[[str, str], Awaitable[None]]


class Guard:
    """Admits requests, and encodes errors.

    With `loopback`, the server accepts only requests whose Host names this machine or the proxy.
    `outside` is the public address of a proxy in front of the server. `proxies` are the source
    addresses of the proxy, in addition to this machine's. `report` records a refusal in the log."""

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        *,
        loopback: bool,
        outside: str | None = None,
        proxies: Iterable[str] = (),
        report: Report | None = None,
    ) -> None:
        self._app, self._metrics, self._loopback = app, metrics, loopback
        self._proxies, self._report = Proxies(proxies), report
        self._scheme, _, self._outside = (outside or "").rstrip("/").lower().partition("://")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                self._metrics.answers[message["status"]] += 1
                if message["status"] == 401 and not is_open(scope["path"]):
                    MutableHeaders(scope=message)["WWW-Authenticate"] = _challenge(scope, headers)
            await send(message)

        headers = Headers(scope=scope)
        scope["app"] = self  # so that the router raises the errors of routing
        try:
            if scope.get("interlock.local"):
                # A caller that can write to the workspace's own socket can write its file too.
                await self._app(scope, receive, sending)
            else:
                await self._admit(scope, headers)
                await self._app(scope, BodyReceiver(receive, headers), sending)
        except ClientDisconnect:
            return
        except Exception as trouble:
            if started:
                raise
            refusal, status = _refusal_of(trouble, scope)
            response = refused(refusal, status, headers)
            if isinstance(trouble, HTTPException) and trouble.headers:
                response.headers.update(trouble.headers)
            if response.status_code == 408:
                response.headers["Connection"] = "close"
            await response(scope, receive, sending)

    async def _admit(self, scope: Scope, headers: Headers) -> None:
        """Check the origin of a request, and store in its scope whether it came through the proxy.
        Raises ForeignOrigin, and Usage for a token in the address."""
        host, path = headers.get("host", ""), scope["path"]
        peer = _peer(scope)
        is_proxied = is_loopback(peer) or self._proxies.has(peer)
        # A request with the proxy's name from another address bypassed the proxy, over plain HTTP.
        if is_outside := is_proxied and host.lower() == self._outside != "":
            scope["scheme"], scope["interlock.outside"] = self._scheme, True
            # The proxy appends the caller's address to those that came with the request, in the
            # same header line or in another.
            last = ",".join(headers.getlist("x-forwarded-for")).rpartition(",")[2].strip()
            if (client := written_by_proxy(last)) is not None:
                scope["client"] = (client, 0)

        # Browser histories and the logs of proxies store addresses, with a token in them.
        if _holds_token(scope):
            if self._report is not None:
                await self._report("TOKEN_IN_URL", _peer(scope))
            raise Usage(
                "The address contains a token. The server did not use it. Revoke it, because "
                "browsers and proxies log addresses. Send a new token in the header Authorization."
            )

        why = _foreign(scope, headers)
        if self._loopback and not is_outside and not _is_here(host):
            why = (
                f"The header Host is {host[:80]!r}, but this server serves only its own machine. "
                f"Use {f'{self._outside}, ' if self._outside else ''}127.0.0.1 or localhost."
            )
        if why is not None:
            # Record in the log that a page of another site tried to consent as a person.
            if self._report is not None and (scope["method"], path) == ("POST", CONSENT):
                await self._report("FORGED_CONSENT", _peer(scope))
            raise ForeignOrigin(why)

        # The server issues tokens for this address, but never over plain HTTP, which others could
        # read. A proxy without X-Forwarded-Proto was called with its own scheme. If the header has
        # several schemes, the caller sent some of them.
        schemes = ",".join(headers.getlist("x-forwarded-proto")).lower()
        is_plain = (
            is_proxied
            and schemes != ""
            and {part.strip() for part in schemes.split(",")} != {scope["scheme"]}
        )
        if (is_outside or self._loopback) and not is_plain:
            scope["interlock.base"] = f"{scope['scheme']}://{host.lower()}"


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _holds_token(scope: Scope) -> bool:
    query = scope["query_string"].decode("latin-1")
    # /authorize takes parameters of any name from clients, and checks them itself.
    names = () if scope["path"] == "/authorize" else _NAMES
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name.lower() in names or value.lower().startswith((PREFIX, REFRESH)):
            return True
    written = scope.get("raw_path", b"").decode("latin-1")
    plain = unquote(query.replace("+", " "))
    return any(_TOKEN.search(text) for text in (query, plain, written, scope["path"]))


def is_open(path: str) -> bool:
    """Whether pages of other sites may request a path. Such a path reads no cookie, and answers
    only with the client's own data."""
    return path in OPEN or path.startswith(PUBLISHED)


def _is_here(host: str) -> bool:
    """Whether a Host header names this machine."""
    has_port = ":" in host and not host.endswith("]")
    name, port = host.rsplit(":", 1) if has_port else (host, "0")
    return port.isdecimal() and is_loopback(name)


def _foreign(scope: Scope, headers: Headers) -> str | None:
    """Return why the guard refuses a request as coming from another site's page, or None."""
    path = scope["path"]
    if is_open(path):
        return None
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower():
        return (
            f"The server refuses requests from pages of {origin[:80]!r}. Open the page at the "
            "server's own address, or send the request from a program."
        )
    site = headers.get("sec-fetch-site", "none")
    navigates = scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
    is_visit = navigates and (path in VISITED or path.startswith(VISITED_BELOW))
    if site not in ("none", "same-origin") and not is_visit:
        return "The server refuses requests from pages of other sites."
    return None


def _challenge(scope: Scope, headers: Headers) -> str:
    """Return the WWW-Authenticate header, which tells a caller where to get a token."""
    members = ['realm="interlock"']
    if base := scope.get("interlock.base"):
        path = "/mcp" if scope["path"].rstrip("/") == "/mcp" else ""
        members.append(f'resource_metadata="{base}{PUBLISHED}protected-resource{path}"')
        members.append(f'scope="{" ".join(BASIC_SCOPES)}"')
    if "authorization" in headers:
        members.append('error="invalid_token"')
    return "Bearer " + ", ".join(members)


def _refusal_of(trouble: Exception, scope: Scope) -> tuple[Refusal, int | None]:
    if isinstance(trouble, Refusal):
        return trouble, None
    path = _SECRET.sub("…", str(scope["path"]))[:200]
    if isinstance(trouble, HTTPException):
        if trouble.status_code == 404:
            return NotFound(f"The route {path} does not exist. See /openapi.json."), None
        if trouble.status_code == 405:
            return Usage(
                f"{path} does not accept the method {scope['method']}. See /openapi.json."
            ), 405
        return Usage(f"{trouble.detail}."), trouble.status_code
    _LOG.error("a request failed", exc_info=trouble, extra={"path": path})
    return Internal(
        f"Interlock has a defect: {type(trouble).__name__}. Check whether the request was "
        "executed. The server's log has the details."
    ), None


# --- bodies


class BodyReceiver:
    """Receives a request's body. Raises TooLarge and Slow. After the whole body, it waits for the
    end of the connection without a time limit."""

    def __init__(self, receive: Receive, headers: Headers) -> None:
        declared = headers.get("content-length", "")
        if declared.isdigit() and int(declared) > MAX_BODY_BYTES:
            raise _too_large()
        self._receive = receive
        self._size = 0
        self._is_whole = False
        self._deadline: float | None = None

    async def __call__(self) -> Message:
        if self._is_whole:
            return await self._receive()
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + SLOWEST_BODY_S
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise Slow(
                f"The body did not arrive within {SLOWEST_BODY_S:.0f} s. Send the request again."
            ) from None
        self._size += len(message.get("body", b""))
        if self._size > MAX_BODY_BYTES:
            raise _too_large()
        self._is_whole = not message.get("more_body", False)
        return message


class Slow(Usage):
    """The request arrived too slowly."""

    http = 408


def _too_large() -> TooLarge:
    return TooLarge(
        f"The body is larger than {MAX_BODY_BYTES} bytes. Upload a larger payload in chunks to "
        "/v1/blobs, and name the upload in the message.",
        limit=MAX_BODY_BYTES,
    )
