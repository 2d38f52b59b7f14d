"""Streams of a server's events. A test reads a `Stream` step by step. A `Listener` is for many
connections in one event loop, and reconnects when its connection ends.
"""

import asyncio
import http.client
import json
import re
import time
from array import array
from typing import Any, NamedTuple

from world.commandline import LIMIT_S
from world.server import RunningServer


class Event(NamedTuple):
    """An event of a stream. `id` is None for an event that is not a fact of the log."""

    id: int | None
    kind: str
    data: Any


class Stream:
    """Use it to read the events of one connection in a test."""

    def __init__(
        self, served: RunningServer, token: str, target: str, headers: dict[str, str]
    ) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=LIMIT_S)
        said = {"Authorization": f"Bearer {token}", **headers}
        self._connection.request("GET", target, headers=said)
        self.response = self._connection.getresponse()
        self.comments: list[str] = []

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.response.close()
        self._connection.close()

    def next(self) -> Event | None:
        """The next event, or None when the stream has ended. Fails if only heartbeats come."""
        said: dict[str, str] = {}
        deadline = time.monotonic() + LIMIT_S
        while line := self.response.readline().decode():
            assert time.monotonic() < deadline, "no event came in time"
            name, _, value = line.rstrip("\n").partition(": ")
            if line == "\n" and "event" in said:
                id = int(said["id"]) if "id" in said else None
                return Event(id, said["event"], json.loads(said["data"]))
            if line.startswith(":"):
                self.comments.append(line.strip())
            elif name:
                said[name] = value
        return None

    def until(self, kind: str) -> list[Event]:
        """The next events, up to the first of a kind."""
        found: list[Event] = []
        deadline = time.monotonic() + LIMIT_S
        while not found or found[-1].kind != kind:
            assert time.monotonic() < deadline, f"no {kind} came in time"
            event = self.next()
            assert event is not None, f"the stream ended without a {kind}: {found}"
            found.append(event)
        return found


def listen(
    served: RunningServer, token: str, *, after: int | None = None, last_id: int | str | None = None
) -> Stream:
    """Follow events from a position in the query, or from the last id that the listener saw."""
    target = "/v1/events" + (f"?after={after}" if after is not None else "")
    headers = {"Last-Event-ID": str(last_id)} if last_id is not None else {}
    return Stream(served, token, target, headers)


# --- many listeners

_ID = re.compile(rb"\nid: (\d+)\n")


class Listener(asyncio.Protocol):
    """Use many of them at once: each records the ids of its events in order, and reconnects."""

    def __init__(self, port: int, token: str, after: int) -> None:
        self.ids = array("Q")
        self.connections = 0
        self._port, self._token, self._after = port, token, after
        self._unread = b""
        self._ended = asyncio.Event()

    @property
    def last(self) -> int:
        return self.ids[-1] if self.ids else self._after

    async def run(self) -> None:
        """Listen until the task is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._ended.clear()
            try:
                transport, _ = await loop.create_connection(lambda: self, "127.0.0.1", self._port)
            except OSError:
                await asyncio.sleep(0.05)
                continue
            try:
                await self._ended.wait()
            finally:
                transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.connections += 1
        self._unread = b""
        transport.write(
            f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nLast-Event-ID: {self.last}\r\n"
            f"Authorization: Bearer {self._token}\r\n\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        """Record the events that arrived completely."""
        self._unread += data
        whole, separator, self._unread = self._unread.rpartition(b"\n\n")
        self.ids.extend(map(int, _ID.findall(whole + separator)))

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended.set()
