"""The workspace's SQLite file: opening it safely, taking the turn to write, reading beside it.

No process ever opens the database, -wal or -shm file except through SQLite: a plain `open` and
`close` would drop the POSIX locks that SQLite holds. Files are recognised by `application_id`
and copied by the backup API.
"""

import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from interlock.engines.doorbell import Doorbell
from interlock.engines.host import boot_id, host_id, network_filesystem
from interlock.engines.turnstile import Turnstile
from interlock.errors import (
    EngineUnavailable,
    LogDamaged,
    NewerVersion,
    NotAWorkspace,
    OtherHost,
    UnsafeFilesystem,
    Usage,
)

APPLICATION_ID = 0x494C4B31  # "ILK1"
FORMAT = 1
BUSY_MS = 10_000
POLL_S = 0.25

# map: file_meta    name -> value; who used the file last: host, boot, device
_META = "CREATE TABLE file_meta(name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID"

# Connections that came through fork() belong to the parent. Closing them here could disturb its
# WAL, so they are kept, unused, until the child ends.
_inherited: list[object] = []


@contextmanager
def translated() -> Iterator[None]:
    """SQLite's troubles as refusals. Anything else is a defect and passes through."""
    try:
        yield
    except apsw.BusyError:
        raise EngineUnavailable(
            "Another process has held the workspace's write turn for too long. Look for a stopped "
            "interlock process (ps), end it, and try again."
        ) from None
    except apsw.FullError:
        raise EngineUnavailable("The disk is full. Nothing was written; free some space.") from None
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError) as trouble:
        raise EngineUnavailable(
            f"The workspace cannot be written ({trouble}). Check the owner and the mode of its "
            "directory."
        ) from None
    except apsw.IOError as trouble:
        raise EngineUnavailable(f"The disk reports an error ({trouble}).") from None
    except apsw.NotADBError:
        raise NotAWorkspace(
            "The log file there is not an Interlock log, and it was left alone."
        ) from None
    except apsw.CorruptError as trouble:
        raise LogDamaged(
            f"SQLite finds the file damaged ({trouble}). Keep it, and restore a backup: "
            "interlock restore FILE"
        ) from None


