"""Answers about people: invitations, connections and browsers."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from interlock.rooms.shared_answers import Kind


class Invited(TypedDict):
    """Only this answer contains the `invitation`. `path` follows the server's address in a link."""

    id: str
    name: str
    sender: str
    kind: Kind
    own: NotRequired[list[str]]
    expires_at: str
    invitation: NotRequired[str]
    path: NotRequired[str]


class Connection(TypedDict):
    """A client that a person allows to act as `address`. It expires at `expires_at` unless the
    client uses it before."""

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
    """A browser where a person has signed in. `current` marks the caller's own browser."""

    id: str
    person: str
    browser: NotRequired[str]
    signed_in_at: str
    expires_at: str
    current: NotRequired[bool]


class OwnToken(TypedDict):
    """A token on a machine, of a person or of an agent that the person owns."""

    id: str
    address: str
    label: NotRequired[str]
    minted_at: str
    expires_at: NotRequired[str]


class Invitation(TypedDict):
    """An invitation that is neither used nor expired."""

    id: str
    name: str
    surface: NotRequired[str]
    kind: Kind
    own: NotRequired[list[str]]
    invited_by: str
    expires_at: str


class LockedOut(TypedDict):
    """The person owned the `agents`, which have no owner now. The person minted the tokens `minted`
    for other senders. These tokens stay valid."""

    person: str
    revoked: list[str]
    agents: list[str]
    minted: list[str]


class Connections(TypedDict):
    """The clients that act for people, and the browsers where people have signed in. A person also
    sees their own tokens. The owner and admins also see open invitations."""

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
