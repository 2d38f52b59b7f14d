"""Answers about the workspace: its settings, its status, the review, the doctor's findings, the log
and its events."""

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
    """A problem, and the command or the setting that solves it."""

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
    """Only the owner gets `directory` and `url`."""

    directory: NotRequired[str]
    engine: str
    entries: int
    bytes: int
    # only for a log that several nodes share
    url: NotRequired[str]
    name: NotRequired[str]
    node: NotRequired[str]
    confirmed_s_ago: NotRequired[int]
    set_aside: NotRequired[int]
    trouble: NotRequired[str]
    nodes: NotRequired[list["NodeStanding"]]


class NodeStanding(TypedDict):
    """The position up to which a node has folded the log, and its lag behind the engine."""

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
    """The matters that need a person, each with the next step."""

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
    """An entry as the log stores it. Times in its `outcome` are in milliseconds."""

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
    """One call reads a part of the log. If the answer has `next`, call again after that position,
    even if this answer has few facts or none."""

    facts: list[Fact]
    next: NotRequired[int]


class Verified(TypedDict):
    ok: Literal[True]
    entries: int
    root: str
    checkpoints: int


class Damaged(No):
    """`seq` is the first damaged entry."""

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
    """Proofs that several entries are in the log of one checkpoint."""

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


# --- events


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
    """The entries that a new epoch abandons, up to `seq`. If the engine had lost them, `after` is
    the position before the first of them, and `first` is its hash."""

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
    # the entries that a node restored to the engine
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
    """The kind of the fact decides which members the event has besides the first four."""

    # A room declares further members of its facts in its own answers.


Event = MessageEvent | ReceiptEvent | OtherEvent


class Events(TypedDict):
    """Call again after the position `reached`. If `more` is true, call at once."""

    events: list[Event]
    reached: int
    more: bool


# --- answers to an agent's client, which reports each step of its session


class Attended(TypedDict):
    """The identity of a client's session, and the news for its step. `news` are messages of which
    the client only tells the agent. `messages` are messages that it hands over whole. `lost` are
    the sender's sessions whose client has died. The members from `allowed` on belong to an edit."""

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
