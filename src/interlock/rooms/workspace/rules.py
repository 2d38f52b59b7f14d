"""The workspace itself: its settings, whether it is paused, its epoch, and which acts were done.

Settings are facts, so a rule that depends on one replays the same for ever.
"""

from __future__ import annotations

from interlock.errors import IdempotencyConflict, Paused
from interlock.log.facts import Header
from interlock.log.times import rfc3339
from interlock.rooms.transaction import Request, State, Transaction

# map: workspace_self      one row: id, epoch, the key that signs checkpoints, the pause
#      workspace_settings  what differs from the defaults
#      workspace_acts      (sender, key) -> the fact it made, for ever
TABLES = """
CREATE TABLE workspace_self(one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL,
    epoch INTEGER NOT NULL, created_at INTEGER NOT NULL, verifier TEXT NOT NULL,
    paused_at INTEGER, paused_by TEXT, pause_reason TEXT) STRICT;
CREATE TABLE workspace_settings(name TEXT PRIMARY KEY, value TEXT NOT NULL, seq INTEGER NOT NULL)
    STRICT, WITHOUT ROWID;
CREATE TABLE workspace_acts(sender TEXT NOT NULL, key TEXT NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (sender, key)) STRICT, WITHOUT ROWID;
"""


def is_paused(state: State) -> bool:
    row = state.execute("SELECT paused_at FROM workspace_self").fetchone()
    return bool(row and row[0] is not None)


def refuse_paused(state: State) -> None:
    row = state.execute("SELECT paused_at, paused_by, pause_reason FROM workspace_self").fetchone()
    if row and row[0] is not None:
        why = f" Reason: {row[2]}" if row[2] else ""
        raise Paused(
            f"The workspace was paused by @{row[1]}: nothing may be written until "
            f"interlock resume.{why}",
            since=rfc3339(row[0]),
            reason=row[2],
        )


def done_before(tx: Transaction, request: Request | None) -> int | None:
    """The position of the act done under this key, or None for a new one.

    Another request under the same key is `IdempotencyConflict`; so is one whose first body was
    redacted, since nobody can tell any more whether it was the same.
    """
    if request is None:
        return None
    row = tx.one(
        "SELECT seq FROM workspace_acts WHERE sender = ? AND key = ?",
        tx.caller.sender,
        request.key,
    )
    if row is None:
        return None
    seq = int(row[0])
    if not tx.store.same_request(seq, request.content):
        raise IdempotencyConflict(
            f"The key {request.key!r} was used before, at #{seq}, with another body. Use a new "
            "key for a new act.",
            key=request.key,
            seq=seq,
        )
    return seq


def _fold_created(state: State, fact: Header) -> None:
    state.execute(
        "INSERT INTO workspace_self(one, id, epoch, created_at, verifier) VALUES (1, ?, ?, ?, ?)",
        (fact.workspace, fact.epoch, fact.at, fact.outcome["verifier"]),
    )


def _fold_setting(state: State, fact: Header) -> None:
    state.execute(
        "INSERT OR REPLACE INTO workspace_settings VALUES (?, ?, ?)",
        (fact.outcome["name"], fact.outcome["value"], fact.seq),
    )


def _fold_paused(state: State, fact: Header) -> None:
    state.execute(
        "UPDATE workspace_self SET paused_at = ?, paused_by = ?, pause_reason = ?",
        (fact.at, fact.sender, fact.outcome.get("reason")),
    )


def _fold_resumed(state: State, fact: Header) -> None:
    state.execute(
        "UPDATE workspace_self SET paused_at = NULL, paused_by = NULL, pause_reason = NULL"
    )


def _fold_epoch(state: State, fact: Header) -> None:
    state.execute(
        "UPDATE workspace_self SET epoch = ?, verifier = ?",
        (fact.epoch, fact.outcome["verifier"]),
    )


def _fold_repaired(state: State, fact: Header) -> None:
    """Nothing: what was put back was folded long ago."""


def fold_act(state: State, fact: Header) -> None:
    """Any fact that carries a key marks its act as done, whatever its kind."""
    assert fact.act is not None
    state.execute(
        "INSERT INTO workspace_acts VALUES (?, ?, ?)", (fact.sender, fact.act["key"], fact.seq)
    )


FOLDS = {
    "workspace_created": _fold_created,
    "setting_changed": _fold_setting,
    "workspace_paused": _fold_paused,
    "workspace_resumed": _fold_resumed,
    "epoch_started": _fold_epoch,
    "log_repaired": _fold_repaired,
}
