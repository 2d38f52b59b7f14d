"""The embedded engine, and the SQLite file with log and state: write one at a time, read while
others write, detect commits.

No process ever opens the database, -wal or -shm file except through SQLite. A plain `open` and
`close` would drop the POSIX locks that SQLite holds.

No SQLite connection may cross a fork(), not even an unused one. SQLite records the locks of a
process in memory, per file. A child that inherits the record relies on locks that it does not have.
A parent that closes its connection believes that it is the last user, and deletes the WAL that the
child uses. So this module closes every connection before a fork, when no thread uses one. Parent
and child open new connections on demand.
"""

import fcntl
import hashlib
import os
import select
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import apsw

from interlock.errors import (
    DigestMismatch,
    EngineUnavailable,
    LogDamaged,
    NotAWorkspace,
    NotFound,
    OtherHost,
    Usage,
)
from interlock.log.facts import GENESIS, Entry
from interlock.stores import Facts, Head, recognition
from interlock.stores.doorbell import Bell, Doorbell
from interlock.stores.recognition import pragma

BUSY_MS = 10_000
POLL_S = 0.25


class Turnstile:
    """Admits the writers of all processes one at a time, roughly in the order of their arrival.

    SQLite's busy handler sleeps and retries, which starves some writers for seconds. Two file locks
    make a short, fair queue instead. The next writer holds the queue's lock while it waits for the
    turn's lock, and all others wait for the queue's lock. A process that dies loses its locks."""

    def __init__(self, directory: str) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._queue = os.open(os.path.join(directory, "turnstile.queue"), flags, 0o600)
        try:
            self._turn = os.open(os.path.join(directory, "turnstile.turn"), flags, 0o600)
        except BaseException:
            os.close(self._queue)
            raise

    @contextmanager
    def passed(self, *, wait: bool = True) -> Iterator[None]:
        """Hold the turn. The wait has no timeout. With `wait=False`, raise BlockingIOError."""
        try:
            fcntl.flock(self._turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                raise
            fcntl.flock(self._queue, fcntl.LOCK_EX)
            try:
                fcntl.flock(self._turn, fcntl.LOCK_EX)
            finally:
                fcntl.flock(self._queue, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self._turn, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._queue)
        os.close(self._turn)


class Gate:
    """Tracks which threads use a connection, and blocks new uses during a fork."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._inside: dict[int, int] = {}
        self._shut = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Wrap every use of a connection. A fork waits for its end, and delays the next use."""
        me = threading.get_ident()
        with self._change:
            while self._shut and me not in self._inside:
                self._change.wait()
            self._inside[me] = self._inside.get(me, 0) + 1
        try:
            yield
        finally:
            with self._change:
                self._inside[me] -= 1
                if not self._inside[me]:
                    del self._inside[me]
                    if self._shut:
                        self._change.notify_all()

    def shut(self) -> bool:
        """Wait until no other thread uses a connection. Return False if the forking thread does."""
        me = threading.get_ident()
        self._change.acquire()
        self._shut = True
        while any(thread != me for thread in self._inside):
            self._change.wait()
        return me not in self._inside

    def open(self) -> None:
        self._shut = False
        self._change.notify_all()
        self._change.release()


@contextmanager
def translated() -> Iterator[None]:
    """Convert SQLite's errors into refusals. Any other error is a defect and passes through."""
    try:
        yield
    except apsw.BusyError:
        raise EngineUnavailable(
            "Another process has held the workspace's write lock for too long. Find a stopped "
            "interlock process with ps, end it, and try again."
        ) from None
    except apsw.FullError:
        raise EngineUnavailable("The disk is full. Nothing was written. Free some space.") from None
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError) as trouble:
        raise EngineUnavailable(
            f"Interlock cannot write to the workspace ({trouble}). Check the owner and the "
            "permissions of its directory."
        ) from None
    except apsw.IOError as trouble:
        raise EngineUnavailable(f"The disk reports an error ({trouble}). Check the disk.") from None
    except apsw.NotADBError:
        raise NotAWorkspace(
            "The file log.db of this workspace is not an Interlock log. It was not changed."
        ) from None
    except apsw.CorruptError as trouble:
        raise LogDamaged(
            f"The file log.db is damaged ({trouble}). Keep it, and restore a backup into a new "
            "workspace: interlock --workspace DIRECTORY restore FILE"
        ) from None


def engine_of(connection: apsw.Connection) -> str | None:
    """Return the log's name on the shared engine, if this file is a copy of it, else None."""
    row = connection.execute("SELECT value FROM file_meta WHERE name = 'engine'").fetchone()
    return row and str(row[0])


