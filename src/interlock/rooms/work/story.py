"""Showing tasks: in a list, and the whole story of one, in the order of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.log.facts import Header
from interlock.log.times import rfc3339
from interlock.rooms.mail.records import by_seq, content, envelope, load, visible
from interlock.rooms.transaction import RuleAnswer, Transaction
from interlock.rooms.work.criteria import Standing
from interlock.rooms.work.holders import holders
from interlock.rooms.work.missing import missing
from interlock.rooms.work.records import (
    Task,
    blocker_view,
    blockers,
    body,
    evidence,
    evidence_view,
    find_task,
    in_force,
    task_view,
    verdict_view,
    verdicts,
)
from interlock.verbs.addresses import address
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.rooms.work.verbs import ShowTask

MAX_STORY_LENGTH = 4096


def show_task(tx: Transaction, act: ShowTask) -> RuleAnswer:
    """The task as it stands, what is missing, and its story from the beginning."""
    task = find_task(tx, act.id)
    standing = Standing(tx, task)
    said = body(tx, task.seq)
    view = task_view(tx, task) | without_none(brief=said.get("brief"))
    view["criteria"] = [standing.view(number) for number in range(1, task.criteria + 1)]
    view["gates"] = _gates(tx, task)
    return {
        "task": view,
        "missing": [] if task.has_ended else missing(tx, task),
        "story": _story(tx, task),
    }


def _gates(tx: Transaction, task: Task) -> list[RuleAnswer]:
    given = in_force(tx, task)
    found = []
    for gate in task.gates.split():
        last = given.get(gate)
        due = "due" if task.state == "submitted" else "waits"
        told = {"by": address(last.sender), "id": last.id} if last is not None else {}
        held = [address(sender) for sender in holders(tx, gate)]
        state = last.verdict if last is not None else due
        found.append({"gate": gate, "state": state, "holders": held} | told)
    return found


def _story(tx: Transaction, task: Task) -> list[RuleAnswer]:
    rows = tx.all("SELECT seq FROM work_story WHERE task = ? ORDER BY seq", task.id)
    return [_told(tx, next(iter(tx.store.facts(seq - 1)))) for (seq,) in rows]


def _told(tx: Transaction, fact: Header) -> RuleAnswer:
    head = without_none(
        seq=fact.seq,
        at=rfc3339(fact.at),
        kind=fact.kind,
        by=address(fact.sender),
        session=fact.session,
    )
    return head | _WHAT.get(fact.kind, _note)(tx, fact)


def _note(tx: Transaction, fact: Header) -> RuleAnswer:
    """What the fact itself says, and the note that was given with it."""
    shown: dict[str, Any] = {
        name: value for name, value in fact.outcome.items() if name not in ("task", "thread")
    }
    if "id" in shown and fact.kind.startswith("claim_"):
        shown["claim"] = shown.pop("id")
    return shown | without_none(note=body(tx, fact.seq).get("note"))


def _created(tx: Transaction, fact: Header) -> RuleAnswer:
    return {"title": body(tx, fact.seq).get("title", "")}


def _evidence(tx: Transaction, fact: Header) -> RuleAnswer:
    (found,) = evidence(tx, "seq = ?", fact.seq)
    return {"evidence": _shortened(evidence_view(tx, found))}


def _shortened(view: RuleAnswer) -> RuleAnswer:
    """A story is told in lines: what is longer is shown in part, and says so."""
    told = dict(view)
    command = told.get("command", "")
    if len(command if isinstance(command, str) else " ".join(command)) > MAX_STORY_LENGTH:
        words = command if isinstance(command, str) else " ".join(command)
        told |= {"command": words[:MAX_STORY_LENGTH], "part": True}
    if len(text := told.get("text", "")) > MAX_STORY_LENGTH:
        told |= {"text": text[:MAX_STORY_LENGTH], "part": True}
    return told


def _verdict(tx: Transaction, fact: Header) -> RuleAnswer:
    (found,) = verdicts(tx, "seq = ?", fact.seq)
    return {"verdict": verdict_view(tx, found)}


def _message(tx: Transaction, fact: Header) -> RuleAnswer:
    """What others wrote to each other is shown to those who may read it; that they did, to all.
    A blocker is everybody's business."""
    message = by_seq(tx, fact.seq)
    if raised := blockers(tx, "seq = ?", fact.seq):
        return {"blocker": blocker_view(tx, raised[0])}
    shown = envelope(message, None)
    if visible(tx, message) and (written := load(tx, message)) is not None:
        stop = 0 if message.type == "command" else MAX_STORY_LENGTH
        part = stop if written["size"] > MAX_STORY_LENGTH else None
        shown = envelope(message, written) | content(tx, message, written, 0, part)
    return {"message": shown}


_WHAT = {
    "task_created": _created,
    "evidence_added": _evidence,
    "verdict_given": _verdict,
    "message_sent": _message,
}
