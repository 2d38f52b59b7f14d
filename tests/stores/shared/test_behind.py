"""A node that is behind the others never answers from an old state."""

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
# Part of each engine's request for the turn.
TURN_REQUEST = {"postgres": b"FOR UPDATE", "redis": b":turn"}


def test_a_token_is_valid_on_every_node_as_soon_as_one_has_minted_it(team: Team) -> None:
    ada, bert = team.open("ada"), team.open("bert")
    for number in range(30):
        who = join(ada, f"agent-{number}")
        assert bert.call(who, Whoami())["sender"] == f"agent-{number}"


def test_a_node_that_was_suspended_decides_later_requests_at_the_new_head(
    team: Team, remote: Remotes
) -> None:
    """Bert's node has requested the turn, and is suspended before it gets the answer. Meanwhile the
    holder releases its claim on another node. Only then does vera request it on bert's node."""
    with HoldingProxy(remote.server.port) as proxy:
        ada, bert = team.open("ada"), team.open("bert", port=proxy.port)
        otto, vera = join(ada, "otto"), join(ada, "vera")
        ada.call(otto, AcquireClaim("B-2"))
        while True:
            ada.call(otto, AcquireClaim("B-1"))
            bert.catch_up()
            proxy.hold_at(TURN_REQUEST[remote.kind])
            other = asked(bert, vera, AcquireClaim("B-2"))
            assert proxy.holds.wait(LIMIT_S)
            ada.call(otto, ReleaseClaim("B-1"))
            answer = asked(bert, vera, AcquireClaim("B-1"))
            proxy.let_go()
            write = answer.get(timeout=LIMIT_S)
            other.get(timeout=LIMIT_S)
            if not isinstance(write.error, EngineUnavailable):
                break  # else it was suspended for too long and gave up, which proves nothing
        assert write.error is None
        assert write.result["acquired"], write.result


def asked(node: Node, who: Credentials, act: Any) -> "SimpleQueue[PendingWrite]":
    """Enqueue a request on a node. The write arrives in the queue when it is committed."""
    answered: SimpleQueue[PendingWrite] = SimpleQueue()
    node.queue.post(WriteRequest(validate(who, act), node.keys.fingerprint), answered.put)
    return answered
