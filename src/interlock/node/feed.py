"""The feed: the newest events of a log in memory, and one listener for all waiting callers."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing, suppress
from typing import Any, NamedTuple

from interlock.errors import Refusal
from interlock.log.encoding import canonical
from interlock.node import Node

_LOG = logging.getLogger("interlock.feed")
REMEMBERED = 4000
REMEMBERED_BYTES = 16 << 20
READ_AT_ONCE = 1000
TOLD_AT_ONCE = 100
TOLD_BYTES = 64 << 10
PAUSE_S = 0.005
POLL_INTERVAL_S = 1.0


class EncodedEvent(NamedTuple):
    """An event, encoded once for all readers."""

    seq: int
    kind: str
    audience: frozenset[str] | None
    json: bytes

    def concerns(self, names: frozenset[str] | None) -> bool:
        return names is None or self.audience is None or not self.audience.isdisjoint(names)


class EventFeed:
    """The newest events in memory, and a signal for all callers that wait for more.

    Each reader has a position of its own and reads at its own pace: recent events from memory,
    older ones from the log. The feed queues nothing for a reader, so a slow reader costs nothing
    and loses nothing. `lives` counts the logs: a restore starts another log."""

    def __init__(self, node: Node, in_thread: Callable[..., Any]) -> None:
        self._node = node
        self._in_thread = in_thread
        self._recent: list[EncodedEvent] = []
        self._bytes = 0
        self._change = asyncio.Event()
        self._rung = asyncio.Event()
        self._ended = threading.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._watched = 0
        self.reached = 0
        self.lives = 1
        self.closing = False

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.reached = await self._in_thread(self._node.head)
        self._listener = threading.Thread(target=self._listen, name="listener", daemon=True)
        self._listener.start()
        self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._sweep())]

    def end_waiting(self) -> None:
        """End all waits. Each waiting caller gets the same answer as after a timeout."""
        self.closing = True
        self._tell()

    def _tell(self) -> None:
        self._change.set()
        self._change = asyncio.Event()

    async def stop(self) -> None:
        self.end_waiting()
        self._ended.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self._listener.join)

    def _listen(self) -> None:
        """Listen for commits of all processes, in a thread of its own."""
        with closing(self._node.file.listen()) as listener:
            while not self._ended.is_set():
                try:
                    heard = listener.wait(POLL_INTERVAL_S)
                except Exception:  # noqa: BLE001 - without this thread no caller learns of a commit
                    _LOG.exception("the listener failed")
                    heard = not self._ended.wait(POLL_INTERVAL_S)
                if heard:
                    with suppress(RuntimeError):
                        self._loop.call_soon_threadsafe(self._rung.set)

    async def _follow(self) -> None:
        while True:
            await self._rung.wait()
            self._rung.clear()
            try:
                if self._watched:
                    await self._catch_up()
                else:
                    # No caller waits. The next caller reads from the log.
                    self._begin_at(await self._in_thread(self._node.head))
            except Exception:  # noqa: BLE001 - without this task no caller learns of a commit
                _LOG.exception("the feed failed")
                self._rung.set()
                await asyncio.sleep(POLL_INTERVAL_S)
            # A short pause collects the events of several commits into one read.
            await asyncio.sleep(PAUSE_S)

    async def _catch_up(self) -> None:
        """Read the new events into memory, and tell the waiting callers."""
        while True:
            found = await self._in_thread(self._read, self.reached, READ_AT_ONCE)
            if found:
                self._recent += found
                self.reached = found[-1].seq
                self._bytes += sum(len(event.json) for event in found)
                if len(self._recent) > 2 * REMEMBERED or self._bytes > REMEMBERED_BYTES:
                    del self._recent[: len(self._recent) // 2]
                    self._bytes = sum(len(event.json) for event in self._recent)
                self._tell()
            else:
                head = await self._in_thread(self._node.head)
                if head < self.reached:
                    self._begin_at(head)
            if len(found) < READ_AT_ONCE:
                return

    def _read(self, after: int, limit: int, most_bytes: int = 1 << 30) -> list[EncodedEvent]:
        events = self._node.events(after, limit, most_bytes)
        return [EncodedEvent(e.seq, e.kind, e.audience, canonical(e.data)) for e in events]

    def _begin_at(self, head: int) -> None:
        """Drop the events in memory, and wake the waiting callers. A log that became shorter is
        another log, which a restore has put in place."""
        if head < self.reached:
            self.lives += 1
        self.reached, self._bytes = head, 0
        self._recent.clear()
        self._tell()

    async def _sweep(self) -> None:
        """Record expired deadlines, so that waiting callers learn of them."""
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            with suppress(Refusal):
                if await self._in_thread(self._node.is_due):
                    await self._in_thread(self._node.do, lambda batch: None)

    async def wait(
        self, after: int, seconds: float, matters: Callable[[EncodedEvent], bool]
    ) -> None:
        """Wait until `matters` accepts an event after the position, or until the time is over."""
        deadline = self._loop.time() + seconds
        self._watched += 1
        try:
            while True:
                change = self._change
                found = self._remembered(after)
                if found is None or self.reached < after or any(map(matters, found)):
                    return
                after = self.reached
                left = deadline - self._loop.time()
                if left <= 0 or self.closing:
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await change.wait()
        finally:
            self._watched -= 1

    async def follow(self, after: int, pause_s: float) -> AsyncIterator[list[EncodedEvent]]:
        """Yield the events after a position in small lists, and an empty list after a pause. End
        when the feed closes or a restore replaces the log."""
        lives = self.lives
        self._watched += 1
        try:
            while True:
                change = self._change
                found = self._remembered(after, TOLD_AT_ONCE)
                if found is None:
                    # Many readers may be far behind, so each gets a few events at a time.
                    found = await self._in_thread(self._read, after, TOLD_AT_ONCE, TOLD_BYTES)
                if self.lives != lives:
                    return
                if found:
                    size = 0
                    for count, event in enumerate(found, 1):
                        size += len(event.json)
                        if size > TOLD_BYTES:
                            found = found[:count]
                            break
                    yield found
                    after = found[-1].seq
                elif self.closing:
                    return
                else:
                    try:
                        async with asyncio.timeout(pause_s):
                            await change.wait()
                    except TimeoutError:
                        yield []
        finally:
            self._watched -= 1

    def _remembered(self, after: int, most: int | None = None) -> list[EncodedEvent] | None:
        """Return the events after a position, or None if memory does not go back that far. Every
        fact is an event, so the position gives the index in the list."""
        if after >= self.reached:
            return []
        start = after + len(self._recent) - self.reached
        if start < 0:
            return None
        return self._recent[start : start + most if most is not None else None]
