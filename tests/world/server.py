"""Runs the server as `interlock up` does, in a process of its own, for the tests that need one.

    with RunningServer(Place(tmp_path)) as served:
        token = served.place.join("otto")
        assert served.ask("GET", "/v1/whoami", token=token).json["sender"] == "otto"

Nothing here is a test, and nothing here decides what is right.
"""

import http.client
import io
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pytest

from world.commandline import LIMIT_S, Place, lines, stop_outside_the_turn, until
from world.fork_server import Running, Servers

# Below the ports that systems give to whoever connects, so that none of those is in the way when a
# server comes back to its own.
PORTS = range(20_000, 32_000)
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
    """What a server answered; the names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str | None:
        """The code of the error object, where it is one."""
        found: str | None = self.json.get("code")
        return found


class RunningServer:
    """A server for a place's workspace. It keeps its port when it is started again, and does not
    outlive its block."""

    def __init__(
        self,
        place: Place,
        *,
        host: str = "127.0.0.1",
        words: Sequence[str] = (),
        constants: Mapping[str, Any] | None = None,
        files: int | None = None,
    ) -> None:
        """It is started with some more `words`. `constants` of modules, such as a time limit, have
        other values in it, and it may have no more than so many `files` open, connections among
        them."""
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

    # --- its life

    def start(self) -> None:
        """Starts it, and returns when it says that it is ready."""
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
        """The process that `interlock up` becomes, after some changes."""
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
        """Ends it as a crash would."""
        self.signal(signal.SIGKILL)
        self._ended()

    def restart(self) -> None:
        """Starts it again on the same port, after it was killed or ended."""
        self.start()

    def end(self) -> int:
        """Asks it to end, as `interlock down` does, and gives its exit status."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Its exit status, once it has ended by itself."""
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

    # --- what it shows

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def owner(self) -> str:
        """The owner's token."""
        return str(json.loads((self.place.workspace / "owner.json").read_text())["token"])

    def log(self) -> list[dict[str, Any]]:
        """What it has logged, line by line."""
        text = (self.place.workspace / "server.log").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def memory(self) -> int:
        """The bytes of memory that it uses now."""
        if os.path.exists("/proc/self/statm"):
            with open(f"/proc/{self.pid}/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(self.pid)])) * 1024

    # --- asking it

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
        """One request. A body that is not bytes goes as JSON."""
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
        """Sends a message; headers are written with underscores."""
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        body = {"to": to, "payload": {"text": text}}
        return self.ask("POST", "/v1/messages", body, token=token, headers=said)

    def metric(self, name: str) -> int:
        """The value of a metric without labels."""
        found = self.ask("GET", "/metrics", token=self.owner).body.decode().splitlines()
        return next(int(line.split()[1]) for line in found if line.startswith(name + " "))

    def until_streams(self, count: int) -> None:
        """Waits until so many event streams are open."""
        until(lambda: self.metric("interlock_event_streams") == count)


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    servers = Servers()
    yield servers
    servers.close()


class ForkedServer(RunningServer):
    """The same server, forked from a process that has done before what takes a server most of its
    time. For tests that are not about how one starts. Constants are changed in the module that they
    are named with, and in no other that had imported them."""

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
    """The next answer on a connection, of which this is the file."""
    status = int(answers.readline().split()[1])
    lines = iter(answers.readline, b"\r\n")
    headers = dict(line.decode().rstrip().lower().split(": ", 1) for line in lines)
    return Reply(status, headers, answers.read(int(headers["content-length"])))


def free_port() -> int:
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
