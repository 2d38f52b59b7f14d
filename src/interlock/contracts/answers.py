"""What each act is answered with, member by member.

`ANSWERS` is complete: the door describes its responses by it, the client gives its results these
types, and a test holds the answers of a real node against them. A plain "no" is an answer like any
other, with the members of the error object. Times are RFC 3339 in UTC; what is absent was not
given.
"""

from typing import Any, Literal, NotRequired

# Pydantic, which makes schemas of these, does not take typing's own before Python 3.12.
from typing_extensions import TypedDict

from interlock.contracts import acts

# --- parts

State = Literal["accepted", "woken", "shown", "read", "acked", "declined", "expired"]
Reach = Literal["wakes", "working", "waits", "offline", "unknown"]
Kind = Literal["agent", "human"]
Priority = Literal["low", "normal", "high", "critical"]

_From = TypedDict("_From", {"from": str})


class _No(TypedDict):
    """The members of an error object, beside its code."""

    error: str
    message: str


class Envelope(_From):
    """A message without what it says."""

    id: str
    seq: int
    type: str
    version: str
    source: str
    to: str
    thread: str
    at: str
    priority: Priority
    subject: NotRequired[str]
    reply_to: NotRequired[str]
    expires_at: NotRequired[str]
    sha256: NotRequired[str]
    size: NotRequired[int]
    redacted: NotRequired[Literal[True]]


class Step(TypedDict):
    """How a delivery came to a state."""

    state: State
    at: str
    by: NotRequired[str]
    adapter: NotRequired[str]
    note: NotRequired[str]


class WakeTried(TypedDict):
    """An attempt to wake somebody by an adapter that may fail. `unknown` is one whose end nobody
    knows; it is not repeated."""

    adapter: str
    at: str
    outcome: Literal["begun", "woken", "failed", "unknown"]
    why: NotRequired[str]


class Receipt(TypedDict):
    """How far a message got with one recipient."""

    recipient: str
    state: State
    history: list[Step]
    wakes: NotRequired[list[WakeTried]]


class Message(Envelope):
    """A message with what it says, whole or a `part` of it; without, where that was redacted or
    is not for the one who asks. The sender sees its `deliveries`; other surfaces of an agent see
    by which it was `taken_by`."""

    payload: NotRequired[dict[str, Any]]
    part: NotRequired[Literal[True]]
    shown: NotRequired[int]
    offset: NotRequired[int]
    next_offset: NotRequired[int]
    taken_by: NotRequired[str]
    deliveries: NotRequired[list[Receipt]]


class Delivery(TypedDict):
    """What to expect of one recipient of a message that was just accepted."""

    recipient: str
    known: bool
    reach: Reach
    state: State


class Notice(TypedDict):
    """What a sender should know about a message that was accepted all the same."""

    code: Literal["UNKNOWN_RECIPIENT"]
    message: str
    did_you_mean: NotRequired[list[str]]


class TaskLine(TypedDict):
    id: str
    title: str
    state: str


class VerdictDue(TypedDict):
    """A verdict that somebody waits for, and what to type to give it."""

    task: str
    gate: str
    commit: str
    worker: str
    since: str
    do: str


class Claim(TypedDict):
    """What is held is one `item`, or `paths` of a `repo`."""

    id: str
    item: NotRequired[str]
    paths: NotRequired[list[str]]
    repo: NotRequired[str]
    holder: str
    agent: str
    surface: NotRequired[str]
    session: NotRequired[str]
    fence: int
    branch: NotRequired[str]
    worktree: NotRequired[str]
    note: NotRequired[str]
    everywhere: NotRequired[Literal[True]]
    acquired_at: str
    expires_at: str


class SharedWorktree(TypedDict):
    code: Literal["SHARED_WORKTREE"]
    message: str
    claim: Claim


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


class Setting(TypedDict):
    name: str
    value: str
    default: str


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


# --- mail


