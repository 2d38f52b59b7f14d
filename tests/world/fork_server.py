"""A process that imports the server once, and is forked for each server that a test needs.

A server spends most of its start on imports. A fork of this process becomes the same server as
`interlock up` starts, in a tenth of the time. This module is also the program of that process.
"""

import contextlib
import functools
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

LIMIT_S = 60.0


class Running(NamedTuple):
    """A forked server that is ready."""

    pid: int
    url: str

    def end(self) -> None:
        """End the server as a crash would, which is fast and must not lose an accepted write."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


class Servers:
    """Starts servers by fork. It starts its process with the first server, and ends all servers
    when it closes."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def start(
        self, workspace: str, environ: Mapping[str, str], cwd: str, port: int = 0, **more: Any
    ) -> Running:
        """Start a server for a workspace, on a free port by default. `more` has `words` of its
        command line, and `constants` of modules to replace."""
        told = self._asked(workspace=workspace, environ=dict(environ), cwd=cwd, port=port, **more)
        assert told.get("up"), f"the server did not start: {told}"
        return Running(told["pid"], told["url"])

    def wait(self, server: Running) -> int:
        """Wait until a server has ended, and return its exit status."""
        return int(self._asked(ends=server.pid)["status"])

    def _asked(self, **wanted: Any) -> dict[str, Any]:
        process = self._prepared()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(wanted).encode() + b"\n")
        process.stdin.flush()
        told: dict[str, Any] = json.loads(process.stdout.readline())
        return told

    def _prepared(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        return self._process

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate(timeout=LIMIT_S)


class ServersByWorkspace:
    """The servers of one test, one for each workspace."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._running: dict[str, Running] = {}

    def at(self, workspace: str, environ: Mapping[str, str], cwd: str) -> Running:
        """Return the server of a workspace. The first call starts it."""
        if workspace not in self._running:
            self._running[workspace] = self._servers.start(workspace, environ, cwd)
        return self._running[workspace]

    def close(self) -> None:
        for running in self._running.values():
            running.end()


# --- the process that is forked


def _main() -> None:
    """Read requests line by line: fork a server, or wait for the end of one. At the end of the
    input, end all servers."""
    _prepare()
    children: set[int] = set()
    for line in iter(sys.stdin.buffer.readline, b""):
        wanted = json.loads(line)
        if "ends" in wanted:
            children.remove(wanted["ends"])
            told = {"status": _status(wanted["ends"])}
            os.write(1, json.dumps(told).encode() + b"\n")
            continue
        children -= _ended(children)
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os._exit(_serve(writing, **wanted))
        children.add(pid)
        os.close(writing)
        with open(reading, "rb") as said:
            os.write(1, said.readline() or b"{}\n")
    for pid in children - _ended(children):
        os.kill(pid, signal.SIGKILL)


def _prepare() -> None:
    """Do once the work that each server repeats at its start."""
    for name in (
        *("interlock.server.__main__", "interlock.doors.mcp"),
        *("anyio._backends._asyncio", "uvicorn.lifespan.off"),
    ):
        importlib.import_module(name)
    if "INTERLOCK_ENGINE" in os.environ:
        for name in ("node.peer_nodes", "stores.shared.postgres", "stores.shared.redis"):
            importlib.import_module(f"interlock.{name}")
    api: Any = importlib.import_module("interlock.doors.http.api")
    routes: Any = importlib.import_module("interlock.doors.http.routes")
    routing: Any = importlib.import_module("starlette.routing")
    routes.document = functools.cache(routes.document)
    routes.decoder = functools.cache(routes.decoder)
    routing.compile_path = functools.cache(routing.compile_path)
    routes.document()
    catalogue: Any = importlib.import_module("interlock.rooms.catalogue")
    for route in [route for verb in catalogue.verbs() for route in api.routes_of(verb)]:
        routes.decoder(route)
        routing.compile_path(route.path)
    web: Any = importlib.import_module("interlock.doors.web")
    web.routes(None, owner=bool, key=bytes(32))
    gc.collect()
    gc.freeze()


def _ended(children: set[int]) -> set[int]:
    return {pid for pid in children if os.waitpid(pid, os.WNOHANG)[0]}


def _status(pid: int) -> int:
    """Return the exit status of a child. Kill the child if it does not end in time."""
    deadline = time.monotonic() + LIMIT_S
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
    return os.waitstatus_to_exitcode(ended[1])


def _serve(
    said: int,
    workspace: str,
    environ: dict[str, str],
    cwd: str,
    port: int,
    words: Iterable[str] = (),
    constants: Mapping[str, Any] | None = None,
) -> int:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(said, 1)
    os.close(said)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(cwd)
    for name, value in (constants or {}).items():
        module, _, constant = name.rpartition(".")
        found = importlib.import_module(module)
        assert hasattr(found, constant), name
        setattr(found, constant, value)
    sys.argv = ["interlock.server", "--workspace", workspace, "--port", str(port), *words, "--json"]
    status: int = importlib.import_module("interlock.server.__main__").main()
    return status


if __name__ == "__main__":
    _main()
