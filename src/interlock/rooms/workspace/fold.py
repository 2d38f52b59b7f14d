"""The workspace room's tables, and how facts change them.

Settings are facts, so a rule that depends on one decides the same in every replay.
"""

from interlock.rooms.transaction import FactKind, admins, everyone, sql_fold

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


FACTS = {
    "workspace_created": FactKind(
        "Interlock created the workspace, and its log began.",
        everyone,
        sql_fold(
            "INSERT INTO workspace_self(one, id, epoch, created_at, verifier) "
            "VALUES (1, :fact_workspace, :fact_epoch, :fact_at, :verifier)"
        ),
        reauthenticates=True,
    ),
    "setting_changed": FactKind(
        "The owner or an admin changed a setting.",
        everyone,
        sql_fold("INSERT OR REPLACE INTO workspace_settings VALUES (:name, :value, :fact_seq)"),
    ),
    "workspace_paused": FactKind(
        "The owner or an admin paused the workspace.",
        everyone,
        sql_fold(
            "UPDATE workspace_self SET paused_at = :fact_at, paused_by = :fact_sender, "
            "pause_reason = :reason",
            optional=("reason",),
        ),
    ),
    "workspace_resumed": FactKind(
        "The owner or an admin ended the pause.",
        everyone,
        sql_fold(
            "UPDATE workspace_self SET paused_at = NULL, paused_by = NULL, pause_reason = NULL"
        ),
    ),
    "epoch_started": FactKind(
        "The log continues from a restored backup, or without [lost "
        "entries](scaling.md#troubleshooting).",
        everyone,
        sql_fold("UPDATE workspace_self SET epoch = :fact_epoch, verifier = :verifier"),
        reauthenticates=True,
    ),
    # The entries that were put back are folded already.
    "log_repaired": FactKind(
        "A node put back the entries from `first` to `last`, which the engine had lost.",
        everyone,
        sql_fold(),
    ),
    "request_refused": FactKind(
        "The node refused a request that matters. The fact has the code, the sender and a digest "
        "of the request.",
        admins,
        sql_fold(
            "INSERT INTO refusals VALUES (:fact_seq, :fact_at, :fact_sender, :code, :fact_token, "
            ":digest)"
        ),
    ),
}
