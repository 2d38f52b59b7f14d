"""A storm kills, suspends, starts and deletes nodes and their engine. Meanwhile, writers continue
and record every call and every answer.

This module has no tests, and does not decide which answers are correct.
"""

import json
import random
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import interlock
from interlock.client import Client
from interlock.errors import EngineUnavailable, NotHolder, Refusal, StaleFence
from world.commandline import LIMIT_S, Place, lines
from world.databases import Server
from world.linear import Call, Held, Outcome, Verb, lapse
from world.server import free_port

NS = 1_000_000_000
LONG_LEASE_S = 3600
SHORT_LEASE_S = 3
STOPPED_S = 4.5
# The maximum difference between the clock of leases, which counts milliseconds, and ours.
INEXACT_NS = NS // 20
Answer = dict[str, Any]


class Member:
    """A node of the workspace, as `interlock up` starts it. Its port stays the same, and so does
    its directory until the storm deletes it."""

    def __init__(self, root: Path, engine: str, key: Path) -> None:
        root.mkdir()
        self.place = Place(root)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.directory = self.place.workspace
        self._engine, self._key = engine, key
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the node, and return when it is ready. The first node creates the key."""
        words = ["--engine", self._engine, "--host", "127.0.0.1", "--port", str(self.port)]
        if self._key.exists():
            words += ["--key", str(self._key)]
        self._process = process = self.place.start("up", *words, "--json")
        told = json.loads(next(lines(process), "{}"))
        if not told.get("up"):
            self.kill()
            raise AssertionError(f"the node did not start: {told}")
        if not self._key.exists():
            shutil.copy(self.directory / "keys" / "checkpoint.key", self._key)

    @property
    def owner(self) -> Client:
        token = json.loads((self.directory / "owner.json").read_text())["token"]
        return interlock.connect(self.url, str(token))

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self._ended()

    def end(self) -> None:
        self.signal(signal.SIGTERM)
        self._ended()

    def _ended(self) -> None:
        assert self._process is not None
        process, self._process = self._process, None
        try:
            process.communicate(timeout=LIMIT_S)
        finally:
            process.kill()

    def close(self) -> None:
        """End the node in any state."""
        if self._process is not None:
            self.kill()


# --- the record


class Sent(NamedTuple):
    """An acknowledged message: its key, and the id in the answer."""

    key: str
    id: str


class Record:
    """The calls and answers of all writers. They only append to its lists."""

    def __init__(self, items: list[str]) -> None:
        self.items = items
        self.calls: dict[str, list[Call]] = {item: [] for item in items}
        self.lapses: dict[str, list[Call]] = {item: [] for item in items}
        self.sent: list[Sent] = []
        self.strange: list[str] = []
        self.unavailable = 0
        self._wall_ns = time.time_ns() - time.monotonic_ns()

    def history(self, item: str) -> list[Call]:
        """Return all calls of an item, with the possible ends of its leases."""
        return self.calls[item] + self.lapses[item]

    def every(self, verb: Verb, outcome: Outcome) -> list[tuple[str, Call]]:
        return [
            (item, call)
            for item, calls in self.calls.items()
            for call in calls
            if (call.verb, call.outcome) == (verb, outcome)
        ]

    def summary(self) -> dict[str, int]:
        found = Counter(
            f"{call.verb} {call.outcome}" for calls in self.calls.values() for call in calls
        )
        return dict(found) | {"sent": len(self.sent), "unavailable": self.unavailable}

    def note(self, item: str, call: Call) -> None:
        self.calls[item].append(call)

    def note_lease(self, item: str, take: Call, expires_at: str | None) -> None:
        """Record the end of a lease: not before `expires_at`, and unknown without an answer."""
        lease = 0
        if expires_at is not None:
            ends = int(datetime.fromisoformat(expires_at).timestamp() * 1000) * (NS // 1000)
            lease = ends - self._wall_ns - INEXACT_NS - take.start
        self.lapses[item].append(lapse(take, lease))


# --- the writers


class Writer:
    """Takes, releases and checks claims, and sends messages, one call after another. If its node
    does not answer, it uses the next node."""

    def __init__(self, number: int, token: str, urls: list[str], record: Record) -> None:
        self.name = f"writer-{number}"
        self._chance = random.Random()
        self._record = record
        self._clients = [interlock.connect(url, token) for url in urls]
        self._at = number % len(urls)
        # The start of the last call that each node decided. A read there is not older than that.
        self._decided = [0 for _ in urls]
        self._fences: dict[str, int] = {}
        self._count = 0

    def run(self, is_over: Callable[[], bool]) -> None:
        try:
            while not is_over():
                (act,) = self._chance.choices(
                    (self.take, self.release, self.check, self.send), (5, 4, 2, 3)
                )
                act()
        except Exception as trouble:  # noqa: BLE001 - the test must learn of every error
            self._record.strange.append(f"{self.name} ended: {trouble!r}")

    def take(self) -> None:
        self.take_one(self._chance.choice(self._record.items))

    def take_one(self, item: str) -> bool:
        """Take a claim. Return whether the node answered."""
        lease_s = SHORT_LEASE_S if is_short(item) else LONG_LEASE_S
        start, answer = self._ask(lambda client: client.acquire(item, ttl_s=lease_s))
        if answer is None:
            return False
        call = Call("take", self.name, start)
        if isinstance(answer, EngineUnavailable):
            self._record.note(item, call)
        elif answer["acquired"]:
            held = _held(answer["claim"])
            self._fences[item] = held.fence
            call = self._ended(item, call, "granted", held)
        else:
            call = self._ended(item, call, "held", _held(answer["held_by"][0]))
        if is_short(item) and call.outcome != "held":
            expires_at = answer["claim"]["expires_at"] if call.outcome == "granted" else None
            self._record.note_lease(item, call, expires_at)
        return call.end is not None

    def release(self) -> None:
        if not self._fences:
            return
        item = self._chance.choice(list(self._fences))
        fence = self._fences.pop(item)
        start, answer = self._ask(lambda client: client.release(item, fence=fence))
        call = Call("release", self.name, start, fence=fence)
        if answer is None:
            self._fences[item] = fence
        elif isinstance(answer, EngineUnavailable):
            self._record.note(item, call)
        elif isinstance(answer, Refusal):
            others = answer.members.get("held_by")
            self._ended(item, call, "refused", _held(others[0]) if others else None)
        else:
            assert answer["released"], answer
            self._ended(item, call, "released")

    def check(self) -> None:
        """Check a claim. A node may answer from the state of its last decision for this writer, so
        that decision is the start of the call."""
        item = self._chance.choice(self._record.items)
        at, since = self._at, self._decided[self._at]
        start, answer = self._ask(lambda client: client.check(item))
        self._decided[at] = since
        if isinstance(answer, dict):
            held = _held(answer["claims"][0]) if answer["claimed"] else None
            call = Call("check", self.name, min(since, start))
            self._ended(item, call, "held" if held else "free", held)

    def send(self) -> None:
        """Send a message with the same key until it is acknowledged. Send some of them once more.
        The log must have each message once."""
        self._count += 1
        key = f"{self.name}-{self._count}"
        text = f"{key} " * self._chance.randrange(1, 50)
        times = self._chance.choice((1, 1, 1, 2))
        while times:
            _, answer = self._ask(lambda client: client.send("@reader", text, key=key))
            if isinstance(answer, dict):
                self._record.sent.append(Sent(key, answer["message"]["id"]))
                times -= 1

    def _ended(self, item: str, call: Call, outcome: Outcome, held: Held | None = None) -> Call:
        call = call._replace(end=time.monotonic_ns(), outcome=outcome, held=held)
        self._record.note(item, call)
        return call

    def _ask(self, ask: Callable[[Client], Any]) -> tuple[int, Any]:
        """Return the start, and the answer or refusal. It is None if nothing was done."""
        at, start = self._at, time.monotonic_ns()
        try:
            answer = ask(self._clients[at])
        except (NotHolder, StaleFence) as refusal:
            return start, refusal
        except EngineUnavailable as trouble:
            self._at = (at + 1) % len(self._clients)
            self._record.unavailable += 1
            return start, trouble if trouble.members.get("outcome") == "unknown" else None
        except Refusal as refusal:
            self._at = (at + 1) % len(self._clients)
            self._record.strange.append(f"{self._clients[at].place}: {refusal.as_dict()}")
            return start, None
        self._decided[at] = start
        return start, answer


def is_short(item: str) -> bool:
    return item.startswith("short-")


def _held(claim: Any) -> Held:
    return Held(claim["holder"].removeprefix("@"), claim["fence"])


@contextmanager
def writing(writers: Iterable[Writer]) -> Iterator[None]:
    """Let the writers write during the block, and then wait for the end of their calls."""
    over = threading.Event()
    threads = [
        threading.Thread(target=writer.run, args=(over.is_set,), daemon=True) for writer in writers
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(LIMIT_S)
    assert not any(thread.is_alive() for thread in threads), "a writer did not end in time"


# --- the faults


class Storm:
    """Causes one fault after another. Each fault ends before the next one starts."""

    def __init__(self, members: list[Member], engine: Server) -> None:
        self._members, self._engine = members, engine
        self._chance = random.Random()
        self.done: list[str] = []

    def blow(self, seconds: float) -> None:
        """Cause every fault at least once, and repeat until the time is over."""
        until = time.monotonic() + seconds
        waiting: list[Callable[[], None]] = []
        while waiting or time.monotonic() < until:
            if not waiting:
                waiting = self._chance.sample(self.all(), len(self.all()))
            blow = waiting.pop()
            blow()
            self.done.append(blow.__name__)
            pause(self._chance.uniform(0.2, 1.5))

    def all(self) -> list[Callable[[], None]]:
        return [
            self.node_is_killed,
            self.node_is_ended,
            self.node_is_stopped,
            self.node_is_stopped_long,
            self.node_is_deleted,
            self.two_nodes_are_killed,
            self.engine_is_killed,
            self.engine_is_ended,
            self.engine_is_stopped,
            self.engine_is_killed_while_a_node_is_stopped,
            self.node_is_killed_while_the_engine_is_gone,
        ]

    def _any(self) -> Member:
        return self._chance.choice(self._members)

    def node_is_killed(self) -> None:
        member = self._any()
        member.kill()
        pause(self._chance.uniform(0, 2))
        member.start()

    def node_is_ended(self) -> None:
        member = self._any()
        member.end()
        member.start()

    def node_is_stopped(self) -> None:
        with self._stopped(self._any()):
            pause(self._chance.uniform(0.1, 1))

    def node_is_stopped_long(self) -> None:
        """Suspend a node for longer than a caller's timeout, a turn and a short lease."""
        with self._stopped(self._any()):
            pause(STOPPED_S)

    def node_is_deleted(self) -> None:
        member = self._any()
        member.kill()
        shutil.rmtree(member.directory)
        member.start()

    def two_nodes_are_killed(self) -> None:
        for member in (pair := self._chance.sample(self._members, 2)):
            member.kill()
        for member in pair:
            member.start()

    def engine_is_killed(self) -> None:
        self._engine.kill()
        pause(self._chance.uniform(0, 3))
        self._engine.start()

    def engine_is_ended(self) -> None:
        self._engine.stop()
        self._engine.start()

    def engine_is_stopped(self) -> None:
        self._engine.pause()
        pause(self._chance.uniform(0.5, 4))
        self._engine.resume()

    def engine_is_killed_while_a_node_is_stopped(self) -> None:
        with self._stopped(self._any()):
            self._engine.kill()
            self._engine.start()

    def node_is_killed_while_the_engine_is_gone(self) -> None:
        member = self._any()
        self._engine.stop()
        member.kill()
        self._engine.start()
        member.start()

    @contextmanager
    def _stopped(self, member: Member) -> Iterator[None]:
        member.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            member.signal(signal.SIGCONT)


def pause(seconds: float) -> None:
    """Wait for a duration that no condition replaces: that of a fault, or between two faults."""
    threading.Event().wait(seconds)
