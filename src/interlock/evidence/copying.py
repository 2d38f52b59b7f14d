"""Copying what a command writes, as it comes: live to whoever looks on, and into a transcript."""

import os
import select
import selectors
import threading
from collections.abc import Callable
from typing import BinaryIO, Final

_BLOCK: Final = 1 << 16


class Live:
    """A stream that somebody looks at, or has stopped looking at: that is no reason to stop."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._broken = False
        try:
            stream.flush()
            self._fd: int | None = stream.fileno()
        except (OSError, ValueError):
            self._fd = None  # a buffer in memory

    def write(self, data: bytes) -> None:
        if self._broken:
            return
        try:
            if self._fd is None:
                self._stream.write(data)
                self._stream.flush()
            else:
                _write_all(self._fd, data)
        except (OSError, ValueError):
            self._broken = True


def same(one: BinaryIO, other: BinaryIO) -> bool:
    """Whether both lead to one place, such as a terminal. Then one pipe carries all, and the
    order of what was written is exactly kept; of two pipes nobody can tell which came first."""
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):
        return False


def _write_all(fd: int, data: bytes) -> None:
    """Past the stream's own buffer, in which bytes that cannot be written would stay."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:
            select.select([], [fd], [])


class Copier(threading.Thread):
    """Reads the pipes until their ends; or, once `drain` is called, until nothing is left in
    them. A process that kept a pipe open cannot hold us then."""

    def __init__(
        self,
        pipes: list[int],
        looked_at: list[Live],
        keep: Callable[[int, bytes], None],
        failed: Callable[[], None],
    ) -> None:
        super().__init__(daemon=True)
        self._looked_at = looked_at
        self._keep = keep
        self._failed = failed
        self._draining = False
        self._heard, self._bell = os.pipe()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._heard, selectors.EVENT_READ, None)
        for number, pipe in enumerate(pipes):
            self._selector.register(pipe, selectors.EVENT_READ, number)
        self.trouble: BaseException | None = None

    def run(self) -> None:
        try:
            while len(self._selector.get_map()) > 1:
                ready = self._selector.select(0 if self._draining else None)
                if self._draining and not any(key.data is not None for key, _ in ready):
                    return
                for key, _ in ready:
                    if key.data is not None:
                        self._copy(key.fd, key.data)
        except BaseException as trouble:  # noqa: BLE001 - it is raised where the run is awaited
            self.trouble = trouble
            self._failed()

    def _copy(self, pipe: int, number: int) -> None:
        data = os.read(pipe, _BLOCK)
        if not data:
            self._selector.unregister(pipe)
            return
        self._looked_at[number].write(data)
        self._keep(number, data)

    def drain(self) -> None:
        """Waits until all that was written has been copied."""
        self._draining = True
        os.write(self._bell, b"!")
        self.join()
        self._selector.close()
        os.close(self._heard)
        os.close(self._bell)
        if self.trouble is not None:
            raise self.trouble
