"""Waking: which mail may wake an agent, when, and how often. The whole policy is here.

Interlock tells a working agent of all new mail at its next step. It wakes an idle agent only for
direct mail, or for mail whose sender requests it. It does not wake an agent that is muted, that it
woke within the quiet time, or whose new mail is older than an hour. It tells an agent of each
delivery once. The delivery's receipt `woken` names the adapter.
"""

from typing import NamedTuple

from interlock.rooms.identity.names import agent_of, is_muted
from interlock.rooms.mail.fold import LADDER
from interlock.rooms.mail.records import Message, by_seq, listed, mailboxes
from interlock.rooms.transaction import Caller, RuleAnswer, Transaction, is_paused
from interlock.verbs.answers import without_none

OLD_MS = 60 * 60_000
SETTLED_MS = 3_000
DOUBTFUL_MS = 60_000
MAX_TRIES = 3
MAX_DELIVERIES_OF_MAILBOX = 100
MAX_HANDED_OVER = 5
HANDED_OVER_BYTES = 1000
# After five to eight stops in a row that a hook prevented, clients stop anyway and lose the mail.
MAX_IN_A_ROW = 4
URGENT_TYPES = ("ask", "blocker", "command", "wake")
URGENT_PRIORITIES = ("high", "critical")

# New deliveries, without those of a wake that is in progress or succeeded.
_NEW = """
    SELECT seq, state FROM mail_deliveries d INDEXED BY mail_new
    WHERE recipient = ?1 AND state = 'accepted' AND closed = 0 AND NOT EXISTS
        (SELECT 1 FROM mail_wakes w WHERE w.seq = d.seq AND w.recipient = ?1
         AND coalesce(outcome, 'begun') NOT IN ('failed', 'unknown'))
    ORDER BY seq LIMIT ?2"""
# Whether a message may wake: by default a direct message may, and a broadcast may not.
_WAKES = "coalesce(m.wake, m.recipient LIKE '@%')"
# New deliveries after a position whose message may wake. Without deliveries that have too many
# attempts, or an attempt that is in progress, succeeded or has an unknown outcome.
_MAY_WAKE = f"""
    SELECT d.seq, d.state FROM mail_deliveries d INDEXED BY mail_new
    JOIN mail_messages m USING (seq)
    WHERE d.recipient = ?1 AND d.seq > ?3 AND d.state = 'accepted' AND closed = 0
        AND {_WAKES}
        AND NOT EXISTS (SELECT 1 FROM mail_wakes w WHERE w.seq = d.seq AND w.recipient = ?1
                        AND coalesce(outcome, 'begun') <> 'failed')
        AND (SELECT count(*) FROM mail_wakes w WHERE w.seq = d.seq AND w.recipient = ?1) < ?4
    ORDER BY d.seq LIMIT ?2"""
# Urgent mail that was not shown yet. If ?3 is 1, also unresolved blockers that were shown.
_URGENT = f"""
    SELECT d.seq, d.state FROM mail_deliveries d INDEXED BY mail_open
    JOIN mail_messages m USING (seq)
    WHERE d.recipient = ?1 AND closed = 0
        AND (type IN {URGENT_TYPES} OR priority IN {URGENT_PRIORITIES})
        AND (state IN ('accepted', 'woken') OR (?3 AND EXISTS
             (SELECT 1 FROM work_blockers b WHERE b.id = m.id AND b.resolved IS NULL)))
    ORDER BY d.seq LIMIT ?2"""


class Delivery(NamedTuple):
    """A message in one of the caller's mailboxes."""

    seq: int
    recipient: str
    state: str


# --- a working agent


def point(tx: Transaction, adapter: str) -> list[Message]:
    """Return the caller's new mail, and mark it as woken. It includes mail of a wake with an
    unknown outcome: no adapter repeats that wake, but the agent is working now."""
    return _told(tx, _found(tx, tx.caller, _NEW), adapter)


def hand_over(tx: Transaction, adapter: str, held: int) -> list[RuleAnswer]:
    """Return the messages that cannot wait until the caller's next prompt. Urgent mail is returned
    once. A blocker is returned at each stop until it is resolved or acknowledged."""
    if held >= MAX_IN_A_ROW or is_paused(tx.state):
        return []
    found = _found(tx, tx.caller, _URGENT, int(not held))[:MAX_HANDED_OVER]
    _mark(tx, "woken", [d for d in found if d.state == "accepted"], adapter)
    _mark(tx, "shown", [d for d in found if LADDER[d.state] < LADDER["shown"]], adapter)
    return [listed(tx, by_seq(tx, d.seq), max_bytes=HANDED_OVER_BYTES) for d in found]


