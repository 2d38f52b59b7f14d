"""The guard before everything that is served: who may knock at all, and what happens to defects.

Browsers send what pages of other sites tell them to; such requests are refused by their Origin and
Sec-Fetch-Site, and a name that was rebound to this machine by its Host. Whatever goes wrong behind
the guard leaves as the error object.
"""

import logging
from collections.abc import Awaitable, Callable
from urllib.parse import unquote_to_bytes

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from interlock.contracts.hosts import is_loopback
from interlock.contracts.scopes import BASIC_SCOPES
from interlock.contracts.tokens import PREFIX, REFRESH
from interlock.doors.http.answers import refused
from interlock.doors.http.limits import Body
from interlock.doors.http.metrics import Metrics
from interlock.errors import ForeignOrigin, Internal, NotFound, Refusal, Usage

_LOG = logging.getLogger("interlock.http")
# Where links of other sites may lead. That none of it is shown within another page, each page
# sees to by itself.
CONSENT = "/consent"
VISITED = ("/", "/authorize", CONSENT, "/person")
INVITATIONS = "/invite/"
OPEN = ("/register", "/token", "/revoke")
PUBLISHED = "/.well-known/oauth-"
_SHOWN = tuple(f"={prefix}".encode() for prefix in (PREFIX, REFRESH))
Report = Callable[[str, str], Awaitable[None]]


class Guard:
    """`loopback` says that the server is for this machine only, whatever names point to it;
    `outside` is the address under which a proxy before it is known; `report` keeps in the log
    what should be known afterwards."""

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        *,
        loopback: bool,
        outside: str | None = None,
        report: Report | None = None,
    ) -> None:
        self._app, self._metrics, self._loopback = app, metrics, loopback
        self._report = report
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
        if is_outside := host == self._outside != "":
            scope["scheme"], scope["interlock.outside"] = self._scheme, True
            _seen_through(scope, headers)
        try:
            here_only = self._loopback and not is_outside
            _refuse_foreign(headers, scope, here_only=here_only, known=self._outside)
        except ForeignOrigin:
            await self._keep_forged(scope)
            raise
        # Where tokens may be given out, and for which address: never over plain HTTP that
        # somebody else could listen to.
        came_by = headers.get("x-forwarded-proto", scope["scheme"]).partition(",")[0]
        is_plain = came_by.strip().lower() != scope["scheme"]
        if (is_outside or self._loopback) and not is_plain:
            scope["interlock.base"] = f"{scope['scheme']}://{host}"
        await self._refuse_shown(scope)

    async def _keep_forged(self, scope: Scope) -> None:
        """A page of another site that consents in a person's name is kept in the log."""
        if self._report is not None and (scope["method"], scope["path"]) == ("POST", CONSENT):
            await self._report("FORGED_CONSENT", _peer(scope))

    async def _refuse_shown(self, scope: Scope) -> None:
        """A token in an address stays in histories and in the logs of every proxy on the way."""
        query = unquote_to_bytes(scope["query_string"].replace(b"+", b" ")).lower()
        if b"access_token=" in query or any(shown in query for shown in _SHOWN):
            if self._report is not None:
                await self._report("TOKEN_IN_URL", _peer(scope))
            raise Usage(
                "A token stood in the address. It was not looked at, and is known to whoever keeps "
                "addresses: revoke it, and show another in the header Authorization."
            )


def is_open(path: str) -> bool:
    """What pages of other sites may ask for: no cookie is looked at there, and what is given out
    is a client's own."""
    return path in OPEN or path.startswith(PUBLISHED)


def _seen_through(scope: Scope, headers: Headers) -> None:
    """Behind a proxy on this machine, whoever asks is whom the proxy says, which is the last of
    what is said: it adds to what came with the request, in the same line or in another."""
    client = scope.get("client")
    said = ",".join(headers.getlist("x-forwarded-for")).rpartition(",")[2].strip()
    if said and client and is_loopback(str(client[0])):
        scope["client"] = (said, 0)


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
        path = str(scope["path"])[:200]
        if trouble.status_code == 404:
            return NotFound(f"There is nothing at {path}. See /openapi.json."), None
        if trouble.status_code == 405:
            return Usage(f"{path} does not take {scope['method']}. See /openapi.json."), 405
        return Usage(f"{trouble.detail}."), trouble.status_code
    _LOG.error("defect", exc_info=trouble, extra={"path": scope.get("path")})
    return Internal(
        f"A defect in Interlock: {type(trouble).__name__}. Look whether what you asked for was "
        "done. The server's log has what is known about it."
    ), None


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
