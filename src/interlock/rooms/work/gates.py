"""Gates: who may judge, and the verdicts on what was submitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.errors import (
    GateHasNoHolder,
    GatesNotPassed,
    MissingScope,
    NameTaken,
    NotFound,
    NotSubmitted,
    OwnWork,
)
from interlock.log.encoding import canonical
from interlock.rooms.identity import names
from interlock.rooms.mail.sending import post
from interlock.rooms.transaction import SYSTEM, RuleAnswer, Transaction
from interlock.rooms.work.holders import holders, listed, may_judge, to_add_holder
from interlock.rooms.work.missing import due, missing
from interlock.rooms.work.records import (
    Task,
    Verdict,
    blocker_view,
    blockers,
    find_evidence,
    in_force,
    open_blockers,
    open_task,
    task_view,
    tasks,
    verdict_view,
    verdicts,
    workers,
)
from interlock.verbs.addresses import address, check_name, near
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.rooms.work.verbs import CheckGate, CreateGate, GiveVerdict


def create_gate(tx: Transaction, act: CreateGate) -> RuleAnswer:
    name = check_name(act.name, "", "gate")
    wanted = sorted({holder.removeprefix("@") for holder in act.holders})
    for holder in wanted:
        if not names.is_known(tx.state, holder):
            raise GateHasNoHolder(
                f"Nobody has joined as @{holder[:80]}, so nobody can hold the gate {name} as "
                "that. Copy an address from interlock agents.",
                gate=name,
                did_you_mean=near(holder, names.names(tx.state)),
            )
    before = listed(tx, name)
    if before and before != wanted and not act.replace:
        raise NameTaken(
            f"The gate {name} is there, held by {' '.join(map(address, before))}. To put other "
            "holders in their place, add --replace.",
            name=name,
        )
    if before != wanted:
        tx.append("gate_created", {"name": name, "holders": wanted})
    return {"gate": gate_view(tx, name, due(tx))}


def gate_view(tx: Transaction, name: str, waiting: list[tuple[Task, str]]) -> RuleAnswer:
    return {
        "name": name,
        "holders": [address(holder) for holder in listed(tx, name)],
        "can_judge": [address(sender) for sender in holders(tx, name)],
        "due": [task.id for task, gate in waiting if gate == name],
    }


def give_verdict(tx: Transaction, act: GiveVerdict) -> RuleAnswer:
    """Judges what is submitted. A fail goes back to the worker as a blocker."""
    task = open_task(tx, act.task)
    refuse_judge(tx, task, act.gate)
    worker = refuse_artifact(tx, task, act)
    relied_on = [find_evidence(tx, reference) for reference in act.evidence]
    for piece in relied_on:
        if piece.task != task.id:
            raise NotFound(f"The evidence {piece.id} is not {task.id}'s.")
    id = tx.new_id()
    payload = without_none(
        task_id=task.id,
        gate=act.gate,
        verdict=act.verdict,
        artifact=task.artifact,
        evidence=[piece.id for piece in relied_on] or None,
        note=act.note,
        fix=list(act.fix) or None,
        rules=act.rules,
    )
    outcome = {
        "id": id,
        "task": task.id,
        "gate": act.gate,
        "verdict": act.verdict,
        "submission": task.submission,
        "commit": task.commit,
        "tree": task.tree,
        "evidence": [piece.id for piece in relied_on],
    } | without_none(rules=act.rules)
    tx.append("verdict_given", outcome, canonical(payload))
    answer: RuleAnswer = {}
    if act.verdict == "fail":
        answer = {"blocker": _block(tx, task, worker, act)}
    else:
        _unblock(tx, task, act.gate)
        post(tx, worker, "gate_verdict", payload, thread=task.thread)
    (given,) = verdicts(tx, "id = ?", id)
    (now,) = tasks(tx, "id = ?", task.id)
    told = {"verdict": verdict_view(tx, given), "task": task_view(tx, now)}
    return told | {"missing": missing(tx, now)} | answer


def last_rules(tx: Transaction, gate: str) -> str | None:
    row = tx.one(
        "SELECT rules FROM work_verdicts WHERE gate = ? AND rules IS NOT NULL "
        "ORDER BY seq DESC LIMIT 1",
        gate,
    )
    return str(row[0]) if row else None


def refuse_judge(tx: Transaction, task: Task, gate: str) -> None:
    caller = tx.caller
    if caller.agent in workers(tx, task.id):
        raise OwnWork(
            f"@{caller.agent} has worked on {task.id}, so no surface of it can judge it. Ask "
            f"another holder of {gate}: interlock gate list",
            task=task.id,
            gate=gate,
        )
    if gate not in task.gates.split():
        raise NotFound(
            f"{task.id} has no gate {gate}. It has: {task.gates or 'none'}.",
            gates=task.gates.split(),
        )
    if not may_judge(tx, caller, gate):
        able = holders(tx, gate)
        if caller.sender in able:
            why = f"This token does not hold the gate {gate}: another of @{caller.sender}'s does. "
            why += "Use that one."
        else:
            why = f"@{caller.sender} does not hold the gate {gate}. It is held by "
            why += f"{' '.join(map(address, able)) or 'nobody'}."
        raise MissingScope(why, scope=f"gate:{gate}")


def refuse_artifact(tx: Transaction, task: Task, act: GiveVerdict) -> str:
    """Whose work it is that is submitted, and that the verdict is about. After one gate has failed
    it, the others may still say what they found."""
    judged = act.gate in in_force(tx, task)
    is_open = task.state == "submitted" or (task.state == "taken" and not judged)
    if not is_open or task.commit is None or task.worker is None:
        raise NotSubmitted(
            f"{task.id} is {task.state}: there is nothing to judge until it is submitted again.",
            task=task.id,
            state=task.state,
        )
    if act.commit is not None and not task.commit.startswith(act.commit):
        raise NotSubmitted(
            f"You looked at {act.commit[:12]}, and {task.commit[:12]} is submitted by now. Look at "
            "that one, and judge it.",
            task=task.id,
            submitted=task.artifact,
        )
    if act.tree not in (None, task.tree):
        raise NotSubmitted(
            f"You looked at the tree {(act.tree or '')[:12]}, and {(task.tree or '')[:12]} was "
            f"submitted with {task.commit[:12]}. Those do not belong together: fail it.",
            task=task.id,
            submitted=task.artifact,
        )
    return task.worker


def _block(tx: Transaction, task: Task, worker: str, act: GiveVerdict) -> RuleAnswer:
    """The failing verdict as a blocker that wakes the worker."""
    what = act.note or f"The gate {act.gate} failed {task.id}{_unsaid(tx, act)}"
    payload = without_none(what=what, severity="stop", fix=list(act.fix) or None, task_id=task.id)
    about = {"task": task.id, "severity": "stop", "gate": act.gate}
    sent = post(tx, worker, "blocker", payload, thread=task.thread, about=about, wake=True)
    (made,) = blockers(tx, "seq = ?", sent.seq)
    return blocker_view(tx, made)


def _unsaid(tx: Transaction, act: GiveVerdict) -> str:
    if act.fix:
        return ". The commands to put it right follow."
    return f", and does not say why. Ask {address(tx.caller.sender)}."


def _unblock(tx: Transaction, task: Task, gate: str) -> None:
    """What a gate held against a task is put right when that gate passes it."""
    for blocker in open_blockers(tx, task.id):
        if blocker.gate == gate:
            tx.append("blocker_resolved", {"id": blocker.id, "task": task.id}, sender=SYSTEM)


def check_gate(tx: Transaction, act: CheckGate) -> RuleAnswer:
    """Whether the gate's last word on a commit is a pass that no later submission cleared."""
    given = verdicts(tx, "gate = ? AND commit_id = ?", act.gate, act.commit)
    standing = [
        verdict
        for verdict in given
        if not _cleared(tx, verdict) and act.tree in (None, verdict.tree)
    ]
    last = standing[-1] if standing else None
    if last is not None and last.verdict == "pass":
        return {"passed": True, "verdict": verdict_view(tx, last)}
    why = "has failed" if last is not None else "has not passed"
    able = " ".join(map(address, holders(tx, act.gate)))
    ask = f"ask a holder ({able}) for a verdict." if able else "ask its holder for a verdict."
    refusal = GatesNotPassed(
        f"The gate {act.gate} {why} the commit {act.commit[:12]}. "
        f"{'' if able else _to_make(tx, act.gate)}Submit it in a task with that gate, and {ask}"
    )
    shown = {"verdict": verdict_view(tx, last)} if last is not None else {}
    return {"passed": False} | refusal.as_dict() | shown


def _to_make(tx: Transaction, gate: str) -> str:
    """How a gate that nobody can pass comes to a holder."""
    is_there = bool(listed(tx, gate))
    what = "Nobody can pass it any more" if is_there else "There is no such gate yet"
    return f"{what}: {to_add_holder(tx, gate)}. "


def _cleared(tx: Transaction, verdict: Verdict) -> bool:
    row = tx.one(
        "SELECT 1 FROM work_submissions WHERE task = ? AND commit_id = ? AND seq > ?",
        verdict.task,
        verdict.commit,
        verdict.submission,
    )
    return row is not None
