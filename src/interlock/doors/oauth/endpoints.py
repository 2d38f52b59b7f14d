"""The endpoints: they limit the size of requests, record refusals, and call the SDK."""

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

from interlock.doors.oauth import base_of
from interlock.doors.oauth.clients import Clients
from interlock.doors.oauth.documents import Documents
from interlock.doors.oauth.provider import OneRequest
from interlock.errors import NotAllowed, NotAvailable
from interlock.machine.hosts import is_loopback
from interlock.node.live import LiveNode
from interlock.rooms.identity.scopes import BASIC_SCOPES
from interlock.rooms.people.verbs import CloseConnection
from interlock.verbs.credentials import Credentials

MAX_FORM_BYTES: Final = 64 << 10
FORM_TYPE: Final = "application/x-www-form-urlencoded"
MAX_STATE_LENGTH: Final = 2000
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
NO_STORE: Final = {"Cache-Control": "no-store"}
GRANTS: Final = ("authorization_code", "refresh_token")
TOO_LARGE: Final = f"The body has more than {MAX_FORM_BYTES >> 10} KiB."
REASONS: Final = {
    "invalid_request": "The client sent a request with missing or malformed parameters",
    "unsupported_response_type": "The client asked for a response type other than a code",
    "invalid_target": "The client asked for access to another server or path",
    "server_error": "The server failed to process the request, and its log has the reason",
}
START_AGAIN: Final = "Interlock granted nothing. Start again in the client that sent you here."


class Endpoints:
    def __init__(self, live: LiveNode, notice: Callable[[str, str, int], Response]) -> None:
        self._live, self._notice = live, notice
        self._clients = Clients(live.node.keys, Documents())
        self._registration = ClientRegistrationOptions(
            enabled=True, valid_scopes=None, default_scopes=list(BASIC_SCOPES)
        )

    async def authorize(self, request: Request) -> Response:
        """Redirect to the consent page. If the request is wrong, show the reason to the person.
        Only a client on the person's machine gets the error by a redirect. Any client can register
        any address, and an error must not send people to it."""
        asked = request.query_params
        provider = self._provider(request, asked, fetches=True)
        names = [name for name, _ in asked.multi_items()]
        is_s256 = asked.get("code_challenge_method") == "S256" and "code_challenge" in asked
        response = Response()
        why: str | None = None
        # The SDK would accept the first four kinds of requests.
        if len(names) != len(set(names)):
            why = "The client sent a parameter twice."
        elif "response_type" in asked and not is_s256:
            why = "The client must send a code_challenge with the code_challenge_method S256."
            provider.noted.append(("PLAIN_CHALLENGE", None))
        elif "response_type" in asked and not _CHALLENGE.fullmatch(asked["code_challenge"]):
            why = "The client's code_challenge must be the SHA-256 of its verifier: 43 characters."
        elif len(asked.get("state", "")) > MAX_STATE_LENGTH:
            why = f"The client's state has more than {MAX_STATE_LENGTH} characters."
        else:
            response = await AuthorizationHandler(provider).handle(request)
            if provider.sealed is None and not _add_issuer(response, provider.base):
                why = provider.trouble or _described(response, asked)
        await self._record(request, provider)
        if why is not None:
            return self._notice("This client cannot be connected", f"{why} {START_AGAIN}", 400)
        response.headers.update(NO_STORE)
        return response

    async def token(self, request: Request) -> Response:
        read = await _read_form(request)
        if isinstance(read, Response):
            return read
        form = await read.form()
        provider = self._provider(request, form)
        if (grant := form.get("grant_type")) is not None and grant not in GRANTS:
            return _error("unsupported_grant_type", f"Use {' or '.join(GRANTS)}.", 400)
        if grant == "authorization_code" and "code_verifier" not in form:
            provider.noted.append(("WRONG_VERIFIER", None))
        handler = TokenHandler(provider, ClientAuthenticator(provider))
        try:
            response: Response = await handler.handle(read)
        except NotAvailable as refusal:
            return _error("temporarily_unavailable", refusal.message, 503)
        await self._record(request, provider)
        return _challenged(request, response)

    async def revoke(self, request: Request) -> Response:
        """End a connection. RFC 7009: an unknown token counts as revoked."""
        read = await _read_form(request)
        if isinstance(read, Response):
            return read
        form = await read.form()
        provider = self._provider(request, form)
        try:
            client = await ClientAuthenticator(provider).authenticate_request(read)
        except AuthenticationError as error:
            return _challenged(request, _error("invalid_client", error.message, 401))
        if isinstance(token := form.get("token"), str):
            with suppress(NotAllowed):
                await self._live.call(Credentials(), CloseConnection(token, client.client_id))
        return Response(headers=NO_STORE)

    async def register(self, request: Request) -> Response:
        provider = self._provider(request, {})
        if await _is_too_large(request):
            response = _error("invalid_client_metadata", TOO_LARGE, 413)
        else:
            try:
                response = await RegistrationHandler(provider, self._registration).handle(request)
            except RecursionError:
                response = _error("invalid_client_metadata", "The JSON is nested too deeply.", 400)
        if response.status_code >= 400:
            provider.noted.append(("BAD_REGISTRATION", None))
        await self._record(request, provider)
        response.headers.update(NO_STORE)
        return response

    def _provider(
        self, request: Request, asked: Mapping[str, Any], *, fetches: bool = False
    ) -> OneRequest:
        return OneRequest(self._live, self._clients, base_of(request), asked, fetches=fetches)

    async def _record(self, request: Request, provider: OneRequest) -> None:
        peer = request.client.host if request.client else ""
        for code, connection in dict.fromkeys(provider.noted):
            await self._live.report(code, peer, connection)
        for code in provider.recorded:
            self._live.notice(code, peer)


