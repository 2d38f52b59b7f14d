"""Blockers: messages that say what stands in the way, open until they are resolved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.errors import MissingScope, OwnWork
from interlock.rooms.identity.names import agent_of
from interlock.rooms.mail.records import by_seq, visible
from interlock.rooms.mail.sending import send
from interlock.rooms.mail.verbs import SendMessage
from interlock.rooms.transaction import OWNER, RuleAnswer, Transaction
from interlock.rooms.work.holders import holders, may_judge
from interlock.rooms.work.records import (
    Blocker,
    blocker_view,
    blockers,
    open_task,
    workers,
)
from interlock.verbs.addresses import address
from interlock.verbs.answers import without_none
from interlock.verbs.verb import validated

if TYPE_CHECKING:
    from interlock.rooms.work.verbs import RaiseBlocker


def raise_blocker(tx: Transaction, act: RaiseBlocker) -> RuleAnswer:
    """Sends it to the task's worker; where the worker itself is stuck, to whoever asked for it or
    could judge it, or at least to itself."""
    payload = without_none(
        what=act.what, severity=act.severity, fix=list(act.fix) or None, task_id=act.task
    )
    to = act.to or _concerned(tx, act.task or "")
    if act.task is not None:
        open_task(tx, act.task)
    sent = send(tx, validated(SendMessage(to=to, type="blocker", payload=payload, wake=True)))
    (made,) = blockers(tx, "id = ?", sent["message"]["id"])
    return {"blocker": blocker_view(tx, made)} | {
        name: sent[name] for name in ("deliveries", "notices")
    }


def _concerned(tx: Transaction, id: str) -> str:
    task = open_task(tx, id)
    stuck = tx.caller.agent in workers(tx, task.id)
    first = task.sender if stuck or task.worker is None else task.worker
    judges = [sender for gate in task.gates.split() for sender in holders(tx, gate)]
    others = (
        name
        for name in (first, *judges)
        if name != OWNER and agent_of(tx.state, name) != tx.caller.agent
    )
    return address(next(others, tx.caller.sender))


def refuse_resolver(tx: Transaction, found: Blocker) -> None:
    caller = tx.caller
    raised = agent_of(tx.state, found.sender) == caller.agent
    judges = found.gate is not None and may_judge(tx, caller, found.gate)
    own = found.task is not None and caller.agent in workers(tx, found.task)
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


def may_see(tx: Transaction, blocker: Blocker) -> bool:
    """What blocks a task is everybody's business; any other is mail, for those who may read it."""
    return blocker.task is not None or visible(tx, by_seq(tx, blocker.seq))
