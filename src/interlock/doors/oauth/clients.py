"""Clients: who may ask a person to be let in, and where each is answered.

A client is known by an address where it publishes a document about itself, or by what it once
registered here. The latter is stored nowhere: the id that it got holds all of it, sealed.
"""

from typing import Any, Final
from urllib.parse import urlsplit

from mcp.server.auth.provider import RegistrationError
from mcp.shared.auth import InvalidRedirectUriError, OAuthClientInformationFull
from pydantic import AnyUrl, ValidationError

from interlock.doors.oauth.documents import NAMED, Documents, Refused
from interlock.doors.oauth.metadata import METHODS, NO_SECRET
from interlock.machine.hosts import is_loopback
from interlock.node.keys import Keys, Seals
from interlock.rooms.identity.scopes import BASIC_SCOPES
from interlock.rooms.people.verbs import MAX_CLIENT_LENGTH

REGISTERED: Final = "reg_"
MAX_NAME_LENGTH: Final = 80
MAX_URI_LENGTH: Final = 500
MAX_URIS: Final = 8
# Schemes of clients' own have a dot in them, says RFC 8252: the name of whoever made the client,
# backwards. These are known to be theirs all the same.
_OWN: Final = (
    *("claude", "codex", "cursor", "goose", "raycast", "vscode", "vscode-insiders", "vscodium"),
    *("windsurf", "zed"),
)
# What is registered of a client, and so all that it is told it has registered.
_TOLD: Final = (
    *("client_id", "client_id_issued_at", "client_secret", "client_secret_expires_at"),
    *("client_name", "redirect_uris", "token_endpoint_auth_method"),
    *("grant_types", "response_types", "scope"),
)


class Client(OAuthClientInformationFull):
    """A client that may be asked for. Scopes that nobody can have are not asked for, rather than
    refused; a program's own port at this machine is whatever was free."""

    def validate_scope(self, requested_scope: str | None) -> list[str] | None:
        asked = (requested_scope or "").split()
        return [scope for scope in BASIC_SCOPES if scope in asked] or list(BASIC_SCOPES)

    def validate_redirect_uri(self, redirect_uri: AnyUrl | None) -> AnyUrl:
        try:
            return super().validate_redirect_uri(redirect_uri)
        except InvalidRedirectUriError:
            for known in self.redirect_uris or ():
                if redirect_uri is not None and _same_but_port(str(known), str(redirect_uri)):
                    return redirect_uri
            raise


def _same_but_port(known: str, asked: str) -> bool:
    """RFC 8252: at a loopback address any port will do."""
    ours, theirs = urlsplit(known), urlsplit(asked)
    return (
        ours.scheme == "http"
        and is_loopback(ours.hostname or "")
        and "@" not in theirs.netloc
        and (theirs.scheme, theirs.hostname, theirs.path, theirs.query, theirs.fragment)
        == (ours.scheme, ours.hostname, ours.path, ours.query, ours.fragment)
    )


class Clients:
    def __init__(self, keys: Keys, documents: Documents) -> None:
        self._keys, self._documents = keys, documents
        self._seals = Seals(keys)

    def register(self, told: OAuthClientInformationFull) -> None:
        """Gives a client its id, which holds what it told; RFC 7591 lets us replace the rest."""
        uris = [str(uri) for uri in told.redirect_uris or ()]
        _refuse_strange(uris, told.token_endpoint_auth_method)
        has_secret = told.token_endpoint_auth_method != NO_SECRET
        about = {
            "name": clean(told.client_name) or "A client without a name",
            "redirect_uris": uris,
            "has_secret": has_secret,
        }
        told.client_id = REGISTERED + self._seals.seal("client", about)
        if len(told.client_id) > MAX_CLIENT_LENGTH:
            raise RegistrationError("invalid_redirect_uri", "together they are too long")
        told.client_secret = self._secret(told.client_id) if has_secret else None
        told.client_name, told.scope = str(about["name"]), " ".join(BASIC_SCOPES)
        told.grant_types, told.response_types = ["authorization_code", "refresh_token"], ["code"]
        for name in type(told).model_fields.keys() - set(_TOLD):
            setattr(told, name, None)

    def registered(self, client_id: str) -> Client | None:
        """A client by the id that it got. Where it shows its secret is moved to one place before
        anybody looks: see `endpoints`."""
        about = self._seals.opened("client", client_id.removeprefix(REGISTERED))
        if about is None:
            return None
        return Client(
            client_id=client_id,
            client_secret=self._secret(client_id) if about["has_secret"] else None,
            client_name=about["name"],
            redirect_uris=about["redirect_uris"],
            token_endpoint_auth_method="client_secret_post" if about["has_secret"] else NO_SECRET,
        )

    async def published(self, client_id: str) -> Client:
        """The client behind an address, or `Refused`."""
        document = await self._documents.of(client_id)
        return published(client_id, document)

    def _secret(self, client_id: str) -> str:
        return self._keys.fingerprint(b"client secret " + client_id.encode())


def published(client_id: str, document: dict[str, Any]) -> Client:
    method = document.get("token_endpoint_auth_method", NO_SECRET)
    if method != NO_SECRET or "client_secret" in document:
        raise Refused("A client that publishes its document has no secret: its method is none.")
    try:
        told = {name: document[name] for name in NAMED if name in document}
        client = Client(client_id=client_id, token_endpoint_auth_method=NO_SECRET, **told)
        _refuse_strange([str(uri) for uri in client.redirect_uris or ()], NO_SECRET)
    except (ValidationError, TypeError):
        raise Refused("The document is malformed: see client_name and redirect_uris.") from None
    except RegistrationError as error:
        raise Refused(f"The document is malformed: {error.error_description}.") from None
    client.client_name = clean(client.client_name) or urlsplit(client_id).hostname
    return client


def clean(name: str | None) -> str:
    """A name as a line of text: people decide by it."""
    printable = "".join(c for c in name or "" if c.isprintable())
    return " ".join(printable.split())[:MAX_NAME_LENGTH]


def _refuse_strange(uris: list[str], method: str | None) -> None:
    if method not in METHODS:
        raise RegistrationError("invalid_client_metadata", f"method is one of {METHODS}")
    if not 0 < len(uris) <= MAX_URIS:
        raise RegistrationError("invalid_redirect_uri", f"1 to {MAX_URIS} redirect_uris")
    for uri in uris:
        parts = urlsplit(uri)
        plain = parts.scheme == "http" and is_loopback(parts.hostname or "")
        own = "." in parts.scheme or parts.scheme in _OWN
        if len(uri) > MAX_URI_LENGTH or parts.fragment or "@" in parts.netloc:
            raise RegistrationError("invalid_redirect_uri", "too long, or with a fragment or user")
        if not (plain or own or (parts.scheme == "https" and parts.hostname)):
            raise RegistrationError(
                "invalid_redirect_uri",
                "https, http at a loopback address, or a scheme of the client's own, with a dot "
                "in it: com.example.app",
            )
