"""Requests of browsers: their origin, the cookies of signed-in people, the tokens of forms.

The owner's cookie is encrypted, so only this server can make and read it. It holds no token, only
that the browser showed the owner's, and when. A form carries a token made from a cookie of the
same browser. A page of another site can neither read our cookies nor set them, so it cannot post
our forms. The sign-in form uses a cookie of its own with a random value.
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
    # Not no-referrer: with that, browsers send `Origin: null` with our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
STALE_FORM = (
    "This form did not come with its cookie, so nothing was done. Try again; if that does not "
    "help, allow cookies for this address."
)


def is_foreign(request: Request) -> bool:
    """Say whether a page of another origin made the browser ask."""
    origin = request.headers.get("origin")
    host = request.headers.get("host", "")
    return origin is not None and origin.partition("://")[2].lower() != host.lower()


def is_framed(request: Request) -> bool:
    """Say whether the browser would show the answer within another page."""
    return request.headers.get("sec-fetch-dest", "").lower() in FRAMES


def peer_of(request: Request) -> str:
    return request.client.host if request.client else ""


async def posted(request: Request, max_bytes: int = MAX_FORM_BYTES) -> dict[str, str] | None:
    """Return the fields of a posted form, or None for a body of another type or too large."""
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
    """The cookies of a workspace's pages: one for a signed-in browser, one for a visit before."""

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
        """Return the token of a form on a page of a signed-in browser."""
        return self._form_token(self._get(request, self._session))

    def is_form(self, request: Request, token: str) -> bool:
        return self._is_form_token(self._get(request, self._session), token)

    def visit(self, request: Request) -> str:
        """Return the random value that identifies a browser before it is signed in."""
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
            raise ValueError("the key of the web door is 32 secret bytes")
        super().__init__(key, "interlock_web", "interlock_form")
        self._fernet = Fernet(base64.urlsafe_b64encode(_derived(key, b"pass")))

    def is_owner(self, request: Request) -> bool:
        """Say whether the request has a cookie of ours that has not expired."""
        try:
            return self._fernet.decrypt(self._get(request, self._session), COOKIE_TTL_S) == _OWNER
        except (InvalidToken, ValueError):
            return False

    def sign_in(self, request: Request, response: Response) -> None:
        value = self._fernet.encrypt(_OWNER).decode()
        self._set(request, response, self._session, value, COOKIE_TTL_S)
        self._delete(request, response, self._visit)


class PersonCookies(_Cookies):
    """The cookies of other people. The session cookie is a token of theirs, which is listed and
    revoked like any other."""

    # People follow links of other sites, such as an invitation in their mail. Browsers do not send
    # a strict cookie with those.
    same_site = "lax"

    def __init__(self, key: bytes) -> None:
        super().__init__(key, "interlock_person", "interlock_visit")

    def token(self, request: Request) -> str | None:
        return self._get(request, self._session) or None

    def sign_in(self, request: Request, response: Response, token: str) -> None:
        self._set(request, response, self._session, token, COOKIE_TTL_S)
        self._delete(request, response, self._visit)

    def _name(self, request: Request, name: str) -> str:
        """Return the name of a cookie that, over TLS, no other host of the domain can set."""
        return f"__Host-{name}" if request.url.scheme == "https" else name


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hmac.digest(key, b"interlock web door: " + purpose, "sha256")
