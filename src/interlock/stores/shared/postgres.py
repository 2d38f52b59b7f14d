"""PostgreSQL: a row for each entry, and a row whose lock is the turn. PostgreSQL grants the lock in
the order of the requests.

The head is the log's last row. The primary key prevents two appends to one position, even if two
nodes both believe that they hold the lock.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import sql
from psycopg.errors import LockNotAvailable, UniqueViolation
from psycopg.pq import TransactionStatus

from interlock.errors import EngineUnavailable
from interlock.log.facts import GENESIS
from interlock.stores.shared import postgres_statements as statements
from interlock.stores.shared.postgres_connection import (
    TURN_WITHIN_MS,
    Line,
    PostgresConnection,
    PostgresServer,
)
from interlock.stores.shared.remote import (
    READ_BYTES,
    AnswerLost,
    Appending,
    HeadMoved,
    RemoteHead,
    Sealed,
)

POLL_INTERVAL_S = 0.5
ALIVE_AFTER_S = 1.0
FORGOTTEN_AFTER = "1 hour"


class PostgresRemote:
    """A workspace's `Remote` in PostgreSQL."""

    name = "postgres"

    def __init__(self, url: str, workspace: str) -> None:
        self._workspace = workspace
        self._server = PostgresServer(url)
        self._channel = "interlock_" + hashlib.sha256(workspace.encode()).hexdigest()[:32]
        self._begin = sql.SQL(statements.BEGIN).format(workspace=sql.Literal(workspace))
        self._turns = Line(self._server, self._prepare_turns)
        self._looks = Line(self._server, lambda db: db.execute(statements.TABLES))
        self._hints = Line(self._server, self._prepare_hints)
        self._rung = False

    def _prepare_turns(self, db: PostgresConnection) -> None:
        db.execute(statements.TABLES)
        db.execute(statements.HEAD, (self._workspace,))

    def _prepare_hints(self, db: PostgresConnection) -> None:
        def ring(_: psycopg.Notify) -> None:
            self._rung = True

        db.execute(statements.TABLES)
        db.add_notify_handler(ring)
        db.execute(f"LISTEN {self._channel}")

    # --- the turn

    def begin(self, node: str) -> RemoteHead:
        """While the lock is not granted, read the head on another connection: a busy server
        answers, and a dead one does not."""
        with self._turns.use() as db:
            try:
                with db.patient(ALIVE_AFTER_S, self.remote_head):
                    found = db.execute(self._begin)
            except LockNotAvailable:
                raise EngineUnavailable(
                    f"Other nodes held the log's write lock for {TURN_WITHIN_MS // 1000} s. "
                    "Nothing was done. Try again."
                ) from None
            found.nextset()
            if found.fetchone() is None:
                raise EngineUnavailable(
                    "The workspace's row in the table interlock_heads was deleted. Nothing was "
                    "done. Try again: the next connection creates the row."
                )
            found.nextset()
            return _head(found.fetchone())

    def append(self, after: RemoteHead, batch: Appending) -> None:
        def write(db: PostgresConnection) -> bool:
            if not self._write_entries(db, after, batch.entries):
                return False
            if batch.blobs:
                # If two uploads have the same bytes, the first stays.
                uploads = [blob.upload for blob in batch.blobs]
                digests = [blob.sha256 for blob in batch.blobs]
                sizes = [blob.size for blob in batch.blobs]
                db.execute(statements.KEEP_BLOBS, (self._workspace, digests, uploads, sizes))
                db.execute(statements.DROP_UPLOADS, (self._workspace, uploads, self._workspace))
            if batch.erased:
                db.execute(statements.ERASE, (self._workspace, list(batch.erased)))
            if batch.dropped:
                db.execute(statements.DROP_BLOBS, (self._workspace, list(batch.dropped)))
            return True

        self._commit(write)

    def rewrite_entries(self, after: RemoteHead, entries: Sequence[Sealed]) -> None:
        def write(db: PostgresConnection) -> bool:
            db.execute(statements.UNSEAT, (self._workspace, [entry.seq for entry in entries]))
            return self._write_entries(db, after, entries)

        self._commit(write)

    def _commit(self, write: Callable[[PostgresConnection], bool]) -> None:
        """Write in the turn's transaction and commit it. `write` returns False if the head has
        moved. After an error before COMMIT is sent, nothing is stored. After a later error, the
        outcome is unknown."""
        db = self._turns.held()
        if db is None or db.info.transaction_status != TransactionStatus.INTRANS:
            raise HeadMoved
        try:
            good = write(db)
        except psycopg.Error as trouble:
            over = db.broken or isinstance(trouble, UniqueViolation)
            self.leave()
            raise (HeadMoved() if over else self._server.unavailable(trouble)) from None
        if not good:
            self.leave()
            raise HeadMoved
        try:
            kept = db.execute("COMMIT").statusmessage == "COMMIT"
        except psycopg.Error as trouble:
            self._turns.drop()
            raise AnswerLost(str(trouble).partition("\n")[0]) from None
        if not kept:
            raise HeadMoved
        # Inside the transaction, NOTIFY would block all other workspaces until it is on disk.
        try:
            db.execute(f"NOTIFY {self._channel}")
        except psycopg.Error:
            self._turns.drop()

    def _write_entries(
        self, db: PostgresConnection, after: RemoteHead, entries: Sequence[Sealed]
    ) -> bool:
        """Write entries in the turn's transaction. Return False if the head has moved."""
        with_body = [
            entry for entry in entries if entry.salt is not None and entry.body is not None
        ]
        given = {
            "workspace": self._workspace,
            "seq": after.seq,
            "hash": after.hash,
            "genesis": GENESIS,
            "seqs": [entry.seq for entry in entries],
            "hashes": [entry.hash for entry in entries],
            "headers": [entry.header for entry in entries],
            "keeps": ["\n".join(entry.keeps) for entry in entries],
            "macs": [entry.mac for entry in entries],
            "said": [entry.seq for entry in with_body],
            "salts": [entry.salt for entry in with_body],
            "bodies": [entry.body for entry in with_body],
        }
        return db.execute(statements.APPEND, given).fetchone() == (True,)

    def stay(self) -> None:
        db = self._turns.held()
        if db is not None:
            with suppress(psycopg.Error):  # the append will fail too
                db.execute("SELECT 1")

    def leave(self, after: RemoteHead | None = None) -> bool:
        """While this transaction held the lock, no other node appended. Return False if the server
        has ended the transaction."""
        db = self._turns.held()
        if db is None:
            return False
        was_ours = db.info.transaction_status == TransactionStatus.INTRANS
        try:
            db.execute("ROLLBACK")
        except psycopg.Error:
            self._turns.drop()
            return False
        return was_ours

    # --- without the turn

    def remote_head(self) -> RemoteHead:
        with self._looks.use() as db:
            return self._read_head(db)

    def _read_head(self, db: PostgresConnection) -> RemoteHead:
        return _head(
            db.execute(statements.LAST.format(workspace="%s"), (self._workspace,)).fetchone()
        )

    def read(self, after: int, limit: int) -> list[Sealed]:
        with self._looks.use() as db:
            return self._entries(db, after, limit)

    def _entries(self, db: PostgresConnection, after: int, limit: int) -> list[Sealed]:
        given = (self._workspace, after, limit, READ_BYTES)
        found = db.execute(statements.READ, given, binary=True)
        return [_sealed(*row) for row in found]

    def headers(self, after: int, limit: int) -> list[Sealed]:
        with self._looks.use() as db:
            found = db.execute(statements.HEADERS, (self._workspace, after, limit), binary=True)
            return [_sealed(*row) for row in found]

    def wait(self, after: int, seconds: float) -> None:
        """A notification is a hint: read the head after it."""
        deadline = time.monotonic() + seconds
        while True:
            with self._hints.use() as db:
                self._rung = False
                left = deadline - time.monotonic()
                if self._read_head(db).seq > after or left <= 0:
                    return
                if not self._rung and not self._hints.is_closed:
                    db.has_spoken(min(left, POLL_INTERVAL_S))

    def set_aside(self, entry: Sealed) -> None:
        where = {"workspace": self._workspace, "seq": entry.seq}
        with self._looks.use() as db, db.transaction():
            db.execute(statements.LOCK_ENTRY, where)
            found = self._entries(db, entry.seq - 1, 1)
            if found and found[0][:5] == entry[:5]:
                db.execute(statements.SET_ASIDE, where)

    def aside(self) -> int:
        with self._looks.use() as db:
            db.execute(statements.SET_STRAYS_ASIDE, (self._workspace,))
            return _number(db.execute(statements.ASIDE, (self._workspace,)).fetchone())

    def discard_aside(self) -> int:
        with self._looks.use() as db:
            return db.execute(statements.DISCARD_ASIDE, (self._workspace,)).rowcount

    # --- uploads and blobs: durable at once, whether or not the turn commits

    def put_chunk(self, upload: str, number: int, data: bytes) -> None:
        with self._looks.use() as db:
            given = {"upload": upload, "number": number, "data": data}
            db.execute(statements.PUT_CHUNK, given | {"workspace": self._workspace})

    def drop_upload(self, upload: str) -> None:
        with self._looks.use() as db:
            db.execute(statements.DROP_UPLOADS, (self._workspace, [upload], self._workspace))

    def drop_stale(self, before: str) -> None:
        with self._looks.use() as db:
            db.execute(statements.DROP_STALE, (self._workspace, before, self._workspace))

    def chunks(self, upload: str) -> Iterator[tuple[int, bytes]]:
        number = -1
        while True:
            with self._looks.use() as db:
                found = db.execute(statements.CHUNK, (self._workspace, upload, number), binary=True)
                row = found.fetchone()
            if row is None:
                return
            number = row[0]
            yield number, row[1]

    def upload_of(self, sha256: str) -> str | None:
        with self._looks.use() as db:
            row = db.execute(statements.UPLOAD_OF, (self._workspace, sha256)).fetchone()
        return None if row is None else _text(row[0])

    # --- operations

    def beat(self, node: str, about: bytes) -> dict[str, bytes]:
        with self._looks.use() as db:
            db.execute(statements.FORGET_NODES, (self._workspace, FORGOTTEN_AFTER))
            db.execute(statements.BEAT, (self._workspace, node, about))
            found = db.execute(statements.NODES, (self._workspace,), binary=True)
            return {_text(name): report for name, report in found}

    def hazards(self) -> list[str]:
        with self._looks.use() as db:
            settings = {
                _text(name): _text(value) for name, value in db.execute(statements.SETTINGS)
            }
            followers = _number(db.execute(statements.FOLLOWERS).fetchone())
        found = [_HAZARDS[name] for name in _HAZARDS if settings.get(name) == "off"]
        if followers and not settings.get("synchronous_standby_names"):
            found.append(_ASYNCHRONOUS)
        return found

    def close(self) -> None:
        self._hints.hang_up()
        for line in (self._turns, self._looks):
            line.close()


