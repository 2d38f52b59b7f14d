"""Presence: who was seen when, and who is listening now. Never in the log.

A sender's file is touched when it acts; whoever waits for mail hangs a bell into its directory,
which nobody hears any more once the process has died. All of it is a hint: where it cannot be
written, nobody is refused for it.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress

from interlock.contracts.addresses import filename
from interlock.engines.doorbell import Doorbell

FRESH_MS = 10 * 60_000
GLANCE_MS = 200


Seen = tuple[int | None, bool]


class Presence:
    """`elsewhere` is what other nodes say of senders: when each was seen, and whether it
    listens."""

    def __init__(self, directory: str) -> None:
        self._directory = os.path.join(directory, "presence")
        self._glances: dict[str, tuple[int, bool, int | None]] = {}
        self.elsewhere: dict[str, Seen] = {}

    def touch(self, sender: str, at_ms: int | None = None) -> None:
        """Notes that the sender acts, now or, where nodes share a clock, by that."""
        self._glances.pop(sender, None)
        with suppress(OSError):
            os.makedirs(self._directory, 0o700, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
            os.close(os.open(self._path(sender), flags, 0o600))
            os.utime(self._path(sender), None if at_ms is None else (at_ms / 1000, at_ms / 1000))

    def here(self, senders: Iterable[str], now_ms: int) -> dict[str, Seen]:
        """What this node itself knows of those that were seen lately."""
        found = {}
        for sender in senders:
            seen, listening = self._look(sender)
            if listening or (seen is not None and now_ms - seen < FRESH_MS):
                found[sender] = seen, listening
        return found

    @contextmanager
    def listening(self, sender: str) -> Iterator[None]:
        """Shows the sender as reachable at once for as long as this lasts."""
        try:
            bell = Doorbell(self._path(sender) + ".live").listen()
        except OSError:
            yield
            return
        with closing(bell):
            yield

    def reach(self, senders: Iterable[str], now_ms: int) -> tuple[str, int | None]:
        """How soon any of these would see a message, and when one was last seen.

        `wakes`: listening now. `waits`: seen lately, looks when somebody prompts it. `offline`:
        seen once. `unknown`: never seen."""
        found = [self._glance(sender, now_ms) for sender in senders]
        if any(listening for _, listening, _ in found):
            return "wakes", now_ms
        seen = max((at for _, _, at in found if at is not None), default=None)
        if seen is None:
            return "unknown", None
        return ("waits" if now_ms - seen < FRESH_MS else "offline"), seen

    def _glance(self, sender: str, now_ms: int) -> tuple[int, bool, int | None]:
        """When we looked, whether it listened, and when it was seen; as of a moment ago."""
        glance = self._glances.get(sender)
        if glance is None or not 0 <= now_ms - glance[0] < GLANCE_MS:
            seen, listening = self._look(sender)
            there, listens_there = self.elsewhere.get(sender, (None, False))
            latest = max((at for at in (seen, there) if at is not None), default=None)
            glance = self._glances[sender] = now_ms, listening or listens_there, latest
        return glance

    def _look(self, sender: str) -> Seen:
        seen: int | None = None
        with suppress(OSError):
            seen = os.stat(self._path(sender)).st_mtime_ns // 1_000_000
        return seen, Doorbell(self._path(sender) + ".live").count() > 0

    def _path(self, sender: str) -> str:
        return os.path.join(self._directory, filename(sender))
