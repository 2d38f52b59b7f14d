"""Between the SDK and the node: one request's view of clients, codes and tokens.

The SDK looks a code or a token up, compares it with the request, and then exchanges it. What it
finds wrong it answers by itself, so that is noted here as it is looked up; what was used before is
found out by the node, at the head of the log.
"""

import base64
import hashlib
import os
from collections.abc import Mapping
from typing import Any

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    RefreshToken,
    TokenError,
)
from mcp.server.auth.provider import OAuthAuthorizationServerProvider as Provider
from mcp.shared.auth import InvalidRedirectUriError, OAuthClientInformationFull, OAuthToken
from pydantic import AnyUrl

from interlock.doors.oauth.clients import REGISTERED, Client, Clients
from interlock.doors.oauth.documents import Refused
from interlock.doors.oauth.metadata import NO_SECRET
from interlock.errors import NotAllowed
from interlock.node.keys import Seals
from interlock.node.live import LiveNode
from interlock.rooms.identity.token_format import (
    REFRESH,
    SECRET_BYTES,
    compose,
    hashed,
    is_redirected,
)
from interlock.rooms.people.verbs import (
    FindConnection,
    FindGrant,
    OpenConnection,
    RefreshConnection,
)
from interlock.verbs.credentials import Credentials

FOR_EVER = float("inf")


