"""Views of tasks, evidence and the review for the dashboard. Recorded runs and attached evidence
look different on every page."""

import shlex
from typing import Any

from interlock.doors.web.views import beginning, content, count, face
from interlock.rooms.mail.message_types import MAIN_MEMBER
from interlock.verbs.answers import Answer

# The groups of the task list. Tasks that wait for a person come first.
GROUPS = (
    ("needs", "Needs a person"),
    ("submitted", "Submitted"),
    ("taken", "Taken"),
    ("open", "Open"),
)
# The sections of the review, and whether the newest rows come first.
REVIEW = (
    ("verdicts_due", "Verdicts due", False),
    ("blockers", "Blockers", False),
    ("unanswered", "Unanswered asks", False),
    ("unknown_recipients", "Mail to unregistered names", False),
    ("expired", "Mail that expired unread", True),
    ("dead_holders", "Expired claims", True),
    ("refusals", "Refusals", True),
)
MAX_REVIEW_ROWS = 50

_EVENTS = {
    "task_created": "created the task",
    "task_taken": "took the task, fence {fence}",
    "task_submitted": "submitted commit {commit:.12}, tree {tree:.12}",
    "task_ended": "ended the task: {status}",
    "blocker_resolved": "resolved the blocker {id:.8}",
    "claim_released": "ended the claim: {reason}",
    "claim_expired": "recorded that the claim's lease expired",
}


class _OrEmpty(dict[str, Any]):
    def __missing__(self, name: str) -> str:
        return ""


# --- the list


def groups(tasks: list[Answer], shown: list[Answer], blockers: list[Answer]) -> list[Answer]:
    """Return the groups that are not empty. Tasks with a verdict due come first, then the order of
    creation decides. `shown` has the details of tasks that have a worker."""
    details = {answer["task"]["id"]: answer for answer in shown}
    rows = []
    for listed in tasks:
        if listed["id"] in details:
            task, missing = details[listed["id"]]["task"], details[listed["id"]]["missing"]
        else:
            # A task without a worker has no met criterion and no verdict.
            gates = [{"gate": name, "state": "waits"} for name in listed.get("gates", ())]
            criteria = [{"met": False}] * listed.get("criteria", 0)
            task, missing = listed | {"criteria": criteria, "gates": gates}, [{}]
        due = [gate for gate in task["gates"] if gate["state"] == "due"]
        blocked = [_blocker(found) for found in blockers if found.get("task") == task["id"]]
        rows.append(
            task
            | _worker(task)
            | {
                "group": "needs" if due or blocked else task["state"],
                "due": due,
                "blockers": blocked,
                "met": sum(criterion["met"] for criterion in task["criteria"]),
                "complete": task["state"] == "submitted" and not missing,
            }
        )
    rows.sort(key=lambda task: not task["due"])
    found = [
        {"name": name, "title": title, "tasks": [each for each in rows if each["group"] == name]}
        for name, title in GROUPS
    ]
    return [group for group in found if group["tasks"]]


def ended(tasks: list[Answer]) -> list[Answer]:
    """Return the tasks, the most recently ended first."""
    newest = sorted(tasks, key=lambda task: (task["ended_at"], task["seq"]), reverse=True)
    return [task | _worker(task) for task in newest]


def _worker(task: Answer) -> Answer:
    return face(task["worker"]) if "worker" in task else {}


# --- one task


def task(shown: Answer, blockers: list[Answer]) -> Answer:
    """Return the task with its criteria, their evidence, and the events of its history."""
    found, story = shown["task"], shown["story"]
    pieces = [entry["evidence"] for entry in story if "evidence" in entry]
    verdicts = [entry["verdict"] for entry in story if "verdict" in entry]
    by_id = {verdict["id"]: verdict for verdict in verdicts}
    # One command can fix several needs: a pass of one gate can meet two criteria.
    needs: dict[str, list[str]] = {}
    for need in shown["missing"]:
        needs.setdefault(need["do"], []).append(need["message"])
    return {
        **found,
        **_worker(found),
        "missing": [{"do": do, "message": " ".join(texts)} for do, texts in needs.items()],
        "criteria": [_criterion(each, pieces, verdicts) for each in found["criteria"]],
        "gates": [each | {"verdict": by_id.get(each.get("id", ""))} for each in found["gates"]],
        "blockers": blockers,
        "story": [_entry(entry) for entry in story],
    }


