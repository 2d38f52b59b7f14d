"""The content of a report: the state of the task and its grounds, the story, how to check it.

Runs and statements are told in different words and looks.
"""

import json
import shlex
from collections.abc import Iterable, Sequence

from interlock.doors.cli.report.document import (
    Block,
    Code,
    Line,
    LoggedStep,
    LogReference,
    Mark,
    Pairs,
    Paragraph,
    Piece,
    Points,
    Quote,
    Report,
    Table,
    flat,
    pieces,
)
from interlock.doors.cli.views import count
from interlock.rooms.mail.message_types import MAIN_MEMBER
from interlock.verbs.answers import Answer

_STATE_TONES = {"done": "go", "failed": "stop", "cancelled": "plain"}
_VERDICTS = {"pass": Mark("PASSED", "go"), "fail": Mark("FAILED", "stop")}
_RUN, _SAID = Mark("RUN", "run"), Mark("SAID", "said")
_MAX_LENGTH = 200
_NEWS = {
    "task_created": "there is a task",
    "task_claimed": "an agent works on it",
    "task_completed": "it has come to its end",
    "gate_verdict": "a gate has judged",
    "wake": "a verdict is due",
}
_LEGEND: Line = (
    _RUN,
    " here means that the named sender recorded a run of the command, on a clean tree "
    "equal to the submitted one, and that it exited 0. ",
    _SAID,
    " means that nothing was run: a sender attached or wrote it, and a holder of a gate took "
    "their word for it.",
)
_PROVEN = (
    "The entries named here stood in the log at these positions when the checkpoint was signed.",
    "By whom, when and in which order they were written; of a run its exit code, commit and "
    "tree, whether that tree was clean, and whether it was interrupted or handed over in a "
    "file; of a verdict its gate, the commit and tree it judged, and the evidence it names; of "
    "a submission its commit and tree. All this is in the entries' headers, which are proven.",
)
_NOT_PROVEN: tuple[Line, ...] = (
    "That the text above says the same. The command prints what is proven: compare it.",
    (
        "The words: titles, briefs, criteria, commands, durations, notes, messages, and the "
        "digests of outputs and files. Each header holds a salted commitment to them, and the "
        "salts are not in this document; whoever has the workspace, or an export of its log, "
        "checks them with ",
        Code("interlock audit verify"),
        ".",
    ),
    "That nothing was left out, or came later. Ask the workspace for this report again, or "
    "look through an export of its log.",
    "That a command does what its name says, or that whoever ran it had an honest machine. "
    "Run it again on the commit above.",
)
_HOW_TO_CHECK = (
    "At the end of this document are proofs that need neither the workspace nor a network. Save "
    "the document as a file, get the workspace's verifier key from a person you trust, not from "
    "here, and type:"
)

_Row = tuple[str, Line]


def document(shown: Answer, proofs: Sequence[Answer]) -> Report:
    """Make the document of a task from the answer of `task show` and the proofs of its story."""
    task, story = shown["task"], shown["story"]
    brief = [Quote("The brief, in the words of its author", task.get("brief", ""))]
    needs = [(f"{need['message']} ", Code(need["do"])) for need in shown["missing"]]
    last = proofs[-1]
    log = (
        ("Entries in the log", str(last["tree_size"])),
        ("Root", Code(last["root"])),
        ("Verifier key, to be compared", Code(last["verifier"])),
    )
    sections: list[tuple[str, Sequence[Block]]] = [
        ("What was asked", brief if "brief" in task else []),
        ("Criteria", _criteria(shown)),
        ("Gates", _gates(shown)),
        ("Blockers", _blockers(story)),
        ("What is missing", [Points(needs)] if needs else []),
        ("What happened", [_entry(found, story) for found in story]),
        (
            "How to check this document",
            [
                Paragraph(_HOW_TO_CHECK),
                Quote("The command", "interlock audit check-proof FILE --verifier KEY"),
                Paragraph("What it shows:"),
                Points(_PROVEN),
                Paragraph("What it does not show:"),
                Points(_NOT_PROVEN),
                Pairs(log),
                Quote("The signed checkpoint", last["checkpoint"]),
            ],
        ),
    ]
    return Report(
        title=f"{task['id']}: {flat(task['title']) or '(redacted)'}",
        state=Mark(task["state"].upper(), _STATE_TONES.get(task["state"], "wait")),
        about=Pairs(list(_about(task, story))),
        sections=[section for section in sections if section[1]],
    )


