"""Chores: what is asked of a node and decided by no rule, because it is about the log itself."""

from collections.abc import Callable
from typing import Any, NamedTuple

from interlock.contracts import acts
from interlock.contracts.acts import Credentials
from interlock.errors import Usage
from interlock.node import SURE_FOR_S, Node, audit, proofs, upkeep
from interlock.rooms.transaction import Answer
from interlock.rooms.workspace.events import viewer_names


class MaintenanceVerb(NamedTuple):
    """`is_quick` chores do not go through the whole log."""

    name: str
    do: Callable[[Node, Credentials, Any], Answer]
    is_quick: bool = False


def _looked(node: Node, credentials: Credentials) -> None:
    """The owner may look at a log in whatever state it is; anybody else must be somebody."""
    if not credentials.owner:
        node.verb(credentials, acts.Inspect())


def _dated(node: Node, answer: Answer) -> Answer:
    """What is read while nobody confirms that it is the end of the log says so, and how old it
    is."""
    age_s = node.engine.age_s()
    if node.shared is None or (age_s is not None and age_s <= SURE_FOR_S):
        return answer
    age = {} if age_s is None else {"age_s": int(age_s)}
    why = {} if node.shared.trouble is None else {"trouble": node.shared.trouble.state}
    return answer | age | why


def _verify(node: Node, credentials: Credentials, act: acts.VerifyLog) -> Answer:
    _looked(node, credentials)
    return _dated(node, audit.verify(node, act.checkpoint))


def _show(node: Node, credentials: Credentials, act: acts.ShowLog) -> Answer:
    """The owner sees every fact; anybody else those that they would be told of."""
    if credentials.owner:
        return _dated(node, audit.show(node, act))
    who = node.verb(credentials, acts.Whoami())
    names = viewer_names(who["sender"], who["agent"], who["scopes"])
    return _dated(node, audit.show(node, act, names))


def _checkpoint(node: Node, credentials: Credentials, act: acts.SignCheckpoint) -> Answer:
    _looked(node, credentials)
    return proofs.checkpoint(node)


def _prove(node: Node, credentials: Credentials, act: acts.Prove) -> Answer:
    _looked(node, credentials)
    if act.seq is not None:
        return proofs.prove(node, act.seq)
    assert act.since is not None
    return proofs.prove_growth(node, act.since)


def _prove_many(node: Node, credentials: Credentials, act: acts.ProveMany) -> Answer:
    _looked(node, credentials)
    return proofs.prove_many(node, act.seqs)


def _storage(node: Node, credentials: Credentials, act: acts.ShowStorage) -> Answer:
    """Where the log lies is the owner's business; how long it is, everybody's."""
    _looked(node, credentials)
    found = upkeep.storage(node)
    if not credentials.owner:
        found = {name: said for name, said in found.items() if name not in ("directory", "url")}
    return found


def _export(node: Node, credentials: Credentials, act: acts.ExportLog) -> Answer:
    try:
        return audit.export(node, credentials, act.file)
    except FileExistsError:
        raise Usage(f"{act.file} exists already; an export goes into a new file.") from None
    except OSError as trouble:
        raise Usage(f"{act.file} cannot be written: {trouble.strerror}.") from None


def _backup(node: Node, credentials: Credentials, act: acts.Backup) -> Answer:
    return upkeep.backup(node, credentials, act.file)


def _restore(node: Node, credentials: Credentials, act: acts.Restore) -> Answer:
    return upkeep.restore(node, credentials, act.file)


def _rebuild(node: Node, credentials: Credentials, act: acts.Rebuild) -> Answer:
    return upkeep.rebuild(node, credentials)


def _examine(node: Node, credentials: Credentials, act: acts.Examine) -> Answer:
    """What is about others' tokens and mail is for the owner and for admins."""
    from interlock.node.doctor import examine

    if credentials.owner:
        return examine(node)
    who = node.verb(credentials, acts.Whoami())
    return examine(node, everything="admin" in who["scopes"])


MAINTENANCE: dict[type, MaintenanceVerb] = {
    acts.ShowStorage: MaintenanceVerb("storage", _storage, is_quick=True),
    acts.Examine: MaintenanceVerb("doctor", _examine),
    acts.VerifyLog: MaintenanceVerb("audit verify", _verify),
    acts.ShowLog: MaintenanceVerb("audit show", _show, is_quick=True),
    acts.SignCheckpoint: MaintenanceVerb("audit checkpoint", _checkpoint),
    acts.Prove: MaintenanceVerb("audit prove", _prove),
    acts.ProveMany: MaintenanceVerb("audit prove", _prove_many),
    acts.ExportLog: MaintenanceVerb("audit export", _export),
    acts.Backup: MaintenanceVerb("backup", _backup),
    acts.Restore: MaintenanceVerb("restore", _restore),
    acts.Rebuild: MaintenanceVerb("rebuild", _rebuild),
}
