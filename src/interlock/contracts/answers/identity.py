"""Answers about who there is: agents, groups and sessions."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from interlock.contracts.answers.claims import Claim
from interlock.contracts.answers.parts import Kind, Reach
from interlock.contracts.answers.work import VerdictDue


class TaskLine(TypedDict):
    id: str
    title: str
    state: str


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


class Whoami(TypedDict):
    sender: str
    address: str
    agent: str
    surface: NotRequired[str]
    session: NotRequired[str]
    kind: Kind
    scopes: list[str]
    workspace: str
    open: int
    unread: int
    claims: list[Claim]
    tasks: list[TaskLine]
    verdicts_due: list[VerdictDue]


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
