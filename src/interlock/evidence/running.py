"""Running a command to its end, and everything that it started to theirs.

The command gets a process group of its own, so that a signal to it reaches all of a pipeline. At
a terminal it stays in ours: it may read what is typed, and Ctrl-C and Ctrl-Z reach both of us.
"""

import os
import queue
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, BinaryIO, Final, NamedTuple

from interlock.evidence.copying import Copier, Live, same
from interlock.evidence.processes import Family, adopting

TICK_S: Final = 0.02
REAP_INTERVAL_S: Final = 5.0
# How long we try to end what cannot be ended, such as a process of another user.
STUBBORN_S: Final = 5.0
# The same signal to us and to our group is meant once.
MEANT_ONCE_S: Final = 0.05
HEARD: Final = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
TYPED: Final = (signal.SIGINT, signal.SIGQUIT)

Events = queue.SimpleQueue[Callable[["_Running"], None]]

# Orphans are taken in by the process as a whole, and nothing tells whose they were.
_one_at_a_time = threading.Lock()


class Limits(NamedTuple):
    """What a run may take. Memory is per process; `grace_s` is the time between asking a process
    to end and ending it."""

    time_s: float | None = None
    output_bytes: int = 64 << 20
    memory_bytes: int | None = None
    grace_s: float = 5.0


class Ended(NamedTuple):
    """How a command ended. `status` is negative when a signal ended it; `told` is the signal that
    was sent to us meanwhile; `left` are processes that could not be ended."""

    status: int
    told: int | None
    out_of_time: bool
    duration_ms: int
    left: list[int]


def run(
    command: Sequence[str],
    limits: Limits,
    out: BinaryIO,
    err: BinaryIO,
    keep: Callable[[int, bytes], None],
) -> Ended:
    """Runs the command in the current directory; returns when nothing of it is left. What it
    writes goes to `out` and `err` and, with the number of the stream, to `keep`. Raises OSError
    when it cannot be started."""
    with _one_at_a_time, adopting():
        family = Family()
        events: Events = queue.SimpleQueue()
        at_terminal = _at_terminal()
        with ExitStack() as stack, _hearing(events):
            child = subprocess.Popen(  # noqa: S603 - what the user asked to run
                _within(command, limits.memory_bytes),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if same(out, err) else subprocess.PIPE,
                bufsize=0,
                process_group=None if at_terminal else 0,
            )
            stack.enter_context(child)
            copier = Copier(
                [pipe.fileno() for pipe in (child.stdout, child.stderr) if pipe],
                [Live(out), Live(err)],
                keep,
                failed=lambda: events.put(_Running.give_up),
            )
            copier.start()
            # Signals are ours again by then: nobody has to wait for a reader that does not read.
            stack.callback(copier.drain)
            running = _Running(child, family, events, limits, at_terminal=at_terminal)
            return running.to_the_end()


def _at_terminal() -> bool:
    """Whether a terminal is our input and we are in its foreground."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _within(command: Sequence[str], memory_bytes: int | None) -> Sequence[str]:
    """The command as it is to be started so that none of its processes gets more memory. A shell
    sets the limit, since nothing of ours may run between fork and exec."""
    if memory_bytes is None or shutil.which(command[0]) is None:
        return command
    return ["/bin/sh", "-c", 'ulimit -v "$0" && exec "$@"', str(memory_bytes // 1024), *command]


@contextmanager
def _hearing(events: Events) -> Iterator[None]:
    """Within it, signals to us become events. What we were started to ignore stays ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def hear(number: int, _: Any) -> None:
        events.put(lambda running: running.told(number))

    before = {
        number: signal.signal(number, hear)
        for number in HEARD
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Running:
    """One command between its start and the end of its last process."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        family: Family,
        events: Events,
        limits: Limits,
        *,
        at_terminal: bool,
    ) -> None:
        self._child = child
        self._family = family
        self._events = events
        self._limits = limits
        self._at_terminal = at_terminal
        self._started = time.monotonic()
        self._ended: float | None = None
        self._told: int | None = None
        self._told_at = 0.0
        self._out_of_time = False
        self._kill_at: float | None = None

    def to_the_end(self) -> Ended:
        group = os.getpgrp() if self._at_terminal else self._child.pid
        self._family.follow(self._child.pid, group)
        threading.Thread(target=self._await, daemon=True).start()
        try:
            while not self._over():
                try:
                    self._events.get(timeout=self._patience())(self)
                except queue.Empty:
                    self._look_at_the_clock()
        except BaseException:
            self._family.end(STUBBORN_S)
            raise
        assert self._ended is not None
        return Ended(
            status=self._child.returncode,
            told=self._told,
            out_of_time=self._out_of_time,
            duration_ms=round((self._ended - self._started) * 1000),
            left=self._family.living(),
        )

    def _await(self) -> None:
        self._child.wait()
        self._events.put(_Running._command_ended)

    def _over(self) -> bool:
        if self._ended is None:
            return False
        if self._kill_at is not None and time.monotonic() > self._kill_at + STUBBORN_S:
            return True
        return not self._family.living()

    def _patience(self) -> float:
        if self._ended is not None or self._kill_at is not None:
            return TICK_S
        if self._limits.time_s is None:
            return REAP_INTERVAL_S
        left = self._started + self._limits.time_s - time.monotonic()
        return min(max(0.0, left), REAP_INTERVAL_S)

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        limit = self._limits.time_s
        if limit is not None and self._ended is None and now >= self._started + limit:
            self._out_of_time = True
            self._ask_to_end()
        if self._kill_at is not None and now >= self._kill_at:
            self._family.signal(signal.SIGKILL)
        else:
            self._family.living()  # reaps the orphans that have ended

    def _ask_to_end(self) -> None:
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._limits.grace_s
            self._family.signal(signal.SIGTERM)

    def _command_ended(self) -> None:
        self._ended = time.monotonic()
        if self._family.living():
            self._ask_to_end()

    def told(self, number: int) -> None:
        """We were sent a signal: the first goes on to the command, the second ends it. Whoever
        tells us to end, rather than interrupts us, will not wait for long."""
        now = time.monotonic()
        if self._told == number and now - self._told_at < MEANT_ONCE_S:
            return
        if self._told is not None or self._out_of_time or self._ended is not None:
            self._kill_at = now
            return
        self._told, self._told_at = number, now
        if number not in TYPED:
            self._kill_at = now + self._limits.grace_s
        if self._at_terminal and number in TYPED:
            return  # the terminal has told the command too
        with suppress(ProcessLookupError, PermissionError):
            if self._at_terminal:
                self._child.send_signal(number)
            else:
                os.killpg(self._child.pid, number)

    def give_up(self) -> None:
        """What it writes cannot be kept, so there is no use in going on."""
        self._kill_at = time.monotonic()
