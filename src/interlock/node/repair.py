"""Repair an engine that came back without entries that a node has, or with other entries."""

import json
import os
from contextlib import closing
from itertools import islice
from typing import Any, NamedTuple

from apsw import Connection

from interlock.errors import Usage
from interlock.log.facts import parse_header
from interlock.log.times import rfc3339
from interlock.node import Node, state
from interlock.node.batch import Batch, Position
from interlock.node.peer_nodes import PeerNodes
from interlock.rooms.claims.rules import end_since
from interlock.stores.recognition import note_repair, repair_of
from interlock.stores.shared.engine import Divergence
from interlock.stores.shared.locating import record
from interlock.verbs.addresses import address
from interlock.verbs.answers import Answer

MAX_LISTED = 1000


def show(node: Node) -> Answer:
    """Return the entries that this node has and that the engine lost or changed. If another node
    has such entries, return its name."""
    shared = _shared(node)
    shared.hear(node)
    with node.file.reading() as db:
        loss = shared.engine.loss(db)
        unlike = shared.engine.unlike(db, loss.common)
        with closing(node.engine.follow(db, loss.common)) as facts:
            lost = [header for _, header in islice(facts, MAX_LISTED)]
        changed = [
            header
            for seq in unlike[:MAX_LISTED]
            for (header,) in db.execute("SELECT header FROM log WHERE seq = ?", (seq,))
        ]
        is_unsaid = repair_of(db) is not None
        are_others_ahead = loss.ours == loss.common and shared.engine.are_others_ahead(db)
    answer = _answer(loss) | {"lost": _summaries(lost), "changed": _summaries(changed)}
    if are_others_ahead:
        return answer | {"ok": False, "elsewhere": shared.engine.heard.node}
    if unlike:
        answer["ok"] = False
    if answer["ok"] and is_unsaid:
        return answer | {"ok": False, "unsaid": True}
    return answer


def restore(node: Node) -> Answer:
    """Restore the entries that the engine lost or changed from this node's copy, and record that in
    the log. Save the outcome in the file first: after a crash, the next repair records it."""
    shared = _shared(node)
    engine = shared.engine
    with node.alone():
        with node.file.reading() as db:
            loss = engine.loss(db)
            unlike = engine.unlike(db, loss.common)
            before = repair_of(db)
        if loss.ours > loss.common and not loss.is_tail:
            raise engine.forked(loss)
        positions = [*unlike, *((loss.common + 1, loss.ours) if loss.ours > loss.common else ())]
        mended = len(unlike)
        if before is not None:  # an earlier repair that the log has not recorded
            unsaid = json.loads(before)
            positions += [unsaid["first"], unsaid["last"]]
            mended += unsaid.get("mended", 0)
        if not positions:
            raise Usage(
                "The engine has every entry that this node has. There is nothing to restore."
            )
        outcome = {"first": min(positions), "last": max(positions), "node": engine.node}
        if mended:
            outcome["mended"] = mended
        with node.file.writing() as db:
            note_repair(db, json.dumps(outcome))
        with node.file.reading() as db:
            engine.rewrite_entries(db, unlike)
            engine.push_entries(db, loss.common)
        record(node.directory, shared.where)
    node.do(lambda batch: _record(batch, outcome, is_new=before is None))
    return _answer(loss) | {
        "ok": True,
        "restored": loss.ours - loss.common,
        "mended": unlike[:MAX_LISTED],
        "first": outcome["first"],
        "last": outcome["last"],
    }


def _record(batch: Batch, outcome: dict[str, Any], *, is_new: bool) -> None:
    """Record the repair, unless an earlier call recorded it, and delete its note in the file."""
    facts = [] if is_new else list(batch.store.facts(outcome["last"]))
    if not any(fact.kind == "log_repaired" and fact.outcome == outcome for fact in facts):
        batch.system().append("log_repaired", outcome)
    note_repair(batch.db, None)


class _Abandoned(NamedTuple):
    """The abandoned entries, as the write transaction found them."""

    loss: Divergence
    position: Position
    first: str
    last: int


def give_up(node: Node) -> Answer:
    """Abandon the entries that the engine does not have, and start a new epoch that names them.

    The epoch's fact has the position before them, the last position, and the hash of the first
    one. By that hash, other nodes know whether they have these entries too. The hash is empty if
    only other nodes have the entries. The node's old log is saved in a file of its own."""
    shared = _shared(node)
    shared.hear(node)
    heard = shared.engine.heard
    given_up: list[_Abandoned] = []

    def check(db: Connection, loss: Divergence) -> None:
        if loss.ours == loss.common and not shared.engine.are_others_ahead(db):
            raise Usage(
                "The engine has every entry that this node has. There is nothing to abandon."
            )
        if loss.common == 0:
            raise Usage(
                "The engine has no entry of this workspace any more, so this would abandon the "
                "whole log. Restore the log from this node: interlock repair --restore"
            )
        position = state.load(db)
        # Nodes that follow the engine's branch of a fork may be ahead of this node. They have lost
        # no entries, so their positions do not count.
        last = max(position.seq, heard.seq if heard.seq > loss.theirs else 0)
        first = shared.engine.at(db, loss.common + 1).hash
        given_up.append(_Abandoned(loss, position, first, last))

    def work(batch: Batch) -> Any:
        loss, position, first, last = given_up[-1]
        tx = batch.system()
        tx.epoch = max(batch.position.epoch, position.epoch, heard.epoch) + 1
        outcome = {
            "reason": "lost tail",
            "verifier": node.keys.verifier(batch.position.workspace),
            "abandoned": {
                "epoch": position.epoch,
                "seq": last,
                "root": position.frontier.root().hex(),
                "after": loss.common,
                "first": first,
            },
        }
        fact = tx.append("epoch_started", outcome)
        end_since(tx, loss.common)
        note_repair(batch.db, None)
        return fact

    fact = node.settle(check, work)
    loss, position, _, last = given_up[-1]
    name = f"abandoned-{position.epoch}-{position.seq}"
    node.keys.set_aside(name)
    return _answer(loss) | {
        "ok": True,
        "given_up": last - loss.common,
        "epoch": fact.epoch,
        "kept": os.path.join(node.directory, f"{name}.db"),
    }


def discard_aside(node: Node) -> Answer:
    """Delete the entries that a writer without the workspace's key put into the engine."""
    return {"ok": True, "discarded": _shared(node).remote.discard_aside()}


def _shared(node: Node) -> PeerNodes:
    if node.shared is None:
        raise Usage(
            "This workspace stores its log in a SQLite file, so there is no engine to repair. To "
            "check the log: interlock audit verify"
        )
    return node.shared


def _answer(loss: Divergence) -> Answer:
    return {
        "ok": loss.ours == loss.common,
        "common_seq": loss.common,
        "node_seq": loss.ours,
        "engine_seq": loss.theirs,
        "is_tail": loss.is_tail,
    }


def _summaries(headers: list[Any]) -> list[Answer]:
    return [
        {
            "seq": fact.seq,
            "at": rfc3339(fact.at),
            "kind": fact.kind,
            "sender": address(fact.sender),
        }
        for fact in map(parse_header, headers)
    ]
