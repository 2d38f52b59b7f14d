"""Hardened connections: a client that sends half a request, nothing or junk, or that never reads
its answer, does not block other clients.

The head of a request has a timeout and a size limit, and the client must read its answer. If there
are more connections than the process may have, the server closes the one that was idle longest.
"""

import asyncio
import fcntl
import resource
import socket
import struct
import sys
import termios
from contextlib import suppress
from typing import Any

import orjson
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from interlock.errors import Refusal, TooLarge, Usage

HEAD_WITHIN_S = 10.0
# How long a client may read nothing of an answer of any size.
TAKEN_WITHIN_S = 30.0
MAX_HEAD_BYTES = 64 << 10
# Commands put their arguments into the head of a request.
MAX_LOCAL_HEAD_BYTES = 16 << 20
# For the log, its readers, and other files of the process.
RESERVED_FILES = 200
FEWEST = 100


class ConnectionLimit:
    """The limit of the server's connections. The first of `idle` has been idle for the longest
    time. A connection with half a head counts as idle."""

    def __init__(self, most: int | None = None) -> None:
        self.most = most if most is not None else room()
        self.idle: dict[HttpConnection, None] = {}

    def admit(self, count: int) -> bool:
        """Make room for one more connection. Return False if all are busy."""
        if count <= self.most:
            return True
        oldest = next(iter(self.idle), None)
        if oldest is None:
            return False
        del self.idle[oldest]
        oldest.drop()
        return True


def room() -> int:
    """Raise the limit of open files as far as allowed. Return the number of connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    files = soft if soft != resource.RLIM_INFINITY else 1 << 16
    return max(FEWEST, files - RESERVED_FILES)


class HttpConnection(HttpToolsProtocol):
    """One connection. `_head_deadline` runs while the server waits for a head, and `_read_deadline`
    while the client has an answer to read."""

    def __init__(self, *args: Any, limit: ConnectionLimit, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limit = limit
        self._is_local = self._in_head = self._went_on = False
        self._head_bytes = self._unfinished_bytes = 0
        self._most_head = MAX_HEAD_BYTES
        self._serving: RequestResponseCycle | None = None
        self._head_deadline: asyncio.TimerHandle | None = None
        self._read_deadline: asyncio.TimerHandle | None = None
        self._unread_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._socket = transport.get_extra_info("socket")
        self._is_local = self._socket.family == socket.AF_UNIX
        if self._is_local:
            self._most_head = MAX_LOCAL_HEAD_BYTES
        if not self._limit.admit(len(self.connections)):
            self.drop()
            return
        self._limit.idle[self] = None
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._limit.idle.pop(self, None)
        self._stop_head_deadline()
        self._stop_read_deadline()
        super().connection_lost(exc)
        # The base class knows only the last of several pipelined requests.
        if self._serving is not None and not self._serving.response_complete:
            self._serving.disconnected = True
            self._serving.message_event.set()

    # --- requests

    def data_received(self, data: bytes) -> None:
        self._went_on = False
        super().data_received(data)
        if self.transport.is_closing():
            return
        self._unfinished_bytes = 0 if self._went_on else self._unfinished_bytes + len(data)
        if self._unfinished_bytes > self._most_head:
            self._refuse(*_too_large())
        elif self._head_deadline is None and (self._in_head or self in self._limit.idle):
            self._await_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes, self._went_on = True, 0, True
        self._stop_head_deadline()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + len(": \r\n"))
        # A trailer after the body must not count as a header.
        if self._in_head:
            super().on_header(name, value)

    def _count(self, size: int) -> None:
        self._went_on = True
        self._head_bytes += size
        if self._head_bytes > self._most_head:
            raise ValueError("head too large")

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_head_deadline()
        self._limit.idle.pop(self, None)
        self.scope["interlock.local"] = self._is_local  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._went_on = True
        super().on_body(body)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._serving = cycle
        super()._start_asgi_task(cycle, app)

    def _await_head(self) -> None:
        def too_late() -> None:
            if self.transport.is_closing():
                return
            if self._in_head:
                self._refuse(Usage("The head of the request did not arrive in time."), 408)
            else:
                self._close()

        self._head_deadline = self.loop.call_later(HEAD_WITHIN_S, too_late)

    def _stop_head_deadline(self) -> None:
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None

    # --- answers

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._await_reading()
        elif self.cycle.response_complete:
            self._limit.idle[self] = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._stop_read_deadline()

    def timeout_keep_alive_handler(self) -> None:
        if not self.transport.is_closing():
            self._close()

    def _close(self) -> None:
        """Close once the client has read everything, or has stopped reading."""
        self.transport.close()
        self._await_reading()

    def _await_reading(self) -> None:
        """Drop the connection unless the client reads some of its answer in time."""

        def check() -> None:
            self._read_deadline = None
            if self._count_unread() >= self._unread_bytes:
                self.drop()
            else:
                self._await_reading()

        if self._read_deadline is None and self.transport.get_write_buffer_size():
            self._unread_bytes = self._count_unread()
            self._read_deadline = self.loop.call_later(TAKEN_WITHIN_S, check)

    def _count_unread(self) -> int:
        """Return the bytes in our buffer and in the system's. The system's buffer is large, and the
        system signals only progress of at least a third of it."""
        ours = self.transport.get_write_buffer_size()
        with suppress(OSError):
            answer = fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, bytes(4))
            return ours + int.from_bytes(answer, sys.byteorder)
        return ours

    def drop(self) -> None:
        """End the connection at once, without the rest of the answer."""
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _stop_read_deadline(self) -> None:
        if self._read_deadline is not None:
            self._read_deadline.cancel()
            self._read_deadline = None

    # --- refusing

    def send_400_response(self, msg: str) -> None:
        if self._head_bytes > self._most_head:
            self._refuse(*_too_large())
        else:
            self._refuse(Usage("This is not a valid HTTP request."), 400)

    def _refuse(self, refusal: Refusal, status: int) -> None:
        """Answer data that never becomes a request for the application. While the server still owes
        the answer to an earlier request, send nothing: the client would take it for that answer.
        Then the earlier request is the last one."""
        serving = self._serving
        is_owed = (
            serving is not None
            and not serving.response_complete
            and (serving.response_started or not serving.more_body)
        )
        if is_owed:
            self.cycle.keep_alive = False
            self.flow.pause_reading()
            return
        body = orjson.dumps(refusal.as_dict())
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head % len(body) + body)
        self._close()


def _too_large() -> tuple[Refusal, int]:
    limit = f"The head of the request has more than {MAX_HEAD_BYTES} bytes."
    return TooLarge(limit, limit=MAX_HEAD_BYTES), 431
