"""The identity room's tables, and how facts change them."""

from interlock.contracts.facts import Header
from interlock.kernel.moment import State

# map: identity_agents    principals: otto
#      identity_senders   where they act: otto, otto-cli; one namespace with agents and groups
#      identity_tokens    hashes only, each bound to one sender
#      identity_sessions  running clients of a sender
#      identity_groups, identity_members
#      identity_muted     names that nothing wakes, until then or for good
TABLES = """
CREATE TABLE identity_agents(name TEXT PRIMARY KEY, kind TEXT NOT NULL, joined_at INTEGER NOT NULL,
    seq INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE identity_senders(sender TEXT PRIMARY KEY, agent TEXT NOT NULL, surface TEXT,
    joined_at INTEGER NOT NULL, seq INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX identity_surfaces ON identity_senders(agent);
CREATE TABLE identity_tokens(hash TEXT PRIMARY KEY, id TEXT NOT NULL UNIQUE, sender TEXT NOT NULL,
    label TEXT, scopes TEXT NOT NULL, minted_by TEXT NOT NULL, minted_at INTEGER NOT NULL,
    seq INTEGER NOT NULL, expires_at INTEGER, revoked_at INTEGER, suspended INTEGER NOT NULL)
    STRICT, WITHOUT ROWID;
CREATE TABLE identity_sessions(session TEXT PRIMARY KEY, sender TEXT NOT NULL,
    started_at INTEGER NOT NULL, ended_at INTEGER) STRICT, WITHOUT ROWID;
CREATE TABLE identity_groups(name TEXT PRIMARY KEY, seq INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE identity_members(name TEXT NOT NULL, member TEXT NOT NULL, PRIMARY KEY (name, member))
    STRICT, WITHOUT ROWID;
CREATE TABLE identity_muted(name TEXT PRIMARY KEY, until INTEGER) STRICT, WITHOUT ROWID;
"""


def _fold_joined(state: State, fact: Header) -> None:
    outcome = fact.outcome
    state.execute(
        "INSERT OR IGNORE INTO identity_agents VALUES (?, ?, ?, ?)",
        (outcome["agent"], outcome["kind"], fact.at, fact.seq),
    )
    state.execute(
        "INSERT INTO identity_senders VALUES (?, ?, ?, ?, ?)",
        (outcome["sender"], outcome["agent"], outcome.get("surface"), fact.at, fact.seq),
    )


def _fold_minted(state: State, fact: Header) -> None:
    outcome = fact.outcome
    state.execute(
        "INSERT INTO identity_tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, 0)",
        (
            outcome["hash"],
            outcome["id"],
            outcome["sender"],
            outcome.get("label"),
            " ".join(outcome["scopes"]),
            fact.sender,
            fact.at,
            fact.seq,
            outcome.get("expires_at"),
        ),
    )


def _fold_revoked(state: State, fact: Header) -> None:
    state.execute(
        "UPDATE identity_tokens SET revoked_at = ? WHERE id = ?", (fact.at, fact.outcome["id"])
    )


def _fold_reaffirmed(state: State, fact: Header) -> None:
    state.execute("UPDATE identity_tokens SET suspended = 0 WHERE id = ?", (fact.outcome["id"],))


def _fold_group(state: State, fact: Header) -> None:
    name = fact.outcome["name"]
    state.execute("INSERT OR REPLACE INTO identity_groups VALUES (?, ?)", (name, fact.seq))
    state.execute("DELETE FROM identity_members WHERE name = ?", (name,))
    for member in fact.outcome["members"]:
        state.execute("INSERT INTO identity_members VALUES (?, ?)", (name, member))


def _fold_session_started(state: State, fact: Header) -> None:
    state.execute(
        "INSERT INTO identity_sessions VALUES (?, ?, ?, NULL)",
        (fact.outcome["session"], fact.sender, fact.at),
    )


def _fold_session_ended(state: State, fact: Header) -> None:
    state.execute(
        "UPDATE identity_sessions SET ended_at = ? WHERE session = ?",
        (fact.at, fact.outcome["session"]),
    )


def _fold_epoch(state: State, fact: Header) -> None:
    """A token that was revoked after the backup would be alive again: none is trusted yet."""
    state.execute("UPDATE identity_tokens SET suspended = 1 WHERE revoked_at IS NULL")


def _fold_muted(state: State, fact: Header) -> None:
    name = fact.outcome["name"]
    state.execute("DELETE FROM identity_muted WHERE name = ?", (name,))
    if not fact.outcome.get("off"):
        state.execute("INSERT INTO identity_muted VALUES (?, ?)", (name, fact.outcome.get("until")))


FOLDS = {
    "agent_joined": _fold_joined,
    "token_minted": _fold_minted,
    "token_revoked": _fold_revoked,
    "token_reaffirmed": _fold_reaffirmed,
    "group_set": _fold_group,
    "session_started": _fold_session_started,
    "session_ended": _fold_session_ended,
    "epoch_started": _fold_epoch,
    "wakes_muted": _fold_muted,
}
