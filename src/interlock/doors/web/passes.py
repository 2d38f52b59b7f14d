"""Passes: how a browser shows that its person signed in, and that a form was ours.

The pass is a cookie that only this server can make and read. It holds no token, merely that the
owner's was shown, and when. A form carries a token made from the cookie that the browser has, so
that a page of another site, which can neither read cookies nor set ours, cannot post one. Before
anybody is signed in there is no pass to make it from: the sign-in form goes by a cookie of its
own that holds nothing but chance.
"""

import base64
import hmac
import secrets

from cryptography.fernet import Fernet, InvalidToken
from starlette.requests import Request
from starlette.responses import Response

LASTS_S = 30 * 86_400
_OWNER = b"owner"


class Passes:
    def __init__(self, key: bytes) -> None:
        if len(key) != 32:
            raise ValueError("the key of the web door is 32 secret bytes")
        self._fernet = Fernet(base64.urlsafe_b64encode(_derived(key, b"pass")))
        self._forms = _derived(key, b"forms")
        # Browsers send a cookie to every port of a host: two workspaces on one machine would
        # otherwise sign each other out.
        mark = _derived(key, b"cookie")[:4].hex()
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
        return self._token(request.cookies.get(self._pass, ""))

    def sign_in_form(self, request: Request) -> tuple[str, str | None]:
        """The token of the sign-in form, and the cookie it goes by where there is none yet."""
        kept = request.cookies.get(self._form)
        fresh = secrets.token_urlsafe(24) if not kept else None
        return self._token(kept or fresh or ""), fresh

    def keep_form(self, request: Request, response: Response, fresh: str) -> None:
        _set(request, response, self._form, fresh, None)

    def is_form(self, request: Request, token: str) -> bool:
        return self._goes_with(request.cookies.get(self._pass, ""), token)

    def is_sign_in_form(self, request: Request, token: str) -> bool:
        return self._goes_with(request.cookies.get(self._form, ""), token)

    def _goes_with(self, cookie: str, token: str) -> bool:
        shown = token.encode("utf-8", "surrogatepass")
        return hmac.compare_digest(self._token(cookie).encode(), shown)

    def _token(self, cookie: str) -> str:
        return hmac.digest(self._forms, cookie.encode("utf-8", "surrogatepass"), "sha256").hex()


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hmac.digest(key, b"interlock web door: " + purpose, "sha256")


def _set(request: Request, response: Response, name: str, value: str, lasts_s: int | None) -> None:
    response.set_cookie(
        name,
        value,
        max_age=lasts_s,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
