"""The servers of a workspace, each known by a file of its own that it keeps locked.

There should be one. The lock that sees to it is a file, and a file can be removed while a server
runs; then a second one starts. What each holds for itself shows both.
"""

import fcntl
import json
import os
from contextlib import suppress
from typing import NamedTuple

from interlock.processes import space


class Serving(NamedTuple):
    """A server that runs. Its number says nothing where another `space` counts processes."""

    pid: int
    space: str | None


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
    """The servers that run now. What dead ones left is taken away."""
    own = os.path.join(directory, "servers")
    try:
        names = sorted(name for name in os.listdir(own) if not name.startswith("."))
    except OSError:
        return []
    found = (_look(os.path.join(own, name)) for name in names)
    return [serving for serving in found if serving is not None]


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
        return Serving(*json.loads(os.read(file, 4096)))
    except (ValueError, TypeError):
        return None
