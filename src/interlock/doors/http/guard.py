"""The guard before everything that is served: who may knock at all, and what happens to defects.

Browsers send what pages of other sites tell them to; such requests are refused by their Origin and
Sec-Fetch-Site, and a name that was rebound to this machine by its Host. Whatever goes wrong behind
the guard leaves as the error object.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Iterable
from urllib.parse import parse_qsl, unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from interlock.doors.http.answers import refused
from interlock.doors.http.limits import Body
from interlock.doors.http.metrics import Metrics
from interlock.errors import ForeignOrigin, Internal, NotFound, Refusal, Usage
from interlock.machine.hosts import Proxies, is_loopback, written_by_proxy
from interlock.rooms.identity.scopes import BASIC_SCOPES
from interlock.rooms.identity.token_format import PREFIX, PREFIXES, REFRESH

_LOG = logging.getLogger("interlock.http")
# Where links of other sites may lead. That none of it is shown within another page, each page
# sees to by itself.
CONSENT = "/consent"
VISITED = ("/", "/authorize", CONSENT, "/person")
INVITATIONS = "/invite/"
OPEN = ("/register", "/token", "/revoke")
PUBLISHED = "/.well-known/oauth-"
# What is a token by its name, wherever it stands in an address, and by its looks. An invitation
# and a code are in addresses by their nature; those are merely not said again.
_NAMES = ("token", "access_token", "refresh_token", "authorization", "bearer", "api_key")
_TOKEN = re.compile(r"(?<![A-Za-z0-9])il[kr]_[a-z2-7]{4}|il[kr]_[a-z2-7]{32}")
_SECRET = re.compile(f"(?:{'|'.join(PREFIXES)})[A-Za-z0-9]+")
Report = Callable[[str, str], Awaitable[None]]


class Guard:
    """`loopback` says that the server is for this machine only, whatever names point to it;
    `outside` is the address under which a proxy before it is known, and `proxies` are where such
    a one asks from, besides this machine; `report` keeps in the log what should be known
    afterwards."""

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
                self._metrics.answered(message["status"])
                if message["status"] == 401 and not is_open(scope["path"]):
                    MutableHeaders(scope=message)["WWW-Authenticate"] = _challenge(scope, headers)
            await send(message)

        headers = Headers(scope=scope)
        scope["app"] = self  # so that the router raises what it cannot route
        try:
            if scope.get("interlock.local"):
                # Whoever writes to the workspace's own socket could write its file as well.
                await self._app(scope, receive, sending)
            else:
                await self._admit(scope, headers)
                await self._app(scope, Body(receive, headers), sending)
        except ClientDisconnect:
            return
        except Exception as trouble:
            if started:
                raise
            refusal, status = _refusal_of(trouble, scope)
            response = refused(refusal, status)
            if isinstance(trouble, HTTPException) and trouble.headers:
                response.headers.update(trouble.headers)
            if response.status_code == 408:
                response.headers["Connection"] = "close"
            await response(scope, receive, sending)

    async def _admit(self, scope: Scope, headers: Headers) -> None:
        """Lets a request in, and notes where it came in, or refuses it."""
        host = headers.get("host", "").lower()
        # Whoever else asks by that name has come past the proxy, and over plain HTTP.
        is_proxied = self._proxies.has(_peer(scope))
        if is_outside := is_proxied and host == self._outside != "":
            scope["scheme"], scope["interlock.outside"] = self._scheme, True
            _seen_through(scope, headers)
        await self._refuse_shown(scope)
        try:
            here_only = self._loopback and not is_outside
            _refuse_foreign(headers, scope, here_only=here_only, known=self._outside)
        except ForeignOrigin:
            await self._keep_forged(scope)
            raise
        # Where tokens may be given out, and for which address: never over plain HTTP that
        # somebody else could listen to.
        is_plain = is_proxied and not _came_by(scope["scheme"], headers)
        if (is_outside or self._loopback) and not is_plain:
            scope["interlock.base"] = f"{scope['scheme']}://{host}"

    async def _keep_forged(self, scope: Scope) -> None:
        """A page of another site that consents in a person's name is kept in the log."""
        if self._report is not None and (scope["method"], scope["path"]) == ("POST", CONSENT):
            await self._report("FORGED_CONSENT", _peer(scope))

    async def _refuse_shown(self, scope: Scope) -> None:
        """A token in an address stays in histories and in the logs of every proxy on the way."""
        if _holds_token(scope):
            if self._report is not None:
                await self._report("TOKEN_IN_URL", _peer(scope))
            raise Usage(
                "A token stood in the address. It was not looked at, and is known to whoever keeps "
                "addresses: revoke it, and show another in the header Authorization."
            )


