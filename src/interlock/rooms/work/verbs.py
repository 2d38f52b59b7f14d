"""The verbs of work: tasks, evidence, gates, verdicts and blockers.

A worker takes a task by a claim on it, adds evidence for its criteria, and submits a commit. The
holders of the task's gates pass or fail that commit. The worker completes the task when all its
requirements are met.

`tasks`, `evidence` and `gates` have the longer rules. `missing` lists the open requirements of a
task. `records` reads the tables, and `fold` writes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from interlock.errors import (
    GateHasNoHolder,
    InvalidMessage,
    MissingScope,
    NameTaken,
    Remedy,
    TooLarge,
    Usage,
)
from interlock.rooms.claims import DEFAULT_LEASE_S, LEASE_HELP
from interlock.rooms.mail import DEFAULT_SEVERITY
from interlock.verbs import LazyModule
from interlock.verbs.addresses import address, check_name, near
from interlock.verbs.answers import without_none
from interlock.verbs.types import (
    LINE,
    MESSAGE_REF,
    Annotated,
    Branch,
    Choice,
    ClaimNote,
    Duration,
    Fence,
    Integer,
    Key,
    Limit,
    Line,
    MessageRef,
    Note,
    ObjectId,
    Offset,
    Position,
    Several,
    TaskId,
    Text,
    Worktree,
)
from interlock.verbs.verb import Tool, Verb

if TYPE_CHECKING:
    from interlock.rooms import answers
    from interlock.rooms.identity import names
    from interlock.rooms.transaction import Transaction
    from interlock.rooms.work import evidence, gates, missing, records, tasks
else:
    evidence = LazyModule("interlock.rooms.work.evidence")
    gates = LazyModule("interlock.rooms.work.gates")
    missing = LazyModule("interlock.rooms.work.missing")
    records = LazyModule("interlock.rooms.work.records")
    tasks = LazyModule("interlock.rooms.work.tasks")
    names = LazyModule("interlock.rooms.identity.names")

MAX_TEXT_BYTES = 256 << 10
MAX_CRITERIA = 100
MAX_EVIDENCE = 100
MAX_HOLDERS = 100

# The schema of a message limits these values, so the refusal of others is InvalidMessage.
TaskPriority = Annotated[
    Literal["low", "normal", "high", "critical"],
    Choice("low", "normal", "high", "critical", refusal=InvalidMessage),
]
Verdict = Annotated[Literal["pass", "fail"], Choice("pass", "fail", refusal=InvalidMessage)]
Severity = Annotated[Literal["stop", "warn"], Choice("stop", "warn", refusal=InvalidMessage)]
TaskStateFilter = Literal["live", "open", "taken", "submitted", "done", "failed", "cancelled"]

GateName = Annotated[
    str,
    Text(
        "the name of a gate: a lower-case letter, then lower-case letters, digits and -, "
        "at most 64",
        "NAME",
        "the gate's name",
        pattern=r"[a-z][a-z0-9-]{0,63}",
    ),
]
Gate = Annotated[str, Text("the name of a gate", "GATE", "the gate", max_length=64, line=True)]
Holders = Annotated[
    tuple[str, ...],
    Several(
        Text(
            "the name of a sender",
            "SENDER",
            "a sender that may pass or fail tasks at the gate",
            max_length=254,
            line=True,
        ),
        1,
        MAX_HOLDERS,
    ),
]
Criterion = Annotated[int, Integer(1, MAX_CRITERIA, help="the number of the criterion, from 1")]
AbbreviatedCommit = Annotated[
    str,
    Text(
        "7 or more hexadecimal digits of the id of a commit, from git rev-parse",
        "C",
        "a commit",
        pattern=r"[0-9a-f]{7,64}",
    ),
]
EvidenceRefs = Annotated[tuple[str, ...], Several(MESSAGE_REF, maximum=MAX_EVIDENCE)]

FIX = "a command that fixes the problem"


# A field of plain `str` in CreateTask, GiveVerdict and RaiseBlocker is also a member of a message.
# `checked` compares it with the schema of that message, and refuses it with InvalidMessage.


class CreateTask(
    Verb,
    http="POST /v1/tasks",
    cli="task create --title T [--id ID] [--brief TEXT|-] [--criterion C...] [--gate G...] "
    "[--depends-on ID...] [--priority low|normal|high|critical] [--assignee @NAME] "
    "[--label TEXT...]",
    bind={"--criterion": "criteria"},
    examples=("interlock task create --title 'Sort it' --criterion 'tests pass' --gate athena",),
    method="create_task",
    scope="work",
    help={
        "title": "the line that lists show",
        "id": "the task's id; by default the next of T-1, T-2, …",
        "brief": "the description of the task, as Markdown",
        "criteria": "a criterion that the work must meet",
        "gates": "a gate that must pass the work",
        "depends_on": "a task that must be done first",
        "priority": "how urgent the task is",
        "assignee": "the agent that should do the task; Interlock notifies it",
        "labels": "a label to sort tasks by",
    },
):
    """Create a task."""

    title: Line
    id: str | None = None
    brief: str | None = None
    criteria: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    priority: TaskPriority | None = None
    assignee: str | None = None
    labels: tuple[str, ...] = ()

    def checked(self) -> CreateTask:
        members = self._asdict()
        id = members.pop("id")
        check_contract(
            "task_created", {"task_id": "id"}, task_id="T-1" if id is None else id, **members
        )
        refuse_large("The brief", self.brief or "", "Put the rest into a file.")
        return self

    def decide(self, tx: Transaction) -> answers.TaskMade:
        return tasks.create(tx, self)


class ListTasks(
    Verb,
    name="task list",
    http="GET /v1/tasks",
    method="tasks",
    read_only=True,
    open=True,
    help={
        "state": "only tasks in this state; live means all that have not ended",
        "mine": "only tasks that you work on",
    },
):
    """List tasks, oldest first."""

    state: TaskStateFilter | None = None
    mine: bool = False
    limit: Limit = 100
    after: Position = 0

    def decide(self, tx: Transaction) -> answers.Tasks:
        where = ["seq > ?"]
        bindings: list[Any] = [self.after]
        if self.state == "live":
            where.append(f"state NOT IN {records.ENDED}")
        elif self.state is not None:
            where.append("state = ?")
            bindings.append(self.state)
        if self.mine:
            where.append("worker = ?")
            bindings.append(tx.caller.sender)
        found = records.tasks(tx, " AND ".join(where), *bindings, limit=self.limit + 1)
        shown = [records.task_view(tx, task) for task in found[: self.limit]]
        if len(found) > len(shown):
            return {"tasks": shown, "next": shown[-1]["seq"]}
        return {"tasks": shown}


class ShowTask(
    Verb,
    http="GET /v1/tasks/{id}",
    cli="task show ID",
    method="task",
    read_only=True,
    open=True,
):
    """Show a task, its open requirements and its history."""

    id: TaskId

    def decide(self, tx: Transaction) -> answers.TaskShown:
        return tasks.show_task(tx, self.id)


class TakeTask(
    Verb,
    http="POST /v1/tasks/{id}/take",
    cli="task take ID [--worktree P] [--branch B] [--note N] [--ttl D]",
    method="take",
    scope="work",
    help={"ttl_s": LEASE_HELP},
):
    """Take a task by a claim on it, or extend your own claim.

    Exit 0: you hold the task, and the answer has the fence of your claim. Exit 1: another holder
    has the task, or a task that it depends on is not done."""

    id: TaskId
    branch: Branch | None = None
    worktree: Worktree | None = None
    note: ClaimNote | None = None
    ttl_s: Duration = DEFAULT_LEASE_S

    def decide(self, tx: Transaction) -> answers.TaskTaken | answers.TaskHeld | answers.TaskWaits:
        return tasks.take(tx, self)


class SubmitTask(
    Verb,
    name="task submit",
    http="POST /v1/tasks/{id}/submit",
    method="submit",
    scope="work",
    help={
        "commit": "the commit to submit",
        "tree": "the tree of the commit; by default that of your last clean run at the commit",
    },
):
    """Submit a commit of a task to its gates.

    Verdicts on an earlier submission do not count for the new one."""

    id: TaskId
    commit: ObjectId
    tree: ObjectId | None = None
    fence: Fence | None = None

    def decide(self, tx: Transaction) -> answers.TaskSubmitted:
        return tasks.submit(tx, self)


class CompleteTask(
    Verb,
    http="POST /v1/tasks/{id}/complete",
    cli="task complete ID [--fence N]",
    method="complete",
    scope="work",
):
    """Complete a task, or list its open requirements.

    Exit 1: a dependency, the submission, a criterion, a gate or a blocker is open. The answer has a
    command for each open requirement."""

    id: TaskId
    fence: Fence | None = None

    def decide(self, tx: Transaction) -> answers.TaskCompleted | answers.TaskNotDone:
        task = records.open_task(tx, self.id)
        if records.workers(tx, task.id) or self.fence is not None:
            records.under_claim(tx, task, self.fence)
        if lacking := missing.missing(tx, task):
            answer: Any = {"completed": False}
            return answer | tasks.not_done_yet(f"{task.id} is not done.", lacking)
        return {"completed": True, "task": tasks.end_task(tx, task, "done", None)["task"]}


class FailTask(
    Verb,
    http="POST /v1/tasks/{id}/fail",
    cli="task fail ID [--note N] [--fence N]",
    method="fail",
    scope="work",
    help={"note": "why you give up"},
):
    """Give up a task that you hold.

    The task ends as failed, and Interlock releases your claim on it."""

    id: TaskId
    note: Note | None = None
    fence: Fence | None = None

    def decide(self, tx: Transaction) -> answers.TaskEnded:
        task = records.open_task(tx, self.id)
        records.under_claim(tx, task, self.fence)
        return tasks.end_task(tx, task, "failed", self.note)


class CancelTask(
    Verb,
    http="POST /v1/tasks/{id}/cancel",
    cli="task cancel ID [--note N]",
    method="cancel",
    owner=True,
    help={"note": "why you cancel the task"},
):
    """Cancel a task.

    Only the task's creator, people and admins may cancel a task."""

    id: TaskId
    note: Note | None = None

    def needs_sender(self) -> bool:
        return True

    def decide(self, tx: Transaction) -> answers.TaskEnded:
        task = records.open_task(tx, self.id)
        caller = tx.caller
        is_creator = names.agent_of(tx.state, task.sender) == caller.agent
        if not is_creator and not caller.is_person_or_admin:
            raise MissingScope(
                f"@{task.sender} created {task.id}. Only they, a person, or a token with the scope "
                "admin may cancel it.",
                scope="admin",
            )
        return tasks.end_task(tx, task, "cancelled", self.note)


