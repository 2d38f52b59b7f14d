"""A wire between a node and its engine, which breaks when the test says so."""

import socket
import threading
from contextlib import suppress

_SEEN = 1 << 16


class Wire:
    """Passes bytes on to a port of this machine, and back."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._needle: bytes | None = None
        self._arrives = False
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._run(self._accept)

    def cut_at(self, needle: bytes, *, arrives: bool) -> None:
        """Breaks once, when these bytes are sent: they arrive there and the answer does not come
        back, or they do not even arrive."""
        self._needle, self._arrives = needle, arrives

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        _hang_up(*self._ends)
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            end.close()

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            self._ends += [near, far]
            lost = threading.Event()
            self._run(self._there, near, far, lost)
            self._run(self._back, near, far, lost)

    def _there(self, near: socket.socket, far: socket.socket, lost: threading.Event) -> None:
        seen = b""
        while data := _received(near):
            seen = (seen + data)[-_SEEN:] if self._needle is not None else b""
            if self._needle is not None and self._needle in seen:
                self._needle = None
                lost.set()
                if not self._arrives:
                    break
            with suppress(OSError):
                far.sendall(data)
        _hang_up(near, far)

    def _back(self, near: socket.socket, far: socket.socket, lost: threading.Event) -> None:
        while (data := _received(far)) and not lost.is_set():
            with suppress(OSError):
                near.sendall(data)
        _hang_up(near, far)

    def _run(self, work: object, *given: object) -> None:
        assert callable(work)
        thread = threading.Thread(target=work, args=given, daemon=True)
        self._threads.append(thread)
        thread.start()


def _received(end: socket.socket) -> bytes:
    with suppress(OSError):
        return end.recv(1 << 16)
    return b""


def _hang_up(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
