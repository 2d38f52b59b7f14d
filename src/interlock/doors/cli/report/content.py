"""The content of a report: the state of the task with its evidence, the history, the proofs.

Recorded runs and attached evidence have different words and styles.
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

_STATES = {
    "open": (Mark("OPEN", "wait"), " No worker has the task now."),
    "taken": (Mark("TAKEN", "wait"), " A worker has taken the task and is not finished."),
    "submitted": (
        Mark("SUBMITTED", "wait"),
        " The worker has submitted a commit. The task is not complete yet.",
    ),
    "done": (
        Mark("DONE", "go"),
        " The task is complete. Its criteria were met and its gates had passed.",
    ),
    "failed": (Mark("FAILED", "stop"), " The worker gave up the task."),
    "cancelled": (Mark("CANCELLED", "plain"), " The task was cancelled."),
}
_VERDICTS = {
    "pass": Mark("PASSED", "go"),
    "fail": Mark("FAILED", "stop"),
    "due": Mark("DUE", "wait"),
    "waits": Mark("WAITING", "wait"),
}
_RUN, _ATTACHED = Mark("RUN", "run"), Mark("ATTACHED", "attached")
_KINDS = {"file": "file", "url": "URL", "note": "note"}
_MAX_LENGTH = 200
_NEWS = {
    "task_created": " about the new task",
    "task_claimed": " that a worker has taken the task",
    "task_completed": " how the task ended",
    "gate_verdict": " the verdict of a gate",
}
_LEGEND: tuple[Line, ...] = (
    (
        _RUN,
        " in this table means: the sender ran a command through Interlock. It ran on exactly the "
        "submitted files, without uncommitted changes, and exited with 0 (success).",
    ),
    (
        _ATTACHED,
        " in this table means: no command was run. The sender attached a file, URL or note, and a "
        "holder of a gate named it in a passing verdict.",
    ),
)
_ABOUT_GATES = (
    "A gate is a review that the task must pass. Only the holders of the gate can give its "
    "verdict. A worker cannot give a verdict on their own work."
)
_ABOUT_BLOCKERS = (
    "A blocker is a problem that a sender reported. An open STOP blocker prevents the completion "
    "of the task. A WARN blocker does not."
)
_ABOUT_HISTORY = "The log has these entries about the task, in this order."
_PROVEN = (
    "That each entry of this report was in the log, at its position, when the checkpoint was "
    "signed.",
    "The sender, the time and the order of these entries.",
    "Of a run: the exit code, the commit and its tree. Also whether there were uncommitted "
    "changes, and whether the run was interrupted or recorded offline.",
    "Of a verdict: the gate, the result, the commit and its tree, and the named evidence.",
    "Of a submission: the commit and its tree.",
)
_NOT_PROVEN: tuple[Line, ...] = (
    "The text of this report. The command prints the proven entries: compare the report with them.",
    (
        "The wording of titles, briefs, criteria, commands, notes and messages, the durations, and "
        "the digests of outputs and files. Each proven entry contains a salted hash of them, but "
        "this report does not contain the salts. A person who has the workspace, or an export of "
        "its log, can check them with ",
        Code("interlock audit verify"),
        ".",
    ),
    "That the report is complete and up to date. Create the report again from the workspace, or "
    "read an export of its log.",
    "That a command does what its name suggests, or that the machine reported its true result. "
    "Run the command again on the submitted commit.",
)
_HOW_TO_CHECK = (
    "This report ends with cryptographic proofs. Anyone can check them, without the workspace and "
    "without a network."
)
_STEPS = (
    "Save this report as a file.",
    "Get the workspace's verifier key from a person you trust. Do not take it from this report.",
    "Run the command below with the file and the key.",
)

_Row = tuple[str, Line]


def document(shown: Answer, proofs: Sequence[Answer]) -> Report:
    """Make the report of a task from the answer of `task show` and the proofs of its history."""
    task, story = shown["task"], shown["story"]
    brief = [Quote("The brief, as its author wrote it", task.get("brief", ""))]
    needs = [(f"{need['message']} ", Code(need["do"])) for need in shown["missing"]]
    last = proofs[-1]
    log = (
        ("Entries in the log", str(last["tree_size"])),
        ("Root hash of the log", Code(last["root"])),
        ("Verifier key in this report", Code(last["verifier"])),
    )
    about: Line = (
        "Interlock coordinates AI agents and people who work on software. It records their actions "
        "in one append-only log. This report shows the entries of that log about one task. A "
        "number such as ",
        LogReference(task["seq"]),
        " is an entry of the log. A name such as ",
        Code(task["created_by"]),
        " is an agent or a person. All times are UTC.",
    )
    sections: list[tuple[str, Sequence[Block]]] = [
        ("About this report", [Paragraph(about)]),
        ("Brief", brief if "brief" in task else []),
        ("Acceptance criteria", _criteria(shown)),
        ("Gates", _gates(shown)),
        ("Blockers", _blockers(story)),
        ("Open requirements", [Points(needs)] if needs else []),
        ("History", [Paragraph(_ABOUT_HISTORY), *(_entry(found, story) for found in story)]),
        (
            "How to verify this report",
            [
                Paragraph(_HOW_TO_CHECK),
                Points(_STEPS),
                Quote("Command", "interlock audit check-proof FILE --verifier KEY"),
                Paragraph("If the command succeeds, it proves:"),
                Points(_PROVEN),
                Paragraph("It does not prove:"),
                Points(_NOT_PROVEN),
                Pairs(log),
                Quote("Signed checkpoint of the log", last["checkpoint"]),
            ],
        ),
    ]
    return Report(
        title=f"{task['id']}: {flat(task['title']) or '(redacted)'}",
        state=_STATES[task["state"]],
        about=Pairs(list(_about(task, story))),
        sections=[section for section in sections if section[1]],
    )


def _about(task: Answer, story: list[Answer]) -> Iterable[_Row]:
    created = (
        Code(task["created_by"]),
        f" at {_when(task['created_at'])}, ",
        LogReference(task["seq"]),
    )
    yield "Created by", created
    workers = [entry["by"] for entry in story if entry["kind"] == "task_taken"]
    yield "Worked on by", _joined(workers) or "no worker yet"
    reviewers = [entry["by"] for entry in story if "verdict" in entry]
    yield "Verdicts by", _joined(reviewers) or "no verdict yet"
    if "artifact" in task:
        yield "Submitted commit", Code(task["artifact"]["commit"])
        yield "Tree of the commit", Code(task["artifact"]["tree"])
        yield "Submitted at", _when(task["submitted_at"])
    if "ended_at" in task:
        yield "Ended at", _when(task["ended_at"])
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
        basis: Line
        if not found["met"]:
            basis = found["why"]
        elif (entry := _of_evidence(found["evidence"], story)) is None:
            basis = found["evidence"]
        elif found["by"] == "run":
            offline = ", recorded offline" if entry["evidence"].get("spooled") else ""
            at = f" at {_when(entry['at'])}, exit 0{offline}, "
            basis = (_RUN, " by ", Code(entry["by"]), at, LogReference(entry["seq"]))
        else:
            by = f" {_KINDS[found['by']]} by "
            basis = (_ATTACHED, by, Code(entry["by"]), ", ", LogReference(entry["seq"]))
            # The verdict that names the evidence, if it is in force.
            for given in story:
                verdict = given.get("verdict", {})
                names_it = found["evidence"] in verdict.get("evidence", ())
                if names_it and verdict.get("id") in in_force:
                    gate = f" at the gate {verdict['gate']}, "
                    by_holder = (", accepted by ", Code(given["by"]), gate)
                    basis += (*by_holder, LogReference(given["seq"]))
                    break
        rows.append((str(found["number"]), found["text"], state, basis))
    head = ("No.", "Criterion", "State", "Evidence")
    return [Table(head, rows), Points(_LEGEND)] if rows else []


def _gates(shown: Answer) -> list[Block]:
    given = {entry["verdict"]["id"]: entry for entry in shown["story"] if "verdict" in entry}
    rows: list[tuple[Line, ...]] = []
    for found in shown["task"]["gates"]:
        basis: Line = "no verdict on the current submission"
        if (entry := given.get(found.get("id"))) is not None:
            commit = Code(entry["verdict"]["artifact"]["commit"][:12])
            at = f" at {_when(entry['at'])}, on commit "
            basis = ("by ", Code(entry["by"]), at, commit, ", ", LogReference(entry["seq"]))
        holders = _joined(found["holders"]) or "no sender"
        rows.append((found["gate"], _VERDICTS[found["state"]], basis, holders))
    table = Table(("Gate", "Verdict", "Given", "Holders"), rows)
    return [Paragraph(_ABOUT_GATES), table] if rows else []


def _blockers(story: list[Answer]) -> list[Block]:
    rows: list[tuple[Line, ...]] = []
    for found in (entry["blocker"] for entry in story if "blocker" in entry):
        what = flat(found.get("what", "(redacted)"))
        if len(what) > _MAX_LENGTH:
            what = f"{what[:_MAX_LENGTH]}… (in full at its entry)"
        state: Line = Mark("OPEN", "stop")
        if "resolved_by" in found:
            at = f" at {_when(found['resolved_at'])}"
            state = (Mark("RESOLVED", "go"), " by ", Code(found["resolved_by"]), at)
        sender: Line = (Code(found["by"]), " to ", Code(found["to"]))
        rows.append((LogReference(found["seq"]), _severity(found), sender, what, state))
    table = Table(("Entry", "Severity", "From", "Problem", "State"), rows)
    return [Paragraph(_ABOUT_BLOCKERS), table] if rows else []


# --- the history


def _entry(found: Answer, story: list[Answer]) -> LoggedStep:
    rows: list[_Row] = []
    quotes: list[Quote] = []
    look = "plain"
    head: Line
    if "evidence" in found:
        head, rows, quotes = _evidence(found["evidence"])
        look = "run" if found["evidence"]["kind"] == "run" else "attached"
    elif "verdict" in found:
        verdict, look = found["verdict"], "verdict"
        mark = _VERDICTS["pass" if verdict["verdict"] == "pass" else "fail"]
        head = (mark, f"gave the verdict of the gate {verdict['gate']}")
        rows.append(("Commit", Code(verdict["artifact"]["commit"])))
        rows.append(("Tree", Code(verdict["artifact"]["tree"])))
        if "evidence" in verdict:
            entries = [(id, _of_evidence(id, story)) for id in verdict["evidence"]]
            named = [LogReference(entry["seq"]) if entry else Code(id) for id, entry in entries]
            rows.append(("Named evidence", _separated(named)))
        quotes = _written(verdict, "note")
    elif "blocker" in found:
        blocker, look = found["blocker"], "verdict"
        gate = f", for the gate {blocker['gate']}" if "gate" in blocker else ""
        head = (_severity(blocker), "raised a blocker for ", Code(blocker["to"]), gate)
        if "resolved_by" in blocker:
            at = f" at {_when(blocker['resolved_at'])}"
            rows.append(("Resolved by", (Code(blocker["resolved_by"]), at)))
        what = blocker.get("what", "(redacted)")
        quotes = [Quote("Problem", what), *_written(blocker)]
    elif "message" in found:
        head, quotes = _message(found["message"])
    else:
        head = _happened(found)
        if found["kind"] == "task_taken":
            rows.append(("Claim number", f"{found['fence']} (fence)"))
        if "tree" in found:
            rows.append(("Tree", Code(found["tree"])))
        quotes = _written(found, *(("reason",) if found.get("taken_over") else ()), "note")
    if "session" in found:
        rows.append(("Session", Code(found["session"])))
    first, *rest = pieces(head)
    by = (Code(found["by"]), " ")
    head = (first, " ", *by, *rest) if isinstance(first, Mark) else (*by, first, *rest)
    return LoggedStep(found["seq"], _when(found["at"]), head, look, quotes, Pairs(rows))


def _happened(found: Answer) -> Line:
    match found["kind"]:
        case "task_created":
            return "created the task"
        case "task_taken":
            return "took the task"
        case "task_submitted":
            return "submitted the commit ", Code(found["commit"])
        case "task_ended":
            return "ended the task: ", Mark(found["status"].upper())
        case "blocker_resolved":
            return "resolved the blocker ", Code(found["id"])
        case "claim_released" if found.get("taken_over"):
            return "took the task over from its worker"
        case "claim_released":
            why = "" if found["reason"] == "released" else f" ({found['reason']})"
            return f"released the worker's claim on the task{why}"
        case "claim_expired":
            return "recorded that the worker's claim on the task had expired"
        case kind:
            return str(kind).replace("_", " ")


def _evidence(piece: Answer) -> tuple[Line, list[_Row], list[Quote]]:
    kind = piece["kind"]
    tie = f" for criterion {piece['criterion']}" if "criterion" in piece else ""
    rows: list[_Row] = [("Evidence id", Code(piece["id"]))]
    if "title" in piece:
        rows.append(("Title", piece["title"]))
    if kind != "run":
        head: Line = (_ATTACHED, f"attached a {_KINDS[kind]}{tie}; no command was run")
        if piece.get("redacted"):
            return (*head, f". The {_KINDS[kind]} was deleted (redacted)"), [], []
        if kind == "file":
            rows += _bytes("File", piece, piece["id"])
            return head, rows, [Quote("File name", piece["name"])]
        if kind == "url":
            return head, rows, [Quote("URL", piece["url"])]
        return head, rows, [Quote("Note", piece["text"])]

    head = (_RUN, f"ran a command{tie}")
    if piece.get("redacted"):
        return (*head, ". The record of the run was deleted (redacted)"), [], []
    succeeded = piece["exit_code"] == 0 and not piece.get("interrupted")
    head = (*head, ", ", Mark(f"EXIT {piece['exit_code']}", "go" if succeeded else "stop"))
    rows.append(("Duration", f"{piece['duration_ms']} ms"))
    if "tests" in piece:
        tests = ", ".join(f"{number} {what}" for what, number in sorted(piece["tests"].items()))
        rows.append(("Tests", tests))
    tree: Line = (Mark("NONE", "stop"), " the command did not run in a repository")
    if "tree" in piece and piece.get("dirty"):
        tree = (Mark("DIRTY", "stop"), " with uncommitted changes, ", Code(piece["tree"]))
    elif "tree" in piece:
        tree = (Mark("CLEAN", "go"), " ", Code(piece["tree"]))
    rows.append(("Tree", tree))
    if "commit" in piece:
        rows.append(("Commit", Code(piece["commit"])))
    rows.append(("Directory", Code(piece["cwd"])))
    if piece.get("interrupted"):
        by = "its time limit" if piece.get("ended_by") == "time limit" else "a signal"
        rows.append(("Interrupted", (Mark("YES", "stop"), f" by {by}")))
    if piece.get("spooled"):
        how: Line = (Mark("OFFLINE", "wait"), " in a file that the sender submitted later")
        rows.append(("Recorded", how))
    if piece.get("masked"):
        secrets = Mark(count(piece["masked"], "secret").upper(), "wait")
        rows.append(("Masked", (secrets, " in the command or its output")))
    if "produced" in piece:
        cut: Line = (Mark("YES", "wait"), f" the command wrote {piece['produced']} bytes")
        rows.append(("Output shortened", cut))
    rows += _bytes("Output", piece["output"], piece["id"])
    command = piece["command"]
    written = command if isinstance(command, str) else shlex.join(command)
    return head, rows, [Quote("Command", written)]


def _message(found: Answer) -> tuple[Line, list[Quote]]:
    main = MAIN_MEMBER.get(found["type"])
    if main is None:
        news = _NEWS.get(found["type"], f": {found['type']}")
        return ("told ", Code(found["to"]), news), []
    head: Line = ("sent a message to ", Code(found["to"]), f" (type {found['type']})")
    if found.get("redacted"):
        return (*head, ". Its text was deleted (redacted)"), []
    if "payload" not in found:
        return (*head, ". Its text is left out, because the report's creator may not read it"), []
    if found.get("part"):
        part = f". {found['shown']} of {found['size']} bytes are shown. To read all of it: "
        head = (*head, part, Code(f"interlock read {found['id']}"))
    quotes = []
    for name, value in found["payload"].items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        quotes.append(Quote("Text" if name == main else name.capitalize(), text))
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
        ("To read it", Code(f"interlock evidence show {id} --raw")),
    ]


def _written(found: Answer, *names: str) -> list[Quote]:
    quotes = [Quote(name.capitalize(), found[name]) for name in names if name in found]
    return quotes + [Quote("Suggested fix", fix) for fix in found.get("fix", ())]
