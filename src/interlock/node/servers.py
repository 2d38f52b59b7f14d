"""The servers of a workspace, each known by a file of its own that it keeps locked.

There should be one. The lock that sees to it is a file, and a file can be removed while a server
runs; then a second one starts. What each holds for itself shows both.
"""

import fcntl
import json
import os
from contextlib import suppress
from typing import NamedTuple

from interlock.machine.processes import space


class Serving(NamedTuple):
    """A server that runs, since when by the file's clock. Its number says nothing where another
    `space` counts processes."""

    pid: int
    space: str | None
    since_ms: int = 0


def sign_in(directory: str) -> int:
    """Notes that this process serves the workspace, for as long as it lives. The file gets its
    name when it is locked: an unlocked one is taken for a dead server's."""
    own = os.path.join(directory, "servers")
    os.makedirs(own, 0o700, exist_ok=True)
    name = f"{os.getpid()}-{os.urandom(4).hex()}"
    draft = os.path.join(own, f".{name}")
    held = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(held, fcntl.LOCK_EX)
    os.write(held, json.dumps(Serving(os.getpid(), space())).encode())
    os.rename(draft, os.path.join(own, name))
    return held


def running(directory: str) -> list[Serving]:
    """The servers that run now, the one that was started last at the end. What dead ones left is
    taken away."""
    own = os.path.join(directory, "servers")
    try:
        names = [name for name in os.listdir(own) if not name.startswith(".")]
    except OSError:
        return []
    found = (_look(os.path.join(own, name)) for name in names)
    return sorted((each for each in found if each is not None), key=lambda each: each.since_ms)


def is_named(directory: str, serving: Serving) -> bool:
    """Whether commands find this server, by what it says of itself where they look."""
    try:
        with open(os.path.join(directory, "server.json"), encoding="utf-8") as file:
            return bool(json.load(file)["pid"] == serving.pid)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _look(path: str) -> Serving | None:
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _said(file)
    finally:
        os.close(file)
    with suppress(OSError):
        os.unlink(path)
    return None


def _said(file: int) -> Serving | None:
    try:
        said = Serving(*json.loads(os.read(file, 4096)))
        return said._replace(since_ms=os.fstat(file).st_mtime_ns // 1_000_000)
    except (ValueError, TypeError):
        return None
