"""The contract of every message type: one model each, and the check that nothing gets past.

A payload is taken as it is or refused: no member is coerced, stripped, filled in or ignored,
and an optional member is absent rather than null. How large a whole body may be is a setting of
the workspace and not known here, so the long texts have no maximum.
"""

from collections.abc import Callable
from threading import Lock
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter, ValidationError

from interlock.rooms.mail.message_types import TYPES, unknown
from interlock.rooms.mail.problems import explain, not_an_object
from interlock.rooms.mail.shapes import (
    Address,
    Count,
    Criteria,
    Criterion,
    Digest,
    EvidenceIds,
    ExitCode,
    Fence,
    Fixes,
    Gates,
    Labels,
    Line,
    Maybe,
    MessageId,
    Name,
    Note,
    ObjectId,
    Options,
    Path,
    Pid,
    Remark,
    RunCommand,
    Seconds,
    TaskId,
    TaskIds,
    Text,
    Time,
    Url,
)


class Payload(BaseModel):
    """What every contract has in common."""

    # Building all the validators takes far longer than the one that a command needs.
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


class Send(Payload):
    """Plain mail: a text for whoever it is addressed to."""

    text: Text
    content_type: Maybe[Literal["text/plain", "text/markdown"]] = None


class Ask(Payload):
    """A question that waits for an answer."""

    question: Text
    options: Maybe[Options] = None
    timeout_s: Maybe[Seconds] = None


class Answer(Payload):
    """The answer to an ask."""

    text: Text
    ask: MessageId


class Announce(Payload):
    """An agent says that it is here, and with what it works."""

    text: Maybe[Text] = None
    client: Maybe[Line] = None
    model: Maybe[Line] = None
    cwd: Maybe[Path] = None
    host: Maybe[Line] = None
    pid: Maybe[Pid] = None


class Wake(Payload):
    """A request to look, now."""

    text: Text
    about: Maybe[MessageId] = None


class Command(Payload):
    """A command that the recipient is asked to run, and why. It is shown whole or not at all."""

    command: Text
    why: Remark
    cwd: Maybe[Path] = None
    expects: Maybe[Remark] = None


class Blocker(Payload):
    """Something stands in the way, with the commands that would put it right."""

    what: Text
    severity: Literal["stop", "warn"]
    fix: Maybe[Fixes] = None
    task_id: Maybe[TaskId] = None


class Artifact(Payload):
    """What was submitted: a commit and the tree it holds."""

    commit: ObjectId
    tree: ObjectId


class Output(Payload):
    """What a run wrote, kept whole as a blob of this digest and size in bytes."""

    sha256: Digest
    size: Count


class Proof(Payload):
    """What every kind of evidence may say: what it is evidence for, and how many secrets were
    masked in what is stored."""

    task_id: Maybe[TaskId] = None
    criterion: Maybe[Criterion] = None
    title: Maybe[Line] = None
    masked: Maybe[Count] = None


class Tests(Payload):
    """What a test runner said of itself, picked out of its output for display."""

    passed: Maybe[Count] = None
    failed: Maybe[Count] = None
    skipped: Maybe[Count] = None
    errors: Maybe[Count] = None


class RunEvidence(Proof):
    """A command was run by Interlock, and this came of it. `produced` is how much it wrote, where
    the output is not all of that; `spooled` says that it came by way of a file."""

    kind: Literal["run"]
    command: RunCommand
    cwd: Path
    exit_code: ExitCode
    duration_ms: Count
    commit: Maybe[ObjectId] = None
    tree: Maybe[ObjectId] = None
    dirty: Maybe[bool] = None
    output: Output
    interrupted: Maybe[bool] = None
    ended_by: Maybe[Literal["time limit", "signal"]] = None
    produced: Maybe[Count] = None
    tests: Maybe[Tests] = None
    spooled: Maybe[bool] = None


class FileEvidence(Proof):
    """A file was attached; its bytes are the blob of this digest."""

    kind: Literal["file"]
    name: Path
    sha256: Digest
    size: Count


class UrlEvidence(Proof):
    """A page was pointed at."""

    kind: Literal["url"]
    url: Url


