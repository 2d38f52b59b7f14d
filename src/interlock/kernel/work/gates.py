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
from interlock.contracts.times import rfc3339
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
from interlock.kernel.moment import SYSTEM, Answer, Caller, Moment, absent_dropped
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
    before = _listed(moment, name)
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
        "holders": [address(holder) for holder in _listed(moment, name)],
        "can_judge": [address(sender) for sender in holders(moment, name)],
        "due": [task.id for task, gate in waiting if gate == name],
    }


def _listed(moment: Moment, gate: str) -> list[str]:
    row = moment.one("SELECT holders FROM work_gates WHERE name = ?", gate)
    return str(row[0]).split() if row else []


def holders(moment: Moment, gate: str) -> list[str]:
    """The senders with a live token that may judge: named as holders, or by the token's scope."""
    listed = _listed(moment, gate)
    rows = moment.all(
        "SELECT t.sender, s.agent, t.scopes FROM identity_tokens t "
        "JOIN identity_senders s USING (sender) WHERE t.revoked_at IS NULL AND NOT t.suspended "
        "AND (t.expires_at IS NULL OR t.expires_at > ?) ORDER BY t.sender",
        moment.now,
    )
    able = [sender for sender, agent, scopes in rows if _holds(gate, listed, sender, agent, scopes)]
    return list(dict.fromkeys(able))


def _holds(gate: str, listed: list[str], sender: str, agent: str, scopes: str) -> bool:
    words = scopes.split()
    named = sender in listed or agent in listed
    return f"gate:{gate}" in words or (named and "work" in words)


def may_judge(moment: Moment, caller: Caller, gate: str) -> bool:
    scopes = " ".join(caller.scopes)
    return _holds(gate, _listed(moment, gate), caller.sender, caller.agent, scopes)


def refuse_unheld(moment: Moment, gates: tuple[str, ...], assignee: str | None) -> None:
    """A gate that nobody can hold would never be passed; nor one held by the worker alone."""
    working = names.agent_of(moment.state, assignee) if assignee is not None else None
    for gate in gates:
        able = holders(moment, gate)
        if not able:
            raise GateHasNoHolder(
                f"Nobody can hold the gate {gate}, so the task would never be done. Make it with "
                f"its holders: interlock gate create {gate} --holder SENDER",
                gate=gate,
                did_you_mean=_near_gates(moment, gate),
            )
        if all(names.agent_of(moment.state, sender) == working for sender in able):
            raise GateHasNoHolder(
                f"Only @{working}, to whom the task is assigned, holds the gate {gate}, and nobody "
                f"judges their own work. Add a holder: interlock gate create {gate} --replace "
                "--holder SENDER",
                gate=gate,
            )


def _near_gates(moment: Moment, gate: str) -> list[str] | None:
    known = [row[0] for row in moment.all("SELECT name FROM work_gates ORDER BY name")]
    return [found.removeprefix("@") for found in near(gate, known) or ()] or None


def due(moment: Moment) -> list[tuple[Task, str]]:
    """Submitted tasks, each with a gate that has not judged the submission yet."""
    found = []
    for task in tasks(moment, "state = 'submitted'"):
        given = in_force(moment, task)
        found += [(task, gate) for gate in task.gates.split() if gate not in given]
    return found


def verdict_due(task: Task, gate: str) -> Answer:
    """A verdict that somebody is waiting for, and what to type to give it."""
    return {
        "task": task.id,
        "gate": gate,
        "commit": task.commit,
        "worker": address(task.worker or ""),
        "since": rfc3339(task.submitted_at or task.at),
        "do": f"interlock gate pass {task.id} {gate} --commit {(task.commit or '')[:12]}",
    }


def due_from(moment: Moment, caller: Caller) -> list[tuple[Task, str]]:
    """The verdicts that are due from the caller."""
    return [
        (task, gate)
        for task, gate in due(moment)
        if may_judge(moment, caller, gate) and caller.agent not in workers(moment, task.id)
    ]


def give_verdict(moment: Moment, act: GiveVerdict) -> Answer:
    """Judges what is submitted. A fail goes back to the worker as a blocker."""
    task = open_task(moment, act.task)
    _refuse_judge(moment, task, act.gate)
    worker = _refuse_artifact(task, act.commit, act.tree)
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
    return {"verdict": verdict_view(moment, given), "task": task_view(moment, now)} | answer


def prepare(moment: Moment, act: PrepareVerdict) -> Answer:
    """Refuses as `give_verdict` would, while no check was run yet."""
    task = open_task(moment, act.task)
    _refuse_judge(moment, task, act.gate)
    _refuse_artifact(task, None, None)
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
        raise MissingScope(
            f"@{caller.sender} does not hold the gate {gate}. It is held by "
            f"{' '.join(map(address, holders(moment, gate))) or 'nobody'}.",
            scope=f"gate:{gate}",
        )


def _refuse_artifact(task: Task, commit: str | None, tree: str | None) -> str:
    """Whose work it is that is submitted, and that the verdict is about."""
    if task.state != "submitted" or task.commit is None or task.worker is None:
        raise NotSubmitted(
            f"{task.id} is {task.state}: there is nothing to judge until it is submitted again.",
            task=task.id,
            state=task.state,
        )
    if commit is not None and not task.commit.startswith(commit):
        raise NotSubmitted(
            f"You looked at {commit[:12]}, and {task.commit[:12]} is submitted by now. Look at "
            "that one, and judge it.",
            task=task.id,
            submitted=task.artifact,
        )
    if tree is not None and tree != task.tree:
        raise NotSubmitted(
            f"You looked at the tree {tree[:12]}, and {(task.tree or '')[:12]} was submitted with "
            f"{task.commit[:12]}. Those do not belong together: fail it.",
            task=task.id,
            submitted=task.artifact,
        )
    return task.worker


def _block(moment: Moment, task: Task, worker: str, act: GiveVerdict) -> Answer:
    """The failing verdict as a blocker that wakes the worker."""
    what = act.note or f"The gate {act.gate} failed {task.id}. The commands to put it right follow."
    payload = absent_dropped(what=what, severity="stop", fix=list(act.fix) or None, task_id=task.id)
    about = {"task": task.id, "severity": "stop", "gate": act.gate}
    sent = post(moment, worker, "blocker", payload, thread=task.thread, about=about, wake=True)
    (made,) = blockers(moment, "seq = ?", sent.seq)
    return blocker_view(moment, made)


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
    held = " ".join(map(address, holders(moment, act.gate))) or "nobody"
    refusal = GatesNotPassed(
        f"The gate {act.gate} {why} the commit {act.commit[:12]}. Submit it in a task with that "
        f"gate, and ask a holder ({held}) for a verdict."
    )
    shown = {"verdict": verdict_view(moment, last)} if last is not None else {}
    return {"passed": False} | refusal.as_dict() | shown


def _cleared(moment: Moment, verdict: Verdict) -> bool:
    row = moment.one(
        "SELECT 1 FROM work_submissions WHERE task = ? AND commit_id = ? AND seq > ?",
        verdict.task,
        verdict.commit,
        verdict.submission,
    )
    return row is not None
