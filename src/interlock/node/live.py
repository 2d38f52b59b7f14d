"""A node on an event loop: many callers, most of them waiting, and one ear at the log.

The loop never touches the file. What looks is done in a few threads, what writes is left on the
desk, and one thread listens for commits; all who wait are told from memory.
"""

import asyncio
import logging
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    closing,
    contextmanager,
    nullcontext,
    suppress,
)
from typing import Any, NamedTuple

from interlock.contracts.acts import Credentials, ReportRefusal, Whoami
from interlock.contracts.encoding import canonical
from interlock.errors import EngineUnavailable, NotAvailable, Refusal, unknown_outcome
from interlock.kernel.events import IDENTITY_KINDS, Event, viewer_names
from interlock.kernel.moment import Answer
from interlock.node import Node
from interlock.node.chores import CHORES
from interlock.node.desk import PATIENCE_S, Ticket
from interlock.node.scripts import Listening, Script, Sleep, script_of
from interlock.node.stations import validate
from interlock.node.verbs import VERBS

_LOG = logging.getLogger("interlock.feed")
LOOKERS = 4
# What goes through the whole log, such as a verification, takes nobody's place who only looks.
CHORES_AT_ONCE = 1
REMEMBERED = 4000
REMEMBERED_BYTES = 16 << 20
READ_AT_ONCE = 1000
TOLD_AT_ONCE = 100
TOLD_BYTES = 64 << 10
BREATH_S = 0.005
LOOK_EVERY_S = 1.0
# How often the log keeps what strangers did, and how often the server's own log says it.
REPORTED_EVERY_S = 60.0
MOST_SAID = 1000


class Told(NamedTuple):
    """An event as listeners are told of it: encoded once, for all of them."""

    seq: int
    kind: str
    audience: frozenset[str] | None
    json: bytes

    def concerns(self, names: frozenset[str] | None) -> bool:
        return names is None or self.audience is None or not self.audience.isdisjoint(names)


class Viewer(NamedTuple):
    """Who follows events, and under which names they concern it; None for the owner."""

    sender: str | None
    names: frozenset[str] | None