class NoteEvidence(Proof):
    """Somebody said so."""

    kind: Literal["note"]
    text: Text


def _kind(payload: object) -> str | None:
    # Pydantic's own discriminator would render whatever stands in `kind`, however large or deep.
    kind = payload.get("kind") if isinstance(payload, dict) else getattr(payload, "kind", None)
    return kind if isinstance(kind, str) and kind in KINDS else None


Evidence = Annotated[
    Annotated[RunEvidence, Tag("run")]
    | Annotated[FileEvidence, Tag("file")]
    | Annotated[UrlEvidence, Tag("url")]
    | Annotated[NoteEvidence, Tag("note")],
    Discriminator(_kind),
    Field(description="Proof of something, best made by running it."),
]


class GateVerdict(Payload):
    """The holder of a gate has judged one submitted artifact; `rules` is the digest of the checks
    that decided it, where checks did."""

    task_id: TaskId
    gate: Name
    verdict: Literal["pass", "fail"]
    artifact: Artifact
    evidence: Maybe[EvidenceIds] = None
    note: Maybe[Note] = None
    fix: Maybe[Fixes] = None
    rules: Maybe[Digest] = None


class TaskCreated(Payload):
    """There is new work, with what it must meet to be done."""

    task_id: TaskId
    title: Line
    brief: Maybe[Text] = None
    criteria: Maybe[Criteria] = None
    gates: Maybe[Gates] = None
    priority: Maybe[Literal["low", "normal", "high", "critical"]] = None
    assignee: Maybe[Address] = None
    labels: Maybe[Labels] = None
    depends_on: Maybe[TaskIds] = None


class TaskClaimed(Payload):
    """A task was taken, under a claim with this fence, until then."""

    task_id: TaskId
    fence: Fence
    expires_at: Time


class TaskCompleted(Payload):
    """A task has come to its end."""

    task_id: TaskId
    status: Literal["done", "failed", "cancelled"]
    artifact: Maybe[Artifact] = None
    evidence: Maybe[EvidenceIds] = None


class AgentJoined(Payload):
    """An agent, or a person, was registered in the workspace."""

    agent: Name
    surface: Maybe[Name] = None
    kind: Literal["agent", "human", "system"]
    client: Maybe[Line] = None


KINDS: Final[dict[str, type[Proof]]] = {
    "run": RunEvidence,
    "file": FileEvidence,
    "url": UrlEvidence,
    "note": NoteEvidence,
}

MODELS: Final[dict[str, Any]] = {
    "send": Send,
    "ask": Ask,
    "answer": Answer,
    "announce": Announce,
    "wake": Wake,
    "command": Command,
    "blocker": Blocker,
    "evidence": Evidence,
    "gate_verdict": GateVerdict,
    "task_created": TaskCreated,
    "task_claimed": TaskClaimed,
    "task_completed": TaskCompleted,
    "agent_joined": AgentJoined,
}

_validators: dict[str, Callable[[object], object]] = {}
_building = Lock()


def check(type: str, payload: object) -> dict[str, Any]:
    """The payload itself, once it is known to fit the contract of its type.

    Since nothing is coerced and nothing is filled in, the very object that came in is handed
    back: what is stored is what was sent. Raises UnknownType, or InvalidMessage with the
    problems found (the first twenty) in `problems`; whatever the payload is, nothing else.
    """
    if type not in TYPES:
        raise unknown(type)
    if not isinstance(payload, dict):
        raise not_an_object(type, payload)
    try:
        (_validators.get(type) or _build(type))(payload)
    except ValidationError as found:
        raise explain(type, *_expected(type, payload), found) from None
    return payload


def _build(type: str) -> Callable[[object], object]:
    # Two threads completing one deferred model at once are not promised to get on.
    with _building:
        if type not in _validators:
            _validators[type] = TypeAdapter(MODELS[type]).validator.validate_python
        return _validators[type]


def _expected(type: str, payload: dict[str, Any]) -> tuple[str, list[str]]:
    if type != "evidence":
        return type, list(MODELS[type].model_fields)
    kind = _kind(payload)
    return f"evidence of kind {kind}", list(KINDS[kind].model_fields) if kind else []
