"""The claims room's tables, and how facts change them."""

from typing import Any

from interlock.log.encoding import canonical
from interlock.log.facts import Header
from interlock.rooms.transaction import FactKind, FoldedState, everyone, sql_fold

# map: claims_held     the live claims, and those whose ended lease is not recorded yet
#      claims_waiting  the queue of waiters; after `lease` a waiter that stopped asking is dropped
#      claims_lapsed   leases that ended without a release, on targets without a new holder: their
#                      holders may be dead
#      claims_crossed  commits that touched another holder's files
#      claims_fence    one row: the last fence given, without its epoch
TABLES = """
CREATE TABLE claims_held(id TEXT PRIMARY KEY, item TEXT UNIQUE, repo TEXT, paths TEXT,
    sender TEXT NOT NULL, agent TEXT NOT NULL, surface TEXT, session TEXT, fence INTEGER NOT NULL,
    branch TEXT, worktree TEXT, note TEXT, everywhere INTEGER, acquired_at INTEGER NOT NULL,
    ttl INTEGER NOT NULL, expires_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX claims_repo ON claims_held(repo) WHERE repo IS NOT NULL;
CREATE INDEX claims_due ON claims_held(expires_at);
CREATE TABLE claims_waiting(seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, item TEXT, repo TEXT,
    paths TEXT, sender TEXT NOT NULL, agent TEXT NOT NULL, surface TEXT, session TEXT, branch TEXT,
    worktree TEXT, note TEXT, everywhere INTEGER, lease INTEGER NOT NULL) STRICT;
CREATE TABLE claims_lapsed(seq INTEGER PRIMARY KEY, item TEXT, repo TEXT, paths TEXT,
    sender TEXT NOT NULL, session TEXT, at INTEGER NOT NULL) STRICT;
CREATE TABLE claims_crossed(seq INTEGER PRIMARY KEY, repo TEXT NOT NULL, "commit" TEXT NOT NULL,
    paths TEXT NOT NULL, holder TEXT NOT NULL, sender TEXT NOT NULL, at INTEGER NOT NULL) STRICT;
CREATE TABLE claims_fence(one INTEGER PRIMARY KEY CHECK (one = 1), last INTEGER NOT NULL) STRICT;
"""


EPOCH_SHIFT = 40
HELD = (
    "id, item, repo, paths, sender, agent, surface, session, fence, branch, worktree, note, "
    "everywhere, acquired_at, ttl, expires_at"
)
WAITING = (
    "seq, id, item, repo, paths, sender, agent, surface, session, branch, worktree, note, "
    "everywhere, lease"
)


def _paths(outcome: dict[str, Any]) -> str | None:
    return canonical(outcome["paths"]).decode() if "paths" in outcome else None


def _insert(state: FoldedState, table: str, columns: str, values: dict[str, Any]) -> None:
    """Insert a row whose columns are the members of those names. An absent member is NULL."""
    names = columns.split(", ")
    marks = ", ".join("?" * len(names))
    row = tuple(values.get(name) for name in names)
    state.execute(f"INSERT INTO {table}({columns}) VALUES ({marks})", row)


def _fold_granted(state: FoldedState, fact: Header) -> None:
    outcome = fact.outcome
    written = {"paths": _paths(outcome), "acquired_at": fact.at}
    _insert(state, "claims_held", HELD, outcome | written)
    state.execute(
        "DELETE FROM claims_lapsed WHERE item = ?1 OR (repo = ?2 AND paths = ?3)",
        (outcome.get("item"), outcome.get("repo"), written["paths"]),
    )
    state.execute(
        "INSERT OR REPLACE INTO claims_fence VALUES (1, ?)",
        (outcome["fence"] & ((1 << EPOCH_SHIFT) - 1),),
    )


def _fold_awaited(state: FoldedState, fact: Header) -> None:
    written = {"paths": _paths(fact.outcome), "seq": fact.seq}
    _insert(state, "claims_waiting", WAITING, fact.outcome | written)


def _fold_crossed(state: FoldedState, fact: Header) -> None:
    crossed = fact.outcome
    row = fact.seq, crossed["repo"], crossed["commit"], _paths(crossed), crossed["holder"]
    state.execute(
        "INSERT INTO claims_crossed VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, fact.sender, fact.at)
    )


END = "DELETE FROM claims_held WHERE id = :id"
FACTS = {
    "claim_crossed": FactKind(
        "A commit touched files that another holder had claimed.",
        everyone,
        _fold_crossed,
    ),
    "claim_granted": FactKind(
        "A sender got a claim, with its fence.",
        everyone,
        _fold_granted,
    ),
    "claim_extended": FactKind(
        "The holder renewed a claim, or changed its note, branch or worktree.",
        everyone,
        sql_fold(
            "UPDATE claims_held SET ttl = :ttl, expires_at = :expires_at, "
            "branch = coalesce(:branch, branch), worktree = coalesce(:worktree, worktree), "
            "note = coalesce(:note, note), everywhere = coalesce(:everywhere, everywhere) "
            "WHERE id = :id",
            optional=("branch", "worktree", "note", "everywhere"),
        ),
    ),
    "claim_released": FactKind(
        "A claim ended: by its holder, with its session or task, by a takeover, or in a fork of "
        "the log.",
        everyone,
        sql_fold(END),
    ),
    "claim_expired": FactKind(
        "The lease of a claim ended without a release.",
        everyone,
        sql_fold(
            "INSERT INTO claims_lapsed SELECT :fact_seq, item, repo, paths, sender, session, "
            "expires_at FROM claims_held WHERE id = :id",
            END,
        ),
    ),
    "claim_awaited": FactKind(
        "A sender entered the queue for a claim.",
        everyone,
        _fold_awaited,
    ),
    "claim_wait_extended": FactKind(
        "A sender in the queue for a claim still waits.",
        everyone,
        sql_fold("UPDATE claims_waiting SET lease = :lease WHERE id = :id"),
    ),
    "claim_wait_ended": FactKind(
        "A sender left the queue for a claim, with the claim or without it.",
        everyone,
        sql_fold("DELETE FROM claims_waiting WHERE id = :id"),
    ),
}