def _about(task: Answer, story: list[Answer]) -> Iterable[_Row]:
    asked = (
        Code(task["created_by"]),
        f", {_when(task['created_at'])}, ",
        LogReference(task["seq"]),
    )
    yield "Asked for by", asked
    workers = [entry["by"] for entry in story if entry["kind"] == "task_taken"]
    yield "Worked on by", _joined(workers) or "nobody"
    judges = [entry["by"] for entry in story if "verdict" in entry]
    yield "Judged by", _joined(judges) or "nobody"
    if "artifact" in task:
        yield "Commit", Code(task["artifact"]["commit"])
        yield "Tree", Code(task["artifact"]["tree"])
        yield "Submitted", _when(task["submitted_at"])
    if "ended_at" in task:
        yield "Ended", _when(task["ended_at"])
    for name in ("assignee", "priority"):
        if name in task:
            yield name.capitalize(), task[name]
    for name in ("labels", "depends_on"):
        if name in task:
            yield name.replace("_", " ").capitalize(), _joined(task[name])


def _criteria(shown: Answer) -> list[Block]:
    story = shown["story"]
    in_force = {found.get("id") for found in shown["task"]["gates"]}
    rows: list[tuple[Line, ...]] = []
    for found in shown["task"]["criteria"]:
        state = Mark("MET", "go") if found["met"] else Mark("NOT MET", "stop")
        grounds: Line
        if not found["met"]:
            grounds = found["why"]
        elif (entry := _of_evidence(found["evidence"], story)) is None:
            grounds = found["evidence"]
        elif found["by"] == "run":
            handed = ", handed over in a file" if entry["evidence"].get("spooled") else ""
            at = f" at {_when(entry['at'])}, exit 0{handed}, "
            grounds = (_RUN, " by ", Code(entry["by"]), at, LogReference(entry["seq"]))
        else:
            by = f" in a {found['by']} by "
            grounds = (_SAID, by, Code(entry["by"]), ", ", LogReference(entry["seq"]))
            # The verdict that relies on the statement, if it is in force.
            for judged in story:
                verdict = judged.get("verdict", {})
                names_it = found["evidence"] in verdict.get("evidence", ())
                if names_it and verdict.get("id") in in_force:
                    gate = f", for the gate {verdict['gate']}, "
                    word_of = Code(judged["by"])
                    grounds += (", on the word of ", word_of, gate, LogReference(judged["seq"]))
                    break
        rows.append((str(found["number"]), found["text"], state, grounds))
    head = ("No.", "Criterion", "Stands", "On what grounds")
    return [Table(head, rows), Paragraph(_LEGEND)] if rows else []


def _gates(shown: Answer) -> list[Block]:
    given = {entry["verdict"]["id"]: entry for entry in shown["story"] if "verdict" in entry}
    rows: list[tuple[Line, ...]] = []
    for found in shown["task"]["gates"]:
        mark = _VERDICTS.get(found["state"]) or Mark(found["state"].upper(), "wait")
        judged: Line = "not on what is submitted"
        if (entry := given.get(found.get("id"))) is not None:
            commit = Code(entry["verdict"]["artifact"]["commit"][:12])
            at = f" at {_when(entry['at'])}, on "
            judged = ("by ", Code(entry["by"]), at, commit, ", ", LogReference(entry["seq"]))
        holders = _joined(found["holders"]) or "nobody"
        rows.append((found["gate"], mark, judged, holders))
    return [Table(("Gate", "Verdict", "Given", "Held by"), rows)] if rows else []


