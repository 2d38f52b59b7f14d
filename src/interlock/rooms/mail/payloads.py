"""The contract of every message type: one model each, and the check of payloads.

The check accepts a payload unchanged or refuses it. It does not coerce, strip, fill in or ignore a
member, and an optional member is absent instead of null. The long texts have no maximum, because a
setting of the workspace limits the whole body.

JSON Schema can express every constraint of these types, so a reader of the published schemas
refuses the same payloads.
"""

from collections.abc import Callable, Mapping
from threading import Lock
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    Tag,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError

from interlock.errors import InvalidMessage, Remedy
from interlock.rooms.mail.message_types import (
    ADDRESS,
    DIGEST,
    HTTP_URL,
    LABEL,
    NAME,
    OBJECT_ID,
    SHAPES,
    TASK_ID,
    TIME,
    TYPES,
    UUID,
    clip,
    unknown,
)
from interlock.verbs.wording import renamed

# --- the types of members

T = TypeVar("T")


class _NeverNull:
    """Allows a member to be absent, which is its default of None, and refuses null."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        schema = handler(source)
        assert schema["type"] == "nullable"
        inner: CoreSchema = schema["schema"]
        return inner


def _unique(entries: list[str]) -> list[str]:
    if len(set(entries)) != len(entries):
        raise PydanticCustomError("repeated", "must not repeat an entry")
    return entries


Maybe = Annotated[T | None, _NeverNull()]
Unique = Annotated[list[T], AfterValidator(_unique), Field(json_schema_extra={"uniqueItems": True})]

Address = Annotated[str, Field(pattern=ADDRESS, description=SHAPES[ADDRESS])]
Digest = Annotated[str, Field(pattern=DIGEST, description=SHAPES[DIGEST])]
Label = Annotated[str, Field(pattern=LABEL, description=SHAPES[LABEL])]
MessageId = Annotated[str, Field(pattern=UUID, description=SHAPES[UUID])]
Name = Annotated[str, Field(pattern=NAME, description=SHAPES[NAME])]
ObjectId = Annotated[str, Field(pattern=OBJECT_ID, description=SHAPES[OBJECT_ID])]
TaskId = Annotated[str, Field(pattern=TASK_ID, description=SHAPES[TASK_ID])]
Time = Annotated[str, Field(pattern=TIME, description=SHAPES[TIME])]
Url = Annotated[str, Field(pattern=HTTP_URL, max_length=2048, description=SHAPES[HTTP_URL])]

Text = Annotated[str, Field(min_length=1)]
Line = Annotated[str, Field(min_length=1, max_length=280)]
Remark = Annotated[str, Field(min_length=1, max_length=2000)]
VerdictNote = Annotated[str, Field(min_length=1, max_length=10_000)]
Path = Annotated[str, Field(min_length=1, max_length=4096)]
ShellCommand = Annotated[str, Field(min_length=1, max_length=4096)]
Argument = Annotated[str, Field(max_length=131_072)]  # Linux passes no longer argument to a process

# JSON Schema treats 1.0 as 1, and advises against writing 1.0. The check refuses 1.0.
WHOLE: Final = "a whole number, written without fraction or exponent"
LARGEST: Final = 2**63 - 1
Count = Annotated[int, Field(ge=0, le=LARGEST, description=WHOLE)]
Fence = Annotated[int, Field(ge=1, le=LARGEST, description=WHOLE)]
Pid = Annotated[int, Field(ge=1, le=2**32 - 1, description=WHOLE)]
ExitCode = Annotated[int, Field(ge=-(2**31), le=2**32 - 1, description=WHOLE)]
Seconds = Annotated[int, Field(ge=1, le=86_400, description=WHOLE)]
Criterion = Annotated[int, Field(ge=1, le=100, description=WHOLE)]

Criteria = Annotated[list[Remark], Field(max_length=100)]
Fixes = Annotated[list[ShellCommand], Field(max_length=20)]
EvidenceIds = Annotated[Unique[MessageId], Field(max_length=100)]
Gates = Annotated[Unique[Name], Field(max_length=20)]
Labels = Annotated[Unique[Label], Field(max_length=20)]
Options = Annotated[Unique[Line], Field(max_length=20)]
TaskIds = Annotated[Unique[TaskId], Field(max_length=100)]


def _argv_or_line(value: object) -> str | None:
    if isinstance(value, list):
        return "argv"
    return "line" if isinstance(value, str) else None


RunCommand = Annotated[
    Annotated[list[Argument], Field(min_length=1, max_length=4096), Tag("argv")]
    | Annotated[Text, Tag("line")],
    Discriminator(_argv_or_line),
]


# --- the models


class Payload(BaseModel):
    """The configuration that all models share."""

    # A command needs one validator, and building all of them takes far longer.
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


class Send(Payload):
    """Plain mail: a text for its recipients."""

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
    """An agent announces itself, with its client, its model and its machine."""

    text: Maybe[Text] = None
    client: Maybe[Line] = None
    model: Maybe[Line] = None
    cwd: Maybe[Path] = None
    host: Maybe[Line] = None
    pid: Maybe[Pid] = None


class Wake(Payload):
    """A request for the recipient's attention now. `about` is the message that it concerns."""

    text: Text
    about: Maybe[MessageId] = None


