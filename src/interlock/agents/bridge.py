"""MCP over stdio: copy bytes between a client and the server of the workspace.

A client starts one bridge for each of its windows, so the bridge is small: it parses lines only to
know which requests are open. When the server ends, the bridge answers open requests with an error.
Then it connects to the next server, or to a node in a child process. It sends the client's greeting
there, and the requests that the old server has not received.
"""

import json
import os
import select
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, NamedTuple

from interlock.errors import EngineUnavailable
from interlock.local.link import NoServer, connected, server_of
from interlock.verbs.credentials import Credentials

READ = 1 << 16
# The maximum size of a buffer for an end that does not read. While the buffer is full, the bridge
# does not read the other end.
MAX_KEPT = 1 << 20
GREETINGS = ("initialize", "notifications/initialized")
GONE = -32000
CHANNEL = "claude/channel"

_LOST = EngineUnavailable(
    "The Interlock server ended before it answered. It may have executed the request. Check with "
    "the whoami or inbox tool, or retry with the same key.",
    outcome="unknown",
)
_NOT_ASKED = EngineUnavailable(
    "The Interlock server is unreachable. Nothing was done. Retry the request."
)


class FdPair(NamedTuple):
    """The descriptors that lines are read from and written to."""

    read: int
    write: int


class ClientGone(Exception):
    """The client no longer reads answers."""


class Bridge:
    """Copies between a client at `near` and the far end that `find` connects to.

    If `is_current` returns False, the bridge calls `find` again. After the client's greeting, the
    bridge calls `news`, which returns a pipe with notices for a client that uses Interlock as a
    channel."""

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
        self._pending, self._answers = PendingLines(), bytearray()
        self._greeting: list[bytes] = []
        self._open: dict[Any, str] = {}
        self._replayed: set[Any] = set()
        self._from_near, self._from_far = Lines(), Lines()
        self._is_over = self._is_deaf = self._is_second_try = False
        self._connect()

    def run(self) -> None:
        """Run until the client has closed its end and received its answers, or no longer reads."""
        with suppress(ClientGone):
            while not self._is_over or self._open or self._pending.size or self._answers:
                self._pump()
        self._drop()

    def _pump(self) -> None:
        """Wait for all ends at once, and copy. A wait for a single end could deadlock: an end that
        does not read may itself wait until the bridge reads."""
        far, near, news = self._far, self._near, self._news
        kept = self._pending.size if far else len(self._answers)
        readers = [near.read] if not self._is_over and kept < MAX_KEPT else []
        writers = [near.write] if self._answers else []
        if far and len(self._answers) < MAX_KEPT:
            readers.append(far.read)
        if far and self._pending.size and not self._is_deaf:
            writers.append(far.write)
        if news is not None:
            readers.append(news)
        readable, writable, _ = select.select(readers, writers, [])
        if near.write in writable:
            # Other processes may share standard output, so it stays in blocking mode. A write of at
            # most PIPE_BUF bytes to a writable pipe does not block.
            try:
                del self._answers[: os.write(near.write, self._answers[: select.PIPE_BUF])]
            except BlockingIOError:
                pass
            except OSError:
                raise ClientGone from None
        if news is not None and news in readable:
            data = os.read(news, READ)
            self._answers += data
            if not data:  # the writer has ended, and select would report this forever
                os.close(news)
                self._news = None
        if far and far.read in readable:
            self._hear_far(far)
        elif far and far.write in writable:
            try:
                self._pending.send(far.write)
            except OSError:  # the far end may still answer: the read side shows when it has ended
                self._is_deaf = True
            self._finish_asking()
        if near.read in readable:
            self._hear_near()

    # --- from the client to the far end

    def _hear_near(self) -> None:
        data = _read(self._near.read)
        if data is None:
            return
        for line in self._from_near.add(data):
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
                self._pending.add(line)
            elif _wants_answer(line):
                self._begin_again([line])
        if not data:
            self._is_over = True
            self._finish_asking()

    def _finish_asking(self) -> None:
        """Close the write side once the client has ended, so that the far end ends too."""
        if not self._far or not self._is_over or self._pending.size:
            return
        read, write = self._far
        if read != write:
            os.close(write)
            self._far = FdPair(read, read)
            return
        import _socket

        socket = _socket.socket(fileno=os.dup(write))
        with suppress(OSError):  # the far end has ended already: the read side will show it
            socket.shutdown(_socket.SHUT_WR)
        socket.close()

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
            answered = self._open.pop(id, None) if method is None else None
            if answered == GREETINGS[0] and self._begin_news is not None:
                answer = json.loads(line)
                with suppress(KeyError, TypeError):
                    answer["result"]["capabilities"].setdefault("experimental", {})[CHANNEL] = {}
                line = json.dumps(answer).encode() + b"\n"
            self._answers += line

    # --- one far end after another

    def _connect(self) -> None:
        self._far = self._find()
        for end in self._far:
            os.set_blocking(end, False)
        self._is_deaf = False

    def _drop(self) -> None:
        if self._far:
            for end in {self._far.read, self._far.write}:
                os.close(end)
        self._far = None

    def _lose(self) -> None:
        """Answer the requests that the far end may have executed with an error. Send the others
        once more, to another far end."""
        self._drop()
        untaken = self._pending.untaken()
        self._pending, self._from_far = PendingLines(), Lines()
        self._replayed.clear()
        self._refuse(self._open.keys() - {_parts(line)[1] for line in untaken}, _LOST)
        if self._is_second_try:
            self._refuse(self._open, _NOT_ASKED)
        elif any(map(_wants_answer, untaken)):
            self._is_second_try = True
            self._begin_again(untaken)

    def _begin_again(self, lines: list[bytes]) -> None:
        """Connect to a far end, and send it the client's greeting, then the lines. If the client
        already has an answer to its greeting, drop the new one."""
        try:
            self._connect()
        except OSError:
            self._refuse(self._open, _NOT_ASKED)
            return
        for line in self._greeting:
            _, id = _parts(line)
            if id is not None and id not in self._open:
                self._replayed.add(id)
            self._pending.add(line)
        for line in lines:
            if _parts(line)[0] not in GREETINGS:
                self._pending.add(line)

    def _refuse(self, ids: Collection[Any], why: EngineUnavailable) -> None:
        """Answer these requests with an error, in the order in which the client sent them."""
        for id in [id for id in self._open if id in ids]:
            answer: dict[str, Any] = {"jsonrpc": "2.0", "id": id}
            if self._open.pop(id) == "tools/call":
                error = why.as_dict()
                content = [{"type": "text", "text": json.dumps(error)}]
                result = {"content": content, "structuredContent": error, "isError": True}
                # Revisions of MCP without a greeting require `resultType`.
                answer["result"] = result | ({} if self._greeting else {"resultType": "complete"})
            else:
                answer["error"] = {"code": GONE, "message": why.message}
            self._answers += json.dumps(answer).encode() + b"\n"


