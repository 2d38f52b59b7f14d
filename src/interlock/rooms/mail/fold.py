"""The mail room's tables, and how facts change them.

A delivery's state only moves up the ladder, so receipts can arrive in any order, and a read message
never becomes unread. Each mailbox stores its counts of open and unread mail, so the cost of reading
them does not depend on the size of the inbox.
"""

from interlock.log.facts import Header
from interlock.rooms.identity.names import agent_of
from interlock.rooms.transaction import ADMINS, FactKind, FoldedState, everyone, sql_fold

# map: mail_messages    one row for each message, without its body; `deliveries` has its recipients
#      mail_deliveries  one row for each recipient; `taken_by` is the surface that read it first
#      mail_receipts    the history of a delivery after `accepted`
#      mail_boxes       the counts of each recipient name
#      mail_asks        questions, when they are due, and their first answer
#      mail_wakes       attempts to wake a recipient; after `due` the outcome is unknown
TABLES = """
CREATE TABLE mail_messages(seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, sender TEXT NOT NULL,
    recipient TEXT NOT NULL, type TEXT NOT NULL, thread TEXT NOT NULL, at INTEGER NOT NULL,
    priority TEXT NOT NULL, reply_to TEXT, expires_at INTEGER, hops INTEGER NOT NULL,
    nth INTEGER NOT NULL, token TEXT, session TEXT, redacted INTEGER NOT NULL,
    deliveries TEXT NOT NULL, wake INTEGER) STRICT;
CREATE INDEX mail_sent ON mail_messages(sender, seq);
CREATE INDEX mail_threads ON mail_messages(thread) WHERE thread <> id;
CREATE TABLE mail_deliveries(recipient TEXT NOT NULL, seq INTEGER NOT NULL, state TEXT NOT NULL,
    closed INTEGER NOT NULL, expires_at INTEGER, taken_by TEXT, PRIMARY KEY (recipient, seq))
    STRICT, WITHOUT ROWID;
CREATE INDEX mail_open ON mail_deliveries(recipient, seq) WHERE closed = 0;
CREATE INDEX mail_new ON mail_deliveries(recipient, seq) WHERE state = 'accepted';
CREATE INDEX mail_due ON mail_deliveries(expires_at)
    WHERE closed = 0 AND expires_at IS NOT NULL;
CREATE TABLE mail_receipts(seq INTEGER NOT NULL, recipient TEXT NOT NULL, fact INTEGER NOT NULL,
    state TEXT NOT NULL, at INTEGER NOT NULL, by TEXT, adapter TEXT,
    PRIMARY KEY (seq, recipient, fact)) STRICT, WITHOUT ROWID;
CREATE TABLE mail_boxes(recipient TEXT PRIMARY KEY, open INTEGER NOT NULL, unread INTEGER NOT NULL,
    woken_at INTEGER) STRICT, WITHOUT ROWID;
CREATE TABLE mail_asks(seq INTEGER PRIMARY KEY, due_at INTEGER, answer INTEGER) STRICT;
CREATE TABLE mail_wakes(seq INTEGER NOT NULL, recipient TEXT NOT NULL, id TEXT NOT NULL,
    adapter TEXT NOT NULL, at INTEGER NOT NULL, due INTEGER NOT NULL, outcome TEXT, why TEXT,
    PRIMARY KEY (seq, recipient, id)) STRICT, WITHOUT ROWID;
CREATE INDEX mail_wakes_begun ON mail_wakes(due) WHERE outcome IS NULL;
CREATE INDEX mail_wakes_ids ON mail_wakes(id);
"""

UNREAD = ("accepted", "woken", "shown")
LADDER = {"accepted": 0, "woken": 1, "shown": 2, "read": 3, "acked": 4, "declined": 4, "expired": 4}


def _fold_sent(state: FoldedState, fact: Header) -> None:
    outcome = fact.outcome
    expires_at = outcome.get("expires_at")
    # This is the most frequent fact, and SQLite binds positions faster than names.
    state.execute(
        "INSERT INTO mail_messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?)",
        (
            fact.seq,
            outcome["id"],
            fact.sender,
            outcome["to"],
            outcome["type"],
            outcome["thread"],
            fact.at,
            outcome["priority"],
            outcome.get("reply_to"),
            expires_at,
            outcome.get("hops", 0),
            outcome.get("nth", 0),
            fact.token,
            fact.session,
            " ".join(outcome["deliveries"]),
            int(outcome["wake"]) if "wake" in outcome else None,
        ),
    )
    for recipient in outcome["deliveries"]:
        state.execute(
            "INSERT INTO mail_deliveries VALUES (?, ?, 'accepted', 0, ?, NULL)",
            (recipient, fact.seq, expires_at),
        )
        state.execute(
            "INSERT INTO mail_boxes VALUES (?, 1, 1, NULL) "
            "ON CONFLICT DO UPDATE SET open = open + 1, unread = unread + 1",
            (recipient,),
        )
    if outcome["type"] == "ask":
        state.execute(
            "INSERT INTO mail_asks VALUES (?, ?, NULL)", (fact.seq, outcome.get("due_at"))
        )
    if "answers" in outcome:
        state.execute(
            "UPDATE mail_asks SET answer = ? WHERE seq = ? AND answer IS NULL",
            (fact.seq, outcome["answers"]),
        )


