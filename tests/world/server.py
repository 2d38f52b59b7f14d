"""Run the server as `interlock up` does, in a process of its own.

    with RunningServer(Place(tmp_path)) as served:
        token = served.place.join("otto")
        assert served.ask("GET", "/v1/whoami", token=token).json["sender"] == "otto"

`ServedWorkspace` adds people, senders and OAuth apps. A `ForkedServer` starts faster.
"""

import fcntl
import functools
import http.client
import io
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from world.commandline import LIMIT_S, Place, lines, stop_outside_the_turn, until
from world.fork_server import Running, Servers

# Outgoing connections use higher ports, so none of them takes the port of a server that restarts.
PORTS = range(20_000, 32_000)
PORTS_PER_PROCESS = 100
PORT_LOCKS = Path(tempfile.gettempdir()) / f"interlock-test-ports-{os.getuid()}"
_held_locks: list[io.TextIOWrapper] = []
ALTERED = """
import importlib, json, resource, sys
constants, files = json.loads(sys.argv.pop(1)), int(sys.argv.pop(1))
for name, value in constants.items():
    module, _, constant = name.rpartition(".")
    found = importlib.import_module(module)
    assert hasattr(found, constant), name
    setattr(found, constant, value)
if files:
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
from interlock.server.__main__ import main
sys.exit(main())
"""


class Reply(NamedTuple):
    """The answer of a server. The names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str | None:
        """The code of the error object, or None for another answer."""
        found: str | None = self.json.get("code")
        return found


class RunningServer:
    """A server that starts as users start it. It ends with its `with` block.

    It serves the workspace of a place, and uses the same port when it starts again.
    """

    def __init__(
        self,
        place: Place,
        *,
        host: str = "127.0.0.1",
        words: Sequence[str] = (),
        constants: Mapping[str, Any] | None = None,
        files: int | None = None,
    ) -> None:
        """`words` are added to the command. `constants` replace constants of modules in the
        server, such as a time limit. `files` limits the open files, connections among them."""
        self.place = place
        self.host = host
        self.port = free_port()
        self._words = words
        self._constants = constants
        self._files = files
        self._process: subprocess.Popen[bytes] | None = None
        self.told: dict[str, Any] = {}

    def __enter__(self) -> "RunningServer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.end()

    # --- start and end

    def start(self) -> None:
        """Start the server, and return when it reports that it is ready."""
        assert self._process is None
        where = ["--host", self.host, "--port", str(self.port), *self._words, "--json"]
        if self._constants is None and self._files is None:
            self._process = self.place.start("up", *where)
        else:
            self._process = self._altered(where)
        self.told = json.loads(next(lines(self._process), "{}"))
        if not self.told.get("up"):
            complaint = self.told or self._ended()
            raise AssertionError(f"the server did not start: {complaint}")

    def _altered(self, where: list[str]) -> subprocess.Popen[bytes]:
        """Start the process that `interlock up` becomes, with changed constants and limits."""
        self.place.ok("init")
        altered = [json.dumps(self._constants or {}), str(self._files or 0)]
        return subprocess.Popen(
            [sys.executable, "-c", ALTERED, *altered, "--workspace", self.place.workspace, *where],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.place.environ,
            cwd=self.place.cwd,
        )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def signal(self, number: int) -> None:
        send = partial(os.kill, self.pid)
        if number == signal.SIGSTOP:
            stop_outside_the_turn(self.place.workspace, send)
        else:
            send(number)

    def kill(self) -> None:
        """End the server as a crash would."""
        self.signal(signal.SIGKILL)
        self._ended()

    def restart(self) -> None:
        """Start the server again on the same port, after it has ended."""
        self.start()

    def end(self) -> int:
        """End the server as `interlock down` does, and return its exit status."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Wait until the server has ended, and return its exit status."""
        assert self._process is not None
        try:
            self._process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        finally:
            status, _ = self._ended()
        return status

    def _ended(self) -> tuple[int, bytes]:
        assert self._process is not None
        process, self._process = self._process, None
        _, complaint = process.communicate(timeout=LIMIT_S)
        return process.returncode, complaint

    # --- its state

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def owner(self) -> str:
        """The owner's token."""
        return str(json.loads((self.place.workspace / "owner.json").read_text())["token"])

    def log(self) -> list[dict[str, Any]]:
        """The lines of the server's own log."""
        text = (self.place.workspace / "server.log").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def memory(self) -> int:
        """The resident memory of the server in bytes."""
        if os.path.exists("/proc/self/statm"):
            with open(f"/proc/{self.pid}/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(self.pid)])) * 1024

    # --- requests

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), LIMIT_S)

    def ask(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        token: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        """Send one request. A body that is not bytes is sent as JSON."""
        said = dict(headers or {})
        if token is not None:
            said["Authorization"] = f"Bearer {token}"
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            said.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        try:
            connection.request(method, target, body, said)
            response = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, names, response.read())
        finally:
            connection.close()

    def send(self, token: str, to: str, text: str, **headers: str) -> Reply:
        """Send a message. The names of headers have underscores instead of hyphens."""
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        body = {"to": to, "payload": {"text": text}}
        return self.ask("POST", "/v1/messages", body, token=token, headers=said)

    def metric(self, name: str) -> int:
        """The value of a metric without labels."""
        found = self.ask("GET", "/metrics", token=self.owner).body.decode().splitlines()
        return next(int(line.split()[1]) for line in found if line.startswith(name + " "))

    def until_streams(self, count: int) -> None:
        """Wait until this number of event streams is open."""
        until(lambda: self.metric("interlock_event_streams") == count)


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """The process that forks the servers of this test session."""
    servers = Servers()
    yield servers
    servers.close()


