"""Scripts that wait, played in a thread: when they look again."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.rooms.claims.verbs import AcquireClaim, StopWaiting
from interlock.verbs.credentials import Credentials
from interlock.rooms.identity.verbs import Join
from interlock.errors import NoIdentity
from interlock.node import Node
from interlock.node import flows as scripts
from interlock.node.flows import Flow, Sleep, flow_of, run

OWNER = Credentials(owner=True)
LIMIT_S = 30


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(str(tmp_path))
    yield node
    node.close()


def test_whoever_waits_while_nothing_happens_looks_once_a_second(node: Node) -> None:
    def waiting(seconds: float) -> Flow:
        deadline, looks = time.monotonic() + seconds, 0
        while (left := deadline - time.monotonic()) > 0:
            looks += 1
            yield Sleep(left)
        return {"looks": looks}

    assert run(node, OWNER, waiting(1.5))["looks"] <= 3


def test_a_commit_wakes_whoever_waits(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripts, "LOOK_AFTER_S", 1000.0)

    def waiting() -> Flow:
        yield Join("otto")
        yield Sleep(1000.0)
        return {"woken": True}

    assert run(node, OWNER, waiting())["woken"]


def test_a_lease_that_ends_is_noticed_though_nobody_commits(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripts, "SIGN_OF_LIFE_S", 1000.0)
    otto, vera = (Credentials(node.call(OWNER, Join(name))["token"]) for name in ("otto", "vera"))
    assert node.call(otto, AcquireClaim("B-1", ttl_s=1))["acquired"]
    deadline = time.monotonic() + LIMIT_S
    assert node.call(vera, AcquireClaim("B-1", wait_s=2 * LIMIT_S))["acquired"]
    assert time.monotonic() < deadline, "it was asked for again only when the waiting was over"


def test_whoever_goes_away_while_the_first_answer_is_on_its_way_leaves_the_queue() -> None:
    script = flow_of(AcquireClaim("B-1", wait_s=60))
    assert script is not None
    assert isinstance(next(script), AcquireClaim)
    assert script.throw(KeyboardInterrupt()) == StopWaiting("B-1")
    with pytest.raises(KeyboardInterrupt):
        script.send({})


def test_whoever_is_refused_at_once_has_no_queue_to_leave() -> None:
    script = flow_of(AcquireClaim("B-1", wait_s=60))
    assert script is not None
    next(script)
    with pytest.raises(NoIdentity):
        script.throw(NoIdentity())
