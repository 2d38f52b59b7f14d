"""MCP over stdio, through the server that runs for the workspace: bytes in, bytes out.

A client starts this once for each of its windows, so it is small: it parses lines only to know
which requests are open. When the server goes away, they are answered with an error. What it had not
taken goes to the server that is there then, or to a node of our own, after the client's greeting.
"""

import json
import os
import select
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, NamedTuple

from interlock.errors import EngineUnavailable
from interlock.local.link import NobodyThere, connected, server_of
from interlock.verbs.credentials import Credentials

READ = 1 << 16
# So much is kept for an end that takes nothing; then the other one is not read.
MAX_KEPT = 1 << 20
GREETINGS = ("initialize", "notifications/initialized")
GONE = -32000
CHANNEL = "claude/channel"


class FdPair(NamedTuple):
    """The far end: where lines are read from and written to."""

    read: int
    write: int


class ClientGone(Exception):
    """Nobody reads the answers any more."""


class Bridge:
    """Pumps between a client at `near` and whatever `find` connects it to, which is found anew
    once it `is_current` no more. `news` begins, once the client has greeted, a pipe out of which
    comes what is for a client that takes us for a channel."""

    def __init__(
        self,
        near: FdPair,
        find: Callable[[], FdPair],
        is_current: Callable[[], bool] = lambda: True,
        news: Callable[[], int] | None = None,
    ) -> None:
        self._near, self._find, self._is_current, self._begin_news = near, find, is_current, news
        self._news: int | None = None
        self._far: FdPair | None = None
        self._asked, self._answers = Asked(), bytearray()
        self._greeting: list[bytes] = []
        self._open: dict[Any, str] = {}
        self._replayed: set[Any] = set()
        self._from_near, self._from_far = Lines(), Lines()
        self._is_over = self._is_deaf = self._is_second_try = False
        self._connect()

    def run(self) -> None:
        """Until the client closes its end and has its answers, or takes none."""
        with suppress(ClientGone):
            while not self._is_over or self._open or self._asked.size or self._answers:
                self._pump()
        self._drop()

    def _pump(self) -> None:
        """Moves what can be moved. Nobody is waited for alone: an end that does not read may be
        waiting for us to do so."""
        far, near = self._far, self._near
        kept = self._asked.size if far else len(self._answers)
        readers = [near.read] if not self._is_over and kept < MAX_KEPT else []
        writers = [near.write] if self._answers else []
        if far and len(self._answers) < MAX_KEPT:
            readers.append(far.read)
        if far and self._asked.size and not self._is_deaf:
            writers.append(far.write)
        if self._news is not None:
            readers.append(self._news)
        readable, writable, _ = select.select(readers, writers, [])
        if near.write in writable:
            self._tell()
        if self._news is not None and self._news in readable:
            self._hear_news(self._news)
        if far and far.read in readable:
            self._hear_far(far)
        elif far and far.write in writable:
            self._ask(far)
        if near.read in readable:
            self._hear_near()

    # --- from the client to the far end

    def _hear_near(self) -> None:
        data = _read(self._near.read)
        if data is None:
            return
        for line in self._from_near.add(data):
            self._take(line)
        if not data:
            self._is_over = True
            self._say_that_all_is_said()

    def _take(self, line: bytes) -> None:
        method, id = _parts(line)
        if method == "tools/call" and self._far and not self._open and not self._is_current():
            self._drop()
        if method == GREETINGS[0]:
            self._greeting.clear()
        if method in GREETINGS:
            self._greeting.append(line)
        if method == GREETINGS[1] and self._begin_news is not None and self._news is None:
            self._news = self._begin_news()
        if method is not None and id is not None:
            self._open[id] = method
        if self._far is not None:
            self._asked.add(line)
        elif _wants_answer(line):
            self._begin_again([line])

    def _ask(self, far: FdPair) -> None:
        """One that takes no more may still answer what it has taken: its end shows when it is
        read."""
        try:
            self._asked.send(far.write)
        except OSError:
            self._is_deaf = True
        self._say_that_all_is_said()

    def _say_that_all_is_said(self) -> None:
        """Lets the far end come to its end, and not wait for more while we wait for it."""
        if self._far and self._is_over and not self._asked.size:
            self._far = _with_writing_closed(self._far)

    # --- from the far end to the client

    def _hear_far(self, far: FdPair) -> None:
        data = _read(far.read)
        if data is None:
            return
        if not data:
            self._lose()
            return
        self._is_second_try = False
        for line in self._from_far.add(data):
            method, id = _parts(line)
            if method is None and id in self._replayed:
                self._replayed.discard(id)
                continue
            asked = self._open.pop(id, None) if method is None else None
            if asked == GREETINGS[0] and self._begin_news is not None:
                line = _with_channel(line)
            self._answers += line

    def _hear_news(self, news: int) -> None:
        data = os.read(news, READ)
        self._answers += data
        if not data:  # nobody tells any more, and the end would be read again and again
            os.close(news)
            self._news = None

    def _tell(self) -> None:
        """Standard output may be shared, and so it is left as it is: no more is written at once
        than surely does not block."""
        try:
            del self._answers[: os.write(self._near.write, self._answers[: select.PIPE_BUF])]
        except BlockingIOError:
            return
        except OSError:
            raise ClientGone from None

    # --- one far end after another

    def _connect(self) -> None:
        self._far = self._find()
        for end in self._far:
            os.set_blocking(end, False)
        self._is_deaf = False

    def _lose(self) -> None:
        """Answers what may have been done. The rest is asked once more, elsewhere."""
        self._drop()
        untaken = self._asked.untaken()
        self._asked, self._from_far = Asked(), Lines()
        self._replayed.clear()
        self._refuse(self._open.keys() - {_parts(line)[1] for line in untaken}, _LOST)
        if self._is_second_try:
            self._refuse(self._open, _NOT_ASKED)
        elif any(map(_wants_answer, untaken)):
            self._is_second_try = True
            self._begin_again(untaken)

    def _begin_again(self, lines: list[bytes]) -> None:
        """Finds a far end and shows the client's greeting to it, whose answer the client may have
        had already; then come the lines."""
        try:
            self._connect()
        except OSError:
            self._refuse(self._open, _NOT_ASKED)
            return
        for line in self._greeting:
            _, id = _parts(line)
            if id is not None and id not in self._open:
                self._replayed.add(id)
            self._asked.add(line)
        for line in lines:
            if _parts(line)[0] not in GREETINGS:
                self._asked.add(line)

    def _drop(self) -> None:
        if self._far:
            for end in {self._far.read, self._far.write}:
                os.close(end)
        self._far = None

    def _refuse(self, ids: Collection[Any], why: EngineUnavailable) -> None:
        """In the order in which they were asked."""
        for id in [id for id in self._open if id in ids]:
            is_call = self._open.pop(id) == "tools/call"
            said = _as_result(why, not self._greeting) if is_call else _as_error(why)
            self._answers += json.dumps({"jsonrpc": "2.0", "id": id} | said).encode() + b"\n"


