"""Answers about the workspace: how it stands, what needs a person, what is wrong."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from interlock.rooms.claims.answers import Claim, ClaimedPath, ClaimMembers
from interlock.rooms.event_kinds import OtherKind
from interlock.rooms.identity.answers import SenderMembers, TokenMembers
from interlock.rooms.mail.answers import Envelope, Message, WakeMembers
from interlock.rooms.people.answers import ConnectionMembers
from interlock.rooms.shared_answers import From, Kind, No, State
from interlock.rooms.work.answers import TaskMembers, ToResolve, VerdictDue


class Setting(TypedDict):
    name: str
    value: str
    default: str


class Finding(TypedDict):
    """What is wrong, and what puts it right."""

    check: str
    message: str
    do: str
    subject: NotRequired[str]


class Examined(TypedDict):
    ok: bool
    checks: int
    findings: list[Finding]


class Status(TypedDict):
    workspace: str
    epoch: int
    created_at: str
    now: str
    paused: bool
    pause_reason: NotRequired[str]
    agents: int
    senders: int
    messages: int
    open_deliveries: int
    claims: int
    waiting: int
    tasks: int
    blockers: int
    refusals: int


class Storage(TypedDict):
    """Where it lies is told to the owner alone."""

    directory: NotRequired[str]
    engine: str
    entries: int
    bytes: int
    # of a log that several nodes share
    url: NotRequired[str]
    name: NotRequired[str]
    node: NotRequired[str]
    confirmed_s_ago: NotRequired[int]
    set_aside: NotRequired[int]
    trouble: NotRequired[str]
    nodes: NotRequired[list["NodeStanding"]]


class NodeStanding(TypedDict):
    """How far a node has folded the log, and how far that is behind the engine."""

    node: str
    seq: int
    lag: int
    seen_s_ago: int


class ExpiredMail(From):
    id: str
    seq: int
    to: str
    at: str
    do: str


class UnansweredAsk(ExpiredMail):
    overdue: NotRequired[Literal[True]]


class UnknownName(TypedDict):
    to: str
    open: int
    did_you_mean: NotRequired[list[str]]
    do: str


class Refused(TypedDict):
    seq: int
    at: str
    sender: str
    code: str
    token: NotRequired[str]
    do: str


class DeadHolder(TypedDict):
    on: str
    holder: str
    since: str
    do: str


class DueFrom(VerdictDue):
    holders: list[str]


class Review(TypedDict):
    """What needs a person, each with the command to type."""

    verdicts_due: list[DueFrom]
    blockers: list[ToResolve]
    unanswered: list[UnansweredAsk]
    expired: list[ExpiredMail]
    unknown_recipients: list[UnknownName]
    dead_holders: list[DeadHolder]
    refusals: list[Refused]


class Settings(TypedDict):
    settings: list[Setting]


class SettingChanged(TypedDict):
    name: str
    value: str


class Paused(TypedDict):
    paused: Literal[True]
    reason: NotRequired[str]


class Resumed(TypedDict):
    paused: Literal[False]


# --- the log itself


class Fact(TypedDict):
    """An entry of the log as it stands there; times in its `outcome` are milliseconds."""

    seq: int
    at: str
    kind: str
    sender: str
    session: NotRequired[str]
    token: NotRequired[str]
    epoch: NotRequired[int]
    outcome: dict[str, Any]
    hash: str
    body: NotRequired[str]


class Log(TypedDict):
    """One call looks through a part of the log: where there is a `next`, go on after it, however
    few facts came before."""

    facts: list[Fact]
    next: NotRequired[int]


class Verified(TypedDict):
    ok: Literal[True]
    entries: int
    root: str
    checkpoints: int


class Damaged(No):
    """`seq` is the first entry that is not what it was."""

    ok: Literal[False]
    code: Literal["LOG_DAMAGED"]
    seq: int
    entries: int


class Checkpoint(TypedDict):
    entries: int
    root: str
    checkpoint: str
    verifier: str


class _Proof(TypedDict):
    tree_size: int
    root: str
    path: list[str]
    checkpoint: str
    verifier: str


class Inclusion(_Proof):
    proof: Literal["inclusion"]
    seq: int
    header: str
    leaf_index: int


class ProvenEntry(TypedDict):
    seq: int
    header: str
    leaf_index: int
    path: list[str]


class Proofs(TypedDict):
    """Several entries, against one checkpoint."""

    proof: Literal["inclusions"]
    tree_size: int
    root: str
    entries: list[ProvenEntry]
    checkpoint: str
    verifier: str


class Growth(_Proof):
    proof: Literal["consistency"]
    old_size: int
    old_root: str


class Exported(TypedDict):
    file: str
    entries: int
    root: str


class BackedUp(TypedDict):
    file: str
    entries: int
    bytes: int


class Restored(TypedDict):
    restored: Literal[True]
    epoch: int
    entries: int
    abandoned: str


class Rebuilt(TypedDict):
    rebuilt: Literal[True]
    schema: str
    entries: int
    digest: str
    changed: bool


# --- What happened, as those see it whom it concerns


class _Event(TypedDict):
    seq: int
    at: str
    by: str
    session: NotRequired[str]


class MessageEvent(_Event):
    kind: Literal["message_sent"]
    message: Envelope


class MovedDelivery(TypedDict):
    id: str
    seq: int
    recipient: str


class ReceiptEvent(_Event):
    kind: Literal["mail_moved"]
    state: State
    deliveries: list[MovedDelivery]


class Abandoned(TypedDict):
    """What a new epoch lets go of; `after` and `first` where the engine had lost it."""

    epoch: int
    seq: int
    root: str
    after: NotRequired[int]
    first: NotRequired[str]


class _WorkspaceMembers(TypedDict, total=False):
    """Members of events about settings, groups, redactions, refusals and epochs."""

    name: str
    value: str
    members: list[str]
    target: int
    code: str
    digest: str
    verifier: str
    abandoned: Abandoned


class _OtherEvent(_Event):
    kind: OtherKind
    # what was put back into an engine, and by which node
    first: NotRequired[int]
    last: NotRequired[int]
    node: NotRequired[str]


class OtherEvent(
    _OtherEvent,
    SenderMembers,
    ConnectionMembers,
    ClaimMembers,
    TokenMembers,
    _WorkspaceMembers,
    WakeMembers,
    TaskMembers,
):
    """The members beside the first four are those that the fact's own kind has."""

    # A room declares further members of its facts in its own answers.


