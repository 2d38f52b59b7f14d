"""Redaction: delete the body of a fact, such as a leaked secret. Every proof stays valid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.errors import MissingScope, NotFound
from interlock.log.encoding import canonical
from interlock.rooms.identity.names import agent_of
from interlock.rooms.mail.records import locate
from interlock.rooms.transaction import ADMINS
from interlock.rooms.work.records import blockers, find_evidence, tasks, verdicts
from interlock.rooms.workspace.events import event, viewer_names

if TYPE_CHECKING:
    from interlock.rooms.mail import answers, verbs
    from interlock.rooms.transaction import Transaction


class RedactionTarget(NamedTuple):
    """The fact whose body is deleted, and the positions of facts with copies or notes of it."""

    id: str
    seq: int
    sender: str
    copies: tuple[int, ...] = ()


def redact(tx: Transaction, request: verbs.Redact) -> answers.Redacted:
    """Delete the body of a message, of evidence, of a verdict, of a task, or of any other fact.

    Raises NotFound, or MissingScope unless the sender's agent or an admin calls."""
    is_admin = "admin" in tx.caller.scopes
    found = _find(tx, request.message, of_all=is_admin)
    if not is_admin and agent_of(tx.state, found.sender) != tx.caller.agent:
        raise MissingScope(
            f"Only @{found.sender}, who wrote {found.id}, or a token with the scope admin can "
            "redact it. Ask them.",
            scope="admin",
        )
    for seq in (found.seq, *found.copies):
        if tx.store.body(seq) is not None:
            tx.append("body_redacted", {"target": seq}, canonical({"reason": request.reason}))
            tx.store.forget(seq)
    return {"redacted": True, "id": found.id, "seq": found.seq}


def _find(tx: Transaction, reference: str, *, of_all: bool) -> RedactionTarget:
    digits = reference.removeprefix("#")
    is_position = reference.startswith("#") and digits.isdigit() and len(digits) <= 18
    where = "seq = ?" if is_position else "id = ?"
    value: Any = int(digits) if is_position else reference

    for task in tasks(tx, where, value):
        copies = _mail(tx, task.thread, "task_created")
        if task.ended is not None:
            copies.append(task.ended)
        return RedactionTarget(task.id, task.seq, task.sender, tuple(copies))
    try:
        message = locate(tx, reference, of_all=of_all)
    except NotFound as nothing:
        missing = nothing
    else:
        # The fact that resolved a blocker may have a note about it.
        ends = [each.resolved for each in blockers(tx, "seq = ?", message.seq)]
        copies = [end for end in ends if end is not None]
        return RedactionTarget(message.id, message.seq, message.sender, tuple(copies))
    for verdict in verdicts(tx, where, value):
        (task,) = tasks(tx, "id = ?", verdict.task)
        sent = _mail(tx, task.thread, "blocker", "gate_verdict")
        after = [seq for seq in sent if seq > verdict.seq]
        return RedactionTarget(verdict.id, verdict.seq, verdict.sender, tuple(after[:1]))
    try:
        piece = find_evidence(tx, reference)
        return RedactionTarget(piece.id, piece.seq, piece.sender)
    except NotFound:
        pass
    # Any other fact with a body, such as a receipt with its note. A caller who may not see the fact
    # gets the same refusal as for a fact that does not exist.
    fact = next(iter(tx.store.facts(value - 1)), None) if is_position else None
    if fact is not None and fact.seq == value and fact.body is not None:
        caller = tx.caller
        names = viewer_names(caller.sender, caller.agent, caller.scopes)
        if caller.owner or ADMINS in names or event(tx.state, fact).concerns(names):
            return RedactionTarget(f"#{fact.seq}", fact.seq, fact.sender)
    raise missing


def _mail(tx: Transaction, thread: str, *types: str) -> list[int]:
    """The messages of these types in a task's thread. A rule wrote them, and they repeat texts of
    the task."""
    marks = ", ".join("?" * len(types))
    return tx.column(
        f"SELECT seq FROM mail_messages WHERE thread = ? AND thread <> id AND type IN ({marks}) "
        "ORDER BY seq",
        thread,
        *types,
    )
