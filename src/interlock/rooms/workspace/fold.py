"""The workspace room's tables, and how facts change them.

Settings are facts, so a rule that depends on one decides the same in every replay.
"""

from interlock.rooms.transaction import sql_fold

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


FOLDS = {
    "workspace_created": sql_fold(
        "INSERT INTO workspace_self(one, id, epoch, created_at, verifier) "
        "VALUES (1, :fact_workspace, :fact_epoch, :fact_at, :verifier)"
    ),
    "setting_changed": sql_fold(
        "INSERT OR REPLACE INTO workspace_settings VALUES (:name, :value, :fact_seq)"
    ),
    "workspace_paused": sql_fold(
        "UPDATE workspace_self SET paused_at = :fact_at, paused_by = :fact_sender, "
        "pause_reason = :reason",
        optional=("reason",),
    ),
    "workspace_resumed": sql_fold(
        "UPDATE workspace_self SET paused_at = NULL, paused_by = NULL, pause_reason = NULL"
    ),
    "epoch_started": sql_fold(
        "UPDATE workspace_self SET epoch = :fact_epoch, verifier = :verifier"
    ),
    # The entries that were put back are folded already.
    "log_repaired": sql_fold(),
    "request_refused": sql_fold(
        "INSERT INTO refusals VALUES (:fact_seq, :fact_at, :fact_sender, :code, :fact_token, "
        ":digest)"
    ),
}
