"""fork(): no SQLite connection may cross it, not even unused.

SQLite records the locks of a process in memory, per file. A child that inherits the record
believes in locks that it does not have. A parent that closes would take itself for the last user
and delete the WAL under the child. So every connection is closed before a fork, when no thread is
inside one, and each side opens its own again on demand.
"""

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Forked(Protocol):
    """A file with connections to close."""

    gate: "Gate"

    def let_go(self) -> None:
        """Close every connection; called when no thread is inside one."""

    def begin_anew(self) -> None:
        """In the child: replace the resources that the parent shares."""


class Gate:
    """Knows which threads are inside a connection, and keeps new ones out during a fork."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._inside: dict[int, int] = {}
        self._shut = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Wrap every use of a connection: a fork waits for its end, and delays the next use."""
        me = threading.get_ident()
        with self._change:
            while self._shut and me not in self._inside:
                self._change.wait()
            self._inside[me] = self._inside.get(me, 0) + 1
        try:
            yield
        finally:
            with self._change:
                self._inside[me] -= 1
                if not self._inside[me]:
                    del self._inside[me]
                    if self._shut:
                        self._change.notify_all()

    def shut(self) -> bool:
        """Wait until no other thread is inside. False where the forking thread itself is inside."""
        me = threading.get_ident()
        self._change.acquire()
        self._shut = True
        while any(thread != me for thread in self._inside):
            self._change.wait()
        return me not in self._inside

    def open(self) -> None:
        self._shut = False
        self._change.notify_all()
        self._change.release()


_watched: "weakref.WeakSet[Forked]" = weakref.WeakSet()
_forking: list[Forked] = []
_one_at_a_time = threading.Lock()


def watch(file: Forked) -> None:
    _watched.add(file)


def _before() -> None:
    _one_at_a_time.acquire()
    _forking[:] = list(_watched)
    for file in _forking:
        if file.gate.shut():
            file.let_go()


def _in_parent() -> None:
    for file in _forking:
        file.gate.open()
    _forking.clear()
    _one_at_a_time.release()


def _in_child() -> None:
    global _one_at_a_time
    _one_at_a_time = threading.Lock()
    for file in _forking:
        file.gate = Gate()
        file.begin_anew()
    _forking.clear()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
