"""Processes that serve MCP on stdio, for tests that need many of them.

A new process spends a second on imports. So one process does the imports once, and forks for each
client. The fork runs the same code as `python -m interlock.doors.mcp`. The client starts a small
command, which passes its standard streams, environment and directory to the fork, and exits with
the fork's status.
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
    """The process that forks. It starts on first use, and ends with the tests."""

    def __init__(self, directory: Path) -> None:
        self._path = str(directory / "socket")
        self._process: subprocess.Popen[bytes] | None = None

    def command(self, *words: str) -> list[str]:
        """Return the command that a client starts instead of `python -m interlock.doors.mcp`."""
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
    """Fork for each connection, until the input ends."""
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
