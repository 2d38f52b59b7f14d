"""Answers about people: invitations, connections and browsers."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from interlock.rooms.shared_answers import Kind


class Invited(TypedDict):
    """`invitation` is said here and nowhere else; `path` comes after the server's address."""

    id: str
    name: str
    sender: str
    kind: Kind
    own: NotRequired[list[str]]
    expires_at: str
    invitation: NotRequired[str]
    path: NotRequired[str]


class Connection(TypedDict):
    """A client that a person lets act as `address`. It ends at `expires_at` if it is not used."""

    id: str
    name: str
    person: str
    address: str
    client: str
    client_id: str
    scopes: list[str]
    resource: str
    granted_at: str
    refreshed_at: NotRequired[str]
    expires_at: NotRequired[str]


class BrowserSession(TypedDict):
    """Where a person has signed in; `current` is the one that asks."""

    id: str
    person: str
    browser: NotRequired[str]
    signed_in_at: str
    expires_at: str
    current: NotRequired[bool]


class OwnToken(TypedDict):
    """A token that lies on a machine of a person's, or of an agent's of theirs."""

    id: str
    address: str
    label: NotRequired[str]
    minted_at: str
    expires_at: NotRequired[str]


class Invitation(TypedDict):
    """A link that somebody may still use."""

    id: str
    name: str
    surface: NotRequired[str]
    kind: Kind
    own: NotRequired[list[str]]
    invited_by: str
    expires_at: str


class LockedOut(TypedDict):
    """`agents` were the person's, and are nobody's now; `minted` are tokens of others that the
    person made, which go on working."""

    person: str
    revoked: list[str]
    agents: list[str]
    minted: list[str]


class Connections(TypedDict):
    """Clients that people let act for them, where people have signed in, a person's own tokens
    and, for the owner and admins, who has been invited."""

    connections: list[Connection]
    sessions: list[BrowserSession]
    tokens: list[OwnToken]
    invitations: list[Invitation]


class ConnectionMembers(TypedDict, total=False):
    """Members of events about connections."""

    client: str
    client_name: str
    resource: str
    redirect_uri: str
    code_expires_at: str
    refresh_expires_at: str
    use: Literal["browser"]
