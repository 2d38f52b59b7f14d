"""Connections, hardened: whoever sends half a request, or nothing, or junk, or never reads what is
answered, holds nobody up.

The head of a request must arrive within a time and a size, and an answer must be taken. Where there
are more connections than the process may have, the one that has been without a request longest
makes room.
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
# How long somebody may take none of what was sent, however much there is.
TAKEN_WITHIN_S = 30.0
MAX_HEAD_BYTES = 64 << 10
# Commands put into a request's head whatever was typed.
MAX_LOCAL_HEAD_BYTES = 16 << 20
# For the log, its readers, and what else the process opens.
RESERVED_FILES = 200
FEWEST = 100


class ConnectionLimit:
    """All connections of the server. The first of `idle` has been so for the longest time; one
    that has sent half a head is idle still."""

    def __init__(self, most: int | None = None) -> None:
        self.most = most if most is not None else room()
        self.idle: dict[Connection, None] = {}

    def admit(self, count: int) -> bool:
        """Makes room for one more; False where everybody is busy."""
        if count <= self.most:
            return True
        oldest = next(iter(self.idle), None)
        if oldest is None:
            return False
        del self.idle[oldest]
        oldest.drop()
        return True


def room() -> int:
    """How many connections the process may have, once it has asked for all it can get."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    files = soft if soft != resource.RLIM_INFINITY else 1 << 16
    return max(FEWEST, files - RESERVED_FILES)


class Connection(HttpToolsProtocol):
    def __init__(self, *args: Any, limit: ConnectionLimit, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._crowd = limit
        self._is_local = self._in_head = self._went_on = False
        self._head_bytes = self._unfinished_bytes = 0
        self._most_head = MAX_HEAD_BYTES
        self._serving: RequestResponseCycle | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._look_again: asyncio.TimerHandle | None = None
        self._untaken = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._socket = transport.get_extra_info("socket")
        self._is_local = self._socket.family == socket.AF_UNIX
        if self._is_local:
            self._most_head = MAX_LOCAL_HEAD_BYTES
        if not self._crowd.admit(len(self.connections)):
            self.drop()
            return
        self._crowd.idle[self] = None
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._crowd.idle.pop(self, None)
        self._head_is_here()
        self._all_is_taken()
        super().connection_lost(exc)
        # Where requests came one after the other, the parent knows of the last one only.
        if self._serving is not None and not self._serving.response_complete:
            self._serving.disconnected = True
            self._serving.message_event.set()

    # --- what comes in

    def data_received(self, data: bytes) -> None:
        self._went_on = False
        super().data_received(data)
        if self.transport.is_closing():
            return
        self._unfinished_bytes = 0 if self._went_on else self._unfinished_bytes + len(data)
        if self._unfinished_bytes > self._most_head:
            self._refuse(*_too_large())
        elif self._deadline is None and (self._in_head or self in self._crowd.idle):
            self._await_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes, self._went_on = True, 0, True
        self._head_is_here()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + len(": \r\n"))
        # What comes after a body must not pass for what stands before it.
        if self._in_head:
            super().on_header(name, value)

    def _count(self, size: int) -> None:
        self._went_on = True
        self._head_bytes += size
        if self._head_bytes > self._most_head:
            raise ValueError("head too large")

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_is_here()
        self._crowd.idle.pop(self, None)
        self.scope["interlock.local"] = self._is_local  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._went_on = True
        super().on_body(body)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._serving = cycle
        super()._start_asgi_task(cycle, app)

    def _await_head(self) -> None:
        self._deadline = self.loop.call_later(HEAD_WITHIN_S, self._too_late)

    def _head_is_here(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        if self.transport.is_closing():
            return
        if self._in_head:
            self._refuse(Usage("The head of the request did not arrive in time."), 408)
        else:
            self._close()

    # --- what goes out

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._await_taking()
        elif self.cycle.response_complete:
            self._crowd.idle[self] = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_taking()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._all_is_taken()

    def timeout_keep_alive_handler(self) -> None:
        if not self.transport.is_closing():
            self._close()

    def _close(self) -> None:
        """Closes once everything was taken that was sent, or nothing is being taken any more."""
        self.transport.close()
        self._await_taking()

    def _await_taking(self) -> None:
        if self._look_again is None and self.transport.get_write_buffer_size():
            self._untaken = self._sent_and_untaken()
            self._look_again = self.loop.call_later(TAKEN_WITHIN_S, self._was_some_taken)

    def _was_some_taken(self) -> None:
        self._look_again = None
        if self._sent_and_untaken() >= self._untaken:
            self.drop()
        else:
            self._await_taking()

    def _sent_and_untaken(self) -> int:
        """In our buffer and in the system's, which is large and tells of no less than a third."""
        ours = self.transport.get_write_buffer_size()
        with suppress(OSError):
            answer = fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, bytes(4))
            return ours + int.from_bytes(answer, sys.byteorder)
        return ours

    def drop(self) -> None:
        """Ends the connection at once; what was not taken is not kept for anybody."""
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _all_is_taken(self) -> None:
        if self._look_again is not None:
            self._look_again.cancel()
            self._look_again = None

    # --- refusing

    def send_400_response(self, msg: str) -> None:
        if self._head_bytes > self._most_head:
            self._refuse(*_too_large())
        else:
            self._refuse(Usage("That is not an HTTP request."), 400)

    def _refuse(self, refusal: Refusal, status: int) -> None:
        """Answers where no request has come about that the application could answer. Where one
        has, and is being served, this must not pass for the answer to it: then it is the last."""
        if self._owes_an_answer():
            self.cycle.keep_alive = False
            self.flow.pause_reading()
            return
        body = orjson.dumps(refusal.as_dict())
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head % len(body) + body)
        self._close()

    def _owes_an_answer(self) -> bool:
        """Whether a request has come whole, or has been answered in part."""
        serving = self._serving
        if serving is None or serving.response_complete:
            return False
        return serving.response_started or not serving.more_body


def _too_large() -> tuple[Refusal, int]:
    limit = f"The head of a request has at most {MAX_HEAD_BYTES} bytes."
    return TooLarge(limit, limit=MAX_HEAD_BYTES), 431
