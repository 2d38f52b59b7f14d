"""MCP over stdio, through the server that runs for the workspace: bytes in, bytes out.

A client starts this once for each of its windows, so it is small: it parses lines only to know
which requests are open. When the server goes away, they are answered with an error; the next one
looks for the server again, or for a node of its own, and shows the client's greeting to it.
"""

import json
import os
import select
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from interlock.contracts.acts import Credentials
from interlock.link import NobodyThere, connected, server_of

READ = 1 << 16
# So much is kept for a far end that takes nothing; then the client is not read.
MOST_UNSENT = 1 << 20
GREETINGS = ("initialize", "notifications/initialized")
GONE = -32000


class Far(NamedTuple):
    """The far end: where lines are read from and written to."""

    read: int
    write: int


class ClientGone(Exception):
    """Nobody reads the answers any more."""


class Bridge:
    """Pumps between a client at `near` and whatever `find` connects it to."""

    def __init__(self, near: Far, find: Callable[[], Far]) -> None:
        self._near, self._find = near, find
        self._far: Far | None = None
        self._unsent = bytearray()
        self._greeting: list[bytes] = []
        self._open: dict[Any, None] = {}
        self._replayed: set[Any] = set()
        self._from_near, self._from_far = Lines(), Lines()
        self._is_over = False
        self._connect()

    def run(self) -> None:
        """Until the client closes its end and has its answers, or takes none."""
        with suppress(ClientGone):
            while not self._is_over or self._open or self._unsent:
                self._pump()
        self._drop()

    def _pump(self) -> None:
        """Moves what can be moved. Nobody is waited for alone: an end that does not read may be
        waiting for us to do so."""
        far = self._far
        may_ask = not self._is_over and len(self._unsent) < MOST_UNSENT
        readers = ([self._near.read] if may_ask else []) + ([far.read] if far else [])
        writers = [far.write] if far and self._unsent else []
        readable, writable, _ = select.select(readers, writers, [])
        if far and far.read in readable and not self._answers(far):
            self._lose()
        elif far and writable:
            self._send(far)
        if self._near.read in readable:
            self._hear()

    def _hear(self) -> None:
        data = os.read(self._near.read, READ)
        for line in self._from_near.add(data):
            self._ask(line)
        if not data:
            self._is_over = True
            self._say_that_all_is_said()

    def _ask(self, line: bytes) -> None:
        method, id = _parts(line)
        if method == GREETINGS[0]:
            self._greeting.clear()
        if method in GREETINGS:
            self._greeting.append(line)
        if method is not None and id is not None:
            self._open[id] = None
        if self._far is not None or self._come_back():
            self._unsent += line
        else:
            self._refuse_open()

    def _send(self, far: Far) -> None:
        try:
            del self._unsent[: os.write(far.write, self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._lose()
        self._say_that_all_is_said()

    def _say_that_all_is_said(self) -> None:
        """Lets the far end come to its end, and not wait for more while we wait for it."""
        if self._far and self._is_over and not self._unsent:
            self._far = _with_writing_closed(self._far)

    def _connect(self) -> None:
        self._far = self._find()
        for end in self._far:
            os.set_blocking(end, False)

    def _come_back(self) -> bool:
        try:
            self._connect()
        except OSError:
            return False
        for line in self._greeting:
            _, id = _parts(line)
            if id is not None:
                self._replayed.add(id)
            self._unsent += line
        return True

    def _answers(self, far: Far) -> bool:
        """Hands on what the far end says; False where it has gone."""
        try:
            data = os.read(far.read, READ)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        for line in self._from_far.add(data):
            method, id = _parts(line)
            if method is None and id in self._replayed:
                self._replayed.discard(id)
                continue
            if method is None:
                self._open.pop(id, None)
            self._tell(line)
        return bool(data)

    def _tell(self, line: bytes) -> None:
        try:
            _write(self._near, line)
        except OSError:
            raise ClientGone from None

    def _lose(self) -> None:
        self._drop()
        self._unsent.clear()
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
            self._tell(json.dumps(said).encode() + b"\n")
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


def _write(far: Far, data: bytes) -> None:
    while data:
        data = data[os.write(far.write, data) :]


def _with_writing_closed(far: Far) -> Far:
    if far.read != far.write:
        os.close(far.write)
        return Far(far.read, far.read)
    import _socket

    socket = _socket.socket(fileno=os.dup(far.write))
    with suppress(OSError):  # it has gone already, as reading it will show
        socket.shutdown(_socket.SHUT_WR)
    socket.close()
    return far
