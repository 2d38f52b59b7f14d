"""The command that writes a report: what the workspace knows of a task, and proofs of it."""

import os

from interlock.doors.cli.context import Context
from interlock.doors.cli.report import write
from interlock.errors import Usage
from interlock.rooms.work.verbs import ShowTask
from interlock.rooms.workspace.verbs import ProveMany
from interlock.verbs.answers import Answer

PROVEN_AT_ONCE = 1000


def report(context: Context) -> Answer:
    path = context.get("output")
    form = context.get("format") or _form_of(path)
    if path is not None and os.path.lexists(path):
        raise _taken(path)
    shown = context.call_as_owner(ShowTask(context.values["task"]))
    text = write(form, shown, _proofs(context, [entry["seq"] for entry in shown["story"]]))
    if path is None:
        return {"format": form, "report": text}
    _keep(path, text)
    return {"format": form, "file": path}


def _form_of(path: str | None) -> str:
    """Whoever names a page by its ending wants a page in it."""
    return "html" if path is not None and path.lower().endswith((".html", ".htm")) else "md"


def _proofs(context: Context, seqs: list[int]) -> list[Answer]:
    return [
        context.call_as_owner(ProveMany(tuple(seqs[start : start + PROVEN_AT_ONCE])))
        for start in range(0, len(seqs), PROVEN_AT_ONCE)
    ]


def _keep(path: str, text: str) -> None:
    """Into a new file, which is whole or not there."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        raise _taken(path) from None
    except OSError as trouble:
        raise Usage(f"{path} cannot be written: {trouble.strerror}.") from None
    try:
        with open(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as trouble:
        os.unlink(path)
        raise Usage(f"{path} cannot be written: {trouble.strerror}.") from None


def _taken(path: str) -> Usage:
    return Usage(f"{path} exists already; a report goes into a new file.")
