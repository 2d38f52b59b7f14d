"""A sample log, and changes to it through SQLite, without Interlock."""

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from interlock.log.facts import GENESIS, header_hash
from interlock.log.merkle import Frontier
from interlock.node import Node, audit, proofs, upkeep
from interlock.rooms import folding
from interlock.rooms.claims.verbs import AcquireClaim, ReleaseClaim
from interlock.rooms.mail.verbs import (
    AckMessages,
    ListInbox,
    ReadMessage,
    Redact,
    Search,
)
from interlock.verbs.credentials import Credentials
from world.workspace import Answer, join, send_text

LARGE = "a line that is too long for the log\n" * 40_000


class Sample(NamedTuple):
    """A closed workspace, its senders, and the positions in its log that tests change."""

    directory: Path
    otto: Credentials
    vera: Credentials
    entries: int
    note: str
    digest: str
    message: int
    blob: int
    ack: int

    @property
    def file(self) -> Path:
        return self.directory / "log.db"

    def copied(self, target: Path) -> "Sample":
        shutil.copytree(self.directory, target)
        return self._replace(directory=target)

    def open(self, **more: Any) -> Node:
        return Node(str(self.directory), **more)


def make_sample(directory: Path) -> Sample:
    """Make the sample in a new directory."""
    directory.mkdir()
    node = Node(str(directory))
    otto, vera = join(node, "otto", "cli"), join(node, "vera", kind="human")
    for number in range(6):
        send_text(node, otto, "@vera", f"message {number}: grün, 緑, 🟢")
    message = send_text(node, otto, "@vera", "the one that is tampered with")
    redacted = send_text(node, otto, "@vera", "the one that is redacted")
    blob = send_text(node, otto, "@vera", LARGE)
    node.call(otto, AcquireClaim(item="B-1", branch="main"))
    node.call(vera, ListInbox())
    node.call(vera, ReadMessage(message["id"]))
    node.call(vera, AckMessages((message["id"],), note="thanks"))
    ack = node.head()
    node.call(otto, Redact(redacted["id"], "a slip"))
    node.call(vera, Search("tampered"))
    for number in range(4):
        send_text(node, vera, "@otto", f"reply {number}")
    node.call(otto, ReleaseClaim(item="B-1"))
    send_text(node, vera, "@otto", "the last one")
    made = Sample(
        directory,
        otto,
        vera,
        node.head(),
        proofs.checkpoint(node)["checkpoint"],
        upkeep.state_digest(node),
        message["seq"],
        blob["seq"],
        ack,
    )
    node.close()
    # Tests that need a stored checkpoint add it. The others must find damage without one.
    shutil.rmtree(directory / "checkpoints")
    return made


@contextmanager
def sqlite(sample: Sample) -> Iterator[apsw.Connection]:
    """Open the database file directly, without the node."""
    with closing(apsw.Connection(str(sample.file))) as db, db:
        yield db


def verified(sample: Sample, note: str | None = None) -> Answer:
    with sample.open() as node:
        return audit.verify(node, note)


def damaged_entry(found: Answer) -> int:
    """Check that the answer reports damage, and return the position of the damaged entry."""
    assert found["ok"] is False, found
    assert found["code"] == "LOG_DAMAGED"
    assert str(found["seq"]) in found["message"]
    seq: int = found["seq"]
    return seq


def rows(db: apsw.Connection, sql: str, *bindings: Any) -> list[Any]:
    """Return all rows of a query."""
    return list(db.execute(sql, bindings))


def header_at(db: apsw.Connection, seq: int) -> bytes:
    return bytes(rows(db, "SELECT header FROM log WHERE seq = ?", seq)[0][0])


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def cut(db: apsw.Connection, entries: int) -> None:
    db.execute("DELETE FROM log WHERE seq > ?", (entries,))
    db.execute("DELETE FROM bodies WHERE seq > ?", (entries,))
    db.execute("DELETE FROM blob_uses WHERE seq > ?", (entries,))


def rewind_head(db: apsw.Connection) -> None:
    """Set the head to the end of the log."""
    seq, hash, _ = ends(db)
    db.execute("UPDATE head SET seq = ?, hash = ?", (seq, hash))


def rewind_position(db: apsw.Connection) -> None:
    seq, hash, frontier = ends(db)
    change = "UPDATE state_position SET seq = ?, hash = ?, frontier = ?"
    db.execute(change, (seq, hash, frontier.pack()))


def ends(db: apsw.Connection) -> tuple[int, str, Frontier]:
    """Return length, last hash and frontier of the log."""
    frontier, last = Frontier(), GENESIS
    for (header,) in rows(db, "SELECT header FROM log ORDER BY seq"):
        last = header_hash(bytes(header))
        frontier.append(bytes.fromhex(last))
    return frontier.size, last, frontier


def drop_state(db: apsw.Connection) -> None:
    for table in (*folding.tables(), "state_position"):
        db.execute(f"DROP TABLE {table}")