class PrepareEvidence(
    Verb,
    name="evidence prepare",
    http="GET /v1/tasks/{task}/prepare",
    method="prepare_evidence",
    scope="work",
    read_only=True,
):
    """Check whether evidence for a task would be accepted.

    Call this before a long run. If you work on the task, the answer has the fence to give with the
    evidence."""

    task: TaskId
    criterion: Criterion | None = None
    fence: Fence | None = None

    def decide(self, tx: Transaction) -> answers.EvidenceWanted:
        """Refuse as AddEvidence would."""
        task = records.open_task(tx, self.task)
        claim = evidence.worker_claim(tx, task, self.fence, self.criterion)
        if claim is None:
            return {"task": task.id}
        left_ms = max(0, claim.expires_at - tx.now)
        return {
            "task": task.id,
            "fence": claim.fence,
            "lease_s": claim.ttl // 1000,
            "left_s": left_ms // 1000,
        }


class AddEvidence(
    Verb,
    name="evidence add",
    http="POST /v1/evidence",
    method="add_evidence",
    scope="work",
    help={
        "payload": "the members of a message of the type evidence",
        "upload": "the upload with the bytes of the run or the file",
    },
):
    """Add evidence: a run, a file, a URL or a note.

    Upload the bytes of a run or a file first. A file, a URL or a note meets a criterion only when a
    passing verdict names it. The server masks tokens in the payload."""

    payload: dict[str, Any]
    upload: str | None = None
    fence: Fence | None = None
    key: Key | None = None

    def checked(self) -> AddEvidence:
        # Pydantic takes longer to import than a whole command may run.
        from interlock.rooms.mail.payloads import check

        payload = check("evidence", self.payload, inside="payload.")
        if "criterion" in payload and "task_id" not in payload:
            raise Usage(
                "payload.task_id is missing, and criterion is given. Name the task of the "
                "criterion.",
                member="payload.task_id",
            )
        if "title" in payload:
            LINE.check("payload.title", payload["title"])
        refuse_large("The text", payload.get("text", ""), "Attach a file instead.")
        return self._replace(payload=without_secrets(payload))

    def decide(self, tx: Transaction) -> answers.EvidenceAdded:
        return evidence.add(tx, self)