# --- an idle agent


def may_wake(tx: Transaction, message: Message, recipient: str) -> bool:
    """Whether the sender's choice and the recipient's mute allow the message to wake it."""
    wakes = tx.value(f"SELECT {_WAKES} FROM mail_messages m WHERE seq = ?", message.seq)
    return bool(wakes) and not is_muted(tx, (recipient, agent_of(tx.state, recipient)))


def wake(tx: Transaction, adapter: str) -> list[Message]:
    """Return the mail that may wake the caller now, and mark it as woken. The caller waits for
    it."""
    return _told(tx, _waking(tx, tx.caller, fresh_since(tx)), adapter)


def would_wake(tx: Transaction, sleeper: Caller, since: int) -> bool:
    """Whether mail after a position may wake the sender, and is a few seconds old. In these seconds
    the sender's own client may notice the mail."""
    found = [by_seq(tx, delivery.seq) for delivery in _waking(tx, sleeper, since)]
    return any(tx.now - message.at >= SETTLED_MS for message in found)


def begin(tx: Transaction, sleeper: Caller, adapter: str) -> tuple[str, list[Message]] | None:
    """Record that an adapter begins to wake an idle sender. Return None if no mail may wake it. No
    other adapter tries until the wake ends, nor after an unknown outcome."""
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
    """Record the outcome of a wake (`woken`, `failed` or `unknown`), unless it has one."""
    row = tx.one("SELECT adapter FROM mail_wakes WHERE id = ? AND outcome IS NULL", id)
    if row is not None:
        ended = {"id": id, "sender": sender, "adapter": row[0], "outcome": outcome}
        tx.append("wake_ended", ended | without_none(why=why))


# Whether a wake has no outcome after its time limit: see `sweep`.
IS_DUE = "SELECT 1 FROM mail_wakes WHERE outcome IS NULL AND due <= ? LIMIT 1"


def sweep(tx: Transaction) -> None:
    """Record an unknown outcome for wakes whose process died before it recorded one."""
    for id, recipient in tx.all(
        "SELECT DISTINCT id, min(recipient) FROM mail_wakes WHERE outcome IS NULL AND due <= ? "
        "GROUP BY id ORDER BY id",
        tx.now,
    ):
        end(tx, id, recipient, "unknown")


def fresh_since(tx: Transaction) -> int:
    """The position after which mail is new enough to wake an agent."""
    last_old = "SELECT seq FROM mail_messages WHERE at < ? ORDER BY seq DESC LIMIT 1"
    return tx.value(last_old, tx.now - OLD_MS) or 0


def _waking(tx: Transaction, sleeper: Caller, since: int) -> list[Delivery]:
    """The deliveries that may wake the sender now: none while it is muted or in its quiet time."""
    found = _found(tx, sleeper, _MAY_WAKE, since, MAX_TRIES)
    names = mailboxes(sleeper)
    if not found or is_muted(tx, names):
        return []
    woken_at = tx.value("SELECT max(woken_at) FROM mail_boxes WHERE recipient IN (?, ?)", *names)
    quiet_ms = int(tx.setting("wake.quiet_s")) * 1000
    return [] if woken_at is not None and tx.now - woken_at < quiet_ms else found


def _found(tx: Transaction, caller: Caller, sql: str, *more: int) -> list[Delivery]:
    found: dict[int, Delivery] = {}
    for name in dict.fromkeys(mailboxes(caller)):
        for seq, state in tx.all(sql, name, MAX_DELIVERIES_OF_MAILBOX, *more):
            found.setdefault(seq, Delivery(seq, name, state))
    return [found[seq] for seq in sorted(found)]


def _told(tx: Transaction, found: list[Delivery], adapter: str) -> list[Message]:
    """Mark the deliveries as woken, and return their messages. Return none while the workspace is
    paused, because a paused workspace accepts no marks."""
    if not found or is_paused(tx.state):
        return []
    _mark(tx, "woken", found, adapter)
    return [by_seq(tx, delivery.seq) for delivery in found]


def _mark(tx: Transaction, state: str, found: list[Delivery], adapter: str) -> None:
    if found:
        items = [[delivery.seq, delivery.recipient] for delivery in found]
        tx.append_if_writable("mail_moved", {"state": state, "items": items, "adapter": adapter})
