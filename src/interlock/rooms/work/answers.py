"""Answers about work: tasks, evidence, gates and blockers."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from interlock.rooms.claims.answers import Claim
from interlock.rooms.mail.answers import Delivery, Notice
from interlock.rooms.shared_answers import No, Priority

TaskState = Literal["open", "taken", "submitted", "done", "failed", "cancelled"]


class VerdictDue(TypedDict):
    """A verdict that somebody waits for, and what to type to give it."""

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
    """`by` is the kind of the evidence that meets it: what was run, or what was said; `ran_by` or
    `said_by` is whose it is."""

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
    """For whoever works on the task: `fence` is the one to present, `lease_s` how long the claim
    is granted for, and `left_s` what is left of that."""

    task: str
    fence: NotRequired[int]
    lease_s: NotRequired[int]
    left_s: NotRequired[int]


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