Event = MessageEvent | ReceiptEvent | OtherEvent


class Events(TypedDict):
    """`reached` is the position to go on after; `more` says whether to do so at once."""

    events: list[Event]
    reached: int
    more: bool


# --- Answers to an agent's client, which tells of each step and is told what to say


class Attended(TypedDict):
    """What a client's session is told at a step: who it is, and what is new. `news` are messages
    to be pointed to, `messages` those that are handed over whole, `lost` the sender's sessions
    whose client has died; the rest is of an edit."""

    address: str
    agent: str
    session: NotRequired[str]
    paused: NotRequired[Literal[True]]
    open: int
    unread: int
    lost: NotRequired[list[str]]
    claims: NotRequired[list[Claim]]
    news: NotRequired[list[Envelope]]
    messages: NotRequired[list[Message]]
    allowed: NotRequired[bool]
    denied: NotRequired[list[ClaimedPath]]
    warned: NotRequired[list[ClaimedPath]]
    guard: NotRequired[Literal["off"]]
    error: NotRequired[str]
    code: NotRequired[Literal["CLAIM_HELD"]]
    message: NotRequired[str]


class Muted(TypedDict):
    address: str
    muted: bool
    until: NotRequired[str]


class TaskLine(TypedDict):
    id: str
    title: str
    state: str


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
