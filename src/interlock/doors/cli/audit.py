"""Commands about the audit."""

import os
import shlex

from interlock.doors.cli.context import Context, absolute, read_file
from interlock.doors.cli.grammar import command
from interlock.errors import NotAWorkspace, NotFound
from interlock.log.encoding import decode
from interlock.rooms.workspace.verbs import ExportLog, ShowLog, VerifyLog, pages
from interlock.verbs.answers import Answer


@command(
    "audit verify [EXPORT] [--checkpoint FILE]",
    help={
        "export": "a file that audit export wrote (default: the workspace's log)",
        "checkpoint": "a file with an earlier checkpoint, which the log must contain",
    },
)
def verify(context: Context) -> Answer:
    """Verify the whole log, and name the first damaged entry.

    Exit 1: the log is damaged.
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
        raise NotFound(f"Cannot read {path}: {trouble.strerror}.") from None
    with lines:
        return audit.verify_export(lines, checkpoint)


def refuse_absent(context: Context, wanted: str) -> None:
    """Refuse a named workspace that does not exist. Other commands create it. Here, the answer
    about a mistyped name would be that its empty log is intact."""
    place = context.place
    if not (context.get("workspace") or os.environ.get("INTERLOCK_WORKSPACE")) or "://" in place:
        return
    try:
        os.stat(place)
    except FileNotFoundError:
        raise NotAWorkspace(
            f"There is no workspace at {place}, so there is no {wanted}. To create a workspace: "
            f"interlock --workspace {shlex.quote(place)} init"
        ) from None
    except OSError:
        return  # opening the workspace reports the error


@command(
    "audit show [--limit N] [--after SEQ] [--kind KIND]",
    ShowLog,
    help={"kind": "only entries of this kind, such as task_created"},
)
def show(context: Context) -> Answer:
    """List the entries of the log."""
    from interlock.verbs.flows import run

    request = ShowLog(context.get("after", 0), context.get("limit", 50), context.get("kind"))
    return run(pages(request), context.call_as_owner)


@command(
    "audit check-proof FILE [--verifier KEY]",
    help={
        "file": "a file that audit prove --json or report wrote",
        "verifier": "the workspace's verifier key, from a person you trust (default: the key in "
        "the file)",
    },
)
def check_proof(context: Context) -> Answer:
    """Check a proof or a report, without a workspace."""
    from interlock.doors.cli.report import proof_block
    from interlock.node import proofs

    verifier = context.get("verifier")
    data = read_file(context.values["file"])
    try:
        proof = decode(data)
    except ValueError:
        return proof_block.check(proof_block.found(data), verifier)
    if isinstance(proof, dict) and isinstance(proof.get("report"), str):
        return proof_block.check(proof_block.found(proof["report"].encode()), verifier)
    return proofs.check_proof(proof, verifier)


@command("audit export FILE", ExportLog)
def export(context: Context) -> Answer:
    given = context.values["file"]
    return context.call_as_owner(ExportLog(absolute(given))) | {"file": given}
