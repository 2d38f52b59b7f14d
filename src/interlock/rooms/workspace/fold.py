"""The workspace room's tables, and how facts change them.

Settings are facts, so a rule that depends on one decides the same in every replay.
"""

from interlock.log.facts import Header
from interlock.rooms.transaction import FoldedState

# map: workspace_self      one row: id, epoch, the key that signs checkpoints, the pause
#      workspace_settings  the settings that differ from their defaults
#      workspace_acts      (sender, idempotency key) -> the fact of the request, for ever
TABLES = """
CREATE TABLE workspace_self(one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL,
    epoch INTEGER NOT NULL, created_at INTEGER NOT NULL, verifier TEXT NOT NULL,
    paused_at INTEGER, paused_by TEXT, pause_reason TEXT) STRICT;
CREATE TABLE workspace_settings(name TEXT PRIMARY KEY, value TEXT NOT NULL, seq INTEGER NOT NULL)
    STRICT, WITHOUT ROWID;
CREATE TABLE workspace_acts(sender TEXT NOT NULL, key TEXT NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (sender, key)) STRICT, WITHOUT ROWID;
"""
# map: refusals  one row for each recorded refusal
REFUSAL_TABLES = """
CREATE TABLE refusals(seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, sender TEXT NOT NULL,
    code TEXT NOT NULL, token TEXT, digest TEXT NOT NULL) STRICT;
CREATE INDEX refusals_recent ON refusals(sender, at);
"""


def _fold_created(state: FoldedState, fact: Header) -> None:
    state.execute(
        "INSERT INTO workspace_self(one, id, epoch, created_at, verifier) VALUES (1, ?, ?, ?, ?)",
        (fact.workspace, fact.epoch, fact.at, fact.outcome["verifier"]),
    )


def _fold_setting(state: FoldedState, fact: Header) -> None:
    state.execute(
        "INSERT OR REPLACE INTO workspace_settings VALUES (?, ?, ?)",
        (fact.outcome["name"], fact.outcome["value"], fact.seq),
    )


def _fold_paused(state: FoldedState, fact: Header) -> None:
    state.execute(
        "UPDATE workspace_self SET paused_at = ?, paused_by = ?, pause_reason = ?",
        (fact.at, fact.sender, fact.outcome.get("reason")),
    )


def _fold_resumed(state: FoldedState, fact: Header) -> None:
    state.execute(
        "UPDATE workspace_self SET paused_at = NULL, paused_by = NULL, pause_reason = NULL"
    )


def _fold_epoch(state: FoldedState, fact: Header) -> None:
    state.execute(
        "UPDATE workspace_self SET epoch = ?, verifier = ?",
        (fact.epoch, fact.outcome["verifier"]),
    )


def _fold_repaired(state: FoldedState, fact: Header) -> None:
    """Change nothing: the entries that were put back are folded already."""


def _fold_refused(state: FoldedState, fact: Header) -> None:
    code, digest = fact.outcome["code"], fact.outcome["digest"]
    state.execute(
        "INSERT INTO refusals VALUES (?, ?, ?, ?, ?, ?)",
        (fact.seq, fact.at, fact.sender, code, fact.token, digest),
    )


def fold_key(state: FoldedState, fact: Header) -> None:
    """Record the idempotency key of a fact, whatever its kind."""
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
    "request_refused": _fold_refused,
}
