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


def authorize(node: Node, credentials: Credentials) -> None:
    """The owner of the file may maintain it in any state. Any other caller needs the scope
    admin."""
    if not credentials.owner:
        node.call(credentials, Maintain())


def rebuild(node: Node, credentials: Credentials) -> Answer:
    """Rebuild the state from the log, and say whether it changed."""
    authorize(node, credentials)

    def work(batch: Batch) -> Answer:
        before = folding.state_digest(batch.db)
        state.rebuild(batch.db, batch.engine, batch.reached())
        after = folding.state_digest(batch.db)
        return {"entries": batch.reached().seq, "digest": after, "changed": before != after}

    answer: Answer = node.do(work)
    return {"rebuilt": True, "schema": folding.SCHEMA} | answer


def storage(node: Node) -> Answer:
    """Where the log is, and how large it is."""
    with node.file.reading() as db:
        head = node.engine.head(db)
    size = node.file.size()
    answer = {"directory": node.directory, "engine": "sqlite", "entries": head.seq, "bytes": size}
    return answer | (node.shared.standing() if node.shared else {})


def state_digest(node: Node) -> str:
    with node.file.reading() as db:
        return folding.state_digest(db)


def backup(node: Node, credentials: Credentials, target: str) -> Answer:
    """Copy the workspace into a new file while it is in use. The copy has no tokens and keys from
    beside the log."""
    authorize(node, credentials)
    entries = node.file.backup(target)
    return {"file": target, "entries": entries, "bytes": os.stat(target).st_size}


def restore(node: Node, credentials: Credentials, source: str) -> Answer:
    """Replace the log by a backup, as a new epoch that names the log it abandons.

    The epoch is appended to a copy first, and the copy replaces the log in one transaction, so a
    crash leaves either the old log or the new epoch. No process writes in between, and the
    abandoned log is kept in a file of its own."""
    authorize(node, credentials)
    if node.shared is not None:
        raise Usage(
            "A log that an engine keeps is not restored over its nodes' heads. Restore the backup "
            "into a new workspace and move that: interlock --workspace DIRECTORY restore FILE, "
            "then interlock --workspace DIRECTORY migrate --to URL"
        )
    if not os.path.isfile(source):
        raise NotAWorkspace(f"{source} is not a backup: there is no such file.")
    with node.alone(), node.file.held():
        # Drafts of a killed restore hold bodies too.
        for name in os.listdir(node.directory):
            if name.startswith(DRAFT):
                shutil.rmtree(os.path.join(node.directory, name), ignore_errors=True)
        with node.file.reading() as db:
            if state.is_current(db):
                abandoned = state.load(db)
                refuse_paused(db)
            else:  # a log that could not be folded: its last readable header identifies it
                head, last = node.engine.head(db), state.last_readable(db)
                abandoned = state.Position(head.seq, head.hash, Frontier())
                abandoned.workspace, abandoned.epoch = last.workspace, last.epoch
        name = f"abandoned-{abandoned.epoch}-{abandoned.seq}"
        aside = os.path.join(node.directory, name + ".db")
        draft = os.path.join(node.directory, f"{DRAFT}{new_id()}")
        os.mkdir(draft, 0o700)
        try:
            node.file.copy(source, os.path.join(draft, "log.db"))
            answer = _begin_epoch(node, draft, abandoned)
            node.file.copy(node.file.path, aside)
            node.keys.set_aside(name)
            node.file.overwrite(os.path.join(draft, "log.db"))
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    node.file.ring()
    return answer | {"abandoned": aside}


def _begin_epoch(node: Node, draft: str, abandoned: state.Position) -> Answer:
    """Verify the backup in the draft directory, and append the new epoch to it."""

    def work(batch: Batch) -> Answer:
        position = batch.position
        other = position.workspace != abandoned.workspace
        if other and abandoned.workspace and abandoned.seq > 1:
            raise Usage(
                "That backup is of another workspace. Restore it into a new one: interlock "
                "--workspace DIRECTORY restore FILE"
            )
        node.keys.make()
        tx = batch.system()
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
