"""Clients: the programs that may ask a person for access, and the redirect addresses of each.

A client id is either the URL of a document that the client publishes, or the result of a
registration. The server stores no registrations: a registered id contains all data, sealed.
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
# RFC 8252: the private scheme of a client contains a dot, like a reversed domain name. These
# well-known clients have schemes without a dot.
_OWN_SCHEMES: Final = (
    *("claude", "codex", "cursor", "goose", "raycast", "vscode", "vscode-insiders", "vscodium"),
    *("windsurf", "zed"),
)
# The members of a registration. The answer to the client has no others.
_REGISTERED_MEMBERS: Final = (
    *("client_id", "client_id_issued_at", "client_secret", "client_secret_expires_at"),
    *("client_name", "redirect_uris", "token_endpoint_auth_method"),
    *("grant_types", "response_types", "scope"),
)


class OAuthClient(OAuthClientInformationFull):
    """A client that may ask for access. It drops unknown scopes instead of refusing them. A
    redirect to a program on the person's machine may use any port (RFC 8252)."""

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
        """Set the client's id, which contains its name and addresses, and replace its other
        members, as RFC 7591 allows. Raise RegistrationError for invalid metadata."""
        uris = [str(uri) for uri in info.redirect_uris or ()]
        _check_client(uris, info.token_endpoint_auth_method)
        has_secret = info.token_endpoint_auth_method != NO_SECRET
        about = {
            "name": clean(info.client_name) or "Unnamed client",
            "redirect_uris": uris,
            "has_secret": has_secret,
        }
        info.client_id = REGISTERED + self._seals.seal("client", about)
        if len(info.client_id) > MAX_CLIENT_LENGTH:
            raise RegistrationError("invalid_redirect_uri", "redirect_uris together are too long")
        info.client_secret = self._secret(info.client_id) if has_secret else None
        info.client_name, info.scope = str(about["name"]), " ".join(BASIC_SCOPES)
        info.grant_types, info.response_types = ["authorization_code", "refresh_token"], ["code"]
        for name in type(info).model_fields.keys() - set(_REGISTERED_MEMBERS):
            setattr(info, name, None)

    def registered(self, client_id: str) -> OAuthClient | None:
        """Return the client of a registered id, or None if the id is not valid. A client with a
        secret always has the method client_secret_post, because `endpoints` moves a secret from
        the header to the form."""
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
        """Return the client that publishes a document at this URL. Raise Refused."""
        return published(client_id, await self._documents.of(client_id))

    def _secret(self, client_id: str) -> str:
        return self._keys.fingerprint(b"client secret " + client_id.encode())


def published(client_id: str, document: dict[str, Any]) -> OAuthClient:
    method = document.get("token_endpoint_auth_method", NO_SECRET)
    if method != NO_SECRET or "client_secret" in document:
        raise Refused(
            "A client that publishes a document has no secret. Its token_endpoint_auth_method must "
            "be none."
        )
    try:
        given = {name: document[name] for name in NAMED if name in document}
        client = OAuthClient(client_id=client_id, token_endpoint_auth_method=NO_SECRET, **given)
        _check_client([str(uri) for uri in client.redirect_uris or ()], NO_SECRET)
    except (ValidationError, TypeError):
        raise Refused(
            "The client's document is malformed. Check its client_name and redirect_uris."
        ) from None
    except RegistrationError as error:
        raise Refused(f"The client's document is malformed: {error.error_description}.") from None
    client.client_name = clean(client.client_name) or urlsplit(client_id).hostname
    return client


def clean(name: str | None) -> str:
    """Return a name as one line of printable text, because people read it on the consent page."""
    printable = "".join(c for c in name or "" if c.isprintable())
    return " ".join(printable.split())[:MAX_NAME_LENGTH]


def _check_client(uris: list[str], method: str | None) -> None:
    """Raise RegistrationError for invalid redirect addresses or an unknown method."""
    if method not in METHODS:
        raise RegistrationError(
            "invalid_client_metadata",
            f"token_endpoint_auth_method must be one of {', '.join(METHODS)}",
        )
    if not 0 < len(uris) <= MAX_URIS:
        raise RegistrationError(
            "invalid_redirect_uri", f"redirect_uris must have 1 to {MAX_URIS} addresses"
        )
    for uri in uris:
        parts = urlsplit(uri)
        plain = parts.scheme == "http" and is_loopback(parts.hostname or "")
        own = "." in parts.scheme or parts.scheme in _OWN_SCHEMES
        if len(uri) > MAX_URI_LENGTH or parts.fragment or "@" in parts.netloc:
            raise RegistrationError(
                "invalid_redirect_uri",
                f"a redirect address must have at most {MAX_URI_LENGTH} characters, no fragment "
                "and no user",
            )
        if not (plain or own or (parts.scheme == "https" and parts.hostname)):
            raise RegistrationError(
                "invalid_redirect_uri",
                "a redirect address must use https, http at a loopback address, or a private "
                "scheme of the client with a dot, such as com.example.app",
            )
