"""Whose a SQLite file is: recognising ours, making one, and copying it. Never by a plain `open`."""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from interlock.errors import (
    EngineUnavailable,
    LogDamaged,
    NewerVersion,
    NotAWorkspace,
    OtherHost,
    UnsafeFilesystem,
)
from interlock.stores.host import boot_id, host_id, network_filesystem

APPLICATION_ID = 0x494C4B31  # "ILK1"
FORMAT = 1

# map: file_meta    name -> value; who used the file last: host, boot, device; engine: under which
#                   name the log is kept elsewhere; repair: what was put back there, until the log
#                   says so
_META = "CREATE TABLE file_meta(name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID"


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
            f"SQLite finds the file damaged ({trouble}). Keep it, and restore a backup into a new "
            "workspace: interlock --workspace DIRECTORY restore FILE"
        ) from None


def pragma(connection: apsw.Connection, name: str) -> int:
    value = connection.pragma(name)
    assert isinstance(value, int)
    return value


def is_fresh(connection: apsw.Connection) -> bool:
    """A file with nothing in it, which is ours to fill."""
    return pragma(connection, "schema_version") == pragma(connection, "application_id") == 0


def refuse_foreign(connection: apsw.Connection, path: str) -> None:
    if pragma(connection, "application_id") != APPLICATION_ID:
        raise NotAWorkspace(f"{path} is not an Interlock log, and it was left alone.")
    if (found := pragma(connection, "user_version")) > FORMAT:
        raise NewerVersion(
            f"{path} has format {found}; this Interlock knows up to {FORMAT}. Upgrade it."
        )


def refuse_network(directory: str) -> None:
    if kind := network_filesystem(directory):
        raise UnsafeFilesystem(
            f"{directory} is on a network filesystem ({kind}), where SQLite's locks cannot be "
            "trusted. Keep the workspace on a local disk, and reach it from other machines over "
            "HTTP."
        )


def fill(connection: apsw.Connection, directory: str) -> None:
    """Makes a fresh file one of ours, used here."""
    connection.execute("PRAGMA journal_mode = WAL")
    with connection:
        connection.execute(_META)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        sign_in(connection, directory)


def used_elsewhere(connection: apsw.Connection, directory: str) -> bool:
    """Whether the file was last used in other circumstances than these, safely so.

    The same boot shares the kernel's locks, and the same host after a reboot has none left; only
    another boot of another host may still be writing, and that is `OtherHost`."""
    try:
        rows = connection.execute("SELECT name, value FROM file_meta").fetchall()
    except apsw.SQLError:
        raise NotAWorkspace(f"{directory} holds half a log, and it was left alone.") from None
    last = {"host": "?", "boot": "?", "name": "unknown"}
    last |= {str(name): str(value) for name, value in rows}
    here = _here(directory)
    if {name: last.get(name) for name in here} == here:
        return False
    refuse_network(directory)
    if last["host"] != here["host"] and last["boot"] != here["boot"]:
        raise OtherHost(
            f"The workspace in {directory} was last used on another machine ({last['name']}), "
            "which may still be using it. Talk to that machine's server instead: interlock "
            "--workspace http://… If it was moved here for good: interlock init --adopt",
            host=last["name"],
        )
    return True


def sign_in(connection: apsw.Connection, directory: str) -> None:
    """Writes down who uses the file now."""
    connection.executemany(
        "INSERT OR REPLACE INTO file_meta VALUES (?, ?)",
        [*_here(directory).items(), ("name", os.uname().nodename)],
    )


def engine_of(connection: apsw.Connection) -> str | None:
    """Under which name another engine keeps the log that this file is a copy of."""
    row = connection.execute("SELECT value FROM file_meta WHERE name = 'engine'").fetchone()
    return row and str(row[0])


def note_engine(connection: apsw.Connection, workspace: str) -> None:
    connection.execute("INSERT OR REPLACE INTO file_meta VALUES ('engine', ?)", (workspace,))


def repair_of(connection: apsw.Connection) -> str | None:
    """What was put back into the engine, as far as the log does not say so yet."""
    row = connection.execute("SELECT value FROM file_meta WHERE name = 'repair'").fetchone()
    return row and str(row[0])


def note_repair(connection: apsw.Connection, what: str | None) -> None:
    connection.execute("DELETE FROM file_meta WHERE name = 'repair'")
    if what is not None:
        connection.execute("INSERT INTO file_meta VALUES ('repair', ?)", (what,))


def _here(directory: str) -> dict[str, str]:
    device = str(os.stat(directory).st_dev)
    return {"host": host_id(), "boot": boot_id(), "device": device}


def make_private(path: str) -> None:
    """Puts an empty file there that its owner alone can read, before SQLite opens it. It is linked
    into place, so that the path itself is never opened but by SQLite."""
    draft = f"{path}.{os.urandom(8).hex()}"
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(draft, path)
    finally:
        os.unlink(draft)


def copy(source: str, target: str) -> int:
    """Copies a file of ours into a new one by the backup API, and gives the length of the log in
    it; anything else is refused. Nothing of the name `target` is seen before it is whole."""
    draft = f"{target}.{os.urandom(8).hex()}"
    origin = apsw.Connection(source, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        refuse_foreign(origin, source)
        make_private(draft)
        length = _poured(origin, draft)
        os.rename(draft, target)
        return length
    finally:
        origin.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)


def _poured(origin: apsw.Connection, target: str) -> int:
    destination = apsw.Connection(target)
    try:
        with destination.backup("main", origin, "main") as work:
            work.step()
        destination.execute("DELETE FROM file_meta WHERE name IN ('engine', 'repair')")
        return length(destination)
    finally:
        destination.close()


def length(connection: apsw.Connection) -> int:
    """How many entries the log in a file of ours has."""
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'head'").fetchone():
        return 0
    row = connection.execute("SELECT seq FROM head").fetchone()
    return int(str(row[0])) if row else 0
