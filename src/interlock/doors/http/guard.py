"""The guard before everything that is served: who may knock at all, and what happens to defects.

Browsers send what pages of other sites tell them to; such requests are refused by their Origin and
Sec-Fetch-Site, and a name that was rebound to this machine by its Host. Whatever goes wrong behind
the guard leaves as the error object.
"""

import logging
from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from interlock.doors.http.answers import refused
from interlock.doors.http.limits import Body
from interlock.doors.http.metrics import Metrics
from interlock.errors import ForeignOrigin, Internal, NotFound, Refusal, Usage

_LOG = logging.getLogger("interlock.http")


class Guard:
    """`loopback` says that the server is for this machine only, whatever names point to it;
    `outside` is the address under which a proxy before it is known."""

    def __init__(
        self, app: ASGIApp, metrics: Metrics, *, loopback: bool, outside: str | None = None
    ) -> None:
        self._app, self._metrics, self._loopback = app, metrics, loopback
        self._scheme, _, self._outside = (outside or "").rstrip("/").lower().partition("://")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                self._metrics.answered(message["status"])
            await send(message)

        headers = Headers(scope=scope)
        scope["app"] = self  # so that the router raises what it cannot route
        try:
            if not scope.get("interlock.local"):
                if is_outside := headers.get("host", "").lower() == self._outside != "":
                    scope["scheme"] = self._scheme
                _refuse_foreign(headers, scope, here_only=self._loopback and not is_outside)
            # Whoever writes to the workspace's own socket could write its file as well.
            body = receive if scope.get("interlock.local") else Body(receive, headers)
            await self._app(scope, body, sending)
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


def _refuse_foreign(headers: Headers, scope: Scope, *, here_only: bool) -> None:
    host = headers.get("host", "")
    if here_only and not _is_here(host):
        raise ForeignOrigin(
            f"This server is for its own machine, and was asked for as {host[:80]!r}. Use "
            "127.0.0.1 or localhost."
        )
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2].lower() != host.lower():
        raise ForeignOrigin(f"Requests from pages of {origin[:80]!r} are refused.")
    site = headers.get("sec-fetch-site", "none")
    visits = scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
    if site not in ("none", "same-origin") and not (visits and scope["path"] == "/"):
        raise ForeignOrigin("Requests from pages of other sites are refused.")


def _is_here(host: str) -> bool:
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    name = name.strip("[]").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
