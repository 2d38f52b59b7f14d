"""The endpoints: what comes in is bounded, what is refused is kept, the rest is the SDK's."""

import base64
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from mcp.server.auth.handlers.authorize import AuthorizationHandler
from mcp.server.auth.handlers.register import RegistrationHandler
from mcp.server.auth.handlers.token import TokenHandler
from mcp.server.auth.middleware.client_auth import AuthenticationError, ClientAuthenticator
from mcp.server.auth.settings import ClientRegistrationOptions
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message

from interlock.doors.oauth.clients import Clients
from interlock.doors.oauth.documents import Documents
from interlock.doors.oauth.metadata import base_of
from interlock.doors.oauth.provider import OneRequest
from interlock.errors import NotAllowed, NotAvailable
from interlock.machine.hosts import is_loopback
from interlock.node.live import LiveNode
from interlock.rooms.identity.scopes import BASIC_SCOPES
from interlock.rooms.people.verbs import CloseConnection
from interlock.verbs.credentials import Credentials

MAX_FORM_BYTES: Final = 64 << 10
MAX_STATE_LENGTH: Final = 2000
NOT_S256: Final = "A code_challenge by the code_challenge_method S256 is needed; nothing weaker."
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
NO_STORE: Final = {"Cache-Control": "no-store"}
GRANTS: Final = ("authorization_code", "refresh_token")
WORDS: Final = {
    "invalid_request": "What it asked for cannot be understood: something is missing or malformed",
    "unsupported_response_type": "It asked for something else than a code",
    "invalid_target": "It asked for access to something else than this server",
    "server_error": "Something went wrong here, and the server's log says what",
}
BEGIN_AGAIN: Final = "Nothing was granted. Begin again in the client that sent you here."


class Endpoints:
    def __init__(self, live: LiveNode, notice: Callable[[str, str, int], Response]) -> None:
        self._live, self._notice = live, notice
        self._clients = Clients(live.node.keys, Documents())
        self._registration = ClientRegistrationOptions(
            enabled=True, valid_scopes=None, default_scopes=list(BASIC_SCOPES)
        )

    async def authorize(self, request: Request) -> Response:
        """Leads to the page where the person consents. What is wrong with the request is shown to
        the person, and sent back only to a program on their own machine: clients register by
        themselves, and whoever wants to be led somewhere could register that."""
        asked = request.query_params
        provider = self._provider(request, asked, fetches=True)
        why = _wrong_with(asked)
        if why is None:
            response: Response = await AuthorizationHandler(provider).handle(request)
            if provider.sealed is None:
                why = provider.trouble or _described(response, asked)
                if _leads_home(response):
                    response.headers["location"] = _homeward(response, provider.base)
                    why = None
        elif why == NOT_S256:
            provider.noted.append(("PLAIN_CHALLENGE", None))
        await self._keep(request, provider)
        if why is None:
            response.headers.update(NO_STORE)
            return response
        return self._notice("This client cannot be connected", f"{why} {BEGIN_AGAIN}", 400)

    async def token(self, request: Request) -> Response:
        if (trouble := await _refused_form(request)) is not None:
            return trouble
        request = await _named(request)
        form = await request.form()
        provider = self._provider(request, form)
        if (grant := form.get("grant_type")) is not None and grant not in GRANTS:
            return _error("unsupported_grant_type", f"There are {' and '.join(GRANTS)}.", 400)
        if form.get("grant_type") == "authorization_code" and "code_verifier" not in form:
            provider.noted.append(("WRONG_VERIFIER", None))
        handler = TokenHandler(provider, ClientAuthenticator(provider))
        try:
            response: Response = await handler.handle(request)
        except NotAvailable as refusal:
            return _error("temporarily_unavailable", refusal.message, 503)
        await self._keep(request, provider)
        return _challenged(request, response)

    async def revoke(self, request: Request) -> Response:
        """RFC 7009: whatever is unknown is gone already."""
        if (trouble := await _refused_form(request)) is not None:
            return trouble
        request = await _named(request)
        form = await request.form()
        provider = self._provider(request, form)
        try:
            client = await ClientAuthenticator(provider).authenticate_request(request)
        except AuthenticationError as error:
            return _challenged(request, _error("invalid_client", error.message, 401))
        if isinstance(token := form.get("token"), str):
            with suppress(NotAllowed):
                await self._live.call(Credentials(), CloseConnection(token, client.client_id))
        return Response(headers=NO_STORE)

    async def register(self, request: Request) -> Response:
        provider = self._provider(request, {})
        body = await _limited(request)
        if body is None:
            response: Response = _error(
                "invalid_client_metadata", f"At most {MAX_FORM_BYTES >> 10} KiB.", 413
            )
        else:
            try:
                response = await RegistrationHandler(provider, self._registration).handle(request)
            except RecursionError:
                response = _error("invalid_client_metadata", "Too deeply nested.", 400)
        if response.status_code >= 400:
            provider.noted.append(("BAD_REGISTRATION", None))
        await self._keep(request, provider)
        response.headers.update(NO_STORE)
        return response

    def _provider(
        self, request: Request, asked: Mapping[str, Any], *, fetches: bool = False
    ) -> OneRequest:
        return OneRequest(self._live, self._clients, base_of(request), asked, fetches=fetches)

    async def _keep(self, request: Request, provider: OneRequest) -> None:
        peer = request.client.host if request.client else ""
        for code, connection in dict.fromkeys(provider.noted):
            await self._live.report(code, peer, connection)
        for code in provider.recorded:
            self._live.notice(code, peer)


