"""Commands about the audit."""

import os
from typing import Any

from interlock.doors.cli.context import Context, absolute
from interlock.errors import NotAWorkspace, NotFound
from interlock.log.encoding import decode
from interlock.rooms.workspace.verbs import ExportLog, ShowLog, VerifyLog, pages
from interlock.verbs.answers import Answer


def verify(context: Context) -> Answer:
    checkpoint = _note(context.get("checkpoint"))
    if (path := context.get("export")) is None:
        refuse_absent(context, "log to verify")
        return context.call_as_owner(VerifyLog(checkpoint))
    from interlock.node import audit

    with _opened(path) as lines:
        return audit.verify_export(lines, checkpoint)


def refuse_absent(context: Context, wanted: str) -> None:
    """Other commands make the workspace they are asked about. A new, empty log is whole and well,
    and that must not be the answer about one that was mistyped."""
    place = context.place
    if not (context.get("workspace") or os.environ.get("INTERLOCK_WORKSPACE")) or "://" in place:
        return
    try:
        os.stat(place)
    except FileNotFoundError:
        raise NotAWorkspace(f"There is no workspace at {place}, and no {wanted}.") from None
    except OSError:
        return  # opening it says what is wrong


def show(context: Context) -> Answer:
    from interlock.verbs.flows import run

    act = ShowLog(context.get("after", 0), context.get("limit", 50), context.get("kind"))
    return run(pages(act), context.call_as_owner)


def check_proof(context: Context) -> Answer:
    """A proof as `audit prove` wrote it, or a report with the proofs inside it."""
    from interlock.doors.cli.report import seal
    from interlock.node import proofs

    verifier = context.get("verifier")
    with _opened(context.values["file"]) as file:
        data = file.read()
    try:
        proof = decode(data)
    except ValueError:
        return seal.check(seal.found(data), verifier)
    if isinstance(proof, dict) and isinstance(proof.get("report"), str):
        return seal.check(seal.found(proof["report"].encode()), verifier)
    return proofs.check_proof(proof, verifier)


def export(context: Context) -> Answer:
    given = context.values["file"]
    return context.call_as_owner(ExportLog(absolute(given))) | {"file": given}


def _note(path: str | None) -> str | None:
    """A checkpoint as printed, as text or within the JSON document of audit checkpoint."""
    if path is None:
        return None
    with _opened(path) as file:
        data = file.read()
    try:
        found = decode(data)
        return str(found["checkpoint"])
    except (ValueError, KeyError, TypeError):
        return bytes(data).decode("utf-8", "replace")


def _opened(path: str) -> Any:
    try:
        return open(path, "rb")
    except OSError as trouble:
        raise NotFound(f"{os.fspath(path)} cannot be read: {trouble.strerror}.") from None
