"""Processes that serve MCP on stdio, for tests that need many of them.

One that starts by itself spends a second on imports. Here one process does that once, and is forked
for each: what it becomes is the process that `python -m interlock.doors.mcp` becomes. The command
that a client starts is a small one, which hands over its standard streams, its environment and
where it stands, and ends as the process ends that has them then.
"""

import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

LIMIT_S = 60.0


class Prepared:
    """The process that is forked. It is made when it is first wanted, and ends with the tests."""

    def __init__(self, directory: Path) -> None:
        self._path = str(directory / "socket")
        self._process: subprocess.Popen[bytes] | None = None

    def command(self, *words: str) -> list[str]:
        """What a client starts in the place of `python -m interlock.doors.mcp`."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, __file__, self._path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            assert self._process.stdout is not None
            assert self._process.stdout.readline() == b"ready\n"
        return [sys.executable, "-SE", __file__, self._path, "--", *words]

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate(timeout=LIMIT_S)


# --- the command that a client starts


def _hand_over(path: str, words: list[str]) -> int:
    about = {"words": words, "environ": dict(os.environ), "cwd": os.getcwd()}
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(path)
        socket.send_fds(line, [b"\0"], [0, 1, 2])
        line.sendall(json.dumps(about).encode() + b"\n")
        for number in (0, 1):
            os.close(number)
        status = line.recv(8)
    return int(status)


# --- the process that is forked


def _main(path: str) -> None:
    """Forks for everybody who comes, until its input ends."""
    for name in ("interlock.doors.mcp.__main__", "anyio._backends._asyncio"):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        os.write(1, b"ready\n")
        while 0 not in select.select([0, listener.fileno()], [], [])[0]:
            line, _ = listener.accept()
            with line:
                if os.fork() == 0:
                    listener.close()
                    os._exit(_serve(line))


def _serve(line: socket.socket) -> int:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, streams, _, _ = socket.recv_fds(line, 1, 3)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    with line.makefile("rb") as file:
        about = json.loads(file.readline())
    os.environ.clear()
    os.environ.update(about["environ"])
    os.chdir(about["cwd"])
    sys.argv = ["interlock.doors.mcp", *about["words"]]
    try:
        status = int(importlib.import_module("interlock.doors.mcp.__main__").main())
    except SystemExit as ended:
        status = int(str(ended.code))
    sys.stderr.flush()
    line.sendall(str(status).encode())
    return status


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(_hand_over(sys.argv[1], sys.argv[3:]))
    _main(sys.argv[1])
