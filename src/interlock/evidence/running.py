"""Run a command until it and every process that it started have ended.

The command gets its own process group, so that a signal to the group reaches all processes of a
pipeline. At a terminal, the command stays in Interlock's group. There it can read the keyboard, and
Ctrl-C and Ctrl-Z reach both.

On Linux, this process adopts all orphaned descendants, so it finds a daemon that left its parent,
its group and its session. On other systems, it finds its descendants and the processes of the
command's group.
"""

import ctypes
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, BinaryIO, Final, Literal, NamedTuple

from interlock.evidence.output import Copier, Live
from interlock.machine import processes
from interlock.machine.processes import Process

TICK_S: Final = 0.02
REAP_INTERVAL_S: Final = 5.0
# The timeout for ending a process that cannot be ended, such as a process of another user.
STUBBORN_S: Final = 5.0
# A signal to this process, and the same signal to its group within this time, count as one.
SAME_SIGNAL_S: Final = 0.05
FORWARDED: Final = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
TYPED: Final = (signal.SIGINT, signal.SIGQUIT)
ADOPTS: Final = sys.platform.startswith("linux")
_SET_SUBREAPER: Final = 36
_GET_SUBREAPER: Final = 37

# The number of a signal to this process, or a message of a thread.
Event = int | Literal["ended", "copying failed"]
Events = queue.SimpleQueue[Event]

# The whole process adopts orphans, and an orphan does not show which run started it.
_one_at_a_time = threading.Lock()


class Limits(NamedTuple):
    """The limits of a run. The memory limit is per process. `grace_s` is the time between SIGTERM
    and SIGKILL."""

    time_s: float | None = None
    output_bytes: int = 64 << 20
    memory_bytes: int | None = None
    grace_s: float = 5.0


class CommandEnd(NamedTuple):
    """The end of a command. `status` is negative if a signal ended it. `received` is the signal
    that this process got during the run. `left` are processes that could not be ended."""

    status: int
    received: int | None
    out_of_time: bool
    duration_ms: int
    left: list[int]


