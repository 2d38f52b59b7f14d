"""Repair: when the engine came back without entries that a node has, or with others instead."""

import os
from contextlib import closing
from itertools import islice
from typing import Any

from interlock.contracts.addresses import address
from interlock.contracts.facts import parse_header
from interlock.contracts.times import rfc3339
from interlock.engines.copying import Loss
from interlock.errors import Usage
from interlock.kernel.moment import Answer
from interlock.node import Node
from interlock.node import position as state
from interlock.node.others import Others
from interlock.node.turn import Turn

MOST_LISTED = 1000


def show(node: Node) -> Answer:
    """What this node has and the engine does not, or which other node has such."""
    shared = _shared(node)
    shared.hear(node)
    with node.file.reading() as db:
        loss = shared.engine.loss(db)
        with closing(node.engine.follow(db, loss.common)) as facts:
            lost = [_told(header) for _, header in islice(facts, MOST_LISTED)]
    answer = _answer(loss) | {"lost": lost}
    if loss.ours == loss.common and shared.engine.is_behind_others():
        return answer | {"ok": False, "elsewhere": shared.engine.heard.node}
    return answer


def restore(node: Node) -> Answer:
    """Puts back what the engine lost, from this node's copy, and says so in the log."""
    shared = _shared(node)
    with node.alone(), node.file.reading() as db:
        loss = shared.engine.put_back(db)
    if loss.ours == loss.common:
        raise Usage("The engine has every entry that this node has: there is nothing to put back.")
    outcome = {"first": loss.common + 1, "last": loss.ours, "node": shared.engine.node}
    node.do(lambda turn: turn.system().record("log_repaired", outcome))
    return _answer(loss) | {"ok": True, "restored": loss.ours - loss.common}


def give_up(node: Node) -> Answer:
    """Lets go of what the engine does not have, as a new epoch that names it: after which entry,
    how far it went, and the first entry's hash, by which other nodes know whether it was theirs;
    no hash where this node only heard of it. The node's copy as it was is kept beside."""
    shared = _shared(node)
    shared.hear(node)
    heard = shared.engine.heard
    with node.file.reading() as db:
        loss = shared.engine.loss(db)
        abandoned = state.load(db)
        first = shared.engine.at(db, loss.common + 1).hash
    # Nodes on the engine's side of a fork are further than we are, and have lost nothing.
    last = max(abandoned.seq, heard.seq if heard.seq > loss.theirs else 0)
    if loss.ours == loss.common and not shared.engine.is_behind_others():
        raise Usage("The engine has every entry that this node has: there is nothing to give up.")
    if loss.common == 0:
        raise Usage(
            "The engine has nothing of this workspace any more, and giving that up would leave "
            "none of it. Put it back: interlock repair --restore"
        )

    def work(turn: Turn) -> Any:
        moment = turn.system()
        moment.epoch = max(turn.position.epoch, abandoned.epoch, heard.epoch) + 1
        outcome = {
            "reason": "lost tail",
            "verifier": node.keys.verifier(turn.position.workspace),
            "abandoned": {
                "epoch": abandoned.epoch,
                "seq": last,
                "root": abandoned.frontier.root().hex(),
                "after": loss.common,
                "first": first,
            },
        }
        return moment.record("epoch_started", outcome)

    fact = node.settle(work)
    kept = os.path.join(node.directory, f"abandoned-{abandoned.epoch}-{abandoned.seq}.db")
    node.keys.set_aside(f"abandoned-{abandoned.epoch}-{abandoned.seq}")
    return _answer(loss) | {
        "ok": True,
        "given_up": last - loss.common,
        "epoch": fact.epoch,
        "kept": kept,
    }


def _shared(node: Node) -> Others:
    if node.shared is None:
        raise Usage(
            "The log of this workspace is in its own file, and no engine can have lost a part of "
            "it. See interlock audit verify."
        )
    return node.shared


def _answer(loss: Loss) -> Answer:
    return {
        "ok": loss.ours == loss.common,
        "common_seq": loss.common,
        "node_seq": loss.ours,
        "engine_seq": loss.theirs,
        "is_tail": loss.is_tail,
    }


def _told(header: bytes) -> Answer:
    fact = parse_header(header)
    return {
        "seq": fact.seq,
        "at": rfc3339(fact.at),
        "kind": fact.kind,
        "sender": address(fact.sender),
    }