class Command(Payload):
    """A command that the sender asks the recipient to run, and why. Interlock shows it whole or not
    at all."""

    command: Text
    why: Remark
    cwd: Maybe[Path] = None
    expects: Maybe[Remark] = None


class Blocker(Payload):
    """A problem that blocks work, with the commands that would fix it."""

    what: Text
    severity: Literal["stop", "warn"]
    fix: Maybe[Fixes] = None
    task_id: Maybe[TaskId] = None


class Artifact(Payload):
    """The submitted work: a commit and its tree."""

    commit: ObjectId
    tree: ObjectId


class Output(Payload):
    """The stored output of a run: the SHA-256 and the size in bytes of its blob."""

    sha256: Digest
    size: Count


class Proof(Payload):
    """The members of every kind of evidence: the task and the criterion that it is for, a title,
    and how many secrets Interlock masked in the stored content."""

    task_id: Maybe[TaskId] = None
    criterion: Maybe[Criterion] = None
    title: Maybe[Line] = None
    masked: Maybe[Count] = None


class Tests(Payload):
    """The counts that a test runner printed, taken from its output for display."""

    passed: Maybe[Count] = None
    failed: Maybe[Count] = None
    skipped: Maybe[Count] = None
    errors: Maybe[Count] = None


class RunEvidence(Proof):
    """A command that Interlock ran, and its result. `produced` is the number of bytes that the
    command wrote, if `output` is only a part of them. `spooled` says that the run was recorded
    offline, in a file, before it was sent."""

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
    """An attached file. Its bytes are the blob with this SHA-256."""

    kind: Literal["file"]
    name: Path
    sha256: Digest
    size: Count


class UrlEvidence(Proof):
    """A link to a web page."""

    kind: Literal["url"]
    url: Url


class NoteEvidence(Proof):
    """A statement as text, without further proof."""

    kind: Literal["note"]
    text: Text


def _kind(payload: object) -> str | None:
    # Pydantic's own discriminator would print the value of `kind`, however large or deep it is.
    kind = payload.get("kind") if isinstance(payload, dict) else getattr(payload, "kind", None)
    return kind if isinstance(kind, str) and kind in KINDS else None


Evidence = Annotated[
    Annotated[RunEvidence, Tag("run")]
    | Annotated[FileEvidence, Tag("file")]
    | Annotated[UrlEvidence, Tag("url")]
    | Annotated[NoteEvidence, Tag("note")],
    Discriminator(_kind),
    Field(description="Evidence for a task: a recorded run, a file, a URL or a note."),
]


class GateVerdict(Payload):
    """The verdict of a gate's holder on one submitted artifact. `rules` is the SHA-256 of the
    checks, if automatic checks decided the verdict."""

    task_id: TaskId
    gate: Name
    verdict: Literal["pass", "fail"]
    artifact: Artifact
    evidence: Maybe[EvidenceIds] = None
    note: Maybe[VerdictNote] = None
    fix: Maybe[Fixes] = None
    rules: Maybe[Digest] = None


class TaskCreated(Payload):
    """A new task, with the criteria and the gates that it must meet."""

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
    """A worker took a task, under a claim with this fence and this expiry time."""

    task_id: TaskId
    fence: Fence
    expires_at: Time


class TaskCompleted(Payload):
    """A task ended."""

    task_id: TaskId
    status: Literal["done", "failed", "cancelled"]
    artifact: Maybe[Artifact] = None
    evidence: Maybe[EvidenceIds] = None


class AgentJoined(Payload):
    """An agent or a person joined the workspace."""

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

# --- the check, and the problems that it finds

_validators: dict[str, Callable[[object], object]] = {}
_building = Lock()