class Sent(TypedDict):
    """Accepted, which never means more than that."""

    accepted: Literal[True]
    message: Envelope
    deliveries: list[Delivery]
    notices: list[Notice]


class Inbox(TypedDict):
    """`next` is there where more follows: go on after it."""

    messages: list[Message]
    open: int
    unread: int
    next: NotRequired[int]


class Acknowledged(TypedDict):
    """The ids of the messages named, by where each stands now."""

    acked: NotRequired[list[str]]
    declined: NotRequired[list[str]]
    expired: NotRequired[list[str]]


class Receipts(TypedDict):
    id: str
    deliveries: list[Receipt]


class Thread(TypedDict):
    thread: str
    messages: list[Message]
    next: NotRequired[int]


class Story(TypedDict):
    """Who is behind a message. What Interlock itself writes has no token. Where the token's label
    says otherwise, that is a `contradiction`."""

    message: Envelope
    sender: str
    agent: str
    session: NotRequired[str]
    token: NotRequired[Token]
    contradiction: NotRequired[str]
    do: NotRequired[str]


class Redacted(TypedDict):
    redacted: Literal[True]
    id: str
    seq: int


class AnswerFound(TypedDict):
    answered: Literal[True]
    id: str
    answer: Message


class NoAnswerFound(TypedDict):
    answered: Literal[False]
    id: str


class Answered(AnswerFound):
    deliveries: list[Delivery]
    notices: list[Notice]


class Unanswered(_No):
    """The ask stands; a late answer arrives in the inbox."""

    answered: Literal[False]
    id: str
    code: Literal["NO_ANSWER"]
    deliveries: list[Delivery]
    notices: list[Notice]


class Found(TypedDict):
    query: str
    messages: list[Message]


class Mail(TypedDict):
    messages: list[Message]


class Chunk(TypedDict):
    upload: str
    number: int


class Dropped(TypedDict):
    dropped: Literal[True]


# --- claims


class Acquired(TypedDict):
    acquired: Literal[True]
    claim: Claim
    notices: NotRequired[list[SharedWorktree]]


class Held(_No):
    """Nobody else holds it where `held_by` is empty: then `queued` asked for it before."""

    acquired: Literal[False]
    code: Literal["CLAIM_HELD"]
    held_by: list[Claim]
    queued: NotRequired[int]


class TakenOver(Acquired):
    taken_from: list[str]


class Claims(TypedDict):
    claims: list[Claim]


class ClaimedPath(TypedDict):
    path: str
    claim: Claim


class _Guarded(TypedDict):
    """Files under others' claims: those that must not be changed, and those of which one is only
    warned."""

    denied: list[ClaimedPath]
    warned: list[ClaimedPath]


class PathsFree(_Guarded):
    allowed: Literal[True]


class PathsClaimed(_Guarded, _No):
    allowed: Literal[False]
    code: Literal["CLAIM_HELD"]


class CommitReported(TypedDict):
    """`crossed` has the files of others that the commit touched."""

    commit: str
    crossed: list[ClaimedPath]


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
    error: NotRequired[str]
    code: NotRequired[Literal["CLAIM_HELD"]]
    message: NotRequired[str]


class Muted(TypedDict):
    address: str
    muted: bool
    until: NotRequired[str]


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


class Checked(TypedDict):
    claimed: bool
    claims: list[Claim]


class Renewed(TypedDict):
    renewed: Literal[True]
    claim: Claim


class Released(TypedDict):
    released: bool


class NotWaiting(TypedDict):
    waiting: Literal[False]


# --- identity


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


class Connections(TypedDict):
    """Clients that people let act for them, where people have signed in, a person's own tokens
    and, for the owner and admins, who has been invited."""

    connections: list[Connection]
    sessions: list[BrowserSession]
    tokens: list[OwnToken]
    invitations: list[Invitation]


class Groups(TypedDict):
    groups: list[Group]