def _blockers(story: list[Answer]) -> list[Block]:
    rows: list[tuple[Line, ...]] = []
    for found in (entry["blocker"] for entry in story if "blocker" in entry):
        what = flat(found.get("what", "(redacted)"))
        if len(what) > _MAX_LENGTH:
            what = f"{what[:_MAX_LENGTH]}… (whole at its entry)"
        state: Line = Mark("OPEN", "stop")
        if "resolved_by" in found:
            at = f" at {_when(found['resolved_at'])}"
            state = (Mark("RESOLVED", "go"), " by ", Code(found["resolved_by"]), at)
        sender: Line = (Code(found["by"]), " to ", Code(found["to"]))
        rows.append((LogReference(found["seq"]), _severity(found), sender, what, state))
    return [Table(("Entry", "Weight", "From", "What", "Stands"), rows)] if rows else []


# --- the story


def _entry(found: Answer, story: list[Answer]) -> LoggedStep:
    rows: list[_Row] = []
    quotes: list[Quote] = []
    look = "plain"
    head: Line
    if "evidence" in found:
        head, rows, quotes = _evidence(found["evidence"])
        look = "run" if found["evidence"]["kind"] == "run" else "said"
    elif "verdict" in found:
        verdict, look = found["verdict"], "verdict"
        mark = _VERDICTS["pass" if verdict["verdict"] == "pass" else "fail"]
        head = (mark, f"judged for the gate {verdict['gate']}")
        rows.append(("Commit", Code(verdict["artifact"]["commit"])))
        rows.append(("Tree", Code(verdict["artifact"]["tree"])))
        if "evidence" in verdict:
            entries = [(id, _of_evidence(id, story)) for id in verdict["evidence"]]
            named = [LogReference(entry["seq"]) if entry else Code(id) for id, entry in entries]
            rows.append(("Names as evidence", _separated(named)))
        quotes = _written(verdict, "note")
    elif "blocker" in found:
        blocker, look = found["blocker"], "verdict"
        gate = f", from the gate {blocker['gate']}" if "gate" in blocker else ""
        head = (_severity(blocker), "raised a blocker for ", Code(blocker["to"]), gate)
        if "resolved_by" in blocker:
            at = f" at {_when(blocker['resolved_at'])}"
            rows.append(("Resolved by", (Code(blocker["resolved_by"]), at)))
        what = blocker.get("what", "(redacted)")
        quotes = [Quote("What stands in the way", what), *_written(blocker)]
    elif "message" in found:
        head, quotes = _message(found["message"])
    else:
        head = _happened(found)
        if "tree" in found:
            rows.append(("Tree", Code(found["tree"])))
        quotes = _written(found, "note")
    if "session" in found:
        rows.append(("Session", Code(found["session"])))
    first, *rest = pieces(head)
    by = (Code(found["by"]), " ")
    head = (first, " ", *by, *rest) if isinstance(first, Mark) else (*by, first, *rest)
    return LoggedStep(found["seq"], _when(found["at"]), head, look, quotes, Pairs(rows))


def _happened(found: Answer) -> Line:
    match found["kind"]:
        case "task_created":
            return "asked for it"
        case "task_taken":
            return f"took the task, fence {found['fence']}"
        case "task_submitted":
            return "submitted ", Code(found["commit"])
        case "task_ended":
            return "ended it: ", Mark(found["status"].upper())
        case "blocker_resolved":
            return "resolved the blocker ", Code(found["id"])
        case "claim_released":
            return f"gave up the claim: {found['reason']}"
        case "claim_expired":
            return "recorded that the lease had ended"
        case kind:
            return str(kind).replace("_", " ")


