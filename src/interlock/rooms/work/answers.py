"""Answers about work: tasks, evidence, gates and blockers."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from interlock.rooms.claims.answers import Claim
from interlock.rooms.mail.answers import Delivery, Notice
from interlock.rooms.shared_answers import No, Priority

TaskState = Literal["open", "taken", "submitted", "done", "failed", "cancelled"]


class VerdictDue(TypedDict):
    """A verdict that is due, and the command `do` that gives it."""

    task: str
    gate: str
    commit: str
    worker: str
    since: str
    do: str


class Artifact(TypedDict):
    commit: str
    tree: str


class Need(TypedDict):
    """An open requirement of a task, and a command `do` that works towards it."""

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
    """A task in a list. `criteria` is the number of its criteria."""

    gates: NotRequired[list[str]]
    criteria: NotRequired[int]


class CriterionShown(TypedDict):
    """`by` is the kind of the evidence that meets the criterion. Its sender is `ran_by` for a run,
    and `said_by` for other evidence."""

    number: int
    text: str
    met: bool
    evidence: NotRequired[str]
    by: NotRequired[Literal["run", "file", "url", "note"]]
    ran_by: NotRequired[str]
    said_by: NotRequired[str]
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
    """`story` has the facts about the task in the order of the log, each with its position."""

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


class TaskHeld(No):
    taken: Literal[False]
    code: Literal["CLAIM_HELD"]
    held_by: list[Claim]
    queued: NotRequired[int]


class TaskWaits(No):
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


class TaskNotDone(No):
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
    """A run has a command, an exit code and an output. Other evidence has none of them."""

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
    """For a worker of the task: `fence` is the fence to give, `lease_s` the lease of the claim, and
    `left_s` the rest of the lease."""

    task: str
    fence: NotRequired[int]
    lease_s: NotRequired[int]
    left_s: NotRequired[int]


class EvidenceAdded(TypedDict):
    """`counts` is true if the evidence can meet its criterion now. Otherwise `why` has the
    reason."""

    evidence: Evidence
    counts: bool
    why: NotRequired[str]


class Content(TypedDict):
    """The output or file, or a part of it: as `text`, or as `hex` for other bytes."""

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
    """`holders` are the holders that the gate names. `can_judge` are the senders that can give a
    verdict now."""

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
    """`rules` is the digest of the checks that decided the last automatic verdict of the gate."""

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


class GateNotPassed(No):
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


class ToResolve(_Blocker):
    do: str


class TaskMembers(TypedDict, total=False):
    """Members of events about tasks, evidence, gates and blockers."""

    task: str
    thread: str
    criteria: int
    gates: list[str]
    depends_on: list[str]
    labels: list[str]
    priority: Priority
    assignee: str
    claim: str
    state: TaskState
    status: TaskState
    commit: str
    tree: str
    submission: int
    gate: str
    holders: list[str]
    verdict: Literal["pass", "fail"]
    evidence: list[str]
    rules: str
    criterion: int
    exit_code: int
    dirty: bool
    interrupted: bool
    spooled: bool
