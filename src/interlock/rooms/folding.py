"""Folding: apply facts to the state, with the folds of all rooms.

Folding decides nothing. It stops at a kind of fact that this version does not know.
"""

import hashlib

from interlock.errors import NewerVersion
from interlock.log.encoding import canonical
from interlock.log.facts import Header
from interlock.rooms.claims import fold as claims
from interlock.rooms.identity import fold as identity
from interlock.rooms.mail import fold as mail
from interlock.rooms.transaction import FactKind, Fold, FoldedState
from interlock.rooms.work import fold as work
from interlock.rooms.workspace import fold as workspace

_ROOMS = (workspace, identity, mail, claims, work)
# The order is part of SCHEMA: another order makes every node rebuild its state.
TABLES = "".join(room.TABLES for room in _ROOMS) + workspace.REFUSAL_TABLES

# Raise this when a fold treats old facts in a new way. SCHEMA also changes with tables and kinds.
FOLD_VERSION = 2
FACTS: dict[str, FactKind] = {kind: fact for room in _ROOMS for kind, fact in room.FACTS.items()}
_FURTHER_FOLDS: dict[str, list[Fold]] = {kind: [] for kind in FACTS}
for _room in (identity, work):
    for _kind, _fold in _room.FOLDS.items():
        _FURTHER_FOLDS[_kind].append(_fold)
KINDS = tuple(sorted(FACTS))
_SHAPE = hashlib.sha256("\n".join([TABLES, *KINDS]).encode()).hexdigest()
SCHEMA = f"{FOLD_VERSION}-{_SHAPE[:12]}"


def kind_of(fact: Header) -> FactKind:
    """The declaration of a fact's kind. Raises NewerVersion for an unknown kind."""
    declared = FACTS.get(fact.kind)
    if declared is None:
        raise NewerVersion(
            f"The log has a fact of the kind {fact.kind!r} at #{fact.seq}, which this version of "
            "Interlock does not know. The node stopped there, and skipped no fact. Upgrade "
            "Interlock."
        )
    return declared


def fold(state: FoldedState, fact: Header) -> None:
    """Apply a fact to the state. Raises NewerVersion for an unknown kind of fact."""
    kind_of(fact).fold(state, fact)
    for apply in _FURTHER_FOLDS.get(fact.kind, ()):
        apply(state, fact)
    if fact.act is not None:
        keyed = fact.sender, fact.act["key"], fact.seq
        state.execute("INSERT INTO workspace_acts VALUES (?, ?, ?)", keyed)


def tables() -> list[str]:
    """The names of the state's tables, in order."""
    words = TABLES.replace("(", " ").split()
    return sorted(
        words[i + 2] for i, word in enumerate(words) if word == "CREATE" and words[i + 1] == "TABLE"
    )


def state_digest(state: FoldedState) -> str:
    """The SHA-256 of SCHEMA and the rows of every table, in the order of their keys."""
    whole = hashlib.sha256(SCHEMA.encode())
    for table in tables():
        width = len(state.execute(f"PRAGMA table_info({table})").fetchall())
        order = ", ".join(str(column) for column in range(1, width + 1))
        whole.update(f"\n{table}\n".encode())
        for row in state.execute(f"SELECT * FROM {table} ORDER BY {order}"):
            whole.update(canonical(row) + b"\n")
    return whole.hexdigest()
