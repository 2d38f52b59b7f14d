"""Gates: who may judge, and the verdicts on what was submitted."""

from interlock.contracts.acts import (
    CheckGate,
    CreateGate,
    GiveVerdict,
    ListGates,
    PrepareVerdict,
)
from interlock.contracts.addresses import address, check_name, near
from interlock.contracts.encoding import canonical
from interlock.errors import (
    GateHasNoHolder,
    GatesNotPassed,
    MissingScope,
    NameTaken,
    NotFound,
    NotSubmitted,
    OwnWork,
)
from interlock.kernel.identity import names
from interlock.kernel.mail.sending import post
from interlock.kernel.moment import SYSTEM, Answer, Moment, absent_dropped
from interlock.kernel.work.holders import holders, listed, may_judge, to_add_holder
from interlock.kernel.work.needs import due, missing
from interlock.kernel.work.records import (
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


def create_gate(moment: Moment, act: CreateGate) -> Answer:
    name = check_name(act.name, "", "gate")
    wanted = sorted({holder.removeprefix("@") for holder in act.holders})
    for holder in wanted:
        if not names.is_known(moment.state, holder):
            raise GateHasNoHolder(
                f"Nobody has joined as @{holder[:80]}, so nobody can hold the gate {name} as "
                "that. Copy an address from interlock agents.",
                gate=name,
                did_you_mean=near(holder, names.names(moment.state)),
            )
    before = listed(moment, name)
    if before and before != wanted and not act.replace:
        raise NameTaken(
            f"The gate {name} is there, held by {' '.join(map(address, before))}. To put other "
            "holders in their place, add --replace.",
            name=name,
        )
    if before != wanted:
        moment.record("gate_created", {"name": name, "holders": wanted})
    return {"gate": _gate_view(moment, name, due(moment))}


def list_gates(moment: Moment, act: ListGates) -> Answer:
    known = [row[0] for row in moment.all("SELECT name FROM work_gates ORDER BY name")]
    waiting = due(moment)
    return {"gates": [_gate_view(moment, name, waiting) for name in known]}


def _gate_view(moment: Moment, name: str, waiting: list[tuple[Task, str]]) -> Answer:
    return {
        "name": name,
        "holders": [address(holder) for holder in listed(moment, name)],
        "can_judge": [address(sender) for sender in holders(moment, name)],
        "due": [task.id for task, gate in waiting if gate == name],
    }


def give_verdict(moment: Moment, act: GiveVerdict) -> Answer:
    """Judges what is submitted. A fail goes back to the worker as a blocker."""
    task = open_task(moment, act.task)
    _refuse_judge(moment, task, act.gate)
    worker = _refuse_artifact(moment, task, act)
    relied_on = [find_evidence(moment, reference) for reference in act.evidence]
    for piece in relied_on:
        if piece.task != task.id:
            raise NotFound(f"The evidence {piece.id} is not {task.id}'s.")
    id = moment.new_id()
    payload = absent_dropped(
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
    } | absent_dropped(rules=act.rules)
    moment.record("verdict_given", outcome, canonical(payload))
    answer: Answer = {}
    if act.verdict == "fail":
        answer = {"blocker": _block(moment, task, worker, act)}
    else:
        _unblock(moment, task, act.gate)
        post(moment, worker, "gate_verdict", payload, thread=task.thread)
    (given,) = verdicts(moment, "id = ?", id)
    (now,) = tasks(moment, "id = ?", task.id)
    told = {"verdict": verdict_view(moment, given), "task": task_view(moment, now)}
    return told | {"missing": missing(moment, now)} | answer


def prepare(moment: Moment, act: PrepareVerdict) -> Answer:
    """Refuses as `give_verdict` would, while no check was run yet."""
    task = open_task(moment, act.task)
    _refuse_judge(moment, task, act.gate)
    _refuse_artifact(moment, task, GiveVerdict(task.id, act.gate, "pass"))
    return absent_dropped(
        task=task.id, gate=act.gate, artifact=task.artifact, rules=_last_rules(moment, act.gate)
    )


def _last_rules(moment: Moment, gate: str) -> str | None:
    row = moment.one(
        "SELECT rules FROM work_verdicts WHERE gate = ? AND rules IS NOT NULL "
        "ORDER BY seq DESC LIMIT 1",
        gate,
    )
    return str(row[0]) if row else None


def _refuse_judge(moment: Moment, task: Task, gate: str) -> None:
    caller = moment.caller
    if caller.agent in workers(moment, task.id):
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
    if not may_judge(moment, caller, gate):
        able = holders(moment, gate)
        if caller.sender in able:
            why = f"This token does not hold the gate {gate}: another of @{caller.sender}'s does. "
            why += "Use that one."
        else:
            why = f"@{caller.sender} does not hold the gate {gate}. It is held by "
            why += f"{' '.join(map(address, able)) or 'nobody'}."
        raise MissingScope(why, scope=f"gate:{gate}")


def _refuse_artifact(moment: Moment, task: Task, act: GiveVerdict) -> str:
    """Whose work it is that is submitted, and that the verdict is about. After one gate has failed
    it, the others may still say what they found."""
    judged = act.gate in in_force(moment, task)
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


def _block(moment: Moment, task: Task, worker: str, act: GiveVerdict) -> Answer:
    """The failing verdict as a blocker that wakes the worker."""
    what = act.note or f"The gate {act.gate} failed {task.id}{_unsaid(moment, act)}"
    payload = absent_dropped(what=what, severity="stop", fix=list(act.fix) or None, task_id=task.id)
    about = {"task": task.id, "severity": "stop", "gate": act.gate}
    sent = post(moment, worker, "blocker", payload, thread=task.thread, about=about, wake=True)
    (made,) = blockers(moment, "seq = ?", sent.seq)
    return blocker_view(moment, made)


def _unsaid(moment: Moment, act: GiveVerdict) -> str:
    if act.fix:
        return ". The commands to put it right follow."
    return f", and does not say why. Ask {address(moment.caller.sender)}."


def _unblock(moment: Moment, task: Task, gate: str) -> None:
    """What a gate held against a task is put right when that gate passes it."""
    for blocker in open_blockers(moment, task.id):
        if blocker.gate == gate:
            moment.record("blocker_resolved", {"id": blocker.id, "task": task.id}, sender=SYSTEM)


def check_gate(moment: Moment, act: CheckGate) -> Answer:
    """Whether the gate's last word on a commit is a pass that no later submission cleared."""
    given = verdicts(moment, "gate = ? AND commit_id = ?", act.gate, act.commit)
    standing = [
        verdict
        for verdict in given
        if not _cleared(moment, verdict) and act.tree in (None, verdict.tree)
    ]
    last = standing[-1] if standing else None
    if last is not None and last.verdict == "pass":
        return {"passed": True, "verdict": verdict_view(moment, last)}
    why = "has failed" if last is not None else "has not passed"
    able = " ".join(map(address, holders(moment, act.gate)))
    ask = f"ask a holder ({able}) for a verdict." if able else "ask its holder for a verdict."
    refusal = GatesNotPassed(
        f"The gate {act.gate} {why} the commit {act.commit[:12]}. "
        f"{'' if able else _to_make(moment, act.gate)}Submit it in a task with that gate, and {ask}"
    )
    shown = {"verdict": verdict_view(moment, last)} if last is not None else {}
    return {"passed": False} | refusal.as_dict() | shown


def _to_make(moment: Moment, gate: str) -> str:
    """How a gate that nobody can pass comes to a holder."""
    is_there = bool(listed(moment, gate))
    what = "Nobody can pass it any more" if is_there else "There is no such gate yet"
    return f"{what}: {to_add_holder(moment, gate)}. "


def _cleared(moment: Moment, verdict: Verdict) -> bool:
    row = moment.one(
        "SELECT 1 FROM work_submissions WHERE task = ? AND commit_id = ? AND seq > ?",
        verdict.task,
        verdict.commit,
        verdict.submission,
    )
    return row is not None
