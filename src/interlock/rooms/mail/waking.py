"""Waking: whom a message may wake, when, and how often. The whole policy is here.

Whoever is at work is pointed to new mail at its next step, whatever mail that is. An idle one is
woken by what was sent to it directly, or asks for it; not by a broadcast, not while its name is
muted, not again within a quiet time, and not for what was already old when it was first seen.
Each delivery is told of once: by which adapter is its receipt `woken`.
"""

from typing import NamedTuple

from interlock.log.times import rfc3339
from interlock.rooms.identity.names import is_muted
from interlock.rooms.mail.fold import LADDER
from interlock.rooms.mail.records import Message, by_seq, listed, mailboxes
from interlock.rooms.transaction import Caller, RuleAnswer, Transaction
from interlock.rooms.workspace.rules import is_paused
from interlock.verbs.answers import without_none

OLD_MS = 60 * 60_000
SETTLED_MS = 3_000
DOUBTFUL_MS = 60_000
MAX_TRIES = 3
MAX_TOLD = 100
MAX_HANDED_OVER = 5
HANDED_OVER_BYTES = 1000
# Clients end a row of five to eight by themselves, and what is handed over then goes nowhere.
MAX_IN_A_ROW = 4
URGENT_TYPES = ("ask", "blocker", "command", "wake")
URGENT_PRIORITIES = ("high", "critical")


class Delivery(NamedTuple):
    """A message in one of the caller's mailboxes."""

    seq: int
    recipient: str
    state: str


# --- whoever is at work


def point(tx: Transaction, adapter: str) -> list[Message]:
    """The caller's mail that nobody surely told it of yet, marked as told. A wake in doubt is not
    repeated, but what it was for is not kept from somebody who is there."""
    return _told(tx, _found(tx, tx.caller, _NEW), adapter)


def hand_over(tx: Transaction, adapter: str, held: int) -> list[RuleAnswer]:
    """What should not wait until the caller is prompted again, whole: urgent mail, once; what
    blocks it, once a turn until it is resolved or acknowledged."""
    if held >= MAX_IN_A_ROW or is_paused(tx.state):
        return []
    found = _urgent(tx, with_blockers=not held)[:MAX_HANDED_OVER]
    _mark(tx, "woken", [d for d in found if d.state == "accepted"], adapter)
    _mark(tx, "shown", [d for d in found if LADDER[d.state] < LADDER["shown"]], adapter)
    return [listed(tx, by_seq(tx, d.seq), most=HANDED_OVER_BYTES) for d in found]


# --- whoever is idle


def wake(tx: Transaction, adapter: str) -> list[Message]:
    """The caller's mail that may wake it now, marked as told; for one who waits for it."""
    return _told(tx, _waking(tx, tx.caller, fresh_since(tx)), adapter)


def would_wake(tx: Transaction, sleeper: Caller, since: int) -> bool:
    """Whether there is mail after a position to wake it for, that nobody has told it of within a
    few seconds."""
    found = [by_seq(tx, delivery.seq) for delivery in _waking(tx, sleeper, since)]
    return any(tx.now - message.at >= SETTLED_MS for message in found)


def begin(tx: Transaction, sleeper: Caller, adapter: str) -> tuple[str, list[Message]] | None:
    """Begins to wake an idle sender by something that may fail or leave one in doubt; None where
    there is nothing to wake it for. Nobody else tries meanwhile, and nobody again in doubt."""
    found = _waking(tx, sleeper, fresh_since(tx))
    if not found:
        return None
    id = tx.new_id()
    tx.append(
        "wake_begun",
        {
            "id": id,
            "sender": sleeper.sender,
            "adapter": adapter,
            "items": [[delivery.seq, delivery.recipient] for delivery in found],
            "expires_at": tx.now + DOUBTFUL_MS,
        },
    )
    return id, [by_seq(tx, delivery.seq) for delivery in found]


