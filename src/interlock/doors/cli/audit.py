"""Commands about the audit."""

import os
from typing import Any

from interlock.contracts import acts
from interlock.contracts.checks import checked
from interlock.contracts.encoding import decode
from interlock.doors.cli.context import Answer, Context
from interlock.errors import NotFound, Usage


def verify(context: Context) -> Answer:
    from interlock.node import audit

    checkpoint = _note(context.get("checkpoint"))
    if (path := context.get("export")) is None:
        return audit.verify(context.node, checkpoint)
    with _opened(path) as lines:
        return audit.verify_export(lines, checkpoint)


def show(context: Context) -> Answer:
    from interlock.node import audit

    act = acts.ShowLog(context.get("after", 0), context.get("limit", 50), context.get("kind"))
    return audit.show(context.node, checked(act))


def checkpoint(context: Context) -> Answer:
    from interlock.node import proofs

    return proofs.checkpoint(context.node)


def prove(context: Context) -> Answer:
    from interlock.node import proofs

    seq, since = context.get("seq"), context.get("since")
    if (seq is None) == (since is None):
        raise Usage("Name an entry by its SEQ, or the log's earlier size with --since.")
    return proofs.prove(context.node, seq) if seq else proofs.prove_growth(context.node, since)


def check_proof(context: Context) -> Answer:
    from interlock.node import proofs

    with _opened(context.values["file"]) as file:
        try:
            proof = decode(file.read())
        except ValueError:
            raise Usage("That file is not JSON, and so not a proof.") from None
    return proofs.check_proof(proof, context.get("verifier"))


def export(context: Context) -> Answer:
    from interlock.node import audit

    target = context.values["file"]
    try:
        return audit.export(context.node, context.credentials(owner_may=True), target)
    except FileExistsError:
        raise Usage(f"{target} exists already; an export goes into a new file.") from None
    except OSError as trouble:
        raise Usage(f"{target} cannot be written: {trouble.strerror}.") from None


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
