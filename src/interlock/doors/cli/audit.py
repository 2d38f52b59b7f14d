"""Commands about the audit."""

import os

from interlock.doors.cli.context import Context, absolute, read_file
from interlock.doors.cli.grammar import command
from interlock.errors import NotAWorkspace, NotFound
from interlock.log.encoding import decode
from interlock.rooms.workspace.verbs import ExportLog, ShowLog, VerifyLog, pages
from interlock.verbs.answers import Answer


@command(
    "audit verify [EXPORT] [--checkpoint FILE]",
    help={
        "export": "a file that audit export wrote, instead of the log",
        "checkpoint": "a checkpoint that you kept",
    },
)
def verify(context: Context) -> Answer:
    """Check the whole log, and name the first bad entry.

    Exit 1 when it found damage.
    """
    checkpoint = None
    if (path := context.get("checkpoint")) is not None:
        data = read_file(path)
        try:
            checkpoint = str(decode(data)["checkpoint"])
        except (ValueError, KeyError, TypeError):  # not the JSON document of audit checkpoint
            checkpoint = data.decode("utf-8", "replace")
    if (path := context.get("export")) is None:
        refuse_absent(context, "log to verify")
        return context.call_as_owner(VerifyLog(checkpoint))
    from interlock.node import audit

    try:
        lines = open(path, "rb")  # noqa: SIM115 - only opening it raises NotFound
    except OSError as trouble:
        raise NotFound(f"{path} cannot be read: {trouble.strerror}.") from None
    with lines:
        return audit.verify_export(lines, checkpoint)


def refuse_absent(context: Context, wanted: str) -> None:
    """Refuse a named workspace that does not exist. Other commands would create it, and an empty
    log is valid, which must not be the answer about a mistyped name."""
    place = context.place
    if not (context.get("workspace") or os.environ.get("INTERLOCK_WORKSPACE")) or "://" in place:
        return
    try:
        os.stat(place)
    except FileNotFoundError:
        raise NotAWorkspace(f"There is no workspace at {place}, and no {wanted}.") from None
    except OSError:
        return  # opening it says what is wrong


@command(
    "audit show [--limit N] [--after SEQ] [--kind KIND]",
    ShowLog,
    help={"kind": "only facts of this kind"},
)
def show(context: Context) -> Answer:
    """Print the facts of the log."""
    from interlock.verbs.flows import run

    request = ShowLog(context.get("after", 0), context.get("limit", 50), context.get("kind"))
    return run(pages(request), context.call_as_owner)


@command(
    "audit check-proof FILE [--verifier KEY]",
    help={
        "file": "what audit prove --json or report wrote",
        "verifier": "the workspace's verifier key, as you know it",
    },
)
def check_proof(context: Context) -> Answer:
    """Check a proof, with no workspace at hand."""
    from interlock.doors.cli.report import seal
    from interlock.node import proofs

    verifier = context.get("verifier")
    data = read_file(context.values["file"])
    try:
        proof = decode(data)
    except ValueError:
        return seal.check(seal.found(data), verifier)
    if isinstance(proof, dict) and isinstance(proof.get("report"), str):
        return seal.check(seal.found(proof["report"].encode()), verifier)
    return proofs.check_proof(proof, verifier)


@command("audit export FILE", ExportLog)
def export(context: Context) -> Answer:
    given = context.values["file"]
    return context.call_as_owner(ExportLog(absolute(given))) | {"file": given}