class LiveNode:
    """The asynchronous face of a node. Enter it on the loop that will use it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.feed = Feed(node, self._in_thread)
        self._lookers = ThreadPoolExecutor(LOOKERS, thread_name_prefix="looker")
        self._chores = ThreadPoolExecutor(CHORES_AT_ONCE, thread_name_prefix="chore")
        self._answered: deque[tuple[Ticket, asyncio.Future[Any]]] = deque()
        self._told = False
        self.intrusions: Counter[str] = Counter()
        self._reported: dict[str, float] = {}
        self._listening: dict[tuple[str, bool], tuple[int, AbstractContextManager[None]]] = {}

    async def __aenter__(self) -> "LiveNode":
        self._loop = asyncio.get_running_loop()
        await self.feed.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends the ear and lets what was begun come to its end."""
        await self.feed.stop()
        self._lookers.shutdown(wait=True)
        self._chores.shutdown(wait=True)

    async def call(self, credentials: Credentials, act: Any) -> Answer:
        """Does what is asked, to its end; the same answers and refusals as `Node.call`."""
        if (script := script_of(act)) is not None:
            return await self._play(credentials, script)
        return await self._verb(credentials, act)

    async def identify(self, credentials: Credentials) -> Viewer:
        """Who would see events; refused as any other act would be."""
        if credentials.owner:
            return Viewer(None, None)
        who = await self._verb(credentials, Whoami())
        return Viewer(who["sender"], viewer_names(who["sender"], who["agent"], who["scopes"]))

    async def events(
        self, credentials: Credentials, after: int, pause_s: float
    ) -> AsyncIterator[list[Told]]:
        """What concerns the caller after a position, for ever; an empty list after a pause. Who
        may not look any more is refused."""
        names = (await self.identify(credentials)).names
        looked = spoke = self._loop.time()
        async for events in self.feed.follow(after, pause_s):
            is_long_ago = self._loop.time() - looked >= pause_s
            if is_long_ago or any(event.kind in IDENTITY_KINDS for event in events):
                names, looked = (await self.identify(credentials)).names, self._loop.time()
            told = [event for event in events if event.concerns(names)]
            if told or self._loop.time() - spoke >= pause_s:
                yield told
                spoke = self._loop.time()

    async def report(self, code: str, peer: str, connection: str | None = None) -> None:
        """Keeps what a door refused on somebody's way in. What is about nobody known is kept once
        in a while only, since whoever can reach the door could fill the log with it."""
        self.notice(code, peer, connection)
        now = self._loop.time()
        if connection is None and now - self._reported.get(code, -REPORTED_EVERY_S) < (
            REPORTED_EVERY_S
        ):
            return
        self._reported[code] = now
        digest = self.node.keys.fingerprint(f"{code} {peer}".encode())[:16]
        with suppress(NotAvailable):
            await self.call(Credentials(), ReportRefusal(code, digest, connection))

    def notice(self, code: str, peer: str, connection: str | None = None) -> None:
        """Counts what was refused, and lets the server's own log say the first of a kind: nobody
        shall push out what else it says."""
        self.intrusions[code] += 1
        if self.intrusions[code] <= MOST_SAID or connection is not None:
            _LOG.warning("refused", extra={"code": code, "peer": peer, "connection": connection})

    async def entries(self) -> int:
        found: int = await self._in_thread(self.node.head)
        return found

    async def _verb(self, credentials: Credentials, act: Any) -> Answer:
        if type(act) not in VERBS:
            threads = self._lookers if CHORES[type(act)].is_quick else self._chores
            chore = self._loop.run_in_executor(threads, self.node.verb, credentials, act)
            found: Answer = await chore
            return found
        validated = validate(credentials, act)
        if validated.verb.looks:
            looked: Answer | None = await self._in_thread(self.node.look, credentials, validated)
            if looked is not None:
                return looked
        try:
            answer: Answer = await self._posted(self.node.submission(credentials, validated))
        except NotAvailable:
            beside = self.node.look_beside
            seen: Answer | None = await self._in_thread(beside, credentials, validated)
            if seen is None:
                raise
            return seen
        return answer

    async def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await self._loop.run_in_executor(self._lookers, work, *arguments)

    async def _posted(self, work: Callable[[Any], Any]) -> Any:
        """Leaves work on the desk and waits for its answer. Whoever stops waiting has asked all
        the same."""
        future: asyncio.Future[Any] = self._loop.create_future()
        ticket = self.node.post(work, lambda ticket: self._answer(ticket, future))
        patience = self._loop.call_later(PATIENCE_S, self._out_of_patience, ticket, future)
        try:
            return await future
        finally:
            patience.cancel()

    def _answer(self, ticket: Ticket, future: "asyncio.Future[Any]") -> None:
        """Called by the writer's thread for each of a batch: the loop is told once."""
        self._answered.append((ticket, future))
        if not self._told:
            self._told = True
            with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
                self._loop.call_soon_threadsafe(self._resolve)

    def _resolve(self) -> None:
        self._told = False
        while self._answered:
            ticket, future = self._answered.popleft()
            if future.done():
                continue
            if ticket.error is not None:
                future.set_exception(ticket.error)
            else:
                future.set_result(ticket.result)

    def _out_of_patience(self, ticket: Ticket, future: "asyncio.Future[Any]") -> None:
        if future.done():
            return
        try:
            self.node.withdraw(ticket)
        except EngineUnavailable as withdrawn:
            future.set_exception(withdrawn)
        else:
            self._loop.call_later(PATIENCE_S, _give_up, future)

    # --- waiting

    async def _play(self, credentials: Credentials, script: Script) -> Answer:
        async with AsyncExitStack() as stack:
            seen = self.feed.reached
            reply: Any = None
            trouble: BaseException | None = None
            while True:
                try:
                    wanted = script.send(reply) if trouble is None else script.throw(trouble)
                except StopIteration as end:
                    answer: Answer = end.value
                    return answer
                try:
                    if isinstance(wanted, Sleep):
                        await self.feed.wait(seen, wanted.seconds, _matters(wanted))
                        seen, reply = self.feed.reached, not self.feed.closing
                    elif isinstance(wanted, Listening):
                        stack.enter_context(self.listening(*wanted))
                    else:
                        reply = await self._verb(credentials, wanted)
                    trouble = None
                except BaseException as raised:  # noqa: BLE001 - the script raises it again
                    trouble = raised

    def present(self, viewer: Viewer) -> AbstractContextManager[None]:
        return self.listening(viewer.sender) if viewer.sender is not None else nullcontext()

    @contextmanager
    def listening(self, sender: str, asleep: bool = False) -> Iterator[None]:
        """Shows the sender as reachable at once, however many of its clients listen."""
        key = sender, asleep
        count, shown = self._listening.get(key, (0, None))
        if shown is None:
            shown = self.node.presence.listening(sender, asleep=asleep)
            shown.__enter__()
        self._listening[key] = count + 1, shown
        try:
            yield
        finally:
            count, shown = self._listening.pop(key)
            if count > 1:
                self._listening[key] = count - 1, shown
            else:
                shown.__exit__(None, None, None)


