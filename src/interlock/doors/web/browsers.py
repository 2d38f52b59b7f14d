"""Requests of browsers: their origin, the cookies of signed-in people, the tokens of forms.

The server encrypts the owner's cookie, so only the server can make and read it. The cookie does not
contain the owner's token. It only proves that the browser sent that token, and when. Each form
contains a token that the server derives from a cookie of the same browser. A page of another site
can neither read nor set our cookies, so it cannot post our forms. The sign-in form uses a separate
cookie with a random value.
"""

import base64
import hmac
import secrets
from collections.abc import Awaitable, Callable
from typing import Literal
from urllib.parse import parse_qs

from cryptography.fernet import Fernet, InvalidToken
from starlette.requests import Request
from starlette.responses import Response

Endpoint = Callable[[Request], Awaitable[Response]]

MAX_FORM_BYTES = 8192
COOKIE_TTL_S = 30 * 86_400
_OWNER = b"owner"
FRAMES = ("iframe", "frame", "embed", "object", "fencedframe")
HEADERS = {
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # With `no-referrer`, browsers would send `Origin: null` with our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
STALE_FORM = (
    "This form does not match your browser's cookie, so Interlock did nothing. Load the page again "
    "and retry. If that fails, allow cookies for this address."
)


def is_foreign(request: Request) -> bool:
    """Return whether a page of another origin caused the request."""
    origin = request.headers.get("origin")
    host = request.headers.get("host", "")
    return origin is not None and origin.partition("://")[2].lower() != host.lower()


def is_framed(request: Request) -> bool:
    """Return whether the browser would show the response inside another page."""
    return request.headers.get("sec-fetch-dest", "").lower() in FRAMES


def peer_of(request: Request) -> str:
    return request.client.host if request.client else ""


async def posted(request: Request, max_bytes: int = MAX_FORM_BYTES) -> dict[str, str] | None:
    """Return the fields of a posted form, or None if the body has another type or is too large."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        return None
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            return None
    fields = parse_qs(body.decode("utf-8", "replace"))
    return {name: values[0] for name, values in fields.items()}


class _Cookies:
    """The cookies of a workspace's pages: a session cookie after sign-in, a visit cookie before."""

    same_site: Literal["strict", "lax"] = "strict"

    def __init__(self, key: bytes, session: str, visit: str) -> None:
        self._form_key = _derived(key, b"forms")
        # Browsers send a cookie to every port of a host. Without a suffix, two workspaces on one
        # machine would sign each other out.
        suffix = _derived(key, b"cookie")[:4].hex()
        self._session, self._visit = f"{session}_{suffix}", f"{visit}_{suffix}"

    def sign_out(self, request: Request, response: Response) -> None:
        self._delete(request, response, self._session)

    def form(self, request: Request) -> str:
        """Return the form token for a signed-in browser."""
        return self._form_token(self._get(request, self._session))

    def is_form(self, request: Request, token: str) -> bool:
        return self._is_form_token(self._get(request, self._session), token)

    def visit(self, request: Request) -> str:
        """Return the random value that identifies a browser before sign-in."""
        return self._get(request, self._visit) or secrets.token_urlsafe(24)

    def visitors_form(self, visit: str) -> str:
        return self._form_token(visit)

    def keep_visit(self, request: Request, response: Response, visit: str) -> None:
        self._set(request, response, self._visit, visit, None)

    def is_visitors_form(self, request: Request, token: str) -> bool:
        return self._is_form_token(self._get(request, self._visit), token)

    def _form_token(self, cookie: str) -> str:
        return hmac.digest(self._form_key, cookie.encode("utf-8", "surrogatepass"), "sha256").hex()

    def _is_form_token(self, cookie: str, token: str) -> bool:
        shown = token.encode("utf-8", "surrogatepass")
        return bool(cookie) and hmac.compare_digest(self._form_token(cookie).encode(), shown)

    def _name(self, request: Request, name: str) -> str:
        return name

    def _get(self, request: Request, name: str) -> str:
        return request.cookies.get(self._name(request, name), "")

    def _set(
        self, request: Request, response: Response, name: str, value: str, ttl_s: int | None
    ) -> None:
        response.set_cookie(
            self._name(request, name),
            value,
            max_age=ttl_s,
            path="/",
            httponly=True,
            samesite=self.same_site,
            secure=request.url.scheme == "https",
        )

    def _delete(self, request: Request, response: Response, name: str) -> None:
        secure = request.url.scheme == "https"
        response.delete_cookie(self._name(request, name), secure=secure)


class OwnerCookies(_Cookies):
    def __init__(self, key: bytes) -> None:
        if len(key) != 32:
            raise ValueError(f"the key of the web door must have 32 bytes, not {len(key)}")
        super().__init__(key, "interlock_web", "interlock_form")
        self._fernet = Fernet(base64.urlsafe_b64encode(_derived(key, b"pass")))

    def is_owner(self, request: Request) -> bool:
        """Return whether the request has a valid owner's cookie that has not expired."""
        try:
            return self._fernet.decrypt(self._get(request, self._session), COOKIE_TTL_S) == _OWNER
        except (InvalidToken, ValueError):
            return False

    def sign_in(self, request: Request, response: Response) -> None:
        value = self._fernet.encrypt(_OWNER).decode()
        self._set(request, response, self._session, value, COOKIE_TTL_S)
        self._delete(request, response, self._visit)


class PersonCookies(_Cookies):
    """The cookies of people other than the owner. The session cookie contains a token of the
    person. The node lists and revokes it like any other token."""

    # People follow links from other sites, such as an invitation in their mail. Browsers send no
    # strict cookie with such a request.
    same_site = "lax"

    def __init__(self, key: bytes) -> None:
        super().__init__(key, "interlock_person", "interlock_visit")

    def token(self, request: Request) -> str | None:
        return self._get(request, self._session) or None

    def sign_in(self, request: Request, response: Response, token: str) -> None:
        self._set(request, response, self._session, token, COOKIE_TTL_S)
        self._delete(request, response, self._visit)

    def _name(self, request: Request, name: str) -> str:
        """Return the cookie's name. Over TLS, its prefix stops other hosts of the domain from
        setting the cookie."""
        return f"__Host-{name}" if request.url.scheme == "https" else name


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hmac.digest(key, b"interlock web door: " + purpose, "sha256")
