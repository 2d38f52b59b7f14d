"""Upkeep, for the owner: rebuild the state, back the workspace up, restore it."""

import os
import shutil

from interlock import kernel
from interlock.contracts.acts import Credentials, Maintain
from interlock.errors import NotAWorkspace, Usage
from interlock.kernel.moment import Answer
from interlock.node import Node
from interlock.node import position as state
from interlock.node.turn import Turn


def rebuild(node: Node, credentials: Credentials) -> Answer:
    """Folds the whole log again and says whether the state came out the same."""
    node.call(credentials, Maintain())

    def work(turn: Turn) -> Answer:
        before = kernel.state_digest(turn.db)
        state.rebuild(turn.db, turn.engine, turn.head)
        after = kernel.state_digest(turn.db)
        return {"entries": turn.head.seq, "digest": after, "changed": before != after}

    answer: Answer = node.do(work)
    return {"rebuilt": True, "schema": kernel.SCHEMA} | answer


def state_digest(node: Node) -> str:
    with node.file.reading() as db:
        return kernel.state_digest(db)


def backup(node: Node, credentials: Credentials, target: str) -> Answer:
    """Copies the workspace into a new file, while it is in use. Tokens and keys kept beside the
    log are not in it."""
    node.call(credentials, Maintain())
    node.file.backup(target)
    with node.file.reading() as db:
        head = node.engine.head(db)
    return {"file": target, "entries": head.seq, "bytes": os.stat(target).st_size}


def restore(node: Node, credentials: Credentials, source: str) -> Answer:
    """Puts a backup in place of the log, as a new epoch that names what it abandons.

    The epoch is appended to a copy first, and the copy replaces the log in one transaction, so a
    crash leaves either the old log or the new epoch. What is abandoned is kept beside."""
    node.call(credentials, Maintain())
    if not os.path.isfile(source):
        raise NotAWorkspace(f"{source} is not a backup: there is no such file.")
    with node.file.reading() as db:
        abandoned = state.load(db)
    draft = os.path.join(node.directory, f"restoring-{os.getpid()}")
    os.mkdir(draft, 0o700)
    try:
        answer = _prepare(node, draft, source, abandoned)
        aside = os.path.join(node.directory, f"abandoned-{abandoned.epoch}-{abandoned.seq}.db")
        if not os.path.exists(aside):
            node.file.backup(aside)
        node.keys.set_aside(f"abandoned-{abandoned.epoch}-{abandoned.seq}")
        with node.alone():
            node.file.overwrite(os.path.join(draft, "log.db"))
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    node.file.ring()
    return answer | {"abandoned": aside}


def _prepare(node: Node, draft: str, source: str, abandoned: state.Position) -> Answer:
    node.file.copy(source, os.path.join(draft, "log.db"))

    def work(turn: Turn) -> Answer:
        position = turn.position
        if position.workspace != abandoned.workspace and abandoned.seq > 1:
            raise Usage(
                "That backup is of another workspace. Restore it into a new one: interlock "
                "--workspace DIRECTORY restore FILE"
            )
        moment = turn.system()
        moment.epoch = max(position.epoch, abandoned.epoch) + 1
        outcome = {
            "reason": "restore",
            "verifier": node.keys.verifier(position.workspace),
            "abandoned": {
                "epoch": abandoned.epoch,
                "seq": abandoned.seq,
                "root": abandoned.frontier.root().hex(),
            },
        }
        fact = moment.record("epoch_started", outcome)
        return {"restored": True, "epoch": fact.epoch, "entries": fact.seq}

    with Node(draft, adopt=True) as restored:
        answer: Answer = restored.do(work)
        return answer
