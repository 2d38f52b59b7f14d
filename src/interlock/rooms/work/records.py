"""The rows of tasks, evidence, verdicts and blockers, and their views in answers.

The fields of a row have the order of the columns in `fold`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from interlock.errors import AlreadyDone, NotFound, NotHolder, Remedy, StaleFence, Usage
from interlock.log.times import rfc3339
from interlock.rooms.claims.rules import Claim, Target, in_the_way
from interlock.rooms.mail.records import readable
from interlock.rooms.transaction import RuleAnswer, Transaction
from interlock.rooms.work.verbs import CreateTask, ListTasks, ShowTask, TakeTask
from interlock.verbs.addresses import address, near
from interlock.verbs.answers import without_none

MIN_ID_LENGTH = 6
R = TypeVar("R")
# The open blockers, as a condition on work_blockers: a task that has ended has none.
STANDING = (
    "resolved IS NULL AND (task IS NULL OR task IN (SELECT id FROM work_tasks WHERE ended IS NULL))"
)
ENDED = ("done", "failed", "cancelled")


class Task(NamedTuple):
    """A row of work_tasks."""

    id: str
    seq: int
    state: str
    sender: str
    at: int
    thread: str
    criteria: int
    gates: str
    depends_on: str
    priority: str | None
    assignee: str | None
    labels: str
    worker: str | None
    session: str | None
    fence: int | None
    claim: str | None
    submission: int | None
    commit: str | None
    tree: str | None
    submitted_at: int | None
    ended: int | None
    ended_at: int | None

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @property
    def artifact(self) -> RuleAnswer | None:
        return {"commit": self.commit, "tree": self.tree} if self.commit is not None else None


class Evidence(NamedTuple):
    """A row of work_evidence."""

    id: str
    seq: int
    task: str | None
    criterion: int | None
    kind: str
    sender: str
    at: int
    exit_code: int | None
    commit: str | None
    tree: str | None
    dirty: int | None
    interrupted: int
    spooled: int
    redacted: int

    def stands(self) -> bool:
        """Whether this is a successful run on a clean tree."""
        return self.kind == "run" and self.dirty == 0 and not self.why_not(self.tree)

    def why_not(self, tree: str | None) -> str:
        """Why a run does not count on the submitted tree."""
        if self.redacted:
            return "was redacted"
        if self.interrupted:
            return "was interrupted"
        if self.exit_code != 0:
            return f"exited {self.exit_code}"
        if self.tree is None:
            return "was not made in a repository"
        if self.dirty:
            return "was made on a tree with uncommitted changes"
        return "was made on another tree than the submitted one" if tree != self.tree else ""


class Verdict(NamedTuple):
    """A row of work_verdicts."""

    id: str
    seq: int
    task: str
    gate: str
    sender: str
    at: int
    verdict: str
    submission: int
    commit: str
    tree: str
    evidence: str
    rules: str | None


class Blocker(NamedTuple):
    """A row of work_blockers."""

    id: str
    seq: int
    task: str | None
    gate: str | None
    sender: str
    to: str
    severity: str
    at: int
    resolved: int | None
    resolved_at: int | None
    resolved_by: str | None


def to_take(task: str) -> Remedy:
    return Remedy(f"interlock task take {task}", TakeTask(task))


def to_show(task: str) -> Remedy:
    return Remedy(f"interlock task show {task}", ShowTask(task))


def find_task(tx: Transaction, id: str) -> Task:
    found = tasks(tx, "id = ?", id)
    if not found:
        raise NotFound(
            f"No task has the id {id!r}. List the tasks:",
            Remedy("interlock task list", ListTasks()),
            did_you_mean=near_tasks(tx, id),
        )
    return found[0]


def thread_of(tx: Transaction, id: str) -> str | None:
    """The thread of a task that has not ended."""
    thread = "SELECT thread FROM work_tasks WHERE id = ? AND ended IS NULL"
    found: str | None = tx.value(thread, id)
    return found


def is_thread(tx: Transaction, id: str) -> bool:
    return tx.has("SELECT 1 FROM work_tasks WHERE thread = ?", id)


def near_tasks(tx: Transaction, id: str, where: str = "1") -> list[str] | None:
    """The ids of tasks that are similar to this one. Case does not matter."""
    ids = tx.column(f"SELECT id FROM work_tasks WHERE {where} ORDER BY seq")
    known = {id.lower(): id for id in ids}
    return [known[found.removeprefix("@")] for found in near(id, list(known)) or ()] or None


def near_open(tx: Transaction, id: str) -> list[str] | None:
    """The ids of similar tasks that have not ended."""
    return near_tasks(tx, id, "ended IS NULL")


def open_task(tx: Transaction, id: str) -> Task:
    """A task that has not ended. Raises NotFound or AlreadyDone."""
    task = find_task(tx, id)
    if task.has_ended:
        raise AlreadyDone(
            f"{task.id} is {task.state} since #{task.ended}, and cannot change. Create another "
            "task for the remaining work:",
            Remedy("interlock task create --title TITLE", CreateTask("TITLE")),
            task=task.id,
            state=task.state,
        )
    return task


def tasks(tx: Transaction, where: str = "1", *bindings: Any, limit: int = -1) -> list[Task]:
    """Tasks in the order of their creation."""
    sql = f"SELECT * FROM work_tasks WHERE {where} ORDER BY seq LIMIT {limit}"
    return [Task(*row) for row in tx.all(sql, *bindings)]


def evidence(tx: Transaction, where: str, *bindings: Any) -> list[Evidence]:
    sql = f"SELECT * FROM work_evidence WHERE {where} ORDER BY seq"
    return [Evidence(*row) for row in tx.all(sql, *bindings)]


def find_evidence(tx: Transaction, reference: str) -> Evidence:
    """The evidence behind an id, a unique prefix of it, or #SEQ. Raises NotFound or Usage."""
    return _find(tx, evidence, reference, "evidence")


