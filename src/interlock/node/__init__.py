"""The node: the one way in. authenticate → validate → authorize → decide → append → fold.

Doors decode a request, call one verb here, and encode the answer. Only the node knows both the
rulebook and the engine. A node is safe to use from many threads, beside other processes' nodes
on the same workspace, and after fork().
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
from interlock.node import position as state
from interlock.node.batch import Batch, BodyStore, new_id
from interlock.node.flows import LOOK_AGAIN_S, flow_of
from interlock.node.keys import EVERY, Keys
from interlock.node.opening import open_engine
from interlock.node.pipeline import (
    Maintenance,
    Read,
    Validated,
    Write,
    WriteRequest,
    authorize,
    decide,
    identify,
    submit,
)
from interlock.node.write_queue import PendingWrite, WriteQueue
from interlock.rooms.claims import queue as queueing
from interlock.rooms.mail import reading, waking
from interlock.rooms.transaction import OWNER_CALLER, Caller, NeedsWrite, Transaction
from interlock.rooms.workspace.events import Event, event
from interlock.rooms.workspace.rules import is_paused
from interlock.rooms.workspace.verbs import Attend
from interlock.stores import FarBehind, Head, HeadMoved
from interlock.stores.file import Listener
from interlock.stores.presence import Presence
from interlock.stores.sqlite import clock_ms
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials
from interlock.verbs.flows import Listening, Sleep, run
from interlock.verbs.verb import Verb

if TYPE_CHECKING:
    from interlock.stores.shared.engine import GiveUp

TOUCH_INTERVAL_S = 5.0
MAX_USES = 10_000
TRIES = 16
# What is read may be as old as this and pass for new; beyond, it says how old it is; and beyond
# that, nothing is read at all.
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
        """Opens the workspace in an existing directory, and makes its log if there is none.
        `engine` is the URL of what keeps the log, where that is not the directory's own file, and
        `key` the key of a workspace that exists there already. For a repair that may be an engine
        which has nothing of this workspace."""
        self.directory = directory
        self.presence = Presence(directory)
        self.keys = Keys(directory)
        self._position: state.Position | None = None
        self._queue = WriteQueue(self._serve)
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
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        """Makes the log and the state where there are none, and looks what others did."""
        with self.file.reading() as db:
            self.reached = self.engine.head(db).seq
            ready = state.is_current(db) and self.reached > 0
        if not ready:
            # A damaged log is refused by whatever is asked of it; only a restore can go on.
            with suppress(LogDamaged):
                self.do(lambda turn: None)
        if self.shared is not None:
            if ready:
                try:
                    self.catch_up()
                except NotAvailable as trouble:
                    self.shared.trouble = trouble
            self.shared.follow(self)

    # --- requests

    def call(self, credentials: Credentials, request: Verb) -> Answer:
        """Do a request to its end, in the caller's thread. Raises the refusals of `errors`."""
        self._after_fork()
        flow = flow_of(request)
        if flow is None:
            return self.call_once(credentials, request)
        with ExitStack() as until_end:
            # Listen before the first step: a commit between a look and a sleep must end the sleep.
            listener = until_end.enter_context(closing(self.listen()))
            return run(flow, partial(self._flow_step, credentials, until_end, listener))

    def call_once(self, credentials: Credentials, request: Verb) -> Answer:
        """Do one request without waiting: the caller of a flow asks again."""
        return run(submit(credentials, request, self.keys.fingerprint), self._step)

    def _step(self, wanted: Any) -> Any:
        """Do one step of a request's path."""
        match wanted:
            case Read(valid, stale):
                return self.read(valid, stale=stale)
            case Write(write):
                return self._queue.submit(write)
            case Maintenance(valid):
                from interlock.node.maintenance import maintain

                return maintain(self, valid)

    def _flow_step(
        self, credentials: Credentials, until_end: ExitStack, listener: Listener, wanted: Any
    ) -> Any:
        """Do one step of a verb that waits."""
        match wanted:
            case Sleep(seconds):
                # The end of a lease is no commit, so a sleeper looks again after a while.
                deadline = time.monotonic() + min(seconds, LOOK_AGAIN_S)
                while not listener.wait(deadline - time.monotonic()):
                    if time.monotonic() >= deadline:
                        break
                return True
            case Listening(sender, asleep):
                return until_end.enter_context(self.presence.listening(sender, asleep=asleep))
        return self.call_once(credentials, wanted)

    def post(
        self, work: Callable[[Batch], Any], answered: Callable[[PendingWrite], None]
    ) -> PendingWrite:
        """Enqueue a write, for a caller on the event loop: see `WriteQueue.post`."""
        return self._queue.post(work, answered)

    def withdraw(self, write: PendingWrite) -> None:
        self._queue.withdraw(write)

    def do(self, work: Callable[[Batch], Any]) -> Any:
        """Do maintenance that no verb decides in the write transaction. Returns after COMMIT."""
        self._after_fork()
        return self._queue.submit(work)

    def read(self, valid: Validated, *, stale: bool = False) -> Answer | None:
        """Decide a request in a read transaction; None where it must append a fact. A stale read
        serves callers of a shared engine that takes no writes."""
        if stale and self.shared is None:
            return None
        stale = stale or bool(self.shared and self.shared.trouble)
        age_s = self._age(valid.credentials.seen)
        with self.file.reading() as db:
            tx = self.transaction(db, stale=stale)
            try:
                if _due(tx) and not stale:
                    return None
                authorized = authorize(tx, identify(tx, valid))
                self._touch(authorized.caller, valid.credentials.peer)
                answer = decide(tx, authorized)
                if isinstance(valid.request, Attend):
                    self._attended(authorized.caller, valid.request, answer)
                return answer | {"age_s": age_s} if age_s else answer
            except NeedsWrite:
                return None
            except Refusal as refusal:
                # Another node may have appended the fact that allows the request.
                if refusal.recorded or self.shared is not None:
                    return None
                raise

    def _age(self, seen: int) -> int:
        """How many seconds ago it was certain that what is read here is the end of the log; 0
        for hardly any. One who has seen a later position waits for it."""
        if self.shared is None:
            return 0
        if seen > self.reached:
            self.catch_up()
        age_s = self.engine.age_s()
        if age_s is None or age_s > MAX_AGE_S:
            since = "since this was started" if age_s is None else f"for {age_s:.0f} s"
            why = f" {self.shared.trouble.state}" if self.shared.trouble else ""
            raise EngineUnavailable(
                f"The engine has not confirmed the end of the log {since}, so nothing is read here "
                f"either: a token may have been revoked meanwhile.{why}"
            )
        return int(age_s) if age_s > SURE_FOR_S else 0

    def is_due(self) -> bool:
        """Whether something has expired that nobody recorded yet."""
        with self.file.reading() as db:
            return _due(self.transaction(db))

    def events(self, after: int, limit: int, most_bytes: int = 1 << 30) -> list[Event]:
        """What happened after a position, whomever it concerns: so many facts, or fewer where
        those come to so many bytes."""
        found: list[Event] = []
        size = 0
        # What is left of a cursor would hold on to this view of the log.
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
        beside = BodyStore(self.engine, db, self.presence, now, as_is=stale)
        return Transaction(db, beside, now, 0, OWNER_CALLER, new_id, stale=stale)

    def _touch(self, caller: Caller, peer: str | None) -> None:
        """Record in presence that the caller acts, and from where its token is used."""
        now = time.monotonic()
        known = caller.token is not None
        if known and now - self._touched.get(caller.sender, -1e9) > TOUCH_INTERVAL_S:
            self._touched[caller.sender] = now
            self.presence.touch(caller.sender, self.shared.now() if self.shared else None)
        use = (caller.token or "", caller.session, peer)
        if known and now - self._used.get(use, -1e9) > TOUCH_INTERVAL_S:
            if len(self._used) >= MAX_USES:
                self._used.clear()
            self._used[use] = now
            self.presence.used(*use, self.clock())

    def _attended(self, caller: Caller, act: Attend, answer: Answer) -> None:
        """Record in presence what the client's window does from this step on. A client that got
        messages at its stop goes on working."""
        step = "busy" if act.step == "stop" and "messages" in answer else act.step
        self.presence.attended(caller.sender, caller.session, step, act.window, self._clock_ms())
        if step == "start" and (lost := self.presence.lost(caller.sender)):
            answer["lost"] = lost

    def note_end(self, sender: str, session: str) -> None:
        """Record in presence that a session has ended."""
        self.presence.attended(sender, session, "end", None, self._clock_ms())

    def _clock_ms(self) -> int:
        return self.shared.now() if self.shared else clock_ms()

    # --- the turn

    def _serve(self, collect: Callable[[], list[PendingWrite]], wait: bool) -> Callable[[], None]:
        with self._serving:
            writes: list[PendingWrite] = []
            for _ in range(TRIES):
                try:
                    # What was collected is waited for: nobody else has it on their desk.
                    with self.engine.turn(wait=wait or bool(writes)):
                        writes = writes or collect()
                        turn = self._at_head()
                        if _due(turn.system()):
                            turn.attempt(_sweep)
                        for write in writes:
                            self._attempt(turn, write)
                        turn.close()
                    break
                except HeadMoved:
                    self._position = None
                except FarBehind:
                    while self._take_over():
                        continue
                except BaseException:
                    self._position = None  # it may be ahead of what was committed
                    raise
            else:
                raise EngineUnavailable(
                    f"Other nodes were first {TRIES} times, and nothing was done. Try again."
                )
            return self._after_commit(turn, writes)

    def _after_commit(self, turn: Batch, writes: list[PendingWrite]) -> Callable[[], None]:
        """The facts are in the log. What follows is done again at the next chance where it
        fails, and must not turn an answer into an error; what nobody need wait for is given
        back."""
        self.reached = turn.position.seq
        for write in writes:
            work = write.work
            if isinstance(work, WriteRequest) and work.caller and not write.error:
                self._touch(work.caller, work.valid.credentials.peer)
                if isinstance(work.request, Attend):
                    self._attended(work.caller, work.request, write.result)
                elif work.request.declared.name == "session end":
                    self.note_end(work.caller.sender, write.result["ended"])
        self._owes_scrub = self._owes_scrub or turn.store.erased
        self._scrub()
        if turn.head.seq // EVERY != turn.position.seq // EVERY:
            position = turn.position
            with suppress(LogDamaged, EngineUnavailable):
                note = self.keys.signed(position.workspace, position.frontier)
                return partial(self._keep, note, position.frontier.size, position.epoch)
        return lambda: None

    def _keep(self, note: str, size: int, epoch: int) -> None:
        with suppress(OSError):
            self.keys.keep(note, size, epoch)

    def _scrub(self) -> None:
        if self._owes_scrub:
            with suppress(Refusal):
                self._owes_scrub = not self.file.scrub()

    def _attempt(self, turn: Batch, write: PendingWrite) -> None:
        write.result = write.error = None
        try:
            write.result = turn.attempt(write.work)
        except Exception as trouble:
            write.error = trouble
            if not turn.db.in_transaction:
                raise
            work = write.work
            if isinstance(trouble, Refusal) and trouble.recorded and isinstance(work, WriteRequest):
                turn.attempt(partial(work.record, trouble))

    def _at_head(self) -> Batch:
        """The turn, with the state folded up to the head."""
        db = self.file.writer
        head = self.engine.head(db)
        turn = Batch(self.engine, db, self.presence, head, self._folded(db, head))
        if head.seq == 0:
            self._create(turn)
        return turn

    def _folded(self, db: apsw.Connection, head: Head) -> state.Position:
        """Where the state stands, brought up to the head."""
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
        """Takes over what other nodes appended, and lets others have the file in between."""
        self._after_fork()
        more = True
        while more:
            with self._serving:
                more = self._take_over()

    def let_pass(self) -> None:
        """Waits for the turn that is being served here, if one is."""
        with self._serving:
            return

    def _take_over(self) -> bool:
        """Takes over some of what other nodes appended; True while there is more."""
        assert self.shared is not None
        try:
            with self.shared.arriving() as more:
                db = self.file.writer
                position = self._folded(db, self.engine.head(db))
        except BaseException:
            self._position = None
            raise
        self.reached = position.seq
        self._scrub()
        return more

    def _create(self, turn: Batch) -> None:
        if self.shared is not None:
            self.shared.refuse_absent()
        turn.position.workspace = new_id()
        self.keys.make()
        verifier = self.keys.verifier(turn.position.workspace)
        turn.system().append("workspace_created", {"verifier": verifier})

    def settle(self, give_up: "GiveUp", work: Callable[[Batch], Any]) -> Any:
        """Lets go of what the engine does not have, as it is shown within the turn, and does the
        work that says so, in the same."""
        assert self.shared is not None
        try:
            with self.alone(), self.shared.engine.turn(give_up=give_up):
                turn = self._at_head()
                result = turn.attempt(work)
                turn.close()
        except (HeadMoved, FarBehind):
            raise EngineUnavailable(
                "Another node wrote meanwhile, and nothing was done. Look again: interlock repair"
            ) from None
        self.reached = turn.position.seq
        return result

    # --- around it

    def listen(self) -> Listener:
        return self.file.listen()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps this process's writer still, for what cannot be done within a transaction."""
        with self._serving:
            yield
            self._position = None

    def _after_fork(self) -> None:
        if self._forks != self.file.forks:
            self._forks = self.file.forks
            self._position = None
            self._serving = threading.Lock()
            self._queue = WriteQueue(self._serve)
            if self.shared is not None:
                self.shared.begin_anew(self)

    def close(self) -> None:
        self._after_fork()
        if self.shared is not None:
            self.shared.end()
        self._queue.close()
        self.engine.close()
        self.file.close()

    def __enter__(self) -> "Node":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _due(tx: Transaction) -> bool:
    """Whether something has expired that nobody recorded yet, and may be recorded now."""
    due = reading.is_due(tx) or queueing.is_due(tx) or waking.is_due(tx)
    return due and not is_paused(tx.state)


def _sweep(turn: Batch) -> None:
    reading.sweep(turn.system())
    waking.sweep(turn.system())
    queueing.expire(turn.system())
