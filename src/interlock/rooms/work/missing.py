"""The requirements of a task: which are open, who can meet them, and the command for each."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from interlock.errors import Remedy
from interlock.log.times import rfc3339
from interlock.rooms.identity.names import agent_of
from interlock.rooms.transaction import Caller, RuleAnswer, Transaction
from interlock.rooms.work.records import (
    Blocker,
    Evidence,
    Task,
    body,
    claim_on,
    evidence,
    in_force,
    open_blockers,
    tasks,
    to_show,
    to_take,
    workers,
)
from interlock.rooms.work.verbs import (
    CancelTask,
    CreateGate,
    GiveVerdict,
    ResolveBlocker,
    SubmitTask,
)
from interlock.verbs.addresses import address
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.rooms import answers

# A longer text is not repeated in a command or a message.
MAX_REPEATED_LENGTH = 200


class Criterion(NamedTuple):
    """A criterion of a task: the evidence that meets it, or why none does. A passing verdict could
    name the evidence `to_name`."""

    number: int
    text: str
    runs: list[Evidence]
    met_by: Evidence | None
    why: str
    to_name: str | None

    def view(self) -> RuleAnswer:
        met = self.met_by
        shown: RuleAnswer = {"number": self.number, "text": self.text, "met": met is not None}
        if met is None:
            return shown | {"why": self.why}
        whose = "ran_by" if met.kind == "run" else "said_by"
        return shown | {"evidence": met.id, "by": met.kind, whose: address(met.sender)}


def criteria(tx: Transaction, task: Task) -> list[Criterion]:
    """The criteria of a task. The last run of a criterion meets it, if the run succeeded on the
    submitted tree. Other evidence meets it, if a passing verdict names the evidence."""
    texts: list[str] = body(tx, task.seq).get("criteria", [])
    tree = task.tree if task.state in ("submitted", "done") else None
    all_evidence = evidence(tx, "task = ? AND criterion IS NOT NULL", task.id)
    # Evidence that a passing verdict names, and the position of that verdict.
    named = {
        id: verdict.seq
        for verdict in sorted(in_force(tx, task).values(), key=lambda verdict: verdict.seq)
        if verdict.verdict == "pass"
        for id in verdict.evidence.split()
    }
    found = []
    for number in range(1, task.criteria + 1):
        pieces = [piece for piece in all_evidence if piece.criterion == number]
        runs = [piece for piece in pieces if piece.kind == "run"]
        others = [piece for piece in pieces if piece.kind != "run" and not piece.redacted]
        last = runs[-1] if runs else None
        met = last if last is not None and last.stands() and last.tree == tree else None
        if met is None:
            # A verdict does not cover a run that was recorded after it.
            after = last.seq if last is not None else 0
            accepted = (piece for piece in reversed(others) if named.get(piece.id, 0) > after)
            met = next(accepted, None)
        if last is not None and last.stands() and tree is None:
            why = "Its last run succeeded, but no commit is submitted yet."
        elif last is not None:
            why = f"Its last run {last.why_not(tree)}."
        elif pieces:
            why = "Its file, URL or note counts when a passing verdict names it."
        else:
            why = "It has no evidence."
        text = texts[number - 1] if number <= len(texts) else "(redacted)"
        to_name = pieces[-1].id if met is None and pieces and pieces[-1] in others else None
        found.append(Criterion(number, text, runs, met, why, to_name))
    return found


# --- the holders of gates


def listed(tx: Transaction, gate: str) -> list[str]:
    """The senders and agents that the gate names as its holders."""
    return (tx.value("SELECT holders FROM work_gates WHERE name = ?", gate) or "").split()


def holders(tx: Transaction, gate: str) -> list[str]:
    """The senders with a live token that may give a verdict at the gate."""
    named = listed(tx, gate)
    rows = tx.all(
        "SELECT t.sender, iif(t.resource IS NULL, s.agent, t.sender), t.scopes "
        "FROM identity_tokens t JOIN identity_senders s USING (sender) WHERE "
        "t.revoked_at IS NULL AND NOT t.suspended AND (t.expires_at IS NULL OR t.expires_at > ?) "
        "ORDER BY t.sender",
        tx.now,
    )
    able = [row[0] for row in rows if _holds(gate, named, row[0], row[1], row[2].split())]
    return list(dict.fromkeys(able))


def _holds(gate: str, named: list[str], sender: str, agent: str, scopes: Collection[str]) -> bool:
    is_named = sender in named or agent in named
    return f"gate:{gate}" in scopes or (is_named and "work" in scopes)


def may_judge(tx: Transaction, caller: Caller, gate: str) -> bool:
    """Whether the caller holds the gate. A client that acts for a person does not hold that
    person's gates. It holds a gate only if the gate names the client's own sender."""
    agent = caller.agent if caller.resource is None else caller.sender
    return _holds(gate, listed(tx, gate), caller.sender, agent, caller.scopes)


def judges(tx: Transaction, gate: str, own: Collection[str | None]) -> list[str]:
    """The holders of a gate that are senders of other agents than these workers."""
    return [sender for sender in holders(tx, gate) if agent_of(tx.state, sender) not in own]


def to_add_holder(tx: Transaction, gate: str) -> Remedy:
    """Add a holder to a gate, or create the gate."""
    present = listed(tx, gate)
    named = (*present, "SENDER")
    replace = " --replace" if present else ""
    flags = "".join(f" --holder {holder}" for holder in named)
    return Remedy(
        f"interlock gate create {gate}{replace}{flags}",
        CreateGate(gate, named, replace=bool(present)),
    )


def to_submit(task: str) -> Remedy:
    """Submit a task. The command takes the commit of the repository that the worker is in."""
    return Remedy(f"interlock task submit {task}", SubmitTask(task, "COMMIT"))


# --- open requirements


def missing(tx: Transaction, task: Task) -> list[answers.Need]:
    """The open requirements of a task. Empty for a task that may be completed."""
    needs = open_dependencies(tx, task)
    submitting: str = to_submit(task.id)
    if task.state != "submitted":
        claim = claim_on(tx, task.id)
        if needs:
            why, submitting = f"No worker can take {task.id} yet.", needs[0]["do"]
        elif claim is None or claim.fence != task.fence:
            why = f"No worker has taken {task.id}."
            submitting = to_take(task.id)
        elif task.submission is not None:
            why = "A gate failed the submission. Fix the work, and submit it again."
        else:
            why = "The worker has not submitted a commit."
        needs.append({"what": "submission", "message": why, "do": submitting})

    gates = task.gates.split()
    for criterion in criteria(tx, task):
        if criterion.met_by is not None:
            continue
        number = criterion.number
        if gates and criterion.to_name is not None:
            do: str = to_pass(tx, task, gates[0])
        elif task.submission is None and criterion.runs and criterion.runs[-1].stands():
            do = submitting
        else:
            runs = [run for run in criterion.runs if not run.redacted]
            command = body(tx, runs[-1].seq).get("command", "") if runs else ""
            words = command if isinstance(command, str) else shlex.join(command)
            if not 0 < len(words) <= MAX_REPEATED_LENGTH or not words.isprintable():
                words = "COMMAND"
            do = Remedy(f"interlock evidence run --task {task.id} --criterion {number} -- {words}")
        needs.append(
            {
                "what": "criterion",
                "criterion": number,
                "text": criterion.text,
                "message": f"Criterion {number} is not met. {criterion.why}",
                "do": do,
            }
        )

    given = in_force(tx, task)
    for gate in gates:
        verdict = given.get(gate)
        if verdict is not None and verdict.verdict == "pass":
            continue
        able = [address(name) for name in holders(tx, gate)]
        if task.submission is None:
            why = "needs a submission first"
        elif verdict is None:
            why = "has not passed the submission"
        else:
            why = "failed the submission"
        needs.append(
            {
                "what": "gate",
                "gate": gate,
                "holders": able,
                "message": f"The gate {gate} {why}. Only its holders can pass it: "
                f"{' '.join(able) or 'none'}.",
                "do": to_pass(tx, task, gate),
            }
        )

    for blocker in open_blockers(tx, task.id):
        if blocker.severity != "stop":
            continue
        payload = body(tx, blocker.seq).get("payload", {})
        line = " ".join(payload.get("what", "(redacted)").split())
        if len(line) > MAX_REPEATED_LENGTH:
            line = line[: MAX_REPEATED_LENGTH - 1] + "…"
        by = f"The gate {blocker.gate}" if blocker.gate is not None else address(blocker.sender)
        needs.append(
            without_none(
                what="blocker",
                id=blocker.id,
                message=f"{by} raised a blocker: {line}",
                fix=payload.get("fix"),
                do=to_resolve(tx, blocker, task),
            )
        )
    return needs


def open_dependencies(tx: Transaction, task: Task) -> list[answers.Need]:
    """The tasks that must be done before this one can be taken."""
    found: list[answers.Need] = []
    for id in task.depends_on.split():
        (other,) = tasks(tx, "id = ?", id)
        if other.state == "done":
            continue
        message = f"{task.id} depends on {id}, which is {other.state}."
        do = to_show(id)
        if other.has_ended:
            message += f" {address(task.sender)} or a person should cancel {task.id}."
            do = Remedy(f"interlock task cancel {task.id}", CancelTask(task.id))
        found.append(
            without_none(what="dependency", task=id, state=other.state, message=message, do=do)
        )
    return found


def to_pass(tx: Transaction, task: Task, gate: str) -> Remedy:
    """The next step towards a pass of the gate. If only workers hold the gate, add a holder. Else
    submit the task, or pass it with the evidence that no verdict names yet."""
    if not judges(tx, gate, workers(tx, task.id)):
        return to_add_holder(tx, gate)
    if task.state != "submitted" or task.commit is None:
        return to_submit(task.id)
    found = criteria(tx, task)
    unnamed = tuple(criterion.to_name for criterion in found if criterion.to_name is not None)
    commit, flags = task.commit[:12], "".join(f" --evidence {id}" for id in unnamed)
    return Remedy(
        f"interlock gate pass {task.id} {gate} --commit {commit}{flags}",
        GiveVerdict(task.id, gate, "pass", commit=commit, evidence=unnamed),
    )


def to_resolve(tx: Transaction, blocker: Blocker, task: Task | None) -> Remedy:
    """Resolve a blocker. A gate resolves its own blockers when it passes the task."""
    if blocker.gate is None or task is None:
        return Remedy(f"interlock blocker resolve {blocker.id}", ResolveBlocker(blocker.id))
    return to_pass(tx, task, blocker.gate)


# --- verdicts that are due


def due(tx: Transaction) -> list[tuple[Task, str]]:
    """Submitted tasks, each with a gate that has given no verdict on the submission."""
    found = []
    for task in tasks(tx, "state = 'submitted'"):
        given = in_force(tx, task)
        found += [(task, gate) for gate in task.gates.split() if gate not in given]
    return found


def due_from(tx: Transaction, caller: Caller) -> list[tuple[Task, str]]:
    """The verdicts that are due from the caller."""
    return [
        (task, gate)
        for task, gate in due(tx)
        if may_judge(tx, caller, gate) and caller.agent not in workers(tx, task.id)
    ]


def half_judged(tx: Transaction) -> list[tuple[Task, str]]:
    """Submitted tasks that every gate has passed, with evidence that no verdict names."""
    found = []
    for task in tasks(tx, "state = 'submitted'"):
        gates = task.gates.split()
        given = in_force(tx, task).values()
        is_passed = len(given) == len(gates) and all(v.verdict == "pass" for v in given)
        if gates and is_passed and any(criterion.to_name for criterion in criteria(tx, task)):
            found.append((task, gates[0]))
    return found


def verdict_due(tx: Transaction, task: Task, gate: str) -> RuleAnswer:
    """A verdict that is due, with the command that gives it."""
    return {
        "task": task.id,
        "gate": gate,
        "commit": task.commit,
        "worker": address(task.worker or ""),
        "since": rfc3339(task.submitted_at or task.at),
        "do": to_pass(tx, task, gate),
    }
