"""Tasks, evidence, verdicts and blockers, read from the tables, and how doors show them."""

from collections.abc import Callable
from typing import Any, NamedTuple

from interlock.errors import AlreadyDone, NotFound, NotHolder, StaleFence, Usage
from interlock.log.times import rfc3339
from interlock.rooms.claims.records import Claim, Target, in_the_way
from interlock.rooms.mail.records import readable
from interlock.rooms.transaction import Caller, RuleAnswer, Transaction
from interlock.verbs.addresses import address, near
from interlock.verbs.answers import without_none

_TASK = (
    "id, seq, state, sender, at, thread, criteria, gates, depends_on, priority, assignee, labels, "
    "worker, session, fence, submission, commit_id, tree, submitted_at, ended, ended_at"
)
_EVIDENCE = (
    "id, seq, task, criterion, kind, sender, at, exit_code, commit_id, tree, dirty, interrupted, "
    "spooled, redacted"
)
_VERDICT = "id, seq, task, gate, sender, at, verdict, submission, commit_id, tree, evidence, rules"
_BLOCKER = (
    "id, seq, task, gate, sender, recipient, severity, at, resolved, resolved_at, resolved_by"
)
LEAST_OF_AN_ID = 6
# A blocker stands in the way of what has not come to its end.
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
        """Whether this is a run that shows something about a tree."""
        clean = self.dirty == 0 and self.tree is not None
        ended_well = self.exit_code == 0 and not self.interrupted
        return self.kind == "run" and ended_well and clean and not self.redacted

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


def find_task(tx: Transaction, id: str) -> Task:
    found = tasks(tx, "id = ?", id)
    if not found:
        known = [row[0] for row in tx.all("SELECT id FROM work_tasks ORDER BY seq DESC")]
        raise NotFound(
            f"There is no task {id!r}. interlock task list shows them.",
            did_you_mean=near_ids(id, known),
        )
    return found[0]


def thread_of(tx: Transaction, id: str) -> str | None:
    """The thread of a task that has not come to its end."""
    row = tx.one("SELECT thread FROM work_tasks WHERE id = ? AND ended IS NULL", id)
    return row[0] if row else None


def is_thread(tx: Transaction, id: str) -> bool:
    return tx.one("SELECT 1 FROM work_tasks WHERE thread = ?", id) is not None


def near_ids(id: str, known: list[str]) -> list[str] | None:
    """Ids that look alike, in capitals or not."""
    small = {other.lower(): other for other in reversed(known)}
    return [small[found.removeprefix("@")] for found in near(id, list(small)) or ()] or None


def near_open(tx: Transaction, id: str) -> list[str] | None:
    """Tasks that have not come to their end, and are called nearly so."""
    rows = tx.all("SELECT id FROM work_tasks WHERE ended IS NULL ORDER BY seq DESC")
    return near_ids(id, [row[0] for row in rows])


def open_task(tx: Transaction, id: str) -> Task:
    """A task that has not come to its end."""
    task = find_task(tx, id)
    if task.has_ended:
        raise AlreadyDone(
            f"{task.id} is {task.state} since #{task.ended}, and stays so. Create another task "
            "for what is left.",
            task=task.id,
            state=task.state,
        )
    return task


def tasks(tx: Transaction, where: str = "1", *bindings: Any, limit: int = -1) -> list[Task]:
    """Tasks in the order in which they were made."""
    order = f"ORDER BY seq LIMIT {limit}"
    rows = tx.all(f"SELECT {_TASK} FROM work_tasks WHERE {where} {order}", *bindings)
    return [Task(*row) for row in rows]


def evidence(tx: Transaction, where: str, *bindings: Any) -> list[Evidence]:
    rows = tx.all(f"SELECT {_EVIDENCE} FROM work_evidence WHERE {where} ORDER BY seq", *bindings)
    return [Evidence(*row) for row in rows]


def find_evidence(tx: Transaction, reference: str) -> Evidence:
    found: Evidence = _named(tx, evidence, reference, "evidence")
    return found


def find_blocker(tx: Transaction, reference: str) -> Blocker:
    found: Blocker = _named(tx, blockers, reference, "blocker")
    return found


def _named(tx: Transaction, rows: Callable[..., list[Any]], reference: str, what: str) -> Any:
    """The row behind an id, a unique prefix of it, or #SEQ."""
    if reference.startswith("#") and reference[1:].isdigit() and len(reference) <= 19:
        found = rows(tx, "seq = ?", int(reference[1:]))
    elif len(reference) < LEAST_OF_AN_ID:
        raise Usage(f"Give at least {LEAST_OF_AN_ID} characters of the {what}'s id, or #SEQ.")
    else:
        found = rows(tx, "id >= ? AND id < ?", reference, reference + "\U0010ffff")
    if len(found) > 1:
        raise Usage(f"{reference!r} begins {len(found)} ids. Give more of it.")
    if not found:
        raise NotFound(f"There is no {what} {reference[:80]!r}. See interlock task show.")
    return found[0]


