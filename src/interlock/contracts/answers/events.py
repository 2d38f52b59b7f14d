"""What happened, as those see it whom it concerns."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from interlock.contracts.answers.mail import Envelope
from interlock.contracts.answers.parts import Priority, State
from interlock.contracts.answers.work import TaskState


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
