"""The folded state as a whole: load its position, fold the facts after it, rebuild the state."""

from contextlib import suppress

from apsw import Connection

from interlock.errors import LogDamaged, Remedy
from interlock.log.facts import GENESIS, Header, header_hash, parse_header
from interlock.log.merkle import Frontier
from interlock.node import search
from interlock.node.batch import Position
from interlock.rooms import folding
from interlock.rooms.transaction import FoldedState
from interlock.stores import Engine, Head

TO_RESTORE = Remedy("interlock restore FILE")
# map: state_position  one row: the schema of the state, and the position of the last folded fact
_TABLE = """
CREATE TABLE IF NOT EXISTS state_position(one INTEGER PRIMARY KEY CHECK (one = 1),
    schema TEXT NOT NULL, seq INTEGER NOT NULL, hash TEXT NOT NULL, frontier BLOB NOT NULL) STRICT
"""


def is_current(db: FoldedState) -> bool:
    """Whether the state was folded by this version's rules."""
    there = {row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if not there >= {"state_position", *folding.tables()}:
        return False
    row = db.execute("SELECT schema FROM state_position").fetchone()
    return row is not None and row[0] == folding.SCHEMA


def stands(db: FoldedState) -> bool:
    """Whether the log still has the last entry of the folded state. If a repair shortened a node's
    copy of the log, it does not, and the node must rebuild the state."""
    position = load(db)
    row = db.execute("SELECT header FROM log WHERE seq = ?", (position.seq,)).fetchone()
    return position.seq == 0 or (row is not None and header_hash(row[0]) == position.hash)


def load(db: FoldedState) -> Position:
    seq, hash, frontier = db.execute("SELECT seq, hash, frontier FROM state_position").fetchone()
    position = Position(seq, hash, Frontier.unpack(frontier))
    position.read_workspace(db)
    return position


def catch_up(db: Connection, engine: Engine, position: Position, head: Head) -> bool:
    """Fold the facts between the state and the head, and erase the bodies that other nodes
    redacted. Return whether there were any. Raises LogDamaged, and writes nothing, if the log does
    not connect the state to the head."""
    erased = False
    if position.at(head):
        return erased
    before = position.seq
    if position.seq < head.seq:
        for seq, header in engine.follow(db, position.seq):
            try:
                fact = parse_header(header)
            except ValueError:
                raise LogDamaged(
                    f"Entry {seq} cannot be read. Restore a backup:", TO_RESTORE, seq=seq
                ) from None
            if seq != position.seq + 1 or fact.prev != position.hash:
                break
            folding.fold(db, fact)
            if fact.kind == "body_redacted":
                target = fact.outcome["target"]
                if (found := engine.body(db, target)) is not None:
                    search.forget(db, target, found[1])
                    engine.forget(target)
                    erased = True
            position.seq, position.hash = seq, header_hash(header)
            position.frontier.append(bytes.fromhex(position.hash))
    if not position.at(head):
        raise LogDamaged(
            f"The log forks: the state ends at #{before}, and the log does not connect it to the "
            f"head, #{head.seq}. The node writes nothing until the owner restores a backup:",
            TO_RESTORE,
            seq=position.seq + 1,
        )
    position.read_workspace(db)
    position.store(db)
    return erased


def rebuild(db: Connection, engine: Engine, head: Head) -> Position:
    """Rebuild the state from the log, in the caller's transaction."""
    db.execute(_TABLE)
    # A state of another version may have other tables. Each name starts with the name of a room.
    rooms = {name.partition("_")[0] for name in folding.tables()}
    for (table,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
        if str(table).partition("_")[0] in rooms:
            db.execute(f"DROP TABLE {table}")
    db.execute(folding.TABLES)
    search.begin_anew(db)
    db.execute(
        "INSERT OR REPLACE INTO state_position VALUES (1, ?, 0, ?, ?)",
        (folding.SCHEMA, GENESIS, Frontier().pack()),
    )
    position = Position(0, GENESIS, Frontier())
    catch_up(db, engine, position, head)
    position.store(db)
    return position


def last_readable(db: FoldedState) -> Header:
    """The last readable header of a log that may be damaged."""
    for (header,) in db.execute("SELECT header FROM log ORDER BY seq DESC"):
        with suppress(ValueError):
            return parse_header(header)
    return Header("", 0, 0, 0, "", "", {}, GENESIS)
