"""Commands about tasks and gates, and the report and the scrub."""

import sys
from typing import Any, cast

from interlock.doors.cli import output
from interlock.doors.cli.context import Context, read_file, read_text
from interlock.doors.cli.grammar import command
from interlock.errors import DigestMismatch, GatesNotPassed, Usage
from interlock.rooms.work.verbs import CreateTask, GiveVerdict, ListTasks, SubmitTask
from interlock.verbs.answers import Answer
from interlock.verbs.types import Choice

# How many digits the id of a commit has: by SHA-1, or by SHA-256.
WHOLE = (40, 64)


@command("task import FILE|-", help={"file": "the brief; - reads it from standard input"})
def import_brief(context: Context) -> Answer:
    """Create a task from a brief in Markdown.

    The title is the first heading, the criteria are the checklist. Front matter may say id, gates,
    priority, assignee, labels and depends_on.
    """
    from interlock.doors.cli import briefs

    path = context.values["file"]
    try:
        text = read_text() if path == "-" else read_file(path).decode()
    except UnicodeDecodeError as wrong:
        raise Usage(f"{path} is not UTF-8 text: byte {wrong.start} does not fit.") from None
    found = briefs.parse(text)
    return context.call(
        CreateTask(
            title=found.title,
            id=found.id,
            brief=found.brief or None,
            criteria=found.criteria,
            gates=found.gates,
            depends_on=found.depends_on,
            priority=cast(Any, found.priority),
            assignee=found.assignee,
            labels=found.labels,
        )
    )


_STATES = Choice("all", "live", "open", "taken", "submitted", "done", "failed", "cancelled")


@command(
    "task list [--state S] [--mine] [--limit N] [--after SEQ]",
    ListTasks,
    help={"state": ("live if absent", _STATES)},
)
def list_tasks(context: Context) -> Answer:
    """List tasks."""
    state = context.get("state", "live")
    request = context.request(state=None if state == "all" else state)
    found = context.call(request) if request.needs_sender() else context.call_as_owner(request)
    # The view of an empty list says which state it lists; the answer has no such member.
    return found if context.json else found | {"state": state}


@command(
    "task submit ID [--commit C] [--tree TREE] [--fence N]",
    SubmitTask,
    help={
        "commit": "the commit to submit; HEAD if absent",
        "tree": "its tree, where the commit is in no repository here",
    },
)
def submit(context: Context) -> Answer:
    from interlock import evidence

    named, tree = context.get("commit", "HEAD"), context.get("tree")
    if (found := evidence.artifact(named)) is not None:
        if tree not in (None, found[1]):
            raise DigestMismatch(
                f"The tree of {found[0][:12]} is {found[1]}, as git has it here. Leave --tree out."
            )
        named, tree = found
    elif len(named) not in WHOLE or set(named) - set("0123456789abcdef"):
        raise Usage(
            f"There is no commit {named[:80]!r} here. Stand in the repository, commit what is "
            "done, and submit that; or say what git knows there: --commit with the whole id that "
            "git rev-parse HEAD prints, and --tree with what git rev-parse 'HEAD^{tree}' prints."
        )
    answer = context.call(context.request(commit=named, tree=tree))
    here = evidence.standing()
    if here is not None and here.dirty and "commit" not in context.values:
        message = (
            "Uncommitted changes here were not submitted, and runs on this tree meet no criterion."
        )
        answer["notices"] = [{"code": "DIRTY_TREE", "message": message}]
    return answer


@command("gate pass TASK GATE [--note N] [--commit C] [--evidence ID...]", GiveVerdict)
def give_pass(context: Context) -> Answer:
    """Pass the submitted commit of a task at a gate."""
    return _give(context, "pass")


@command(
    "gate fail TASK GATE [--fix CMD...] [--note N] [--commit C] [--evidence ID...]",
    GiveVerdict,
    examples=("interlock gate fail B-12 athena --note 'the linter complains' --fix 'make fmt'",),
)
def give_fail(context: Context) -> Answer:
    """Fail the submitted commit of a task at a gate.

    The verdict becomes a blocker, and wakes the worker.
    """
    return _give(context, "fail")


def _give(context: Context, verdict: str) -> Answer:
    tree = None
    if (commit := context.get("commit")) is not None:
        from interlock.evidence import artifact

        # The commit need not be in the repository here.
        tree = (artifact(commit) or (commit, None))[1]
    return context.call(context.request(verdict=verdict, tree=tree))


@command(
    "gate run TASK [--gate G] [--rules FILE] [--new-rules]",
    help={
        "task": "the submitted task",
        "gate": "only this gate",
        "rules": "the interlock.toml to go by; the repository's if absent",
        "new_rules": "judge by other checks than the last time",
    },
)
def run_checks(context: Context) -> Answer:
    """Run the checks of interlock.toml, and give their verdicts.

    In a fresh checkout of the submitted commit, as a sender that holds the gates. Exit 1 when one
    failed.
    """
    from interlock.evidence.judging import Judge, root_here

    task, rules = context.values["task"], context.get("rules")
    judge = Judge(context.call, task, root_here(), rules, output.live(sys.stderr))
    judged = judge.judge(context.get("gate"), new_rules=context.get("new_rules", False))
    answer: Answer = {"task": task, "gates": judged}
    if failed := [found["gate"] for found in judged if found["verdict"] == "fail"]:
        message = f"Failed: {', '.join(failed)}. Its worker was told."
        answer |= GatesNotPassed(message).as_dict()
    return answer


@command(
    "scrub [--rules FILE]",
    help={"rules": "the interlock.toml to go by; the repository's if absent"},
)
def scrub(context: Context) -> Answer:
    """Look whether this repository can be opened to the public.

    Exit 1 when it found something. The table [scrub] of interlock.toml lists private words and
    exceptions.
    """
    from interlock.evidence.judging import root_here, rules_at
    from interlock.scrub import findings, rules_of

    root = root_here()
    rules = rules_at(root, context.get("rules")).scrub
    found = [finding.view() for finding in findings(root, rules_of(rules))]
    answer: Answer = {"clean": not found, "findings": found, "rules": sorted(rules)}
    if found:
        many = "1 finding" if len(found) == 1 else f"{len(found)} findings"
        message = f"{many}: it cannot be opened to the public yet."
        answer |= GatesNotPassed(message).as_dict()
    return answer


@command(
    "report TASK [--format F] [--output FILE]",
    help={
        "task": "the task",
        "format": ("if absent, by the file's ending, or md", Choice("md", "html")),
        "output": "where to; standard output if absent",
    },
)
def report(context: Context) -> Answer:
    """Write the story of a task as a document, with proofs.

    interlock audit check-proof FILE checks its proofs, with no workspace at hand.
    """
    from interlock.doors.cli import reporting

    return reporting.report(context)
