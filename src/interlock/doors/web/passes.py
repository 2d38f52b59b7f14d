"""Passes: how a browser shows that its person signed in, and that a form was ours.

The owner's pass is a cookie that only this server can make and read. It holds no token, merely
that the owner's was shown, and when. A form carries a token made from the cookie that the browser
has, so that a page of another site, which can neither read cookies nor set ours, cannot post one.
Before anybody is signed in there is no pass to make it from: the sign-in form goes by a cookie of
its own that holds nothing but chance.
"""

import base64
import hmac
import secrets
from typing import Literal

from cryptography.fernet import Fernet, InvalidToken
from starlette.requests import Request
from starlette.responses import Response

LASTS_S = 30 * 86_400
_OWNER = b"owner"


class Forms:
    """The tokens of forms, each made from a cookie."""

    def __init__(self, key: bytes) -> None:
        self._key = _derived(key, b"forms")

    def token(self, cookie: str) -> str:
        return hmac.digest(self._key, cookie.encode("utf-8", "surrogatepass"), "sha256").hex()

    def goes_with(self, cookie: str, token: str) -> bool:
        shown = token.encode("utf-8", "surrogatepass")
        return hmac.compare_digest(self.token(cookie).encode(), shown)


class Passes:
    """The owner's."""

    def __init__(self, key: bytes) -> None:
        if len(key) != 32:
            raise ValueError("the key of the web door is 32 secret bytes")
        self._fernet = Fernet(base64.urlsafe_b64encode(_derived(key, b"pass")))
        self._forms = Forms(key)
        mark = _mark(key)
        self._pass, self._form = f"interlock_web_{mark}", f"interlock_form_{mark}"

    def is_owner(self, request: Request) -> bool:
        """Whether the request brings a pass of ours that has not run out."""
        try:
            return self._fernet.decrypt(request.cookies.get(self._pass, ""), LASTS_S) == _OWNER
        except (InvalidToken, ValueError):
            return False

    def sign_in(self, request: Request, response: Response) -> None:
        value = self._fernet.encrypt(_OWNER).decode()
        _set(request, response, self._pass, value, LASTS_S)
        response.delete_cookie(self._form)

    def sign_out(self, response: Response) -> None:
        response.delete_cookie(self._pass)

    # --- forms

    def form(self, request: Request) -> str:
        """The token of a form on a page for somebody who is signed in."""
        return self._forms.token(request.cookies.get(self._pass, ""))

    def sign_in_form(self, request: Request) -> tuple[str, str | None]:
        """The token of the sign-in form, and the cookie it goes by where there is none yet."""
        kept = request.cookies.get(self._form)
        fresh = secrets.token_urlsafe(24) if not kept else None
        return self._forms.token(kept or fresh or ""), fresh

    def keep_form(self, request: Request, response: Response, fresh: str) -> None:
        _set(request, response, self._form, fresh, None)

    def is_form(self, request: Request, token: str) -> bool:
        return self._forms.goes_with(request.cookies.get(self._pass, ""), token)

    def is_sign_in_form(self, request: Request, token: str) -> bool:
        return self._forms.goes_with(request.cookies.get(self._form, ""), token)


class PersonPasses:
    """Other people's. What their browser keeps is a token of theirs, listed and revoked like any
    other. They come by links of other sites, an invitation in their mail or a client that wants
    to be connected, so that a strict cookie would not come with them."""

    def __init__(self, key: bytes) -> None:
        self._forms = Forms(key)
        mark = _mark(key)
        self._pass, self._visit = f"interlock_person_{mark}", f"interlock_visit_{mark}"

    def token(self, request: Request) -> str | None:
        return request.cookies.get(host_cookie_name(request, self._pass)) or None

    def sign_in(self, request: Request, response: Response, token: str) -> None:
        _set(request, response, host_cookie_name(request, self._pass), token, LASTS_S, "lax")
        _forget(request, response, self._visit)

    def sign_out(self, request: Request, response: Response) -> None:
        _forget(request, response, self._pass)

    # --- forms

    def form(self, request: Request) -> str:
        """The token of a form on a page for somebody who is signed in."""
        return self._forms.token(self.token(request) or "")

    def is_form(self, request: Request, token: str) -> bool:
        cookie = self.token(request)
        return cookie is not None and self._forms.goes_with(cookie, token)

    def visit(self, request: Request) -> str:
        """What a browser is known by before anybody is signed in: nothing but chance."""
        return self._visited(request) or secrets.token_urlsafe(24)

    def visitors_form(self, visit: str) -> str:
        return self._forms.token(visit)

    def keep_visit(self, request: Request, response: Response, visit: str) -> None:
        _set(request, response, host_cookie_name(request, self._visit), visit, None, "lax")

    def is_visitors_form(self, request: Request, token: str) -> bool:
        cookie = self._visited(request)
        return bool(cookie) and self._forms.goes_with(cookie, token)

    def _visited(self, request: Request) -> str:
        return request.cookies.get(host_cookie_name(request, self._visit), "")


def host_cookie_name(request: Request, name: str) -> str:
    """The name of a cookie that, over TLS, no other host of the same domain can set."""
    return f"__Host-{name}" if request.url.scheme == "https" else name


def _forget(request: Request, response: Response, name: str) -> None:
    secure = request.url.scheme == "https"
    response.delete_cookie(host_cookie_name(request, name), secure=secure)


def _mark(key: bytes) -> str:
    """What tells the cookies of a workspace from another's. Browsers send a cookie to every port
    of a host: two workspaces on one machine would otherwise sign each other out."""
    return _derived(key, b"cookie")[:4].hex()


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hmac.digest(key, b"interlock web door: " + purpose, "sha256")


def _set(
    request: Request,
    response: Response,
    name: str,
    value: str,
    lasts_s: int | None,
    same_site: Literal["strict", "lax"] = "strict",
) -> None:
    response.set_cookie(
        name,
        value,
        max_age=lasts_s,
        path="/",
        httponly=True,
        samesite=same_site,
        secure=request.url.scheme == "https",
    )
