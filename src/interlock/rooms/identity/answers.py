"""Answers about who there is: agents, groups and sessions."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from interlock.rooms.claims.answers import Claim
from interlock.rooms.shared_answers import Kind, Reach


class Agent(TypedDict):
    address: str
    agent: str
    surface: NotRequired[str]
    kind: Kind
    reach: Reach
    muted: NotRequired[Literal[True]]
    last_seen: NotRequired[str]


class Group(TypedDict):
    address: str
    members: list[str]


class Agents(TypedDict):
    agents: list[Agent]


class Joined(TypedDict):
    """`token` is said here and nowhere else; it is absent where the caller brought a hash."""

    sender: str
    address: str
    agent: str
    surface: NotRequired[str]
    kind: Kind
    scopes: list[str]
    token_id: str
    token: NotRequired[str]


class Groups(TypedDict):
    groups: list[Group]


class GroupMade(Group):
    name: str


class SessionStarted(TypedDict):
    session: str
    sender: str


class SessionFound(TypedDict):
    """Nobody's, where there is no `sender`."""

    session: str
    sender: NotRequired[str]


class SessionEnded(TypedDict):
    ended: str
    released: list[Claim]


# --- tokens


class _Token(TypedDict):
    """`contradiction` says what is wrong with a label that does not mention its own agent."""

    id: str
    sender: str
    address: str
    label: NotRequired[str]
    contradiction: NotRequired[str]
    scopes: list[str]
    minted_by: str
    minted_at: str
    seq: int
    expires_at: NotRequired[str]


class Token(_Token):
    """A token as everybody may know it, without its secret. One with a `use` is a browser's, where
    a person has signed in, or a connection's, which is good at its `resource` alone."""

    use: NotRequired[Literal["browser", "connection"]]
    client: NotRequired[str]
    resource: NotRequired[str]
    revoked_at: NotRequired[str]
    suspended: NotRequired[Literal[True]]


class Tokens(TypedDict):
    tokens: list[Token]


class Minted(_Token):
    """`token` is said here and nowhere else, as in `Joined`."""

    token: NotRequired[str]


class Rotated(Minted):
    replaced: list[str]


class Revoked(TypedDict):
    revoked: list[str]


class Reaffirmed(TypedDict):
    reaffirmed: list[str]


class ImportedRow(TypedDict):
    """A row of an imported file; `address` is whose the token is, or will be."""

    number: int
    label: NotRequired[str]
    agent: NotRequired[str]
    project: NotRequired[str]
    id: NotRequired[str]
    address: NotRequired[str]
    scopes: NotRequired[list[str]]
    expires_at: NotRequired[str]
    verdict: Literal[
        "ready",
        "contradiction",
        "no agent",
        "no scope",
        "unknown hash",
        "inactive",
        "clear-text secret",
    ]
    message: str
    do: NotRequired[str]


class Imported(TypedDict):
    """`ok` where every row is ready or here already; `projects` where there are several;
    `foreign_scopes` are words of theirs that mean nothing here."""

    ok: bool
    applied: bool
    importable: int
    imported: int
    projects: NotRequired[list[str]]
    foreign_scopes: NotRequired[list[str]]
    rows: list[ImportedRow]


class KnownToken(Token):
    known: Literal[True]
    active: bool


class UnknownToken(TypedDict):
    known: Literal[False]
