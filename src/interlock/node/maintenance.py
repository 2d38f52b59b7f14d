"""Verbs about the log itself. The node runs them, and no rule decides them."""

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


def maintain(node: Node, valid: Validated) -> Answer:
    """Run a maintenance verb. The owner may inspect a log in any state; every other caller needs a
    valid token, and the scope admin for a verb that changes or copies the whole log."""
    request, credentials = valid
    owner = credentials.owner
    if not owner and isinstance(
        request, (ShowStorage, VerifyLog, SignCheckpoint, Prove, ProveMany)
    ):
        node.call(credentials, Inspect())
    match request:
        case Rebuild():
            return upkeep.rebuild(node, credentials)
        case Backup():
            return upkeep.backup(node, credentials, request.file)
        case Restore():
            return upkeep.restore(node, credentials, request.file)
        case ExportLog():
            try:
                return audit.export(node, credentials, request.file)
            except FileExistsError:
                raise Usage(f"{request.file} exists. Give a new file.") from None
            except OSError as trouble:
                raise Usage(f"{request.file} cannot be written: {trouble.strerror}.") from None
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
            found = upkeep.storage(node)
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
            raise TypeError(f"{type(request).__name__} is no maintenance verb")
    # Add the age of the state, where the engine has not confirmed that it is current.
    age_s = node.engine.age_s()
    if node.shared is not None and (age_s is None or age_s > SURE_FOR_S):
        if age_s is not None:
            answer["age_s"] = int(age_s)
        if node.shared.trouble is not None:
            answer["trouble"] = node.shared.trouble.state
    return answer
