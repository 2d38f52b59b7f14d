"""The node of a workspace: opens it, runs requests through the pipeline, and commits batches.

Doors decode a request, call the node, and encode the answer. Only the node imports both the rules
and the stores. Many threads can use one node. Several processes can open nodes on one workspace. A
node also works in a child process after fork().
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import apsw

from interlock.errors import EngineUnavailable, LogDamaged, NotAvailable, Refusal
from interlock.log.facts import parse_header
from interlock.node import state
from interlock.node.batch import Batch, BodyStore, Position, new_id
from interlock.node.flows import CHECK_AGAIN_S, flow_of
from interlock.node.keys import EVERY, Keys
from interlock.node.opening import open_engine
from interlock.node.pipeline import (
    Maintenance,
    Read,
    Validated,
    Write,
    WriteRequest,
    decide,
    submit,
)
from interlock.node.write_queue import PendingWrite, WriteQueue
from interlock.rooms.claims import rules as claims
from interlock.rooms.mail import reading, waking
from interlock.rooms.transaction import OWNER_CALLER, Caller, NeedsWrite, Transaction, is_paused
from interlock.rooms.workspace.events import Event, event
from interlock.rooms.workspace.verbs import Attend
from interlock.stores import FarBehind, Head, HeadMoved
from interlock.stores.presence import Presence
from interlock.stores.sqlite import clock_ms
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials
from interlock.verbs.flows import ShowReachable, Sleep, run
from interlock.verbs.verb import Verb

if TYPE_CHECKING:
    from interlock.stores.shared.engine import GiveUp

TOUCH_INTERVAL_S = 5.0
MAX_USES = 10_000
TRIES = 16
# A read of a shared log is current for SURE_FOR_S after the engine confirmed the head. After that
# an answer states its age, and after MAX_AGE_S the node serves no reads.
SURE_FOR_S = 5.0
MAX_AGE_S = 300.0


class Node:
    """A workspace's node."""

    def __init__(
        self,
        directory: str,
        *,
        clock: Callable[[], int] | None = None,
        adopt: bool = False,
        engine: str | None = None,
        key: bytes | None = None,
        is_repair: bool = False,
    ) -> None:
        """Open the workspace in an existing directory, and create its log if there is none.

        `engine` is the URL of a shared engine. Without it, the log is in a file in the directory.
        `key` is the key of a workspace that the engine already has. `is_repair` allows an engine
        that has no entry of this workspace."""
        self.directory = directory
        self.presence = Presence(directory)
        self.keys = Keys(directory)
        self._position: Position | None = None
        self.queue = WriteQueue(self._serve)
        self._serving = threading.Lock()
        self._touched: dict[str, float] = {}
        self._used: dict[tuple[str, str | None, str | None], float] = {}
        self._owes_scrub = False
        self.engine, self.shared = open_engine(
            directory, self.keys, clock, adopt=adopt, url=engine, key=key, is_repair=is_repair
        )
        self.file = self.engine.file
        self.clock = clock or (self.shared.now if self.shared else clock_ms)
        self._forks = self.file.forks
        self.reached = 0
        try:
            # Create log and state if they are missing, and catch up with other nodes.
            with self.file.reading() as db:
                self.reached = self.engine.head(db).seq
                ready = state.is_current(db) and self.reached > 0
            if not ready:
                # Open a damaged log too, for a restore. The node refuses every other request.
                with suppress(LogDamaged):
                    self.do(lambda batch: None)
            if self.shared is not None:
                if ready:
                    try:
                        self.catch_up()
                    except NotAvailable as trouble:
                        self.shared.trouble = trouble
                self.shared.follow(self)
        except BaseException:
            self.close()
            raise

    # --- requests

    def call(self, credentials: Credentials, request: Verb) -> Answer:
        """Run a request to completion in the caller's thread. Raises Refusal."""
        self._after_fork()
        flow = flow_of(request)
        if flow is None:
            return self.call_once(credentials, request)
        with ExitStack() as until_end:
            # Listen before the first step, so that a commit between a check and the sleep ends the
            # sleep.
            listener = until_end.enter_context(closing(self.file.listen()))

            def step(wanted: Any) -> Any:
                """Run one step of a verb that waits."""
                match wanted:
                    case Sleep(seconds):
                        # A lease expires without a commit, so the caller also checks at intervals.
                        deadline = time.monotonic() + min(seconds, CHECK_AGAIN_S)
                        while not listener.wait(deadline - time.monotonic()):
                            if time.monotonic() >= deadline:
                                break
                        return True
                    case ShowReachable(sender, asleep):
                        shown = self.presence.listening(sender, asleep=asleep)
                        return until_end.enter_context(shown)
                return self.call_once(credentials, wanted)

            return run(flow, step)

    def call_once(self, credentials: Credentials, request: Verb) -> Answer:
        """Run one request, and answer at once. A flow that waits repeats its request."""
        return run(submit(credentials, request, self.keys.fingerprint), self._step)

    def _step(self, wanted: Any) -> Any:
        """Run one step of a request's path."""
        match wanted:
            case Read(valid, stale):
                return self.read(valid, stale=stale)
            case Write(write):
                return self.queue.submit(write)
            case Maintenance(valid):
                from interlock.node.upkeep import maintain

                return maintain(self, valid)

    def do(self, work: Callable[[Batch], Any]) -> Any:
        """Run maintenance work in the write transaction, without a verb. Returns after COMMIT."""
        self._after_fork()
        return self.queue.submit(work)

    def read(self, valid: Validated, *, stale: bool = False) -> Answer | None:
        """Decide a request in a read transaction. Return None if the request must append a fact. A
        stale read answers a caller while the shared engine accepts no writes."""
        if stale and self.shared is None:
            return None
        stale = stale or bool(self.shared and self.shared.trouble)
        age_s = self._age(valid.credentials.seen)
        with self.file.reading() as db:
            tx = self.transaction(db, stale=stale)
            try:
                if _due(tx) and not stale:
                    return None
                answer = decide(tx, valid)
            except NeedsWrite:
                return None
            except Refusal as refusal:
                # Another node may have appended the fact that allows the request.
                if refusal.recorded or self.shared is not None:
                    return None
                raise
            self._note_presence(tx.caller, valid, answer)
            return answer | {"age_s": age_s} if age_s else answer

    def _age(self, seen: int) -> int:
        """Return the seconds since the engine confirmed the head of the log, or 0 for a current
        state. Catch up first if the caller has seen a later position than this node."""
        if self.shared is None:
            return 0
        if seen > self.reached:
            self.catch_up()
        age_s = self.engine.age_s()
        if age_s is None or age_s > MAX_AGE_S:
            since = "since this node started" if age_s is None else f"for {age_s:.0f} s"
            why = f" {self.shared.trouble.state}" if self.shared.trouble else ""
            raise EngineUnavailable(
                f"The engine has not confirmed the head of the log {since}. This node serves no "
                f"reads, because a token may have been revoked meanwhile.{why}"
            )
        return int(age_s) if age_s > SURE_FOR_S else 0

    def is_due(self) -> bool:
        """Whether an expiry is not recorded yet."""
        with self.file.reading() as db:
            return _due(self.transaction(db))

    def events(self, after: int, limit: int, most_bytes: int = 1 << 30) -> list[Event]:
        """Return at most `limit` events after a position, with about `most_bytes` of headers."""
        found: list[Event] = []
        size = 0
        # Close the cursor, because an open one keeps this snapshot of the log alive.
        with self.file.reading() as db, closing(self.engine.follow(db, after)) as facts:
            for _, header in islice(facts, limit):
                found.append(event(db, parse_header(header)))
                size += len(header)
                if size > most_bytes:
                    break
        return found

    def head(self) -> int:
        with self.file.reading() as db:
            return self.engine.head(db).seq

    def transaction(self, db: apsw.Connection, *, stale: bool = False) -> Transaction:
        """A read transaction at the head of the log."""
        now = self.engine.now(self.engine.head(db))
        store = BodyStore(self.engine, db, self.presence, now, as_is=stale)
        return Transaction(db, store, now, 0, OWNER_CALLER, new_id, stale=stale)

    def _note_presence(self, caller: Caller, valid: Validated, answer: Answer) -> None:
        """Record in presence that the caller is active, where it uses its token, and the current
        step of its client's window."""
        now = time.monotonic()
        if caller.token is not None:
            if now - self._touched.get(caller.sender, -1e9) > TOUCH_INTERVAL_S:
                self._touched[caller.sender] = now
                self.presence.touch(caller.sender, self.shared.now() if self.shared else None)
            use = (caller.token, caller.session, valid.credentials.peer)
            if now - self._used.get(use, -1e9) > TOUCH_INTERVAL_S:
                if len(self._used) >= MAX_USES:
                    self._used.clear()
                self._used[use] = now
                self.presence.used(*use, self.clock())
        request = valid.request
        if isinstance(request, Attend):
            # A client that receives messages when it stops continues to work.
            step = "busy" if request.step == "stop" and "messages" in answer else request.step
            at = self._clock_ms()
            self.presence.attended(caller.sender, caller.session, step, request.window, at)
            if step == "start" and (lost := self.presence.lost(caller.sender)):
                answer["lost"] = lost
        elif request.declared.name == "session end":
            self.note_end(caller.sender, answer["ended"])

    def note_end(self, sender: str, session: str) -> None:
        """Record in presence that a session has ended."""
        self.presence.attended(sender, session, "end", None, self._clock_ms())

    def _clock_ms(self) -> int:
        return self.shared.now() if self.shared else clock_ms()

    # --- the write transaction

    def _serve(self, collect: Callable[[], list[PendingWrite]], wait: bool) -> Callable[[], None]:
        """Commit a batch of writes: see `WriteQueue`. If another node appends first, decide the
        batch again at the new head. The queue calls the returned function after it has answered
        the callers."""
        with self._serving:
            writes: list[PendingWrite] = []
            for _ in range(TRIES):
                try:
                    # Only this call can serve the writes that it collected, so it waits for the
                    # turn.
                    with self.engine.turn(wait=wait or bool(writes)):
                        writes = writes or collect()
                        batch = self._at_head()
                        if _due(batch.system()):
                            batch.attempt(_sweep)
                        for write in writes:
                            self._attempt(batch, write)
                        batch.close()
                    break
                except HeadMoved:
                    self._position = None
                except FarBehind:
                    while self._take_over():
                        continue
                except BaseException:
                    self._position = None  # it may be ahead of the committed state
                    raise
            else:
                raise EngineUnavailable(
                    f"Other nodes appended first {TRIES} times. Nothing was done. Try again."
                )
            # After COMMIT, a failure must not turn an answer into an error. A later commit tries
            # again.
            self.reached = batch.position.seq
            for write in writes:
                work = write.work
                if isinstance(work, WriteRequest) and work.caller and not write.error:
                    self._note_presence(work.caller, work.valid, write.result)
            self._owes_scrub = self._owes_scrub or batch.store.erased
            self._scrub()
            if batch.head.seq // EVERY != batch.position.seq // EVERY:
                position = batch.position
                size, epoch = position.frontier.size, position.epoch
                with suppress(LogDamaged, EngineUnavailable):
                    note = self.keys.signed(position.workspace, position.frontier)

                    def keep_checkpoint() -> None:
                        with suppress(OSError):
                            self.keys.keep(note, size, epoch)

                    return keep_checkpoint
            return lambda: None

    def _scrub(self) -> None:
        if self._owes_scrub:
            with suppress(Refusal):
                self._owes_scrub = not self.file.scrub()

    def _attempt(self, batch: Batch, write: PendingWrite) -> None:
        write.result = write.error = None
        try:
            write.result = batch.attempt(write.work)
        except Exception as trouble:
            write.error = trouble
            if not batch.db.in_transaction:
                raise
            work = write.work
            if isinstance(trouble, Refusal) and trouble.recorded and isinstance(work, WriteRequest):
                batch.attempt(partial(work.record, trouble))

    def _at_head(self) -> Batch:
        """Return the write transaction with the state folded up to the head. Append the first fact
        to an empty log."""
        db = self.file.writer
        head = self.engine.head(db)
        batch = Batch(self.engine, db, self.presence, head, self._folded(db, head))
        if head.seq == 0:
            if self.shared is not None:
                self.shared.refuse_absent()
            batch.position.workspace = new_id()
            self.keys.make()
            verifier = self.keys.verifier(batch.position.workspace)
            batch.system().append("workspace_created", {"verifier": verifier})
        return batch

    def _folded(self, db: apsw.Connection, head: Head) -> Position:
        """Fold the state up to the head, and return its position."""
        if self._position is None or not self._position.at(head):
            self._position = None
            if state.is_current(db) and (self.shared is None or state.stands(db)):
                position = state.load(db)
                erased = state.catch_up(db, self.engine, position, head)
                self._owes_scrub = self._owes_scrub or erased
            else:
                position = state.rebuild(db, self.engine, head)
            self._position = position
        return self._position

    def catch_up(self) -> None:
        """Copy the entries that other nodes appended. Writers of this process can run between two
        steps of the copy."""
        self._after_fork()
        more = True
        while more:
            with self._serving:
                more = self._take_over()

    def wait_for_commit(self) -> None:
        """Wait for the batch that this node is committing, if there is one."""
        with self._serving:
            return

    def _take_over(self) -> bool:
        """Copy some of the entries that other nodes appended. Return whether there are more."""
        assert self.shared is not None
        try:
            with self.shared.engine.arriving() as more:
                db = self.file.writer
                position = self._folded(db, self.engine.head(db))
        except BaseException:
            self._position = None
            raise
        self.reached = position.seq
        self._scrub()
        return more

    def settle(self, give_up: "GiveUp", work: Callable[[Batch], Any]) -> Any:
        """Abandon the entries that the engine does not have. In the same transaction, run `work`,
        which records that."""
        assert self.shared is not None
        try:
            with self.alone(), self.shared.engine.turn(give_up=give_up):
                batch = self._at_head()
                result = batch.attempt(work)
                batch.close()
        except (HeadMoved, FarBehind):
            raise EngineUnavailable(
                "Another node wrote meanwhile. Nothing was done. To compare again: interlock repair"
            ) from None
        self.reached = batch.position.seq
        return result

    # --- life cycle

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Stop the writes of this process, for work outside a transaction."""
        with self._serving:
            yield
            self._position = None

    def _after_fork(self) -> None:
        if self._forks != self.file.forks:
            self._forks = self.file.forks
            self._position = None
            self._serving = threading.Lock()
            self.queue = WriteQueue(self._serve)
            if self.shared is not None:
                self.shared.begin_anew(self)

    def close(self) -> None:
        self._after_fork()
        if self.shared is not None:
            self.shared.end()
        self.queue.close()
        self.engine.close()
        self.file.close()

    def __enter__(self) -> "Node":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _due(tx: Transaction) -> bool:
    """Whether the node must record an expiry, and can do so now."""
    queries = (reading.IS_DUE, claims.IS_DUE, waking.IS_DUE)
    return any(tx.has(query, tx.now) for query in queries) and not is_paused(tx.state)


def _sweep(batch: Batch) -> None:
    reading.sweep(batch.system())
    waking.sweep(batch.system())
    claims.expire(batch.system())