class ShowEvidence(
    Verb,
    name="evidence show",
    http="GET /v1/evidence/{id}",
    method="evidence",
    read_only=True,
    open=True,
    help={
        "id": "the evidence: its id, a prefix of 6 or more characters, or #SEQ",
        "start": "the first byte to show of the output or the file",
        "stop": "the byte after the last one to show",
    },
):
    """Show evidence, and its output or file.

    Without a range, the answer has the end of the output or file."""

    id: MessageRef
    start: Offset | None = None
    stop: Offset | None = None

    def checked(self) -> ShowEvidence:
        start = self.start or 0
        if self.stop is not None and self.stop <= start:
            raise Usage(
                f"The range from byte {start} to byte {self.stop} is empty. Give a stop above the "
                "start.",
                member="stop",
            )
        return self

    def decide(self, tx: Transaction) -> answers.EvidenceShown:
        return evidence.show(tx, self)


class CreateGate(
    Verb,
    http="POST /v1/gates",
    cli="gate create NAME --holder SENDER... [--replace]",
    examples=("interlock gate create athena --holder vera",),
    method="create_gate",
    scope="admin",
    owner=True,
    help={"replace": "replace the present holders of the gate"},
):
    """Create a gate with its holders, or replace its holders."""

    name: GateName
    holders: Holders
    replace: bool = False

    def decide(self, tx: Transaction) -> answers.GateMade:
        from interlock.rooms.identity.verbs import ListAgents

        name = check_name(self.name, "", "gate")
        wanted = sorted({holder.removeprefix("@") for holder in self.holders})
        for holder in wanted:
            if not names.is_known(tx.state, holder):
                raise GateHasNoHolder(
                    f"@{holder[:80]} is not registered, so it cannot hold the gate {name}. List "
                    "the addresses:",
                    Remedy("interlock agents", ListAgents()),
                    gate=name,
                    did_you_mean=near(holder, names.names(tx.state)),
                )
        before = missing.listed(tx, name)
        if before and before != wanted and not self.replace:
            flags = "".join(f" --holder {holder}" for holder in wanted)
            raise NameTaken(
                f"The gate {name} exists, with the holders {' '.join(map(address, before))}. "
                "Replace them:",
                Remedy(
                    f"interlock gate create {name} --replace{flags}",
                    CreateGate(name, tuple(wanted), replace=True),
                ),
                name=name,
            )
        if before != wanted:
            tx.append("gate_created", {"name": name, "holders": wanted})
        return {"gate": gates.gate_view(tx, name, missing.due(tx))}


