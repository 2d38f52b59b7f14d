"""The feed: the newest events of a log in memory, and one ear at it for all who wait for more."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, NamedTuple

from interlock.errors import Refusal
from interlock.log.encoding import canonical
from interlock.node import Node
from interlock.rooms.workspace.events import Event

_LOG = logging.getLogger("interlock.feed")
REMEMBERED = 4000
REMEMBERED_BYTES = 16 << 20
READ_AT_ONCE = 1000
TOLD_AT_ONCE = 100
TOLD_BYTES = 64 << 10
BREATH_S = 0.005
POLL_INTERVAL_S = 1.0


class EncodedEvent(NamedTuple):
    """An event as listeners are told of it: encoded once, for all of them."""

    seq: int
    kind: str
    audience: frozenset[str] | None
    json: bytes

    def concerns(self, names: frozenset[str] | None) -> bool:
        return names is None or self.audience is None or not self.audience.isdisjoint(names)


def _encoded(event: Event) -> EncodedEvent:
    return EncodedEvent(event.seq, event.kind, event.audience, canonical(event.data))


def _not_too_much(events: Iterable[EncodedEvent]) -> list[EncodedEvent]:
    """The first of them: as much as is kept for somebody who may be slow to read it."""
    told: list[EncodedEvent] = []
    size = 0
    for event in events:
        told.append(event)
        size += len(event.json)
        if size > TOLD_BYTES:
            break
    return told


class EventFeed:
    """The newest events in memory, and a bell for all who wait for more.

    Whoever follows has a position of its own and reads at its own pace: from memory where that is
    recent, from the log where it is not. Nothing is queued for anybody, so a slow reader costs
    nothing and loses nothing."""

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
        self.lives = 1  # of the log: a restore begins another
        self.closing = False

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.reached = await self._in_thread(self._node.head)
        self._ear = threading.Thread(target=self._hear, name="ear", daemon=True)
        self._ear.start()
        self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._sweep())]

    def end_waiting(self) -> None:
        """Lets go of all who wait: they get what they would get when their time is over."""
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
        await asyncio.to_thread(self._ear.join)

    def _hear(self) -> None:
        with closing(self._node.listen()) as listener:
            while not self._ended.is_set():
                try:
                    heard = listener.wait(POLL_INTERVAL_S)
                except Exception:  # noqa: BLE001 - an ear that gives up leaves everybody deaf
                    _LOG.exception("the ear stumbled")
                    heard = not self._ended.wait(POLL_INTERVAL_S)
                if heard:
                    with suppress(RuntimeError):
                        self._loop.call_soon_threadsafe(self._rung.set)

    async def _follow(self) -> None:
        while True:
            await self._rung.wait()
            self._rung.clear()
            try:
                await self._catch_up()
            except Exception:  # noqa: BLE001 - the ears of everybody must not go deaf
                _LOG.exception("the feed stumbled")
                self._rung.set()
                await asyncio.sleep(POLL_INTERVAL_S)
            # A moment between two looks lets commits gather, where they come in a stream.
            await asyncio.sleep(BREATH_S)

    async def _catch_up(self) -> None:
        if not self._watched:
            # Nobody is there to be told: whoever comes reads from the log.
            self._begin_at(await self._in_thread(self._node.head))
            return
        while True:
            found = await self._in_thread(self._told, self.reached)
            if found:
                self._remember(found)
            if found or await self._was_replaced():
                self._tell()
            if len(found) < READ_AT_ONCE:
                return

    def _remember(self, found: list[EncodedEvent]) -> None:
        self._recent += found
        self.reached = found[-1].seq
        self._bytes += sum(len(event.json) for event in found)
        if len(self._recent) > 2 * REMEMBERED or self._bytes > REMEMBERED_BYTES:
            del self._recent[: len(self._recent) // 2]
            self._bytes = sum(len(event.json) for event in self._recent)

    def _told(self, after: int) -> list[EncodedEvent]:
        return list(map(_encoded, self._node.events(after, READ_AT_ONCE)))

    def _some(self, after: int) -> list[EncodedEvent]:
        """Events for one who is far behind; many may be, so it is few at a time."""
        return list(map(_encoded, self._node.events(after, TOLD_AT_ONCE, TOLD_BYTES)))

    async def _was_replaced(self) -> bool:
        """A restore put a shorter log in place: what is remembered of the old one is void."""
        head = await self._in_thread(self._node.head)
        if head >= self.reached:
            return False
        self._begin_at(head)
        return True

    def _begin_at(self, head: int) -> None:
        """Forgets what is remembered, and tells whoever has come meanwhile."""
        if head < self.reached:
            self.lives += 1
        self.reached, self._bytes = head, 0
        self._recent.clear()
        self._tell()

    async def _sweep(self) -> None:
        """Records what has expired, so that those who wait are told."""
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            with suppress(Refusal):
                if await self._in_thread(self._node.is_due):
                    await self._in_thread(self._node.do, lambda turn: None)

    async def wait(
        self, after: int, seconds: float, matters: Callable[[EncodedEvent], bool]
    ) -> None:
        """Until an event after that position matters, or the time is over."""
        with self._watching():
            await self._wait(after, self._loop.time() + seconds, matters)

    @contextmanager
    def _watching(self) -> Iterator[None]:
        self._watched += 1
        try:
            yield
        finally:
            self._watched -= 1

    async def _wait(
        self, after: int, deadline: float, matters: Callable[[EncodedEvent], bool]
    ) -> None:
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

    async def follow(self, after: int, pause_s: float) -> AsyncIterator[list[EncodedEvent]]:
        """Events after a position, for ever, some at a time; an empty list after a pause."""
        with self._watching():
            async for events in self._follow_from(after, pause_s):
                yield events

    async def _follow_from(self, after: int, pause_s: float) -> AsyncIterator[list[EncodedEvent]]:
        lives = self.lives
        while True:
            change = self._change
            found = self._remembered(after, TOLD_AT_ONCE)
            if found is None:
                found = await self._in_thread(self._some, after)
            if self.lives != lives:
                return
            if found:
                found = _not_too_much(found)
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

    def _remembered(self, after: int, most: int | None = None) -> list[EncodedEvent] | None:
        """The events after a position, or None where memory does not go back that far. Every fact
        is an event, so positions are places in the list."""
        if after >= self.reached:
            return []
        start = after + len(self._recent) - self.reached
        if start < 0:
            return None
        return self._recent[start : start + most if most is not None else None]
