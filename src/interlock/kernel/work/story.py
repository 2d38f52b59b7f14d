"""Showing tasks: in a list, and the whole story of one, in the order of the log."""

from typing import Any

from interlock.contracts.acts import ListTasks, ShowTask
from interlock.contracts.addresses import address
from interlock.contracts.facts import Header
from interlock.contracts.times import rfc3339
from interlock.kernel.mail.messages import by_seq, content, envelope, load, visible
from interlock.kernel.moment import Answer, Moment, absent_dropped
from interlock.kernel.work.criteria import Standing
from interlock.kernel.work.holders import holders
from interlock.kernel.work.needs import missing
from interlock.kernel.work.records import (
    ENDED,
    Task,
    blocker_view,
    blockers,
    body,
    evidence,
    evidence_view,
    find_task,
    in_force,
    task_view,
    tasks,
    verdict_view,
    verdicts,
)

LONGEST_IN_STORY = 4096


def list_tasks(moment: Moment, act: ListTasks) -> Answer:
    """Tasks in the order in which they were made."""
    where, bindings = ["seq > ?"], [act.after]
    if act.state == "live":
        where.append(f"state NOT IN {ENDED}")
    elif act.state is not None:
        where.append("state = ?")
        bindings.append(act.state)  # type: ignore[arg-type]
    if act.mine:
        where.append("worker = ?")
        bindings.append(moment.caller.sender)  # type: ignore[arg-type]
    found = tasks(moment, " AND ".join(where), *bindings, limit=act.limit + 1)
    shown = [task_view(moment, task) for task in found[: act.limit]]
    return {"tasks": shown} | ({"next": shown[-1]["seq"]} if len(found) > len(shown) else {})


def show_task(moment: Moment, act: ShowTask) -> Answer:
    """The task as it stands, what is missing, and its story from the beginning."""
    task = find_task(moment, act.id)
    standing = Standing(moment, task)
    said = body(moment, task.seq)
    view = task_view(moment, task) | absent_dropped(brief=said.get("brief"))
    view["criteria"] = [standing.view(number) for number in range(1, task.criteria + 1)]
    view["gates"] = _gates(moment, task)
    return {
        "task": view,
        "missing": [] if task.has_ended else missing(moment, task),
        "story": _story(moment, task),
    }


def _gates(moment: Moment, task: Task) -> list[Answer]:
    given = in_force(moment, task)
    found = []
    for gate in task.gates.split():
        last = given.get(gate)
        due = "due" if task.state == "submitted" else "waits"
        told = {"by": address(last.sender), "id": last.id} if last is not None else {}
        held = [address(sender) for sender in holders(moment, gate)]
        state = last.verdict if last is not None else due
        found.append({"gate": gate, "state": state, "holders": held} | told)
    return found


def _story(moment: Moment, task: Task) -> list[Answer]:
    rows = moment.all("SELECT seq FROM work_story WHERE task = ? ORDER BY seq", task.id)
    return [_told(moment, next(iter(moment.store.facts(seq - 1)))) for (seq,) in rows]


def _told(moment: Moment, fact: Header) -> Answer:
    head = absent_dropped(
        seq=fact.seq,
        at=rfc3339(fact.at),
        kind=fact.kind,
        by=address(fact.sender),
        session=fact.session,
    )
    return head | _WHAT.get(fact.kind, _note)(moment, fact)


def _note(moment: Moment, fact: Header) -> Answer:
    """What the fact itself says, and the note that was given with it."""
    shown: dict[str, Any] = {
        name: value for name, value in fact.outcome.items() if name not in ("task", "thread")
    }
    if "id" in shown and fact.kind.startswith("claim_"):
        shown["claim"] = shown.pop("id")
    return shown | absent_dropped(note=body(moment, fact.seq).get("note"))


def _created(moment: Moment, fact: Header) -> Answer:
    return {"title": body(moment, fact.seq).get("title", "")}


def _evidence(moment: Moment, fact: Header) -> Answer:
    (found,) = evidence(moment, "seq = ?", fact.seq)
    return {"evidence": _shortened(evidence_view(moment, found))}


def _shortened(view: Answer) -> Answer:
    """A story is told in lines: what is longer is shown in part, and says so."""
    told = dict(view)
    command = told.get("command", "")
    if len(command if isinstance(command, str) else " ".join(command)) > LONGEST_IN_STORY:
        words = command if isinstance(command, str) else " ".join(command)
        told |= {"command": words[:LONGEST_IN_STORY], "part": True}
    if len(text := told.get("text", "")) > LONGEST_IN_STORY:
        told |= {"text": text[:LONGEST_IN_STORY], "part": True}
    return told


def _verdict(moment: Moment, fact: Header) -> Answer:
    (found,) = verdicts(moment, "seq = ?", fact.seq)
    return {"verdict": verdict_view(moment, found)}


def _message(moment: Moment, fact: Header) -> Answer:
    """What others wrote to each other is shown to those who may read it; that they did, to all.
    A blocker is everybody's business."""
    message = by_seq(moment, fact.seq)
    if raised := blockers(moment, "seq = ?", fact.seq):
        return {"blocker": blocker_view(moment, raised[0])}
    shown = envelope(message, None)
    if visible(moment, message) and (written := load(moment, message)) is not None:
        stop = 0 if message.type == "command" else LONGEST_IN_STORY
        part = stop if written["size"] > LONGEST_IN_STORY else None
        shown = envelope(message, written) | content(moment, message, written, 0, part)
    return {"message": shown}


_WHAT = {
    "task_created": _created,
    "evidence_added": _evidence,
    "verdict_given": _verdict,
    "message_sent": _message,
}
