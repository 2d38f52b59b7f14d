"""The processes that a run has started, however they hide: found, told, and ended.

On Linux we take in every orphan below us, so that a daemon that left its parent, its group and its
session is still found. Elsewhere those are found that are below us or in the command's group.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

_SET_SUBREAPER: Final = 36
_GET_SUBREAPER: Final = 37
ADOPTS: Final = sys.platform.startswith("linux")


class Process(NamedTuple):
    """One row of the process table. `born` tells two apart that had the same number."""

    pid: int
    parent: int
    group: int
    zombie: bool
    born: str


@contextmanager
def adopting() -> Iterator[None]:
    """Within it, orphans below us become our children, where the system can do that."""
    if not ADOPTS:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    before = ctypes.c_int(0)
    libc.prctl(_GET_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    libc.prctl(_SET_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(_SET_SUBREAPER, before.value, 0, 0, 0)


class Family:
    """All that came of one command. What ran before it is none of it."""

    def __init__(self) -> None:
        self._earlier = {(row.pid, row.born) for row in _table()}
        self._command: int | None = None
        self._group: int | None = None

    def follow(self, command: int, group: int) -> None:
        """The command, which somebody else reaps, and the group in which it runs."""
        self._command, self._group = command, group

    def living(self) -> list[int]:
        """The numbers of those that live. Those that have ended are reaped on the way."""
        living = []
        for row in self._members():
            if not row.zombie:
                living.append(row.pid)
            elif row.parent == os.getpid() and row.pid != self._command:
                with suppress(ChildProcessError):
                    os.waitpid(row.pid, os.WNOHANG)
        return living

    def _members(self) -> list[Process]:
        rows = [row for row in _table() if (row.pid, row.born) not in self._earlier]
        below: dict[int, list[Process]] = {}
        for row in rows:
            below.setdefault(row.parent, []).append(row)
        found: dict[int, Process] = {}
        todo = [*below.get(os.getpid(), ())]
        if not ADOPTS:
            todo += [row for row in rows if row.group == self._group]
        while todo:
            row = todo.pop()
            if row.pid not in found:
                found[row.pid] = row
                todo += below.get(row.pid, ())
        return list(found.values())

    def signal(self, number: int) -> list[int]:
        """Sends it to all that live; who they were."""
        living = self.living()
        for pid in living:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
                if number == signal.SIGTERM:
                    os.kill(pid, signal.SIGCONT)  # who is stopped cannot hear it
        return living

    def end(self, limit_s: float) -> None:
        """Kills all, and those that they start meanwhile; returns when none is left, or when the
        limit is over."""
        deadline = time.monotonic() + limit_s
        while self.signal(signal.SIGKILL) and time.monotonic() < deadline:
            time.sleep(0.01)


def _table() -> list[Process]:
    return _from_proc() if os.path.exists("/proc/self/stat") else _from_ps()


def _from_proc() -> list[Process]:
    rows = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The name of the program comes second, in brackets, and may hold anything.
                words = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        zombie = words[0] in (b"Z", b"X")
        born = words[19].decode()
        rows.append(Process(int(name), int(words[1]), int(words[2]), zombie, born))
    return rows


def _from_ps() -> list[Process]:
    done = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,pgid=,stat=,lstart="],  # noqa: S607 - the system's own
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    rows = []
    for line in done.stdout.splitlines():
        pid, parent, group, state, born = line.split(None, 4)
        rows.append(Process(int(pid), int(parent), int(group), state.startswith("Z"), born))
    return rows