def run(
    command: Sequence[str],
    limits: Limits,
    out: BinaryIO,
    err: BinaryIO,
    keep: Callable[[int, bytes], None],
) -> CommandEnd:
    """Run the command in the current directory, and return when all of its processes have ended.
    Its output goes to `out` and `err` and, with the number of the stream, to `keep`. Raise OSError
    if the command cannot start."""
    with _one_at_a_time, _adopting():
        family = _Family()
        events: Events = queue.SimpleQueue()
        try:
            # Standard input is a terminal, and this process is in its foreground.
            at_terminal = os.tcgetpgrp(0) == os.getpgrp()
        except OSError:
            at_terminal = False
        try:
            # If both streams are one file, one pipe preserves the exact order of the output.
            is_same = os.path.sameopenfile(out.fileno(), err.fileno())
        except (OSError, ValueError):
            is_same = False
        if limits.memory_bytes is not None and shutil.which(command[0]) is not None:
            # A shell sets the limit, because Python code is not safe between fork and exec.
            kilobytes = str(limits.memory_bytes // 1024)
            command = ["/bin/sh", "-c", 'ulimit -v "$0" && exec "$@"', kilobytes, *command]
        with ExitStack() as stack, _signals_to(events):
            child = subprocess.Popen(  # noqa: S603 - the user's command
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if is_same else subprocess.PIPE,
                bufsize=0,
                process_group=None if at_terminal else 0,
            )
            stack.enter_context(child)
            copier = Copier(
                [pipe.fileno() for pipe in (child.stdout, child.stderr) if pipe],
                [Live(out), Live(err)],
                keep,
                failed=lambda: events.put("copying failed"),
            )
            copier.start()
            # This callback runs after the original signal handlers are restored, so a signal ends
            # the wait for a slow reader.
            stack.callback(copier.drain)
            family.follow(child.pid, os.getpgrp() if at_terminal else child.pid)
            try:
                return _until_ended(child, family, events, limits, at_terminal=at_terminal)
            except BaseException:
                family.end(STUBBORN_S)
                raise


def _until_ended(
    child: subprocess.Popen[bytes],
    family: "_Family",
    events: Events,
    limits: Limits,
    *,
    at_terminal: bool,
) -> CommandEnd:
    started = now = time.monotonic()
    ended_at: float | None = None
    received: int | None = None
    received_at = 0.0
    kill_at: float | None = None
    out_of_time = False

    def wait() -> None:
        child.wait()
        events.put("ended")

    threading.Thread(target=wait, daemon=True).start()
    while True:
        if ended_at is not None:
            is_stubborn = kill_at is not None and time.monotonic() > kill_at + STUBBORN_S
            if is_stubborn or not family.living():
                break
        timeout_s = REAP_INTERVAL_S
        if ended_at is not None or kill_at is not None:
            timeout_s = TICK_S
        elif limits.time_s is not None:
            left_s = started + limits.time_s - time.monotonic()
            timeout_s = min(max(0.0, left_s), REAP_INTERVAL_S)
        try:
            event: Event | None = events.get(timeout=timeout_s)
        except queue.Empty:
            event = None
        now = time.monotonic()
        asks_to_end = False
        if event == "ended":
            ended_at = now
            asks_to_end = bool(family.living())
        elif event == "copying failed":
            kill_at = now  # without its output, the run is useless
        elif event is None:
            limit_s = limits.time_s
            if limit_s is not None and ended_at is None and now >= started + limit_s:
                out_of_time = asks_to_end = True
            if kill_at is not None and now >= kill_at:
                family.signal(signal.SIGKILL)
            else:
                family.living()  # reaps ended orphans
        elif received == event and now - received_at < SAME_SIGNAL_S:
            continue
        elif received is not None or out_of_time or ended_at is not None:
            kill_at = now  # the second signal ends the command
        else:
            received, received_at = event, now
            if event not in TYPED:
                # The sender of such a signal does not wait long.
                kill_at = now + limits.grace_s
            with suppress(ProcessLookupError, PermissionError):
                if not at_terminal:
                    os.killpg(child.pid, event)
                elif event not in TYPED:  # the terminal sends a typed signal to the command itself
                    child.send_signal(event)
        if asks_to_end and kill_at is None:
            kill_at = now + limits.grace_s
            family.signal(signal.SIGTERM)
    assert ended_at is not None
    return CommandEnd(
        status=child.returncode,
        received=received,
        out_of_time=out_of_time,
        duration_ms=round((ended_at - started) * 1000),
        left=family.living(),
    )


@contextmanager
def _signals_to(events: Events) -> Iterator[None]:
    """Turn signals to this process into events for the length of the block. Ignored signals stay
    ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, _: Any) -> None:
        events.put(number)

    before = {
        number: signal.signal(number, handle)
        for number in FORWARDED
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _adopting() -> Iterator[None]:
    """For the length of the block, make orphaned descendants children of this process, if the
    system supports it."""
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


class _Family:
    """All processes that one command started, and no process that ran before it."""

    def __init__(self) -> None:
        self._earlier = {(process.pid, process.started) for process in processes.every()}
        self._command: int | None = None
        self._group: int | None = None

    def follow(self, command: int, group: int) -> None:
        """Set the command, which another thread reaps, and its process group."""
        self._command, self._group = command, group

    def living(self) -> list[int]:
        """Return the pids of the running processes. Reap the ended ones."""
        found = [
            process
            for process in processes.every()
            if (process.pid, process.started) not in self._earlier
        ]
        below: dict[int, list[Process]] = {}
        for process in found:
            below.setdefault(process.parent, []).append(process)
        todo = [*below.get(os.getpid(), ())]
        if not ADOPTS:
            todo += [process for process in found if process.group == self._group]
        members: dict[int, Process] = {}
        while todo:
            process = todo.pop()
            if process.pid not in members:
                members[process.pid] = process
                todo += below.get(process.pid, ())
        living = []
        for process in members.values():
            if process.state not in ("Z", "X"):
                living.append(process.pid)
            elif process.parent == os.getpid() and process.pid != self._command:
                with suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)
        return living

    def signal(self, number: int) -> list[int]:
        """Send the signal to all running processes, and return their pids."""
        living = self.living()
        for pid in living:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
                if number == signal.SIGTERM:
                    os.kill(pid, signal.SIGCONT)  # a stopped process does not get SIGTERM
        return living

    def end(self, limit_s: float) -> None:
        """Kill all processes, also new ones, until none is left or the time limit is reached."""
        deadline = time.monotonic() + limit_s
        while self.signal(signal.SIGKILL) and time.monotonic() < deadline:
            time.sleep(0.01)
