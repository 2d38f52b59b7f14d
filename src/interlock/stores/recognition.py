"""Recognize, create and copy the SQLite file of a workspace, never with a plain `open`.

The file records the machine and the boot that used it last. SQLite's locks protect a file only
within one machine, and only on a local disk.
"""

import os
import sys
from contextlib import suppress

import apsw

from interlock.errors import (
    NewerVersion,
    NotAWorkspace,
    OtherHost,
    UnsafeFilesystem,
)

APPLICATION_ID = 0x494C4B31  # "ILK1"
FORMAT = 1
# The file that records a shared engine's URL, and the environment variable that names the engine
# of new workspaces.
RECORD = "engine.json"
NEW = "INTERLOCK_ENGINE"
NETWORK_FILESYSTEMS = frozenset(
    {
        *("9p", "afs", "afpfs", "ceph", "cifs", "davfs", "glusterfs", "gpfs", "lustre", "ncpfs"),
        *("nfs", "nfs4", "ocfs2", "orangefs", "smb3", "smbfs", "webdav"),
        *("fuse.ceph", "fuse.davfs2", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"),
    }
)

# map: file_meta    name -> value; host, boot, device: where the file was used last; engine: the
#                   name of the log on a shared engine; repair: a repair of that engine that is
#                   not in the log yet
_META = "CREATE TABLE file_meta(name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID"


def is_embedded(directory: str, given: str | None) -> bool:
    """Return whether the file itself is the log: neither a flag nor the record names a shared
    engine. For a new workspace, the environment variable names none either."""
    if given is not None:
        return False
    if os.path.exists(os.path.join(directory, RECORD)):
        return False
    return bool(os.path.exists(os.path.join(directory, "log.db")) or not os.environ.get(NEW))


def pragma(connection: apsw.Connection, name: str) -> int:
    value = connection.pragma(name)
    assert isinstance(value, int)
    return value


def is_fresh(connection: apsw.Connection) -> bool:
    """Whether the file is empty, so that Interlock may fill it."""
    return pragma(connection, "schema_version") == pragma(connection, "application_id") == 0


def refuse_foreign(connection: apsw.Connection, path: str) -> None:
    if pragma(connection, "application_id") != APPLICATION_ID:
        raise NotAWorkspace(f"{path} is not an Interlock log. It was not changed.")
    if (found := pragma(connection, "user_version")) > FORMAT:
        raise NewerVersion(
            f"{path} has format {found}. This version of Interlock reads formats up to {FORMAT}. "
            "Upgrade Interlock."
        )


def refuse_network(directory: str) -> None:
    if kind := network_filesystem(directory):
        raise UnsafeFilesystem(
            f"{directory} is on a network filesystem ({kind}), where SQLite's locks are not "
            "reliable. Put the workspace on a local disk, and use it from other machines over "
            "HTTP."
        )


def fill(connection: apsw.Connection, directory: str) -> None:
    """Initialize an empty file as a log, and record that this machine uses it."""
    connection.execute("PRAGMA journal_mode = WAL")
    with connection:
        connection.execute(_META)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        sign_in(connection, directory)


def _here(directory: str) -> dict[str, str]:
    device = str(os.stat(directory).st_dev)
    return {"host": host_id(), "boot": boot_id(), "device": device}


def used_elsewhere(connection: apsw.Connection, directory: str) -> bool:
    """Return whether the file was last used in another boot of this machine, or on another device.

    Processes of one boot share the kernel's locks, and a reboot ends all processes of a host. Only
    another host in another boot may still be writing. In that case, raise OtherHost."""
    try:
        rows = connection.execute("SELECT name, value FROM file_meta").fetchall()
    except apsw.SQLError:
        raise NotAWorkspace(f"The log in {directory} is incomplete. It was not changed.") from None
    last = {"host": "?", "boot": "?", "name": "unknown"}
    last |= {str(name): str(value) for name, value in rows}
    here = _here(directory)
    if {name: last.get(name) for name in here} == here:
        return False
    refuse_network(directory)
    if last["host"] != here["host"] and last["boot"] != here["boot"]:
        raise OtherHost(
            f"The workspace in {directory} was last used on another machine ({last['name']}), "
            "which may still be using it. Use that machine's server instead: interlock "
            "--workspace http://… If you moved it to this machine for good: interlock init --adopt",
            host=last["name"],
        )
    return True


def sign_in(connection: apsw.Connection, directory: str) -> None:
    """Record that this machine uses the file now."""
    connection.executemany(
        "INSERT OR REPLACE INTO file_meta VALUES (?, ?)",
        [*_here(directory).items(), ("name", os.uname().nodename)],
    )


def repair_of(connection: apsw.Connection) -> str | None:
    """Return the outcome of a repair of the engine that is not in the log yet, or None."""
    row = connection.execute("SELECT value FROM file_meta WHERE name = 'repair'").fetchone()
    return row and str(row[0])


def note_repair(connection: apsw.Connection, what: str | None) -> None:
    connection.execute("DELETE FROM file_meta WHERE name = 'repair'")
    if what is not None:
        connection.execute("INSERT INTO file_meta VALUES ('repair', ?)", (what,))


def make_private(path: str) -> None:
    """Create an empty file that only its owner can read, before SQLite opens it. A hard link puts
    it in place, so that only SQLite ever opens the path itself."""
    draft = f"{path}.{os.urandom(8).hex()}"
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with suppress(FileExistsError):  # another process created it first
            os.link(draft, path)
    finally:
        os.unlink(draft)


def copy(source: str, target: str) -> int:
    """Copy a log file into a new one with the backup API. Return the length of the log in it. The
    target appears when it is complete. Raise NotAWorkspace or NewerVersion."""
    draft = f"{target}.{os.urandom(8).hex()}"
    origin = apsw.Connection(source, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        refuse_foreign(origin, source)
        make_private(draft)
        destination = apsw.Connection(draft)
        try:
            with destination.backup("main", origin, "main") as work:
                work.step()
            destination.execute("DELETE FROM file_meta WHERE name IN ('engine', 'repair')")
            count = length(destination)
        finally:
            destination.close()
        os.rename(draft, target)
        return count
    finally:
        origin.close()
        with suppress(FileNotFoundError):
            os.unlink(draft)


def length(connection: apsw.Connection) -> int:
    """The number of entries in a log file."""
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'head'").fetchone():
        return 0
    row = connection.execute("SELECT seq FROM head").fetchone()
    return int(str(row[0])) if row else 0


# --- the machine


def host_id() -> str:
    """An id of the machine that survives a reboot."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        if text := _read(path).partition("\n")[0].strip():
            return text
    return os.uname().nodename


def boot_id() -> str:
    """An id of this boot of the machine. Containers of one machine share it."""
    text = _read("/proc/sys/kernel/random/boot_id").strip()
    return text or _command("sysctl", "-n", "kern.boottime").strip()


def network_filesystem(path: str, mounts: str | None = None) -> str | None:
    """The type of the network filesystem that holds `path`, or None for a local one. `mounts` is
    the text of the mount table; without it, this machine's."""
    found, deepest = None, -1
    real = os.path.realpath(path)
    for point, kind in mount_points(mounts):
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= deepest:
            found, deepest = kind, len(point)
    return found if found in NETWORK_FILESYSTEMS else None


def mount_points(mounts: str | None = None) -> list[tuple[str, str]]:
    """Each mount point with the type of its filesystem."""
    found = []
    if sys.platform == "darwin":
        for line in (mounts or _command("/sbin/mount")).splitlines():
            # `//server/share on /Volumes/share (smbfs, nodev)`
            point, _, options = line.partition(" on ")[2].rpartition(" (")
            found.append((point, options.partition(",")[0].rstrip(")")))
        return found
    for line in (_read("/proc/self/mounts") if mounts is None else mounts).splitlines():
        row = line.split(" ")
        if len(row) > 2:
            point = row[1]
            # The kernel writes space, tab, newline and backslash of a mount point as octal.
            for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
                point = point.replace(code, char)
            found.append((point, row[2]))
    return found


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def _command(*words: str) -> str:
    import subprocess

    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=5, check=False)  # noqa: S603 - constant words
        return done.stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
