"""The steps of the story. What was run and what was said are told in different words and looks."""

import json
import shlex
from collections.abc import Callable, Iterable
from typing import Any

from interlock.doors.cli.report.document import (
    Code,
    Entry,
    Line,
    Mark,
    Pairs,
    Position,
    Quote,
)
from interlock.doors.cli.views import count
from interlock.rooms.mail.message_types import MAIN_MEMBER
from interlock.verbs.answers import Answer

_Row = tuple[str, Line]


def when(at: str) -> str:
    return f"{at[:10]} {at[11:19]} UTC"


def joined(names: Iterable[str]) -> Line:
    """Names, each once, in the order in which they came."""
    line: Line = ()
    for name in dict.fromkeys(names):
        line += (", ", Code(name)) if line else (Code(name),)
    return line


def of_evidence(id: str, shown: Answer) -> Answer | None:
    return next(
        (entry for entry in shown["story"] if entry.get("evidence", {}).get("id") == id), None
    )


def entry(found: Answer, shown: Answer) -> Entry:
    head, look, rows, quotes = _told(found, shown)
    if "session" in found:
        rows = [*rows, ("Session", (Code(found["session"]),))]
    by: Line = (Code(found["by"]), " ")
    told = (head[0], " ", *by, *head[1:]) if isinstance(head[0], Mark) else (*by, *head)
    return Entry(found["seq"], when(found["at"]), told, look, tuple(quotes), Pairs(tuple(rows)))


_Told = tuple[Line, str, list[_Row], list[Quote]]


_NEWS = {
    "task_created": "there is a task",
    "task_claimed": "somebody works on it",
    "task_completed": "it has come to its end",
    "gate_verdict": "a gate has judged",
    "wake": "a verdict is due",
}


def _told(found: Answer, shown: Answer) -> _Told:
    if "evidence" in found:
        piece = found["evidence"]
        return _run(piece) if piece["kind"] == "run" else _said(piece)
    if "verdict" in found:
        return _verdict(found["verdict"], shown)
    if "blocker" in found:
        return _blocker(found["blocker"])
    if "message" in found:
        return _message(found["message"])
    return _plain(found)


# --- evidence


def _run(piece: Answer) -> _Told:
    head: Line = (Mark("RUN", "run"), f"ran a command{_tie(piece)}")
    if piece.get("redacted"):
        return (*head, ", whose record was redacted"), "run", [], []
    went_well = piece["exit_code"] == 0 and not piece.get("interrupted")
    exit = Mark(f"EXIT {piece['exit_code']}", "go" if went_well else "stop")
    command = piece["command"]
    quotes = [Quote("Command", command if isinstance(command, str) else shlex.join(command))]
    return (*head, ", ", exit), "run", [*_title(piece), *_of_run(piece)], quotes


def _of_run(piece: Answer) -> Iterable[_Row]:
    yield "Took", (f"{piece['duration_ms']} ms",)
    if "tests" in piece:
        yield "Tests", (", ".join(f"{n} {what}" for what, n in sorted(piece["tests"].items())),)
    yield "Tree", _tree(piece)
    if "commit" in piece:
        yield "Commit", (Code(piece["commit"]),)
    yield "Directory", (Code(piece["cwd"]),)
    if piece.get("interrupted"):
        by = "its time limit" if piece.get("ended_by") == "time limit" else "somebody"
        yield "Interrupted", (Mark("YES", "stop"), f" by {by}")
    if piece.get("spooled"):
        yield "Handed over", (Mark("IN A FILE", "wait"), " by a shell that reached no workspace")
    if piece.get("masked"):
        secrets = count(piece["masked"], "secret")
        yield "Masked", (Mark(secrets.upper(), "wait"), " in the command or its output")
    output = piece["output"]
    if "produced" in piece:
        yield "Cut", (Mark("YES", "wait"), f" it wrote {piece['produced']} bytes")
    yield from _bytes("Output", output, piece["id"])


def _tree(piece: Answer) -> Line:
    if "tree" not in piece:
        return (Mark("NONE", "stop"), " it was not run in a repository")
    if piece.get("dirty"):
        return Mark("DIRTY", "stop"), " with uncommitted changes, ", Code(piece["tree"])
    return Mark("CLEAN", "go"), " ", Code(piece["tree"])


def _bytes(name: str, kept: Answer, id: str) -> Iterable[_Row]:
    yield name, (f"{kept['size']} bytes, SHA-256 ", Code(kept["sha256"]))
    yield "To get it", (Code(f"interlock evidence show {id} --raw"),)


