"""A node on an event loop: many callers, most of them waiting, and one ear at the log.

The loop never touches the file. What looks is done in a few threads, what writes is left on the
desk, and one thread listens for commits; all who wait are told from memory.
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
from typing import Any, NamedTuple

from interlock.contracts.acts import Credentials, ReportRefusal, Whoami
from interlock.errors import EngineUnavailable, NotAvailable, unknown_outcome
from interlock.node import Node
from interlock.node.feed import EncodedEvent, EventFeed
from interlock.node.flows import Flow, Listening, Sleep, flow_of
from interlock.node.maintenance import MAINTENANCE
from interlock.node.pipeline import validate
from interlock.node.verbs import VERBS
from interlock.node.write_queue import PATIENCE_S, PendingWrite
from interlock.rooms.transaction import Answer
from interlock.rooms.workspace.events import IDENTITY_KINDS, viewer_names

_LOG = logging.getLogger("interlock.feed")
LOOKERS = 4
# What goes through the whole log, such as a verification, takes nobody's place who only looks.
CHORES_AT_ONCE = 1
# How often the log keeps what strangers did, and how often the server's own log says it.
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
        self._lookers = ThreadPoolExecutor(LOOKERS, thread_name_prefix="looker")
        self._chores = ThreadPoolExecutor(CHORES_AT_ONCE, thread_name_prefix="chore")
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
        self._lookers.shutdown(wait=True)
        self._chores.shutdown(wait=True)

    async def call(self, credentials: Credentials, act: Any) -> Answer:
        """Does what is asked, to its end; the same answers and refusals as `Node.call`."""
        if (script := flow_of(act)) is not None:
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

    async def _verb(self, credentials: Credentials, act: Any) -> Answer:
        if type(act) not in VERBS:
            threads = self._lookers if MAINTENANCE[type(act)].is_quick else self._chores
            chore = self._loop.run_in_executor(threads, self.node.verb, credentials, act)
            found: Answer = await chore
            return found
        validated = validate(credentials, act)
        if validated.verb.looks:
            looked: Answer | None = await self._in_thread(self.node.look, credentials, validated)
            if looked is not None:
                return looked
        try:
            answer: Answer = await self._posted(self.node.write_request(credentials, validated))
        except NotAvailable:
            beside = self.node.read_stale
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

    # --- waiting

    async def _play(self, credentials: Credentials, script: Flow) -> Answer:
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


def _matters(sleep: Sleep) -> Callable[[EncodedEvent], bool]:
    """Mail, or claims; and whatever may mean that who waits may do so no longer."""
    if sleep.names:
        return lambda event: (
            (event.audience is not None and event.concerns(sleep.names))
            or event.kind in IDENTITY_KINDS
        )
    return lambda event: event.kind.startswith("claim_") or event.kind in IDENTITY_KINDS
