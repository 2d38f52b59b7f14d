"""The command `report`: write the history of a task as a document with proofs."""

import os

from interlock.doors.cli.context import Context
from interlock.doors.cli.report import content, markdown, page, proof_block
from interlock.errors import Usage
from interlock.rooms.work.verbs import ShowTask
from interlock.rooms.workspace.verbs import ProveMany
from interlock.verbs.answers import Answer

PROVEN_AT_ONCE = 1000


def report(context: Context) -> Answer:
    """Write a report in Markdown or HTML. The same answers give the same text.

    Raises `Usage` if the file exists or cannot be written.
    """
    path = context.get("output")
    is_page = path is not None and path.lower().endswith((".html", ".htm"))
    form = context.get("format") or ("html" if is_page else "md")
    if path is not None and os.path.lexists(path):
        raise _exists(path)
    shown = context.call_as_owner(ShowTask(context.values["task"]))
    seqs = [entry["seq"] for entry in shown["story"]]
    proofs = [
        context.call_as_owner(ProveMany(tuple(seqs[start : start + PROVEN_AT_ONCE])))
        for start in range(0, len(seqs), PROVEN_AT_ONCE)
    ]
    write = page.write if form == "html" else markdown.write
    text = write(content.document(shown, proofs), proof_block.packed(shown, proofs))
    if path is None:
        return {"format": form, "report": text}
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as trouble:
        raise Usage(f"{path} cannot be written: {trouble.strerror}.") from None
    try:
        with open(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as trouble:
        os.unlink(path)
        raise Usage(f"{path} cannot be written: {trouble.strerror}.") from None
    return {"format": form, "file": path}


def _exists(path: str) -> Usage:
    return Usage(f"{path} already exists. Name a new file with --output FILE.")
