"""Clients: which programs may ask a person for access, and where each is answered.

A client is known by a URL where it publishes a document about itself, or by its registration. A
registration is stored nowhere: the id that the client got holds all of it, sealed.
"""

from typing import Any, Final
from urllib.parse import urlsplit

from mcp.server.auth.provider import RegistrationError
from mcp.shared.auth import InvalidRedirectUriError, OAuthClientInformationFull
from pydantic import AnyUrl, ValidationError

from interlock.doors.oauth import METHODS, NO_SECRET
from interlock.doors.oauth.documents import NAMED, Documents, Refused
from interlock.machine.hosts import is_loopback
from interlock.node.keys import Keys, Seals
from interlock.rooms.identity.scopes import BASIC_SCOPES
from interlock.rooms.people.verbs import MAX_CLIENT_LENGTH

REGISTERED: Final = "reg_"
MAX_NAME_LENGTH: Final = 80
MAX_URI_LENGTH: Final = 500
MAX_URIS: Final = 8
# RFC 8252: a client's own scheme has a dot in it, as a reversed domain name has. These well-known
# clients have schemes without one.
_OWN_SCHEMES: Final = (
    *("claude", "codex", "cursor", "goose", "raycast", "vscode", "vscode-insiders", "vscodium"),
    *("windsurf", "zed"),
)
# The members that a registration keeps, and so all that the client reads in the answer.
_REGISTERED_MEMBERS: Final = (
    *("client_id", "client_id_issued_at", "client_secret", "client_secret_expires_at"),
    *("client_name", "redirect_uris", "token_endpoint_auth_method"),
    *("grant_types", "response_types", "scope"),
)


class OAuthClient(OAuthClientInformationFull):
    """A client that may ask for access. Unknown scopes are left out rather than refused. A program
    on the person's machine may be answered at any port (RFC 8252)."""

    def validate_scope(self, requested_scope: str | None) -> list[str] | None:
        asked = (requested_scope or "").split()
        return [scope for scope in BASIC_SCOPES if scope in asked] or list(BASIC_SCOPES)

    def validate_redirect_uri(self, redirect_uri: AnyUrl | None) -> AnyUrl:
        try:
            return super().validate_redirect_uri(redirect_uri)
        except InvalidRedirectUriError:
            asked = urlsplit(str(redirect_uri or ""))
            for uri in self.redirect_uris or ():
                known = urlsplit(str(uri))
                if (
                    redirect_uri is not None
                    and known.scheme == "http"
                    and is_loopback(known.hostname or "")
                    and "@" not in asked.netloc
                    and (asked.scheme, asked.hostname, *asked[2:])
                    == (known.scheme, known.hostname, *known[2:])
                ):
                    return redirect_uri
            raise


class Clients:
    def __init__(self, keys: Keys, documents: Documents) -> None:
        self._keys, self._documents = keys, documents
        self._seals = Seals(keys)

    def register(self, info: OAuthClientInformationFull) -> None:
        """Give a client its id, which holds its name and addresses. RFC 7591 lets the server
        replace the rest. Raises RegistrationError."""
        uris = [str(uri) for uri in info.redirect_uris or ()]
        _check_client(uris, info.token_endpoint_auth_method)
        has_secret = info.token_endpoint_auth_method != NO_SECRET
        about = {
            "name": clean(info.client_name) or "A client without a name",
            "redirect_uris": uris,
            "has_secret": has_secret,
        }
        info.client_id = REGISTERED + self._seals.seal("client", about)
        if len(info.client_id) > MAX_CLIENT_LENGTH:
            raise RegistrationError("invalid_redirect_uri", "together they are too long")
        info.client_secret = self._secret(info.client_id) if has_secret else None
        info.client_name, info.scope = str(about["name"]), " ".join(BASIC_SCOPES)
        info.grant_types, info.response_types = ["authorization_code", "refresh_token"], ["code"]
        for name in type(info).model_fields.keys() - set(_REGISTERED_MEMBERS):
            setattr(info, name, None)

    def registered(self, client_id: str) -> OAuthClient | None:
        """A client by the id that it got, or None. `endpoints` moves its secret to the form, so
        that one method serves all clients with a secret."""
        about = self._seals.opened("client", client_id.removeprefix(REGISTERED))
        if about is None:
            return None
        return OAuthClient(
            client_id=client_id,
            client_secret=self._secret(client_id) if about["has_secret"] else None,
            client_name=about["name"],
            redirect_uris=about["redirect_uris"],
            token_endpoint_auth_method="client_secret_post" if about["has_secret"] else NO_SECRET,
        )

    async def published(self, client_id: str) -> OAuthClient:
        """The client that publishes a document at this URL. Raises Refused."""
        return published(client_id, await self._documents.of(client_id))

    def _secret(self, client_id: str) -> str:
        return self._keys.fingerprint(b"client secret " + client_id.encode())


def published(client_id: str, document: dict[str, Any]) -> OAuthClient:
    method = document.get("token_endpoint_auth_method", NO_SECRET)
    if method != NO_SECRET or "client_secret" in document:
        raise Refused("A client that publishes its document has no secret: its method is none.")
    try:
        given = {name: document[name] for name in NAMED if name in document}
        client = OAuthClient(client_id=client_id, token_endpoint_auth_method=NO_SECRET, **given)
        _check_client([str(uri) for uri in client.redirect_uris or ()], NO_SECRET)
    except (ValidationError, TypeError):
        raise Refused("The document is malformed: see client_name and redirect_uris.") from None
    except RegistrationError as error:
        raise Refused(f"The document is malformed: {error.error_description}.") from None
    client.client_name = clean(client.client_name) or urlsplit(client_id).hostname
    return client


def clean(name: str | None) -> str:
    """A name as one line of printable text, because people decide by it."""
    printable = "".join(c for c in name or "" if c.isprintable())
    return " ".join(printable.split())[:MAX_NAME_LENGTH]


def _check_client(uris: list[str], method: str | None) -> None:
    """Raises RegistrationError for addresses or a method that no client may have."""
    if method not in METHODS:
        raise RegistrationError("invalid_client_metadata", f"method is one of {METHODS}")
    if not 0 < len(uris) <= MAX_URIS:
        raise RegistrationError("invalid_redirect_uri", f"1 to {MAX_URIS} redirect_uris")
    for uri in uris:
        parts = urlsplit(uri)
        plain = parts.scheme == "http" and is_loopback(parts.hostname or "")
        own = "." in parts.scheme or parts.scheme in _OWN_SCHEMES
        if len(uri) > MAX_URI_LENGTH or parts.fragment or "@" in parts.netloc:
            raise RegistrationError("invalid_redirect_uri", "too long, or with a fragment or user")
        if not (plain or own or (parts.scheme == "https" and parts.hostname)):
            raise RegistrationError(
                "invalid_redirect_uri",
                "https, http at a loopback address, or a scheme of the client's own, with a dot "
                "in it: com.example.app",
            )