_LOST = EngineUnavailable(
    "The Interlock server went away before it answered, and may have done what was asked. Look "
    "(whoami, inbox), or try again with the same key.",
    outcome="unknown",
)
_NOT_ASKED = EngineUnavailable(
    "The Interlock server cannot be reached, and nothing was done. Try again."
)


def _as_result(why: EngineUnavailable, is_modern: bool) -> dict[str, Any]:
    """A tool's error. Revisions without a greeting want to be told that no more is to come."""
    error = why.as_dict()
    content = [{"type": "text", "text": json.dumps(error)}]
    result = {"content": content, "structuredContent": error, "isError": True}
    return {"result": result | ({"resultType": "complete"} if is_modern else {})}


def _as_error(why: EngineUnavailable) -> dict[str, Any]:
    return {"error": {"code": GONE, "message": why.message}}


class Asked:
    """The lines that the far end has not taken yet, at least not to their end."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._taken = 0
        self.size = 0

    def add(self, line: bytes) -> None:
        self._lines.append(line)
        self.size += len(line)

    def send(self, end: int) -> None:
        """Writes what is taken just now; fails where nothing will be any more."""
        with suppress(BlockingIOError):
            while self._lines:
                line = self._lines[0]
                count = os.write(end, memoryview(line)[self._taken :])
                self.size -= count
                self._taken += count
                if self._taken == len(line):
                    self._lines.popleft()
                    self._taken = 0

    def untaken(self) -> list[bytes]:
        """The lines of which nobody has seen anything."""
        return list(self._lines)[1 if self._taken else 0 :]


def far_end(
    directory: str, credentials: Credentials, cwd: str, own_session: str | None = None
) -> FdPair:
    """The server of a workspace, greeted; or, where none runs any more, a node of our own."""
    said = {name: value for name, value in credentials._asdict().items() if value}
    said |= {"cwd": cwd} | ({"own_session": own_session} if own_session is not None else {})
    about = server_of(directory)
    try:
        if about is None:
            raise NobodyThere
        socket = _greeted(about.mcp, json.dumps(said).encode() + b"\n")
    except NobodyThere:
        return _alone(directory, credentials, own_session)
    return FdPair(socket, socket)


def _greeted(path: str, greeting: bytes) -> int:
    connection = connected(path)
    try:
        connection.sendall(greeting)
    except OSError:  # it went away while we came
        connection.close()
        raise NobodyThere from None
    end: int = connection.detach()
    return end


def _alone(directory: str, credentials: Credentials, own_session: str | None) -> FdPair:
    import subprocess
    import sys

    environment = os.environ | {"INTERLOCK_WORKSPACE": directory}
    if credentials.token is not None:
        environment["INTERLOCK_TOKEN"] = credentials.token
    if credentials.session is not None:
        environment["INTERLOCK_SESSION"] = credentials.session
    child = subprocess.Popen(  # noqa: S603 - our own module
        [
            *(sys.executable, "-P", "-m", "interlock.doors.mcp"),
            *(("--session", own_session) if own_session is not None else ()),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    return FdPair(os.dup(child.stdout.fileno()), os.dup(child.stdin.fileno()))


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


def _with_channel(line: bytes) -> bytes:
    """The answer to a greeting, which says besides that we send what a channel shows."""
    said = json.loads(line)
    with suppress(KeyError, TypeError):
        said["result"]["capabilities"].setdefault("experimental", {})[CHANNEL] = {}
    return json.dumps(said).encode() + b"\n"


def told(news: str, count: int) -> bytes:
    """The notice by which a client that takes us for a channel is told of news."""
    params = {"content": news, "meta": {"count": str(count)}}
    notice = {"jsonrpc": "2.0", "method": f"notifications/{CHANNEL}", "params": params}
    return json.dumps(notice).encode() + b"\n"


def _parts(line: bytes) -> tuple[str | None, Any]:
    """The method and the id of a message, where it has them."""
    try:
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
    except (ValueError, AttributeError, RecursionError):
        return None, None
    hashable = isinstance(id, str | int | float)
    return method if isinstance(method, str) else None, id if hashable else None


def _wants_answer(line: bytes) -> bool:
    """Whether it is worth a new far end. A notice is not: the greeting is shown again anyway, and
    any other is about what has gone."""
    method, id = _parts(line)
    return method is None or id is not None


def _read(end: int) -> bytes | None:
    """What there is: nothing at the end, None where there is nothing yet."""
    try:
        return os.read(end, READ)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _with_writing_closed(far: FdPair) -> FdPair:
    if far.read != far.write:
        os.close(far.write)
        return FdPair(far.read, far.read)
    import _socket

    socket = _socket.socket(fileno=os.dup(far.write))
    with suppress(OSError):  # it has gone already, as reading it will show
        socket.shutdown(_socket.SHUT_WR)
    socket.close()
    return far
