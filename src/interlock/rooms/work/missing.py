"""What is missing before a task is done, each with the command that would get on with it."""

from interlock.log.times import rfc3339
from interlock.rooms.identity.names import agent_of
from interlock.rooms.transaction import Caller, RuleAnswer, Transaction
from interlock.rooms.work.criteria import Standing
from interlock.rooms.work.holders import holders, may_judge, to_add_holder
from interlock.rooms.work.records import (
    Blocker,
    Task,
    body,
    claim_on,
    in_force,
    open_blockers,
    tasks,
    workers,
)
from interlock.verbs.addresses import address
from interlock.verbs.answers import without_none


def missing(tx: Transaction, task: Task) -> list[RuleAnswer]:
    """Empty for a task that may be completed."""
    return [
        *open_dependencies(tx, task),
        *_not_submitted(tx, task),
        *_unmet(tx, task),
        *_not_passed(tx, task),
        *_blocked(tx, task),
    ]


def open_dependencies(tx: Transaction, task: Task) -> list[RuleAnswer]:
    found = []
    for id in task.depends_on.split():
        (other,) = tasks(tx, "id = ?", id)
        if other.state == "done":
            continue
        dead = other.has_ended
        found.append(
            {
                "what": "dependency",
                "task": id,
                "state": other.state,
                "message": f"It depends on {id}, which is {other.state}"
                + (f", so that {address(task.sender)} should cancel it." if dead else "."),
                "do": f"interlock task {'cancel ' + task.id if dead else 'show ' + id}",
            }
        )
    return found


def _not_submitted(tx: Transaction, task: Task) -> list[RuleAnswer]:
    if task.state == "submitted":
        return []
    claim = claim_on(tx, task.id)
    do = f"interlock task submit {task.id}"
    if waiting := open_dependencies(tx, task):
        why, do = "Nobody can take it yet.", waiting[0]["do"]
    elif claim is None or claim.fence != task.fence:
        why, do = "Nobody works on it.", f"interlock task take {task.id}"
    elif task.submission is not None:
        why = "A gate failed what was submitted: put it right, and submit again."
    else:
        why = "Nothing is submitted."
    return [{"what": "submission", "message": why, "do": do}]


def _unmet(tx: Transaction, task: Task) -> list[RuleAnswer]:
    standing = Standing(tx, task)
    found = [standing.view(number) for number in range(1, task.criteria + 1)]
    return [
        {
            "what": "criterion",
            "criterion": view["number"],
            "text": view["text"],
            "message": f"Criterion {view['number']} is not met. {view['why']}",
            "do": _to_meet(tx, task, standing, view["number"]),
        }
        for view in found
        if not view["met"]
    ]


def _to_meet(tx: Transaction, task: Task, standing: Standing, number: int) -> str:
    """Run something; or where something was said, the verdict that names it; where a run waits for
    what it would stand for, what comes next for that."""
    gates = task.gates.split()
    if gates and number in standing.to_name():
        return to_pass(tx, task, gates[0])
    if task.submission is None and standing.has_good_run(number):
        (need,) = _not_submitted(tx, task)
        return str(need["do"])
    return standing.to_run(number)


def _not_passed(tx: Transaction, task: Task) -> list[RuleAnswer]:
    given = in_force(tx, task)
    found = []
    for gate in task.gates.split():
        verdict = given.get(gate)
        if verdict is not None and verdict.verdict == "pass":
            continue
        names = [address(name) for name in holders(tx, gate)]
        why = "has failed it" if verdict is not None else "has not passed what is submitted"
        found.append(
            {
                "what": "gate",
                "gate": gate,
                "holders": names,
                "message": f"The gate {gate} {why}. It is held by {' '.join(names) or 'nobody'}.",
                "do": to_pass(tx, task, gate),
            }
        )
    return found


def to_pass(tx: Transaction, task: Task, gate: str) -> str:
    """What somebody types so that the gate gets on: the worker submits, a holder passes what was
    submitted and names what was said for it; where only workers hold the gate, it needs another."""
    own = workers(tx, task.id)
    if all(agent_of(tx.state, sender) in own for sender in holders(tx, gate)):
        return to_add_holder(tx, gate)
    if task.state != "submitted" or task.commit is None:
        return f"interlock task submit {task.id}"
    named = "".join(f" --evidence {id}" for id in Standing(tx, task).to_name().values())
    return f"interlock gate pass {task.id} {gate} --commit {task.commit[:12]}{named}"


def to_resolve(tx: Transaction, blocker: Blocker, task: Task | None) -> str:
    """What a gate found is settled by that gate; anything else by a word."""
    if blocker.gate is None or task is None:
        return f"interlock blocker resolve {blocker.id}"
    return to_pass(tx, task, blocker.gate)


def _blocked(tx: Transaction, task: Task) -> list[RuleAnswer]:
    return [
        without_none(
            what="blocker",
            id=blocker.id,
            message=_standing_in_the_way(tx, blocker),
            fix=body(tx, blocker.seq).get("payload", {}).get("fix"),
            do=to_resolve(tx, blocker, task),
        )
        for blocker in open_blockers(tx, task.id)
        if blocker.severity == "stop"
    ]


def _standing_in_the_way(tx: Transaction, blocker: Blocker) -> str:
    said = body(tx, blocker.seq).get("payload", {}).get("what", "(redacted)")
    line = " ".join(said.split())
    short = line if len(line) <= 200 else line[:199] + "…"
    by = f"The gate {blocker.gate}" if blocker.gate is not None else address(blocker.sender)
    return f"{by} found: {short}"


# --- verdicts that somebody waits for


def due(tx: Transaction) -> list[tuple[Task, str]]:
    """Submitted tasks, each with a gate that has not judged the submission yet."""
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
    """Submitted tasks that every gate has passed, and where nobody named what was said."""
    found = []
    for task in tasks(tx, "state = 'submitted'"):
        gates = task.gates.split()
        passed = all(given.verdict == "pass" for given in in_force(tx, task).values())
        if gates and passed and len(in_force(tx, task)) == len(gates):
            found += [(task, gates[0])] if Standing(tx, task).to_name() else []
    return found


def verdict_due(tx: Transaction, task: Task, gate: str) -> RuleAnswer:
    """A verdict that somebody is waiting for, and what to type to give it."""
    return {
        "task": task.id,
        "gate": gate,
        "commit": task.commit,
        "worker": address(task.worker or ""),
        "since": rfc3339(task.submitted_at or task.at),
        "do": to_pass(tx, task, gate),
    }
