"""The write queue: collects the writes of one process into one transaction.

Callers enqueue a write. The first caller to find the queue idle commits the whole batch in one
transaction, so a lone caller needs no other thread. When several callers arrive together, the
writer thread commits their writes. Callers get their answers after COMMIT.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from interlock.errors import EngineUnavailable, Remedy, unknown_outcome

MAX_BATCH = 256
PATIENCE_S = 15.0
MAX_GATHERING_S = 0.005


class PendingWrite:
    """A write in the queue. The queue's lock guards `begun` and `withdrawn`; at most one of them is
    true. The committing thread calls `answered` once."""

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
    """Collects pending writes and commits them with `serve`.

    `serve(collect, wait)` opens the write transaction, collects the pending writes, runs their
    work, fills in results or errors, and returns when they are durable. It returns a function that
    the queue calls after it has answered the callers.

    An exception of `serve` is the error of every write of the batch. `BlockingIOError` means that
    another process has the turn and `wait` is False. The writer thread then waits for the turn. An
    exception that ends the committing thread, such as Ctrl-C, reaches only that thread's caller.
    The other callers get an unknown outcome."""

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
        """Run the work in the write transaction. Return its result after COMMIT, or raise its
        error.

        The queue withdraws a write that does not get the turn in time; then nothing was done. If
        the work has begun, the outcome is unknown, and only an idempotency key makes a retry
        safe."""
        done = threading.Lock()
        done.acquire()
        write = PendingWrite(work, lambda _: done.release())
        if self._enqueue(write):
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
        """Enqueue work for the writer thread, which calls `answered` after COMMIT. The caller does
        not wait."""
        write = PendingWrite(work, answered)
        if self._enqueue(write):
            with self._change:
                self._call_thread()
        return write

    def _enqueue(self, write: PendingWrite) -> bool:
        """Enqueue a write. Return whether the queue was idle. If so, the caller must commit the
        batch."""
        with self._change:
            if self._closed:
                raise EngineUnavailable("The node of this workspace is closed. Nothing was done.")
            self._pending.append(write)
            idle, self._busy = not self._busy, True
            if not idle and len(self._pending) >= self._expected:
                self._change.notify()
        return idle

    def withdraw(self, write: PendingWrite) -> None:
        """Withdraw a write that did not get the turn, and raise EngineUnavailable. Return normally
        if its work has begun."""
        with self._change:
            write.withdrawn = not write.begun
        if write.withdrawn:
            ask = "Try again. If this repeats, tell the operator to end a suspended process."
            raise EngineUnavailable(
                f"The write got no access to the log within {PATIENCE_S:.0f} s. Nothing was done.",
                Remedy(
                    "Find a suspended interlock process (ps), end it, and try again.",
                    http=ask,
                    mcp=ask,
                ),
            )

    def _serve_once(self, *, wait: bool) -> None:
        """Commit the pending writes. The caller has marked the queue as busy."""
        writes: list[PendingWrite] = []

        def collect() -> list[PendingWrite]:
            with self._change:
                count = min(len(self._pending), MAX_BATCH)
                taken = [self._pending.popleft() for _ in range(count)]
                writes.extend(write for write in taken if not write.withdrawn)
                for write in writes:
                    write.begun = True
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
            self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
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
                # Wait briefly for more writes. Callers that were answered together often write
                # again together, and one transaction for all of them costs less than two.
                self._change.wait_for(
                    lambda: len(self._pending) >= self._expected or self._closed,
                    min(self._took_s / 2, MAX_GATHERING_S),
                )
                if not self._pending:
                    self._busy = False
                    continue
            started = time.monotonic()
            self._serve_once(wait=True)
            self._took_s = time.monotonic() - started

    def close(self) -> None:
        """Commit the pending writes, then end the thread."""
        with self._change:
            self._closed = True
            self._change.notify()
        if self._thread is not None:
            self._thread.join(PATIENCE_S)
