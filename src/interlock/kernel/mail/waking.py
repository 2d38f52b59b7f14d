"""Waking: whom a message may wake, when, and how often. The whole policy is here.

Whoever is at work is pointed to new mail at its next step, whatever mail that is. An idle one is
woken by what was sent to it directly, or asks for it; not by a broadcast, not while its name is
muted, not again within a quiet time, and not for what was already old when it was first seen.
Each delivery is told of once: by which adapter is its receipt `woken`.
"""

from typing import NamedTuple

from interlock.contracts.times import rfc3339
from interlock.kernel.identity.names import is_muted
from interlock.kernel.mail.folding import LADDER
from interlock.kernel.mail.messages import Message, by_seq, listed, mailboxes
from interlock.kernel.moment import Answer, Caller, Moment, absent_dropped
from interlock.kernel.workspace import is_paused

OLD_MS = 60 * 60_000
SETTLED_MS = 3_000
DOUBTFUL_MS = 60_000
MOST_TRIES = 3
MOST_TOLD = 100
MOST_HANDED_OVER = 5
HANDED_OVER_BYTES = 1000
# Clients end a row of five to eight by themselves, and what is handed over then goes nowhere.
MOST_IN_A_ROW = 4
URGENT_TYPES = ("ask", "blocker", "command", "wake")
URGENT_PRIORITIES = ("high", "critical")


class Delivery(NamedTuple):
    """A message in one of the caller's mailboxes."""

    seq: int
    recipient: str
    state: str


# --- whoever is at work


def point(moment: Moment, adapter: str) -> list[Message]:
    """The caller's mail that nobody surely told it of yet, marked as told. A wake in doubt is not
    repeated, but what it was for is not kept from somebody who is there."""
    return _told(moment, _found(moment, moment.caller, _NEW), adapter)


def hand_over(moment: Moment, adapter: str, held: int) -> list[Answer]:
    """What should not wait until the caller is prompted again, whole: urgent mail, once; what
    blocks it, once a turn until it is resolved or acknowledged."""
    if held >= MOST_IN_A_ROW or is_paused(moment.state):
        return []
    found = _urgent(moment, with_blockers=not held)[:MOST_HANDED_OVER]
    _mark(moment, "woken", [d for d in found if d.state == "accepted"], adapter)
    _mark(moment, "shown", [d for d in found if LADDER[d.state] < LADDER["shown"]], adapter)
    return [listed(moment, by_seq(moment, d.seq), most=HANDED_OVER_BYTES) for d in found]


# --- whoever is idle


def wake(moment: Moment, adapter: str) -> list[Message]:
    """The caller's mail that may wake it now, marked as told; for one who waits for it."""
    return _told(moment, _waking(moment, moment.caller, fresh_since(moment)), adapter)


def would_wake(moment: Moment, sleeper: Caller, since: int) -> bool:
    """Whether there is mail after a position to wake it for, that nobody has told it of within a
    few seconds."""
    found = [by_seq(moment, delivery.seq) for delivery in _waking(moment, sleeper, since)]
    return any(moment.now - message.at >= SETTLED_MS for message in found)


def begin(moment: Moment, sleeper: Caller, adapter: str) -> tuple[str, list[Message]] | None:
    """Begins to wake an idle sender by something that may fail or leave one in doubt; None where
    there is nothing to wake it for. Nobody else tries meanwhile, and nobody again in doubt."""
    found = _waking(moment, sleeper, fresh_since(moment))
    if not found:
        return None
    id = moment.new_id()
    moment.record(
        "wake_begun",
        {
            "id": id,
            "sender": sleeper.sender,
            "adapter": adapter,
            "items": [[delivery.seq, delivery.recipient] for delivery in found],
            "expires_at": moment.now + DOUBTFUL_MS,
        },
    )
    return id, [by_seq(moment, delivery.seq) for delivery in found]


def end(moment: Moment, id: str, sender: str, outcome: str, why: str | None = None) -> None:
    """`woken`, `failed` or `unknown`, unless it has ended already."""
    row = moment.one("SELECT adapter FROM mail_wakes WHERE id = ? AND outcome IS NULL", id)
    if row is not None:
        ended = {"id": id, "sender": sender, "adapter": row[0], "outcome": outcome}
        moment.record("wake_ended", ended | absent_dropped(why=why))


def is_due(moment: Moment) -> bool:
    row = moment.one(
        "SELECT 1 FROM mail_wakes WHERE outcome IS NULL AND due <= ? LIMIT 1", moment.now
    )
    return row is not None


def sweep(moment: Moment) -> None:
    """Whoever began a wake and never said how it ended has died over it: it is in doubt."""
    for id, recipient in moment.all(
        "SELECT DISTINCT id, min(recipient) FROM mail_wakes WHERE outcome IS NULL AND due <= ? "
        "GROUP BY id ORDER BY id",
        moment.now,
    ):
        end(moment, id, recipient, "unknown")