class ListGates(
    Verb,
    http="GET /v1/gates",
    cli="gate list",
    method="gates",
    read_only=True,
    open=True,
):
    """List the gates, their holders, and the tasks that wait for a verdict."""

    def decide(self, tx: Transaction) -> answers.Gates:
        waiting = missing.due(tx)
        known = tx.column("SELECT name FROM work_gates ORDER BY name")
        return {"gates": [gates.gate_view(tx, name, waiting) for name in known]}


class PrepareVerdict(
    Verb,
    name="gate prepare",
    http="GET /v1/tasks/{task}/gates/{gate}",
    method="prepare_verdict",
    read_only=True,
    help={"gate": "the gate that you hold"},
):
    """Check whether your verdict would be accepted.

    Call this before you run checks. The answer has the commit and the tree to review."""

    task: TaskId
    gate: Gate

    def decide(self, tx: Transaction) -> answers.VerdictWanted:
        """Refuse as GiveVerdict would."""
        task = gates.task_to_judge(tx, self.task, self.gate)
        rules = tx.value(
            "SELECT rules FROM work_verdicts WHERE gate = ? AND rules IS NOT NULL "
            "ORDER BY seq DESC LIMIT 1",
            self.gate,
        )
        return without_none(task=task.id, gate=self.gate, artifact=task.artifact, rules=rules)