class PendingLines:
    """The lines that the far end has not received completely."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._taken = 0
        self.size = 0

    def add(self, line: bytes) -> None:
        self._lines.append(line)
        self.size += len(line)

    def send(self, end: int) -> None:
        """Write as much as the far end accepts now. Raise OSError if it has closed its end."""
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
        """Return the lines of which the far end has received no byte."""
        return list(self._lines)[1 if self._taken else 0 :]


class Lines:
    """Splits a stream of bytes into lines."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def add(self, data: bytes) -> list[bytes]:
        self._rest += data
        if b"\n" not in data:
            return []
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        return [line + b"\n" for line in lines if line.strip()]


def far_end(
    directory: str, credentials: Credentials, cwd: str, own_session: str | None = None
) -> FdPair:
    """Connect to the server of a workspace and send it the credentials. If no server runs, start a
    node in a child process."""
    greeting = {name: value for name, value in credentials._asdict().items() if value}
    greeting |= {"cwd": cwd} | ({"own_session": own_session} if own_session is not None else {})
    about = server_of(directory)
    if about is not None:
        # The server may end before it accepts the connection or the credentials.
        with suppress(NoServer):
            connection = connected(about.mcp)
            try:
                connection.sendall(json.dumps(greeting).encode() + b"\n")
                socket: int = connection.detach()
                return FdPair(socket, socket)
            except OSError:
                connection.close()
    import subprocess
    import sys

    environment = os.environ | {"INTERLOCK_WORKSPACE": directory}
    if credentials.token is not None:
        environment["INTERLOCK_TOKEN"] = credentials.token
    if credentials.session is not None:
        environment["INTERLOCK_SESSION"] = credentials.session
    words = ("--session", own_session) if own_session is not None else ()
    child = subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-P", "-m", "interlock.doors.mcp", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    return FdPair(os.dup(child.stdout.fileno()), os.dup(child.stdin.fileno()))


def channel_notification(news: str, count: int) -> bytes:
    """Return the notification about mail for a client that uses Interlock as a channel."""
    params = {"content": news, "meta": {"count": str(count)}}
    notice = {"jsonrpc": "2.0", "method": f"notifications/{CHANNEL}", "params": params}
    return json.dumps(notice).encode() + b"\n"


def _parts(line: bytes) -> tuple[str | None, Any]:
    """Return the method and the id of a message; None for a missing one."""
    try:
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
    except (ValueError, AttributeError, RecursionError):
        return None, None
    hashable = isinstance(id, str | int | float)
    return method if isinstance(method, str) else None, id if hashable else None


def _wants_answer(line: bytes) -> bool:
    """Return whether the line needs a new far end. A notification does not: the bridge repeats the
    greeting anyway, and other notifications concern the previous far end."""
    method, id = _parts(line)
    return method is None or id is not None


def _read(end: int) -> bytes | None:
    """Return the bytes that have arrived; empty at the end of the stream, None if there are none
    yet."""
    try:
        return os.read(end, READ)
    except BlockingIOError:
        return None
    except OSError:
        return b""
