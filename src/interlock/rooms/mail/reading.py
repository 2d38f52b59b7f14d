"""Reading: the inbox, receipts, the identity behind a message, expiry, and undeliverable mail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.errors import message as joined
from interlock.log.times import rfc3339
from interlock.rooms.identity.labels import Known, remedy, ways_out
from interlock.rooms.identity.names import agent_of, is_known
from interlock.rooms.identity.tokens import show_token
from interlock.rooms.mail.fold import LADDER, UNREAD
from interlock.rooms.mail.records import (
    Message,
    by_seq,
    counts,
    envelope,
    listed,
    load,
    locate,
    mailboxes,
    messages,
    readable,
    standing,
)
from interlock.rooms.mail.sending import notify
from interlock.rooms.people.connections import behind
from interlock.rooms.transaction import SYSTEM, Transaction, is_paused
from interlock.verbs.addresses import address
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock.rooms.mail import answers, verbs

SWEPT_AT_ONCE = 200
# The newest messages are enough to report the problem.
MAX_EXAMINED = 200


def inbox(tx: Transaction, request: verbs.ListInbox) -> answers.Inbox:
    """List mail of the caller, oldest first. Mark received mail that was not shown before as
    shown."""
    rows: list[Any]
    shown: list[Any]
    if request.which == "sent":
        sent = "sender = ? AND seq > ? ORDER BY seq LIMIT ?"
        rows = messages(tx, sent, tx.caller.sender, request.after, request.limit + 1)
        shown = rows[: request.limit]
        mail = [listed(tx, one) | {"deliveries": receipts_of(tx, one)} for one in shown]
    else:
        # Without the hint SQLite uses the primary key, and scans all the closed mail.
        source, only_open = "mail_deliveries", ""
        if request.which == "open":
            source, only_open = "mail_deliveries INDEXED BY mail_open", "AND closed = 0"
        found: dict[int, tuple[Any, ...]] = {}
        for name in dict.fromkeys(mailboxes(tx.caller)):
            for row in tx.all(
                f"SELECT seq, recipient, state, taken_by FROM {source} "
                f"WHERE recipient = ? AND seq > ? {only_open} ORDER BY seq LIMIT ?",
                name,
                request.after,
                request.limit + 1,
            ):
                found.setdefault(row[0], row)
        rows = [found[seq] for seq in sorted(found)]
        shown = rows[: request.limit]
        items = [[seq, name] for seq, name, state, _ in shown if LADDER[state] < LADDER["shown"]]
        if items and not is_paused(tx.state):
            tx.append_if_writable(
                "mail_moved", without_none(state="shown", items=items, adapter=request.adapter)
            )
        mail = [
            listed(tx, by_seq(tx, seq), taken_by if taken_by != tx.caller.sender else None)
            for seq, _, _, taken_by in shown
        ]
    answer: answers.Inbox = {"messages": mail} | counts(tx)
    if len(rows) > request.limit:
        answer["next"] = shown[-1][0]
    return answer


def receipts_of(tx: Transaction, message: Message) -> list[answers.Receipt]:
    found: dict[str, answers.Receipt] = {}
    for name, state in standing(tx, message):
        first: Any = {"state": "accepted", "at": rfc3339(message.at)}
        receipt: Any = {"recipient": address(name), "state": state, "history": [first]}
        found[name] = receipt
    for name, fact, state, at, by, adapter in tx.all(
        "SELECT recipient, fact, state, at, by, adapter FROM mail_receipts WHERE seq = ? "
        "ORDER BY fact",
        message.seq,
    ):
        note = tx.store.body(fact) if state in ("acked", "declined") else None
        step = without_none(
            state=state,
            at=rfc3339(at),
            by=address(by) if by is not None else None,
            adapter=adapter,
            note=readable(note, fact).get("note") if note is not None else None,
        )
        found[name]["history"].append(step)
    for name, adapter, at, outcome, why in tx.all(
        "SELECT recipient, adapter, at, outcome, why FROM mail_wakes WHERE seq = ? ORDER BY at, id",
        message.seq,
    ):
        tried = without_none(adapter=adapter, at=rfc3339(at), outcome=outcome or "begun", why=why)
        found[name].setdefault("wakes", []).append(tried)
    return list(found.values())


def explain(tx: Transaction, request: verbs.Explain) -> answers.Story:
    """Show the identity behind a message: the token with its label and its minting, and the
    connection with its person. Say whether the label contradicts the sender."""
    message = locate(tx, request.message)
    story: answers.Story = {
        "message": envelope(message, load(tx, message)),
        "sender": address(message.sender),
        "agent": agent_of(tx.state, message.sender),
    }
    if message.session is not None:
        story["session"] = message.session
    if message.token is not None:
        story["token"] = token = show_token(tx, message.token)
        if (connection := behind(tx, message.token)) is not None:
            story["connection"] = connection
        id, sender, label = token["id"], token["sender"], token.get("label")
        known = Known(tx.state)
        if label is not None and (wrong := known.contradiction(sender, label)):
            ways = ways_out(tx, known, id, sender, label, token["seq"])
            story["contradiction"] = joined(wrong, ways)
            story["do"] = remedy(id, sender)
    return story


# --- mail that expires


# Whether mail has expired that `sweep` must close.
IS_DUE = (
    "SELECT 1 FROM mail_deliveries WHERE closed = 0 AND expires_at IS NOT NULL "
    "AND expires_at <= ? LIMIT 1"
)


def sweep(tx: Transaction) -> None:
    """Close the mail that expired unread, and tell its senders."""
    due = tx.all(
        "SELECT seq, recipient FROM mail_deliveries WHERE closed = 0 "
        "AND expires_at IS NOT NULL AND expires_at <= ? ORDER BY expires_at, seq, recipient "
        "LIMIT ?",
        tx.now,
        SWEPT_AT_ONCE,
    )
    if not due:
        return
    tx.append("mail_moved", {"state": "expired", "items": [[seq, to] for seq, to in due]})
    for seq, recipient in due:
        message = by_seq(tx, seq)
        if message.sender != SYSTEM:
            notify(
                tx,
                message.sender,
                f"Your message {message.id} to {address(recipient)} expired unread at "
                f"{rfc3339(message.expires_at or tx.now)}.",
                about=message,
            )


# --- mail to unregistered names


def undeliverable(tx: Transaction, name: str) -> list[Message]:
    """The open messages to an unregistered name that still need attention, newest first.

    A message needs no more attention in two cases. Its sender sent it again, replied to it or
    continued its thread, with a registered recipient. Or a later message to its sender names it.
    Other mail from the sender to the intended name does not count."""
    lost = _newest(
        tx,
        "SELECT d.seq FROM mail_deliveries d INDEXED BY mail_open WHERE d.recipient = ? "
        f"AND closed = 0 AND state IN {UNREAD} AND d.seq > ? ORDER BY d.seq DESC LIMIT ?",
        name,
    )
    return [message for message in lost if not _is_handled(tx, message)]


def _is_handled(tx: Transaction, lost: Message) -> bool:
    body = load(tx, lost) or {}
    for later in _newest(
        tx,
        "SELECT seq FROM mail_messages WHERE sender = ? AND seq > ? ORDER BY seq DESC LIMIT ?",
        lost.sender,
        lost.seq,
    ):
        if is_known(tx.state, later.to.removeprefix("@")):
            if lost.id in (later.reply_to, later.thread):
                return True
            other = load(tx, later) or {}
            for member in ("sha256", "subject"):
                if body.get(member) is not None and body.get(member) == other.get(member):
                    return True
    for name in sorted({lost.sender, agent_of(tx.state, lost.sender)}):
        for later in _newest(
            tx,
            "SELECT seq FROM mail_deliveries WHERE recipient = ? AND seq > ? "
            "ORDER BY seq DESC LIMIT ?",
            name,
            lost.seq,
        ):
            if lost.id in str((load(tx, later) or {}).get("payload")):
                return True
    return False


def _newest(tx: Transaction, select: str, name: str, after: int = 0) -> Iterator[Message]:
    for (seq,) in tx.all(select, name, after, MAX_EXAMINED):
        yield by_seq(tx, seq)
