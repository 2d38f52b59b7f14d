"""Tasks, evidence and what needs a person, as the pages show them. What was run and what was said
never look alike."""

import shlex
from typing import Any

from interlock.doors.web.views import beginning, content, count, face, legible
from interlock.rooms.mail.message_types import MAIN_MEMBER
from interlock.verbs.answers import Answer

# Groups of the list, those first that wait for somebody.
NEEDS, SUBMITTED, TAKEN, OPEN = "needs", "submitted", "taken", "open"
GROUPS = (
    (NEEDS, "Needs a person"),
    (SUBMITTED, "Submitted"),
    (TAKEN, "Taken"),
    (OPEN, "Open"),
)
# What needs a person, by its name in the review; and whether the newest of it matter most.
REVIEW = (
    ("verdicts_due", "Verdicts due", False),
    ("blockers", "Blockers", False),
    ("unanswered", "Asks without an answer", False),
    ("unknown_recipients", "Mail to names that nobody has", False),
    ("expired", "Mail that expired unread", True),
    ("dead_holders", "Claims that lapsed", True),
    ("refusals", "Refusals", True),
)
REVIEW_SHOWN = 50

_EVENTS = {
    "task_created": "created it",
    "task_taken": "took it, fence {fence}",
    "task_submitted": "submitted {commit:.12}, tree {tree:.12}",
    "task_ended": "ended it: {status}",
    "blocker_resolved": "resolved the blocker {id:.8}",
    "claim_released": "gave up the claim: {reason}",
    "claim_expired": "let the lease end",
}


# --- the list


def groups(tasks: list[Answer], shown: list[Answer], blockers: list[Answer]) -> list[Answer]:
    """The groups that have a task, each in the order in which they were made; but those first on
    which a verdict is due. Of the tasks in `shown`, which somebody has worked on, all is known;
    the others are only listed."""
    whole = {answer["task"]["id"]: answer for answer in shown}
    rows = [row(whole.get(task["id"]) or _planned(task), blockers) for task in tasks]
    rows.sort(key=lambda task: not task["due"])
    found = [
        {"name": name, "title": title, "tasks": [each for each in rows if each["group"] == name]}
        for name, title in GROUPS
    ]
    return [group for group in found if group["tasks"]]


def _planned(task: Answer) -> Answer:
    """A task that nobody has taken yet, as it would be shown: nothing of it is met or judged."""
    criteria = [{"met": False}] * task.get("criteria", 0)
    gates = [{"gate": name, "state": "waits"} for name in task.get("gates", ())]
    return {"task": task | {"criteria": criteria, "gates": gates}, "missing": [{}]}


def row(shown: Answer, blockers: list[Answer]) -> Answer:
    task = shown["task"]
    due = [gate for gate in task["gates"] if gate["state"] == "due"]
    blocked = [blocker(found) for found in blockers if found.get("task") == task["id"]]
    view = {
        **{name: value for name, value in task.items() if name != "brief"},
        "group": NEEDS if due or blocked else task["state"],
        "due": due,
        "blockers": blocked,
        "met": sum(criterion["met"] for criterion in task["criteria"]),
        "complete": task["state"] == "submitted" and not shown["missing"],
    }
    return {**legible(view), **_worker(task)}


def ended(tasks: list[Answer]) -> list[Answer]:
    """Those that ended last, first."""
    newest = sorted(tasks, key=lambda task: (task["ended_at"], task["seq"]), reverse=True)
    return [legible(task) | _worker(task) for task in newest]


def _worker(task: Answer) -> Answer:
    return face(task["worker"]) if "worker" in task else {}


# --- one task


def task(shown: Answer, blockers: list[Answer]) -> Answer:
    """The task with its criteria tied to what stands for them, and its story told in words."""
    found, story = shown["task"], shown["story"]
    pieces = [entry["evidence"] for entry in story if "evidence" in entry]
    passes = [entry["verdict"] for entry in story if "verdict" in entry]
    judged = {verdict["id"]: verdict for verdict in passes}
    view = {
        **found,
        "missing": _missing(shown["missing"]),
        "criteria": [_criterion(each, pieces, passes) for each in found["criteria"]],
        "gates": [each | {"verdict": judged.get(each.get("id", ""))} for each in found["gates"]],
        "blockers": blockers,
        "story": [_entry(entry) for entry in story],
    }
    return {**legible(view), **_worker(found)}


def _missing(needs: list[Answer]) -> list[Answer]:
    """What is missing, by the command that would get on with it: a gate's pass may serve twice."""
    by_command: dict[str, list[str]] = {}
    for need in needs:
        by_command.setdefault(need["do"], []).append(need["message"])
    return [{"do": do, "message": " ".join(said)} for do, said in by_command.items()]


