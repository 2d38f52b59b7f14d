"""MCP over stdio, through the server that runs for the workspace: bytes in, bytes out.

A client starts this once for each of its windows, so it is small: it parses lines only to know
which requests are open. When the server goes away, they are answered with an error; the next one
looks for the server again, or for a node of its own, and shows the client's greeting to it.
"""

import json
import os
import select
from collections.abc import Callable
from typing import Any, NamedTuple

from interlock.contracts.acts import Credentials
from interlock.link import NobodyThere, connected, server_of

READ = 1 << 16
GREETINGS = ("initialize", "notifications/initialized")
GONE = -32000


class Far(NamedTuple):
    """The far end: where lines are read from and written to."""

    read: int
    write: int


class Bridge:
    """Pumps between a client at `near` and whatever `find` connects it to."""

    def __init__(self, near: Far, find: Callable[[], Far]) -> None:
        self._near, self._find = near, find
        self._far: Far | None = find()
        self._greeting: list[bytes] = []
        self._open: dict[Any, None] = {}
        self._replayed: set[Any] = set()
        self._from_near, self._from_far = Lines(), Lines()

    def run(self) -> None:
        """Until the client closes its end and has its answers."""
        while True:
            ends = [self._near.read] + ([self._far.read] if self._far else [])
            readable, _, _ = select.select(ends, [], [])
            if self._far and self._far.read in readable and not self._answers(self._far):
                self._lose()
            if self._near.read in readable:
                data = os.read(self._near.read, READ)
                if not data:
                    return self._finish()
                for line in self._from_near.add(data):
                    self._ask(line)

    def _finish(self) -> None:
        """The client has said all it will say: what it still waits for is given to it."""
        while self._far and self._open and self._answers(self._far):
            pass
        self._drop()

    def _ask(self, line: bytes) -> None:
        method, id = _parts(line)
        if method in GREETINGS:
            self._greeting.append(line)
        if method is not None and id is not None:
            self._open[id] = None
        if self._far is None and not self._come_back():
            return self._refuse_open()
        try:
            _write(self._far, line)
        except OSError:
            self._lose()

    def _come_back(self) -> bool:
        try:
            self._far = self._find()
            for line in self._greeting:
                _, id = _parts(line)
                if id is not None:
                    self._replayed.add(id)
                _write(self._far, line)
        except OSError:
            self._far = None
            return False
        return True

    def _answers(self, far: Far) -> bool:
        """Hands on what the far end says; False where it has gone."""
        try:
            data = os.read(far.read, READ)
        except OSError:
            data = b""
        for line in self._from_far.add(data):
            method, id = _parts(line)
            if method is None and id in self._replayed:
                self._replayed.discard(id)
                continue
            if method is None:
                self._open.pop(id, None)
            _write(self._near, line)
        return bool(data)

    def _lose(self) -> None:
        self._drop()
        self._from_far = Lines()
        self._replayed.clear()
        self._refuse_open()

    def _drop(self) -> None:
        if self._far:
            for end in {self._far.read, self._far.write}:
                os.close(end)
        self._far = None

    def _refuse_open(self) -> None:
        error = {
            "code": GONE,
            "message": "The Interlock server went away before it answered, and may have done what "
            "was asked. Look (whoami, inbox), or try again with the same key.",
        }
        for id in self._open:
            said = {"jsonrpc": "2.0", "id": id, "error": error}
            _write(self._near, json.dumps(said).encode() + b"\n")
        self._open.clear()


def far_end(
    directory: str, credentials: Credentials, cwd: str, own_session: str | None = None
) -> Far:
    """The server of a workspace, greeted; or, where none runs any more, a node of our own."""
    about = server_of(directory)
    try:
        if about is None:
            raise NobodyThere
        socket = connected(about.mcp).detach()
    except NobodyThere:
        return _alone(directory, credentials, own_session)
    said = {name: value for name, value in credentials._asdict().items() if value}
    far = Far(socket, socket)
    said |= {"cwd": cwd} | ({"own_session": own_session} if own_session is not None else {})
    _write(far, json.dumps(said).encode() + b"\n")
    return far


def _alone(directory: str, credentials: Credentials, own_session: str | None) -> Far:
    import subprocess
    import sys

    environment = os.environ | {"INTERLOCK_WORKSPACE": directory}
    if credentials.token is not None:
        environment["INTERLOCK_TOKEN"] = credentials.token
    if credentials.session is not None:
        environment["INTERLOCK_SESSION"] = credentials.session
    child = subprocess.Popen(  # noqa: S603 - our own module
        [
            *(sys.executable, "-m", "interlock.doors.mcp"),
            *(("--session", own_session) if own_session is not None else ()),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    return Far(os.dup(child.stdout.fileno()), os.dup(child.stdin.fileno()))


class Lines:
    """Cuts a stream of bytes into lines."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def add(self, data: bytes) -> list[bytes]:
        self._rest += data
        if b"\n" not in data:
            return []
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        return [line + b"\n" for line in lines if line.strip()]


def _parts(line: bytes) -> tuple[str | None, Any]:
    """The method and the id of a message, where it has them."""
    try:
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
    except (ValueError, AttributeError, RecursionError):
        return None, None
    hashable = isinstance(id, str | int | float)
    return method if isinstance(method, str) else None, id if hashable else None


def _write(far: Far | None, data: bytes) -> None:
    if far is None:
        raise BrokenPipeError
    while data:
        data = data[os.write(far.write, data) :]
