"""Blockers: messages that say what stands in the way, open until they are resolved."""

from interlock.contracts.acts import ListBlockers, RaiseBlocker, ResolveBlocker, SendMessage
from interlock.contracts.addresses import address
from interlock.contracts.checks import checked
from interlock.contracts.encoding import canonical
from interlock.errors import MissingScope, OwnWork
from interlock.kernel.identity.names import agent_of
from interlock.kernel.mail.messages import by_seq, visible
from interlock.kernel.mail.sending import send
from interlock.kernel.moment import OWNER, Answer, Moment, absent_dropped
from interlock.kernel.work.holders import holders, may_judge
from interlock.kernel.work.records import (
    STANDING,
    Blocker,
    blocker_view,
    blockers,
    find_blocker,
    find_task,
    open_task,
    workers,
)


def raise_blocker(moment: Moment, act: RaiseBlocker) -> Answer:
    """Sends it to the task's worker; where the worker itself is stuck, to whoever asked for it or
    could judge it, or at least to itself."""
    payload = absent_dropped(
        what=act.what, severity=act.severity, fix=list(act.fix) or None, task_id=act.task
    )
    to = act.to or _concerned(moment, act.task or "")
    if act.task is not None:
        open_task(moment, act.task)
    sent = send(moment, checked(SendMessage(to=to, type="blocker", payload=payload, wake=True)))
    (made,) = blockers(moment, "id = ?", sent["message"]["id"])
    return {"blocker": blocker_view(moment, made)} | {
        name: sent[name] for name in ("deliveries", "notices")
    }


def _concerned(moment: Moment, id: str) -> str:
    task = open_task(moment, id)
    stuck = moment.caller.agent in workers(moment, task.id)
    first = task.sender if stuck or task.worker is None else task.worker
    judges = [sender for gate in task.gates.split() for sender in holders(moment, gate)]
    others = (
        name
        for name in (first, *judges)
        if name != OWNER and agent_of(moment.state, name) != moment.caller.agent
    )
    return address(next(others, moment.caller.sender))


def resolve(moment: Moment, act: ResolveBlocker) -> Answer:
    """It stands in the way no more, says whoever raised it, a holder of its gate, or a person."""
    found = find_blocker(moment, act.id)
    if found.resolved is None:
        _refuse_resolver(moment, found)
        outcome = absent_dropped(id=found.id, task=found.task)
        body = canonical({"note": act.note}) if act.note is not None else None
        moment.record("blocker_resolved", outcome, body)
    return {"blocker": blocker_view(moment, find_blocker(moment, found.id))}


def _refuse_resolver(moment: Moment, found: Blocker) -> None:
    caller = moment.caller
    raised = agent_of(moment.state, found.sender) == caller.agent
    judges = found.gate is not None and may_judge(moment, caller, found.gate)
    own = found.task is not None and caller.agent in workers(moment, found.task)
    if raised or (judges and not own):
        return
    if own:
        how = (
            f"It is resolved when the gate {found.gate} passes a new submission"
            if found.gate is not None
            else f"Ask {address(found.sender)} to resolve it"
        )
        raise OwnWork(
            f"Whoever works on {found.task} does not decide that nothing stands in its way. {how}, "
            "or a person can.",
            task=found.task,
        )
    if caller.kind != "human" and "admin" not in caller.scopes:
        raise MissingScope(
            f"{address(found.sender)} raised it. Resolving it is for them, for a person, or for a "
            "token with the scope admin.",
            scope="admin",
        )


def list_blockers(moment: Moment, act: ListBlockers) -> Answer:
    which = "1" if act.all else STANDING
    if act.task is None:
        found = blockers(moment, which)
    else:
        found = blockers(moment, f"{which} AND task = ?", find_task(moment, act.task).id)
    return {"blockers": [blocker_view(moment, b) for b in found if may_see(moment, b)]}


def may_see(moment: Moment, blocker: Blocker) -> bool:
    """What blocks a task is everybody's business; any other is mail, for those who may read it."""
    return blocker.task is not None or visible(moment, by_seq(moment, blocker.seq))
