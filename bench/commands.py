"""Whole commands as a shell runs them, compared with a Python that does nothing."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import NamedTuple

from bench.scene import Sender, opened


class Starts(NamedTuple):
    """Milliseconds, as medians. `check` and `send` also have the medians of their ratios."""

    nothing: float
    check: float
    send: float
    check_ratio: float
    send_ratio: float


def command(*words: str) -> list[str]:
    """The installed console script, as users call it."""
    return [os.path.join(os.path.dirname(sys.executable), "interlock"), *words]


def environment(home: str, workspace: str, sender: Sender) -> dict[str, str]:
    token = sender.credentials.token
    assert token is not None
    return {
        **os.environ,
        "HOME": home,
        "INTERLOCK_WORKSPACE": workspace,
        "INTERLOCK_TOKEN": token,
    }


def measure(directory: str, runs: int, *, served: bool = False) -> Starts:
    """Measure the commands on the file, or through a running server of the workspace."""
    place = os.path.join(directory, "workspace")
    node, senders = opened(place, 2)
    node.close()
    environ = environment(directory, place, senders[0])
    if not served:
        return _measured(environ, senders, runs)
    with started(environ):
        return _measured(environ, senders, runs)


@contextmanager
def started(environ: dict[str, str]) -> Iterator[None]:
    """Run a server for the workspace of these variables, until the context ends."""
    owner = {name: value for name, value in environ.items() if name != "INTERLOCK_TOKEN"}
    up = command("up", "--detach", "--port", "0")
    subprocess.run(up, env=owner, stdout=subprocess.DEVNULL, check=True)
    try:
        yield
    finally:
        subprocess.run(command("down"), env=owner, stdout=subprocess.DEVNULL, check=True)


def _measured(environ: dict[str, str], senders: list[Sender], runs: int) -> Starts:
    ways = [
        [sys.executable, "-c", "pass"],
        command("claim", "check", "--item", "B-0444"),
        command("send", senders[0].to, "Is the build green again?"),
    ]
    took: list[list[float]] = [[], [], []]
    for turn in range(-1, runs):
        for way, times in zip(ways, took, strict=True):
            started = time.perf_counter()
            subprocess.run(way, env=environ, stdout=subprocess.DEVNULL, check=True)
            if turn >= 0:  # the first of each only warms the disk's cache
                times.append((time.perf_counter() - started) * 1000)
    nothing, check, send = took
    return Starts(
        nothing=median(nothing),
        check=median(check),
        send=median(send),
        check_ratio=_ratio(check, nothing),
        send_ratio=_ratio(send, nothing),
    )


def _ratio(ours: list[float], theirs: list[float]) -> float:
    return median(our / their for our, their in zip(ours, theirs, strict=True))