async def _is_too_large(request: Request) -> bool:
    """Read the body, which the request caches."""
    if int(request.headers.get("content-length") or 0) > MAX_FORM_BYTES:
        return True
    return len(await request.body()) > MAX_FORM_BYTES


async def _read_form(request: Request) -> Request | Response:
    """Return the request, or an error response if its body is not a form. RFC 6749 lets a client
    send its id and secret in a Basic header. The returned request has them in the form, because the
    SDK reads them there."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM_TYPE:
        return _error("invalid_request", f"The body must be a form: {FORM_TYPE}.", 400)
    if await _is_too_large(request):
        return _error("invalid_request", TOO_LARGE, 413)
    scheme, _, pair = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return request
    try:
        id, _, secret = base64.b64decode(pair).decode().partition(":")
    except ValueError:
        return request
    body = await request.body()
    form = await request.form()
    for name, value in (("client_id", id), ("client_secret", secret)):
        if name not in form:
            body += f"&{name}={value}".encode()  # the header is already percent-encoded

    async def received() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request(request.scope, received)


def _add_issuer(response: Response, base: str) -> bool:
    """Add the issuer to an error redirect to a program on this machine, and return True. Return
    False for any other response. RFC 9207: the client must know which server answers. RFC 6749: an
    error description is one line."""
    back = urlsplit(response.headers.get("location", ""))
    if back.scheme != "http" or not is_loopback(back.hostname or ""):
        return False
    members = [
        (name, " ".join(value.split()) if name == "error_description" else value)
        for name, value in parse_qsl(back.query, keep_blank_values=True)
    ]
    query = urlencode([*members, ("iss", base)])
    response.headers["location"] = back._replace(query=query).geturl()
    return True


def _challenged(request: Request, response: Response) -> Response:
    """Add a Basic challenge for a client that sent a wrong secret in the header (RFC 6749)."""
    if response.status_code == 401 and "authorization" in request.headers:
        response.headers["WWW-Authenticate"] = 'Basic realm="interlock"'
    return response


def _error(code: str, description: str, status: int) -> Response:
    content = {"error": code, "error_description": description}
    return JSONResponse(content, status, headers=NO_STORE)


def _described(response: Response, asked: QueryParams) -> str:
    """Return the SDK's error as a sentence for a person."""
    for name in ("client_id", "response_type"):
        if not asked.get(name):
            return f"The client did not send its {name}."
    if "location" in response.headers:
        found = dict(parse_qsl(urlsplit(response.headers["location"]).query))
    else:
        found = json.loads(bytes(response.body))
    code = found.get("error", "invalid_request")
    return f"{REASONS.get(code, REASONS['invalid_request'])} ({code})."
