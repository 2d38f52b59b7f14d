"""What a report says: how the task stands, on what grounds, what happened, and how to check it."""

from collections.abc import Iterable, Sequence

from interlock.doors.cli.report import checking, story
from interlock.doors.cli.report.document import (
    Block,
    Code,
    Document,
    Line,
    Mark,
    Pairs,
    Paragraph,
    Points,
    Position,
    Quote,
    Section,
    Table,
    flat,
)
from interlock.doors.cli.report.story import joined, when
from interlock.verbs.answers import Answer

_TONES = {"done": "go", "failed": "stop", "cancelled": "plain"}
_VERDICTS = {"pass": ("PASSED", "go"), "fail": ("FAILED", "stop")}
_BEGINNING = 200


def document(shown: Answer, proofs: Sequence[Answer]) -> Document:
    task = shown["task"]
    sections = [
        Section("What was asked", _brief(task)),
        Section("Criteria", _criteria(shown)),
        Section("Gates", _gates(shown)),
        Section("Blockers", _blockers(shown)),
        Section("What is missing", _missing(shown)),
        Section("What happened", tuple(story.entry(found, shown) for found in shown["story"])),
        Section("How to check this document", checking.how(proofs)),
    ]
    return Document(
        title=f"{task['id']}: {flat(task['title']) or '(redacted)'}",
        state=Mark(task["state"].upper(), _TONES.get(task["state"], "wait")),
        about=Pairs(tuple(_about(shown))),
        sections=tuple(section for section in sections if section.blocks),
    )


def _about(shown: Answer) -> Iterable[tuple[str, Line]]:
    task, told = shown["task"], shown["story"]
    asked = (Code(task["created_by"]), f", {when(task['created_at'])}, ", Position(task["seq"]))
    yield "Asked for by", asked
    workers = [entry["by"] for entry in told if entry["kind"] == "task_taken"]
    yield "Worked on by", joined(workers) or ("nobody",)
    judges = [entry["by"] for entry in told if "verdict" in entry]
    yield "Judged by", joined(judges) or ("nobody",)
    if "artifact" in task:
        yield "Commit", (Code(task["artifact"]["commit"]),)
        yield "Tree", (Code(task["artifact"]["tree"]),)
        yield "Submitted", (when(task["submitted_at"]),)
    if "ended_at" in task:
        yield "Ended", (when(task["ended_at"]),)
    for name in ("assignee", "priority"):
        if name in task:
            yield name.capitalize(), (task[name],)
    for name, label in (("labels", "Labels"), ("depends_on", "Depends on")):
        if name in task:
            yield label, joined(task[name])


def _brief(task: Answer) -> tuple[Block, ...]:
    if "brief" not in task:
        return ()
    return (Quote("The brief, in the words of whoever asked for it", task["brief"]),)


def _criteria(shown: Answer) -> tuple[Block, ...]:
    rows = tuple(
        (
            (str(found["number"]),),
            (found["text"],),
            (Mark("MET", "go") if found["met"] else Mark("NOT MET", "stop"),),
            _grounds(found, shown),
        )
        for found in shown["task"]["criteria"]
    )
    if not rows:
        return ()
    legend: Line = (
        Mark("RUN", "run"),
        " here means that a command was recorded as run, by whoever is named, on a clean tree "
        "equal to the submitted one, and that it exited 0. ",
        Mark("SAID", "said"),
        " means that nothing was run: somebody attached or wrote it, and a holder of a gate took "
        "their word for it.",
    )
    return Table(("No.", "Criterion", "Stands", "On what grounds"), rows), Paragraph(legend)


def _grounds(found: Answer, shown: Answer) -> Line:
    if not found["met"]:
        return (found["why"],)
    entry = story.of_evidence(found["evidence"], shown)
    if entry is None:
        return (found["evidence"],)
    if found["by"] == "run":
        handed = ", handed over in a file" if entry["evidence"].get("spooled") else ""
        return (
            Mark("RUN", "run"),
            " by ",
            Code(entry["by"]),
            f" at {when(entry['at'])}, exit 0{handed}, ",
            Position(entry["seq"]),
        )
    said: Line = (Mark("SAID", "said"), f" in a {found['by']} by ", Code(entry["by"]), ", ")
    return (*said, Position(entry["seq"]), *_word_of(found["evidence"], shown))


def _word_of(evidence: str, shown: Answer) -> Line:
    """Who took somebody's word for it: the passing verdicts in force that name the evidence."""
    given = {found.get("id") for found in shown["task"]["gates"]}
    for entry in shown["story"]:
        verdict = entry.get("verdict", {})
        if verdict.get("id") in given and evidence in verdict.get("evidence", ()):
            gate = f", for the gate {verdict['gate']}, "
            return ", on the word of ", Code(entry["by"]), gate, Position(entry["seq"])
    return ()


def _gates(shown: Answer) -> tuple[Block, ...]:
    given = {entry["verdict"]["id"]: entry for entry in shown["story"] if "verdict" in entry}
    rows = tuple(
        (
            (found["gate"],),
            (Mark(*_VERDICTS.get(found["state"], (found["state"].upper(), "wait"))),),
            _judged(given.get(found.get("id"))),
            joined(found["holders"]) or ("nobody",),
        )
        for found in shown["task"]["gates"]
    )
    return (Table(("Gate", "Verdict", "Given", "Held by"), rows),) if rows else ()


def _judged(entry: Answer | None) -> Line:
    if entry is None:
        return ("not on what is submitted",)
    commit = Code(entry["verdict"]["artifact"]["commit"][:12])
    at = f" at {when(entry['at'])}, on "
    return "by ", Code(entry["by"]), at, commit, ", ", Position(entry["seq"])


def _blockers(shown: Answer) -> tuple[Block, ...]:
    raised = [entry["blocker"] for entry in shown["story"] if "blocker" in entry]
    rows = tuple(
        (
            (Position(found["seq"]),),
            (Mark(found["severity"].upper(), "stop" if found["severity"] == "stop" else "wait"),),
            (Code(found["by"]), " to ", Code(found["to"])),
            (_beginning(found.get("what", "(redacted)")),),
            _resolved(found),
        )
        for found in raised
    )
    return (Table(("Entry", "Weight", "From", "What", "Stands"), rows),) if rows else ()


def _beginning(text: str) -> str:
    line = flat(text)
    return line if len(line) <= _BEGINNING else f"{line[:_BEGINNING]}… (whole at its entry)"


def _resolved(found: Answer) -> Line:
    if "resolved_by" not in found:
        return (Mark("OPEN", "stop"),)
    by = Code(found["resolved_by"])
    return Mark("RESOLVED", "go"), " by ", by, f" at {when(found['resolved_at'])}"


def _missing(shown: Answer) -> tuple[Block, ...]:
    needs = tuple((f"{need['message']} ", Code(need["do"])) for need in shown["missing"])
    return (Points(needs),) if needs else ()
