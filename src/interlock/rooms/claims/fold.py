"""The claims room's tables, and how facts change them."""

from typing import Any

from interlock.log.encoding import canonical
from interlock.log.facts import Header
from interlock.rooms.transaction import State

# map: claims_held     the live claims, and those whose lease ended and nobody noticed yet
#      claims_waiting  who queues for what; `lease` ends a waiter that stopped asking
#      claims_lapsed   leases that ended without a release, on what nobody has taken since: their
#                      holders may be dead
#      claims_crossed  commits that touched what another had claimed
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


def _insert(state: State, table: str, columns: str, values: dict[str, Any]) -> None:
    """A row from members of those names; what is absent is NULL."""
    names = columns.split(", ")
    marks = ", ".join("?" * len(names))
    row = tuple(values.get(name) for name in names)
    state.execute(f"INSERT INTO {table}({columns}) VALUES ({marks})", row)


def _fold_granted(state: State, fact: Header) -> None:
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


def _fold_extended(state: State, fact: Header) -> None:
    outcome = fact.outcome
    state.execute(
        "UPDATE claims_held SET ttl = ?, expires_at = ?, branch = coalesce(?, branch), "
        "worktree = coalesce(?, worktree), note = coalesce(?, note), "
        "everywhere = coalesce(?, everywhere) WHERE id = ?",
        (
            outcome["ttl"],
            outcome["expires_at"],
            outcome.get("branch"),
            outcome.get("worktree"),
            outcome.get("note"),
            outcome.get("everywhere"),
            outcome["id"],
        ),
    )


def _fold_expired(state: State, fact: Header) -> None:
    state.execute(
        "INSERT INTO claims_lapsed SELECT ?, item, repo, paths, sender, session, expires_at "
        "FROM claims_held WHERE id = ?",
        (fact.seq, fact.outcome["id"]),
    )
    _fold_ended(state, fact)


def _fold_ended(state: State, fact: Header) -> None:
    state.execute("DELETE FROM claims_held WHERE id = ?", (fact.outcome["id"],))


def _fold_awaited(state: State, fact: Header) -> None:
    written = {"paths": _paths(fact.outcome), "seq": fact.seq}
    _insert(state, "claims_waiting", WAITING, fact.outcome | written)


def _fold_wait_extended(state: State, fact: Header) -> None:
    state.execute(
        "UPDATE claims_waiting SET lease = ? WHERE id = ?",
        (fact.outcome["lease"], fact.outcome["id"]),
    )


def _fold_wait_ended(state: State, fact: Header) -> None:
    state.execute("DELETE FROM claims_waiting WHERE id = ?", (fact.outcome["id"],))


def _fold_crossed(state: State, fact: Header) -> None:
    crossed = fact.outcome
    state.execute(
        "INSERT INTO claims_crossed VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            fact.seq,
            crossed["repo"],
            crossed["commit"],
            _paths(crossed),
            crossed["holder"],
            fact.sender,
            fact.at,
        ),
    )


FOLDS = {
    "claim_crossed": _fold_crossed,
    "claim_granted": _fold_granted,
    "claim_extended": _fold_extended,
    "claim_released": _fold_ended,
    "claim_expired": _fold_expired,
    "claim_awaited": _fold_awaited,
    "claim_wait_extended": _fold_wait_extended,
    "claim_wait_ended": _fold_wait_ended,
}
