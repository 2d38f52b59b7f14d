"""Processes of this machine: who started whom, and who still runs.

A number alone may be another process's by now; with when that one was started it is not. Where the
system tells neither, nobody is known to have died.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

# The client name with which `interlock run` announces the process of its session.
RUN = "run"

MAX_ANCESTORS = 64


class Process(NamedTuple):
    """`started` is a word of the system's own for when; it is compared and never read."""

    pid: int
    parent: int
    started: str
    name: str


def look(pid: int) -> Process | None:
    """What the system says of a process, or None where there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            said = file.read()
    except OSError:
        return None if os.path.isdir("/proc/self") else _from_ps(pid)
    # The name stands in parentheses, and may hold some itself.
    name, rest = (
        said[said.index(b"(") + 1 : said.rindex(b")")],
        said[said.rindex(b")") + 2 :].split(),
    )
    return Process(pid, int(rest[1]), rest[19].decode(), os.fsdecode(name))


def _from_ps(pid: int) -> Process | None:
    said = (_ps("ppid=,lstart=,comm=", pid) or "").split(None, 6)
    if len(said) != 7:
        return None
    return Process(pid, int(said[0]), " ".join(said[1:6]), os.path.basename(said[6].strip()))


def _ps(what: str, pid: int) -> str | None:
    import subprocess

    try:
        done = subprocess.run(  # noqa: S603 - words of ours, no shell
            ["ps", "-o", what, "-p", str(pid)],  # noqa: S607 - the system's own
            capture_output=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return os.fsdecode(done.stdout)


def words(pid: int) -> list[str]:
    """A process's command line, as far as the system tells."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return [os.fsdecode(word) for word in file.read().split(b"\0")]
    except OSError:
        return (_ps("args=", pid) or "").split()


def ancestors() -> Iterator[Process]:
    """Whoever started this process, whoever started that, and so on."""
    pid = os.getppid()
    for _ in range(MAX_ANCESTORS):
        if pid <= 1 or (found := look(pid)) is None:
            return
        yield found
        pid = found.parent


def space() -> str | None:
    """Among which processes a number is one's: in a container the same number is another's."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


def is_stopped(pid: int) -> bool:
    """Whether a process was told to stand still, by a signal or a debugger."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state = file.read().rpartition(b")")[2].split()[0].decode()
    except OSError:
        state = (_ps("state=", pid) or "").strip()
    return state[:1] in ("T", "t")


def is_alive(pid: int, started: str) -> bool:
    found = look(pid)
    return found is not None and found.started == started