async def _limited(request: Request) -> bytes | None:
    """The body, which the request then remembers; None where it is too large."""
    if int(request.headers.get("content-length") or 0) > MAX_FORM_BYTES:
        return None
    body = await request.body()
    return body if len(body) <= MAX_FORM_BYTES else None


async def _refused_form(request: Request) -> Response | None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        return _error("invalid_request", "The body is a form: x-www-form-urlencoded.", 400)
    if await _limited(request) is None:
        return _error("invalid_request", f"At most {MAX_FORM_BYTES >> 10} KiB.", 413)
    return None


async def _named(request: Request) -> Request:
    """The same, with what a Basic header says in the form, which is where the SDK is told to look:
    RFC 6749 lets a client show its id and its secret either way."""
    kind, _, pair = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return request
    try:
        id, _, secret = base64.b64decode(pair).decode().partition(":")
    except ValueError:
        return request
    body = await request.body()
    form = await request.form()
    for name, value in (("client_id", id), ("client_secret", secret)):
        if name not in form:
            body += f"&{name}={value}".encode()  # both are written as in a form

    async def received() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request(request.scope, received)


def _wrong_with(asked: QueryParams) -> str | None:
    """What the SDK takes and nobody should send."""
    said = [name for name, _ in asked.multi_items()]
    if len(said) != len(set(said)):
        return "A parameter is there twice."
    if "response_type" in asked:
        if asked.get("code_challenge_method") != "S256" or "code_challenge" not in asked:
            return NOT_S256
        if not _CHALLENGE.fullmatch(asked["code_challenge"]):
            return "code_challenge is the SHA-256 of the verifier: 43 characters."
    if len(asked.get("state", "")) > MAX_STATE_LENGTH:
        return f"state has more than {MAX_STATE_LENGTH} characters."
    return None


def _leads_home(response: Response) -> bool:
    back = urlsplit(response.headers.get("location", ""))
    return back.scheme == "http" and is_loopback(back.hostname or "")


def _homeward(response: Response, base: str) -> str:
    """RFC 9207: the client must know whose answer it got, an error too. What was wrong is on one
    line there, says RFC 6749."""
    back = urlsplit(response.headers["location"])
    said = [
        (name, " ".join(value.split()) if name == "error_description" else value)
        for name, value in parse_qsl(back.query, keep_blank_values=True)
    ]
    return back._replace(query=urlencode([*said, ("iss", base)])).geturl()


def _challenged(request: Request, response: Response) -> Response:
    """RFC 6749: who showed a wrong secret in the header is told that it is asked for there."""
    if response.status_code == 401 and "authorization" in request.headers:
        response.headers["WWW-Authenticate"] = 'Basic realm="interlock"'
    return response


def _error(code: str, described: str, status: int) -> Response:
    content = {"error": code, "error_description": described}
    return JSONResponse(content, status, headers=NO_STORE)


def _described(response: Response, asked: QueryParams) -> str:
    """What was wrong, in words for a person, by the code that the SDK gave it."""
    for name in ("client_id", "response_type"):
        if not asked.get(name):
            return f"It did not say its {name}."
    if "location" in response.headers:
        found = dict(parse_qsl(urlsplit(response.headers["location"]).query))
    else:
        found = json.loads(bytes(response.body))
    code = found.get("error", "invalid_request")
    return f"{WORDS.get(code, WORDS['invalid_request'])} ({code})."
