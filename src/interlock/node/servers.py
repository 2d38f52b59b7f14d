"""The servers of a workspace. Each locks a file of its own in `servers/` while it runs.

`server.lock` ensures that there is only one. If a user removes that file while a server runs, a
second server can start. The files in `servers/` then show both.
"""

import fcntl
import json
import os
from contextlib import suppress
from typing import NamedTuple

from interlock.machine.processes import space


class Serving(NamedTuple):
    """A running server. `since_ms` is the modification time of its file. `pid` is valid only in the
    process namespace `space`."""

    pid: int
    space: str | None
    since_ms: int = 0


def sign_in(directory: str) -> int:
    """Register this process as a server of the workspace until the process ends. Lock the file
    before it gets its final name, because an unlocked file counts as the file of a dead server."""
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
    """Return the running servers, the newest last. Remove the files of dead servers."""
    own = os.path.join(directory, "servers")
    try:
        names = [name for name in os.listdir(own) if not name.startswith(".")]
    except OSError:
        return []
    found = []
    for name in names:
        path = os.path.join(own, name)
        with suppress(OSError), open(path, "r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                os.unlink(path)
            except BlockingIOError:
                with suppress(ValueError, TypeError):
                    since_ms = os.fstat(file.fileno()).st_mtime_ns // 1_000_000
                    found.append(Serving(*json.load(file))._replace(since_ms=since_ms))
    return sorted(found, key=lambda each: each.since_ms)


def is_named(directory: str, serving: Serving) -> bool:
    """Whether `server.json`, by which commands find the server, names this server."""
    try:
        with open(os.path.join(directory, "server.json"), encoding="utf-8") as file:
            return bool(json.load(file)["pid"] == serving.pid)
    except (OSError, ValueError, KeyError, TypeError):
        return False