class LogFile:
    """A workspace's file: one writer connection, readers as needed, turnstile and doorbell."""

    def __init__(self, directory: str, *, adopt: bool = False, is_copy: bool = False) -> None:
        """Open or create the file in `directory`, which must exist. `adopt` takes over a file that
        another host used last. `is_copy` says that a shared engine has the log, so that a commit
        need not wait for the disk. Refuse an unsafe file, and leave it unchanged."""
        self.directory = directory
        self._synchronous = "NORMAL" if is_copy else "FULL"
        self.path = os.path.join(directory, "log.db")
        self.gate = Gate()
        self.forks = 0
        self._closed = False
        self._writer: apsw.Connection | None = None
        self._readers: deque[apsw.Connection] = deque()
        self._listeners: weakref.WeakSet[Listener] = weakref.WeakSet()
        try:
            with translated(), ExitStack() as undo:
                undo.callback(self.let_go)
                writer = self.writer
                if not recognition.is_fresh(writer):
                    recognition.refuse_foreign(writer, self.path)
                self._turnstile = Turnstile(directory)
                undo.callback(self._turnstile.close)
                self._doorbell = Doorbell(os.path.join(directory, "bells"))
                if recognition.is_fresh(writer):
                    recognition.refuse_network(directory)
                    with self._turnstile.passed():
                        if recognition.is_fresh(writer):  # and no other process filled it first
                            recognition.fill(writer, directory)
                try:
                    moved = recognition.used_elsewhere(writer, directory)
                except OtherHost:
                    if not adopt:
                        raise
                    moved = True
                if moved:
                    with self._turnstile.passed(), writer:
                        recognition.sign_in(writer, directory)
                undo.pop_all()
        except OSError as trouble:
            raise EngineUnavailable(
                f"Interlock cannot use the workspace in {directory}: {trouble.strerror}."
            ) from None
        _watched.add(self)

    def connect(self) -> apsw.Connection:
        if not os.path.exists(self.path):
            recognition.make_private(self.path)
        connection = apsw.Connection(self.path)
        connection.set_busy_timeout(BUSY_MS)
        # Without this, SQLite plans by the bound values, and prepares a cached statement again
        # whenever they change. That took half the time of a send.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        connection.execute(f"PRAGMA synchronous = {self._synchronous}; PRAGMA cache_size = -16000")
        if sys.platform == "darwin":
            connection.execute("PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON")
        return connection

    @property
    def writer(self) -> apsw.Connection:
        """The connection of `writing`, for the thread that holds the turn."""
        if self._writer is None:
            self._writer = self.connect()
            self._writer.execute("PRAGMA secure_delete = ON")
        return self._writer

    def reader(self) -> apsw.Connection:
        connection = self.connect()
        connection.execute("PRAGMA query_only = ON")
        return connection

    @contextmanager
    def writing(self, *, wait: bool = True) -> Iterator[apsw.Connection]:
        """Take the turn for one transaction. Commit it at the end, then ring the doorbell. With
        `wait=False`, raise BlockingIOError while another process has the turn."""
        with translated(), self._turnstile.passed(wait=wait), self.gate.inside():
            writer = self.writer
            before = writer.total_changes()
            writer.execute("BEGIN IMMEDIATE")
            try:
                yield writer
                writer.execute("COMMIT")
            except BaseException:
                if writer.in_transaction:
                    writer.execute("ROLLBACK")
                raise
            changed = writer.total_changes() != before
        if changed:
            self.ring()

    @contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        """Yield a consistent view of the last commit. No writer blocks it."""
        with translated(), self.gate.inside():
            connection = self._readers.pop() if self._readers else self.reader()
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")
                self._readers.append(connection)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Block the writers of all processes, for work outside a transaction."""
        with self._turnstile.passed():
            yield

    def refuse_moved(self) -> None:
        """Refuse to use the file as the log, if it has become a copy of a shared engine's log."""
        if (name := engine_of(self.writer)) is not None:
            raise EngineUnavailable(
                f"The log of this workspace was moved to a shared engine, under the name {name}. "
                "Nothing was done. Run the command again. If that fails, name the engine: "
                f"interlock up --engine URL?workspace={name}"
            )

    def note_copy(self, workspace: str) -> None:
        """Record, within the turn, that a shared engine stores the log from now on."""
        self.writer.execute("INSERT OR REPLACE INTO file_meta VALUES ('engine', ?)", (workspace,))

    def ring(self) -> None:
        self._doorbell.ring()

    def listen(self) -> "Listener":
        with translated():
            listener = Listener(self, self._doorbell)
        self._listeners.add(listener)
        return listener

    def backup(self, target: str) -> int:
        """Copy the file into a new one while other processes read and write. Return the length of
        the log in it. Raise Usage if the target exists or cannot be written."""
        if os.path.lexists(target):
            raise Usage(f"{target} already exists. Name a new file for the backup.")
        return self.copy(self.path, target)

    def copy(self, source: str, target: str) -> int:
        """Copy a log file into a new one, and refuse any other file: see `recognition.copy`."""
        try:
            with translated(), self.gate.inside():
                return recognition.copy(source, target)
        except OSError as trouble:
            raise Usage(f"Interlock cannot write {target}: {trouble.strerror}.") from None

    def overwrite(self, source: str) -> None:
        """Replace the contents with those of another log file, in one transaction. Requires
        `held`."""
        with translated(), self.gate.inside():
            origin = apsw.Connection(source)
            with self.writer.backup("main", origin, "main") as work:
                work.step()
            origin.close()

    def scrub(self) -> bool:
        """Move the WAL into the file and empty it, so that no deleted bytes remain. Return False at
        once if a reader prevents that."""
        with translated(), self.gate.inside():
            self.writer.set_busy_timeout(0)
            try:
                self.writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except apsw.BusyError:
                return False
            finally:
                self.writer.set_busy_timeout(BUSY_MS)
        return True

    def size(self) -> int:
        with self.reading() as db:
            return pragma(db, "page_count") * pragma(db, "page_size")

    def let_go(self) -> None:
        """Close every connection. The next use opens a new one."""
        for connection in [*self._readers, *([self._writer] if self._writer else [])]:
            connection.close()
        self._readers.clear()
        self._writer = None
        for listener in self._listeners:
            listener.let_go()

    def begin_anew(self) -> None:
        """Give a forked child its own turnstile: a flock belongs to the open file, which child and
        parent share."""
        self.forks += 1
        if not self._closed:
            self._turnstile.close()
            self._turnstile = Turnstile(self.directory)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.let_go()
            self._turnstile.close()


