"""A node on the event loop: many callers, most of them waiting.

The event loop never touches the file. A few threads do the reads, the write queue does the writes,
and one thread listens for commits. Waiting callers are served from memory.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    contextmanager,
    nullcontext,
    suppress,
)
from functools import partial
from typing import Any, NamedTuple

from interlock.errors import EngineUnavailable, NotAvailable, unknown_outcome
from interlock.node import Node
from interlock.node.feed import EncodedEvent, EventFeed
from interlock.node.flows import flow_of
from interlock.node.pipeline import Maintenance, Read, Write, submit
from interlock.node.write_queue import PATIENCE_S, PendingWrite
from interlock.rooms.people.verbs import ReportRefusal
from interlock.rooms.workspace.events import IDENTITY_KINDS, viewer_names
from interlock.rooms.workspace.verbs import Whoami
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials
from interlock.verbs.flows import Listening, Sleep, run_async
from interlock.verbs.verb import Verb

_LOG = logging.getLogger("interlock.feed")
READERS = 4
# A verb that reads the whole log, such as a verification, must not delay the readers.
UNBOUNDED_AT_ONCE = 1
# The log records one refused stranger of a kind in this time.
REPORT_INTERVAL_S = 60.0
MAX_SAID = 1000


class Viewer(NamedTuple):
    """Who follows events, and under which names they concern it; None for the owner."""

    sender: str | None
    names: frozenset[str] | None


class LiveNode:
    """The asynchronous face of a node. Enter it on the loop that will use it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.feed = EventFeed(node, self._in_thread)
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="reader")
        self._unbounded = ThreadPoolExecutor(UNBOUNDED_AT_ONCE, thread_name_prefix="unbounded")
        self._answered: deque[tuple[PendingWrite, asyncio.Future[Any]]] = deque()
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
        self._readers.shutdown(wait=True)
        self._unbounded.shutdown(wait=True)

    async def call(self, credentials: Credentials, request: Verb) -> Answer:
        """Do a request to its end. The same answers and refusals as `Node.call`."""
        flow = flow_of(request)
        if flow is None:
            return await self.call_once(credentials, request)
        async with AsyncExitStack() as until_end:
            waiter = _Waiter(self, credentials, until_end)
            return await run_async(flow, waiter.step)

    async def call_once(self, credentials: Credentials, request: Verb) -> Answer:
        """Do one request without waiting: the caller of a flow asks again."""
        path = submit(credentials, request, self.node.keys.fingerprint)
        return await run_async(path, self._step)

    async def _step(self, wanted: Any) -> Any:
        """Do one step of a request's path."""
        match wanted:
            case Read(valid, stale):
                return await self._in_thread(partial(self.node.read, valid, stale=stale))
            case Write(write):
                return await self._enqueue(write)
            case Maintenance(valid):
                from interlock.node.maintenance import maintain

                is_unbounded = valid.request.declared.unbounded
                threads = self._unbounded if is_unbounded else self._readers
                return await self._loop.run_in_executor(threads, maintain, self.node, valid)

    async def identify(self, credentials: Credentials) -> Viewer:
        """The viewer of events. Raises the refusals of any other request."""
        if credentials.owner:
            return Viewer(None, None)
        who = await self.call_once(credentials, Whoami())
        return Viewer(who["sender"], viewer_names(who["sender"], who["agent"], who["scopes"]))

    async def events(
        self, credentials: Credentials, after: int, pause_s: float
    ) -> AsyncIterator[list[EncodedEvent]]:
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

    async def report(
        self, code: str, peer: str, connection: str | None = None, person: str | None = None
    ) -> None:
        """Keeps what a door refused on somebody's way in. What is about nobody known is kept once
        in a while only, since whoever can reach the door could fill the log with it."""
        self.notice(code, peer, connection)
        is_about_nobody = connection is None and person is None
        if is_about_nobody:
            now = self._loop.time()
            if now - self._reported.get(code, -REPORT_INTERVAL_S) < REPORT_INTERVAL_S:
                return
            self._reported[code] = now
        digest = self.node.keys.fingerprint(f"{code} {peer}".encode())[:16]
        try:
            await self.call(Credentials(), ReportRefusal(code, digest, connection, person))
        except NotAvailable:
            if is_about_nobody:
                self._reported.pop(code, None)  # the next of its kind is kept in its stead

    def notice(self, code: str, peer: str, connection: str | None = None) -> None:
        """Counts what was refused, and lets the server's own log say the first of a kind: nobody
        shall push out what else it says."""
        self.intrusions[code] += 1
        if self.intrusions[code] <= MAX_SAID or connection is not None:
            _LOG.warning("refused", extra={"code": code, "peer": peer, "connection": connection})

    async def entries(self) -> int:
        found: int = await self._in_thread(self.node.head)
        return found

    async def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await self._loop.run_in_executor(self._readers, work, *arguments)

    async def _enqueue(self, work: Callable[[Any], Any]) -> Any:
        """Enqueue a write and wait for its answer. A caller that stops waiting does not undo it."""
        future: asyncio.Future[Any] = self._loop.create_future()
        write = self.node.post(work, lambda write: self._answer(write, future))
        patience = self._loop.call_later(PATIENCE_S, self._out_of_patience, write, future)
        try:
            return await future
        finally:
            patience.cancel()

    def _answer(self, write: PendingWrite, future: "asyncio.Future[Any]") -> None:
        """Called by the writer's thread for each of a batch: the loop is told once."""
        self._answered.append((write, future))
        if not self._told:
            self._told = True
            with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
                self._loop.call_soon_threadsafe(self._resolve)

    def _resolve(self) -> None:
        self._told = False
        while self._answered:
            write, future = self._answered.popleft()
            if future.done():
                continue
            if write.error is not None:
                future.set_exception(write.error)
            else:
                future.set_result(write.result)

    def _out_of_patience(self, write: PendingWrite, future: "asyncio.Future[Any]") -> None:
        if future.done():
            return
        try:
            self.node.withdraw(write)
        except EngineUnavailable as withdrawn:
            future.set_exception(withdrawn)
        else:
            self._loop.call_later(PATIENCE_S, _give_up, future)

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


class _Waiter:
    """Does the steps of one verb that waits. A sleep ends with the first event since the last
    step that may matter."""

    def __init__(self, live: LiveNode, credentials: Credentials, until_end: AsyncExitStack) -> None:
        self._live, self._credentials, self._until_end = live, credentials, until_end
        self._seen = live.feed.reached

    async def step(self, wanted: Any) -> Any:
        feed = self._live.feed
        match wanted:
            case Sleep(seconds):
                await feed.wait(self._seen, seconds, _matters(wanted))
                self._seen = feed.reached
                return not feed.closing
            case Listening(sender, asleep):
                return self._until_end.enter_context(self._live.listening(sender, asleep))
        return await self._live.call_once(self._credentials, wanted)


def _give_up(future: "asyncio.Future[Any]") -> None:
    if not future.done():
        future.set_exception(unknown_outcome())


def _matters(sleep: Sleep) -> Callable[[EncodedEvent], bool]:
    """Mail, or claims; and whatever may mean that who waits may do so no longer."""
    if sleep.names:
        return lambda event: (
            (event.audience is not None and event.concerns(sleep.names))
            or event.kind in IDENTITY_KINDS
        )
    return lambda event: event.kind.startswith("claim_") or event.kind in IDENTITY_KINDS
