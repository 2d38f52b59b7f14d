"""Refusals that matter: a forged sender, a missing scope, one's own work, a stale fence.

A refusal is a small fact: the code, who, and the digest of the request; never its body. A flood
of them is cut off, so that being refused is no way to fill the log.
"""

from interlock.log.facts import Header
from interlock.rooms.transaction import State, Transaction

# map: refusals  one row a recorded refusal
TABLES = """
CREATE TABLE refusals(seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, sender TEXT NOT NULL,
    code TEXT NOT NULL, token TEXT, digest TEXT NOT NULL) STRICT;
CREATE INDEX refusals_recent ON refusals(sender, at);
"""

PER_MINUTE = 20
QUIET_MS = 600_000


def record_refusal(tx: Transaction, code: str, digest: str, sender: str | None = None) -> None:
    sender = sender or tx.caller.sender
    row = tx.one(
        "SELECT count(*) FROM refusals WHERE sender = ? AND at > ?", sender, tx.now - 60_000
    )
    if row is not None and row[0] < PER_MINUTE:
        tx.append("request_refused", {"code": code, "digest": digest}, sender=sender)


def is_quiet(tx: Transaction, code: str, sender: str) -> bool:
    """Whether the same was recorded of this sender a while ago."""
    row = tx.one(
        "SELECT 1 FROM refusals WHERE sender = ? AND at > ? AND code = ?",
        sender,
        tx.now - QUIET_MS,
        code,
    )
    return row is not None


def _fold_refused(state: State, fact: Header) -> None:
    state.execute(
        "INSERT INTO refusals VALUES (?, ?, ?, ?, ?, ?)",
        (
            fact.seq,
            fact.at,
            fact.sender,
            fact.outcome["code"],
            fact.token,
            fact.outcome["digest"],
        ),
    )


FOLDS = {"request_refused": _fold_refused}
