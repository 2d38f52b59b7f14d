"""The embedded engine: the log in the workspace's SQLite file, one transaction with the state."""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import apsw

from interlock.errors import DigestMismatch, LogDamaged, NotFound, Usage
from interlock.log.facts import GENESIS, Entry
from interlock.stores import Facts, Head
from interlock.stores.file import LogFile

CHUNK = 1 << 20

# map: log          seq -> header bytes; never updated, never deleted
#      bodies       seq -> salt and body; deleted by redaction
#      head         one row: the last position and the clock's reading then
#      blobs        digest -> which upload holds the bytes
#      blob_chunks  an upload's bytes, CHUNK each but the last
#      blob_uses    which facts' bodies point to a blob
TABLES = """
CREATE TABLE log(seq INTEGER PRIMARY KEY, header BLOB NOT NULL) STRICT;
CREATE TABLE bodies(seq INTEGER PRIMARY KEY, salt BLOB NOT NULL, body BLOB NOT NULL) STRICT;
CREATE TABLE head(one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL,
    hash TEXT NOT NULL, at INTEGER NOT NULL, raw INTEGER NOT NULL) STRICT;
CREATE TABLE blobs(sha256 TEXT PRIMARY KEY, upload TEXT NOT NULL, size INTEGER NOT NULL)
    STRICT, WITHOUT ROWID;
CREATE TABLE blob_chunks(upload TEXT NOT NULL, number INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (upload, number)) STRICT;
CREATE TABLE blob_uses(sha256 TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (sha256, seq))
    STRICT, WITHOUT ROWID;
CREATE INDEX blob_uses_by_seq ON blob_uses(seq);
"""


def clock_ms() -> int:
    return time.time_ns() // 1_000_000