class GroupMade(Group):
    name: str


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
    verdict: Literal[
        "ready", "contradiction", "no agent", "unknown hash", "inactive", "clear-text secret"
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


# --- work

TaskState = Literal["open", "taken", "submitted", "done", "failed", "cancelled"]


class Artifact(TypedDict):
    commit: str
    tree: str


class Need(TypedDict):
    """What is missing before a task is done; `do` is the command that would get on with it."""

    what: Literal["dependency", "submission", "criterion", "gate", "blocker"]
    message: str
    do: str
    task: NotRequired[str]
    state: NotRequired[TaskState]
    criterion: NotRequired[int]
    text: NotRequired[str]
    gate: NotRequired[str]
    holders: NotRequired[list[str]]
    id: NotRequired[str]
    fix: NotRequired[list[str]]


class _Task(TypedDict):
    id: str
    seq: int
    title: str
    state: TaskState
    priority: NotRequired[Priority]
    assignee: NotRequired[str]
    labels: NotRequired[list[str]]
    depends_on: NotRequired[list[str]]
    created_by: str
    created_at: str
    worker: NotRequired[str]
    claim: NotRequired[Claim]
    artifact: NotRequired[Artifact]
    submitted_at: NotRequired[str]
    ended_at: NotRequired[str]


class Task(_Task):
    """A task in a list; `criteria` is how many it has."""

    gates: NotRequired[list[str]]
    criteria: NotRequired[int]


class CriterionShown(TypedDict):
    """`by` is the kind of the evidence that meets it: what was run, or what was said."""

    number: int
    text: str
    met: bool
    evidence: NotRequired[str]
    by: NotRequired[Literal["run", "file", "url", "note"]]
    why: NotRequired[str]


class GateShown(TypedDict):
    gate: str
    state: Literal["pass", "fail", "due", "waits"]
    holders: list[str]
    by: NotRequired[str]
    id: NotRequired[str]


class WholeTask(_Task):
    brief: NotRequired[str]
    criteria: list[CriterionShown]
    gates: list[GateShown]


class TaskNotice(TypedDict):
    code: Literal[
        "UNKNOWN_RECIPIENT", "ASSIGNED_TO_ANOTHER", "GATE_HAS_NO_HOLDER", "SHARED_WORKTREE"
    ]
    message: str
    claim: NotRequired[Claim]


class TaskShown(TypedDict):
    """`story` has the facts about it in the order of the log, each with its position."""

    task: WholeTask
    missing: list[Need]
    story: list[dict[str, Any]]


class TaskMade(TypedDict):
    task: Task
    notices: NotRequired[list[TaskNotice]]


class TaskEnded(TypedDict):
    task: Task


class Tasks(TypedDict):
    tasks: list[Task]
    next: NotRequired[int]


class TaskTaken(TypedDict):
    taken: Literal[True]
    task: Task
    claim: Claim
    notices: NotRequired[list[TaskNotice]]


class TaskHeld(_No):
    taken: Literal[False]
    code: Literal["CLAIM_HELD"]
    held_by: list[Claim]
    queued: NotRequired[int]


class TaskWaits(_No):
    taken: Literal[False]
    code: Literal["GATES_NOT_PASSED"]
    missing: list[Need]


class TaskSubmitted(TypedDict):
    submitted: Literal[True]
    task: Task
    missing: list[Need]


class TaskCompleted(TypedDict):
    completed: Literal[True]
    task: Task


class TaskNotDone(_No):
    completed: Literal[False]
    code: Literal["GATES_NOT_PASSED"]
    missing: list[Need]


class Kept(TypedDict):
    sha256: str
    size: int


class TestCounts(TypedDict, total=False):
    passed: int
    failed: int
    skipped: int
    errors: int


class Evidence(TypedDict):
    """What was run has a command, an exit code and an output; what was said has none of them."""

    id: str
    seq: int
    at: str
    by: str
    kind: Literal["run", "file", "url", "note"]
    task: NotRequired[str]
    criterion: NotRequired[int]
    title: NotRequired[str]
    redacted: NotRequired[Literal[True]]
    command: NotRequired[list[str] | str]
    cwd: NotRequired[str]
    exit_code: NotRequired[int]
    duration_ms: NotRequired[int]
    commit: NotRequired[str]
    tree: NotRequired[str]
    dirty: NotRequired[bool]
    output: NotRequired[Kept]
    interrupted: NotRequired[bool]
    ended_by: NotRequired[str]
    produced: NotRequired[int]
    masked: NotRequired[int]
    tests: NotRequired[TestCounts]
    spooled: NotRequired[bool]
    name: NotRequired[str]
    sha256: NotRequired[str]
    size: NotRequired[int]
    url: NotRequired[str]
    text: NotRequired[str]


class EvidenceWanted(TypedDict):
    """`fence` is the one to present, for whoever works on the task."""

    task: str
    fence: NotRequired[int]


class EvidenceAdded(TypedDict):
    """`counts` says whether it can meet its criterion as things stand, `why` if it cannot."""

    evidence: Evidence
    counts: bool
    why: NotRequired[str]


class Content(TypedDict):
    """What the evidence kept, or a part of it: `text`, or `hex` for other bytes."""

    text: NotRequired[str]
    hex: NotRequired[str]
    size: int
    sha256: str
    part: NotRequired[Literal[True]]
    offset: NotRequired[int]
    next_offset: NotRequired[int]


class EvidenceShown(TypedDict):
    evidence: Evidence
    counts: NotRequired[bool]
    why: NotRequired[str]
    content: NotRequired[Content]


class Gate(TypedDict):
    """`holders` are those it was made with; `can_judge` the senders that can, now."""

    name: str
    holders: list[str]
    can_judge: list[str]
    due: list[str]


class GateMade(TypedDict):
    gate: Gate


class Gates(TypedDict):
    gates: list[Gate]


class Verdict(TypedDict):
    id: str
    seq: int
    at: str
    by: str
    task: str
    gate: str
    verdict: Literal["pass", "fail"]
    artifact: Artifact
    note: NotRequired[str]
    fix: NotRequired[list[str]]
    evidence: NotRequired[list[str]]
    rules: NotRequired[str]


class _Blocker(TypedDict):
    id: str
    seq: int
    at: str
    by: str
    to: str
    task: NotRequired[str]
    gate: NotRequired[str]
    severity: Literal["stop", "warn"]
    what: NotRequired[str]
    fix: NotRequired[list[str]]


class Blocker(_Blocker):
    resolved_by: NotRequired[str]
    resolved_at: NotRequired[str]


class VerdictWanted(TypedDict):
    """`rules` is the digest of the checks by which the gate last judged, if checks ever did."""

    task: str
    gate: str
    artifact: Artifact
    rules: NotRequired[str]


class Judged(TypedDict):
    verdict: Verdict
    task: Task
    missing: list[Need]
    blocker: NotRequired[Blocker]


class GatePassed(TypedDict):
    passed: Literal[True]
    verdict: Verdict


class GateNotPassed(_No):
    passed: Literal[False]
    code: Literal["GATES_NOT_PASSED"]
    verdict: NotRequired[Verdict]


class BlockerRaised(TypedDict):
    blocker: Blocker
    deliveries: list[Delivery]
    notices: list[Notice]


class BlockerResolved(TypedDict):
    blocker: Blocker


class Blockers(TypedDict):
    blockers: list[Blocker]


# --- the workspace


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


class ExpiredMail(_From):
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


class ToResolve(_Blocker):
    do: str


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


# --- events and audit


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


class Log(TypedDict):
    facts: list[Fact]
    next: NotRequired[int]


class Verified(TypedDict):
    ok: Literal[True]
    entries: int
    root: str
    checkpoints: int


class Damaged(_No):
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


# What each act is answered with.
ANSWERS: dict[type, Any] = {
    acts.SendMessage: Sent,
    acts.ListInbox: Inbox,
    acts.ReadMessage: Message,
    acts.AckMessages: Acknowledged,
    acts.ShowReceipts: Receipts,
    acts.ShowThread: Thread,
    acts.AnswerAsk: Sent,
    acts.Explain: Story,
    acts.Redact: Redacted,
    acts.Ask: Answered | Unanswered,
    acts.FindAnswer: AnswerFound | NoAnswerFound,
    acts.Search: Found,
    acts.ListMail: Mail,
    acts.PutChunk: Chunk,
    acts.DropUpload: Dropped,
    acts.AcquireClaim: Acquired | Held,
    acts.ListClaims: Claims,
    acts.CheckClaim: Checked,
    acts.CheckPaths: PathsFree | PathsClaimed,
    acts.ReportCommit: CommitReported,
    acts.RenewClaim: Renewed,
    acts.ReleaseClaim: Released,
    acts.TakeOverClaim: TakenOver,
    acts.StopWaiting: NotWaiting,
    acts.CreateTask: TaskMade,
    acts.ListTasks: Tasks,
    acts.ShowTask: TaskShown,
    acts.TakeTask: TaskTaken | TaskHeld | TaskWaits,
    acts.SubmitTask: TaskSubmitted,
    acts.CompleteTask: TaskCompleted | TaskNotDone,
    acts.FailTask: TaskEnded,
    acts.CancelTask: TaskEnded,
    acts.PrepareEvidence: EvidenceWanted,
    acts.AddEvidence: EvidenceAdded,
    acts.ShowEvidence: EvidenceShown,
    acts.CreateGate: GateMade,
    acts.ListGates: Gates,
    acts.CheckGate: GatePassed | GateNotPassed,
    acts.PrepareVerdict: VerdictWanted,
    acts.GiveVerdict: Judged,
    acts.RaiseBlocker: BlockerRaised,
    acts.ListBlockers: Blockers,
    acts.ResolveBlocker: BlockerResolved,
    acts.Whoami: Whoami,
    acts.ListAgents: Agents,
    acts.Join: Joined,
    acts.Invite: Invited,
    acts.AcceptInvitation: Joined,
    acts.ListConnections: Connections,
    acts.NameConnection: Connection,
    acts.RevokeConnection: Revoked,
    acts.ListGroups: Groups,
    acts.CreateGroup: GroupMade,
    acts.ListTokens: Tokens,
    acts.ShowToken: Token,
    acts.MintToken: Minted,
    acts.RotateToken: Rotated,
    acts.RevokeToken: Revoked,
    acts.ReaffirmTokens: Reaffirmed,
    acts.LabelToken: Token,
    acts.ImportTokens: Imported,
    acts.IdentifyToken: KnownToken | UnknownToken,
    acts.StartSession: SessionStarted,
    acts.Mute: Muted,
    acts.Attend: Attended,
    acts.FindSession: SessionFound,
    acts.KeepSession: Claims,
    acts.EndSession: SessionEnded,
    acts.ShowStatus: Status,
    acts.ShowStorage: Storage,
    acts.Review: Review,
    acts.Examine: Examined,
    acts.ListSettings: Settings,
    acts.ChangeSetting: SettingChanged,
    acts.Pause: Paused,
    acts.Resume: Resumed,
    acts.ListEvents: Events,
    acts.ShowLog: Log,
    acts.VerifyLog: Verified | Damaged,
    acts.SignCheckpoint: Checkpoint,
    acts.Prove: Inclusion | Growth,
    acts.ProveMany: Proofs,
    acts.ExportLog: Exported,
    acts.Backup: BackedUp,
    acts.Restore: Restored,
    acts.Rebuild: Rebuilt,
}
