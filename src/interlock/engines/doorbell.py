"""The doorbell: whoever commits tells every waiting process, after COMMIT.

A listener hangs a named pipe into the directory; ringing writes a byte into each. A pipe whose
listener died has no reader and is taken down by the next ring. A lost ring costs time and never
a message: listeners look at the file's `data_version` behind it.
"""

import contextlib
import os
import select
from itertools import count

_numbers = count()


class Doorbell:
    """The ringing side."""

    def __init__(self, directory: str) -> None:
        self._directory = os.path.join(directory, "bells")
        os.makedirs(self._directory, 0o700, exist_ok=True)
        self._empty_since = -1

    def ring(self) -> None:
        # An empty directory that has not changed holds no bells: one stat instead of a listing.
        changed = os.stat(self._directory).st_mtime_ns
        if changed == self._empty_since:
            return
        bells = os.listdir(self._directory)
        for bell in bells:
            self._ring_one(os.path.join(self._directory, bell))
        # A listing in the same tick as a change could miss it; only an old change is trusted.
        settled = os.stat(self._directory).st_mtime_ns == changed
        self._empty_since = changed if not bells and settled else -1

    def _ring_one(self, path: str) -> None:
        try:
            pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(path)
            return
        with contextlib.suppress(OSError):  # a full pipe has rung already
            os.write(pipe, b"!")
        os.close(pipe)

    def listen(self) -> "Bell":
        return Bell(os.path.join(self._directory, f"{os.getpid()}-{next(_numbers)}"))


class Bell:
    """The listening side: one pipe, drained before each look so that no ring is missed."""

    def __init__(self, path: str) -> None:
        self._path = path
        os.mkfifo(path, 0o600)
        self._pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        # A writer of our own keeps the pipe from reporting end-of-file between rings.
        self._keeper = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def wait(self, seconds: float) -> bool:
        """Whether it rang within that time."""
        readable, _, _ = select.select([self._pipe], [], [], max(0.0, seconds))
        if readable:
            with contextlib.suppress(BlockingIOError):
                while os.read(self._pipe, 4096):
                    pass
        return bool(readable)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        os.close(self._pipe)
        os.close(self._keeper)