def _criterion(found: Answer, pieces: list[Answer], verdicts: list[Answer]) -> Answer:
    """A criterion with the evidence that meets it, or else the last that was tried."""
    number, id = found["number"], found.get("evidence")
    tried = [piece for piece in pieces if piece.get("criterion") == number]
    piece = next((each for each in tried if each["id"] == id), tried[-1] if tried else None)
    named = [each for each in verdicts if id is not None and id in each.get("evidence", ())]
    how = "unmet" if not found["met"] else "ran" if found["by"] == "run" else "said"
    return found | {
        "how": how,
        "piece": evidence(piece) if piece is not None else None,
        "word_of": named[-1] if named else None,
    }


def _entry(entry: Answer) -> Answer:
    told: Answer = {"seq": entry["seq"], "at": entry["at"], "by": entry["by"]}
    told |= face(entry["by"]) | {"kind": entry["kind"], "note": entry.get("note")}
    if "evidence" in entry:
        return told | {"evidence": evidence(entry["evidence"])}
    if "verdict" in entry:
        return told | {"verdict": entry["verdict"]}
    if "blocker" in entry:
        return told | {"blocker": entry["blocker"]}
    if "message" in entry:
        message = entry["message"]
        # What only tells of the facts around it is not told twice.
        tells = message["type"] not in MAIN_MEMBER or message["type"] == "wake"
        return told | {"message": message | content(message, whole=False) | {"tells": tells}}
    return told | {"words": _words(entry)}


class _Said(dict[str, Any]):
    """What a fact does not say is left out of its line."""

    def __missing__(self, name: str) -> str:
        return ""


def _words(entry: Answer) -> str:
    kind = str(entry["kind"])
    return _EVENTS.get(kind, kind).format_map(_Said(entry)).rstrip(": ")


# --- evidence and blockers


def evidence(found: Answer) -> Answer:
    """A piece of evidence with what a reader must know before believing it."""
    if found["kind"] != "run" or found.get("redacted"):
        said = found.get("name") or found.get("url") or found.get("text", "")
        short = beginning(said)
        cut = short != said or "part" in found
        return found | {"ran": found["kind"] == "run", "text": said, "short": short, "cut": cut}
    command = found["command"]
    return found | {
        "ran": True,
        "cut": "part" in found,
        "command": command if isinstance(command, str) else shlex.join(command),
        "succeeded": found["exit_code"] == 0 and not found.get("interrupted"),
        "counted": [f"{number:,} {what}" for what, number in found.get("tests", {}).items()],
        "marks": _marks(found),
    }


def _marks(found: Answer) -> list[Answer]:
    """Why a run may mean less than it seems to, each in a few words."""
    marks = []
    if found.get("interrupted"):
        by = "its time limit" if found.get("ended_by") == "time limit" else "its caller"
        marks.append(("stop", f"interrupted by {by}"))
    if "tree" not in found:
        marks.append(("wait", "outside a repository"))
    elif found.get("dirty"):
        marks.append(("wait", "uncommitted changes"))
    else:
        marks.append(("go", "clean tree"))
    if found.get("spooled"):
        marks.append(("wait", "handed over in a file"))
    if found.get("masked"):
        marks.append(("wait", count(found["masked"], "secret masked", "secrets masked")))
    return [{"tone": tone, "words": words} for tone, words in marks]


def shown_evidence(answer: Answer) -> Answer:
    """A piece of evidence by itself, with the end of what it kept."""
    found = answer["evidence"]
    kept = answer.get("content")
    view = {
        **evidence(found),
        "why": answer.get("why"),
        "kept": kept,
        "shown": _bytes(kept) if kept is not None else 0,
    }
    return {**legible(view), **face(found["by"])}


def _bytes(kept: Answer) -> int:
    return len(kept["text"].encode()) if "text" in kept else len(kept["hex"]) // 2


def blocker(found: Answer) -> Answer:
    """A blocker in a list: the beginning of what it says."""
    what = found.get("what", "")
    short = beginning(what)
    return found | {"what": short, "cut": short != what}


# --- what needs a person


def review(answer: Answer) -> list[Answer]:
    """The sections that have something in them, with the command for each row."""
    sections = []
    for name, title, newest_first in REVIEW:
        found = answer[name][::-1] if newest_first else answer[name]
        shown = [_to_do(each) for each in found[:REVIEW_SHOWN]]
        if found:
            sections.append({"name": name, "title": title, "rows": shown, "number": len(found)})
    return sections


def _to_do(found: Answer) -> Answer:
    when = found.get("at") or found.get("since")
    parts = (str(found.get(name, "")) for name in ("seq", "task", "gate", "to", "on"))
    known = blocker(found) if "severity" in found else found
    row: Answer = legible({"task": None, "when": when, "key": " ".join(parts), **known})
    return row


# --- words


def duration(ms: int) -> str:
    seconds = ms // 1000
    if seconds < 10:
        return f"{ms / 1000:.1f} s"
    if seconds < 60:
        return f"{seconds} s"
    minutes, hours = seconds // 60 % 60, seconds // 3600
    return f"{hours}h {minutes:02}m" if hours else f"{minutes}m {seconds % 60:02}s"
