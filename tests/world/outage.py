"""Wires that stay cut: between a node and its engine, for tests of what a node says then."""

import socket
import threading
from contextlib import suppress

from world.wire import Wire


class Cut(Wire):
    """A wire that says whether it was cut."""

    @property
    def was_cut(self) -> bool:
        return self._needle is None


class Outage(Cut):
    """One that lets nobody through from its cut on, until it is mended."""

    def __init__(self, port: int) -> None:
        self._is_down = False
        super().__init__(port)

    def rewrite_entries(self) -> None:
        self._is_down = False

    def _there(self, near: socket.socket, far: socket.socket, lost: threading.Event) -> None:
        if self._is_down:
            _hang_up(near, far)
        else:
            super()._there(near, far, lost)

    def _back(self, near: socket.socket, far: socket.socket, lost: threading.Event) -> None:
        with suppress(OSError):
            while data := far.recv(1 << 16):
                if lost.is_set():
                    self._is_down = True
                    _hang_up(*self._ends)
                    return
                near.sendall(data)
        _hang_up(near, far)


def _hang_up(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