def _evidence(piece: Answer) -> tuple[Line, list[_Row], list[Quote]]:
    kind = piece["kind"]
    tie = f" for criterion {piece['criterion']}" if "criterion" in piece else ""
    rows: list[_Row] = [("Evidence", Code(piece["id"]))]
    if "title" in piece:
        rows.append(("Titled", piece["title"]))
    if kind != "run":
        head: Line = (_SAID, f"attached a {kind}{tie}; nothing was run")
        if piece.get("redacted"):
            return (*head, ", and it was redacted"), [], []
        if kind == "file":
            rows += _bytes("File", piece, piece["id"])
            return head, rows, [Quote("Its name", piece["name"])]
        if kind == "url":
            return head, rows, [Quote("Its address", piece["url"])]
        return head, rows, [Quote("The note", piece["text"])]

    head = (_RUN, f"ran a command{tie}")
    if piece.get("redacted"):
        return (*head, ", whose record was redacted"), [], []
    succeeded = piece["exit_code"] == 0 and not piece.get("interrupted")
    head = (*head, ", ", Mark(f"EXIT {piece['exit_code']}", "go" if succeeded else "stop"))
    rows.append(("Took", f"{piece['duration_ms']} ms"))
    if "tests" in piece:
        tests = ", ".join(f"{number} {what}" for what, number in sorted(piece["tests"].items()))
        rows.append(("Tests", tests))
    tree: Line = (Mark("NONE", "stop"), " it was not run in a repository")
    if "tree" in piece and piece.get("dirty"):
        tree = (Mark("DIRTY", "stop"), " with uncommitted changes, ", Code(piece["tree"]))
    elif "tree" in piece:
        tree = (Mark("CLEAN", "go"), " ", Code(piece["tree"]))
    rows.append(("Tree", tree))
    if "commit" in piece:
        rows.append(("Commit", Code(piece["commit"])))
    rows.append(("Directory", Code(piece["cwd"])))
    if piece.get("interrupted"):
        by = "its time limit" if piece.get("ended_by") == "time limit" else "somebody"
        rows.append(("Interrupted", (Mark("YES", "stop"), f" by {by}")))
    if piece.get("spooled"):
        how: Line = (Mark("IN A FILE", "wait"), " by a shell that reached no workspace")
        rows.append(("Handed over", how))
    if piece.get("masked"):
        secrets = Mark(count(piece["masked"], "secret").upper(), "wait")
        rows.append(("Masked", (secrets, " in the command or its output")))
    if "produced" in piece:
        rows.append(("Cut", (Mark("YES", "wait"), f" it wrote {piece['produced']} bytes")))
    rows += _bytes("Output", piece["output"], piece["id"])
    command = piece["command"]
    written = command if isinstance(command, str) else shlex.join(command)
    return head, rows, [Quote("Command", written)]


def _message(found: Answer) -> tuple[Line, list[Quote]]:
    main = MAIN_MEMBER.get(found["type"])
    if main is None:
        news = _NEWS.get(found["type"], found["type"])
        return ("told ", Code(found["to"]), f": {news}"), []
    head: Line = ("wrote to ", Code(found["to"]), f" ({found['type']})")
    if found.get("redacted"):
        return (*head, ", which was redacted"), []
    if "payload" not in found:
        return (*head, ", not for whoever asked for this report to read"), []
    if found.get("part"):
        part = f", of which {found['shown']} of {found['size']} bytes are shown here; all: "
        head = (*head, part, Code(f"interlock read {found['id']}"))
    quotes = []
    for name, value in found["payload"].items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        quotes.append(Quote("The words" if name == main else name.capitalize(), text))
    return head, quotes


# --- parts of several sections


def _when(at: str) -> str:
    return f"{at[:10]} {at[11:19]} UTC"


def _separated(parts: Iterable[Piece]) -> tuple[Piece, ...]:
    return tuple(piece for part in parts for piece in (", ", part))[1:]


def _joined(names: Iterable[str]) -> tuple[Piece, ...]:
    """Return the names, each once, in their order."""
    return _separated(map(Code, dict.fromkeys(names)))


def _severity(blocker: Answer) -> Mark:
    return Mark(blocker["severity"].upper(), "stop" if blocker["severity"] == "stop" else "wait")


def _of_evidence(id: str, story: list[Answer]) -> Answer | None:
    return next((entry for entry in story if entry.get("evidence", {}).get("id") == id), None)


def _bytes(name: str, kept: Answer, id: str) -> list[_Row]:
    return [
        (name, (f"{kept['size']} bytes, SHA-256 ", Code(kept["sha256"]))),
        ("To get it", Code(f"interlock evidence show {id} --raw")),
    ]


def _written(found: Answer, *names: str) -> list[Quote]:
    quotes = [Quote(name.capitalize(), found[name]) for name in names if name in found]
    return quotes + [Quote("To put it right", fix) for fix in found.get("fix", ())]
