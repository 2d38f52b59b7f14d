"""The workspace's SQLite file: take the turn to write, read beside writers, hear of commits.

No process ever opens the database, -wal or -shm file except through SQLite: a plain `open` and
`close` would drop the POSIX locks that SQLite holds.

No SQLite connection may cross a fork(), not even unused. SQLite records the locks of a process in
memory, per file. A child that inherits the record believes in locks that it does not have. A parent
that closes would take itself for the last user and delete the WAL under the child. So every
connection is closed before a fork, when no thread is inside one, and each side opens its own again
on demand.
"""

import fcntl
import os
import select
import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import apsw

from interlock.errors import EngineUnavailable, OtherHost, Usage
from interlock.stores import recognition
from interlock.stores.doorbell import Bell, Doorbell
from interlock.stores.recognition import pragma, translated

BUSY_MS = 10_000
POLL_S = 0.25


class Turnstile:
    """Lets the writers of all processes pass one by one, in about the order in which they came.

    SQLite's busy handler sleeps and retries, which starves some writers for seconds. Two file locks
    in a row make a short, fair queue instead: the next writer holds the queue while it waits for
    the turn, and all others wait for the queue. A process that dies drops its locks."""

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
        """Hold the turn. Waiting has no limit; without `wait`, raises BlockingIOError."""
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
    """Knows which threads are inside a connection, and keeps new ones out during a fork."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._inside: dict[int, int] = {}
        self._shut = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Wrap every use of a connection: a fork waits for its end, and delays the next use."""
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
        """Wait until no other thread is inside. False where the forking thread itself is inside."""
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


class LogFile:
    """One writer connection, readers as needed, the turnstile and the doorbell of a workspace."""

    def __init__(self, directory: str, *, adopt: bool = False, is_copy: bool = False) -> None:
        """Open or make the file in `directory`, which exists. `adopt` takes over a file that
        another host used last. `is_copy` says that a shared engine has the log, so that a commit
        need not wait for the disk. Refuses a file that it cannot use safely, without a change."""
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
                        if recognition.is_fresh(writer):  # and no other process was first
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
                f"The workspace in {directory} cannot be used: {trouble.strerror}."
            ) from None
        _watched.add(self)

    def connect(self) -> apsw.Connection:
        if not os.path.exists(self.path):
            recognition.make_private(self.path)
        connection = apsw.Connection(self.path)
        connection.set_busy_timeout(BUSY_MS)
        # Else SQLite plans by the bound values, and prepares a cached statement again whenever
        # they change: that was half the time of a send.
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
        """Take the turn for one transaction, which commits at the end; then the doorbell rings.
        Without `wait`, raises BlockingIOError while another process has the turn."""
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
        """A consistent view of the last commit, beside any writer."""
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
        """Keep the writers of every process out, for work outside a transaction."""
        with self._turnstile.passed():
            yield

    def refuse_moved(self) -> None:
        """Refuse to use the file as the log, if it has become a copy of a shared engine's log."""
        if (name := recognition.engine_of(self.writer)) is not None:
            raise EngineUnavailable(
                f"The log of this workspace is kept by an engine now, under the name {name}, and "
                "nothing was done. Start the command again; where that does not help, say which "
                f"engine: interlock up --engine URL?workspace={name}"
            )

    def become_copy(self, workspace: str) -> None:
        """Record that an engine keeps the log, before this file has any of it."""
        with self.reading() as db:
            # Most openings change nothing, and must not wait for a writer.
            if recognition.engine_of(db) == workspace:
                return
        with self.writing() as db:
            name = recognition.engine_of(db)
            if name == workspace:
                return
            if name is not None:
                raise Usage(f"This directory is a node of the workspace {name}. Use another one.")
            if recognition.length(db):
                raise Usage(
                    "The log of this workspace is in its own file. Move it, with every entry and "
                    "proof: interlock migrate --to URL. Or use another directory for a node: "
                    "interlock --workspace DIRECTORY up --engine URL"
                )
            self.note_copy(workspace)

    def note_copy(self, workspace: str) -> None:
        """Record, within the turn, that a shared engine keeps the log from now on."""
        recognition.note_engine(self.writer, workspace)

    def ring(self) -> None:
        self._doorbell.ring()

    def listen(self) -> "Listener":
        with translated():
            listener = Listener(self, self._doorbell)
        self._listeners.add(listener)
        return listener

    def backup(self, target: str) -> int:
        """Copy the file into a new one while others read and write. Returns the length of the log
        in it. Raises Usage."""
        if os.path.lexists(target):
            raise Usage(f"{target} exists already; a backup goes into a new file.")
        return self.copy(self.path, target)

    def copy(self, source: str, target: str) -> int:
        """Copy a log file into a new one, and refuse any other file: see `recognition.copy`."""
        try:
            with translated(), self.gate.inside():
                return recognition.copy(source, target)
        except OSError as trouble:
            raise Usage(f"{target} cannot be written: {trouble.strerror}.") from None

    def overwrite(self, source: str) -> None:
        """Replace the contents by those of another log file, in one transaction. Called while
        `held`."""
        with translated(), self.gate.inside():
            origin = apsw.Connection(source)
            with self.writer.backup("main", origin, "main") as work:
                work.step()
            origin.close()

    def scrub(self) -> bool:
        """Move the WAL into the file and empty it, so that erased bytes stay nowhere. Returns False
        at once where a reader is in the way."""
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
        """Close every connection; each is opened again when it is needed."""
        for connection in [*self._readers, *([self._writer] if self._writer else [])]:
            connection.close()
        self._readers.clear()
        self._writer = None
        for listener in self._listeners:
            listener.let_go()

    def begin_anew(self) -> None:
        """Give a forked child a turnstile of its own: a flock belongs to the open file, which the
        parent shares."""
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
    """Waits for commits of other processes: by the doorbell, and by `data_version` behind it."""

    def __init__(self, file: LogFile, doorbell: Doorbell) -> None:
        self._file = file
        self._bell: Bell | None = None
        self._connection: apsw.Connection | None = None
        self._version = -1
        with suppress(OSError):  # without a bell, poll
            self._bell = doorbell.listen()
        self._look()

    def wait(self, seconds: float) -> bool:
        """Whether a commit happened since the last look; waits at most that long.

        Returns early and False after a short while, so that callers can look at their clocks."""
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
