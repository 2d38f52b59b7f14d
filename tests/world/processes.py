"""Processes for crash tests and races: workers with their own node, and commands."""

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from interlock.node import Node
from world.paths import WORLD
from world.workspace import join

LIMIT_S = 60.0
WORKER = str(WORLD / "worker.py")

Json = dict[str, Any]


class Ended(AssertionError):
    """The worker ended before it answered."""


class Worker:
    """A process with its own node. Every wait has a limit, and the process ends with its block."""

    def __init__(self, *words: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, WORKER, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._unread = b""

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, **request: Any) -> None:
        self._input.write(json.dumps(request).encode() + b"\n")

    def ask(self, **request: Any) -> Json:
        self.tell(**request)
        return self.hear()

    def hear(self, limit_s: float = LIMIT_S) -> Json:
        """Return the next answer."""
        line = self.line(time.monotonic() + limit_s)
        if line is None:
            raise AssertionError(f"process {self.pid} has written nothing for {limit_s} s")
        if not line:
            raise Ended(f"process {self.pid} ended with status {self._process.wait(LIMIT_S)}")
        answer: Json = json.loads(line)
        return answer

    def line(self, deadline: float) -> bytes | None:
        """Return the next line, None after the deadline, or b"" after the end of the process."""
        while b"\n" not in self._unread:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self._output], [], [], left)[0]:
                return None
            data = os.read(self._output.fileno(), 1 << 16)
            if not data:
                return b""  # an incomplete last line does not count
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return line + b"\n"

    def stopped(self) -> bool:
        """Whether the process was suspended since the last call."""
        pid, status = os.waitpid(self.pid, os.WUNTRACED | os.WNOHANG)
        return pid != 0 and os.WIFSTOPPED(status)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the process with SIGKILL, and wait for its end."""
        self._process.kill()
        self._process.wait(LIMIT_S)

    def wait(self, limit_s: float = LIMIT_S) -> int:
        return self._process.wait(limit_s)

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self._input.close()
        try:
            self._process.wait(LIMIT_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._output.close()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        if failed is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
        self.end()


@contextlib.contextmanager
def workers(count: int) -> Iterator[list[Worker]]:
    """Start several workers. All of them end with the block."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Worker()) for _ in range(count)]


class Gate:
    """Starts several workers at the same instant."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def race(self, racers: Mapping[Worker, Json], **request: Any) -> list[Json]:
        """Run one request on all workers at once, each with its own members. Return the answers."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        for racer, own in racers.items():
            racer.tell(gate=self.path, **request, **own)
        for racer in racers:
            assert racer.hear() == {"armed": True}
        fcntl.flock(self._file, fcntl.LOCK_UN)
        return [racer.hear() for racer in racers]

    def close(self) -> None:
        os.close(self._file)


def environment(directory: str, home: str) -> dict[str, str]:
    """Return the environment of a command: this workspace, its own home, and no session."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK")}
    return kept | {"HOME": home, "INTERLOCK_WORKSPACE": directory}


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "interlock", *words]


def send(token: str, text: str) -> Json:
    """The request to send a text to the reader."""
    members = {"act": "SendMessage", "to": "@reader", "type": "send", "payload": {"text": text}}
    return {"do": "call", "token": token} | members


def join_all(node: Node, *senders: str) -> dict[str, str]:
    """Register senders, and return their tokens."""
    return {sender: str(join(node, sender).token) for sender in senders}