def verdicts(tx: Transaction, where: str, *bindings: Any) -> list[Verdict]:
    rows = tx.all(f"SELECT {_VERDICT} FROM work_verdicts WHERE {where} ORDER BY seq", *bindings)
    return [Verdict(*row) for row in rows]


def in_force(tx: Transaction, task: Task) -> dict[str, Verdict]:
    """The last verdict of each gate on what is submitted now."""
    given = verdicts(tx, "task = ? AND submission = ?", task.id, task.submission)
    return {verdict.gate: verdict for verdict in given}


def blockers(tx: Transaction, where: str = "1", *bindings: Any) -> list[Blocker]:
    rows = tx.all(f"SELECT {_BLOCKER} FROM work_blockers WHERE {where} ORDER BY seq", *bindings)
    return [Blocker(*row) for row in rows]


def open_blockers(tx: Transaction, task: str) -> list[Blocker]:
    return blockers(tx, "task = ? AND resolved IS NULL", task)


def workers(tx: Transaction, task: str) -> list[str]:
    """The agents who ever took the task; whoever worked on it cannot judge it."""
    rows = tx.all("SELECT DISTINCT agent FROM work_takings WHERE task = ? ORDER BY 1", task)
    return [row[0] for row in rows]


def claim_on(tx: Transaction, task: str) -> Claim | None:
    """The live claim under which the task is worked on."""
    return next(iter(in_the_way(tx, Target(task, None, ()))), None)


def under_claim(tx: Transaction, task: Task, fence: int | None) -> Claim:
    """The caller's live claim on the task, which every write under it must present.

    A caller that had taken the task and lost it meets `StaleFence`, anybody else `NotHolder`."""
    claim = claim_on(tx, task.id)
    caller = tx.caller
    if claim is not None and claim.held_by(caller) and fence in (None, claim.fence):
        if claim.fence == task.fence:
            return claim
        raise NotHolder(
            f"You hold the item {task.id} and have not taken the task: interlock task take "
            f"{task.id}"
        )
    if fence is not None or _took(tx, task, caller):
        raise StaleFence(
            f"Your claim on {task.id} was lost{_to_whom(claim, caller)}, so nothing was written. "
            f"Stop what you do under it; to go on: interlock task take {task.id}",
            task=task.id,
            fence=fence,
            held_by=[claim.view()] if claim is not None else None,
        )
    if claim is None:
        raise NotHolder(f"You have not taken {task.id}: interlock task take {task.id}")
    raise NotHolder(
        f"{task.id} is @{claim.sender}'s work{_session(claim)}, and nothing was changed.",
        held_by=[claim.view()],
    )


def _took(tx: Transaction, task: Task, caller: Caller) -> bool:
    row = tx.one(
        "SELECT 1 FROM work_takings WHERE task = ? AND sender = ? AND session IS ?",
        task.id,
        caller.sender,
        caller.session,
    )
    return row is not None


def _to_whom(claim: Claim | None, caller: Caller) -> str:
    if claim is None or claim.held_by(caller):
        return ""
    return f" to @{claim.sender}"


def _session(claim: Claim) -> str:
    return f" in the session {claim.session}" if claim.session is not None else ""


# --- what people wrote, and how doors show a row


def body(tx: Transaction, seq: int) -> dict[str, Any]:
    """What was said with a fact; nothing where it was redacted."""
    stored = tx.store.body(seq)
    return readable(stored, seq) if stored is not None else {}


def task_view(tx: Transaction, task: Task) -> RuleAnswer:
    """A task in a line: what it is, where it stands, and with whom."""
    said = body(tx, task.seq)
    claim = claim_on(tx, task.id) if not task.has_ended else None
    return without_none(
        id=task.id,
        seq=task.seq,
        title=said.get("title", ""),
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
    """What was run says so by its kind, its exit code and its tree; what was said has none."""
    said = {} if found.redacted else body(tx, found.seq)
    said.pop("task_id", None)
    redacted = {"redacted": True} if found.redacted else {}
    return _head(found) | redacted | (said or {"kind": found.kind})


def _head(found: "Evidence | Verdict | Blocker") -> RuleAnswer:
    """What everything has that somebody added to a task."""
    return without_none(
        id=found.id,
        seq=found.seq,
        at=rfc3339(found.at),
        by=address(found.sender),
        task=found.task,
    )


def verdict_view(tx: Transaction, found: Verdict) -> RuleAnswer:
    said = body(tx, found.seq)
    return _head(found) | without_none(
        gate=found.gate,
        verdict=found.verdict,
        artifact={"commit": found.commit, "tree": found.tree},
        note=said.get("note"),
        fix=said.get("fix"),
        evidence=found.evidence.split() or None,
        rules=found.rules,
    )


def blocker_view(tx: Transaction, found: Blocker) -> RuleAnswer:
    said = body(tx, found.seq).get("payload", {})
    by, at = found.resolved_by, found.resolved_at
    return _head(found) | without_none(
        to=found.to,
        gate=found.gate,
        severity=found.severity,
        what=said.get("what"),
        fix=said.get("fix"),
        resolved_by=address(by) if by is not None else None,
        resolved_at=rfc3339(at) if at is not None else None,
    )