class GiveVerdict(
    Verb,
    name="gate pass or fail",
    http="POST /v1/verdicts",
    mcp=Tool(
        "verdict task_id gate verdict commit [note] [fix] [evidence]",
        "Pass or fail the submitted commit at a gate you hold; never your own work. With a fail, "
        "give a note and the commands that fix the problem.",
        help={
            "task_id": "",
            "gate": "",
            "verdict": "",
            "commit": "the commit you reviewed; refused if another is submitted",
            "note": "",
            "fix": "commands",
            "evidence": "ids you relied on",
        },
        answer="verdict task blocker",
    ),
    bind={"task_id": "task"},
    method="judge",
    help={
        "task": "the submitted task",
        "gate": "the gate that you hold",
        "verdict": "whether the submitted commit passes",
        "commit": "the commit that you reviewed; refused if another is submitted",
        "note": "the reason for the verdict",
        "fix": FIX,
        "evidence": "evidence that you relied on",
        "tree": "the tree that you reviewed; refused if another is submitted",
        "rules": "the SHA-256 of the checks that decided the verdict",
    },
):
    """Pass or fail the submitted commit of a task at a gate.

    A verdict of fail becomes a blocker, and wakes the worker."""

    task: str
    gate: str
    verdict: Verdict
    commit: AbbreviatedCommit | None = None
    note: str | None = None
    fix: tuple[str, ...] = ()
    evidence: EvidenceRefs = ()
    tree: ObjectId | None = None
    rules: str | None = None

    def checked(self) -> GiveVerdict:
        check_contract(
            "gate_verdict",
            {"task_id": "task"},
            task_id=self.task,
            gate=self.gate,
            verdict=self.verdict,
            # A placeholder: `give_verdict` puts the submitted artifact here.
            artifact={"commit": "0" * 40, "tree": "0" * 40},
            note=self.note,
            fix=self.fix,
            rules=self.rules,
        )
        if self.verdict == "pass" and self.fix:
            raise Usage(
                "fix is given with the verdict pass. Give a note instead, or the verdict fail.",
                member="fix",
            )
        return self

    def decide(self, tx: Transaction) -> answers.Judged:
        return gates.give_verdict(tx, self)


class CheckGate(
    Verb,
    name="gate check",
    http="GET /v1/gates/{gate}/commits/{commit}",
    method="check_gate",
    read_only=True,
    open=True,
    help={"tree": "the tree of the commit"},
):
    """Check whether a gate passed a commit.

    The verdict of any task counts. With a tree, only verdicts on that tree count."""

    gate: Gate
    commit: ObjectId
    tree: ObjectId | None = None

    def decide(self, tx: Transaction) -> answers.GatePassed | answers.GateNotPassed:
        return gates.check_gate(tx, self)


