"""What needs a person, over all rooms, each with the command to type."""

from interlock.contracts.acts import Review
from interlock.contracts.addresses import address, near
from interlock.contracts.encoding import decode
from interlock.contracts.times import rfc3339
from interlock.errors import MissingScope
from interlock.kernel.identity import names
from interlock.kernel.identity.names import agent_of
from interlock.kernel.moment import Answer, Moment, absent_dropped
from interlock.kernel.work.blockers import may_see
from interlock.kernel.work.holders import holders
from interlock.kernel.work.needs import due, half_judged, to_resolve, verdict_due
from interlock.kernel.work.records import (
    STANDING,
    Blocker,
    Task,
    blocker_view,
    blockers,
    tasks,
    workers,
)


def review(moment: Moment, act: Review) -> Answer:
    """For people, and for whoever may do everything."""
    caller = moment.caller
    if caller.kind != "human" and "admin" not in caller.scopes:
        raise MissingScope(
            "review is for a person, or for a token with the scope admin.", scope="admin"
        )
    since = moment.now - act.since_s * 1000
    return {
        "verdicts_due": _verdicts(moment),
        "blockers": _blockers(moment),
        "unanswered": _unanswered(moment, since),
        "expired": _expired(moment, since),
        "unknown_recipients": _unknown(moment),
        "dead_holders": _dead(moment, since),
        "refusals": _refused(moment, since),
    }


def _verdicts(moment: Moment) -> list[Answer]:
    return [_verdict(moment, task, gate) for task, gate in [*due(moment), *half_judged(moment)]]


def _verdict(moment: Moment, task: Task, gate: str) -> Answer:
    able = [address(name) for name in holders(moment, gate)]
    wanted = verdict_due(moment, task, gate) | {"holders": able}
    return wanted | {"do": _by_its_doer(moment, wanted["do"], task, gate)}


def _by_its_doer(moment: Moment, do: str, task: Task, gate: str) -> str:
    """A verdict is a holder's, and a submission the worker's."""
    if do.startswith("interlock gate pass "):
        own = workers(moment, task.id)
        able = holders(moment, gate)
        return _as(moment, [who for who in able if agent_of(moment.state, who) not in own], do)
    if do.startswith("interlock task submit ") and task.worker is not None:
        return _as(moment, [task.worker], do)
    return do


def _as(moment: Moment, senders: list[str], do: str) -> str:
    """The owner is no sender, and has to say as whom to do what only a sender can."""
    return f"{do} --from {senders[0]}" if moment.caller.owner and senders else do


def _blockers(moment: Moment) -> list[Answer]:
    return [
        blocker_view(moment, found) | {"do": _to_resolve(moment, found)}
        for found in blockers(moment, STANDING)
        if may_see(moment, found)
    ]


def _to_resolve(moment: Moment, found: Blocker) -> str:
    task = _task(moment, found.task)
    do = to_resolve(moment, found, task)
    if task is None or found.gate is None:
        return _as(moment, [found.sender], do)
    return _by_its_doer(moment, do, task, found.gate)


def _task(moment: Moment, id: str | None) -> Task | None:
    return next(iter(tasks(moment, "id = ?", id)), None)


def _unanswered(moment: Moment, since: int) -> list[Answer]:
    rows = moment.all(
        "SELECT m.id, m.seq, m.sender, m.recipient, m.at, a.due_at FROM mail_asks a "
        "JOIN mail_messages m USING (seq) WHERE a.answer IS NULL AND m.at > ? ORDER BY m.seq",
        since,
    )
    return [
        absent_dropped(
            id=id,
            seq=seq,
            **{"from": address(sender)},
            to=to,
            at=rfc3339(at),
            overdue=True if due_at is not None and due_at <= moment.now else None,
            do=_to_answer(moment, id, to, sender),
        )
        for id, seq, sender, to, at, due_at in rows
    ]


def _to_answer(moment: Moment, id: str, to: str, asker: str) -> str:
    """Whoever was asked answers; anybody else can remind them."""
    if to in (address(moment.caller.sender), address(moment.caller.agent)):
        return f"interlock answer {id} TEXT"
    return _as(moment, [asker], f"interlock send '{to}' 'Please answer {id}' --type wake")


def _expired(moment: Moment, since: int) -> list[Answer]:
    rows = moment.all(
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


def _unknown(moment: Moment) -> list[Answer]:
    """Names to which mail is kept and as which nobody has joined."""
    known = names.names(moment.state)
    rows = moment.all(
        "SELECT b.recipient, b.open, m.id FROM mail_boxes b JOIN mail_messages m ON m.seq = "
        "(SELECT max(seq) FROM mail_deliveries d WHERE d.recipient = b.recipient AND closed = 0) "
        "WHERE b.open > 0 AND b.recipient NOT IN "
        "(SELECT sender FROM identity_senders UNION SELECT name FROM identity_agents) "
        "ORDER BY b.recipient"
    )
    return [_astray(moment, name, count, last, near(name, known)) for name, count, last in rows]


def _astray(moment: Moment, name: str, count: int, last: str, meant: list[str] | None) -> Answer:
    """A name that is meant joins; what was mistyped is somebody's to send again."""
    is_mistyped = meant or not names.may_join(moment, name)
    do = f"interlock explain {last}" if is_mistyped else f"interlock join {name}"
    return absent_dropped(to=address(name), open=count, did_you_mean=meant, do=do)


def _dead(moment: Moment, since: int) -> list[Answer]:
    """Leases that ended without a release, on what nobody has taken since."""
    rows = moment.all(
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


def _refused(moment: Moment, since: int) -> list[Answer]:
    rows = moment.all(
        "SELECT seq, at, sender, code, token FROM refusals WHERE at > ? ORDER BY seq", since
    )
    return [
        absent_dropped(
            seq=seq,
            at=rfc3339(at),
            sender=address(sender),
            code=code,
            token=token,
            do=f"interlock audit show --after {seq - 1} --limit 1",
        )
        for seq, at, sender, code, token in rows
    ]
