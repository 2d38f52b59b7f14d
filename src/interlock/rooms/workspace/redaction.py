"""Redaction: a body that should never have been written is erased, and every proof stays valid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.errors import MissingScope, NotFound
from interlock.log.encoding import canonical
from interlock.rooms.identity.names import agent_of
from interlock.rooms.mail.records import locate
from interlock.rooms.transaction import RuleAnswer, Transaction
from interlock.rooms.work.records import blockers, find_evidence, tasks, verdicts
from interlock.rooms.workspace.events import ADMINS, event, viewer_names

if TYPE_CHECKING:
    from interlock.rooms.mail.verbs import Redact


class Found(NamedTuple):
    """What is to be erased: the fact with the body, and others that repeat it."""

    id: str
    seq: int
    sender: str
    copies: tuple[int, ...] = ()


def redact(tx: Transaction, act: Redact) -> RuleAnswer:
    """Removes for ever what was said in a message, a piece of evidence, a verdict or a task, or
    with any other fact."""
    admin = "admin" in tx.caller.scopes
    found = _find(tx, act.message, of_all=admin)
    if not admin and agent_of(tx.state, found.sender) != tx.caller.agent:
        raise MissingScope(
            "Only its sender, or a token with the scope admin, can redact it.", scope="admin"
        )
    for seq in (found.seq, *found.copies):
        if tx.store.body(seq) is not None:
            tx.append("body_redacted", {"target": seq}, canonical({"reason": act.reason}))
            tx.store.forget(seq)
    return {"redacted": True, "id": found.id, "seq": found.seq}


def _find(tx: Transaction, reference: str, *, of_all: bool) -> Found:
    column, value = _named(reference)
    for task in tasks(tx, f"{column} = ?", value):
        told = _mail(tx, task.thread, "task_created")
        end = () if task.ended is None else (task.ended,)
        return Found(task.id, task.seq, task.sender, told + end)
    try:
        message = locate(tx, reference, of_all=of_all)
        return Found(message.id, message.seq, message.sender, _resolution(tx, message.seq))
    except NotFound as nothing:
        found = _work(tx, reference) or _fact(tx, reference)
        if found is None:
            raise nothing from None
        return found


def _resolution(tx: Transaction, seq: int) -> tuple[int, ...]:
    """Where a message is a blocker that was resolved: the fact that says so."""
    ends = (blocker.resolved for blocker in blockers(tx, "seq = ?", seq))
    return tuple(end for end in ends if end is not None)


def _fact(tx: Transaction, reference: str) -> Found | None:
    """Any fact with a body, by #SEQ: an end, a receipt, a redaction, each with its note. One that
    the caller would not be told of is not there, exactly as one that does not exist."""
    column, value = _named(reference)
    if column != "seq":
        return None
    fact = next(iter(tx.store.facts(value - 1)), None)
    if fact is None or fact.seq != value or fact.body is None:
        return None
    caller = tx.caller
    names = viewer_names(caller.sender, caller.agent, caller.scopes)
    is_told = caller.owner or ADMINS in names or event(tx.state, fact).concerns(names)
    return Found(f"#{fact.seq}", fact.seq, fact.sender) if is_told else None


def _work(tx: Transaction, reference: str) -> Found | None:
    """Evidence or a verdict, by its id or by #SEQ."""
    column, value = _named(reference)
    for verdict in verdicts(tx, f"{column} = ?", value):
        (task,) = tasks(tx, "id = ?", verdict.task)
        told = _mail(tx, task.thread, "blocker", "gate_verdict")
        after = [seq for seq in told if seq > verdict.seq]
        return Found(verdict.id, verdict.seq, verdict.sender, tuple(after[:1]))
    try:
        piece = find_evidence(tx, reference)
    except NotFound:
        return None
    return Found(piece.id, piece.seq, piece.sender)


def _named(reference: str) -> tuple[str, Any]:
    digits = reference.removeprefix("#")
    is_position = reference.startswith("#") and digits.isdigit() and len(digits) <= 18
    return ("seq", int(digits)) if is_position else ("id", reference)


def _mail(tx: Transaction, thread: str, *types: str) -> tuple[int, ...]:
    """Messages that an act wrote into a task's thread, and that repeat what it said."""
    marks = ", ".join("?" * len(types))
    rows = tx.all(
        f"SELECT seq FROM mail_messages WHERE thread = ? AND thread <> id AND type IN ({marks}) "
        "ORDER BY seq",
        thread,
        *types,
    )
    return tuple(row[0] for row in rows)
