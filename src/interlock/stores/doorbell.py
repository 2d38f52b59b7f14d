"""The doorbell: after COMMIT, a process signals every waiting process.

Each listener creates a named pipe in a directory, and a ring writes a byte into each pipe. A pipe
whose listener died has no reader, and the next ring removes it. A lost ring delays a listener and
loses no message: listeners also poll the file's `data_version`.
"""

import contextlib
import errno
import math
import os
import select
import time

STALE_DRAFT_S = 60.0


class Doorbell:
    """The sender of rings."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._empty_since = -1

    def ring(self) -> None:
        """Wake every listener. On failure, listeners poll."""
        with contextlib.suppress(OSError):
            # If the directory was empty and has not changed, one stat replaces the listing.
            changed = os.stat(self._directory).st_mtime_ns
            if changed == self._empty_since:
                return
            heard = self.count()
            # The listing may miss a bell that was added meanwhile, which changes the directory.
            settled = os.stat(self._directory).st_mtime_ns == changed
            self._empty_since = changed if not heard and settled else -1

    def count(self) -> int:
        """Ring every bell, remove pipes without a reader, and return the number of listeners."""
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
            with contextlib.suppress(OSError):  # a full pipe already wakes its listener
                os.write(pipe, b"!")
            os.close(pipe)
            heard += 1
        return heard

    def listen(self) -> "Bell":
        os.makedirs(self._directory, 0o700, exist_ok=True)
        # A listener that was killed before it published its pipe leaves a draft.
        for name in os.listdir(self._directory):
            path = os.path.join(self._directory, name)
            with contextlib.suppress(OSError):
                if name.startswith(".") and time.time() - os.stat(path).st_mtime > STALE_DRAFT_S:
                    os.unlink(path)
        return Bell(self._directory, f"{os.getpid()}-{os.urandom(4).hex()}")


class Bell:
    """The pipe of one listener. `wait` drains it before the caller reads the log, so that no ring
    is missed."""

    def __init__(self, directory: str, name: str) -> None:
        # Publish the pipe only when both ends are open: a ring removes a pipe without a reader.
        draft = os.path.join(directory, "." + name)
        self._path = os.path.join(directory, name)
        os.mkfifo(draft, 0o600)
        self._pipe = os.open(draft, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        # Our own writer prevents end-of-file between rings.
        self._keeper = os.open(draft, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.rename(draft, self._path)

    def wait(self, seconds: float) -> bool:
        """Return whether the bell rang within this time."""
        poll = select.poll()  # select() supports only descriptors below 1024
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