def _fold_moved(state: FoldedState, fact: Header) -> None:
    """Fold every receipt: `items` are pairs of a message and a recipient."""
    reached = fact.outcome["state"]
    by = None if reached == "expired" else fact.sender
    for seq, recipient in fact.outcome["items"]:
        _move(state, fact, seq, recipient, reached, by)


def _move(
    state: FoldedState, fact: Header, seq: int, recipient: str, reached: str, by: str | None
) -> None:
    """Move a delivery up the ladder, if it is lower, and add the receipt."""
    before, closed = state.execute(
        "SELECT state, closed FROM mail_deliveries WHERE recipient = ? AND seq = ?",
        (recipient, seq),
    ).fetchone()
    if LADDER[reached] > LADDER[before]:
        closes = LADDER[reached] == LADDER["acked"]
        takes = by if reached in ("read", "acked", "declined") else None
        was_unread, is_unread = before in UNREAD, reached in UNREAD
        # A read message no longer expires: it stays open until it is acked.
        state.execute(
            "UPDATE mail_deliveries SET state = ?, closed = ?, taken_by = coalesce(taken_by, ?), "
            "expires_at = iif(?, expires_at, NULL) WHERE recipient = ? AND seq = ?",
            (reached, int(closes or closed), takes, is_unread, recipient, seq),
        )
        state.execute(
            "UPDATE mail_boxes SET open = open - ?, unread = unread - ? WHERE recipient = ?",
            (int(closes and not closed), int(was_unread and not is_unread), recipient),
        )
    state.execute(
        "INSERT OR IGNORE INTO mail_receipts VALUES (?, ?, ?, ?, ?, ?, ?)",
        (seq, recipient, fact.seq, reached, fact.at, by, fact.outcome.get("adapter")),
    )
    if reached == "woken":
        state.execute(
            "UPDATE mail_boxes SET woken_at = ? WHERE recipient = ?", (fact.at, recipient)
        )


def _fold_wake_begun(state: FoldedState, fact: Header) -> None:
    begun = fact.outcome
    for seq, recipient in begun["items"]:
        state.execute(
            "INSERT INTO mail_wakes VALUES (?, ?, ?, ?, ?, ?, NULL, NULL)",
            (seq, recipient, begun["id"], begun["adapter"], fact.at, begun["expires_at"]),
        )


def _fold_wake_ended(state: FoldedState, fact: Header) -> None:
    """Only a wake that succeeded gives a receipt."""
    ended = fact.outcome
    items = state.execute(
        "SELECT seq, recipient FROM mail_wakes WHERE id = ? ORDER BY seq, recipient", (ended["id"],)
    ).fetchall()
    state.execute(
        "UPDATE mail_wakes SET outcome = ?, why = ? WHERE id = ?",
        (ended["outcome"], ended.get("why"), ended["id"]),
    )
    if ended["outcome"] == "woken":
        for seq, recipient in items:
            _move(state, fact, seq, recipient, "woken", None)


def _sender_and_recipients(state: FoldedState, fact: Header) -> frozenset[str]:
    """The audience of a message."""
    return frozenset({*fact.outcome["deliveries"], fact.sender, agent_of(state, fact.sender)})


def _senders_and_recipients(state: FoldedState, fact: Header) -> frozenset[str]:
    """The audience of receipts: the recipients, and the senders of the messages."""
    names: set[str] = set()
    for seq, recipient in fact.outcome["items"]:
        select = "SELECT sender FROM mail_messages WHERE seq = ?"
        (sender,) = state.execute(select, (seq,)).fetchone()
        names |= {recipient, sender, agent_of(state, sender)}
    return frozenset(names)


def _sleeper_and_admins(state: FoldedState, fact: Header) -> frozenset[str]:
    """The audience of a wake: the sender to wake, its agent, and admins."""
    sender = fact.outcome["sender"]
    return frozenset({sender, agent_of(state, sender), ADMINS})


FACTS = {
    "message_sent": FactKind(
        "A sender sent a message.",
        _sender_and_recipients,
        _fold_sent,
    ),
    "mail_moved": FactKind(
        "Deliveries reached a new state, such as shown, read, acked or expired.",
        _senders_and_recipients,
        _fold_moved,
    ),
    "body_redacted": FactKind(
        "A sender or an admin erased the body of the fact `target`. The body of this fact has the "
        "reason.",
        everyone,
        sql_fold("UPDATE mail_messages SET redacted = :fact_seq WHERE seq = :target"),
    ),
    "wake_begun": FactKind(
        "An adapter began to wake a sender.",
        _sleeper_and_admins,
        _fold_wake_begun,
        hidden=("items",),
    ),
    "wake_ended": FactKind(
        "The attempt to wake ended: woken, failed or unknown.",
        _sleeper_and_admins,
        _fold_wake_ended,
    ),
}
