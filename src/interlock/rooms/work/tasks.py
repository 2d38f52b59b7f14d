"""Tasks: made, taken, submitted, and brought to their end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.errors import (
    DigestMismatch,
    GatesNotPassed,
    NameTaken,
    NotFound,
    UnknownRecipient,
    Usage,
)
from interlock.log.encoding import canonical
from interlock.log.times import rfc3339
from interlock.rooms.claims.queue import serve
from interlock.rooms.claims.verbs import AcquireClaim
from interlock.rooms.identity.names import agent_of, is_known, members, names
from interlock.rooms.mail.sending import post
from interlock.rooms.transaction import OWNER, SYSTEM, RuleAnswer, Transaction
from interlock.rooms.work.holders import holders, refuse_unheld, to_add_holder
from interlock.rooms.work.missing import missing, open_dependencies, to_pass
from interlock.rooms.work.records import (
    Task,
    claim_on,
    evidence,
    find_task,
    in_force,
    near_ids,
    open_task,
    task_view,
    under_claim,
    workers,
)
from interlock.verbs.addresses import near
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.rooms.work.verbs import (
        CreateTask,
        SubmitTask,
        TakeTask,
    )


def create(tx: Transaction, act: CreateTask) -> RuleAnswer:
    """Makes a task whose gates somebody can hold and whose dependencies exist. A task can only
    depend on one that was there before it, so that no circle can be made."""
    id = act.id or _next_id(tx)
    if tx.one("SELECT 1 FROM work_tasks WHERE id = ?", id):
        raise NameTaken(f"There is a task {id} already. Choose another id.", name=id)
    _refuse_dependencies(tx, act, id)
    assignee = act.assignee.removeprefix("@") if act.assignee is not None else None
    _refuse_assignee(tx, assignee)
    refuse_unheld(tx, act.gates, assignee)
    payload = without_none(
        task_id=id,
        title=act.title,
        brief=act.brief,
        criteria=list(act.criteria) or None,
        gates=list(act.gates) or None,
        priority=act.priority,
        assignee=act.assignee,
        labels=list(act.labels) or None,
        depends_on=list(act.depends_on) or None,
    )
    outcome = without_none(
        task=id,
        thread=tx.new_id(),
        criteria=len(act.criteria),
        gates=list(act.gates),
        depends_on=list(act.depends_on),
        labels=list(act.labels),
        priority=act.priority,
        assignee=act.assignee,
    )
    tx.append("task_created", outcome, canonical(payload))
    task = find_task(tx, id)
    answer: RuleAnswer = {"task": task_view(tx, task)}
    if assignee is not None:
        _tell(tx, task, assignee, "task_created", payload)
        if not is_known(tx.state, assignee):
            answer["notices"] = [_unknown_assignee(assignee)]
    return answer


def _next_id(tx: Transaction) -> str:
    """The number after the highest of T-1, T-2, …"""
    row = tx.one(
        "SELECT max(cast(substr(id, 3) AS INTEGER)) FROM work_tasks "
        "WHERE id GLOB 'T-[1-9]*' AND length(id) <= 12 AND substr(id, 3) NOT GLOB '*[^0-9]*'"
    )
    return f"T-{(row[0] if row and row[0] else 0) + 1}"


def _refuse_dependencies(tx: Transaction, act: CreateTask, id: str) -> None:
    if id in act.depends_on:
        raise Usage(f"{id} cannot depend on itself: it could never be taken.")
    for other in act.depends_on:
        if tx.one("SELECT 1 FROM work_tasks WHERE id = ?", other) is None:
            known = [row[0] for row in tx.all("SELECT id FROM work_tasks ORDER BY seq DESC")]
            raise NotFound(
                f"There is no task {other!r} to depend on. Create that one first.",
                did_you_mean=near_ids(other, known),
            )


def _refuse_assignee(tx: Transaction, name: str | None) -> None:
    if name is None or is_known(tx.state, name):
        return
    if members(tx.state, name) is not None:
        raise Usage(f"@{name} is a group, and a task is done by one. Name one of its members.")
    if tx.setting("recipients") == "strict":
        raise UnknownRecipient(
            f"Nobody has joined as @{name}, and this workspace delivers to known names only.",
            to=f"@{name}",
            did_you_mean=near(name, names(tx.state)),
        )


def _unknown_assignee(name: str) -> RuleAnswer:
    return {
        "code": "UNKNOWN_RECIPIENT",
        "message": f"Nobody has joined as @{name} yet. The task waits for somebody who does, or "
        "for anybody who takes it.",
    }


def take(tx: Transaction, act: TakeTask) -> RuleAnswer:
    """Takes the task by a claim on it, extends the caller's own, or says who has it."""
    task = open_task(tx, act.id)
    if waiting := open_dependencies(tx, task):
        return {"taken": False} | not_done_yet(f"{task.id} cannot be taken yet.", waiting)
    asked = AcquireClaim(act.id, (), None, act.branch, act.worktree, act.note, act.ttl_s)
    answer: RuleAnswer = asked.decide(tx)
    if not answer.pop("acquired"):
        return {"taken": False} | answer | _whose(task, answer)
    claim = claim_on(tx, task.id)
    assert claim is not None
    notices = answer.get("notices", [])
    if claim.fence != task.fence:
        mine = task.worker is not None and agent_of(tx.state, task.worker) == tx.caller.agent
        kept = task.state == "submitted" and mine
        outcome = {"task": task.id, "claim": claim.id, "fence": claim.fence}
        tx.append("task_taken", outcome | {"state": "submitted" if kept else "taken"})
        payload = {
            "task_id": task.id,
            "fence": claim.fence,
            "expires_at": rfc3339(claim.expires_at),
        }
        _tell(tx, task, task.sender, "task_claimed", payload)
    notices += _hints(tx, task)
    taken = {"taken": True, "task": task_view(tx, find_task(tx, task.id))}
    return taken | {"claim": answer["claim"]} | ({"notices": notices} if notices else {})


