"""Which machine this is, which boot of it, and whether a path lies on a network filesystem."""

import os
import sys

NETWORK_FILESYSTEMS = frozenset(
    {
        *("9p", "afs", "afpfs", "ceph", "cifs", "davfs", "glusterfs", "gpfs", "lustre", "ncpfs"),
        *("nfs", "nfs4", "ocfs2", "orangefs", "smb3", "smbfs", "webdav"),
        *("fuse.ceph", "fuse.davfs2", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"),
    }
)


def host_id() -> str:
    """Stable for a machine across boots."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        if text := _first_line(path):
            return text
    return os.uname().nodename


def boot_id() -> str:
    """Stable until the machine starts again. Containers of one machine share it."""
    if text := _first_line("/proc/sys/kernel/random/boot_id"):
        return text
    return _command("sysctl", "-n", "kern.boottime").strip()


def network_filesystem(path: str, mounts: str | None = None) -> str | None:
    """The type of the network filesystem that holds `path`, or None for a local one."""
    found, deepest = None, -1
    real = os.path.realpath(path)
    for point, kind in _mounts(mounts):
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= deepest:
            found, deepest = kind, len(point)
    return found if found in NETWORK_FILESYSTEMS else None


def _mounts(mounts: str | None) -> list[tuple[str, str]]:
    if sys.platform == "darwin":
        return [_bsd_mount(line) for line in (mounts or _command("/sbin/mount")).splitlines()]
    text = _read("/proc/self/mounts") if mounts is None else mounts
    rows = [line.split(" ") for line in text.splitlines()]
    return [(_unescaped(row[1]), row[2]) for row in rows if len(row) > 2]


def _bsd_mount(line: str) -> tuple[str, str]:
    # `//server/share on /Volumes/share (smbfs, nodev)`
    _, _, rest = line.partition(" on ")
    point, _, options = rest.rpartition(" (")
    return point, options.partition(",")[0].rstrip(")")


def _unescaped(text: str) -> str:
    # The kernel writes space, tab, newline and backslash of a mount point as octal.
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text


def _first_line(path: str) -> str:
    return _read(path).partition("\n")[0].strip()


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
