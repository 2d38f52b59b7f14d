"""The desk: acts of one process, gathered into one transaction, one writer at a time.

Callers leave a ticket. Whoever finds the desk free serves the tickets there are in one turn of
the log, its own among them, so that a lone caller pays for no other thread; once several came
together, the writer thread serves them. Answers are given after COMMIT: nobody is told anything
that could still be lost.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from interlock.errors import EngineUnavailable, unknown_outcome

MAX_BATCH = 256
PATIENCE_S = 15.0
MAX_GATHERING_S = 0.005


class PendingWrite:
    """One act on its way. `begun` and `withdrawn` exclude each other: under the desk's lock.
    `answered` is called once, by whoever served it."""

    __slots__ = ("answered", "begun", "error", "result", "withdrawn", "work")

    def __init__(
        self, work: Callable[[Any], Any], answered: Callable[["PendingWrite"], None]
    ) -> None:
        self.work = work
        self.answered = answered
        self.result: Any = None
        self.error: BaseException | None = None
        self.begun = self.withdrawn = False


class WriteQueue:
    """`serve(collect, wait)` takes the turn, then collects the tickets there are, does their
    work, fills in results or errors, and returns once they are durable; what it gives back is
    done after the answers. What it raises is every ticket's error, but for `BlockingIOError`:
    another process has the turn, and `wait` is False. What ends the one who serves, such as
    Ctrl-C, is its own: the others are told that nobody knows."""

    def __init__(
        self, serve: Callable[[Callable[[], list[PendingWrite]], bool], Callable[[], None]]
    ) -> None:
        self._serve = serve
        self._pending: deque[PendingWrite] = deque()
        self._change = threading.Condition(threading.Lock())
        self._busy = self._piled_up = self._closed = False
        self._expected = 0
        self._took_s = 0.0
        self._thread: threading.Thread | None = None

    def submit(self, work: Callable[[Any], Any]) -> Any:
        """Does the work within a turn and gives its result after COMMIT, or raises its error.

        After a while without a turn the ticket is withdrawn and nothing happens; where the work
        had begun by then, nobody can say yet, and only a key makes trying again safe."""
        done = threading.Lock()
        done.acquire()
        write = PendingWrite(work, lambda _: done.release())
        if self._leave(write):
            self._serve_once(wait=False)
        if not done.acquire(timeout=PATIENCE_S):
            self.withdraw(write)
            if not done.acquire(timeout=PATIENCE_S):
                raise unknown_outcome()
        if write.error is not None:
            raise write.error
        return write.result

    def post(
        self, work: Callable[[Any], Any], answered: Callable[[PendingWrite], None]
    ) -> PendingWrite:
        """Leaves work for the writer thread, which calls `answered` after COMMIT: for a caller
        that has other things to do meanwhile."""
        write = PendingWrite(work, answered)
        if self._leave(write):
            with self._change:
                self._call_thread()
        return write

    def _leave(self, write: PendingWrite) -> bool:
        """Puts the ticket on the desk; True where the desk was free, and is the caller's now."""
        with self._change:
            if self._closed:
                raise EngineUnavailable("The workspace was closed.")
            self._pending.append(write)
            free, self._busy = not self._busy, True
            if not free and len(self._pending) >= self._expected:
                self._change.notify()
        return free

    def withdraw(self, write: PendingWrite) -> None:
        """Gives up on a ticket whose turn did not come; returns where its work has begun."""
        with self._change:
            write.withdrawn = not write.begun
        if write.withdrawn:
            raise EngineUnavailable(
                f"The write turn did not come within {PATIENCE_S:.0f} s, and nothing was done. "
                "Look for a stopped interlock process (ps), end it, and try again."
            )

    def _serve_once(self, *, wait: bool) -> None:
        """Serves what is pending. Whoever comes here has made the desk busy."""
        writes: list[PendingWrite] = []

        def collect() -> list[PendingWrite]:
            writes.extend(self._collect())
            return writes

        try:
            afterwards = self._serve(collect, wait)
        except BlockingIOError:
            with self._change:
                self._call_thread()
        except BaseException as trouble:
            is_mine = not isinstance(trouble, Exception)
            for write in writes or collect():
                write.result, write.error = None, unknown_outcome() if is_mine else trouble
            self._answer(writes)
            if is_mine:
                raise
        else:
            self._answer(writes)
            afterwards()

    def _collect(self) -> list[PendingWrite]:
        with self._change:
            count = min(len(self._pending), MAX_BATCH)
            taken = [self._pending.popleft() for _ in range(count)]
            writes = [write for write in taken if not write.withdrawn]
            for write in writes:
                write.begun = True
            return writes

    def _answer(self, writes: list[PendingWrite]) -> None:
        for write in writes:
            write.answered(write)
        with self._change:
            self._expected = len(writes) + len(self._pending)
            if self._pending or len(writes) > 1:
                self._call_thread()
            else:
                self._busy = False

    def _call_thread(self) -> None:
        self._piled_up = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="desk", daemon=True)
            self._thread.start()
        self._change.notify()

    def _run(self) -> None:
        while True:
            with self._change:
                while not self._piled_up:
                    if self._closed:
                        return
                    self._change.wait()
                self._piled_up = False
                self._gather()
                if not self._pending:
                    self._busy = False
                    continue
            started = time.monotonic()
            self._serve_once(wait=True)
            self._took_s = time.monotonic() - started

    def _gather(self) -> None:
        """Callers who were answered together tend to come back together. Waiting for them, for
        a part of what a turn takes, makes one transaction of two."""
        self._change.wait_for(
            lambda: len(self._pending) >= self._expected or self._closed,
            min(self._took_s / 2, MAX_GATHERING_S),
        )

    def close(self) -> None:
        """Lets the thread serve what is waiting, then ends it."""
        with self._change:
            self._closed = True
            self._change.notify()
        if self._thread is not None:
            self._thread.join(PATIENCE_S)