_HAZARDS = {
    "fsync": "fsync is off: a crash of the machine may lose acknowledged writes or the whole log. "
    "ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf()",
    "full_page_writes": "full_page_writes is off: a crash of the machine may leave half-written "
    "pages. ALTER SYSTEM SET full_page_writes = on; SELECT pg_reload_conf()",
    "synchronous_commit": "synchronous_commit is off, even for Interlock: a crash may lose the "
    "last acknowledged writes. ALTER SYSTEM SET synchronous_commit = on; SELECT pg_reload_conf()",
}
_ASYNCHRONOUS = (
    "the server has replicas, and synchronous_standby_names is empty: a failover may lose the last "
    "acknowledged writes. ALTER SYSTEM SET synchronous_standby_names = '*'; SELECT "
    "pg_reload_conf(), or after a failover: interlock repair"
)


def _head(row: tuple[Any, ...] | None) -> RemoteHead:
    assert row is not None  # the query always returns one row
    seq, hash, now = row
    return RemoteHead(now=now) if seq is None else RemoteHead(seq, _text(hash), now)


def _sealed(seq: int, hash: Any, header: Any, keeps: Any, mac: Any, salt: Any, body: Any) -> Sealed:
    """Convert a row to an entry. A holder of the password may have written values of any type."""
    digests = tuple(_text(keeps).split("\n")) if keeps else ()
    known = header if isinstance(header, bytes) else b""
    return Sealed(seq, _text(hash), known, digests, _text(mac), salt, body)


def _text(value: Any) -> str:
    """Return a text value. A database without an encoding returns texts as bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else ""


def _number(row: tuple[Any, ...] | None) -> int:
    return int(row[0]) if row else 0
