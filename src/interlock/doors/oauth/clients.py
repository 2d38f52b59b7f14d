"""Clients: who may ask a person to be let in, and where each is answered.

A client is known by an address where it publishes a document about itself, or by what it once
registered here. The latter is stored nowhere: the id that it got holds all of it, sealed.
"""

from typing import Any, Final
from urllib.parse import urlsplit

from mcp.server.auth.provider import RegistrationError
from mcp.shared.auth import InvalidRedirectUriError, OAuthClientInformationFull
from pydantic import AnyUrl, ValidationError

from interlock.doors.oauth.documents import Documents, Refused
from interlock.doors.oauth.metadata import SCOPES
from interlock.node.keys import Keys
from interlock.node.seals import Seals

REGISTERED: Final = "reg_"
METHODS: Final = ("none", "client_secret_post", "client_secret_basic")
LONGEST_NAME: Final = 80
LONGEST_URI: Final = 500
MOST_URIS: Final = 8
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_NEVER: Final = ("javascript", "data", "file", "vbscript", "about", "blob", "view-source", "ws")


class Client(OAuthClientInformationFull):
    """A client that may be asked for. Scopes that nobody can have are not asked for, rather than
    refused; a program's own port at this machine is whatever was free."""

    def validate_scope(self, requested_scope: str | None) -> list[str] | None:
        asked = (requested_scope or "").split()
        return [scope for scope in SCOPES if scope in asked] or list(SCOPES)

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
        and ours.hostname in _LOOPBACK
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
        about = {
            "name": clean(told.client_name) or "A client without a name",
            "uri": str(told.client_uri) if told.client_uri else None,
            "redirect_uris": uris,
            "method": told.token_endpoint_auth_method,
        }
        if about["uri"] and len(str(about["uri"])) > LONGEST_URI:
            raise RegistrationError("invalid_client_metadata", "client_uri is too long")
        told.client_id = REGISTERED + self._seals.seal("client", about)
        told.client_secret = self._secret(told.client_id) if about["method"] != "none" else None

    def registered(self, client_id: str) -> Client | None:
        about = self._seals.opened("client", client_id.removeprefix(REGISTERED))
        if about is None or not client_id.startswith(REGISTERED):
            return None
        is_public = about["method"] == "none"
        return Client(
            client_id=client_id,
            client_secret=None if is_public else self._secret(client_id),
            client_name=about["name"],
            client_uri=about["uri"],
            redirect_uris=about["redirect_uris"],
            token_endpoint_auth_method=about["method"],
        )

    async def published(self, client_id: str) -> Client:
        """The client behind an address, or `Refused`."""
        document = await self._documents.of(client_id)
        return published(client_id, document)

    def _secret(self, client_id: str) -> str:
        return self._keys.fingerprint(b"client secret " + client_id.encode())


def published(client_id: str, document: dict[str, Any]) -> Client:
    known = ("client_name", "client_uri", "redirect_uris")
    method = document.get("token_endpoint_auth_method", "none")
    if method != "none" or "client_secret" in document:
        raise Refused("A client that publishes its document has no secret: its method is none.")
    try:
        told = {name: document[name] for name in known if name in document}
        client = Client(client_id=client_id, token_endpoint_auth_method="none", **told)  # noqa: S106
        _refuse_strange([str(uri) for uri in client.redirect_uris or ()], "none")
    except (ValidationError, TypeError):
        raise Refused("The document is malformed: see client_name and redirect_uris.") from None
    except RegistrationError as error:
        raise Refused(f"The document is malformed: {error.error_description}.") from None
    client.client_name = clean(client.client_name) or urlsplit(client_id).hostname
    return client


def clean(name: str | None) -> str:
    """A name as a line of text: people decide by it."""
    printable = "".join(c for c in name or "" if c.isprintable())
    return " ".join(printable.split())[:LONGEST_NAME]


def _refuse_strange(uris: list[str], method: str | None) -> None:
    if method not in METHODS:
        raise RegistrationError("invalid_client_metadata", f"method is one of {METHODS}")
    if not 0 < len(uris) <= MOST_URIS:
        raise RegistrationError("invalid_redirect_uri", f"1 to {MOST_URIS} redirect_uris")
    for uri in uris:
        parts = urlsplit(uri)
        plain = parts.scheme == "http" and parts.hostname in _LOOPBACK
        own = parts.scheme not in ("http", "https", *_NEVER) and len(parts.scheme) > 1
        if len(uri) > LONGEST_URI or parts.fragment or "@" in parts.netloc:
            raise RegistrationError("invalid_redirect_uri", "too long, or with a fragment or user")
        if not (plain or own or (parts.scheme == "https" and parts.hostname)):
            raise RegistrationError(
                "invalid_redirect_uri",
                "https, http at a loopback address, or a scheme of the client's own",
            )