def find_blocker(tx: Transaction, reference: str) -> Blocker:
    """The blocker behind an id, a unique prefix of it, or #SEQ. Raises NotFound or Usage."""
    return _find(tx, blockers, reference, "blocker")


def _find(tx: Transaction, rows: Callable[..., list[R]], reference: str, what: str) -> R:
    if reference.startswith("#") and reference[1:].isdigit() and len(reference) <= 19:
        found = rows(tx, "seq = ?", int(reference[1:]))
    elif len(reference) < MIN_ID_LENGTH:
        raise Usage(
            f"{reference!r} is too short. Give at least {MIN_ID_LENGTH} characters of the id of "
            f"the {what}, or #SEQ."
        )
    else:
        found = rows(tx, "id >= ? AND id < ?", reference, reference + "\U0010ffff")
    if len(found) > 1:
        raise Usage(f"{len(found)} ids begin with {reference!r}. Give more characters.")
    if not found:
        raise NotFound(
            f"No {what} has the id {reference[:80]!r}. Find the id in its task:",
            to_show("TASK"),
        )
    return found[0]


def verdicts(tx: Transaction, where: str, *bindings: Any) -> list[Verdict]:
    sql = f"SELECT * FROM work_verdicts WHERE {where} ORDER BY seq"
    return [Verdict(*row) for row in tx.all(sql, *bindings)]


def in_force(tx: Transaction, task: Task) -> dict[str, Verdict]:
    """The last verdict of each gate on the current submission."""
    given = verdicts(tx, "task = ? AND submission = ?", task.id, task.submission)
    return {verdict.gate: verdict for verdict in given}


def blockers(tx: Transaction, where: str = "1", *bindings: Any) -> list[Blocker]:
    sql = f"SELECT * FROM work_blockers WHERE {where} ORDER BY seq"
    return [Blocker(*row) for row in tx.all(sql, *bindings)]


def open_blockers(tx: Transaction, task: str) -> list[Blocker]:
    return blockers(tx, "task = ? AND resolved IS NULL", task)


def workers(tx: Transaction, task: str) -> list[str]:
    """The agents that ever took the task. None of them may give a verdict on it."""
    return tx.column("SELECT DISTINCT agent FROM work_takings WHERE task = ? ORDER BY 1", task)


def claim_on(tx: Transaction, task: str) -> Claim | None:
    """The live claim on the task."""
    return next(iter(in_the_way(tx, Target(task, None, ()))), None)


