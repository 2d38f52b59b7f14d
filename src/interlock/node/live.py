"""A node on the event loop: many callers, most of them waiting.

The event loop never touches the file. A few threads do the reads, the write queue does the writes,
and one thread listens for commits. The feed serves waiting callers from memory.
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
from interlock.verbs.flows import ShowReachable, Sleep, run_async
from interlock.verbs.verb import Verb

_LOG = logging.getLogger("interlock.feed")
READERS = 4
# A verb that reads the whole log, such as a verification, must not delay the readers.
UNBOUNDED_AT_ONCE = 1
# In this time, the log records at most one refusal of an unknown caller for each code.
REPORT_INTERVAL_S = 60.0
MAX_SAID = 1000


class Viewer(NamedTuple):
    """A reader of events, and the names whose events it may see. Both are None for the owner."""

    sender: str | None
    names: frozenset[str] | None


class LiveNode:
    """The asynchronous interface of a node. Enter it on the event loop that uses it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.feed = EventFeed(node, self._in_thread)
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="reader")
        self._unbounded = ThreadPoolExecutor(UNBOUNDED_AT_ONCE, thread_name_prefix="unbounded")
        self._answered: deque[tuple[PendingWrite, asyncio.Future[Any]]] = deque()
        self._is_told = False
        self.intrusions: Counter[str] = Counter()
        self._reported: dict[str, float] = {}
        self._listening: dict[tuple[str, bool], tuple[int, AbstractContextManager[None]]] = {}

    async def __aenter__(self) -> "LiveNode":
        self._loop = asyncio.get_running_loop()
        await self.feed.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop the feed, and wait until the threads have finished their work."""
        await self.feed.stop()
        self._readers.shutdown(wait=True)
        self._unbounded.shutdown(wait=True)

    async def call(self, credentials: Credentials, request: Verb) -> Answer:
        """Run a request to completion. Answers and refusals are those of `Node.call`."""
        flow = flow_of(request)
        if flow is None:
            return await self.call_once(credentials, request)
        async with AsyncExitStack() as until_end:
            seen = self.feed.reached

            async def step(wanted: Any) -> Any:
                """Run one step of a verb that waits."""
                nonlocal seen
                match wanted:
                    case Sleep(seconds, names):
                        # New mail or a claim ends the sleep. So does a fact about identities, which
                        # may have revoked the caller's permission.
                        def matters(event: EncodedEvent) -> bool:
                            if event.kind in IDENTITY_KINDS:
                                return True
                            if names:
                                return event.audience is not None and event.concerns(names)
                            return event.kind.startswith("claim_")

                        await self.feed.wait(seen, seconds, matters)
                        seen = self.feed.reached
                        return not self.feed.closing
                    case ShowReachable(sender, asleep):
                        return until_end.enter_context(self.listening(sender, asleep))
                return await self.call_once(credentials, wanted)

            return await run_async(flow, step)

    async def call_once(self, credentials: Credentials, request: Verb) -> Answer:
        """Run one request, and answer at once. A flow that waits repeats its request."""
        path = submit(credentials, request, self.node.keys.fingerprint)
        return await run_async(path, self._step)

    async def _step(self, wanted: Any) -> Any:
        """Run one step of a request's path."""
        match wanted:
            case Read(valid, stale):
                return await self._in_thread(partial(self.node.read, valid, stale=stale))
            case Write(write):
                return await self._enqueue(write)
            case Maintenance(valid):
                from interlock.node.upkeep import maintain

                is_unbounded = valid.request.declared.unbounded
                threads = self._unbounded if is_unbounded else self._readers
                return await self._loop.run_in_executor(threads, maintain, self.node, valid)

    async def find_viewer(self, credentials: Credentials) -> Viewer:
        """Return the viewer that the credentials identify. Raises Refusal."""
        if credentials.owner:
            return Viewer(None, None)
        who = await self.call_once(credentials, Whoami())
        return Viewer(who["sender"], viewer_names(who["sender"], who["agent"], who["scopes"]))

    async def events(
        self, credentials: Credentials, after: int, pause_s: float
    ) -> AsyncIterator[list[EncodedEvent]]:
        """Yield the events after a position that concern the caller, and an empty list after a
        pause. Raises Refusal when the caller may no longer read them."""
        names = (await self.find_viewer(credentials)).names
        checked_at = yielded_at = self._loop.time()
        async for events in self.feed.follow(after, pause_s):
            is_long_ago = self._loop.time() - checked_at >= pause_s
            if is_long_ago or any(event.kind in IDENTITY_KINDS for event in events):
                names, checked_at = (await self.find_viewer(credentials)).names, self._loop.time()
            relevant = [event for event in events if event.concerns(names)]
            if relevant or self._loop.time() - yielded_at >= pause_s:
                yield relevant
                yielded_at = self._loop.time()

    async def report(
        self, code: str, peer: str, connection: str | None = None, person: str | None = None
    ) -> None:
        """Record a sign-in that a door refused. For unknown callers, record at most one refusal of
        each code in `REPORT_INTERVAL_S`, so that an attacker cannot fill the log."""
        self.notice(code, peer, connection)
        is_unknown = connection is None and person is None
        if is_unknown:
            now = self._loop.time()
            if now - self._reported.get(code, -REPORT_INTERVAL_S) < REPORT_INTERVAL_S:
                return
            self._reported[code] = now
        digest = self.node.keys.fingerprint(f"{code} {peer}".encode())[:16]
        try:
            await self.call(Credentials(), ReportRefusal(code, digest, connection, person))
        except NotAvailable:
            if is_unknown:
                self._reported.pop(code, None)  # so that the next refusal of this code is recorded

    def notice(self, code: str, peer: str, connection: str | None = None) -> None:
        """Count a refusal. Write only the first ones of each code into the server's log, so that an
        attacker cannot push other lines out of it."""
        self.intrusions[code] += 1
        if self.intrusions[code] <= MAX_SAID or connection is not None:
            _LOG.warning("refused", extra={"code": code, "peer": peer, "connection": connection})

    async def entries(self) -> int:
        found: int = await self._in_thread(self.node.head)
        return found

    async def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await self._loop.run_in_executor(self._readers, work, *arguments)

    async def _enqueue(self, work: Callable[[Any], Any]) -> Any:
        """Enqueue a write and wait for its answer. The write continues if the caller stops
        waiting."""
        future: asyncio.Future[Any] = self._loop.create_future()

        def answered(write: PendingWrite) -> None:
            """Wake the event loop once for a batch. The writer thread calls this for each write."""
            self._answered.append((write, future))
            if not self._is_told:
                self._is_told = True
                with suppress(RuntimeError):  # the loop has ended
                    self._loop.call_soon_threadsafe(self._resolve)

        def give_up() -> None:
            if not future.done():
                future.set_exception(unknown_outcome())

        def withdraw() -> None:
            if future.done():
                return
            try:
                self.node.queue.withdraw(write)
            except EngineUnavailable as withdrawn:
                future.set_exception(withdrawn)
            else:
                self._loop.call_later(PATIENCE_S, give_up)

        write = self.node.queue.post(work, answered)
        patience = self._loop.call_later(PATIENCE_S, withdraw)
        try:
            return await future
        finally:
            patience.cancel()

    def _resolve(self) -> None:
        self._is_told = False
        while self._answered:
            write, future = self._answered.popleft()
            if future.done():
                continue
            if write.error is not None:
                future.set_exception(write.error)
            else:
                future.set_result(write.result)

    def present(self, viewer: Viewer) -> AbstractContextManager[None]:
        return self.listening(viewer.sender) if viewer.sender is not None else nullcontext()

    @contextmanager
    def listening(self, sender: str, asleep: bool = False) -> Iterator[None]:
        """Show the sender as reachable while at least one of its clients listens."""
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
