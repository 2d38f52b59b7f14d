"""The program that crash tests run as a process: a node that executes the requests on its input.

It reads one JSON request from each line, executes it, and writes one JSON answer as a line. With
arguments it is a writer, which writes by itself until it is killed. It imports no test modules.
"""

import contextlib
import fcntl
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from interlock.errors import Refusal
from interlock.local import link
from interlock.node import Node, audit, upkeep, write_queue
from interlock.node.keys import Keys
from interlock.rooms import catalogue
from interlock.rooms.claims.verbs import AcquireClaim, ReleaseClaim
from interlock.rooms.identity import token_format
from interlock.rooms.identity.verbs import Join
from interlock.rooms.mail.verbs import ListInbox, SendMessage
from interlock.rooms.workspace.verbs import ChangeSetting, ShowStatus
from interlock.stores.sqlite import LogFile, clock_ms
from interlock.verbs.credentials import Credentials

VERBS = {verb.__name__: verb for verb in catalogue.verbs()}

OWNER = Credentials(owner=True)

Json = dict[str, Any]


def say(answer: Any) -> None:
    """Write a line in one call, so that a killed process has written all of it or nothing."""
    os.write(1, json.dumps(answer).encode() + b"\n")


class Clock:
    """The machine's clock, moved by the number in a file. It can suspend the process at COMMIT."""

    def __init__(self, moved: str | None) -> None:
        self._moved = moved
        self._stop_in = 0

    def stop_before_commit(self) -> None:
        """Suspend at the second call. A turn reads the clock at its start and before COMMIT."""
        self._stop_in = 2

    def __call__(self) -> int:
        if self._stop_in:
            self._stop_in -= 1
            if not self._stop_in:
                os.kill(os.getpid(), signal.SIGSTOP)
        if self._moved is None:
            return clock_ms()
        with open(self._moved, encoding="utf-8") as file:
            return clock_ms() + int(file.read())


class Server:
    """The requests of a worker: `do_NAME` executes the request NAME."""

    def __init__(self) -> None:
        self._node: Node | None = None
        self._clock = Clock(None)

    @property
    def node(self) -> Node:
        assert self._node is not None
        return self._node

    def serve(self, request: Json) -> Json:
        if gate := request.pop("gate", None):
            file = os.open(gate, os.O_RDWR | os.O_CLOEXEC)
            say({"armed": True})
            fcntl.flock(file, fcntl.LOCK_SH)
            os.close(file)
        try:
            answer: Json = getattr(self, "do_" + request.pop("do"))(**request)
        except Refusal as refusal:
            answer = {"refused": refusal.code} | refusal.as_dict()
        except Exception as defect:  # noqa: BLE001 - the test must see defects too
            answer = {"refused": "DEFECT", "message": repr(defect)}
        return answer

    def do_open(
        self, directory: str, patience_s: float | None = None, moved: str | None = None
    ) -> Json:
        """Open the workspace. Create it if it does not exist."""
        if patience_s is not None:
            write_queue.PATIENCE_S = patience_s
        self._clock = Clock(moved)
        if moved is None:
            self._node = link.open_node(directory)
        else:
            self._node = Node(directory, clock=self._clock)
        return self.node.call(OWNER, ShowStatus())

    def do_open_late(self, directory: str) -> Json:
        """Open a workspace, with a pause after the check that it does not exist yet."""
        with paused_at(os.listdir):
            return self.do_open(directory)

    def do_open_stopping(self, directory: str) -> Json:
        """Open the workspace with a clock that can suspend the process."""
        self._clock = Clock(None)
        self._node = Node(directory, clock=self._clock)
        return {}

    def do_patience(self, seconds: float) -> Json:
        write_queue.PATIENCE_S = seconds
        return {"seconds": seconds}

    def do_close(self) -> Json:
        self.node.close()
        return {"closed": True}

    def do_call(self, token: str, act: str, **members: Any) -> Json:
        """Call one verb by its name."""
        return self.node.call(Credentials(token=token), VERBS[act](**members))

    def do_stop_before_commit(self, token: str, to: str, text: str) -> Json:
        """Send, and suspend this process after its writes and before COMMIT."""
        say({"stopping": True})
        self._clock.stop_before_commit()
        return self.do_call(token, "SendMessage", to=to, type="send", payload={"text": text})

    def do_send_many(self, token: str, to: str, prefix: str, count: int) -> Json:
        """Send `count` messages one after the other. Return the position and id of each."""
        sent = []
        for number in range(count):
            act = SendMessage(to, {"text": f"{prefix}-{number}"}, "send")
            message = self.node.call(Credentials(token=token), act)["message"]
            sent.append([message["seq"], message["id"]])
        return {"sent": sent}

    def do_inbox(self, token: str, wait_s: int) -> Json:
        act = ListInbox(adapter="test", wait_s=wait_s)
        return self.node.call(Credentials(token=token), act)

    def do_acquire(self, token: str, item: str, wait_s: int) -> Json:
        act = AcquireClaim(item=item, wait_s=wait_s)
        return self.node.call(Credentials(token=token), act)

    def do_verify(self, pause: bool = False) -> Json:
        """Verify the log. With `pause`, pause before it reads the stored checkpoints."""
        with paused_at(Keys.kept) if pause else contextlib.nullcontext():
            return audit.verify(self.node)

    def do_restore(self, source: str, pause: bool = False) -> Json:
        """Restore a backup. With `pause`, pause before it replaces the log."""
        with paused_at(LogFile.overwrite) if pause else contextlib.nullcontext():
            return upkeep.restore(self.node, OWNER, source)

    def do_leave_behind(self, path: str, pipe: bool = False) -> Json:
        """Create a file as if a killed process with the same pid had left it."""
        path = path.format(pid=os.getpid(), thread=threading.get_ident())
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        if pipe:
            os.mkfifo(path, 0o600)
        else:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        return {"left": path}


