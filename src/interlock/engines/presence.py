"""Presence: who was seen when, and who is listening now. Never in the log.

A sender's file is touched when it acts; whoever waits for mail holds a shared lock on a second
one, which ends with the process however it dies.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from interlock.contracts.addresses import filename

FRESH_MS = 10 * 60_000
GLANCE_MS = 200


class Presence:
    def __init__(self, directory: str) -> None:
        self._directory = os.path.join(directory, "presence")
        self._looks: dict[str, tuple[int, bool, int | None]] = {}

    def touch(self, sender: str) -> None:
        """Presence is a hint: where it cannot be written, nobody is refused for it."""
        with suppress(OSError):
            os.close(self._open(filename(sender)))
            os.utime(os.path.join(self._directory, filename(sender)))

    @contextmanager
    def listening(self, sender: str) -> Iterator[None]:
        """Shows the sender as reachable at once for as long as this lasts."""
        lock = self._open(filename(sender) + ".live")
        try:
            fcntl.flock(lock, fcntl.LOCK_SH)
            yield
        finally:
            os.close(lock)

    def reach(self, senders: Iterable[str], now_ms: int) -> tuple[str, int | None]:
        """How soon any of these would see a message, and when one was last seen.

        `wakes`: listening now. `waits`: seen lately, looks when somebody prompts it. `offline`:
        seen once. `unknown`: never seen."""
        found = [self._look(sender, now_ms) for sender in senders]
        if any(listening for listening, _ in found):
            return "wakes", now_ms
        seen = max((at for _, at in found if at is not None), default=None)
        if seen is None:
            return "unknown", None
        return ("waits" if now_ms - seen < FRESH_MS else "offline"), seen

    def _look(self, sender: str, now_ms: int) -> tuple[bool, int | None]:
        """Whether it listens, and when it was seen; as of a moment ago at most."""
        looked = self._looks.get(sender)
        if looked is None or not 0 <= now_ms - looked[0] < GLANCE_MS:
            seen: int | None = None
            with suppress(OSError):
                at = os.stat(os.path.join(self._directory, filename(sender))).st_mtime_ns
                seen = at // 1_000_000
            looked = self._looks[sender] = now_ms, self._is_listening(sender), seen
        return looked[1], looked[2]

    def _is_listening(self, sender: str) -> bool:
        try:
            lock = os.open(
                os.path.join(self._directory, filename(sender) + ".live"), os.O_RDWR | os.O_CLOEXEC
            )
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def _open(self, name: str) -> int:
        os.makedirs(self._directory, 0o700, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        return os.open(os.path.join(self._directory, name), flags, 0o600)