def under_claim(tx: Transaction, task: Task, fence: int | None) -> Claim:
    """The caller's live claim on the task, which each write of a worker needs.

    Raises StaleFence for another fence, and for a caller that took the task and lost it. Raises
    NotHolder for any other caller without the claim."""
    claim = claim_on(tx, task.id)
    caller = tx.caller
    is_own = claim is not None and claim.held_by(caller)
    if claim is not None and is_own and fence in (None, claim.fence):
        if claim.fence == task.fence:
            return claim
        raise NotHolder(
            f"You hold a claim on the item {task.id}, but you have not taken the task. Take it:",
            to_take(task.id),
        )
    took = tx.one(
        "SELECT 1 FROM work_takings WHERE task = ? AND sender = ? AND session IS ?",
        task.id,
        caller.sender,
        caller.session,
    )
    if fence is not None or took:
        to = f" to @{claim.sender}" if claim is not None else ""
        why = f"You hold no claim on {task.id} with the fence {fence}."
        if took and not is_own:
            why = f"You lost your claim on {task.id}{to}."
        raise StaleFence(
            f"{why} Nothing was written. Stop the work on it, or take the task again:",
            to_take(task.id),
            task=task.id,
            fence=fence,
            held_by=[claim.view()] if claim is not None else None,
        )
    if claim is None:
        raise NotHolder(f"You have not taken {task.id}. Take it:", to_take(task.id))
    session = f" in the session {claim.session}" if claim.session is not None else ""
    raise NotHolder(
        f"@{claim.sender} works on {task.id}{session}. Nothing was changed. Do other work, or ask "
        f"@{claim.sender}.",
        held_by=[claim.view()],
    )


# --- views


def body(tx: Transaction, seq: int) -> dict[str, Any]:
    """The body of a fact, or an empty one if it was redacted."""
    stored = tx.store.body(seq)
    return readable(stored, seq) if stored is not None else {}


def task_view(tx: Transaction, task: Task) -> RuleAnswer:
    content = body(tx, task.seq)
    claim = claim_on(tx, task.id) if not task.has_ended else None
    return without_none(
        id=task.id,
        seq=task.seq,
        title=content.get("title", ""),
        state=task.state,
        priority=task.priority,
        assignee=task.assignee,
        labels=task.labels.split() or None,
        gates=task.gates.split() or None,
        depends_on=task.depends_on.split() or None,
        criteria=task.criteria or None,
        created_by=address(task.sender),
        created_at=rfc3339(task.at),
        worker=address(task.worker) if task.worker is not None else None,
        claim=claim.view() if claim is not None else None,
        artifact=task.artifact,
        submitted_at=rfc3339(task.submitted_at) if task.submitted_at is not None else None,
        ended_at=rfc3339(task.ended_at) if task.ended_at is not None else None,
    )


def evidence_view(tx: Transaction, found: Evidence) -> RuleAnswer:
    content = {} if found.redacted else body(tx, found.seq)
    content.pop("task_id", None)
    redacted = {"redacted": True} if found.redacted else {}
    return _head(found) | redacted | (content or {"kind": found.kind})


def _head(found: Evidence | Verdict | Blocker) -> RuleAnswer:
    """The members that evidence, verdicts and blockers share."""
    return without_none(
        id=found.id,
        seq=found.seq,
        at=rfc3339(found.at),
        by=address(found.sender),
        task=found.task,
    )


def verdict_view(tx: Transaction, found: Verdict) -> RuleAnswer:
    content = body(tx, found.seq)
    return _head(found) | without_none(
        gate=found.gate,
        verdict=found.verdict,
        artifact={"commit": found.commit, "tree": found.tree},
        note=content.get("note"),
        fix=content.get("fix"),
        evidence=found.evidence.split() or None,
        rules=found.rules,
    )


def blocker_view(tx: Transaction, found: Blocker) -> RuleAnswer:
    content = body(tx, found.seq).get("payload", {})
    by, at = found.resolved_by, found.resolved_at
    return _head(found) | without_none(
        to=found.to,
        gate=found.gate,
        severity=found.severity,
        what=content.get("what"),
        fix=content.get("fix"),
        resolved_by=address(by) if by is not None else None,
        resolved_at=rfc3339(at) if at is not None else None,
    )
