"""Answers about agents, groups, sessions and tokens."""

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
    """Only this answer contains the `token`. It is absent where the caller gave a hash."""

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
    """`sender` is absent if no such session is running."""

    session: str
    sender: NotRequired[str]


class SessionEnded(TypedDict):
    ended: str
    released: list[Claim]


# --- tokens


class _Token(TypedDict):
    """`contradiction` says how the label contradicts the sender."""

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
    """A token without its secret. A token with a `use` belongs to a browser where a person signed
    in, or to a connection, which is valid only at its `resource`."""

    use: NotRequired[Literal["browser", "connection"]]
    client: NotRequired[str]
    resource: NotRequired[str]
    revoked_at: NotRequired[str]
    suspended: NotRequired[Literal[True]]


class Tokens(TypedDict):
    tokens: list[Token]


class Minted(_Token):
    """Only this answer contains the `token`, as in `Joined`."""

    token: NotRequired[str]


class Rotated(Minted):
    replaced: list[str]


class Revoked(TypedDict):
    revoked: list[str]


class Reaffirmed(TypedDict):
    reaffirmed: list[str]


class ImportedRow(TypedDict):
    """A row of an imported file. `address` is the present or future sender of the token."""

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
    """`ok` means that every row is ready or imported already. `projects` are given if there are
    several. `foreign_scopes` are scopes of the file that this workspace does not know."""

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


class SenderMembers(TypedDict, total=False):
    """Members of events: the sender, the agent or the person that the fact concerns."""

    sender: str
    agent: str
    surface: str
    holder: str
    person: str
    own: list[str]


class TokenMembers(TypedDict, total=False):
    """Members of events about tokens."""

    label: str
    display_name: str
    scopes: list[str]
    replaced_by: str