def attempts(moment: Moment, seq: int) -> dict[str, list[Answer]]:
    """For each recipient of a message the attempts to wake it, first to last."""
    found: dict[str, list[Answer]] = {}
    for recipient, adapter, at, outcome, why in moment.all(
        "SELECT recipient, adapter, at, outcome, why FROM mail_wakes WHERE seq = ? ORDER BY at, id",
        seq,
    ):
        told = absent_dropped(adapter=adapter, at=rfc3339(at), outcome=outcome or "begun", why=why)
        found.setdefault(recipient, []).append(told)
    return found


def fresh_since(moment: Moment) -> int:
    """The position after which mail is young enough to wake somebody."""
    row = moment.one(
        "SELECT seq FROM mail_messages WHERE at < ? ORDER BY seq DESC LIMIT 1", moment.now - OLD_MS
    )
    return int(row[0]) if row else 0


def _waking(moment: Moment, sleeper: Caller, since: int) -> list[Delivery]:
    """The deliveries that may wake it now; none where it is to be left in peace."""
    found = _found(moment, sleeper, _MAY_WAKE, since, MOST_TRIES)
    if not found or is_muted(moment, mailboxes(sleeper)) or _is_quiet(moment, sleeper):
        return []
    return found


def _is_quiet(moment: Moment, sleeper: Caller) -> bool:
    """Whether it was woken a moment ago: what came since then is told together, later."""
    row = moment.one(
        "SELECT max(woken_at) FROM mail_boxes WHERE recipient IN (?, ?)", *mailboxes(sleeper)
    )
    quiet_ms = int(moment.setting("wake.quiet_s")) * 1000
    return row is not None and row[0] is not None and moment.now - row[0] < quiet_ms


# --- both


# Deliveries that nobody was told of, and that nobody is just being told of.
_NEW = """
    SELECT seq, state FROM mail_deliveries d INDEXED BY mail_new
    WHERE recipient = ?1 AND state = 'accepted' AND closed = 0 AND NOT EXISTS
        (SELECT 1 FROM mail_wakes w WHERE w.seq = d.seq AND w.recipient = ?1
         AND coalesce(outcome, 'begun') NOT IN ('failed', 'unknown'))
    ORDER BY seq LIMIT ?2"""
# Those of them, after a position, that may wake somebody: what `messages.wakes` says, and not tried
# too often or with an end that nobody knows.
_MAY_WAKE = """
    SELECT d.seq, d.state FROM mail_deliveries d INDEXED BY mail_new
    JOIN mail_messages m USING (seq)
    WHERE d.recipient = ?1 AND d.seq > ?3 AND d.state = 'accepted' AND closed = 0
        AND coalesce(m.wake, m.recipient LIKE '@%')
        AND NOT EXISTS (SELECT 1 FROM mail_wakes w WHERE w.seq = d.seq AND w.recipient = ?1
                        AND coalesce(outcome, 'begun') <> 'failed')
        AND (SELECT count(*) FROM mail_wakes w WHERE w.seq = d.seq AND w.recipient = ?1) < ?4
    ORDER BY d.seq LIMIT ?2"""
# What nobody has read yet, and should not wait; and, where they are wanted, blockers that are open.
_URGENT = f"""
    SELECT d.seq, d.state FROM mail_deliveries d INDEXED BY mail_open
    JOIN mail_messages m USING (seq)
    WHERE d.recipient = ?1 AND closed = 0
        AND (type IN {URGENT_TYPES} OR priority IN {URGENT_PRIORITIES})
        AND (state IN ('accepted', 'woken') OR (?3 AND EXISTS
             (SELECT 1 FROM work_blockers b WHERE b.id = m.id AND b.resolved IS NULL)))
    ORDER BY d.seq LIMIT ?2"""


def _found(moment: Moment, caller: Caller, sql: str, *more: int) -> list[Delivery]:
    found: dict[int, Delivery] = {}
    for name in dict.fromkeys(mailboxes(caller)):
        for seq, state in moment.all(sql, name, MOST_TOLD, *more):
            found.setdefault(seq, Delivery(seq, name, state))
    return [found[seq] for seq in sorted(found)]


def _urgent(moment: Moment, *, with_blockers: bool) -> list[Delivery]:
    return _found(moment, moment.caller, _URGENT, int(with_blockers))


def _told(moment: Moment, found: list[Delivery], adapter: str) -> list[Message]:
    """Nothing can be marked while the workspace is paused, and so nothing is told."""
    if not found or is_paused(moment.state):
        return []
    _mark(moment, "woken", found, adapter)
    return [by_seq(moment, delivery.seq) for delivery in found]


def _mark(moment: Moment, state: str, found: list[Delivery], adapter: str) -> None:
    if found:
        items = [[delivery.seq, delivery.recipient] for delivery in found]
        moment.note("mail_moved", {"state": state, "items": items, "adapter": adapter})
