"""How long a writer waits while another process saturates the workspace.

Runs as a child process too. `python -m bench.contention DIRECTORY` reads tokens from the first line
of standard input, and sends with all of them until standard input ends.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from bench.commands import command, environment
from bench.scene import CALLERS, Sender, answer, child, opened
from interlock.node import Node
from interlock.verbs.credentials import Credentials


class Waits(NamedTuple):
    """Milliseconds of single sends of another process, and of whole commands, each without and with
    the saturating process. `speed` is the sends a second of the saturating process."""

    sends_alone: list[float]
    sends: list[float]
    commands_alone: list[float]
    commands: list[float]
    speed: float


def measure(directory: str, commands: int, sends: int) -> Waits:
    """`sends` is the number of sends of one process between two commands."""
    place = os.path.join(directory, "workspace")
    node, senders = opened(place, CALLERS + 1)
    writer = senders.pop()
    environ = environment(directory, place, writer)
    words = command("send", writer.to, "Is the build green again?")

    def run() -> None:
        subprocess.run(words, env=environ, stdout=subprocess.DEVNULL, check=True)

    def send() -> None:
        node.call(writer.credentials, writer.act())

    def both() -> tuple[list[float], list[float]]:
        inside: list[float] = []
        whole: list[float] = []
        for _ in range(commands):
            whole.append(_ms(run))
            inside += [_ms(send) for _ in range(sends)]
        return inside, whole

    both_alone = both()
    saturating = child("bench.contention", place)
    assert saturating.stdin is not None
    assert saturating.stdout is not None
    saturating.stdin.write(json.dumps([sender.credentials.token for sender in senders]) + "\n")
    saturating.stdin.flush()
    try:
        saturating.stdout.readline()
        both_contended = both()
        speed = answer(saturating)
    finally:
        saturating.kill()
        saturating.wait()
    node.close()
    return Waits(both_alone[0], both_contended[0], both_alone[1], both_contended[1], speed)


def _ms(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def saturate(directory: str) -> float:
    """Send with every token until standard input ends. Return the sends a second."""
    tokens = json.loads(sys.stdin.readline())
    senders = [
        Sender(f"agent{number}", f"@agent{(number + 1) % len(tokens)}", Credentials(token=token))
        for number, token in enumerate(tokens)
    ]
    over = threading.Event()
    counts = [0] * len(senders)
    with Node(directory) as node:

        def call(number: int) -> None:
            sender = senders[number]
            while not over.is_set():
                node.call(sender.credentials, sender.act())
                counts[number] += 1

        threads = [threading.Thread(target=call, args=(n,)) for n in range(len(senders))]
        for thread in threads:
            thread.start()
        started = time.perf_counter()
        while min(counts) < 3:
            time.sleep(0.01)
        print("saturated", flush=True)
        sys.stdin.read()
        over.set()
        for thread in threads:
            thread.join()
        return sum(counts) / (time.perf_counter() - started)


if __name__ == "__main__":
    print(json.dumps(saturate(sys.argv[1])))
