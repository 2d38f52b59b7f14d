"""Senders that write to a server without a pause while it restarts, and record its answers."""

import http.client
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from world.commandline import LIMIT_S, until
from world.server import RunningServer

SENDERS = 8


class Sender(threading.Thread):
    """A thread that sends one message after another, each with its own idempotency key.

    `accepted` has the texts that the server answered with 200. `unanswered` has the texts without
    an answer.
    """

    def __init__(self, served: RunningServer, name: str, token: str, to: str) -> None:
        super().__init__(daemon=True)
        self.accepted: list[str] = []
        self.unanswered: list[str] = []
        self.refused: list[tuple[int, bytes]] = []
        self.token = token
        self._served, self._prefix, self._to = served, name, to
        self._enough = threading.Event()
        self._connection: http.client.HTTPConnection | None = None

    def run(self) -> None:
        number = 0
        while not self._enough.is_set():
            number += 1
            self._send(f"{self._prefix}-{number}")

    def _send(self, text: str) -> None:
        try:
            connection = self._connected()
        except OSError:
            self._enough.wait(0.05)
            return
        try:
            status, body = self.ask(connection, text)
        except (OSError, http.client.HTTPException):
            self.unanswered.append(text)
            self._disconnect()
            return
        if status == 200:
            self.accepted.append(text)
        else:
            self.refused.append((status, body))

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", self._served.port, timeout=LIMIT_S)
            connection.connect()
            self._connection = connection
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def ask(self, connection: http.client.HTTPConnection, text: str) -> tuple[int, bytes]:
        """Send one message. Its text is also its idempotency key."""
        body = json.dumps({"to": self._to, "payload": {"text": text}})
        said = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            "Idempotency-Key": text,
        }
        connection.request("POST", "/v1/messages", body, said)
        response = connection.getresponse()
        found = response.status, response.read()
        if response.will_close:
            self._disconnect()
        return found

    def stop(self) -> None:
        self._enough.set()
        self.join(LIMIT_S)
        assert not self.is_alive()
        self._disconnect()


@contextmanager
def senders(
    served: RunningServer, to: str, count: int = SENDERS, *, name: str = "sender"
) -> Iterator[list[Sender]]:
    """Run `count` agents until the block ends. Each sends as fast as the server answers."""
    names = [f"{name}-{number}" for number in range(count)]
    found = [Sender(served, name, served.place.join(name), to) for name in names]
    for sender in found:
        sender.start()
    try:
        yield found
    finally:
        for sender in found:
            sender.stop()


def until_each_has(senders: list[Sender], count: int) -> None:
    """Wait until the server has accepted `count` messages of each sender."""
    until(lambda: all(len(sender.accepted) >= count for sender in senders))


def received(served: RunningServer, token: str) -> Counter[str]:
    """The number of times that each text is in the mail of a token's sender."""
    found: Counter[str] = Counter()
    after = 0
    while True:
        target = f"/v1/inbox?which=all&limit=1000&after={after}"
        page = served.ask("GET", target, token=token).json
        found.update(message["payload"]["text"] for message in page["messages"])
        if "next" not in page:
            return found
        after = page["next"]
