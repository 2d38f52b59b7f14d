"""A workspace to damage: a sample log, and what somebody with SQLite at hand can do to it."""

import json
import os
import shutil
import subprocess
import sys
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
from interlock.rooms.identity import token_format
from interlock.rooms.identity.verbs import Join
from interlock.rooms.mail.verbs import (
    AckMessages,
    ListInbox,
    ReadMessage,
    Redact,
    Search,
    SendMessage,
)
from interlock.verbs.credentials import Credentials

OWNER = Credentials(owner=True)
LIMIT_S = 60.0
LARGE = "a line that is too long for the log\n" * 40_000
Answer = dict[str, Any]


def join(node: Node, name: str, surface: str | None = None, **more: Any) -> Credentials:
    token = token_format.compose(os.urandom(token_format.SECRET_BYTES))
    node.call(OWNER, Join(name, surface, token_hash=token_format.hashed(token), **more))
    return Credentials(token=token)


def tell(node: Node, who: Credentials, text: str, to: str = "@vera") -> Answer:
    message: Answer = node.call(who, SendMessage(to, {"text": text}, "send"))["message"]
    return message


class Sample(NamedTuple):
    """A closed workspace, who is in it, and the places of its log that tests go for."""

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
    directory.mkdir()
    node = Node(str(directory))
    otto, vera = join(node, "otto", "cli"), join(node, "vera", kind="human")
    for number in range(6):
        tell(node, otto, f"message {number}: grün, 緑, 🟢")
    message = tell(node, otto, "the one that is tampered with")
    redacted = tell(node, otto, "the one that is redacted")
    blob = tell(node, otto, LARGE)
    node.call(otto, AcquireClaim(item="B-1", branch="main"))
    node.call(vera, ListInbox())
    node.call(vera, ReadMessage(message["id"]))
    node.call(vera, AckMessages((message["id"],), note="thanks"))
    ack = node_entries(node)
    node.call(otto, Redact(redacted["id"], "a slip"))
    node.call(vera, Search("tampered"))
    for number in range(4):
        tell(node, vera, f"reply {number}", "@otto")
    node.call(otto, ReleaseClaim(item="B-1"))
    tell(node, vera, "the last one", "@otto")
    made = Sample(
        directory,
        otto,
        vera,
        node_entries(node),
        proofs.checkpoint(node)["checkpoint"],
        upkeep.state_digest(node),
        message["seq"],
        blob["seq"],
        ack,
    )
    node.close()
    # The checkpoint is for those tests that keep one; the others find the damage without.
    shutil.rmtree(directory / "checkpoints")
    return made


def node_entries(node: Node) -> int:
    with node.file.reading() as db:
        return int(node.engine.head(db).seq)


@contextmanager
def sqlite(sample: Sample) -> Iterator[apsw.Connection]:
    """The file as anybody with SQLite at hand sees it."""
    with closing(apsw.Connection(str(sample.file))) as db, db:
        yield db


def verified(sample: Sample, note: str | None = None) -> Answer:
    with sample.open() as node:
        return audit.verify(node, note)


def place(found: Answer) -> int:
    """The entry that a finding names; checks that it is one."""
    assert found["ok"] is False, found
    assert found["code"] == "LOG_DAMAGED"
    assert str(found["seq"]) in found["message"]
    seq: int = found["seq"]
    return seq


def interlock(workspace: Path, *words: str) -> tuple[int, Answer]:
    """Runs a command as the owner, and gives its exit status and JSON document."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(workspace.parent / "home"),
        "INTERLOCK_WORKSPACE": str(workspace),
    }
    command = [sys.executable, "-m", "interlock", *words, "--json"]
    done = subprocess.run(
        command, env=environment, capture_output=True, timeout=LIMIT_S, check=False
    )
    assert b"Traceback" not in done.stderr, done.stderr
    document: Answer = json.loads(done.stdout)
    return done.returncode, document


def rows(db: apsw.Connection, sql: str, *bindings: Any) -> list[Any]:
    """All rows, of whatever types the table has."""
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
    """Makes the head say what the log says."""
    seq, hash, _ = ends(db)
    db.execute("UPDATE head SET seq = ?, hash = ?", (seq, hash))


def rewind_position(db: apsw.Connection) -> None:
    seq, hash, frontier = ends(db)
    change = "UPDATE state_position SET seq = ?, hash = ?, frontier = ?"
    db.execute(change, (seq, hash, frontier.pack()))


def ends(db: apsw.Connection) -> tuple[int, str, Frontier]:
    """Length, last hash and frontier of the log as it stands."""
    frontier, last = Frontier(), GENESIS
    for (header,) in rows(db, "SELECT header FROM log ORDER BY seq"):
        last = header_hash(bytes(header))
        frontier.append(bytes.fromhex(last))
    return frontier.size, last, frontier


def drop_state(db: apsw.Connection) -> None:
    for table in (*folding.tables(), "state_position"):
        db.execute(f"DROP TABLE {table}")
