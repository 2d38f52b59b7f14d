"""Verbs that wait, in a thread: when they check again, and how they end."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import interlock.node
from interlock.errors import NoIdentity, Usage
from interlock.node import Node, flows
from interlock.node.flows import flow_of
from interlock.rooms.claims.verbs import AcquireClaim, StopWaiting
from interlock.rooms.identity.verbs import CreateGroup, Join, MintToken
from interlock.rooms.mail.verbs import SendMessage
from interlock.verbs.credentials import Credentials
from interlock.verbs.flows import Flow, Sleep, run_async

OWNER = Credentials(owner=True)
LIMIT_S = 30


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(str(tmp_path))
    yield node
    node.close()


def test_a_waiter_checks_once_a_second_without_commits(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def waiting(seconds: float) -> Flow[dict[str, Any]]:
        deadline, checks = time.monotonic() + seconds, 0
        while (left := deadline - time.monotonic()) > 0:
            checks += 1
            yield Sleep(left)
        return {"checks": checks}

    monkeypatch.setattr(interlock.node, "flow_of", lambda request: waiting(request.wait_s))
    assert node.call(OWNER, AcquireClaim("B-1", wait_s=2))["checks"] <= 3


def test_a_commit_wakes_a_waiting_flow(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interlock.node, "CHECK_AGAIN_S", 1000.0)

    def waiting() -> Flow[dict[str, Any]]:
        yield Join("otto")
        yield Sleep(1000.0)
        return {"woken": True}

    monkeypatch.setattr(interlock.node, "flow_of", lambda request: waiting())
    assert node.call(OWNER, AcquireClaim("B-1", wait_s=1))["woken"]


def test_a_waiter_notices_an_expired_lease_without_a_commit(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows, "ASK_AGAIN_S", 1000.0)
    otto, vera = (Credentials(node.call(OWNER, Join(name))["token"]) for name in ("otto", "vera"))
    assert node.call(otto, AcquireClaim("B-1", ttl_s=1))["acquired"]
    deadline = time.monotonic() + LIMIT_S
    assert node.call(vera, AcquireClaim("B-1", wait_s=2 * LIMIT_S))["acquired"]
    assert time.monotonic() < deadline, "the flow asked again only at the end of the wait"


def test_a_waiter_that_disconnects_before_its_first_reply_leaves_the_queue() -> None:
    flow = flow_of(AcquireClaim("B-1", wait_s=60))
    assert flow is not None
    assert isinstance(next(flow), AcquireClaim)
    assert flow.throw(KeyboardInterrupt()) == StopWaiting("B-1")
    with pytest.raises(KeyboardInterrupt):
        flow.send({})


def test_a_refused_waiter_sends_no_stop_waiting() -> None:
    flow = flow_of(AcquireClaim("B-1", wait_s=60))
    assert flow is not None
    next(flow)
    with pytest.raises(NoIdentity):
        flow.throw(NoIdentity())


def test_cancelling_the_caller_ends_a_flow_that_a_thread_resumes() -> None:
    made: list[str] = []

    def two_requests() -> Flow[None]:
        yield "first"
        yield "second"

    async def step(request: str) -> None:
        made.append(request)
        await asyncio.Event().wait()

    async def leave() -> None:
        running = asyncio.create_task(run_async(two_requests(), step, asyncio.to_thread))
        while not made:
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(asyncio.wait_for(leave(), LIMIT_S))
    assert made == ["first"]


@pytest.mark.parametrize(
    "request_",
    [
        MintToken("otto", token_hash=cast(Any, None)),
        MintToken("otto", token_hash=cast(Any, [])),
        SendMessage("@otto", {"text": "x"}, type=cast(Any, [])),
        Join("otto", token_hash=cast(Any, 0)),
    ],
    ids=lambda request: type(request).__name__,
)
def test_a_request_with_fields_of_a_wrong_type_starts_no_flow(node: Node, request_: Any) -> None:
    with pytest.raises(Usage):
        node.call(OWNER, request_)


def test_a_request_accepts_a_list_for_a_tuple(node: Node) -> None:
    node.call(OWNER, Join("otto"))
    made = node.call(OWNER, CreateGroup("team", cast(Any, ["@otto"])))
    assert made["members"] == ["@otto"]
