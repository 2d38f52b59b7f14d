"""The server: HTTP and MCP compared with no-op requests to the same server, events, and memory."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median, quantiles
from typing import Any, NamedTuple

from bench.scene import CALLERS, TEXT, Sender, answer, child, opened


class Rates(NamedTuple):
    """Rates or times of Interlock and of the no-op requests, as medians. The ratio is the median of
    the rounds' ratios."""

    ratio: float
    ours: float
    nothing: float


class Memory(NamedTuple):
    """Megabytes in use: after the start, after the messages, and after idle time."""

    started: float
    used: float
    idle: float


class Served:
    """A server in a child process, and its senders."""

    def __init__(self, directory: str) -> None:
        node, self.senders = opened(directory)
        node.close()
        self._process = child("bench.served", directory)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()

    @property
    def tokens(self) -> list[str]:
        return [_token(sender) for sender in self.senders]

    def megabytes(self) -> float:
        with open(f"/proc/{self._process.pid}/status", encoding="utf-8") as status:
            (line,) = [line for line in status if line.startswith("VmRSS")]
        return int(line.split()[1]) / 1024

    def end(self) -> None:
        self._process.communicate(timeout=60)


@contextmanager
def served(directory: str) -> Iterator[Served]:
    server = Served(directory)
    try:
        yield server
    finally:
        server.end()


def _token(sender: Sender) -> str:
    assert sender.credentials.token is not None
    return sender.credentials.token


def _body(sender: Sender) -> str:
    return json.dumps({"to": sender.to, "type": "send", "payload": {"text": TEXT}})


def _load(**asked: Any) -> Any:
    return answer(child("bench.loading"), json.dumps(asked))


def _posts(server: Served, path: str, each: int) -> float:
    bodies = [_body(sender) for sender in server.senders]
    speed = _load(
        do="posts", url=server.url, path=path, tokens=server.tokens, bodies=bodies, each=each
    )
    return float(speed)


def sends(server: Served, each: int, rounds: int) -> Rates:
    """Compare durable sends of 32 connections with posts that are only checked and answered."""
    ours, nothing = [], []
    for _ in range(rounds):
        ours.append(_posts(server, "/v1/messages", each))
        nothing.append(_posts(server, "/noop", each))
    return _rates(ours, nothing)


def _rates(ours: list[float], nothing: list[float]) -> Rates:
    ratio = median(our / none for our, none in zip(ours, nothing, strict=True))
    return Rates(ratio, median(ours), median(nothing))


def _calls(server: Served, callers: int, each: int, *, nothing: bool) -> dict[str, float]:
    chosen = server.senders[:callers]
    found: dict[str, float] = _load(
        do="tools",
        url=server.url,
        path="/noop-mcp/" if nothing else "/mcp",
        tool="nothing" if nothing else "send",
        tokens=[_token(sender) for sender in chosen],
        arguments=[{"text": TEXT} | ({} if nothing else {"to": s.to}) for s in chosen],
        each=each,
    )
    return found


def calls(server: Served, each: int, rounds: int) -> tuple[Rates, Rates]:
    """Compare MCP sends with a no-op tool: milliseconds of one caller, and calls a second of 32."""
    alone, many = [], []
    for _ in range(rounds):
        alone.append([_calls(server, 1, 2 * each, nothing=nothing) for nothing in (False, True)])
        many.append([_calls(server, CALLERS, each, nothing=nothing) for nothing in (False, True)])
    one = _rates([a["p50"] for a, _ in alone], [b["p50"] for _, b in alone])
    all = _rates([a["speed"] for a, _ in many], [b["speed"] for _, b in many])
    return one, all


def seen(server: Served, times: int) -> tuple[float, float]:
    """Return the milliseconds from post to server-sent event: p50 and p99."""
    sender, listener = server.senders[:2]
    found = _load(
        do="seen",
        url=server.url,
        sender=_token(sender),
        body=_body(sender),
        listener=_token(listener),
        times=times,
    )
    return median(found), quantiles(found, n=100)[98]


def memory(directory: str, messages: int, idle_s: float) -> Memory:
    with served(os.path.join(directory, "memory")) as server:
        started = server.megabytes()
        _posts(server, "/v1/messages", max(1, messages // CALLERS))
        used = server.megabytes()
        time.sleep(idle_s)
        return Memory(started, used, server.megabytes())
