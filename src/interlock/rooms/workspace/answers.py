"""Answers about the workspace: how it stands, what needs a person, what is wrong."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from interlock.rooms.claims.answers import Claim, ClaimedPath
from interlock.rooms.mail.answers import Envelope, Message
from interlock.rooms.shared_answers import From, Kind, No, Priority, State
from interlock.rooms.work.answers import TaskState, ToResolve, VerdictDue


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


class OtherEvent(_Event):
    """The members beside the first four are those that the fact's own kind has."""

    kind: Literal[
        "agent_joined",
        "agent_owned",
        "blocker_resolved",
        "body_redacted",
        "claim_awaited",
        "claim_crossed",
        "claim_expired",
        "claim_extended",
        "claim_granted",
        "claim_released",
        "claim_wait_ended",
        "claim_wait_extended",
        "connection_granted",
        "connection_named",
        "connection_opened",
        "connection_refreshed",
        "epoch_started",
        "evidence_added",
        "gate_created",
        "group_set",
        "invitation_accepted",
        "invitation_withdrawn",
        "log_repaired",
        "password_set",
        "person_invited",
        "person_locked_out",
        "request_refused",
        "session_ended",
        "session_started",
        "setting_changed",
        "task_created",
        "task_ended",
        "task_submitted",
        "task_taken",
        "token_imported",
        "token_labelled",
        "token_minted",
        "token_reaffirmed",
        "token_rebound",
        "token_revoked",
        "verdict_given",
        "wake_begun",
        "wake_ended",
        "wakes_muted",
        "workspace_created",
        "workspace_paused",
        "workspace_resumed",
    ]
    # what was put back into an engine, and by which node
    first: NotRequired[int]
    last: NotRequired[int]
    node: NotRequired[str]
    # who
    sender: NotRequired[str]
    agent: NotRequired[str]
    surface: NotRequired[str]
    holder: NotRequired[str]
    person: NotRequired[str]
    own: NotRequired[list[str]]
    # a connection
    client: NotRequired[str]
    client_name: NotRequired[str]
    resource: NotRequired[str]
    redirect_uri: NotRequired[str]
    code_expires_at: NotRequired[str]
    refresh_expires_at: NotRequired[str]
    use: NotRequired[Literal["browser"]]
    # what
    id: NotRequired[str]
    item: NotRequired[str]
    paths: NotRequired[list[str]]
    repo: NotRequired[str]
    fence: NotRequired[int]
    ttl_s: NotRequired[int]
    expires_at: NotRequired[str]
    branch: NotRequired[str]
    worktree: NotRequired[str]
    note: NotRequired[str]
    everywhere: NotRequired[int]
    reason: NotRequired[str]
    taken_over: NotRequired[Literal[True]]
    label: NotRequired[str]
    display_name: NotRequired[str]
    scopes: NotRequired[list[str]]
    replaced_by: NotRequired[str]
    name: NotRequired[str]
    value: NotRequired[str]
    members: NotRequired[list[str]]
    target: NotRequired[int]
    code: NotRequired[str]
    digest: NotRequired[str]
    verifier: NotRequired[str]
    abandoned: NotRequired[Abandoned]
    # waking
    adapter: NotRequired[str]
    outcome: NotRequired[Literal["woken", "failed", "unknown"]]
    why: NotRequired[str]
    until: NotRequired[str]
    off: NotRequired[Literal[True]]
    # work
    task: NotRequired[str]
    thread: NotRequired[str]
    criteria: NotRequired[int]
    gates: NotRequired[list[str]]
    depends_on: NotRequired[list[str]]
    labels: NotRequired[list[str]]
    priority: NotRequired[Priority]
    assignee: NotRequired[str]
    claim: NotRequired[str]
    state: NotRequired[TaskState]
    status: NotRequired[TaskState]
    commit: NotRequired[str]
    tree: NotRequired[str]
    submission: NotRequired[int]
    gate: NotRequired[str]
    holders: NotRequired[list[str]]
    verdict: NotRequired[Literal["pass", "fail"]]
    evidence: NotRequired[list[str]]
    rules: NotRequired[str]
    criterion: NotRequired[int]
    exit_code: NotRequired[int]
    dirty: NotRequired[bool]
    interrupted: NotRequired[bool]
    spooled: NotRequired[bool]


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
