"""Gates, their verdicts on submissions, and blockers.

A failing verdict becomes a blocker of the gate. A passing verdict of the same gate resolves it. A
blocker is a message. A worker cannot complete a task that has an open blocker of severity stop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.errors import (
    GatesNotPassed,
    MissingScope,
    NotFound,
    NotSubmitted,
    OwnWork,
    Remedy,
)
from interlock.log.encoding import canonical
from interlock.rooms.identity.names import agent_of
from interlock.rooms.mail.records import by_seq, visible
from interlock.rooms.mail.sending import post, send
from interlock.rooms.mail.verbs import SendMessage
from interlock.rooms.transaction import OWNER, SYSTEM, RuleAnswer, Transaction
from interlock.rooms.work import verbs
from interlock.rooms.work.missing import holders, listed, may_judge, missing, to_add_holder
from interlock.rooms.work.records import (
    Blocker,
    Task,
    blocker_view,
    blockers,
    find_blocker,
    find_evidence,
    find_task,
    in_force,
    open_blockers,
    open_task,
    task_view,
    to_show,
    verdict_view,
    verdicts,
    workers,
)
from interlock.verbs.addresses import address
from interlock.verbs.answers import without_none
from interlock.verbs.verb import validated

if TYPE_CHECKING:
    from interlock.rooms import answers


def gate_view(tx: Transaction, name: str, waiting: list[tuple[Task, str]]) -> answers.Gate:
    return {
        "name": name,
        "holders": [address(holder) for holder in listed(tx, name)],
        "can_judge": [address(sender) for sender in holders(tx, name)],
        "due": [task.id for task, gate in waiting if gate == name],
    }


def give_verdict(tx: Transaction, request: verbs.GiveVerdict) -> answers.Judged:
    """Record a verdict on the submission. A failing verdict wakes the worker with a blocker."""
    task = task_to_judge(tx, request.task, request.gate, request.commit, request.tree)
    relied_on = [find_evidence(tx, reference) for reference in request.evidence]
    for piece in relied_on:
        if piece.task != task.id:
            raise NotFound(
                f"The evidence {piece.id} belongs to {piece.task or 'no task'}, not to {task.id}. "
                f"List the evidence of {task.id}:",
                to_show(task.id),
            )
    members = without_none(gate=request.gate, verdict=request.verdict, rules=request.rules)
    evidence_ids = [piece.id for piece in relied_on]
    payload = verbs.message_payload(
        **members,
        task_id=task.id,
        artifact=task.artifact,
        evidence=tuple(evidence_ids),
        note=request.note,
        fix=request.fix,
    )
    outcome = members | {
        "id": tx.new_id(),
        "task": task.id,
        "submission": task.submission,
        "commit": task.commit,
        "tree": task.tree,
        "evidence": evidence_ids,
    }
    tx.append("verdict_given", outcome, canonical(payload))

    worker = task.worker or ""
    raised: list[Blocker] = []
    if request.verdict == "fail":
        what = f"The gate {request.gate} failed {task.id}"
        if request.fix:
            what += ". Run the commands that fix it."
        else:
            what += f" without a note. Ask {address(tx.caller.sender)} for the reason."
        problem = verbs.message_payload(
            what=request.note or what, severity="stop", fix=request.fix, task_id=task.id
        )
        about = {"task": task.id, "severity": "stop", "gate": request.gate}
        sent = post(tx, worker, "blocker", problem, thread=task.thread, about=about, wake=True)
        raised = blockers(tx, "seq = ?", sent.seq)
    else:
        for blocker in open_blockers(tx, task.id):
            if blocker.gate == request.gate:
                tx.append("blocker_resolved", {"id": blocker.id, "task": task.id}, sender=SYSTEM)
        post(tx, worker, "gate_verdict", payload, thread=task.thread)

    (given,) = verdicts(tx, "id = ?", outcome["id"])
    task = find_task(tx, task.id)
    answer: answers.Judged = {
        "verdict": verdict_view(tx, given),
        "task": task_view(tx, task),
        "missing": missing(tx, task),
    }
    for blocker in raised:
        answer["blocker"] = blocker_view(tx, blocker)
    return answer


def task_to_judge(
    tx: Transaction, id: str, gate: str, commit: str | None = None, tree: str | None = None
) -> Task:
    """Return a submitted task on which the caller may give a verdict at the gate. After one gate
    has failed the submission, the holders of the other gates may still give their verdicts.

    Raises OwnWork, NotFound or MissingScope. Raises NotSubmitted for a task without a submission,
    and if the caller reviewed another commit or tree than the submitted one."""
    task = open_task(tx, id)
    caller = tx.caller
    if caller.agent in workers(tx, task.id):
        raise OwnWork(
            f"@{caller.agent} has worked on {task.id}, so none of its senders can give a verdict "
            f"on it. Ask another holder of the gate {gate}. List the holders:",
            Remedy("interlock gate list", verbs.ListGates()),
            task=task.id,
            gate=gate,
        )
    if gate not in task.gates.split():
        raise NotFound(
            f"{task.id} has no gate {gate}. Its gates: {', '.join(task.gates.split()) or 'none'}.",
            gates=task.gates.split(),
        )
    if not may_judge(tx, caller, gate):
        able = holders(tx, gate)
        why = [f"@{caller.sender} does not hold the gate {gate}."]
        if caller.sender in able:
            why = [
                f"This token does not hold the gate {gate}, but another token of "
                f"@{caller.sender} does. Use that token."
            ]
        elif able:
            why.append(f"Ask a holder for a verdict: {' '.join(map(address, able))}")
        else:
            why += ["No sender holds it. Ask an admin to add a holder:", to_add_holder(tx, gate)]
        raise MissingScope(*why, scope=f"gate:{gate}")

    is_judged = gate in in_force(tx, task)
    is_open = task.state == "submitted" or (task.state == "taken" and not is_judged)
    if not is_open or task.commit is None or task.worker is None:
        raise NotSubmitted(
            f"{task.id} is {task.state}, and no submission of it waits for a verdict of the gate "
            f"{gate}. Wait until a worker submits a commit.",
            task=task.id,
            state=task.state,
        )
    if commit is not None and not task.commit.startswith(commit):
        raise NotSubmitted(
            f"You reviewed the commit {commit[:12]}, but the submitted commit is "
            f"{task.commit[:12]}. Review that commit, then give a verdict on it.",
            task=task.id,
            submitted=task.artifact,
        )
    if tree is not None and tree != task.tree:
        raise NotSubmitted(
            f"The worker submitted the commit {task.commit[:12]} with the tree "
            f"{(task.tree or '')[:12]}, but you reviewed the tree {tree[:12]}. If the commit has "
            "your tree, the submission is wrong. Fail it:",
            Remedy(
                f"interlock gate fail {task.id} {gate} --commit {task.commit[:12]}",
                verbs.GiveVerdict(task.id, gate, "fail", commit=task.commit[:12]),
            ),
            task=task.id,
            submitted=task.artifact,
        )
    return task


def check_gate(
    tx: Transaction, request: verbs.CheckGate
) -> answers.GatePassed | answers.GateNotPassed:
    """Return whether the gate's last verdict on a commit is a pass. A verdict does not count after
    a later submission of the commit in the same task."""
    gate = request.gate
    given = verdicts(
        tx,
        "gate = ?1 AND commit_id = ?2 AND (?3 IS NULL OR tree = ?3) AND NOT EXISTS (SELECT 1 "
        "FROM work_submissions s WHERE s.task = work_verdicts.task AND "
        "s.commit_id = work_verdicts.commit_id AND s.seq > work_verdicts.submission)",
        *(gate, request.commit, request.tree),
    )
    if given and given[-1].verdict == "pass":
        return {"passed": True, "verdict": verdict_view(tx, given[-1])}
    why = f"The gate {gate} {'has failed' if given else 'has not passed'} the commit "
    why += f"{request.commit[:12]}. Submit the commit in a task with this gate, and ask"
    able = " ".join(map(address, holders(tx, gate)))
    if able:
        refusal = GatesNotPassed(f"{why} a holder ({able}) for a verdict.")
    else:
        first = "The gate has no holder. Add one"
        if not listed(tx, gate):
            first = "The gate does not exist. Create it"
        refusal = GatesNotPassed(
            f"{why} its holder for a verdict. {first}:", to_add_holder(tx, gate)
        )
    answer: RuleAnswer = {"passed": False} | refusal.as_dict()
    return answer | ({"verdict": verdict_view(tx, given[-1])} if given else {})


def raise_blocker(tx: Transaction, request: verbs.RaiseBlocker) -> answers.BlockerRaised:
    """Send a blocker, by default to the task's worker. A worker's own blocker goes to the task's
    creator, to a holder of its gates, or to the worker itself."""
    caller = tx.caller
    to = request.to
    if to:
        if request.task is not None:
            open_task(tx, request.task)
    else:
        task = open_task(tx, request.task or "")
        is_stuck = caller.agent in workers(tx, task.id)
        first = task.sender if is_stuck or task.worker is None else task.worker
        able = [sender for gate in task.gates.split() for sender in holders(tx, gate)]
        others = (
            name
            for name in (first, *able)
            if name != OWNER and agent_of(tx.state, name) != caller.agent
        )
        to = address(next(others, caller.sender))
    payload = verbs.message_payload(
        what=request.what, severity=request.severity, fix=request.fix, task_id=request.task
    )
    message = SendMessage(to=to, type="blocker", payload=payload, wake=True)
    sent = send(tx, validated(message))
    (made,) = blockers(tx, "id = ?", sent["message"]["id"])
    return {
        "blocker": blocker_view(tx, made),
        "deliveries": sent["deliveries"],
        "notices": sent["notices"],
    }


def resolve_blocker(tx: Transaction, request: verbs.ResolveBlocker) -> answers.BlockerResolved:
    """Resolve a blocker. The agent that raised it, a holder of its gate, people and admins may do
    so. A worker of the task may not, unless it raised the blocker itself."""
    found = find_blocker(tx, request.id)
    if found.resolved is not None:
        return {"blocker": blocker_view(tx, found)}
    caller = tx.caller
    is_sender = agent_of(tx.state, found.sender) == caller.agent
    is_worker = found.task is not None and caller.agent in workers(tx, found.task)
    if is_worker and not is_sender:
        how = f"Ask {address(found.sender)} or a person to resolve it."
        if found.gate is not None:
            how = f"A pass of the gate {found.gate} on a new submission resolves it, or a person."
        raise OwnWork(
            f"A worker cannot resolve a blocker on their own task {found.task}. {how}",
            task=found.task,
        )
    holds_gate = found.gate is not None and may_judge(tx, caller, found.gate)
    if not is_sender and not holds_gate and not caller.is_person_or_admin:
        holder = f" a holder of the gate {found.gate}," if found.gate is not None else ""
        raise MissingScope(
            f"{address(found.sender)} raised the blocker {found.id}. Only they,{holder} a person, "
            "or a token with the scope admin may resolve it. Ask them.",
            scope="admin",
        )
    body = canonical({"note": request.note}) if request.note is not None else None
    tx.append("blocker_resolved", without_none(id=found.id, task=found.task), body)
    return {"blocker": blocker_view(tx, find_blocker(tx, found.id))}


def may_see(tx: Transaction, blocker: Blocker) -> bool:
    """Whether the caller may see a blocker. Every caller may see a blocker of a task. Any other
    blocker is mail, which only its sender and its recipients may see."""
    return blocker.task is not None or visible(tx, by_seq(tx, blocker.seq))
