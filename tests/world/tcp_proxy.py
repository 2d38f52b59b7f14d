"""TCP proxies between a client and a server. They cut or delay a connection for a test."""

import socket
import threading
from contextlib import suppress
from typing import Self

_SEEN = 1 << 16
HELD_LIMIT_S = 60.0


class TcpProxy:
    """Forwards connections to a port, and cuts one at the bytes that a test names."""

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
        """Cut the connection once, when a client sends these bytes.

        With `arrives`, the server gets the bytes and only its answer is lost. Otherwise the bytes
        are lost too."""
        self._needle, self._arrives = needle, arrives

    @property
    def was_cut(self) -> bool:
        """Whether the proxy has cut the connection since `cut_at`."""
        return self._needle is None

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        _hang_up(*self._ends)
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            end.close()

    def __enter__(self) -> Self:
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
            self._run(self._forward, near, far, lost)
            self._run(self._return, near, far, lost)

    def _forward(self, near: socket.socket, far: socket.socket, lost: threading.Event) -> None:
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

    def _return(self, near: socket.socket, far: socket.socket, lost: threading.Event) -> None:
        while (data := _received(far)) and not lost.is_set():
            with suppress(OSError):
                near.sendall(data)
        _hang_up(near, far)

    def _run(self, work: object, *given: object) -> None:
        assert callable(work)
        thread = threading.Thread(target=work, args=given, daemon=True)
        self._threads.append(thread)
        thread.start()


class OutageProxy(TcpProxy):
    """A proxy that refuses every connection after its cut, until the test calls `recover`."""

    def __init__(self, port: int) -> None:
        self._is_down = False
        super().__init__(port)

    def recover(self) -> None:
        """Forward connections again."""
        self._is_down = False

    def _forward(self, near: socket.socket, far: socket.socket, lost: threading.Event) -> None:
        if self._is_down:
            _hang_up(near, far)
        else:
            super()._forward(near, far, lost)

    def _return(self, near: socket.socket, far: socket.socket, lost: threading.Event) -> None:
        with suppress(OSError):
            while data := far.recv(1 << 16):
                if lost.is_set():
                    self._is_down = True
                    _hang_up(*self._ends)
                    return
                near.sendall(data)
        _hang_up(near, far)


class HoldingProxy(TcpProxy):
    """A proxy that delays the answer to a request until the test calls `let_go`.

    The client then behaves like a process that was suspended before it received the answer."""

    def __init__(self, port: int) -> None:
        self.holds = threading.Event()
        self._may_go = threading.Event()
        super().__init__(port)

    def hold_at(self, needle: bytes) -> None:
        """Forward these bytes once, and delay the answers on that connection.

        `holds` is set as soon as the proxy has an answer."""
        self.holds.clear()
        self._may_go.clear()
        self._needle = needle

    def let_go(self) -> None:
        """Forward the delayed answers."""
        self._needle = None
        self._may_go.set()

    def close(self) -> None:
        self.let_go()
        super().close()

    def _forward(self, near: socket.socket, far: socket.socket, lost: threading.Event) -> None:
        while data := _received(near):
            if self._needle is not None and self._needle in data:
                self._needle = None
                lost.set()
            with suppress(OSError):
                far.sendall(data)
        _hang_up(near, far)

    def _return(self, near: socket.socket, far: socket.socket, lost: threading.Event) -> None:
        while data := _received(far):
            if lost.is_set():
                self.holds.set()
                self._may_go.wait(HELD_LIMIT_S)
                lost.clear()
            with suppress(OSError):
                near.sendall(data)
        _hang_up(near, far)


def _received(end: socket.socket) -> bytes:
    with suppress(OSError):
        return end.recv(1 << 16)
    return b""


def _hang_up(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