def check(
    type: str, payload: object, *, inside: str = "", fields: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the payload itself if it fits the contract of its type.

    The message of a refusal begins with the name that the request has for the wrong member: the one
    in `fields`, or else the member's own name after `inside`, such as `payload.`.

    Raises UnknownType, or InvalidMessage with the first twenty problems in `problems`. No payload
    makes it raise another error."""
    if type not in TYPES:
        raise unknown(type)
    if not isinstance(payload, dict):
        problem = f"must be an object, not {_given(payload)}"
        raise _refusal(type, [("payload", problem)], 1)
    if type not in _validators:
        # Pydantic does not promise that two threads can complete one deferred model at once.
        with _building:
            if type not in _validators:
                _validators[type] = TypeAdapter(MODELS[type]).validator.validate_python
    try:
        _validators[type](payload)
    except ValidationError as found:
        of, model = type, MODELS[type]
        if type == "evidence":
            kind = _kind(payload)
            of, model = f"evidence of kind {kind}", KINDS[kind] if kind else Proof
        problems = _problems(type, of, list(model.model_fields), found)
        refusal = _refusal(type, problems, found.error_count())
        wrong = refusal.members["member"]
        raise renamed(refusal, {wrong: (fields or {}).get(wrong, inside + wrong)}) from None
    return payload


# A refusal repeats only short values, because an agent pays for every word that it reads, and a
# payload may be large or deep.
MAX_PROBLEMS: Final = 20
MAX_SHOWN_PROBLEMS: Final = 3

_WANTED: Final = {
    "string_type": "a string",
    "int_type": "a whole number, written without quotes, fraction or exponent",
    "bool_type": "true or false",
    "list_type": "a list",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "union_tag_not_found": "a string or a list of strings",
}


def _problems(
    type: str, of: str, members: list[str], found: ValidationError
) -> list[tuple[str, str]]:
    """The first problems found, each with its place. `members` are the members of `of`, which is
    the type or a kind of it."""
    problems = []
    for error in found.errors(include_url=False)[:MAX_PROBLEMS]:
        loc = error["loc"]
        if type == "evidence":
            # Pydantic also names the branch of a union, which is no member.
            loc = loc[1:]
            if loc[:1] == ("command",) and loc[1:2] in (("argv",), ("line",)):
                loc = loc[:1] + loc[2:]
        steps = (f"[{part}]" if isinstance(part, int) else f".{clip(str(part))}" for part in loc)
        where, problem = "".join(steps).removeprefix("."), _problem(error)
        if error["type"] == "extra_forbidden" and len(loc) == 1:
            problem = f"is not a member of {of}, which has {', '.join(members)}"
        if not loc:
            where, problem = "kind", "must be 'run', 'file', 'url' or 'note'"
        problems.append((where, problem))
    return problems


def _refusal(type: str, problems: list[tuple[str, str]], count: int) -> InvalidMessage:
    shown = "; ".join(f"{member} {problem}" for member, problem in problems[:MAX_SHOWN_PROBLEMS])
    others = f" (and {count - MAX_SHOWN_PROBLEMS} more)" if count > MAX_SHOWN_PROBLEMS else ""
    where = problems[0][0]
    return InvalidMessage(
        f"{shown}{others}.",
        Remedy(f"To see the schema: interlock schema {type}", http="", mcp=""),
        member=where.partition("[")[0].partition(".")[0],
        type=type,
        problems=[{"member": member, "problem": problem} for member, problem in problems],
    )


def _problem(error: ErrorDetails) -> str:
    kind, given, limits = error["type"], error["input"], error.get("ctx", {})
    if kind in _WANTED:
        hint = "; leave out an optional member instead" if given is None else ""
        return f"must be {_WANTED[kind]}, not {_given(given)}{hint}"
    had = f"; it had {len(given)}" if isinstance(given, str | list) else ""
    match kind:
        case "string_pattern_mismatch":
            return f"must be {SHAPES[limits['pattern']]}; it was {_given(given)}"
        case "literal_error":
            return f"must be {limits['expected']}, not {_given(given)}"
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return "is not a known member"
        case "invalid_key":
            return "is not a member: names are strings"
        case "repeated":
            return "must not contain the same entry twice"
        case "string_too_short" | "too_short":
            return "must not be empty"
        case "string_too_long":
            return f"must have at most {limits['max_length']} characters{had}"
        case "too_long":
            return f"must have at most {limits['max_length']} entries{had}"
        case "greater_than_equal":
            return f"must be at least {limits['ge']}"
        case "less_than_equal":
            return f"must be at most {limits['le']}"
        case "string_unicode":
            return "has characters that are not valid Unicode text"
    return "does not fit the contract"


def _given(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | float():
            return f"{value}" if abs(value) < 10**15 else "a number"
        case "":
            return "an empty string"
        case str():
            short = len(value) <= 32 and value.isprintable()
            return f"'{value}'" if short else f"a string of {len(value)} characters"
        case list():
            return "a list"
        case dict():
            return "an object"
    return type(value).__name__