class SqliteEngine:
    """The `Engine` on a `LogFile`. The turn is the file's write transaction."""

    def __init__(self, file: LogFile, clock: Callable[[], int] = clock_ms) -> None:
        self.file = file
        self._clock = clock
        with file.reading() as db:
            made = db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'head'").fetchone()
        if not made:
            with file.writing() as db:
                if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'head'").fetchone():
                    db.execute(TABLES)
                    db.execute("INSERT INTO head VALUES (1, 0, ?, 0, 0)", (GENESIS,))

    @contextmanager
    def turn(self, *, wait: bool = True) -> Iterator[None]:
        with self.file.writing(wait=wait):
            self.file.refuse_moved()
            yield

    def age_s(self) -> float | None:
        return 0.0

    def head(self, db: apsw.Connection) -> Head:
        row = db.execute("SELECT seq, hash, at, raw FROM head").fetchone()
        if row is None:
            raise LogDamaged("The log's head is missing. Restore a backup: interlock restore FILE")
        return Head(*row)

    def now(self, head: Head) -> int:
        """While the clock is behind the log, the log's time runs at half the clock's speed,
        measured from `head.raw`, and never goes back."""
        raw = self._clock()
        return max(raw, head.at + max(0, raw - head.raw) // 2)

    def note_clock(self, head: Head) -> None:
        raw = self._clock()
        if raw < head.raw:
            self.file.writer.execute("UPDATE head SET raw = ?", (raw,))

    def append(self, entry: Entry) -> None:
        execute = self.file.writer.execute
        execute("INSERT INTO log VALUES (?, ?)", (entry.seq, entry.header))
        if entry.body is not None:
            execute("INSERT INTO bodies VALUES (?, ?, ?)", (entry.seq, entry.salt, entry.body))

    def advance(self, head: Head) -> None:
        before = self.head(self.file.writer)
        # The clock's reading that `head.at` stands for. While the log runs at half speed, two of
        # the clock's milliseconds count for each of the log's, so that quick appends lose none.
        raw = self._clock()
        if raw >= head.at:
            raw = head.at
        elif raw >= before.raw:
            raw = min(raw, before.raw + 2 * (head.at - before.at))
        self.file.writer.execute(
            "UPDATE head SET seq = ?, hash = ?, at = ?, raw = ?",
            (head.seq, head.hash, head.at, raw),
        )

    def follow(self, db: apsw.Connection, after: int) -> Facts:
        yield from db.execute("SELECT seq, header FROM log WHERE seq > ? ORDER BY seq", (after,))

    def body(self, db: apsw.Connection, seq: int) -> tuple[bytes, bytes] | None:
        row = db.execute("SELECT salt, body FROM bodies WHERE seq = ?", (seq,)).fetchone()
        return row and (row[0], row[1])

    def forget(self, seq: int) -> None:
        db = self.file.writer
        db.execute("DELETE FROM bodies WHERE seq = ?", (seq,))
        used = db.execute("SELECT sha256 FROM blob_uses WHERE seq = ?", (seq,)).fetchall()
        db.execute("DELETE FROM blob_uses WHERE seq = ?", (seq,))
        for (sha256,) in used:
            if db.execute("SELECT 1 FROM blob_uses WHERE sha256 = ?", (sha256,)).fetchone():
                continue
            db.execute(
                "DELETE FROM blob_chunks WHERE upload = "
                "(SELECT upload FROM blobs WHERE sha256 = ?)",
                (sha256,),
            )
            db.execute("DELETE FROM blobs WHERE sha256 = ?", (sha256,))

    def put_chunk(self, upload: str, number: int, data: bytes) -> None:
        self.check_chunk(upload, data)
        db = self.file.writer
        db.execute("INSERT OR REPLACE INTO blob_chunks VALUES (?, ?, ?)", (upload, number, data))

    def check_chunk(self, upload: str, data: bytes) -> None:
        if not 0 < len(data) <= CHUNK:
            raise Usage(f"A chunk has 1 to {CHUNK} bytes; this one has {len(data)}.")
        held = "SELECT 1 FROM blobs WHERE upload = ?"
        if self.file.writer.execute(held, (upload,)).fetchone() is not None:
            raise Usage("That upload is a blob by now, and does not change any more.")

    def join(self, upload: str, sha256: str) -> int:
        db = self.file.writer
        whole, size, expected, gap = hashlib.sha256(), 0, 0, False
        for number, data in db.execute(
            "SELECT number, data FROM blob_chunks WHERE upload = ? ORDER BY number", (upload,)
        ):
            gap = gap or number != expected or size % CHUNK != 0
            whole.update(data)
            size, expected = size + len(data), expected + 1
        if gap or whole.hexdigest() != sha256:
            raise DigestMismatch(
                f"The uploaded bytes do not have the SHA-256 {sha256}: a chunk is missing, short, "
                "or was changed on the way. Upload them again."
            )
        if db.execute("SELECT 1 FROM blobs WHERE sha256 = ?", (sha256,)).fetchone():
            db.execute("DELETE FROM blob_chunks WHERE upload = ?", (upload,))
        else:
            db.execute("INSERT INTO blobs VALUES (?, ?, ?)", (sha256, upload, size))
        return size

    def use_blob(self, sha256: str, seq: int) -> None:
        self.file.writer.execute("INSERT OR IGNORE INTO blob_uses VALUES (?, ?)", (sha256, seq))

    def drop_upload(self, upload: str) -> None:
        self.file.writer.execute(
            "DELETE FROM blob_chunks WHERE upload = ?1 "
            "AND NOT EXISTS (SELECT 1 FROM blobs WHERE upload = ?1)",
            (upload,),
        )

    def drop_stale(self, before: str) -> None:
        self.file.writer.execute(
            "DELETE FROM blob_chunks WHERE upload < ? AND upload NOT IN (SELECT upload FROM blobs)",
            (before,),
        )

    def blob(self, db: apsw.Connection, sha256: str, start: int, stop: int) -> bytes:
        row = db.execute("SELECT upload FROM blobs WHERE sha256 = ?", (sha256,)).fetchone()
        if row is None:
            raise NotFound("The blob of that digest is not kept here.")
        chunks = db.execute(
            "SELECT data FROM blob_chunks WHERE upload = ? AND number BETWEEN ? AND ? "
            "ORDER BY number",
            (row[0], start // CHUNK, max(start, stop - 1) // CHUNK),
        )
        joined = b"".join(data for (data,) in chunks)
        return joined[start % CHUNK :][: stop - start]

    def close(self) -> None:
        """Close nothing: the file belongs to the node."""
