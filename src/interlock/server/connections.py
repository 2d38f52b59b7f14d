"""Connections, hardened: whoever sends half a request, or nothing, or junk, holds nobody up.

The head of a request must arrive within a time and a size. Where there are more connections than
the process may have, the one that has been idle longest makes room.
"""

import asyncio
import resource
import socket
from contextlib import suppress
from typing import Any

import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from interlock.errors import Refusal, TooLarge, Usage

HEAD_WITHIN_S = 10.0
MOST_HEAD_BYTES = 64 << 10
# For the log, its readers, and what else the process opens.
RESERVED_FILES = 200
FEWEST = 100


class Crowd:
    """All connections of the server. The first of `idle` has been so for the longest time."""

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
        oldest.transport.abort()
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
    def __init__(self, *args: Any, crowd: Crowd, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._crowd = crowd
        self._is_local = self._in_head = False
        self._head_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer = transport.get_extra_info("socket")
        self._is_local = peer is not None and peer.family == socket.AF_UNIX
        if not self._crowd.admit(len(self.connections)):
            transport.abort()
            return
        self._crowd.idle[self] = None
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._crowd.idle.pop(self, None)
        self._head_is_here()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head and self._deadline is None:
            self._await_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        self._crowd.idle.pop(self, None)

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > MOST_HEAD_BYTES:
            raise ValueError("head too large")

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_is_here()
        self.scope["interlock.local"] = self._is_local  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing() and not self._in_head:
            self._crowd.idle[self] = None

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
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        if self._head_bytes > MOST_HEAD_BYTES:
            limit = f"The head of a request has at most {MOST_HEAD_BYTES} bytes."
            self._refuse(TooLarge(limit, limit=MOST_HEAD_BYTES), 431)
        else:
            self._refuse(Usage("That is not an HTTP request."), 400)

    def _refuse(self, refusal: Refusal, status: int) -> None:
        """Answers where no request has come about that the application could answer."""
        body = orjson.dumps(refusal.as_dict())
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head % len(body) + body)
        self.transport.close()
