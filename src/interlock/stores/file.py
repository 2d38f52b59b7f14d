"""The workspace's SQLite file: taking the turn to write, reading beside it, hearing of commits.

No process ever opens the database, -wal or -shm file except through SQLite: a plain `open` and
`close` would drop the POSIX locks that SQLite holds.
"""

import os
import select
import sys
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import apsw

from interlock.errors import EngineUnavailable, OtherHost, Usage
from interlock.stores import forks, recognition
from interlock.stores.doorbell import Bell, Doorbell
from interlock.stores.recognition import pragma, translated
from interlock.stores.turnstile import Turnstile

BUSY_MS = 10_000
POLL_S = 0.25


class LogFile:
    """One writer connection, readers as needed, the turnstile and the doorbell of a workspace."""

    def __init__(self, directory: str, *, adopt: bool = False, is_copy: bool = False) -> None:
        """Opens or makes the file in `directory`, which exists. `adopt` takes over a file that
        another host used last. `is_copy` says that an engine elsewhere has what is in it, so that
        a commit need not wait for the disk. Refuses what it cannot use safely, and changes
        nothing then."""
        self.directory = directory
        self._synchronous = "NORMAL" if is_copy else "FULL"
        self.path = os.path.join(directory, "log.db")
        self.gate = forks.Gate()
        self.forks = 0
        self._closed = False
        self._writer: apsw.Connection | None = None
        self._readers: deque[apsw.Connection] = deque()
        self._listeners: weakref.WeakSet[Listener] = weakref.WeakSet()
        try:
            with translated(), ExitStack() as undone:
                undone.callback(self.let_go)
                self._open(adopt, undone)
                undone.pop_all()
        except OSError as trouble:
            raise EngineUnavailable(
                f"The workspace in {directory} cannot be used: {trouble.strerror}."
            ) from None
        forks.watch(self)

    def _open(self, adopt: bool, undone: ExitStack) -> None:
        writer = self.writer
        if not recognition.is_fresh(writer):
            recognition.refuse_foreign(writer, self.path)
        self._turnstile = Turnstile(self.directory)
        undone.callback(self._turnstile.close)
        self._doorbell = Doorbell(os.path.join(self.directory, "bells"))
        if recognition.is_fresh(writer):
            recognition.refuse_network(self.directory)
            with self._turnstile.passed():
                if recognition.is_fresh(writer):  # and no other process was first
                    recognition.fill(writer, self.directory)
        try:
            moved = recognition.used_elsewhere(writer, self.directory)
        except OtherHost:
            if not adopt:
                raise
            moved = True
        if moved:
            with self._turnstile.passed(), writer:
                recognition.sign_in(writer, self.directory)

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
        """The connection of `writing`, for the one thread that holds the turn."""
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
        """The turn: one transaction that commits at the end, after which the doorbell rings.
        Who will not wait for it gets `BlockingIOError` while another process has it."""
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
        """Keeps the writers of every process out, for what no transaction can hold."""
        with self._turnstile.passed():
            yield

    def refuse_moved(self) -> None:
        """For whoever takes this file for the log itself: it may have become a copy meanwhile."""
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
        """Notes, within a turn, that the log is kept elsewhere from its end on."""
        recognition.note_engine(self.writer, workspace)

    def ring(self) -> None:
        self._doorbell.ring()

    def listen(self) -> "Listener":
        with translated():
            listener = Listener(self, self._doorbell)
        self._listeners.add(listener)
        return listener

    def backup(self, target: str) -> int:
        """Copies the file as of now into a new one, while others read and write, and gives the
        length of the log in it."""
        if os.path.lexists(target):
            raise Usage(f"{target} exists already; a backup goes into a new file.")
        return self.copy(self.path, target)

    def copy(self, source: str, target: str) -> int:
        """Copies a file of ours into a new one; anything else is refused."""
        try:
            with translated(), self.gate.inside():
                return recognition.copy(source, target)
        except OSError as trouble:
            raise Usage(f"{target} cannot be written: {trouble.strerror}.") from None

    def overwrite(self, source: str) -> None:
        """Puts another of our files in place of this one's contents, in one transaction. Called
        while `held`."""
        with translated(), self.gate.inside():
            origin = apsw.Connection(source)
            with self.writer.backup("main", origin, "main") as work:
                work.step()
            origin.close()

    def scrub(self) -> bool:
        """Moves the WAL into the file and empties it, so that erased bytes stay nowhere. False
        where a reader is in the way: nobody is kept waiting for it."""
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
        """Closes every connection; they are opened again when they are needed."""
        for connection in [*self._readers, *([self._writer] if self._writer else [])]:
            connection.close()
        self._readers.clear()
        self._writer = None
        for listener in self._listeners:
            listener.let_go()

    def begin_anew(self) -> None:
        """In a forked child: a turnstile of its own, for a flock belongs to the open file, which
        the parent shares."""
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
    """Waits for others' commits: the doorbell first, `data_version` behind it."""

    def __init__(self, file: LogFile, doorbell: Doorbell) -> None:
        self._file = file
        self._bell: Bell | None = None
        self._connection: apsw.Connection | None = None
        self._version = -1
        with suppress(OSError):  # where no bell can be hung, polling is left
            self._bell = doorbell.listen()
        self._look()

    def wait(self, seconds: float) -> bool:
        """Whether anything was committed since the last look, waiting at most that long.

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
