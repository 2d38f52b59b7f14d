"""The desk: one writer thread per process, which gathers concurrent acts into one transaction.

Callers leave a ticket and wait. The thread takes all tickets there are, serves them in one turn
of the log, and answers after COMMIT: so a caller is told nothing that could still be lost.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from interlock.errors import EngineUnavailable

MOST_AT_ONCE = 256
PATIENCE_S = 15.0


class Ticket:
    """One act on its way. `begun` and `withdrawn` exclude each other: under the desk's lock."""

    __slots__ = ("begun", "done", "error", "result", "withdrawn", "work")

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self.work = work
        self.result: Any = None
        self.error: BaseException | None = None
        self.begun = self.withdrawn = False
        self.done = threading.Lock()
        self.done.acquire()

    def answer(self) -> None:
        self.done.release()


class Desk:
    """`serve` does the work of a list of tickets, filling in their results or errors, and
    returns once they are durable; what it raises is every ticket's error."""

    def __init__(self, serve: Callable[[list[Ticket]], None]) -> None:
        self._serve = serve
        self._pending: deque[Ticket] = deque()
        self._wake = threading.Condition(threading.Lock())
        self._closed = False
        self._thread: threading.Thread | None = None

    def submit(self, work: Callable[[Any], Any]) -> Any:
        """Does the work within a turn and gives its result after COMMIT, or raises its error.

        After a while without a turn the ticket is withdrawn and nothing happens; where the work
        had begun by then, nobody can say yet, and only a key makes trying again safe."""
        ticket = Ticket(work)
        with self._wake:
            if self._closed:
                raise EngineUnavailable("The workspace was closed.")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="desk", daemon=True)
                self._thread.start()
            self._pending.append(ticket)
            self._wake.notify()
        if not ticket.done.acquire(timeout=PATIENCE_S):
            self._withdraw(ticket)
        if ticket.error is not None:
            raise ticket.error
        return ticket.result

    def _withdraw(self, ticket: Ticket) -> None:
        with self._wake:
            ticket.withdrawn = not ticket.begun
        if ticket.withdrawn:
            raise EngineUnavailable(
                f"The write turn did not come within {PATIENCE_S:.0f} s, and nothing was done. "
                "Look for a stopped interlock process (ps), end it, and try again."
            )
        if not ticket.done.acquire(timeout=PATIENCE_S):
            raise EngineUnavailable(
                "The outcome is unknown: the act began and did not end in time. Try again with "
                "the same --key, which does it at most once.",
                outcome="unknown",
            )

    def _run(self) -> None:
        while tickets := self._collect():
            try:
                self._serve(tickets)
            except BaseException as trouble:  # noqa: BLE001 - every caller must be told
                for ticket in tickets:
                    ticket.result, ticket.error = None, trouble
            for ticket in tickets:
                ticket.answer()

    def _collect(self) -> list[Ticket]:
        with self._wake:
            while True:
                while not self._pending:
                    if self._closed:
                        return []
                    self._wake.wait()
                count = min(len(self._pending), MOST_AT_ONCE)
                taken = [self._pending.popleft() for _ in range(count)]
                tickets = [ticket for ticket in taken if not ticket.withdrawn]
                for ticket in tickets:
                    ticket.begun = True
                if tickets:
                    return tickets

    def close(self) -> None:
        """Serves what is waiting, then ends."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(PATIENCE_S)
