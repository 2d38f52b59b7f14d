"""Commands about tasks and gates, and the commands `report` and `scrub`."""

import sys
from typing import Any, cast

from interlock.doors.cli import output
from interlock.doors.cli.context import Context, read_file, read_text
from interlock.doors.cli.grammar import command
from interlock.errors import DigestMismatch, GatesNotPassed, Usage
from interlock.rooms.work.verbs import CreateTask, GiveVerdict, ListTasks, SubmitTask
from interlock.verbs.answers import Answer
from interlock.verbs.types import Choice

# The length of a commit's full id: SHA-1, or SHA-256.
WHOLE = (40, 64)


@command("task import FILE|-", help={"file": "the brief's file; - reads standard input"})
def import_brief(context: Context) -> Answer:
    """Create a task from a brief in Markdown.

    The first heading is the title. The checklist has the criteria. Front matter can set id, title,
    gates, priority, assignee, labels and depends_on.
    """
    from interlock.doors.cli import briefs

    path = context.values["file"]
    try:
        text = read_text() if path == "-" else read_file(path).decode()
    except UnicodeDecodeError as wrong:
        raise Usage(f"{path} is not UTF-8 text: byte {wrong.start} is not valid.") from None
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
    help={"state": ("the state of the tasks (default: live)", _STATES)},
)
def list_tasks(context: Context) -> Answer:
    """List tasks."""
    state = context.get("state", "live")
    request = context.request(state=None if state == "all" else state)
    found = context.call(request) if request.needs_sender() else context.call_as_owner(request)
    # The view of an empty list names the state, which the answer does not have.
    return found if context.json else found | {"state": state}


@command(
    "task submit ID [--commit C] [--tree TREE] [--fence N]",
    SubmitTask,
    help={
        "commit": "the commit to submit (default: HEAD)",
        "tree": "the id of the commit's tree, if no repository on this machine has the commit",
    },
)
def submit(context: Context) -> Answer:
    from interlock import evidence

    named, tree = context.get("commit", "HEAD"), context.get("tree")
    if (found := evidence.artifact(named)) is not None:
        if tree not in (None, found[1]):
            raise DigestMismatch(
                f"In this repository, the tree of {found[0][:12]} is {found[1]}. Remove --tree."
            )
        named, tree = found
    elif len(named) not in WHOLE or set(named) - set("0123456789abcdef"):
        raise Usage(
            f"There is no commit {named[:80]!r} here. Change to the repository, commit your work, "
            "and submit it. From another directory, give --commit with the output of git rev-parse "
            "HEAD, and --tree with the output of git rev-parse 'HEAD^{tree}'."
        )
    answer = context.call(context.request(commit=named, tree=tree))
    here = evidence.standing()
    if here is not None and here.dirty and "commit" not in context.values:
        message = (
            "Your uncommitted changes were not submitted. Until you commit them, runs here meet "
            "no criterion."
        )
        answer["notices"] = [{"code": "DIRTY_TREE", "message": message}]
    return answer


@command("gate pass TASK GATE [--note N] [--commit C] [--evidence ID...]", GiveVerdict)
def give_pass(context: Context) -> Answer:
    """Give a passing verdict on the submitted commit of a task."""
    return _give(context, "pass")


@command(
    "gate fail TASK GATE [--fix CMD...] [--note N] [--commit C] [--evidence ID...]",
    GiveVerdict,
    examples=("interlock gate fail B-12 athena --note 'the linter complains' --fix 'make fmt'",),
)
def give_fail(context: Context) -> Answer:
    """Give a failing verdict on the submitted commit of a task.

    The verdict becomes a blocker of the task, and wakes the worker.
    """
    return _give(context, "fail")


def _give(context: Context, verdict: str) -> Answer:
    tree = None
    if (commit := context.get("commit")) is not None:
        from interlock.evidence import artifact

        # The commit may be missing in the repository here.
        tree = (artifact(commit) or (commit, None))[1]
    return context.call(context.request(verdict=verdict, tree=tree))


@command(
    "gate run TASK [--gate G] [--rules FILE] [--new-rules]",
    help={
        "task": "the submitted task",
        "gate": "only this gate (default: every gate of the task that has checks)",
        "rules": "the interlock.toml with the checks (default: the repository's)",
        "new_rules": "accept checks that differ from those of the gate's last verdict",
    },
)
def run_checks(context: Context) -> Answer:
    """Run the checks of interlock.toml, and give the verdicts of their gates.

    The checks run in a fresh checkout of the submitted commit. The sender must hold the gates.
    Exit 1: a check failed.
    """
    from interlock.evidence.judging import Judge, root_here

    task, rules = context.values["task"], context.get("rules")
    judge = Judge(context.call, task, root_here(), rules, output.live(sys.stderr))
    judged = judge.judge(context.get("gate"), new_rules=context.get("new_rules", False))
    answer: Answer = {"task": task, "gates": judged}
    if failed := [found["gate"] for found in judged if found["verdict"] == "fail"]:
        message = f"Failed: {', '.join(failed)}. Interlock told the worker."
        answer |= GatesNotPassed(message).as_dict()
    return answer


@command(
    "scrub [--rules FILE]",
    help={"rules": "the interlock.toml with the rules (default: the repository's)"},
)
def scrub(context: Context) -> Answer:
    """Check whether this repository is ready for a public release.

    Exit 1: the scrub found a problem. The table [scrub] of interlock.toml lists private words and
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
        message = f"{many}. Fix this before you make the repository public."
        answer |= GatesNotPassed(message).as_dict()
    return answer


@command(
    "report TASK [--format F] [--output FILE]",
    help={
        "task": "the task, such as B-12",
        "format": ("the format (default: that of the file's name, or md)", Choice("md", "html")),
        "output": "the new file (default: standard output)",
    },
)
def report(context: Context) -> Answer:
    """Write the history of a task as a document with proofs.

    To check the proofs, without a workspace: interlock audit check-proof FILE
    """
    from interlock.doors.cli import reporting

    return reporting.report(context)
