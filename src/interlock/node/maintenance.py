"""Verbs about the log itself. The node runs them, and no rule decides them."""

from collections.abc import Callable
from typing import Any

from interlock.errors import Usage
from interlock.node import SURE_FOR_S, Node, audit, proofs, upkeep
from interlock.node.pipeline import Validated
from interlock.rooms.workspace.events import viewer_names
from interlock.rooms.workspace.verbs import (
    Backup,
    Examine,
    ExportLog,
    Inspect,
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


def maintain(node: Node, valid: Validated) -> Answer:
    """Run a maintenance verb."""
    request, credentials = valid
    return MAINTENANCE[type(request)](node, credentials, request)


def _authenticated(node: Node, credentials: Credentials) -> None:
    """The owner may inspect a log in any state. Every other caller needs a valid token."""
    if not credentials.owner:
        node.call(credentials, Inspect())


def _dated(node: Node, answer: Answer) -> Answer:
    """Add the age of the state, where the engine has not confirmed that it is current."""
    age_s = node.engine.age_s()
    if node.shared is None or (age_s is not None and age_s <= SURE_FOR_S):
        return answer
    age = {} if age_s is None else {"age_s": int(age_s)}
    why = {} if node.shared.trouble is None else {"trouble": node.shared.trouble.state}
    return answer | age | why


def _verify(node: Node, credentials: Credentials, request: VerifyLog) -> Answer:
    _authenticated(node, credentials)
    return _dated(node, audit.verify(node, request.checkpoint))


def _show(node: Node, credentials: Credentials, request: ShowLog) -> Answer:
    """The owner sees every fact. Other callers see the facts that concern them."""
    if credentials.owner:
        return _dated(node, audit.show(node, request))
    who = node.call(credentials, Whoami())
    names = viewer_names(who["sender"], who["agent"], who["scopes"])
    return _dated(node, audit.show(node, request, names))


def _checkpoint(node: Node, credentials: Credentials, request: SignCheckpoint) -> Answer:
    _authenticated(node, credentials)
    return proofs.checkpoint(node)


def _prove(node: Node, credentials: Credentials, request: Prove) -> Answer:
    _authenticated(node, credentials)
    if request.seq is not None:
        return proofs.prove(node, request.seq)
    assert request.since is not None
    return proofs.prove_growth(node, request.since)


def _prove_many(node: Node, credentials: Credentials, request: ProveMany) -> Answer:
    _authenticated(node, credentials)
    return proofs.prove_many(node, request.seqs)


def _storage(node: Node, credentials: Credentials, request: ShowStorage) -> Answer:
    """Only the owner sees the location of the log. Every caller sees its length."""
    _authenticated(node, credentials)
    found = upkeep.storage(node)
    if not credentials.owner:
        found = {name: said for name, said in found.items() if name not in ("directory", "url")}
    return found


def _export(node: Node, credentials: Credentials, request: ExportLog) -> Answer:
    try:
        return audit.export(node, credentials, request.file)
    except FileExistsError:
        raise Usage(f"{request.file} exists. Give a new file.") from None
    except OSError as trouble:
        raise Usage(f"{request.file} cannot be written: {trouble.strerror}.") from None


def _backup(node: Node, credentials: Credentials, request: Backup) -> Answer:
    return upkeep.backup(node, credentials, request.file)


def _restore(node: Node, credentials: Credentials, request: Restore) -> Answer:
    return upkeep.restore(node, credentials, request.file)


def _rebuild(node: Node, credentials: Credentials, request: Rebuild) -> Answer:
    return upkeep.rebuild(node, credentials)


def _examine(node: Node, credentials: Credentials, request: Examine) -> Answer:
    """Only the owner and admins see findings about other senders' tokens and mail."""
    from interlock.node.doctor import examine

    if credentials.owner:
        return examine(node)
    who = node.call(credentials, Whoami())
    return examine(node, everything="admin" in who["scopes"])


MAINTENANCE: dict[type, Callable[[Node, Credentials, Any], Answer]] = {
    ShowStorage: _storage,
    Examine: _examine,
    VerifyLog: _verify,
    ShowLog: _show,
    SignCheckpoint: _checkpoint,
    Prove: _prove,
    ProveMany: _prove_many,
    ExportLog: _export,
    Backup: _backup,
    Restore: _restore,
    Rebuild: _rebuild,
}
