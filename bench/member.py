"""One node of a shared workspace in its own process, and its measurements.

`python -m bench.member` reads one JSON request per line and answers each with a line. The first
request names the node to open. The process ends with its standard input. Times that two processes
compare are readings of the machine's monotonic clock.
"""

import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, cast

from bench.raw import raw
from bench.scene import TEXT
from interlock.node import Node
from interlock.rooms.mail.verbs import ListInbox, SendMessage
from interlock.stores.shared.engine import SharedEngine
from interlock.stores.shared.remote import Appending, Remote, RemoteHead, Sealed
from interlock.verbs.credentials import Credentials

LISTED = 20
BATCHES_KEPT = 100
MAX_S = 60.0


class Watched:
    """The engine's remote. Records the last batches that were appended, and their times."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self.batches: deque[Sequence[Sealed]] = deque(maxlen=BATCHES_KEPT)
        self.handed_over: dict[int, float] = {}

    def append(self, after: RemoteHead, batch: Appending) -> None:
        self.batches.append(batch.entries)
        self.handed_over[batch.entries[-1].seq] = time.monotonic()
        self._remote.append(after, batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._remote, name)


class Member:
    """A node, and the tokens of its callers."""

    def __init__(self, directory: str, tokens: list[str], url: str, key: str | None = None) -> None:
        self._url = url
        self._callers = [Credentials(token=token) for token in tokens]
        self.node = Node(directory, engine=url, key=bytes.fromhex(key) if key else None)
        engine = self.node.engine
        assert isinstance(engine, SharedEngine)
        self._watched = Watched(engine.remote)
        engine.remote = cast(Remote, self._watched)
        self._folded: dict[int, float] = {}
        self._over = threading.Event()
        self._noting: threading.Thread | None = None

    def sends(self, start: float, seconds: float, to: list[str]) -> list[float]:
        """Let every caller send to its recipient, one message after the other, from `start` on.
        Return the milliseconds of each send that ended in time, at least one for each caller."""

        def call(caller: Credentials, recipient: str) -> list[float]:
            took: list[float] = []
            act = SendMessage(recipient, {"text": TEXT}, "send")
            time.sleep(max(0.0, start - time.monotonic()))
            began = time.monotonic()
            while True:
                self.node.call(caller, act)
                ended = time.monotonic()
                if took and ended > start + seconds:
                    return took
                took.append(round((ended - began) * 1000, 2))
                began = ended

        with ThreadPoolExecutor(len(to)) as pool:
            return [ms for took in pool.map(call, self._callers, to) for ms in took]

    def raw(self, seconds: float) -> tuple[float, float]:
        """Append the last batches again and again, without the node. Return entries a second, and
        entries per batch."""
        batches = list(self._watched.batches)
        count = 0
        with closing(raw(self._url.partition("?")[0])) as appender:
            began = time.monotonic()
            while (spent := time.monotonic() - began) < seconds:
                batch = batches[count % len(batches)]
                appender.append(batch)
                count += 1
        done = sum(len(batches[number % len(batches)]) for number in range(count))
        return done / spent, done / count

    def alone(self, times: int, to: str) -> None:
        """Let one caller send `times` times."""
        act = SendMessage(to, {"text": TEXT}, "send")
        for _ in range(times):
            self.node.call(self._callers[0], act)

    def reads(self, start: float, seconds: float, token: str) -> float:
        """Return how many inbox listings one caller completes a second."""
        reader, act = Credentials(token=token), ListInbox(limit=LISTED)
        assert len(self.node.call(reader, act)["messages"]) == LISTED
        time.sleep(max(0.0, start - time.monotonic()))
        count = 0
        while count == 0 or time.monotonic() < start + seconds:
            self.node.call(reader, act)
            count += 1
        return count / seconds

    # --- from one node to another

    def handed_over(self) -> dict[int, float]:
        """Return the time of each batch's append, by the position of its last entry."""
        return self._watched.handed_over

    def reach(self, last: int) -> bool:
        """Wait until the node has the entries up to `last`."""
        deadline = time.monotonic() + MAX_S
        while self.node.reached < last:
            assert time.monotonic() < deadline, "the node does not follow"
            time.sleep(0.01)
        return True

    def note(self) -> bool:
        """Start to record when each fact can be read on this node."""
        self._over.clear()
        self._noting = threading.Thread(target=self._note, args=(self.node.head(),))
        self._noting.start()
        return True

    def _note(self, reached: int) -> None:
        with closing(self.node.file.listen()) as listener:
            while not self._over.is_set():
                if listener.wait(1):
                    head, now = self.node.head(), time.monotonic()
                    self._folded.update(dict.fromkeys(range(reached + 1, head + 1), now))
                    reached = head

    def noted(self, last: int) -> dict[int, float]:
        """Return the recorded times, once the fact `last` can be read."""
        deadline = time.monotonic() + MAX_S
        while last not in self._folded:
            assert time.monotonic() < deadline, "the other node does not follow"
            time.sleep(0.01)
        self._over.set()
        assert self._noting is not None
        self._noting.join()
        return self._folded

    def head(self) -> int:
        return self.node.head()


def main() -> None:
    request = json.loads(sys.stdin.readline())
    started = time.perf_counter()
    member = Member(**request)
    _answer({"facts": member.head(), "seconds": time.perf_counter() - started})
    for line in sys.stdin:
        request = json.loads(line)
        work: Callable[..., Any] = getattr(member, request.pop("do"))
        _answer(work(**request))
    member.node.close()


def _answer(found: Any) -> None:
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
