"""The endpoints: what comes in is bounded, what is refused is kept, the rest is the SDK's."""

import json
from collections.abc import Mapping
from typing import Any, Final

from mcp.server.auth.handlers.authorize import AuthorizationHandler
from mcp.server.auth.handlers.register import RegistrationHandler
from mcp.server.auth.handlers.token import TokenHandler
from mcp.server.auth.middleware.client_auth import AuthenticationError, ClientAuthenticator
from mcp.server.auth.provider import construct_redirect_uri
from mcp.server.auth.settings import ClientRegistrationOptions
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from interlock.contracts import acts
from interlock.contracts.acts import Credentials
from interlock.doors.oauth.clients import Clients
from interlock.doors.oauth.documents import Documents
from interlock.doors.oauth.metadata import SCOPES, base_of
from interlock.doors.oauth.provider import OneRequest
from interlock.node.live import LiveNode

LARGEST_FORM: Final = 64 << 10
NO_STORE: Final = {"Cache-Control": "no-store"}
BEGIN_AGAIN: Final = "Nothing was granted. Begin again in the client that sent you here."


class Endpoints:
    def __init__(self, live: LiveNode) -> None:
        self._live = live
        self._clients = Clients(live.node.keys, Documents())
        self._registration = ClientRegistrationOptions(
            enabled=True, valid_scopes=None, default_scopes=list(SCOPES)
        )

    async def authorize(self, request: Request) -> Response:
        """Leads to the page where the person consents, or back to the client with an error."""
        asked = request.query_params
        provider = self._provider(request, asked)
        if asked.get("code_challenge_method", "S256") != "S256":
            provider.noted.append(("PLAIN_CHALLENGE", None))
        response: Response = await AuthorizationHandler(provider).handle(request)
        await self._keep(request, provider)
        if response.status_code == 400:
            # Nobody to send it back to: a person reads it.
            why = provider.trouble or _described(response)
            response = PlainTextResponse(f"{why}\n{BEGIN_AGAIN}\n", 400)
        elif provider.sealed is None:
            # RFC 9207: the client must know whose answer it got, an error too.
            back = response.headers["location"]
            response.headers["location"] = construct_redirect_uri(back, iss=base_of(request))
        response.headers.update(NO_STORE)
        return response

    async def token(self, request: Request) -> Response:
        if (trouble := await _refused_form(request)) is not None:
            return trouble
        provider = self._provider(request, await request.form())
        handler = TokenHandler(provider, ClientAuthenticator(provider))
        response: Response = await handler.handle(request)
        await self._keep(request, provider)
        return response

    async def revoke(self, request: Request) -> Response:
        """RFC 7009: whatever is unknown is gone already."""
        if (trouble := await _refused_form(request)) is not None:
            return trouble
        form = await request.form()
        provider = self._provider(request, form)
        try:
            client = await ClientAuthenticator(provider).authenticate_request(request)
        except AuthenticationError as error:
            if "Invalid client_id" in error.message:
                return Response(headers=NO_STORE)
            return _error("invalid_client", error.message, 401)
        if isinstance(token := form.get("token"), str):
            await self._live.call(Credentials(), acts.CloseConnection(token, client.client_id))
        return Response(headers=NO_STORE)

    async def register(self, request: Request) -> Response:
        provider = self._provider(request, {})
        body = await _limited(request)
        if body is None:
            response: Response = _error(
                "invalid_client_metadata", f"At most {LARGEST_FORM >> 10} KiB.", 413
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

    def _provider(self, request: Request, asked: Mapping[str, Any]) -> OneRequest:
        return OneRequest(self._live, self._clients, base_of(request), asked)

    async def _keep(self, request: Request, provider: OneRequest) -> None:
        peer = request.client.host if request.client else ""
        for code, connection in dict.fromkeys(provider.noted):
            await self._live.report(code, peer, connection)


async def _limited(request: Request) -> bytes | None:
    """The body, which the request then remembers; None where it is too large."""
    if int(request.headers.get("content-length") or 0) > LARGEST_FORM:
        return None
    body = await request.body()
    return body if len(body) <= LARGEST_FORM else None


async def _refused_form(request: Request) -> Response | None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        return _error("invalid_request", "The body is a form: x-www-form-urlencoded.", 400)
    if await _limited(request) is None:
        return _error("invalid_request", f"At most {LARGEST_FORM >> 10} KiB.", 413)
    return None


def _error(code: str, described: str, status: int) -> Response:
    content = {"error": code, "error_description": described}
    return JSONResponse(content, status, headers=NO_STORE)


def _described(response: Response) -> str:
    found = json.loads(bytes(response.body))
    return f"{found.get('error', 'error')}: {found.get('error_description', '')}"
