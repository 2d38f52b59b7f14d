"""The doorbell: a process that commits tells every waiting process, after COMMIT.

A listener puts a named pipe into a directory; ringing writes a byte into each. A pipe whose
listener died has no reader, and the next ring removes it. A lost ring costs time and never a
message: listeners also look at the file's `data_version`.
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
        """Wake every listener. On failure, listeners poll."""
        with contextlib.suppress(OSError):
            # An empty directory that has not changed has no bells: one stat, and no listing.
            changed = os.stat(self._directory).st_mtime_ns
            if changed == self._empty_since:
                return
            heard = self.count()
            # The listing may miss a bell that was added meanwhile: trust only an unchanged one.
            settled = os.stat(self._directory).st_mtime_ns == changed
            self._empty_since = changed if not heard and settled else -1

    def count(self) -> int:
        """Ring every bell, and return how many listeners there are. Removes pipes without a
        reader."""
        try:
            bells = [name for name in os.listdir(self._directory) if not name.startswith(".")]
        except OSError:
            return 0
        heard = 0
        for bell in bells:
            path = os.path.join(self._directory, bell)
            try:
                pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as trouble:
                if trouble.errno == errno.ENXIO:
                    with contextlib.suppress(OSError):
                        os.unlink(path)
                continue
            with contextlib.suppress(OSError):  # a full pipe has rung already
                os.write(pipe, b"!")
            os.close(pipe)
            heard += 1
        return heard

    def listen(self) -> "Bell":
        os.makedirs(self._directory, 0o700, exist_ok=True)
        # A listener that was killed before it published its pipe has left a draft.
        for name in os.listdir(self._directory):
            path = os.path.join(self._directory, name)
            with contextlib.suppress(OSError):
                if name.startswith(".") and time.time() - os.stat(path).st_mtime > STALE_DRAFT_S:
                    os.unlink(path)
        return Bell(self._directory, f"{os.getpid()}-{os.urandom(4).hex()}")


class Bell:
    """The listening side: one pipe, drained before each look so that no ring is missed."""

    def __init__(self, directory: str, name: str) -> None:
        # Published only when both ends are open: a ring would remove a pipe without a reader.
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
