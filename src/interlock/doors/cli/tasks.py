"""Commands about tasks."""

from typing import Any, cast

from interlock.doors.cli.context import Context, read_text
from interlock.errors import DigestMismatch, NotFound, Usage
from interlock.rooms.work.verbs import (
    CreateTask,
    ListTasks,
    SubmitTask,
)
from interlock.verbs.answers import Answer

# How many digits the id of a commit has: by SHA-1, or by SHA-256.
WHOLE = (40, 64)


def import_brief(context: Context) -> Answer:
    from interlock.doors.cli import briefs

    found = briefs.parse(_text_of(context.values["file"]))
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


def _text_of(path: str) -> str:
    if path == "-":
        return read_text()
    try:
        with open(path, "rb") as file:
            return file.read().decode()
    except OSError as trouble:
        raise NotFound(f"{path} cannot be read: {trouble.strerror}.") from None
    except UnicodeDecodeError as wrong:
        raise Usage(f"{path} is not UTF-8 text: byte {wrong.start} does not fit.") from None


def list_tasks(context: Context) -> Answer:
    state = context.get("state", "live")
    act = ListTasks(
        None if state == "all" else state,
        context.get("mine", False),
        context.get("limit", 100),
        context.get("after", 0),
    )
    found = context.call(act) if act.mine else context.call_as_owner(act)
    # Whoever sees no live tasks is told that there may be others; the answer itself has no such.
    return found if context.json else found | {"state": state}


def submit(context: Context) -> Answer:
    from interlock import evidence

    artifact = _artifact(context)
    answer = context.call(SubmitTask(context.values["id"], *artifact, context.get("fence")))
    here = evidence.standing()
    if here is not None and here.dirty and "commit" not in context.values:
        answer["notices"] = [
            {
                "code": "DIRTY_TREE",
                "message": "What is not committed here was not submitted, and runs on this tree "
                "meet no criterion.",
            }
        ]
    return answer


def _artifact(context: Context) -> tuple[str, str | None]:
    """The commit and its tree, as git knows them here; elsewhere as they are given, and the tree
    of a commit at which the worker ran something is known to the workspace."""
    from interlock import evidence

    named, tree = context.get("commit", "HEAD"), context.get("tree")
    if (found := evidence.artifact(named)) is not None:
        if tree not in (None, found[1]):
            raise DigestMismatch(
                f"The tree of {found[0][:12]} is {found[1]}, as git has it here. Leave --tree out."
            )
        return found
    if len(named) in WHOLE and not set(named) - set("0123456789abcdef"):
        return named, tree
    raise Usage(
        f"There is no commit {named[:80]!r} here. Stand in the repository, commit what is done, "
        "and submit that; or say what git knows there: --commit with the whole id that git "
        "rev-parse HEAD prints, and --tree with what git rev-parse 'HEAD^{tree}' prints."
    )