def end(tx: Transaction, id: str, sender: str, outcome: str, why: str | None = None) -> None:
    """`woken`, `failed` or `unknown`, unless it has ended already."""
    row = tx.one("SELECT adapter FROM mail_wakes WHERE id = ? AND outcome IS NULL", id)
    if row is not None:
        ended = {"id": id, "sender": sender, "adapter": row[0], "outcome": outcome}
        tx.append("wake_ended", ended | without_none(why=why))


def is_due(tx: Transaction) -> bool:
    row = tx.one("SELECT 1 FROM mail_wakes WHERE outcome IS NULL AND due <= ? LIMIT 1", tx.now)
    return row is not None


def sweep(tx: Transaction) -> None:
    """Whoever began a wake and never said how it ended has died over it: it is in doubt."""
    for id, recipient in tx.all(
        "SELECT DISTINCT id, min(recipient) FROM mail_wakes WHERE outcome IS NULL AND due <= ? "
        "GROUP BY id ORDER BY id",
        tx.now,
    ):
        end(tx, id, recipient, "unknown")


def attempts(tx: Transaction, seq: int) -> dict[str, list[RuleAnswer]]:
    """For each recipient of a message the attempts to wake it, first to last."""
    found: dict[str, list[RuleAnswer]] = {}
    for recipient, adapter, at, outcome, why in tx.all(
        "SELECT recipient, adapter, at, outcome, why FROM mail_wakes WHERE seq = ? ORDER BY at, id",
        seq,
    ):
        told = without_none(adapter=adapter, at=rfc3339(at), outcome=outcome or "begun", why=why)
        found.setdefault(recipient, []).append(told)
    return found


def fresh_since(tx: Transaction) -> int:
    """The position after which mail is young enough to wake somebody."""
    row = tx.one(
        "SELECT seq FROM mail_messages WHERE at < ? ORDER BY seq DESC LIMIT 1", tx.now - OLD_MS
    )
    return int(row[0]) if row else 0


def _waking(tx: Transaction, sleeper: Caller, since: int) -> list[Delivery]:
    """The deliveries that may wake it now; none where it is to be left in peace."""
    found = _found(tx, sleeper, _MAY_WAKE, since, MAX_TRIES)
    if not found or is_muted(tx, mailboxes(sleeper)) or _is_quiet(tx, sleeper):
        return []
    return found


def _is_quiet(tx: Transaction, sleeper: Caller) -> bool:
    """Whether it was woken a moment ago: what came since then is told together, later."""
    row = tx.one(
        "SELECT max(woken_at) FROM mail_boxes WHERE recipient IN (?, ?)", *mailboxes(sleeper)
    )
    quiet_ms = int(tx.setting("wake.quiet_s")) * 1000
    return row is not None and row[0] is not None and tx.now - row[0] < quiet_ms


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


def _found(tx: Transaction, caller: Caller, sql: str, *more: int) -> list[Delivery]:
    found: dict[int, Delivery] = {}
    for name in dict.fromkeys(mailboxes(caller)):
        for seq, state in tx.all(sql, name, MAX_TOLD, *more):
            found.setdefault(seq, Delivery(seq, name, state))
    return [found[seq] for seq in sorted(found)]


def _urgent(tx: Transaction, *, with_blockers: bool) -> list[Delivery]:
    return _found(tx, tx.caller, _URGENT, int(with_blockers))


def _told(tx: Transaction, found: list[Delivery], adapter: str) -> list[Message]:
    """Nothing can be marked while the workspace is paused, and so nothing is told."""
    if not found or is_paused(tx.state):
        return []
    _mark(tx, "woken", found, adapter)
    return [by_seq(tx, delivery.seq) for delivery in found]


def _mark(tx: Transaction, state: str, found: list[Delivery], adapter: str) -> None:
    if found:
        items = [[delivery.seq, delivery.recipient] for delivery in found]
        tx.append_if_writable("mail_moved", {"state": state, "items": items, "adapter": adapter})
