"""Durable sends a second: through a whole node, and through bare apsw, in alternation.

Runs as a child process, so that it can have a slower fsync: `python -m bench.sending DIRECTORY
CALLERS EACH ROUNDS` prints the speeds of every round.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import NamedTuple

from bench.bare import Group, recorded
from bench.scene import CALLERS, answer, child, opened


class Speeds(NamedTuple):
    """Sends a second, as medians of the rounds. The ratio is the median of the rounds' ratios."""

    ratio: float
    kernel: float
    bare: float


def measure(
    directory: str, callers: int, each: int, rounds: int, environ: Mapping[str, str] | None = None
) -> Speeds:
    words = (directory, str(callers), str(each), str(rounds))
    found = answer(child("bench.sending", *words, environ=environ))
    kernel, bare = found["kernel"], found["bare"]
    ratio = median(ours / theirs for ours, theirs in zip(kernel, bare, strict=True))
    return Speeds(ratio, median(kernel), median(bare))


def speed(callers: int, each: int, send: Callable[[int], object]) -> float:
    """Return the sends a second of `callers` threads that send `each` times."""
    ready = threading.Barrier(callers + 1)

    def call(number: int) -> None:
        ready.wait()
        for _ in range(each):
            send(number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(callers)]
    for thread in threads:
        thread.start()
    ready.wait()
    started = time.perf_counter()
    for thread in threads:
        thread.join()
    return callers * each / (time.perf_counter() - started)


def compare(directory: str, callers: int, each: int, rounds: int) -> dict[str, list[float]]:
    """Run rounds of both in alternation, so that other load of the machine affects both."""
    node, senders = opened(os.path.join(directory, "kernel"), CALLERS)
    other, others = opened(os.path.join(directory, "bare"), CALLERS)
    rows = [recorded(other, sender) for sender in others]
    other.close()
    group = Group(os.path.join(directory, "bare"))

    def kernel(number: int) -> None:
        node.call(senders[number].credentials, senders[number].act())

    def bare(number: int) -> None:
        group.send(rows[number])

    found: dict[str, list[float]] = {"kernel": [], "bare": []}
    ways = [("kernel", kernel), ("bare", bare)]
    for _, send in ways:
        speed(callers, max(1, each // 5), send)
    for _ in range(rounds):
        for name, send in ways:
            found[name].append(speed(callers, each, send))
        ways.reverse()
    group.close()
    node.close()
    return found


if __name__ == "__main__":
    place, *numbers = sys.argv[1:]
    print(json.dumps(compare(place, *map(int, numbers))))
