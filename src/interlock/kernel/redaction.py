"""Redaction: a body that should never have been written is erased, and every proof stays valid."""

from typing import Any, NamedTuple

from interlock.contracts.acts import Redact
from interlock.contracts.encoding import canonical
from interlock.errors import MissingScope, NotFound
from interlock.kernel.events import ADMINS, event, viewer_names
from interlock.kernel.identity.names import agent_of
from interlock.kernel.mail.messages import locate
from interlock.kernel.moment import Answer, Moment
from interlock.kernel.work.records import blockers, find_evidence, tasks, verdicts


class Found(NamedTuple):
    """What is to be erased: the fact with the body, and others that repeat it."""

    id: str
    seq: int
    sender: str
    copies: tuple[int, ...] = ()


def redact(moment: Moment, act: Redact) -> Answer:
    """Removes for ever what was said in a message, a piece of evidence, a verdict or a task, or
    with any other fact."""
    admin = "admin" in moment.caller.scopes
    found = _find(moment, act.message, of_all=admin)
    if not admin and agent_of(moment.state, found.sender) != moment.caller.agent:
        raise MissingScope(
            "Only its sender, or a token with the scope admin, can redact it.", scope="admin"
        )
    for seq in (found.seq, *found.copies):
        if moment.store.body(seq) is not None:
            moment.record("body_redacted", {"target": seq}, canonical({"reason": act.reason}))
            moment.store.forget(seq)
    return {"redacted": True, "id": found.id, "seq": found.seq}


def _find(moment: Moment, reference: str, *, of_all: bool) -> Found:
    column, value = _named(reference)
    for task in tasks(moment, f"{column} = ?", value):
        told = _mail(moment, task.thread, "task_created")
        end = () if task.ended is None else (task.ended,)
        return Found(task.id, task.seq, task.sender, told + end)
    try:
        message = locate(moment, reference, of_all=of_all)
        return Found(message.id, message.seq, message.sender, _resolution(moment, message.seq))
    except NotFound as nothing:
        found = _work(moment, reference) or _fact(moment, reference)
        if found is None:
            raise nothing from None
        return found


def _resolution(moment: Moment, seq: int) -> tuple[int, ...]:
    """Where a message is a blocker that was resolved: the fact that says so."""
    ends = (blocker.resolved for blocker in blockers(moment, "seq = ?", seq))
    return tuple(end for end in ends if end is not None)


def _fact(moment: Moment, reference: str) -> Found | None:
    """Any fact with a body, by #SEQ: an end, a receipt, a redaction, each with its note. One that
    the caller would not be told of is not there, exactly as one that does not exist."""
    column, value = _named(reference)
    if column != "seq":
        return None
    fact = next(iter(moment.store.facts(value - 1)), None)
    if fact is None or fact.seq != value or fact.body is None:
        return None
    caller = moment.caller
    names = viewer_names(caller.sender, caller.agent, caller.scopes)
    is_told = caller.owner or ADMINS in names or event(moment.state, fact).concerns(names)
    return Found(f"#{fact.seq}", fact.seq, fact.sender) if is_told else None


def _work(moment: Moment, reference: str) -> Found | None:
    """Evidence or a verdict, by its id or by #SEQ."""
    column, value = _named(reference)
    for verdict in verdicts(moment, f"{column} = ?", value):
        (task,) = tasks(moment, "id = ?", verdict.task)
        told = _mail(moment, task.thread, "blocker", "gate_verdict")
        after = [seq for seq in told if seq > verdict.seq]
        return Found(verdict.id, verdict.seq, verdict.sender, tuple(after[:1]))
    try:
        piece = find_evidence(moment, reference)
    except NotFound:
        return None
    return Found(piece.id, piece.seq, piece.sender)


def _named(reference: str) -> tuple[str, Any]:
    digits = reference.removeprefix("#")
    is_position = reference.startswith("#") and digits.isdigit() and len(digits) <= 18
    return ("seq", int(digits)) if is_position else ("id", reference)


def _mail(moment: Moment, thread: str, *types: str) -> tuple[int, ...]:
    """Messages that an act wrote into a task's thread, and that repeat what it said."""
    marks = ", ".join("?" * len(types))
    rows = moment.all(
        f"SELECT seq FROM mail_messages WHERE thread = ? AND thread <> id AND type IN ({marks}) "
        "ORDER BY seq",
        thread,
        *types,
    )
    return tuple(row[0] for row in rows)
