"""Views over several rooms: who the caller is here, and how the workspace stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.log.times import rfc3339
from interlock.rooms.claims.records import live
from interlock.rooms.mail.reading import counts
from interlock.rooms.transaction import RuleAnswer, Transaction
from interlock.rooms.work.missing import due_from, verdict_due
from interlock.rooms.work.records import STANDING, Task, claim_on, task_view, tasks
from interlock.verbs.addresses import address
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.rooms.workspace.verbs import ShowStatus, Whoami

# Whoever has more to do begins with these.
MAX_LISTED = 50


def whoami(tx: Transaction, act: Whoami) -> RuleAnswer:
    caller = tx.caller
    row = tx.one("SELECT id FROM workspace_self")
    answer = without_none(
        sender=caller.sender,
        address=address(caller.sender),
        agent=caller.agent,
        surface=caller.surface,
        session=caller.session,
        kind=caller.kind,
        scopes=sorted(caller.scopes),
        workspace=row[0] if row else None,
    )
    mine = live(tx, "sender = ? AND session IS ?", caller.sender, caller.session)
    held = [claim.view() for claim in mine]
    return answer | counts(tx) | {"claims": held, "tasks": _taken(tx), "verdicts_due": _due(tx)}


def _taken(tx: Transaction) -> list[RuleAnswer]:
    """The tasks that this session works on, each in a line."""
    caller = tx.caller
    where = "worker = ? AND session IS ? AND ended IS NULL"
    found = [task for task in tasks(tx, where, caller.sender, caller.session) if _works(tx, task)]
    return [
        {"id": task.id, "title": task_view(tx, task)["title"], "state": task.state}
        for task in found[:MAX_LISTED]
    ]


def _works(tx: Transaction, task: Task) -> bool:
    claim = claim_on(tx, task.id)
    return claim is not None and claim.fence == task.fence


def _due(tx: Transaction) -> list[RuleAnswer]:
    found = due_from(tx, tx.caller)[:MAX_LISTED]
    return [verdict_due(tx, task, gate) for task, gate in found]


def status(tx: Transaction, act: ShowStatus) -> RuleAnswer:
    row = tx.one("SELECT id, epoch, created_at, paused_at, pause_reason FROM workspace_self")
    assert row is not None
    id, epoch, created_at, paused_at, reason = row
    return without_none(
        workspace=id,
        epoch=epoch,
        created_at=rfc3339(created_at),
        now=rfc3339(tx.now),
        paused=paused_at is not None,
        pause_reason=reason,
        agents=_count(tx, "identity_agents"),
        senders=_count(tx, "identity_senders"),
        messages=_count(tx, "mail_messages"),
        open_deliveries=_sum_open(tx),
        claims=_count(tx, "claims_held", "expires_at > ?", tx.now),
        waiting=_count(tx, "claims_waiting", "lease > ?", tx.now),
        tasks=_count(tx, "work_tasks", "ended IS NULL"),
        blockers=_count(tx, "work_blockers", STANDING),
        refusals=_count(tx, "refusals"),
    )


def _count(tx: Transaction, table: str, where: str = "1", *bindings: int) -> int:
    row = tx.one(f"SELECT count(*) FROM {table} WHERE {where}", *bindings)
    return int(row[0]) if row else 0


def _sum_open(tx: Transaction) -> int:
    row = tx.one("SELECT coalesce(sum(open), 0) FROM mail_boxes")
    return int(row[0]) if row else 0