class LogFile:
    """One writer connection, readers as needed, the turnstile and the doorbell of a workspace."""

    def __init__(self, directory: str, *, adopt: bool = False) -> None:
        """Opens or makes the file in `directory`, which exists. `adopt` takes over a file that
        another host used last. Refuses what it cannot use safely, and changes nothing then."""
        self.directory = directory
        self.path = os.path.join(directory, "log.db")
        self._adopt = adopt
        self._open()

    def _open(self) -> None:
        self._pid = os.getpid()
        self._readers: deque[apsw.Connection] = deque()
        try:
            self._turnstile = Turnstile(self.directory)
            self._doorbell = Doorbell(self.directory)
        except OSError as trouble:
            raise EngineUnavailable(
                f"The workspace in {self.directory} cannot be used: {trouble.strerror}."
            ) from None
        with translated():
            self._writer = self._connect()
            self._recognise()
            self._writer.execute("PRAGMA secure_delete = ON")

    def _connect(self) -> apsw.Connection:
        if not os.path.exists(self.path):
            _make_private(self.path)
        connection = apsw.Connection(self.path)
        connection.set_busy_timeout(BUSY_MS)
        connection.execute("PRAGMA synchronous = FULL; PRAGMA cache_size = -16000")
        if sys.platform == "darwin":
            connection.execute("PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON")
        return connection

    def _recognise(self) -> None:
        if _pragma(self._writer, "schema_version") == 0:
            self._make()
        _refuse_foreign(self._writer, self.path)
        self._check_host()

    def _make(self) -> None:
        _refuse_network(self.directory)
        with self._turnstile.passed():
            if _pragma(self._writer, "schema_version") != 0:
                return  # another process was first
            self._writer.execute("PRAGMA journal_mode = WAL")
            with self._writer:
                self._writer.execute(_META)
                self._writer.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                self._writer.execute(f"PRAGMA user_version = {FORMAT}")
                self._sign_in(self._here())

    def _check_host(self) -> None:
        """The same boot shares the kernel's locks, and the same host after a reboot has none
        left; only another boot of another host may still be writing."""
        rows = self._writer.execute("SELECT name, value FROM file_meta")
        last = {str(name): str(value) for name, value in rows}
        here = self._here()
        if {name: last.get(name) for name in here} == here:
            return
        _refuse_network(self.directory)
        other = last["host"] != here["host"] and last["boot"] != here["boot"]
        if other and not self._adopt:
            raise OtherHost(
                f"{self.path} was last used on another machine ({last['name']}), which may still "
                "be using it. Talk to that machine's server instead: interlock --workspace "
                "http://… If the file was moved here for good: interlock init --adopt",
                host=last["name"],
            )
        with self._turnstile.passed(), self._writer:
            self._sign_in(here)

    def _here(self) -> dict[str, str]:
        device = str(os.stat(self.directory).st_dev)
        return {"host": host_id(), "boot": boot_id(), "device": device}

    def _sign_in(self, here: dict[str, str]) -> None:
        self._writer.executemany(
            "INSERT OR REPLACE INTO file_meta VALUES (?, ?)",
            [*here.items(), ("name", os.uname().nodename)],
        )

    @property
    def writer(self) -> apsw.Connection:
        """The connection of `writing`; meant for the one thread that holds the turn."""
        return self._writer

    @property
    def pid(self) -> int:
        """The process that opened the file."""
        return self._pid

    def forked(self) -> bool:
        """Whether this process came by fork() since the file was opened; if so, opens it anew."""
        if self._pid == os.getpid():
            return False
        _inherited.extend([self._writer, *self._readers])
        self._turnstile.close()
        self._open()
        return True

    @contextmanager
    def writing(self, *, wait: bool = True) -> Iterator[apsw.Connection]:
        """The turn: one transaction that commits at the end, after which the doorbell rings.
        Who will not wait for it gets `BlockingIOError` while another process has it."""
        with translated():
            with self._turnstile.passed(wait=wait):
                before = self._writer.total_changes()
                self._writer.execute("BEGIN IMMEDIATE")
                try:
                    yield self._writer
                    self._writer.execute("COMMIT")
                except BaseException:
                    if self._writer.in_transaction:
                        self._writer.execute("ROLLBACK")
                    raise
            if self._writer.total_changes() != before:
                self.ring()

    @contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        """A consistent view of the last commit, beside any writer."""
        with translated():
            connection = self._readers.pop() if self._readers else self._reader()
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")
                self._readers.append(connection)

    def _reader(self) -> apsw.Connection:
        connection = self._connect()
        connection.execute("PRAGMA query_only = ON")
        return connection

    def ring(self) -> None:
        # The facts are committed; a bell that cannot be rung only means that listeners poll.
        with contextlib.suppress(OSError):
            self._doorbell.ring()

    def listen(self) -> "Listener":
        with translated():
            return Listener(self._doorbell, self._reader())

    def backup(self, target: str) -> None:
        """Copies the file as of now into a new one, while others read and write."""
        if os.path.lexists(target):
            raise Usage(f"{target} exists already; a backup goes into a new file.")
        self.copy(self.path, target)

    def copy(self, source: str, target: str) -> None:
        """Copies a backup of ours into a new file; anything else is refused."""
        with translated():
            origin = apsw.Connection(source, flags=apsw.SQLITE_OPEN_READONLY)
            try:
                _refuse_foreign(origin, source)
                _make_private(target)
                destination = apsw.Connection(target)
                try:
                    with destination.backup("main", origin, "main") as copy:
                        copy.step()
                finally:
                    destination.close()
            finally:
                origin.close()

    def overwrite(self, source: str) -> None:
        """Puts another Interlock file's contents in place of this one's, in one transaction."""
        with translated(), self._turnstile.passed():
            origin = apsw.Connection(source)
            with self._writer.backup("main", origin, "main") as copy:
                copy.step()
            origin.close()

    def scrub(self) -> None:
        """Moves the WAL into the file and empties it, so that erased bytes stay nowhere."""
        with translated(), contextlib.suppress(apsw.BusyError):
            self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def size(self) -> int:
        return _pragma(self._writer, "page_count") * _pragma(self._writer, "page_size")

    def close(self) -> None:
        if self._pid != os.getpid():
            _inherited.extend([self._writer, *self._readers])
            return
        for connection in [*self._readers, self._writer]:
            connection.close()
        self._turnstile.close()


class Listener:
    """Waits for others' commits: the doorbell first, `data_version` behind it."""

    def __init__(self, doorbell: Doorbell, connection: apsw.Connection) -> None:
        self._bell = doorbell.listen()
        self._connection = connection
        self._version = _pragma(connection, "data_version")

    def wait(self, seconds: float) -> bool:
        """Whether anything was committed since the last look, waiting at most that long.

        Returns early and False after a short while, so that callers can look at their clocks."""
        self._bell.wait(min(seconds, POLL_S))
        version = _pragma(self._connection, "data_version")
        changed, self._version = version != self._version, version
        return changed

    def close(self) -> None:
        self._bell.close()
        self._connection.close()


def _pragma(connection: apsw.Connection, name: str) -> int:
    value = connection.pragma(name)
    assert isinstance(value, int)
    return value


def _make_private(path: str) -> None:
    """Puts an empty file there that its owner alone can read, before SQLite opens it. It is linked
    into place, so that the path itself is never opened but by SQLite."""
    draft = f"{path}.{os.getpid()}.{threading.get_ident()}"
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(draft, path)
    finally:
        os.unlink(draft)


def _refuse_network(directory: str) -> None:
    if kind := network_filesystem(directory):
        raise UnsafeFilesystem(
            f"{directory} is on a network filesystem ({kind}), where SQLite's locks cannot be "
            "trusted. Keep the workspace on a local disk, and reach it from other machines over "
            "HTTP."
        )


def _refuse_foreign(connection: apsw.Connection, path: str) -> None:
    if _pragma(connection, "application_id") != APPLICATION_ID:
        raise NotAWorkspace(f"{path} is not an Interlock log, and it was left alone.")
    if (found := _pragma(connection, "user_version")) > FORMAT:
        raise NewerVersion(
            f"{path} has format {found}; this Interlock knows up to {FORMAT}. Upgrade it."
        )