def _said(piece: Answer) -> _Told:
    kind = piece["kind"]
    head: Line = (Mark("SAID", "said"), f"attached a {kind}{_tie(piece)}; nothing was run")
    if piece.get("redacted"):
        return (*head, ", and it was redacted"), "said", [], []
    rows, quotes = list(_title(piece)), []
    if kind == "file":
        quotes.append(Quote("Its name", piece["name"]))
        rows += _bytes("File", piece, piece["id"])
    elif kind == "url":
        quotes.append(Quote("Its address", piece["url"]))
    else:
        quotes.append(Quote("The note", piece["text"]))
    return head, "said", rows, quotes


def _tie(piece: Answer) -> str:
    return f" for criterion {piece['criterion']}" if "criterion" in piece else ""


def _title(piece: Answer) -> list[_Row]:
    rows: list[_Row] = [("Evidence", (Code(piece["id"]),))]
    return rows + ([("Titled", (piece["title"],))] if "title" in piece else [])


# --- what others thought of it


def _verdict(found: Answer, shown: Answer) -> _Told:
    passed = found["verdict"] == "pass"
    mark = Mark("PASSED", "go") if passed else Mark("FAILED", "stop")
    rows: list[_Row] = [
        ("Commit", (Code(found["artifact"]["commit"]),)),
        ("Tree", (Code(found["artifact"]["tree"]),)),
    ]
    if "evidence" in found:
        rows.append(("Names as evidence", _relied(found["evidence"], shown)))
    quotes = [Quote("Note", found["note"])] if "note" in found else []
    return (
        (mark, f"judged for the gate {found['gate']}"),
        "verdict",
        rows,
        [*quotes, *_fixes(found)],
    )


def _relied(ids: Iterable[str], shown: Answer) -> Line:
    line: Line = ()
    for id in ids:
        entry = of_evidence(id, shown)
        piece = Position(entry["seq"]) if entry is not None else Code(id)
        line += (", ", piece) if line else (piece,)
    return line


def _blocker(found: Answer) -> _Told:
    gate = f", from the gate {found['gate']}" if "gate" in found else ""
    tone = "stop" if found["severity"] == "stop" else "wait"
    head = (Mark(found["severity"].upper(), tone), "raised a blocker for ", Code(found["to"]))
    rows: list[_Row] = []
    if "resolved_by" in found:
        by = (Code(found["resolved_by"]), f" at {when(found['resolved_at'])}")
        rows.append(("Resolved by", by))
    said = Quote("What stands in the way", found.get("what", "(redacted)"))
    return (*head, gate), "verdict", rows, [said, *_fixes(found)]


def _fixes(found: Answer) -> list[Quote]:
    return [Quote("To put it right", fix) for fix in found.get("fix", ())]


# --- messages and the rest


def _message(found: Answer) -> _Told:
    main = MAIN_MEMBER.get(found["type"])
    if main is None:
        return (
            ("told ", Code(found["to"]), f": {_NEWS.get(found['type'], found['type'])}"),
            "plain",
            [],
            [],
        )
    head: Line = ("wrote to ", Code(found["to"]), f" ({found['type']})")
    if found.get("redacted"):
        return (*head, ", which was redacted"), "plain", [], []
    if "payload" not in found:
        return (*head, ", not for whoever asked for this report to read"), "plain", [], []
    if found.get("part"):
        part = f", of which {found['shown']} of {found['size']} bytes are shown here; all: "
        head = (*head, part, Code(f"interlock read {found['id']}"))
    quotes = [
        Quote("The words" if name == main else name.capitalize(), _written(value))
        for name, value in found["payload"].items()
    ]
    return head, "plain", [], quotes


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_PLAIN: dict[str, Callable[[Answer], Line]] = {
    "task_created": lambda found: ("asked for it",),
    "task_taken": lambda found: (f"took the task, fence {found['fence']}",),
    "task_submitted": lambda found: ("submitted ", Code(found["commit"])),
    "task_ended": lambda found: ("ended it: ", Mark(found["status"].upper())),
    "blocker_resolved": lambda found: ("resolved the blocker ", Code(found["id"])),
    "claim_released": lambda found: (f"gave up the claim: {found['reason']}",),
    "claim_expired": lambda found: ("recorded that the lease had ended",),
}


def _plain(found: Answer) -> _Told:
    tell = _PLAIN.get(found["kind"])
    head = tell(found) if tell is not None else (found["kind"].replace("_", " "),)
    rows: list[_Row] = [("Tree", (Code(found["tree"]),))] if "tree" in found else []
    quotes = [Quote("Note", found["note"])] if "note" in found else []
    return head, "plain", rows, quotes
