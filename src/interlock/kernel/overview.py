"""Views over several rooms: who the caller is here, and how the workspace stands."""

from interlock.contracts.acts import ShowStatus, Whoami
from interlock.contracts.addresses import address
from interlock.contracts.times import rfc3339
from interlock.kernel.claims.records import live
from interlock.kernel.mail.reading import counts
from interlock.kernel.moment import Answer, Moment, absent_dropped
from interlock.kernel.work.needs import due_from, verdict_due
from interlock.kernel.work.records import STANDING, Task, claim_on, task_view, tasks

# Whoever has more to do begins with these.
MOST_LISTED = 50


def whoami(moment: Moment, act: Whoami) -> Answer:
    caller = moment.caller
    row = moment.one("SELECT id FROM workspace_self")
    answer = absent_dropped(
        sender=caller.sender,
        address=address(caller.sender),
        agent=caller.agent,
        surface=caller.surface,
        session=caller.session,
        kind=caller.kind,
        scopes=sorted(caller.scopes),
        workspace=row[0] if row else None,
    )
    mine = live(moment, "sender = ? AND session IS ?", caller.sender, caller.session)
    held = [claim.view() for claim in mine]
    return (
        answer
        | counts(moment)
        | {"claims": held, "tasks": _taken(moment), "verdicts_due": _due(moment)}
    )


def _taken(moment: Moment) -> list[Answer]:
    """The tasks that this session works on, each in a line."""
    caller = moment.caller
    where = "worker = ? AND session IS ? AND ended IS NULL"
    found = [
        task for task in tasks(moment, where, caller.sender, caller.session) if _works(moment, task)
    ]
    return [
        {"id": task.id, "title": task_view(moment, task)["title"], "state": task.state}
        for task in found[:MOST_LISTED]
    ]


def _works(moment: Moment, task: Task) -> bool:
    claim = claim_on(moment, task.id)
    return claim is not None and claim.fence == task.fence


def _due(moment: Moment) -> list[Answer]:
    found = due_from(moment, moment.caller)[:MOST_LISTED]
    return [verdict_due(moment, task, gate) for task, gate in found]


def status(moment: Moment, act: ShowStatus) -> Answer:
    row = moment.one("SELECT id, epoch, created_at, paused_at, pause_reason FROM workspace_self")
    assert row is not None
    id, epoch, created_at, paused_at, reason = row
    return absent_dropped(
        workspace=id,
        epoch=epoch,
        created_at=rfc3339(created_at),
        now=rfc3339(moment.now),
        paused=paused_at is not None,
        pause_reason=reason,
        agents=_count(moment, "identity_agents"),
        senders=_count(moment, "identity_senders"),
        messages=_count(moment, "mail_messages"),
        open_deliveries=_sum_open(moment),
        claims=_count(moment, "claims_held", "expires_at > ?", moment.now),
        waiting=_count(moment, "claims_waiting", "lease > ?", moment.now),
        tasks=_count(moment, "work_tasks", "ended IS NULL"),
        blockers=_count(moment, "work_blockers", STANDING),
        refusals=_count(moment, "refusals"),
    )


def _count(moment: Moment, table: str, where: str = "1", *bindings: int) -> int:
    row = moment.one(f"SELECT count(*) FROM {table} WHERE {where}", *bindings)
    return int(row[0]) if row else 0


def _sum_open(moment: Moment) -> int:
    row = moment.one("SELECT coalesce(sum(open), 0) FROM mail_boxes")
    return int(row[0]) if row else 0
