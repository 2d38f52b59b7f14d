"""One write transaction at the head of the log. Each write has a savepoint of its own.

The batch chains each appended fact to the fact before it, and folds it at once. It rolls a refused
write back to its savepoint.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apsw

from interlock.log.facts import Entry, Header, commitment, header_hash, parse_header
from interlock.log.merkle import Frontier
from interlock.node import search
from interlock.rooms import folding
from interlock.rooms.transaction import (
    SYSTEM_CALLER,
    Caller,
    FoldedState,
    KeyedRequest,
    Mine,
    Transaction,
    settings_of,
)
from interlock.stores import Engine, Head
from interlock.stores.presence import Presence

SALT_BYTES = 16
STALE_UPLOAD_MS = 86_400_000


def new_id() -> str:
    """Return a random UUID (version 4). Importing the module `uuid` would slow down commands."""
    bits = bytearray(os.urandom(16))
    bits[6] = bits[6] & 0x0F | 0x40
    bits[8] = bits[8] & 0x3F | 0x80
    text = bits.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class BodyStore:
    """The data outside the headers, for rules: see `rooms.transaction.Store`."""

    def __init__(
        self,
        engine: Engine,
        db: apsw.Connection,
        presence: Presence,
        now: int,
        *,
        as_is: bool = False,
    ) -> None:
        """`as_is` searches without updating the index, while no write is possible."""
        self._engine, self._db, self._presence, self._now = engine, db, presence, now
        self._as_is = as_is
        self.erased = False

    def facts(self, after: int) -> Iterator[Header]:
        for _, header in self._engine.follow(self._db, after):
            yield parse_header(header)

    def body(self, seq: int) -> bytes | None:
        found = self._engine.body(self._db, seq)
        return found[1] if found else None

    def same_request(self, seq: int, request: bytes) -> bool:
        found = self._engine.body(self._db, seq)
        row = self._db.execute("SELECT header FROM log WHERE seq = ?", (seq,)).fetchone()
        if found is None or row is None:
            return False
        act = parse_header(row[0]).act
        return act is not None and act["digest"] == commitment(found[0], request)

    def blob(self, sha256: str, start: int, stop: int) -> bytes:
        return self._engine.blob(self._db, sha256, start, stop)

    def put_chunk(self, upload: str, number: int, data: bytes) -> None:
        if number == 0:
            self._engine.drop_stale(f"{self._now - STALE_UPLOAD_MS:015}")
        self._engine.put_chunk(upload, number, data)

    def drop_upload(self, upload: str) -> None:
        self._engine.drop_upload(upload)

    def keep_blob(self, upload: str, sha256: str, seq: int) -> int:
        size = self._engine.join(upload, sha256)
        self._engine.use_blob(sha256, seq)
        return size

    def forget(self, seq: int) -> None:
        if (body := self.body(seq)) is not None:
            search.forget(self._db, seq, body)
        self._engine.forget(seq)
        self.erased = True

    def reach(
        self, names: Iterable[str], may_wake: Callable[[], bool] = lambda: True
    ) -> tuple[str, int | None]:
        return self._presence.reach(names, self._now, may_wake)

    def search(self, query: str, mine: Mine) -> Iterable[int]:
        return search.find(self._db, query, mine, as_is=self._as_is)


class Position:
    """The end of the folded state. `workspace` and `epoch` are the log's values at that point."""

    __slots__ = ("epoch", "frontier", "hash", "seq", "workspace")

    def __init__(self, seq: int, hash: str, frontier: Frontier) -> None:
        self.seq = seq
        self.hash = hash
        self.frontier = frontier
        self.workspace = ""
        self.epoch = 0

    def at(self, head: Head) -> bool:
        return self.seq == head.seq and self.hash == head.hash

    def store(self, db: FoldedState) -> None:
        db.execute(
            "UPDATE state_position SET schema = ?, seq = ?, hash = ?, frontier = ?",
            (folding.SCHEMA, self.seq, self.hash, self.frontier.pack()),
        )

    def read_workspace(self, db: FoldedState) -> None:
        row = db.execute("SELECT id, epoch FROM workspace_self").fetchone()
        if row is not None:
            self.workspace, self.epoch = row


class Batch:
    """The write transaction. `close` moves head and position past the appended facts."""

    def __init__(
        self,
        engine: Engine,
        db: apsw.Connection,
        presence: Presence,
        head: Head,
        position: Position,
    ) -> None:
        self.engine = engine
        self.db = db
        self.head = head
        self.position = position
        self.now = engine.now(head)
        self.store = BodyStore(engine, self.db, presence, self.now)
        self._leaves: list[bytes] = []
        self._settings: dict[str, str] | None = None
        self._seq, self._hash = position.seq, position.hash

    def transaction(self, caller: Caller) -> Transaction:
        if self._settings is None:
            self._settings = settings_of(self.db)
        return Transaction(
            self.db,
            self.store,
            self.now,
            self.position.epoch,
            caller,
            new_id,
            self._record,
            self._settings,
        )

    def system(self) -> Transaction:
        return self.transaction(SYSTEM_CALLER)

    def attempt(self, work: Callable[["Batch"], Any]) -> Any:
        """Run the work in a savepoint. An exception rolls back the facts that it appended."""
        before = self._seq, self._hash, len(self._leaves)
        self.db.execute("SAVEPOINT write")
        try:
            result = work(self)
        except BaseException:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK TO write; RELEASE write")
            self._seq, self._hash = before[:2]
            self._settings = None
            del self._leaves[before[2] :]
            raise
        self.db.execute("RELEASE write")
        return result

    def _record(
        self,
        tx: Transaction,
        kind: str,
        outcome: dict[str, Any],
        body: bytes | None,
        sender: str,
        keyed: KeyedRequest | None,
    ) -> Header:
        salt = os.urandom(SALT_BYTES) if body is not None else None
        caller = tx.caller
        own = sender == caller.sender
        fact = Header(
            workspace=self.position.workspace,
            epoch=tx.epoch,
            seq=self._seq + 1,
            at=self.now,
            kind=kind,
            sender=sender,
            outcome=outcome,
            prev=self._hash,
            body=commitment(salt, body) if salt is not None and body is not None else None,
            token=caller.token if own else None,
            session=caller.session if own else None,
            act={"key": keyed.key, "digest": commitment(salt, keyed.content)}
            if keyed is not None and salt is not None
            else None,
        )
        encoded = fact.encode()
        self.engine.append(Entry(fact.seq, encoded, salt, body))
        folding.fold(self.db, fact)
        if kind == "setting_changed":
            self._settings = None
        self._seq, self._hash = fact.seq, header_hash(encoded)
        self._leaves.append(bytes.fromhex(self._hash))
        return fact

    def reached(self) -> Head:
        """The head of the log, with the facts of this transaction."""
        return Head(self._seq, self._hash, self.now, self.head.raw)

    def close(self) -> None:
        """Move head and position past the appended facts, for the COMMIT that follows."""
        if not self._leaves:
            self.engine.note_clock(self.head)
            return
        position = self.position
        for leaf in self._leaves:
            position.frontier.append(leaf)
        position.seq, position.hash = self._seq, self._hash
        position.store(self.db)
        self.engine.advance(self.reached())
