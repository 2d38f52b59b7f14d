"""A node that is behind the others never answers from the past."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from interlock.errors import EngineUnavailable
from interlock.node import Node
from interlock.node.pipeline import WriteRequest, validate
from interlock.node.write_queue import PendingWrite
from interlock.rooms.claims.verbs import AcquireClaim, ReleaseClaim
from interlock.rooms.workspace.verbs import Whoami
from interlock.verbs.credentials import Credentials
from world.remotes import Remotes
from world.teams import Team
from world.workspace import join

LIMIT_S = 60.0
# What a node says to each engine when it asks for the turn.
ASKS_FOR_THE_TURN = {"postgres": b"FOR UPDATE", "redis": b":turn"}


class Valve:
    """A proxy between a node and its engine that can hold an answer back, as where the
    node is stopped before it hears it."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._needle: bytes | None = None
        self.holds = threading.Event()
        self._may_go = threading.Event()
        self._threads: list[threading.Thread] = []
        self._ends: list[socket.socket] = []
        self._run(self._accept)

    def hold_at(self, needle: bytes) -> None:
        """Lets these bytes pass once, and nothing back on that connection until `let_go`."""
        self.holds.clear()
        self._may_go.clear()
        self._needle = needle

    def let_go(self) -> None:
        self._needle = None
        self._may_go.set()

    def __enter__(self) -> "Valve":
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()
        for end in (self._listener, *self._ends):
            _hang_up(end)
        for thread in self._threads:
            thread.join()
        for end in (self._listener, *self._ends):
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                self._ends += [near, far]
                held = threading.Event()
                self._run(self._pass_on, near, far, held)
                self._run(self._pass_back, far, near, held)

    def _pass_on(self, near: socket.socket, far: socket.socket, held: threading.Event) -> None:
        with suppress(OSError):
            while data := near.recv(1 << 16):
                if self._needle is not None and self._needle in data:
                    self._needle = None
                    held.set()
                far.sendall(data)
        _hang_up(far)

    def _pass_back(self, far: socket.socket, near: socket.socket, held: threading.Event) -> None:
        with suppress(OSError):
            while data := far.recv(1 << 16):
                if held.is_set():
                    self.holds.set()
                    self._may_go.wait(LIMIT_S)
                    held.clear()
                near.sendall(data)
        _hang_up(near)

    def _run(self, work: Callable[..., None], *given: Any) -> None:
        thread = threading.Thread(target=work, args=given, daemon=True)
        self._threads.append(thread)
        thread.start()


def _hang_up(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


def test_a_token_is_good_on_every_node_as_soon_as_one_has_minted_it(team: Team) -> None:
    ada, bert = team.open("ada"), team.open("bert")
    for number in range(30):
        who = join(ada, f"agent-{number}")
        assert bert.call(who, Whoami())["sender"] == f"agent-{number}"


def test_what_a_node_heard_before_it_slept_refuses_nobody_who_came_since(
    team: Team, remote: Remotes
) -> None:
    """Bert's node has asked for the turn, and sleeps before it hears the answer. Meanwhile what was
    held is released elsewhere, and only then somebody asks bert's for it."""
    with Valve(remote.server.port) as proxy:
        ada, bert = team.open("ada"), team.open("bert", port=proxy.port)
        otto, vera = join(ada, "otto"), join(ada, "vera")
        ada.call(otto, AcquireClaim("B-2"))
        while True:
            ada.call(otto, AcquireClaim("B-1"))
            bert.catch_up()
            proxy.hold_at(ASKS_FOR_THE_TURN[remote.kind])
            other = asked(bert, vera, AcquireClaim("B-2"))
            assert proxy.holds.wait(LIMIT_S)
            ada.call(otto, ReleaseClaim("B-1"))
            answer = asked(bert, vera, AcquireClaim("B-1"))
            proxy.let_go()
            write = answer.get(timeout=LIMIT_S)
            other.get(timeout=LIMIT_S)
            if not isinstance(write.error, EngineUnavailable):
                break  # else it slept so long that it gave up, and nothing is shown by that
        assert write.error is None
        assert write.result["acquired"], write.result


def asked(node: Node, who: Credentials, act: Any) -> "SimpleQueue[PendingWrite]":
    """Enqueue a request on a node. The write arrives in the queue when it is committed."""
    answered: SimpleQueue[PendingWrite] = SimpleQueue()
    node.queue.post(WriteRequest(validate(who, act), node.keys.fingerprint), answered.put)
    return answered
