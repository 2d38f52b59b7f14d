"""The adapter between the SDK and the node, for one request: clients, codes and tokens.

The SDK loads a code or a token, compares it with the request, and then exchanges it. If the
comparison fails, the SDK answers without telling the provider. So the provider compares too while
it loads, and notes each mismatch. The node detects reused secrets at the head of the log.
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

from interlock.doors.oauth import NO_SECRET
from interlock.doors.oauth.clients import REGISTERED, Clients, OAuthClient
from interlock.doors.oauth.documents import Refused
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
    """`base` is the server's address. `asked` has the request's parameters. `noted` has the
    refusals that the log should record, each with its code and connection. `recorded` has the
    codes of refusals that are already in the log."""

    def __init__(
        self,
        live: LiveNode,
        clients: Clients,
        base: str,
        asked: Mapping[str, Any],
        *,
        fetches: bool,
    ) -> None:
        """If `fetches` is true, the request fetches the client's document."""
        self._live, self._clients, self.base, self._asked = live, clients, base, asked
        self._fetches = fetches
        self.noted: list[tuple[str, str | None]] = []
        self.recorded: list[str] = []
        self.trouble: str | None = None
        self.sealed: str | None = None
        self._connection: str | None = None

    # --- clients

    async def get_client(self, client_id: str) -> OAuthClient | None:
        is_registered = client_id.startswith(REGISTERED)
        if not is_registered and not self._fetches:
            # The server read the document when the person consented, and the client has no secret.
            # The node knows which client a code or a token belongs to.
            return OAuthClient(client_id=client_id, token_endpoint_auth_method=NO_SECRET)
        try:
            if is_registered:
                client = self._clients.registered(client_id)
            else:
                client = await self._clients.published(client_id)
        except Refused as refused:
            self.noted.append(("BAD_CLIENT_DOCUMENT", None))
            self.trouble = refused.message
            return None
        if client is None:
            self.trouble = (
                "The client is not registered at this server. It may use an id from another server."
            )
            return None
        redirect = self._asked.get("redirect_uri")
        if isinstance(redirect, str) and self._fetches:
            try:
                client.validate_redirect_uri(AnyUrl(redirect))
            except (InvalidRedirectUriError, ValueError):
                self.trouble = (
                    "The client asked for an answer at an address that it did not register."
                )
                self.noted.append(("WRONG_REDIRECT", None))
        return client

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self._clients.register(client_info)

    # --- the person's consent

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        resource = (params.resource or f"{self.base}/mcp").rstrip("/")
        if resource not in (self.base, f"{self.base}/mcp"):
            self.noted.append(("WRONG_RESOURCE", None))
            raise AuthorizeError(
                "invalid_target",
                f"This server has no resource {resource[:200]}. Use {self.base}/mcp.",
            )
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

    # --- codes and refresh tokens

    async def _find(
        self, request: FindGrant | FindConnection, client: OAuthClientInformationFull
    ) -> dict[str, Any] | None:
        """Return the grant or connection of a secret, or None. Note a request of a client that
        does not own it."""
        try:
            found = await self._live.call(Credentials(), request)
        except NotAllowed:
            return None
        self._connection = found["id"]
        if found["client"] != client.client_id:
            self.noted.append(("WRONG_CLIENT", found["id"]))
        return found

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        found = await self._find(FindGrant(authorization_code), client)
        if found is None:
            return None
        verifier = str(self._asked.get("code_verifier", ""))
        digest = hashlib.sha256(verifier.encode("utf-8", "surrogatepass")).digest()
        if base64.urlsafe_b64encode(digest).decode().rstrip("=") != found["challenge"]:
            self.noted.append(("WRONG_VERIFIER", found["id"]))
        must_redirect = is_redirected(authorization_code)
        redirect = self._asked.get("redirect_uri", "" if must_redirect else found["redirect_uri"])
        try:
            is_same = str(AnyUrl(str(redirect))) == found["redirect_uri"]
        except ValueError:
            is_same = False
        if not is_same:
            self.noted.append(("WRONG_REDIRECT", found["id"]))
        return AuthorizationCode(
            code=authorization_code,
            scopes=found["scopes"],
            expires_at=FOR_EVER,  # the node checks the expiry, by log time
            client_id=found["client"],
            code_challenge=found["challenge"],
            redirect_uri=found["redirect_uri"],
            redirect_uri_provided_explicitly="redirect_uri" in self._asked or must_redirect,
            resource=found["resource"],
        )

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        code, resource = authorization_code.code, authorization_code.resource
        return await self._exchange(OpenConnection, code, client, resource)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        found = await self._find(FindConnection(refresh_token), client)
        if found is None:
            return None
        # A client repeats the scopes of its first request, even if the person granted fewer.
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
        shown, resource = refresh_token.token, refresh_token.resource
        return await self._exchange(RefreshConnection, shown, client, resource)

    async def _exchange(
        self,
        verb: type[OpenConnection] | type[RefreshConnection],
        secret: str,
        client: OAuthClientInformationFull,
        resource: str | None,
    ) -> OAuthToken:
        """Return new tokens for a code or a refresh token, which works once. Raise TokenError."""
        if str(self._asked.get("resource", resource)).rstrip("/") != resource:
            self.noted.append(("WRONG_RESOURCE", self._connection))
            raise TokenError(
                "invalid_target", f"This connection is only for {resource}. Send that resource."
            )
        token = compose(os.urandom(SECRET_BYTES))
        refresh = compose(os.urandom(SECRET_BYTES), REFRESH)
        request = verb(secret, client.client_id, hashed(token), hashed(refresh))
        try:
            answer = await self._live.call(Credentials(), request)
        except NotAllowed as refusal:
            raise TokenError("invalid_grant", refusal.message) from None
        if "refused" in answer:
            self.recorded.append(answer["refused"])
            raise TokenError(
                "invalid_grant",
                "This code or token was used before, so another program may have a copy. Interlock "
                "ended the connection. The person must connect again.",
            )
        return OAuthToken(
            access_token=token,
            refresh_token=refresh,
            expires_in=answer["expires_in"],
            scope=" ".join(answer["scopes"]),
        )

    # --- unused: the node checks access tokens, and `endpoints` revokes tokens

    async def load_access_token(self, token: str) -> AccessToken | None:
        raise NotImplementedError

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        raise NotImplementedError