def _whose(task: Task, answer: RuleAnswer) -> RuleAnswer:
    """A task that is held is not waited for: there is other work."""
    held: list[RuleAnswer] = answer["held_by"]
    if not held:
        return {}
    first = held[0]
    until = f"until {first['expires_at']}"
    return {"message": f"{task.id} is held by {first['holder']} {until}. Do other work, or ask."}


def _hints(tx: Transaction, task: Task) -> list[RuleAnswer]:
    """What a worker should know before it begins."""
    found = []
    me = tx.caller.agent
    if task.assignee is not None and agent_of(tx.state, task.assignee[1:]) != me:
        found.append(
            {
                "code": "ASSIGNED_TO_ANOTHER",
                "message": f"{task.id} is assigned to {task.assignee}. Make sure that they know.",
            }
        )
    own = {me, *workers(tx, task.id)}
    alone = [
        gate
        for gate in task.gates.split()
        if all(agent_of(tx.state, sender) in own for sender in holders(tx, gate))
    ]
    found += [
        {
            "code": "GATE_HAS_NO_HOLDER",
            "message": f"Whoever holds the gate {gate} works on it, and nobody judges their own "
            f"work. Add a holder: {to_add_holder(tx, gate)}",
        }
        for gate in alone
    ]
    return found


def submit(tx: Transaction, act: SubmitTask) -> RuleAnswer:
    """Hands in an artifact. Verdicts on what was submitted before do not count for it."""
    task = open_task(tx, act.id)
    claim = under_claim(tx, task, act.fence)
    tree = act.tree or _tree_of(tx, task, act.commit)
    _refuse_other_tree(tx, act.commit, tree)
    outcome = {"task": task.id, "commit": act.commit, "tree": tree, "fence": claim.fence}
    tx.append("task_submitted", outcome)
    submitted = find_task(tx, task.id)
    if (task.commit, task.tree) != (act.commit, tree) or in_force(tx, task):
        _ask_for_verdicts(tx, submitted)
    return {
        "submitted": True,
        "task": task_view(tx, submitted),
        "missing": missing(tx, submitted),
    }


def _tree_of(tx: Transaction, task: Task, commit: str) -> str:
    known = _own_trees(tx, commit)
    if not known:
        raise Usage(
            f"The tree of {commit[:12]} is not known: you have no clean run at that commit. Run "
            "evidence there first, give the tree too (--tree, with what git rev-parse "
            "'COMMIT^{tree}' prints), or submit with the command interlock task submit "
            f"{task.id} in the repository."
        )
    return known[-1]


def _refuse_other_tree(tx: Transaction, commit: str, tree: str) -> None:
    """A commit has one tree. A worker's own clean runs say which; whatever others say must not
    keep it from submitting."""
    known = _own_trees(tx, commit)
    if known and tree not in known:
        raise DigestMismatch(
            f"Your runs at {commit[:12]} were on the tree {known[-1][:12]}, not {tree[:12]}. "
            "Submit them as git knows them: git rev-parse COMMIT^{tree}"
        )


def _own_trees(tx: Transaction, commit: str) -> list[str]:
    """The trees of the clean runs that the caller's agent made at a commit, in order."""
    runs = evidence(tx, "commit_id = ? AND dirty = 0", commit)
    own = [run for run in runs if agent_of(tx.state, run.sender) == tx.caller.agent]
    return [run.tree for run in own if run.tree is not None]


def _ask_for_verdicts(tx: Transaction, task: Task) -> None:
    """Wakes everybody from whom a verdict is due."""
    own = workers(tx, task.id)
    asked: dict[str, list[str]] = {}
    for gate in task.gates.split():
        for sender in holders(tx, gate):
            if agent_of(tx.state, sender) not in own:
                asked.setdefault(sender, []).append(gate)
    for sender, gates in asked.items():
        commands = " and ".join(to_pass(tx, task, gate) for gate in gates)
        text = (
            f"{task.id} was submitted by @{tx.caller.sender} at {(task.commit or '')[:12]}. "
            f"Your verdict is due on {', '.join(gates)}: look at interlock task show {task.id}, "
            f"then {commands}, or fail it with what is wrong."
        )
        post(tx, sender, "wake", {"text": text}, thread=task.thread, wake=True)


def not_done_yet(what: str, lacking: list[RuleAnswer]) -> RuleAnswer:
    told = " ".join(need["message"] for need in lacking)
    return GatesNotPassed(f"{what} {told}", missing=lacking).as_dict()


def end_task(tx: Transaction, task: Task, status: str, note: str | None) -> RuleAnswer:
    body = canonical({"note": note}) if note is not None else None
    claim = claim_on(tx, task.id)
    tx.append("task_ended", {"task": task.id, "status": status}, body)
    if claim is not None and claim.fence == task.fence:
        tx.append("claim_released", {"id": claim.id, "reason": f"task {status}"})
        serve(tx)
    payload = without_none(
        task_id=task.id, status=status, artifact=task.artifact if status == "done" else None
    )
    for name in dict.fromkeys((task.sender, task.worker)):
        if name is not None:
            _tell(tx, task, name, "task_completed", payload)
    return {"task": task_view(tx, find_task(tx, task.id))}


def _tell(tx: Transaction, task: Task, name: str, type: str, payload: RuleAnswer) -> None:
    """Tells somebody who is concerned, unless it is their own doing."""
    own = agent_of(tx.state, name) == tx.caller.agent
    if not own and name not in (SYSTEM, OWNER):
        post(tx, name, type, payload, thread=task.thread, wake=False)