class ForkedServer(RunningServer):
    """A server that starts in a tenth of the time, for tests that do not test its start.

    It is forked from a process that has imported all modules. `constants` change only the module
    that they name: a module that imported the constant by name keeps the old value.
    """

    def __init__(
        self,
        place: Place,
        servers: Servers,
        *,
        host: str = "127.0.0.1",
        words: Sequence[str] = (),
        constants: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(place, host=host, words=words, constants=constants)
        self._servers = servers
        self._running: Running | None = None

    def __exit__(self, *_: object) -> None:
        if self._running is not None:
            self.kill()

    def start(self) -> None:
        place = self.place
        self._running = self._servers.start(
            str(place.workspace),
            place.environ,
            str(place.cwd),
            self.port,
            words=["--host", self.host, *self._words],
            constants=dict(self._constants or {}),
        )

    @property
    def pid(self) -> int:
        assert self._running is not None
        return self._running.pid

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        assert self._running is not None
        running, self._running = self._running, None
        return self._servers.wait(running)


def read_reply(answers: io.BufferedIOBase) -> Reply:
    """Read the next answer from the file of a connection."""
    status = int(answers.readline().split()[1])
    lines = iter(answers.readline, b"\r\n")
    headers = dict(line.decode().rstrip().lower().split(": ", 1) for line in lines)
    return Reply(status, headers, answers.read(int(headers["content-length"])))


@functools.cache
def _ports_of_this_process() -> Iterator[int]:
    """Return ports in turn, from a block that no other test process on this machine uses."""
    blocks = range(PORTS.start, PORTS.stop, PORTS_PER_PROCESS)
    for start in random.sample(blocks, len(blocks)):
        lock = PORT_LOCKS / f"{start}.lock"
        lock.parent.mkdir(exist_ok=True)
        file = lock.open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            continue
        # The lock ends when the file is closed, at the end of this process.
        _held_locks.append(file)
        return itertools.cycle(range(start, start + PORTS_PER_PROCESS))
    raise AssertionError(f"other processes hold every block of ports in {PORT_LOCKS}")


def free_port() -> int:
    """Return a port to which no process is bound, and which no other test process uses."""
    for port in itertools.islice(_ports_of_this_process(), PORTS_PER_PROCESS):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise AssertionError("each port of this process is bound")