class Listener:
    """Waits for commits of other processes: for the doorbell, and as a fallback by polling
    `data_version`."""

    def __init__(self, file: LogFile, doorbell: Doorbell) -> None:
        self._file = file
        self._bell: Bell | None = None
        self._connection: apsw.Connection | None = None
        self._version = -1
        with suppress(OSError):  # without a bell, poll
            self._bell = doorbell.listen()
        self._look()

    def wait(self, seconds: float) -> bool:
        """Wait at most this long, and return whether a commit happened since the last call.

        May return False early, so that callers can check their own deadlines."""
        short = max(0.0, min(seconds, POLL_S))
        if self._bell is not None:
            self._bell.wait(short)
        else:
            select.select([], [], [], short)
        return self._look()

    def _look(self) -> bool:
        with translated(), self._file.gate.inside():
            if self._connection is None:
                self._connection = self._file.reader()
                self._version = -1
            version = pragma(self._connection, "data_version")
        changed, self._version = version != self._version, version
        return changed

    def let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        if self._bell is not None:
            self._bell.close()
        with self._file.gate.inside():
            self.let_go()


# --- fork()

_watched: "weakref.WeakSet[LogFile]" = weakref.WeakSet()
_forking: list[LogFile] = []
_one_at_a_time = threading.Lock()


def _before() -> None:
    _one_at_a_time.acquire()
    _forking[:] = list(_watched)
    for file in _forking:
        if file.gate.shut():
            file.let_go()


def _in_parent() -> None:
    for file in _forking:
        file.gate.open()
    _forking.clear()
    _one_at_a_time.release()


def _in_child() -> None:
    global _one_at_a_time
    _one_at_a_time = threading.Lock()
    for file in _forking:
        file.gate = Gate()
        file.begin_anew()
    _forking.clear()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)


# --- the embedded engine

CHUNK = 1 << 20

# map: log          seq -> header bytes; never updated, never deleted
#      bodies       seq -> salt and body; deleted by redaction
#      head         one row: the last position and the clock's reading then
#      blobs        digest -> the upload that has the bytes
#      blob_chunks  an upload's bytes, CHUNK each but the last
#      blob_uses    digest -> the facts whose bodies use the blob
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
        # `raw` is the clock's reading that corresponds to `head.at`. At half speed, a millisecond
        # of log time uses two of the clock's, so that quick appends lose no time.
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
            raise Usage(f"A chunk has 1 to {CHUNK} bytes. This one has {len(data)}.")
        held = "SELECT 1 FROM blobs WHERE upload = ?"
        if self.file.writer.execute(held, (upload,)).fetchone() is not None:
            raise Usage("This upload is already a blob and cannot change. Start a new upload.")

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
                f"The uploaded bytes do not have the SHA-256 {sha256}: a chunk is missing, short "
                "or changed. Upload them again."
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
            raise NotFound("This workspace has no blob with this SHA-256.")
        chunks = db.execute(
            "SELECT data FROM blob_chunks WHERE upload = ? AND number BETWEEN ? AND ? "
            "ORDER BY number",
            (row[0], start // CHUNK, max(start, stop - 1) // CHUNK),
        )
        joined = b"".join(data for (data,) in chunks)
        return joined[start % CHUNK :][: stop - start]

    def close(self) -> None:
        """Close nothing: the file belongs to the node."""