class OneRequest(Provider[AuthorizationCode, RefreshToken, AccessToken]):
    """`base` is the server's address, `asked` the request's parameters. What the log should keep
    of it is in `noted`, as a code and the connection that it is about; what it has already, in
    `recorded`."""

    def __init__(
        self,
        live: LiveNode,
        clients: Clients,
        base: str,
        asked: Mapping[str, Any],
        *,
        fetches: bool,
    ) -> None:
        """A client's document is fetched only by a request that `fetches`."""
        self._live, self._clients, self.base, self._asked = live, clients, base, asked
        self._fetches = fetches
        self.noted: list[tuple[str, str | None]] = []
        self.recorded: list[str] = []
        self.trouble: str | None = None
        self.sealed: str | None = None
        self._connection: str | None = None

    # --- clients

    async def get_client(self, client_id: str) -> Client | None:
        if client_id.startswith(REGISTERED):
            found = self._clients.registered(client_id)
            if found is None:
                self.trouble = "It is not registered here: it may have the id of another server."
            return self._watched(found)
        if not self._fetches:
            # It published its document when the person consented, and has no secret to be known
            # by: whether the code or the token is its own is looked at with those.
            return Client(client_id=client_id, token_endpoint_auth_method=NO_SECRET)
        try:
            return self._watched(await self._clients.published(client_id))
        except Refused as refused:
            self.noted.append(("BAD_CLIENT_DOCUMENT", None))
            self.trouble = refused.message
            return None

    def _watched(self, client: Client | None) -> Client | None:
        """Notes a redirect that is not the client's, which the SDK is about to refuse."""
        asked = self._asked.get("redirect_uri")
        if client is not None and isinstance(asked, str) and self._fetches:
            try:
                client.validate_redirect_uri(AnyUrl(asked))
            except (InvalidRedirectUriError, ValueError):
                self.trouble = "It wants to be answered where it is not registered."
                self.noted.append(("WRONG_REDIRECT", None))
        return client

    async def _found(self, act: Any) -> dict[str, Any] | None:
        try:
            return await self._live.call(Credentials(), act)
        except NotAllowed:
            return None

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self._clients.register(client_info)

    # --- the person's consent

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        resource = (params.resource or f"{self.base}/mcp").rstrip("/")
        if resource not in (self.base, f"{self.base}/mcp"):
            self.noted.append(("WRONG_RESOURCE", None))
            raise AuthorizeError("invalid_target", f"There is no {resource[:200]} here.")
        wanted = {
            "client": client.client_id,
            "client_name": client.client_name,
            "client_uri": str(client.client_uri) if client.client_uri else None,
            "redirect_uri": str(params.redirect_uri),
            "state": params.state,
            "challenge": params.code_challenge,
            "resource": resource,
            "scopes": params.scopes,
            "redirected": params.redirect_uri_provided_explicitly,
            "issuer": self.base,
        }
        given = {name: value for name, value in wanted.items() if value is not None}
        self.sealed = Seals(self._live.node.keys).seal("authorization", given)
        return f"{self.base}/consent?request={self.sealed}"

    # --- codes

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        found = await self._found(FindGrant(authorization_code))
        if found is None:
            return None
        self._connection = found["id"]
        self._note_other(found, client.client_id)
        self._note_strange(found, authorization_code)
        return AuthorizationCode(
            code=authorization_code,
            scopes=found["scopes"],
            expires_at=FOR_EVER,  # the node knows, by the log's own clock
            client_id=found["client"],
            code_challenge=found["challenge"],
            redirect_uri=found["redirect_uri"],
            redirect_uri_provided_explicitly="redirect_uri" in self._asked
            or is_redirected(authorization_code),
            resource=found["resource"],
        )

    def _note_other(self, found: dict[str, Any], client_id: str | None) -> None:
        """Notes a secret that another client shows than the one it was given to."""
        if found["client"] != client_id:
            self.noted.append(("WRONG_CLIENT", found["id"]))

    def _note_strange(self, found: dict[str, Any], code: str) -> None:
        verifier = str(self._asked.get("code_verifier", ""))
        digest = hashlib.sha256(verifier.encode("utf-8", "surrogatepass")).digest()
        if base64.urlsafe_b64encode(digest).decode().rstrip("=") != found["challenge"]:
            self.noted.append(("WRONG_VERIFIER", found["id"]))
        unsaid = "" if is_redirected(code) else found["redirect_uri"]
        if not _same(self._asked.get("redirect_uri", unsaid), found["redirect_uri"]):
            self.noted.append(("WRONG_REDIRECT", found["id"]))

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        self._refuse_elsewhere(authorization_code.resource)
        token, refresh = _pair()
        code = authorization_code.code
        act = OpenConnection(code, client.client_id, hashed(token), hashed(refresh))
        return await self._given(act, token, refresh)

    # --- refreshing

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        found = await self._found(FindConnection(refresh_token))
        if found is None:
            return None
        self._connection = found["id"]
        self._note_other(found, client.client_id)
        # Clients ask for what they asked for at first, whatever the person left of that.
        asked = str(self._asked.get("scope", "")).split(" ")
        return RefreshToken(
            token=refresh_token,
            client_id=found["client"],
            scopes=[*found["scopes"], *asked],
            resource=found["resource"],
        )

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        self._refuse_elsewhere(refresh_token.resource)
        token, refresh = _pair()
        shown = refresh_token.token
        act = RefreshConnection(shown, client.client_id, hashed(token), hashed(refresh))
        return await self._given(act, token, refresh)

    def _refuse_elsewhere(self, resource: str | None) -> None:
        asked = self._asked.get("resource", resource)
        if str(asked).rstrip("/") != resource:
            self.noted.append(("WRONG_RESOURCE", self._connection))
            raise TokenError("invalid_target", f"This connection is for {resource}.")

    async def _given(self, act: Any, token: str, refresh: str) -> OAuthToken:
        try:
            answer = await self._live.call(Credentials(), act)
        except NotAllowed as refusal:
            raise TokenError("invalid_grant", refusal.message) from None
        if "refused" in answer:
            self.recorded.append(answer["refused"])
            raise TokenError(
                "invalid_grant",
                "This was used before, so somebody may have a copy: the connection was ended, and "
                "the person must connect again.",
            )
        return OAuthToken(
            access_token=token,
            refresh_token=refresh,
            expires_in=answer["expires_in"],
            scope=" ".join(answer["scopes"]),
        )

    # --- what nobody here asks the SDK for: the node knows tokens, and `endpoints` ends them

    async def load_access_token(self, token: str) -> AccessToken | None:
        raise NotImplementedError

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        raise NotImplementedError


def _same(asked: object, known: str) -> bool:
    """Whether two addresses are one, as the SDK writes addresses."""
    try:
        return str(AnyUrl(str(asked))) == known
    except ValueError:
        return False


def _pair() -> tuple[str, str]:
    return compose(os.urandom(SECRET_BYTES)), compose(os.urandom(SECRET_BYTES), REFRESH)
