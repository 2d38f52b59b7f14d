"""The turnstile: writers of all processes pass one by one, in about the order they came.

SQLite's busy handler sleeps and retries, which starves some writers for seconds. Two file locks
in a row keep a short, fair queue instead: whoever waits for the turn holds the queue, everyone
else waits behind. A process that dies drops its locks with its file descriptors.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager


class Turnstile:
    def __init__(self, directory: str) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._queue = os.open(os.path.join(directory, "turnstile.queue"), flags, 0o600)
        try:
            self._turn = os.open(os.path.join(directory, "turnstile.turn"), flags, 0o600)
        except BaseException:
            os.close(self._queue)
            raise

    @contextmanager
    def passed(self, *, wait: bool = True) -> Iterator[None]:
        """Holds the turn. Waiting has no limit: who must not wait gets `BlockingIOError`."""
        try:
            fcntl.flock(self._turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                raise
            fcntl.flock(self._queue, fcntl.LOCK_EX)
            try:
                fcntl.flock(self._turn, fcntl.LOCK_EX)
            finally:
                fcntl.flock(self._queue, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self._turn, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._queue)
        os.close(self._turn)