@contextlib.contextmanager
def paused_at(function: Callable[..., Any]) -> Iterator[None]:
    """Pause this thread at the next call of the function by Interlock, until the test continues."""
    code = getattr(function, "__code__", None)

    def profile(frame: Any, event: str, called: object) -> None:
        enters = event == "call" and frame.f_code is code
        calls = event == "c_call" and called is function
        if (enters or calls) and frame.f_globals["__name__"].startswith("interlock."):
            sys.setprofile(None)
            say({"paused": True})
            sys.stdin.readline()

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)


class Writer:
    """Writes without end through one node from several threads, so that group commits form.

    It writes `["?", text]` before a request with a key, and `["!", kind, text, …]` after each
    answer. Its clock never returns the same time twice, so facts with one time have one COMMIT.
    """

    def __init__(self, directory: str, token: str, prefix: str) -> None:
        self._last = 0
        self.prefix = prefix
        self.credentials = Credentials(token=token)
        say(["opening"])
        os.makedirs(directory, 0o700, exist_ok=True)
        self.node = Node(directory, clock=self._clock)
        say(["opened"])

    def _clock(self) -> int:
        self._last = max(self._last + 1, clock_ms())
        return self._last

    def prepare(self) -> None:
        """Register the writer in a new workspace, and lift the limit of messages."""
        unlimited = ChangeSetting("limits.sends_per_minute", "0")
        self.node.call(OWNER, unlimited)
        token_hash = token_format.hashed(self.credentials.token or "")
        self.node.call(OWNER, Join("writer", token_hash=token_hash))
        say(["!", "joined", "writer"])

    def write(self, threads: int) -> None:
        """Write in `threads` threads until the input ends."""
        for number in range(threads):
            threading.Thread(target=self._write_forever, args=(number,), daemon=True).start()
        sys.stdin.read()

    def _write_forever(self, thread: int) -> None:
        number = 0
        try:
            while True:
                for act in (self._send_keyed, self._send_keyed, self._send, self._claim):
                    number += 1
                    act(f"{self.prefix}-{thread}-{number}")
        except Exception as trouble:  # noqa: BLE001 - the test must see every error
            say(["error", repr(trouble)])

    def _send_keyed(self, text: str) -> None:
        say(["?", text])
        self._send(text, key=text)

    def _send(self, text: str, key: str | None = None) -> None:
        act = SendMessage("@reader", {"text": text}, "send", key=key)
        message = self.node.call(self.credentials, act)["message"]
        say(["!", "sent", text, message["id"], message["seq"]])

    def _claim(self, text: str) -> None:
        claim = self.node.call(self.credentials, AcquireClaim(item=text))["claim"]
        say(["!", "claimed", text, claim["id"], claim["fence"]])
        self.node.call(self.credentials, ReleaseClaim(item=text, fence=claim["fence"]))
        say(["!", "released", text, claim["id"], claim["fence"]])


def main() -> None:
    if len(sys.argv) > 1:
        directory, token, prefix, threads, fresh = sys.argv[1:]
        writer = Writer(directory, token, prefix)
        if fresh == "fresh":
            writer.prepare()
        writer.write(int(threads))
        return
    server = Server()
    for line in sys.stdin:
        say(server.serve(json.loads(line)))


if __name__ == "__main__":
    main()
