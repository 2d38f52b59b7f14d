"""Reading: the inbox, receipts, threads, search, and the story behind a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.errors import NotFound
from interlock.log.encoding import canonical
from interlock.log.times import rfc3339
from interlock.rooms.identity.labels import Known, remedy, ways_out
from interlock.rooms.identity.names import agent_of
from interlock.rooms.identity.tokens import show_token
from interlock.rooms.mail.fold import LADDER, UNREAD
from interlock.rooms.mail.records import (
    COLUMNS,
    Message,
    by_seq,
    content,
    envelope,
    listed,
    load,
    locate,
    mailboxes,
    readable,
    received,
    sent_by,
    standing,
)
from interlock.rooms.mail.sending import notify
from interlock.rooms.mail.waking import attempts
from interlock.rooms.people.connections import behind
from interlock.rooms.transaction import SYSTEM, RuleAnswer, Transaction
from interlock.rooms.workspace.rules import is_paused
from interlock.verbs.addresses import address
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.rooms.mail.verbs import (
        AckMessages,
        Explain,
        ListInbox,
        ListMail,
        ReadMessage,
        ShowReceipts,
    )

SWEPT_AT_ONCE = 200


def inbox(tx: Transaction, act: ListInbox) -> RuleAnswer:
    """Mail of the caller, oldest first. Listing open mail marks it as shown, once."""
    if act.which == "sent":
        return _sent(tx, act)
    rows = _delivered(tx, act)
    more = len(rows) > act.limit
    rows = rows[: act.limit]
    _mark_shown(tx, rows, act.adapter)
    messages = [listed(tx, by_seq(tx, seq), _taken(tx, taken_by)) for seq, _, _, taken_by in rows]
    answer = {"messages": messages} | counts(tx)
    return answer | ({"next": rows[-1][0]} if more else {})


def _delivered(tx: Transaction, act: ListInbox) -> list[tuple[int, str, str, str | None]]:
    """(seq, recipient, state, taken_by) from both mailboxes, one more than the limit."""
    # Left to itself SQLite takes the primary key, and steps over all the closed mail.
    source, only_open = "mail_deliveries", ""
    if act.which == "open":
        source, only_open = "mail_deliveries INDEXED BY mail_open", "AND closed = 0"
    found: dict[int, tuple[int, str, str, str | None]] = {}
    for name in dict.fromkeys(mailboxes(tx.caller)):
        for row in tx.all(
            f"SELECT seq, recipient, state, taken_by FROM {source} "
            f"WHERE recipient = ? AND seq > ? {only_open} ORDER BY seq LIMIT ?",
            name,
            act.after,
            act.limit + 1,
        ):
            found.setdefault(row[0], (row[0], row[1], row[2], row[3]))
    return [found[seq] for seq in sorted(found)][: act.limit + 1]


def _mark_shown(
    tx: Transaction, rows: list[tuple[int, str, str, str | None]], adapter: str | None
) -> None:
    items = [[seq, name] for seq, name, state, _ in rows if LADDER[state] < LADDER["shown"]]
    if items and not is_paused(tx.state):
        tx.append_if_writable(
            "mail_moved", without_none(state="shown", items=items, adapter=adapter)
        )


def _taken(tx: Transaction, taken_by: str | None) -> str | None:
    return taken_by if taken_by != tx.caller.sender else None


def counts(tx: Transaction) -> RuleAnswer:
    rows = tx.all(
        "SELECT open, unread FROM mail_boxes WHERE recipient IN (?, ?)", *mailboxes(tx.caller)
    )
    return {"open": sum(row[0] for row in rows), "unread": sum(row[1] for row in rows)}


def list_mail(tx: Transaction, act: ListMail) -> RuleAnswer:
    """The newest messages of the workspace, newest first, with how far each got. What they say is
    shown to the owner alone: a scope lets nobody read another's mail."""
    if act.message is not None:
        found = [locate(tx, act.message, of_all=True)]
    else:
        newest = f"SELECT {COLUMNS} FROM mail_messages ORDER BY seq DESC LIMIT ?"
        found = [Message(*row) for row in tx.all(newest, act.limit)]
    messages = []
    for message in found:
        shown = listed(tx, message) if tx.caller.owner else envelope(message, None)
        messages.append(shown | {"deliveries": _deliveries(tx, message.seq)})
    return {"messages": messages}


