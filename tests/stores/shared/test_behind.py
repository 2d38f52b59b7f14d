"""A node that is behind the others never answers from the past."""

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
from world.tcp_proxy import HoldingProxy
from world.teams import Team
from world.workspace import join

LIMIT_S = 60.0
# What a node says to each engine when it asks for the turn.
ASKS_FOR_THE_TURN = {"postgres": b"FOR UPDATE", "redis": b":turn"}


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
    with HoldingProxy(remote.server.port) as proxy:
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
