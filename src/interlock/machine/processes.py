"""Processes of this machine: their parents, and whether they still run.

A later process can get the same pid, but not the same start time. If the system reports neither,
Interlock cannot know that a process died.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

# The client name with which `interlock run` announces the process of its session.
RUN = "run"

MAX_ANCESTORS = 64


class Process(NamedTuple):
    """`state` is the letter that `ps` shows. `started` is the start time in the system's own
    notation: compare it, but do not parse it."""

    pid: int
    parent: int
    group: int
    state: str
    started: str
    name: str


def process_of(pid: int) -> Process | None:
    """Return the process with this pid, or None."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            stat = file.read()
    except OSError:
        if os.path.isdir("/proc/self"):
            return None
        try:
            return next(iter(_from_ps("-p", str(pid))), None)
        except OSError:
            return None
    # The name is in parentheses, and may itself contain parentheses.
    before, _, rest = stat.rpartition(b")")
    name = before.partition(b"(")[2]
    words = rest.split()
    state, started = words[0].decode(), words[19].decode()
    return Process(pid, int(words[1]), int(words[2]), state, started, os.fsdecode(name))


def every() -> list[Process]:
    """Return all visible processes. Raise OSError if the system does not list them."""
    if not os.path.isdir("/proc/self"):
        return _from_ps("-A")
    found = (process_of(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [process for process in found if process is not None]


def _from_ps(*which: str) -> list[Process]:
    found = []
    for line in ps("pid=,ppid=,pgid=,stat=,lstart=,comm=", *which).splitlines():
        words = line.split(None, 9)
        if len(words) != 10:  # a line without a name, or a start time in another form
            continue
        pid, parent, group, state, *started, name = words
        name = os.path.basename(name.strip())
        found.append(Process(int(pid), int(parent), int(group), state[:1], " ".join(started), name))
    return found


def ps(columns: str, *which: str) -> str:
    """Return these columns of the processes that `which` selects. Raise OSError."""
    import subprocess

    try:
        done = subprocess.run(  # noqa: S603 - our own arguments, no shell
            ["ps", "-o", columns, *which],  # noqa: S607 - the system's own
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=5,
            check=True,
        )
    except subprocess.SubprocessError as trouble:
        raise OSError(str(trouble)) from None
    return os.fsdecode(done.stdout)


def words(pid: int) -> list[str]:
    """Return a process's command line, or an empty list if the system does not report it."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return [os.fsdecode(word) for word in file.read().split(b"\0")]
    except OSError:
        pass
    try:
        return ps("args=", "-p", str(pid)).split()
    except OSError:
        return []


def ancestors() -> Iterator[Process]:
    """Yield the parent of this process, the parent's parent, and so on."""
    pid = os.getppid()
    for _ in range(MAX_ANCESTORS):
        if pid <= 1 or (found := process_of(pid)) is None:
            return
        yield found
        pid = found.parent


def space() -> str | None:
    """Return the pid namespace: in a container, the same pid is another process."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


def is_stopped(pid: int) -> bool:
    """Return whether a signal or a debugger has stopped the process."""
    found = process_of(pid)
    return found is not None and found.state in ("T", "t")


def is_alive(pid: int, started: str) -> bool:
    found = process_of(pid)
    return found is not None and found.started == started
