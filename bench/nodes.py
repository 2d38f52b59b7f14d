"""Several nodes on one engine: the cost of a node compared with raw appends, and the cost of a
second node. Also how soon and how fast one node follows another.

Each node has its own process (`bench.member`). The engine is a real server with durable settings.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import median, quantiles
from typing import Any, NamedTuple

from bench.member import LISTED
from bench.scene import Sender, child, opened
from world.databases import PostgresServer, Server, ValkeyServer

CALLERS = 64
SERVERS: dict[str, type[Server]] = {"Valkey": ValkeyServer, "PostgreSQL": PostgresServer}
# All processes start at the same time, this long after the request.
SOON_S = 0.2


class Found(NamedTuple):
    """The figures of one engine. Speeds are per second, and times in milliseconds. With rounds,
    each figure is their median, and each ratio the median of the rounds' ratios."""

    sends: float
    raw: float
    batch: float
    raw_ratio: float
    together: float
    alone: float
    together_ratio: float
    together_p99: float
    alone_p99: float
    folded_p50: float
    folded_p99: float
    caught_up: float
    facts: int
    reads_idle: float
    reads_applying: float
    reads_ratio: float


class Process:
    """A node in its own process."""

    def __init__(self, directory: str, url: str, senders: list[Sender], key: str | None) -> None:
        os.makedirs(directory, exist_ok=True)
        self._to = [sender.to for sender in senders]
        self._process = child("bench.member")
        tokens = [sender.credentials.token for sender in senders]
        self._write({"directory": directory, "url": url, "tokens": tokens, "key": key})
        self.opened = self._read()

    def _write(self, request: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"bench: a node failed, with status {self._process.wait()}")
        return json.loads(line)

    def ask(self, do: str, **asked: Any) -> Any:
        self.begin(do, **asked)
        return self.ended()

    def begin(self, do: str, **asked: Any) -> None:
        self._write({"do": do} | asked)

    def ended(self) -> Any:
        """Return the result of the work that was begun."""
        return self._read()

    def begin_sends(self, start: float, seconds: float) -> None:
        self.begin("sends", start=start, seconds=seconds, to=self._to)

    def end(self) -> None:
        self._process.communicate(timeout=60)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Scene:
    """A workspace on an engine, its first node, and nodes that join."""

    def __init__(self, directory: str, url: str) -> None:
        self._directory, self._url = directory, f"{url}?workspace=bench"
        self._stack = ExitStack()
        place = os.path.join(directory, "first")
        node, senders = opened(place, 2 * CALLERS + 1, self._url)
        self.senders, self.others = senders[:CALLERS], senders[CALLERS:-1]
        self.reader = senders[-1]
        for _ in range(LISTED):
            node.call(self.others[-1].credentials, self.others[-1].act())
        node.close()
        with open(os.path.join(place, "keys", "checkpoint.key"), "rb") as file:
            self._key = file.read().hex()
        self.first = self._started(place, self.senders, None)

    def _started(self, place: str, senders: list[Sender], key: str | None) -> Process:
        process = Process(place, self._url, senders, key)
        self._stack.callback(process.kill)
        return process

    @contextmanager
    def second(self, name: str) -> Iterator[Process]:
        """Run a node in the directory of this name, until the context ends."""
        process = self._started(os.path.join(self._directory, name), self.others, self._key)
        yield process
        process.end()

    def close(self) -> None:
        self.first.end()
        self._stack.close()

    def __enter__(self) -> "Scene":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def measure(directory: str, engine: str, seconds: float, rounds: int, sends: int) -> Found:
    """`seconds` is the duration of each measurement in a round. `sends` is the number of sends that
    another node follows one by one."""
    with (
        SERVERS[engine](os.path.join(directory, "server")) as server,
        Scene(directory, server.url) as scene,
    ):
        _sends([scene.first], seconds / 5)  # connects, and prepares its statements
        speeds = [_against_raw(scene, seconds) for _ in range(rounds)]
        joined = [_caught_up(scene, f"joined-{number}") for number in range(rounds)]
        folded = _folded(scene, sends)
        reads = [_reads(scene, seconds) for _ in range(rounds)]
        pairs = [_two(scene, seconds) for _ in range(rounds)]
        scene.close()
    return Found(
        sends=median(sent for sent, _, _ in speeds),
        raw=median(raw for _, raw, _ in speeds),
        batch=median(size for _, _, size in speeds),
        raw_ratio=median(sent / raw for sent, raw, _ in speeds),
        together=median(len(two) for _, two in pairs) / seconds,
        alone=median(len(one) for one, _ in pairs) / seconds,
        together_ratio=median(len(two) / len(one) for one, two in pairs),
        together_p99=median(_p99(two) for _, two in pairs),
        alone_p99=median(_p99(one) for one, _ in pairs),
        folded_p50=median(folded),
        folded_p99=_p99(folded),
        caught_up=median(each["facts"] / each["seconds"] for each in joined),
        facts=joined[0]["facts"],
        reads_idle=median(idle for idle, _ in reads),
        reads_applying=median(applying for _, applying in reads),
        reads_ratio=median(applying / idle for idle, applying in reads),
    )


def _p99(times: list[float]) -> float:
    return quantiles(times, n=100)[98]


def _against_raw(scene: Scene, seconds: float) -> tuple[float, float, float]:
    sent = _sends([scene.first], seconds)
    raw, size = scene.first.ask("raw", seconds=seconds)
    return len(sent) / seconds, raw, size


def _sends(processes: list[Process], seconds: float) -> list[float]:
    start = time.monotonic() + SOON_S
    for process in processes:
        process.begin_sends(start, seconds)
    return [ms for process in processes for ms in process.ended()]


def _caught_up(scene: Scene, name: str) -> Any:
    """Return the report of a new node that has copied the whole log."""
    with scene.second(name) as process:
        return process.opened


def _folded(scene: Scene, sends: int) -> list[float]:
    """Return the milliseconds from the append of a fact until another node can read it."""
    to = scene.senders[0].to
    with scene.second("second") as second:
        scene.first.ask("alone", times=1, to=to)
        second.ask("reach", last=scene.first.ask("head"))  # a node starts to follow after a while
        second.ask("note")
        scene.first.ask("alone", times=sends, to=to)
        handed_over = scene.first.ask("handed_over")
        folded = second.ask("noted", last=scene.first.ask("head"))
    return [(folded[seq] - at) * 1000 for seq, at in handed_over.items() if seq in folded]


def _reads(scene: Scene, seconds: float) -> tuple[float, float]:
    """Return the reads a second at an idle node, and at a node that follows another node, which
    sends as fast as it can."""
    asked = {"seconds": seconds, "token": scene.reader.credentials.token}
    with scene.second("second") as second:
        idle = second.ask("reads", start=time.monotonic() + SOON_S, **asked)
        start = time.monotonic() + SOON_S
        scene.first.begin_sends(start, seconds)
        applying = second.ask("reads", start=start, **asked)
        scene.first.ended()
    return idle, applying


def _two(scene: Scene, seconds: float) -> tuple[list[float], list[float]]:
    """Return the sends of one node without another, and those of two nodes together."""
    one = _sends([scene.first], seconds)
    with scene.second("second") as second:
        return one, _sends([scene.first, second], seconds)
