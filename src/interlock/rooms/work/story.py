"""One task in full: its requirements, and its history in the order of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.log.facts import Header
from interlock.log.times import rfc3339
from interlock.rooms.mail.records import by_seq, content, envelope, load, visible
from interlock.rooms.transaction import RuleAnswer, Transaction
from interlock.rooms.work.missing import criteria, holders, missing
from interlock.rooms.work.records import (
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
    from interlock.rooms import answers

# The history shows only the beginning of a longer text.
MAX_STORY_LENGTH = 4096


def show_task(tx: Transaction, id: str) -> answers.TaskShown:
    task = find_task(tx, id)
    view = task_view(tx, task)
    view |= without_none(brief=body(tx, task.seq).get("brief"))
    view["criteria"] = [criterion.view() for criterion in criteria(tx, task)]
    given = in_force(tx, task)
    gates: list[answers.GateShown] = []
    for gate in task.gates.split():
        verdict = given.get(gate)
        waiting = "due" if task.state == "submitted" else "waits"
        gates.append(
            without_none(
                gate=gate,
                state=verdict.verdict if verdict is not None else waiting,
                holders=[address(sender) for sender in holders(tx, gate)],
                by=address(verdict.sender) if verdict is not None else None,
                id=verdict.id if verdict is not None else None,
            )
        )
    view["gates"] = gates
    rows = tx.all("SELECT seq FROM work_story WHERE task = ? ORDER BY seq", task.id)
    return {
        "task": view,
        "missing": [] if task.has_ended else missing(tx, task),
        "story": [_entry(tx, next(iter(tx.store.facts(seq - 1)))) for (seq,) in rows],
    }


def _entry(tx: Transaction, fact: Header) -> dict[str, Any]:
    """A fact of the history: when, by whom, and its content."""
    entry: dict[str, Any] = without_none(
        seq=fact.seq,
        at=rfc3339(fact.at),
        kind=fact.kind,
        by=address(fact.sender),
        session=fact.session,
    )
    if fact.kind == "task_created":
        entry["title"] = body(tx, fact.seq).get("title", "")
    elif fact.kind == "evidence_added":
        (found,) = evidence(tx, "seq = ?", fact.seq)
        entry["evidence"] = view = dict(evidence_view(tx, found))
        command = view.get("command", "")
        words = command if isinstance(command, str) else " ".join(command)
        if len(words) > MAX_STORY_LENGTH:
            view |= {"command": words[:MAX_STORY_LENGTH], "part": True}
        if len(text := view.get("text", "")) > MAX_STORY_LENGTH:
            view |= {"text": text[:MAX_STORY_LENGTH], "part": True}
    elif fact.kind == "verdict_given":
        (verdict,) = verdicts(tx, "seq = ?", fact.seq)
        entry["verdict"] = verdict_view(tx, verdict)
    elif fact.kind == "message_sent":
        if raised := blockers(tx, "seq = ?", fact.seq):
            entry["blocker"] = blocker_view(tx, raised[0])
        else:
            entry["message"] = _message(tx, fact.seq)
    else:
        shown = {name: v for name, v in fact.outcome.items() if name not in ("task", "thread")}
        if "id" in shown and fact.kind.startswith("claim_"):
            shown["claim"] = shown.pop("id")
        entry |= shown | without_none(note=body(tx, fact.seq).get("note"))
    return entry


def _message(tx: Transaction, seq: int) -> RuleAnswer:
    """A message of the task's thread. Its content is only for callers that may read it."""
    message = by_seq(tx, seq)
    written = load(tx, message) if visible(tx, message) else None
    if written is None:
        return envelope(message, None)
    stop = None
    if written["size"] > MAX_STORY_LENGTH:
        stop = 0 if message.type == "command" else MAX_STORY_LENGTH
    return envelope(message, written) | content(tx, message, written, 0, stop)
