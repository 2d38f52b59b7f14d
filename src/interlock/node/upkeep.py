"""Verbs about the log itself. The node runs them without a rule of a room; `maintain` authorizes
them.

This module rebuilds the state, and makes and restores backups. `audit` verifies and shows the log,
`proofs` proves its entries, and `doctor` finds problems."""

import os
import shutil

from interlock.errors import LogDamaged, NotAWorkspace, Usage
from interlock.log.merkle import Frontier
from interlock.node import SURE_FOR_S, Node, audit, proofs, state
from interlock.node.batch import Batch, Position, new_id
from interlock.node.pipeline import Validated
from interlock.rooms import folding
from interlock.rooms.transaction import refuse_paused
from interlock.rooms.workspace.events import viewer_names
from interlock.rooms.workspace.verbs import (
    Backup,
    Examine,
    ExportLog,
    Inspect,
    Maintain,
    Prove,
    ProveMany,
    Rebuild,
    Restore,
    ShowLog,
    ShowStorage,
    SignCheckpoint,
    VerifyLog,
    Whoami,
)
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials

DRAFT = "restoring-"


def maintain(node: Node, valid: Validated) -> Answer:
    """Run a maintenance verb. The owner may inspect a log in any state. Every other caller needs a
    valid token, and the scope admin for a verb that changes or copies the whole log."""
    request, credentials = valid
    owner = credentials.owner
    if not owner and isinstance(
        request, (ShowStorage, VerifyLog, SignCheckpoint, Prove, ProveMany)
    ):
        node.call(credentials, Inspect())
    match request:
        case Rebuild():
            return rebuild(node, credentials)
        case Backup():
            return backup(node, credentials, request.file)
        case Restore():
            return restore(node, credentials, request.file)
        case ExportLog():
            try:
                return audit.export(node, credentials, request.file)
            except FileExistsError:
                raise Usage(f"{request.file} exists. Give the name of a new file.") from None
            except OSError as trouble:
                raise Usage(f"Interlock cannot write {request.file}: {trouble.strerror}.") from None
        case SignCheckpoint():
            return proofs.checkpoint(node)
        case ProveMany():
            return proofs.prove_many(node, request.seqs)
        case Prove():
            if request.seq is not None:
                return proofs.prove(node, request.seq)
            assert request.since is not None
            return proofs.prove_growth(node, request.since)
        case ShowStorage():
            # Only the owner sees the location of the log. Every caller sees its length.
            hidden = () if owner else ("directory", "url")
            found = storage(node)
            return {name: value for name, value in found.items() if name not in hidden}
        case Examine():
            from interlock.node.doctor import examine

            # Only the owner and admins see findings about other senders' tokens and mail.
            everything = owner or "admin" in node.call(credentials, Whoami())["scopes"]
            return examine(node, everything=everything)
        case VerifyLog():
            answer = audit.verify(node, request.checkpoint)
        case ShowLog():
            # The owner sees every fact. Other callers see the facts that concern them.
            names = None
            if not owner:
                who = node.call(credentials, Whoami())
                names = viewer_names(who["sender"], who["agent"], who["scopes"])
            answer = audit.show(node, request, names)
        case _:
            raise TypeError(f"{type(request).__name__} is not a maintenance verb")
    # Add the age of the state if the engine has not confirmed lately that it is current.
    age_s = node.engine.age_s()
    if node.shared is not None and (age_s is None or age_s > SURE_FOR_S):
        if age_s is not None:
            answer["age_s"] = int(age_s)
        if node.shared.trouble is not None:
            answer["trouble"] = node.shared.trouble.state
    return answer


def authorize(node: Node, credentials: Credentials) -> None:
    """Refuse a caller that is neither the owner nor has the scope admin. The owner may maintain a
    log in any state."""
    if not credentials.owner:
        node.call(credentials, Maintain())


def rebuild(node: Node, credentials: Credentials) -> Answer:
    """Rebuild the state from the log, and report whether it changed."""
    authorize(node, credentials)

    def work(batch: Batch) -> Answer:
        before = folding.state_digest(batch.db)
        state.rebuild(batch.db, batch.engine, batch.reached())
        after = folding.state_digest(batch.db)
        return {"entries": batch.reached().seq, "digest": after, "changed": before != after}

    answer: Answer = node.do(work)
    return {"rebuilt": True, "schema": folding.SCHEMA} | answer


def storage(node: Node) -> Answer:
    """Return the location and the size of the log."""
    with node.file.reading() as db:
        head = node.engine.head(db)
    size = node.file.size()
    answer = {"directory": node.directory, "engine": "sqlite", "entries": head.seq, "bytes": size}
    return answer | (node.shared.standing(node) if node.shared else {})


def state_digest(node: Node) -> str:
    with node.file.reading() as db:
        return folding.state_digest(db)


def backup(node: Node, credentials: Credentials, target: str) -> Answer:
    """Copy the log into a new file while the workspace is in use. The copy does not contain the
    credentials and keys of the workspace's directory."""
    authorize(node, credentials)
    entries = node.file.backup(target)
    return {"file": target, "entries": entries, "bytes": os.stat(target).st_size}


def restore(node: Node, credentials: Credentials, source: str) -> Answer:
    """Replace the log with a backup, and start a new epoch that names the abandoned log.

    The node appends the epoch to a copy first. The copy then replaces the log in one transaction,
    so a crash leaves either the old log or the new epoch. No process writes meanwhile. The node
    saves the abandoned log in a file of its own."""
    authorize(node, credentials)
    if node.shared is not None:
        raise Usage(
            "The log is on a shared engine, where a backup cannot replace it. Restore the backup "
            "into a new workspace, and move that to the engine: interlock --workspace DIRECTORY "
            "restore FILE && interlock --workspace DIRECTORY migrate --to URL"
        )
    if not os.path.isfile(source):
        raise NotAWorkspace(
            f"The file {source} does not exist. Give a file that interlock backup wrote."
        )
    with node.alone(), node.file.held():
        # Delete the drafts of a killed restore, because they contain bodies.
        for name in os.listdir(node.directory):
            if name.startswith(DRAFT):
                shutil.rmtree(os.path.join(node.directory, name), ignore_errors=True)
        with node.file.reading() as db:
            if state.is_current(db):
                abandoned = state.load(db)
                refuse_paused(db)
            else:  # a log that could not be folded: its last readable header identifies it
                head, last = node.engine.head(db), state.last_readable(db)
                abandoned = Position(head.seq, head.hash, Frontier())
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
        except NotAWorkspace:
            raise NotAWorkspace(
                f"{source} is not a backup of a workspace. Nothing was changed. Give a file that "
                "interlock backup wrote."
            ) from None
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    node.file.ring()
    return answer | {"abandoned": aside}


def _begin_epoch(node: Node, draft: str, abandoned: Position) -> Answer:
    """Verify the backup in the draft directory, and append the new epoch to it."""

    def work(batch: Batch) -> Answer:
        position = batch.position
        other = position.workspace != abandoned.workspace
        if other and abandoned.workspace and abandoned.seq > 1:
            raise Usage(
                "This is a backup of another workspace. Restore it into a new one: interlock "
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
            raise LogDamaged(f"The backup is damaged. {found['message']}", seq=found["seq"])
        answer: Answer = restored.do(work)
        return answer
