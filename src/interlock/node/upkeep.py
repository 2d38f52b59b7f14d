"""Upkeep, for the owner: rebuild the state, back the workspace up, restore it."""

import os
import shutil

from interlock.errors import LogDamaged, NotAWorkspace, Usage
from interlock.log.merkle import Frontier
from interlock.node import Node, audit
from interlock.node import position as state
from interlock.node.batch import Batch, new_id
from interlock.rooms import folding
from interlock.rooms.workspace.rules import refuse_paused
from interlock.rooms.workspace.verbs import Maintain
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials

DRAFT = "restoring-"


def _allowed(node: Node, credentials: Credentials) -> None:
    """The owner of the file may do its upkeep whatever state it is in; anybody else needs the
    scope admin."""
    if not credentials.owner:
        node.call(credentials, Maintain())


def rebuild(node: Node, credentials: Credentials) -> Answer:
    """Folds the whole log again and says whether the state came out the same."""
    _allowed(node, credentials)

    def work(turn: Batch) -> Answer:
        before = folding.state_digest(turn.db)
        state.rebuild(turn.db, turn.engine, turn.reached())
        after = folding.state_digest(turn.db)
        return {"entries": turn.reached().seq, "digest": after, "changed": before != after}

    answer: Answer = node.do(work)
    return {"rebuilt": True, "schema": folding.SCHEMA} | answer


def storage(node: Node) -> Answer:
    """Where the log lies, and how large it is."""
    with node.file.reading() as db:
        head = node.engine.head(db)
    size = node.file.size()
    answer = {"directory": node.directory, "engine": "sqlite", "entries": head.seq, "bytes": size}
    return answer | (node.shared.standing() if node.shared else {})


def state_digest(node: Node) -> str:
    with node.file.reading() as db:
        return folding.state_digest(db)


def backup(node: Node, credentials: Credentials, target: str) -> Answer:
    """Copies the workspace into a new file, while it is in use. Tokens and keys kept beside the
    log are not in it."""
    _allowed(node, credentials)
    entries = node.file.backup(target)
    return {"file": target, "entries": entries, "bytes": os.stat(target).st_size}


def restore(node: Node, credentials: Credentials, source: str) -> Answer:
    """Puts a backup in place of the log, as a new epoch that names what it abandons.

    The epoch is appended to a copy first, and the copy replaces the log in one transaction, so a
    crash leaves either the old log or the new epoch. What is abandoned is kept beside; nobody
    writes from the look at it to its end, so nothing falls in between."""
    _allowed(node, credentials)
    if node.shared is not None:
        raise Usage(
            "A log that an engine keeps is not restored over its nodes' heads. Restore the backup "
            "into a new workspace and move that: interlock --workspace DIRECTORY restore FILE, "
            "then interlock --workspace DIRECTORY migrate --to URL"
        )
    if not os.path.isfile(source):
        raise NotAWorkspace(f"{source} is not a backup: there is no such file.")
    with node.alone(), node.file.held():
        _sweep_drafts(node.directory)
        abandoned = _abandoned(node)
        _refuse_paused(node)
        name = f"abandoned-{abandoned.epoch}-{abandoned.seq}"
        aside = os.path.join(node.directory, name + ".db")
        draft = os.path.join(node.directory, f"{DRAFT}{new_id()}")
        os.mkdir(draft, 0o700)
        try:
            answer = _prepare(node, draft, source, abandoned)
            node.file.copy(node.file.path, aside)
            node.keys.set_aside(name)
            node.file.overwrite(os.path.join(draft, "log.db"))
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    node.file.ring()
    return answer | {"abandoned": aside}


def _refuse_paused(node: Node) -> None:
    with node.file.reading() as db:
        if state.is_current(db):
            refuse_paused(db)


def _sweep_drafts(directory: str) -> None:
    """What a killed restore left behind holds bodies too."""
    for name in os.listdir(directory):
        if name.startswith(DRAFT):
            shutil.rmtree(os.path.join(directory, name), ignore_errors=True)


def _abandoned(node: Node) -> state.Position:
    with node.file.reading() as db:
        if state.is_current(db):
            return state.load(db)
        # A log that could not be folded: what its last readable header says of it.
        head, last = node.engine.head(db), state.last_readable(db)
        position = state.Position(head.seq, head.hash, Frontier())
        position.workspace, position.epoch = last.workspace, last.epoch
        return position


def _prepare(node: Node, draft: str, source: str, abandoned: state.Position) -> Answer:
    node.file.copy(source, os.path.join(draft, "log.db"))

    def work(turn: Batch) -> Answer:
        position = turn.position
        other = position.workspace != abandoned.workspace
        if other and abandoned.workspace and abandoned.seq > 1:
            raise Usage(
                "That backup is of another workspace. Restore it into a new one: interlock "
                "--workspace DIRECTORY restore FILE"
            )
        node.keys.make()
        tx = turn.system()
        tx.epoch = max(position.epoch, abandoned.epoch) + 1
        outcome = {
            "reason": "restore",
            "verifier": node.keys.verifier(position.workspace),
            "abandoned": {
                "epoch": abandoned.epoch,
                "seq": abandoned.seq,
                "root": abandoned.frontier.root().hex(),
            },
        }
        fact = tx.append("epoch_started", outcome)
        return {"restored": True, "epoch": fact.epoch, "entries": fact.seq}

    with Node(draft, clock=node.clock, adopt=True, engine="sqlite") as restored:
        found = audit.verify(restored)
        if not found["ok"]:
            raise LogDamaged(f"That backup does not verify. {found['message']}", seq=found["seq"])
        answer: Answer = restored.do(work)
        return answer
