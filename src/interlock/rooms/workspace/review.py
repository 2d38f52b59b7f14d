"""What needs a person, over all rooms, each with the command to type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.errors import MissingScope
from interlock.log.encoding import decode
from interlock.log.times import rfc3339
from interlock.rooms.identity import names
from interlock.rooms.identity.names import agent_of
from interlock.rooms.transaction import RuleAnswer, Transaction
from interlock.rooms.work.gates import may_see
from interlock.rooms.work.missing import due, half_judged, holders, to_resolve, verdict_due
from interlock.rooms.work.records import (
    STANDING,
    Blocker,
    Task,
    blocker_view,
    blockers,
    tasks,
    workers,
)
from interlock.verbs.addresses import address, near
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.rooms.workspace.verbs import Review


def review(tx: Transaction, act: Review) -> RuleAnswer:
    """For people, and for whoever may do everything."""
    caller = tx.caller
    if caller.kind != "human" and "admin" not in caller.scopes:
        raise MissingScope(
            "review is for a person, or for a token with the scope admin.", scope="admin"
        )
    since = tx.now - act.since_s * 1000
    return {
        "verdicts_due": _verdicts(tx),
        "blockers": _blockers(tx),
        "unanswered": _unanswered(tx, since),
        "expired": _expired(tx, since),
        "unknown_recipients": _unknown(tx),
        "dead_holders": _dead(tx, since),
        "refusals": _refused(tx, since),
    }


def _verdicts(tx: Transaction) -> list[RuleAnswer]:
    return [_verdict(tx, task, gate) for task, gate in [*due(tx), *half_judged(tx)]]


def _verdict(tx: Transaction, task: Task, gate: str) -> RuleAnswer:
    able = [address(name) for name in holders(tx, gate)]
    wanted = verdict_due(tx, task, gate) | {"holders": able}
    return wanted | {"do": _by_its_doer(tx, wanted["do"], task, gate)}


def _by_its_doer(tx: Transaction, do: str, task: Task, gate: str) -> str:
    """A verdict is a holder's, and a submission the worker's."""
    if do.startswith("interlock gate pass "):
        own = workers(tx, task.id)
        able = holders(tx, gate)
        return _as(tx, [who for who in able if agent_of(tx.state, who) not in own], do)
    if do.startswith("interlock task submit ") and task.worker is not None:
        return _as(tx, [task.worker], do)
    return do


def _as(tx: Transaction, senders: list[str], do: str) -> str:
    """The owner is no sender, and has to say as whom to do what only a sender can."""
    return f"{do} --from {senders[0]}" if tx.caller.owner and senders else do


def _blockers(tx: Transaction) -> list[RuleAnswer]:
    return [
        blocker_view(tx, found) | {"do": _to_resolve(tx, found)}
        for found in blockers(tx, STANDING)
        if may_see(tx, found)
    ]


def _to_resolve(tx: Transaction, found: Blocker) -> str:
    task = _task(tx, found.task)
    do = to_resolve(tx, found, task)
    if task is None or found.gate is None:
        return _as(tx, [found.sender], do)
    return _by_its_doer(tx, do, task, found.gate)


def _task(tx: Transaction, id: str | None) -> Task | None:
    return next(iter(tasks(tx, "id = ?", id)), None)


def _unanswered(tx: Transaction, since: int) -> list[RuleAnswer]:
    rows = tx.all(
        "SELECT m.id, m.seq, m.sender, m.recipient, m.at, a.due_at FROM mail_asks a "
        "JOIN mail_messages m USING (seq) WHERE a.answer IS NULL AND m.at > ? ORDER BY m.seq",
        since,
    )
    return [
        without_none(
            id=id,
            seq=seq,
            **{"from": address(sender)},
            to=to,
            at=rfc3339(at),
            overdue=True if due_at is not None and due_at <= tx.now else None,
            do=_to_answer(tx, id, to, sender),
        )
        for id, seq, sender, to, at, due_at in rows
    ]


def _to_answer(tx: Transaction, id: str, to: str, asker: str) -> str:
    """Whoever was asked answers; anybody else can remind them."""
    if to in (address(tx.caller.sender), address(tx.caller.agent)):
        return f"interlock answer {id} TEXT"
    return _as(tx, [asker], f"interlock send '{to}' 'Please answer {id}' --type wake")


def _expired(tx: Transaction, since: int) -> list[RuleAnswer]:
    rows = tx.all(
        "SELECT m.id, m.seq, m.sender, r.recipient, r.at FROM mail_receipts r "
        "JOIN mail_messages m USING (seq) WHERE r.state = 'expired' AND r.at > ? "
        "ORDER BY r.at, m.seq, r.recipient",
        since,
    )
    return [
        {
            "id": id,
            "seq": seq,
            "from": address(sender),
            "to": address(to),
            "at": rfc3339(at),
            "do": f"interlock explain {id}",
        }
        for id, seq, sender, to, at in rows
    ]


def _unknown(tx: Transaction) -> list[RuleAnswer]:
    """Names to which mail is kept and as which nobody has joined."""
    known = names.names(tx.state)
    rows = tx.all(
        "SELECT b.recipient, b.open, m.id FROM mail_boxes b JOIN mail_messages m ON m.seq = "
        "(SELECT max(seq) FROM mail_deliveries d WHERE d.recipient = b.recipient AND closed = 0) "
        "WHERE b.open > 0 AND b.recipient NOT IN "
        "(SELECT sender FROM identity_senders UNION SELECT name FROM identity_agents) "
        "ORDER BY b.recipient"
    )
    return [_astray(tx, name, count, last, near(name, known)) for name, count, last in rows]


def _astray(
    tx: Transaction, name: str, count: int, last: str, meant: list[str] | None
) -> RuleAnswer:
    """A name that is meant joins; what was mistyped is somebody's to send again."""
    is_mistyped = meant or not names.may_join(tx, name)
    do = f"interlock explain {last}" if is_mistyped else f"interlock join {name}"
    return without_none(to=address(name), open=count, did_you_mean=meant, do=do)


def _dead(tx: Transaction, since: int) -> list[RuleAnswer]:
    """Leases that ended without a release, on what nobody has taken since."""
    rows = tx.all(
        "SELECT item, repo, paths, sender, at FROM claims_lapsed WHERE at > ? ORDER BY seq", since
    )
    return [
        {
            "on": _on(item, repo, paths),
            "holder": address(sender),
            "since": rfc3339(at),
            "do": f"interlock claim check --item {item}"
            if item is not None
            else f"interlock agents {sender}",
        }
        for item, repo, paths, sender, at in rows
    ]


def _on(item: str | None, repo: str | None, paths: str | None) -> str:
    return item if item is not None else f"{' '.join(decode(paths or '[]'))} in {repo}"


def _refused(tx: Transaction, since: int) -> list[RuleAnswer]:
    rows = tx.all(
        "SELECT seq, at, sender, code, token FROM refusals WHERE at > ? ORDER BY seq", since
    )
    return [
        without_none(
            seq=seq,
            at=rfc3339(at),
            sender=address(sender),
            code=code,
            token=token,
            do=f"interlock audit show --after {seq - 1} --limit 1",
        )
        for seq, at, sender, code, token in rows
    ]