def _holds_token(scope: Scope) -> bool:
    query = scope["query_string"].decode("latin-1")
    # Clients send what they like to /authorize, and it is looked at by name there.
    names = () if scope["path"] == "/authorize" else _NAMES
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name.lower() in names or value.lower().startswith((PREFIX, REFRESH)):
            return True
    written = scope.get("raw_path", b"").decode("latin-1")
    plain = unquote(query.replace("+", " "))
    return any(_TOKEN.search(text) for text in (query, plain, written, scope["path"]))


def is_open(path: str) -> bool:
    """What pages of other sites may ask for: no cookie is looked at there, and what is given out
    is a client's own."""
    return path in OPEN or path.startswith(PUBLISHED)


def _seen_through(scope: Scope, headers: Headers) -> None:
    """Behind a proxy, whoever asks is whom the proxy says, which is the last of what is said: it
    adds to what came with the request, in the same line or in another."""
    said = ",".join(headers.getlist("x-forwarded-for")).rpartition(",")[2].strip()
    if (peer := written_by_proxy(said)) is not None:
        scope["client"] = (peer, 0)


def _came_by(scheme: str, headers: Headers) -> bool:
    """Whether a proxy was asked by this scheme. One that says nothing was; where more is said than
    one thing, a part of that came with the request."""
    said = ",".join(headers.getlist("x-forwarded-proto")).lower()
    return not said or {part.strip() for part in said.split(",")} == {scheme}


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _challenge(scope: Scope, headers: Headers) -> str:
    """Who asks without a good token is told where to get one."""
    said = ['realm="interlock"']
    if base := scope.get("interlock.base"):
        path = "/mcp" if scope["path"].rstrip("/") == "/mcp" else ""
        said.append(f'resource_metadata="{base}{PUBLISHED}protected-resource{path}"')
        said.append(f'scope="{" ".join(BASIC_SCOPES)}"')
    if "authorization" in headers:
        said.append('error="invalid_token"')
    return "Bearer " + ", ".join(said)


def _refusal_of(trouble: Exception, scope: Scope) -> tuple[Refusal, int | None]:
    if isinstance(trouble, Refusal):
        return trouble, None
    if isinstance(trouble, HTTPException):
        path = _shown(scope)
        if trouble.status_code == 404:
            return NotFound(f"There is nothing at {path}. See /openapi.json."), None
        if trouble.status_code == 405:
            return Usage(f"{path} does not take {scope['method']}. See /openapi.json."), 405
        return Usage(f"{trouble.detail}."), trouble.status_code
    _LOG.error("defect", exc_info=trouble, extra={"path": _shown(scope)})
    return Internal(
        f"A defect in Interlock: {type(trouble).__name__}. Look whether what you asked for was "
        "done. The server's log has what is known about it."
    ), None


def _shown(scope: Scope) -> str:
    """A path as it may be said again."""
    return _SECRET.sub("…", str(scope["path"]))[:200]


def _refuse_foreign(headers: Headers, scope: Scope, *, here_only: bool, known: str) -> None:
    host = headers.get("host", "")
    if here_only and not _is_here(host):
        raise ForeignOrigin(
            f"This server is for its own machine, and was asked for as {host[:80]!r}. Use "
            f"{f'{known}, ' if known else ''}127.0.0.1 or localhost."
        )
    if is_open(scope["path"]):
        return
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2].lower() != host.lower():
        raise ForeignOrigin(f"Requests from pages of {origin[:80]!r} are refused.")
    site = headers.get("sec-fetch-site", "none")
    visits = scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
    if site not in ("none", "same-origin") and not (visits and _is_visited(scope["path"])):
        raise ForeignOrigin("Requests from pages of other sites are refused.")


def _is_visited(path: str) -> bool:
    return path in VISITED or path.startswith(INVITATIONS)


def _is_here(host: str) -> bool:
    """Whether a Host header names this machine."""
    has_port = ":" in host and not host.endswith("]")
    name, port = host.rsplit(":", 1) if has_port else (host, "0")
    return port.isdecimal() and is_loopback(name)