def _sent(tx: Transaction, act: ListInbox) -> RuleAnswer:
    rows = tx.all(
        "SELECT seq FROM mail_messages WHERE sender = ? AND seq > ? ORDER BY seq LIMIT ?",
        tx.caller.sender,
        act.after,
        act.limit + 1,
    )
    kept = rows[: act.limit]
    messages = [
        listed(tx, by_seq(tx, seq)) | {"deliveries": _deliveries(tx, seq)} for (seq,) in kept
    ]
    answer = {"messages": messages} | counts(tx)
    return answer | ({"next": kept[-1][0]} if len(rows) > len(kept) else {})


def read(tx: Transaction, act: ReadMessage) -> RuleAnswer:
    """One message, whole or a range of it. The first surface that reads takes it."""
    message = locate(tx, act.message)
    for name, state, _, _ in received(tx, message):
        if state in UNREAD and not is_paused(tx.state):
            tx.append_if_writable("mail_moved", {"state": "read", "items": [[message.seq, name]]})
    taken_by = next((taken for _, _, taken, _ in received(tx, message) if taken), None)
    body = load(tx, message)
    shown = envelope(message, body, _taken(tx, taken_by))
    if body is not None:
        shown |= content(tx, message, body, act.start or 0, act.stop)
    if sent_by(tx, message):
        shown["deliveries"] = _deliveries(tx, message.seq)
    return shown


def ack(tx: Transaction, act: AckMessages) -> RuleAnswer:
    """Says that messages are handled, or declines them. Nobody is woken by it.

    All or none: one message that is not the caller's refuses the act."""
    state = "declined" if act.decline else "acked"
    done: list[Message] = []
    items: list[list[Any]] = []
    for reference in act.messages:
        message = locate(tx, reference)
        mine = received(tx, message)
        if not mine:
            raise NotFound(f"There is no message {reference[:80]!r} that was sent to you.")
        items += [[message.seq, name] for name, _, _, closed in mine if not closed]
        done.append(message)
    unique = [list(item) for item in dict.fromkeys(tuple(item) for item in items)]
    if unique:
        note = canonical({"note": act.note}) if act.note is not None else None
        tx.append("mail_moved", {"state": state, "items": unique}, note)
    return _by_state(tx, done)


def _by_state(tx: Transaction, done: list[Message]) -> RuleAnswer:
    """Where the caller's deliveries stand now: what was acked before stays acked."""
    answer: RuleAnswer = {}
    for message in done:
        stands = received(tx, message)[0][1]
        answer.setdefault(stands, []).append(message.id)
    return answer


def receipts(tx: Transaction, act: ShowReceipts) -> RuleAnswer:
    message = locate(tx, act.message)
    if not (sent_by(tx, message) or tx.caller.owner):
        mine = {name for name, _, _, _ in received(tx, message)}
        shown = [d for d in _deliveries(tx, message.seq) if d["recipient"][1:] in mine]
        return {"id": message.id, "deliveries": shown}
    return {"id": message.id, "deliveries": _deliveries(tx, message.seq)}


def _deliveries(tx: Transaction, seq: int) -> list[RuleAnswer]:
    message = by_seq(tx, seq)
    rows = standing(tx, message)
    history: dict[str, list[RuleAnswer]] = {
        name: [{"state": "accepted", "at": rfc3339(message.at)}] for name, _ in rows
    }
    for name, fact, state, at, by, adapter in tx.all(
        "SELECT recipient, fact, state, at, by, adapter FROM mail_receipts WHERE seq = ? "
        "ORDER BY fact",
        seq,
    ):
        history[name].append(
            without_none(
                state=state,
                at=rfc3339(at),
                by=address(by) if by is not None else None,
                adapter=adapter,
                note=_note(tx, fact) if state in ("acked", "declined") else None,
            )
        )
    woken = attempts(tx, seq)
    return [
        {"recipient": address(name), "state": state, "history": history[name]}
        | ({"wakes": woken[name]} if name in woken else {})
        for name, state in rows
    ]


def _note(tx: Transaction, fact: int) -> str | None:
    stored = tx.store.body(fact)
    return readable(stored, fact).get("note") if stored is not None else None


def explain(tx: Transaction, act: Explain) -> RuleAnswer:
    """Who is behind a message, from the data: the token, its label, its sender, who minted it,
    when, and at which position of the log; a connection's client and its person; and whether the
    label says otherwise."""
    message = locate(tx, act.message)
    story: dict[str, Any] = {
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
            story |= {"contradiction": f"{wrong} {ways}", "do": remedy(id, sender)}
    return story


def is_due(tx: Transaction) -> bool:
    row = tx.one(
        "SELECT 1 FROM mail_deliveries WHERE closed = 0 AND expires_at IS NOT NULL "
        "AND expires_at <= ? LIMIT 1",
        tx.now,
    )
    return row is not None


def sweep(tx: Transaction) -> None:
    """Closes what expired before anybody read it, and tells the senders."""
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