def _criterion(found: Answer, pieces: list[Answer], verdicts: list[Answer]) -> Answer:
    """Return a criterion with the evidence that meets it, or else with the latest evidence."""
    number, id = found["number"], found.get("evidence")
    tried = [piece for piece in pieces if piece.get("criterion") == number]
    piece = next((each for each in tried if each["id"] == id), tried[-1] if tried else None)
    named = [each for each in verdicts if id is not None and id in each.get("evidence", ())]
    how = "unmet" if not found["met"] else "ran" if found["by"] == "run" else "attached"
    return found | {
        "how": how,
        "piece": evidence(piece) if piece is not None else None,
        "named_by": named[-1] if named else None,
    }


def _entry(entry: Answer) -> Answer:
    shared: Answer = {"seq": entry["seq"], "at": entry["at"], "by": entry["by"]}
    shared |= face(entry["by"]) | {"kind": entry["kind"], "note": entry.get("note")}
    if "evidence" in entry:
        return shared | {"evidence": evidence(entry["evidence"])}
    if "verdict" in entry:
        return shared | {"verdict": entry["verdict"]}
    if "blocker" in entry:
        return shared | {"blocker": entry["blocker"]}
    if "message" in entry:
        message = entry["message"]
        # A message that only announces other facts appears without its text.
        announces = message["type"] not in MAIN_MEMBER or message["type"] == "wake"
        shown = message | content(message, whole=False) | {"announces": announces}
        return shared | {"message": shown}
    kind = str(entry["kind"])
    return shared | {"words": _EVENTS.get(kind, kind).format_map(_OrEmpty(entry)).rstrip(": ")}


# --- evidence and blockers


def evidence(found: Answer) -> Answer:
    """Return a piece of evidence. A run also gets marks, such as uncommitted changes, that tell
    the reader how far to trust it."""
    if found["kind"] != "run" or found.get("redacted"):
        text = found.get("name") or found.get("url") or found.get("text", "")
        short = beginning(text)
        cut = short != text or "part" in found
        return found | {"ran": found["kind"] == "run", "text": text, "short": short, "cut": cut}
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
        marks.append(("wait", "imported from a file"))
    if found.get("masked"):
        marks.append(("wait", count(found["masked"], "secret masked", "secrets masked")))
    command = found["command"]
    return found | {
        "ran": True,
        "cut": "part" in found,
        "command": command if isinstance(command, str) else shlex.join(command),
        "succeeded": found["exit_code"] == 0 and not found.get("interrupted"),
        "counted": [f"{number:,} {what}" for what, number in found.get("tests", {}).items()],
        "marks": [{"tone": tone, "words": words} for tone, words in marks],
    }


def shown_evidence(answer: Answer) -> Answer:
    """Return a piece of evidence for its own page, with the end of its output or content."""
    found, kept = answer["evidence"], answer.get("content")
    shown = 0
    if kept is not None:
        shown = len(kept["text"].encode()) if "text" in kept else len(kept["hex"]) // 2
    about = {"why": answer.get("why"), "kept": kept, "shown": shown}
    return evidence(found) | about | face(found["by"])


def _blocker(found: Answer) -> Answer:
    what = found.get("what", "")
    short = beginning(what)
    return found | {"what": short, "cut": short != what}


# --- the review


def review(answer: Answer) -> list[Answer]:
    """Return the sections that are not empty. Each row has its command."""
    sections = []
    for name, title, newest_first in REVIEW:
        found = answer[name][::-1] if newest_first else answer[name]
        rows = []
        for each in found[:MAX_REVIEW_ROWS]:
            parts = (str(each.get(part, "")) for part in ("seq", "task", "gate", "to", "on"))
            row = {
                "task": None,
                "when": each.get("at") or each.get("since"),
                "key": " ".join(parts),
            }
            rows.append(row | (_blocker(each) if "severity" in each else each))
        if rows:
            sections.append({"name": name, "title": title, "rows": rows, "number": len(found)})
    return sections


def duration(ms: int) -> str:
    seconds = ms // 1000
    if seconds < 10:
        return f"{ms / 1000:.1f} s"
    if seconds < 60:
        return f"{seconds} s"
    minutes, hours = seconds // 60 % 60, seconds // 3600
    return f"{hours}h {minutes:02}m" if hours else f"{minutes}m {seconds % 60:02}s"