class RaiseBlocker(
    Verb,
    http="POST /v1/blockers",
    cli="blocker raise TASK TEXT|- [--fix CMD...] [--severity stop|warn] [--to @NAME]",
    bind={"TEXT": "what"},
    method="raise_blocker",
    scope="work",
    help={
        "what": "the problem",
        "task": "the task",
        "to": "the agent that should know; by default the task's worker or creator",
        "severity": "stop prevents the completion of the task, warn does not",
        "fix": FIX,
    },
):
    """Raise a blocker on a task.

    Without a recipient, Interlock sends the blocker to the task's worker. A worker's own blocker
    goes to the task's creator or to a gate's holder."""

    what: str
    task: str | None = None
    to: str | None = None
    severity: Severity = DEFAULT_SEVERITY
    fix: tuple[str, ...] = ()

    def checked(self) -> RaiseBlocker:
        check_contract(
            "blocker",
            {"task_id": "task"},
            what=self.what,
            severity=self.severity,
            fix=self.fix,
            task_id=self.task,
        )
        if self.task is None and self.to is None:
            raise Usage("Give task or to: the blocked task, or a recipient.", member="task")
        return self

    def decide(self, tx: Transaction) -> answers.BlockerRaised:
        return gates.raise_blocker(tx, self)


class ResolveBlocker(
    Verb,
    http="POST /v1/blockers/{id}/resolve",
    cli="blocker resolve ID [--note N]",
    method="resolve_blocker",
    owner=True,
    help={
        "id": "the blocker: its id, a prefix of 6 or more characters, or #SEQ",
        "note": "how the problem was solved",
    },
):
    """Resolve a blocker.

    The sender that raised it, a holder of its gate, people and admins may resolve a blocker. A
    worker may not resolve another sender's blocker on their own task."""

    id: MessageRef
    note: Note | None = None

    def needs_sender(self) -> bool:
        return True

    def decide(self, tx: Transaction) -> answers.BlockerResolved:
        return gates.resolve_blocker(tx, self)


class ListBlockers(
    Verb,
    http="GET /v1/blockers",
    cli="blocker list [--task T] [--all]",
    method="blockers",
    read_only=True,
    open=True,
    help={"task": "only blockers of this task", "all": "list resolved blockers too"},
):
    """List the open blockers."""

    task: TaskId | None = None
    all: bool = False

    def decide(self, tx: Transaction) -> answers.Blockers:
        which = "1" if self.all else records.STANDING
        if self.task is None:
            found = records.blockers(tx, which)
        else:
            task = records.find_task(tx, self.task)
            found = records.blockers(tx, f"{which} AND task = ?", task.id)
        seen = [blocker for blocker in found if gates.may_see(tx, blocker)]
        return {"blockers": [records.blocker_view(tx, blocker) for blocker in seen]}


def message_payload(**members: Any) -> dict[str, Any]:
    """The given members of a message. Empty lists are not given."""
    given = {name: value for name, value in members.items() if value not in (None, ())}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in given.items()}


def check_contract(type: str, fields: dict[str, str], **members: Any) -> None:
    """Compare a request with the schema of the message that reports it. `fields` has the fields of
    the request that are named otherwise than their member. Raises InvalidMessage."""
    # Pydantic takes longer to import than a whole command may run.
    from interlock.rooms.mail.payloads import check

    check(type, message_payload(**members), fields=fields)


def refuse_large(name: str, text: str, remedy: str) -> None:
    """Raise TooLarge for a text that does not fit into the log."""
    size = len(text.encode())
    if size > MAX_TEXT_BYTES:
        raise TooLarge(
            f"{name} has {size} bytes, and at most {MAX_TEXT_BYTES} are allowed. {remedy}"
        )


def without_secrets(payload: dict[str, Any]) -> dict[str, Any]:
    """Mask the tokens in the texts of a payload, and add their number to `masked`."""
    from interlock.rooms.work.secrets import masked_text, masked_words

    stored = dict(payload)
    count = 0
    for name in ("text", "url", "title", "name", "command"):
        value = stored.get(name)
        if isinstance(value, str):
            stored[name], found = masked_text(value)
            count += found
        elif isinstance(value, list):
            stored[name], found = masked_words(value)
            count += found
    return stored | {"masked": stored.get("masked", 0) + count} if count else stored
