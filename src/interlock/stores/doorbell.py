"""The doorbell: whoever commits tells every waiting process, after COMMIT.

A listener hangs a named pipe into a directory; ringing writes a byte into each. A pipe whose
listener died has no reader and is taken down by the next ring. A lost ring costs time and never
a message: listeners look at the file's `data_version` behind it.
"""

import contextlib
import errno
import math
import os
import select
import time

STALE_DRAFT_S = 60.0


class Doorbell:
    """The ringing side."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._empty_since = -1

    def ring(self) -> None:
        """Wakes every listener. Where it cannot, listeners poll."""
        with contextlib.suppress(OSError):
            # An empty directory that has not changed has no bells: one stat, and no listing.
            changed = os.stat(self._directory).st_mtime_ns
            if changed == self._empty_since:
                return
            heard = self.count()
            # A bell hung while we listed would be missed; only an unchanged directory is trusted.
            settled = os.stat(self._directory).st_mtime_ns == changed
            self._empty_since = changed if not heard and settled else -1

    def count(self) -> int:
        """How many listen; each of them hears it."""
        try:
            bells = [name for name in os.listdir(self._directory) if not name.startswith(".")]
        except OSError:
            return 0
        return sum(_touched(os.path.join(self._directory, bell)) for bell in bells)

    def listen(self) -> "Bell":
        os.makedirs(self._directory, 0o700, exist_ok=True)
        self._sweep_drafts()
        return Bell(self._directory, f"{os.getpid()}-{os.urandom(4).hex()}")

    def _sweep_drafts(self) -> None:
        """A listener that was killed while it hung its bell has left a draft, which no ring
        touches."""
        for name in os.listdir(self._directory):
            path = os.path.join(self._directory, name)
            with contextlib.suppress(OSError):
                if name.startswith(".") and time.time() - os.stat(path).st_mtime > STALE_DRAFT_S:
                    os.unlink(path)


def _touched(path: str) -> bool:
    """Puts a byte into a pipe; False, and the pipe is taken down, where nobody reads it."""
    try:
        pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as trouble:
        if trouble.errno == errno.ENXIO:
            with contextlib.suppress(OSError):
                os.unlink(path)
        return False
    with contextlib.suppress(OSError):  # a full pipe has rung already
        os.write(pipe, b"!")
    os.close(pipe)
    return True


class Bell:
    """The listening side: one pipe, drained before each look so that no ring is missed."""

    def __init__(self, directory: str, name: str) -> None:
        # Hung only when both ends are open: a pipe without a reader would be taken down.
        draft = os.path.join(directory, "." + name)
        self._path = os.path.join(directory, name)
        os.mkfifo(draft, 0o600)
        self._pipe = os.open(draft, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        # A writer of our own keeps the pipe from reporting end-of-file between rings.
        self._keeper = os.open(draft, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.rename(draft, self._path)

    def wait(self, seconds: float) -> bool:
        """Whether it rang within that time."""
        poll = select.poll()  # select() takes no descriptor beyond the first 1024
        poll.register(self._pipe, select.POLLIN)
        rang = bool(poll.poll(math.ceil(max(0.0, seconds) * 1000)))
        if rang:
            with contextlib.suppress(BlockingIOError):
                while os.read(self._pipe, 4096):
                    pass
        return rang

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        os.close(self._pipe)
        os.close(self._keeper)