def _give_up(future: "asyncio.Future[Any]") -> None:
    if not future.done():
        future.set_exception(unknown_outcome())


def _matters(sleep: Sleep) -> Callable[[Told], bool]:
    """Mail, or claims; and whatever may mean that who waits may do so no longer."""
    if sleep.names:
        return lambda event: (
            (event.audience is not None and event.concerns(sleep.names))
            or event.kind in IDENTITY_KINDS
        )
    return lambda event: event.kind.startswith("claim_") or event.kind in IDENTITY_KINDS


def _encoded(event: Event) -> Told:
    return Told(event.seq, event.kind, event.audience, canonical(event.data))


def _not_too_much(events: Iterable[Told]) -> list[Told]:
    """The first of them: as much as is kept for somebody who may be slow to read it."""
    told: list[Told] = []
    size = 0
    for event in events:
        told.append(event)
        size += len(event.json)
        if size > TOLD_BYTES:
            break
    return told


class Feed:
    """The newest events in memory, and a bell for all who wait for more.

    Whoever follows has a position of its own and reads at its own pace: from memory where that is
    recent, from the log where it is not. Nothing is queued for anybody, so a slow reader costs
    nothing and loses nothing."""

    def __init__(self, node: Node, in_thread: Callable[..., Any]) -> None:
        self._node = node
        self._in_thread = in_thread
        self._recent: list[Told] = []
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
                    heard = listener.wait(LOOK_EVERY_S)
                except Exception:  # noqa: BLE001 - an ear that gives up leaves everybody deaf
                    _LOG.exception("the ear stumbled")
                    heard = not self._ended.wait(LOOK_EVERY_S)
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
                await asyncio.sleep(LOOK_EVERY_S)
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

    def _remember(self, found: list[Told]) -> None:
        self._recent += found
        self.reached = found[-1].seq
        self._bytes += sum(len(event.json) for event in found)
        if len(self._recent) > 2 * REMEMBERED or self._bytes > REMEMBERED_BYTES:
            del self._recent[: len(self._recent) // 2]
            self._bytes = sum(len(event.json) for event in self._recent)

    def _told(self, after: int) -> list[Told]:
        return list(map(_encoded, self._node.events(after, READ_AT_ONCE)))

    def _some(self, after: int) -> list[Told]:
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
            await asyncio.sleep(LOOK_EVERY_S)
            with suppress(Refusal):
                if await self._in_thread(self._node.is_due):
                    await self._in_thread(self._node.do, lambda turn: None)

    async def wait(self, after: int, seconds: float, matters: Callable[[Told], bool]) -> None:
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

    async def _wait(self, after: int, deadline: float, matters: Callable[[Told], bool]) -> None:
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

    async def follow(self, after: int, pause_s: float) -> AsyncIterator[list[Told]]:
        """Events after a position, for ever, some at a time; an empty list after a pause."""
        with self._watching():
            async for events in self._follow_from(after, pause_s):
                yield events

    async def _follow_from(self, after: int, pause_s: float) -> AsyncIterator[list[Told]]:
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

    def _remembered(self, after: int, most: int | None = None) -> list[Told] | None:
        """The events after a position, or None where memory does not go back that far. Every fact
        is an event, so positions are places in the list."""
        if after >= self.reached:
            return []
        start = after + len(self._recent) - self.reached
        if start < 0:
            return None
        return self._recent[start : start + most if most is not None else None]
