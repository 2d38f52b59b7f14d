"""The commands `evidence run`, `evidence add` and `evidence show`."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from interlock.doors.cli import output
from interlock.doors.cli.context import Context
from interlock.doors.cli.grammar import command
from interlock.doors.cli.mail import byte_range
from interlock.errors import (
    EngineUnavailable,
    NotAllowed,
    NotAvailable,
    NotFound,
    Refusal,
    Usage,
)
from interlock.rooms.claims.verbs import RenewClaim
from interlock.rooms.mail.uploads import attach, in_chunks, in_pieces
from interlock.rooms.work.verbs import AddEvidence, PrepareEvidence, ShowEvidence
from interlock.rooms.workspace.verbs import Whoami
from interlock.verbs.answers import Answer
from interlock.verbs.flows import run as run_flow
from interlock.verbs.types import LINE, Integer, Seconds

if TYPE_CHECKING:
    from interlock.doors.cli.grammar import Help

INTERLOCK_FAILED = 125
MIN_PAUSE_S = 0.4
RETRY_S = 3.0
# How long the end of a run waits for a renewal that is still running.
LAST_RENEWAL_S = 5.0
SHOWN_AT_ONCE = 1 << 18
MAX_FILE_BYTES = 256 << 20


_ABOUT: "Help" = {
    "task": "the task that the evidence belongs to",
    "criterion": ("the number of the criterion, as task show prints it", Integer(1, 100)),
    "title": "a title of one line, shown in lists",
    "fence": ("the fence number of your claim; Interlock refuses an old one", Integer(1)),
}


@command(
    "evidence run [--task T] [--criterion N] [--title T] [--time-limit D] [--output-limit BYTES] "
    "[--memory-limit BYTES] [--spool DIR] [--fence N] -- COMMAND...",
    help={
        **_ABOUT,
        "time_limit": ("stop the command after this time: 90s, 15m, 2h", Seconds()),
        "output_limit": (
            "store at most this many bytes of its output (default: 64 MiB)",
            Integer(1024, 256 << 20),
        ),
        "memory_limit": ("the most memory that the command may use", Integer(1 << 20)),
        "spool": "write the run to a file in this directory, not to the workspace",
    },
    examples=("interlock evidence run --task B-12 --criterion 1 -- pytest -q",),
)
def run(context: Context) -> int:
    """Run a command, and store its result and output as evidence.

    The exit status is the command's own. Exit 125: Interlock itself failed. Interlock masks tokens
    in the stored output. If Interlock reaches neither the workspace nor a server, it writes the run
    to a file. Submit that file with the MCP tool evidence, or with interlock evidence add --spool.
    """
    from interlock import evidence

    names = {"time_limit": "time_s", "output_limit": "output_bytes", "memory_limit": "memory_bytes"}
    limits = {limit: context.values[key] for key, limit in names.items() if key in context.values}
    try:
        prepared = _prepare(context)
        with _claim_kept(context, prepared):
            recorded = evidence.record(
                context.rest,
                evidence.Limits(**limits),
                out=output.live(sys.stderr if context.json else sys.stdout),
                err=output.live(sys.stderr),
            )
            # Ignore signals until the run is recorded, which is short.
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, lambda *_: None)
        with recorded:
            payload = recorded.payload | _about(context)
            answer = _record(context, payload, recorded.output, prepared.get("fence"))
    except evidence.NotStarted as trouble:
        if context.json:
            output.refusal(Usage(f"{trouble}. Nothing was run."), json=True)
        else:
            output.remark(str(trouble))
        return trouble.status
    except Refusal as refusal:
        output.refusal(refusal, json=context.json)
        return INTERLOCK_FAILED
    if context.json:
        output.document(answer)
        return recorded.exit_status
    from interlock.doors.cli.views import text

    output.remark(text("evidence run", output.clean(answer)))
    found, most = answer.get("evidence", {}), context.get("memory_limit")
    if most is not None and found.get("ended_by") == "signal" and not found.get("interrupted"):
        output.remark(f"A signal ended the command. Its memory limit was {most} bytes.")
    return recorded.exit_status


def _about(context: Context) -> Answer:
    names = {"task": "task_id", "criterion": "criterion", "title": "title"}
    given = context.values
    return {member: given[key] for key, member in names.items() if key in given}


def _prepare(context: Context) -> Answer:
    """Get the fence under which the workspace will record the run, so that it detects a claim that
    is lost during the run. Offline, return only the fence of the command line."""
    if "criterion" in context.values and "task" not in context.values:
        raise Usage("--criterion needs a task. Name the task with --task T.")
    if (title := context.get("title")) is not None:
        LINE.check("title", title)
    fence: int | None = context.get("fence")
    offline = {"fence": fence} if fence is not None else {}
    if (directory := context.get("spool")) is not None:
        if not os.path.isdir(directory):
            raise Usage(f"{directory} is not a directory. Name an existing one with --spool DIR.")
        return offline
    try:
        context.link.open()
        if "task" in context.values:
            return context.call(
                PrepareEvidence(context.values["task"], context.get("criterion"), fence)
            )
        context.call(Whoami())
    except (EngineUnavailable, OSError):
        return offline
    return {}


@contextmanager
def _claim_kept(context: Context, prepared: Answer) -> Iterator[None]:
    """Renew the worker's claim on the task while the block runs."""
    if "lease_s" not in prepared:
        yield
        return
    task, fence, lease_s = prepared["task"], prepared["fence"], prepared["lease_s"]
    credentials = context.credentials()
    ended = threading.Event()

    def keep() -> None:
        pause_s = prepared["left_s"] - lease_s / 2
        while not ended.wait(max(MIN_PAUSE_S, pause_s)):
            try:
                found = context.link.call(credentials, PrepareEvidence(task, fence=fence))
                if found["left_s"] < lease_s / 2:
                    renewal = RenewClaim(task, ttl_s=lease_s, fence=fence)
                    context.link.call(credentials, renewal)
                pause_s = found["left_s"] - lease_s / 2
            except NotAllowed:
                return  # the claim was lost, which the end of the run reports
            except (Refusal, OSError):
                pause_s = min(RETRY_S, lease_s / 8)

    keeper = threading.Thread(target=keep, daemon=True)
    keeper.start()
    try:
        yield
    finally:
        ended.set()
        keeper.join(LAST_RENEWAL_S)


def _record(context: Context, payload: Answer, path: str, fence: int | None) -> Answer:
    """Record the run in the workspace, or in a file if the workspace cannot be reached or refuses
    it. The key prevents a second record of a run whose answer was lost."""
    from interlock.evidence import spool

    key = spool.new_key()

    def to_hand_over(written: str) -> Answer:
        task = payload.get("task_id", "TASK")
        return {
            "spooled": written,
            "do": f"interlock evidence add --task {task} --spool {written}",
        }

    if (directory := context.get("spool")) is None:
        request = AddEvidence(payload, fence=fence, key=key)
        size = os.path.getsize(path)
        try:
            context.link.open()  # an unreachable workspace must fail here, not in the credentials
            with open(path, "rb") as file:
                return run_flow(attach(request, in_chunks(file), size), context.call)
        except (NotAvailable, OSError) as trouble:
            why = trouble.message if isinstance(trouble, NotAvailable) else str(trouble)
            output.remark(f"The workspace cannot record the run now: {why}")
        except Refusal as refusal:
            # Hooks do not submit this file. The caller decides whether to submit the run.
            try:
                members = to_hand_over(spool.write(payload, path, key, ending=spool.REFUSED))
            except Refusal:
                raise refusal from None
            message = (
                f"{refusal.message} The run is saved in a file. To submit it later: {members['do']}"
            )
            raise type(refusal)(message, **refusal.members | members) from None
    return to_hand_over(spool.write(payload, path, key, directory))


@command(
    "evidence add --task T [--criterion N] [--title T] "
    "(--file F | --url U | --note N | --spool FILE) [--fence N]",
    help={
        **_ABOUT,
        "file": "a file, whose bytes are stored",
        "url": "the URL of a page",
        "note": "a text; - reads it from standard input",
        "spool": "a file that evidence run wrote while offline",
    },
)
def add(context: Context) -> Answer:
    """Attach a file, a URL or a note as evidence.

    A file, URL or note meets a criterion only if a passing verdict names it.
    """
    about, fence = _about(context), context.get("fence")
    if (path := context.get("file")) is not None:
        from interlock.evidence.files import attached

        with attached(path, MAX_FILE_BYTES) as (payload, copy):
            request = AddEvidence(payload | about, fence=fence)
            return run_flow(attach(request, in_chunks(copy), payload["size"]), context.call)
    if (path := context.get("spool")) is not None:
        from interlock.evidence import spool

        key, payload, data = spool.read(path)
        request = AddEvidence(payload | about, fence=fence, key=key)
        return run_flow(attach(request, in_pieces(data), len(data)), context.call)
    if (url := context.get("url")) is not None:
        return context.call(AddEvidence(about | {"kind": "url", "url": url}, fence=fence))
    note = context.text(context.values["note"])
    return context.call(AddEvidence(about | {"kind": "note", "text": note}, fence=fence))


@command(
    "evidence show ID [--range A-B | --raw]",
    help={
        "id": "the evidence: its id, a prefix of 6 or more characters, or #SEQ",
        "range": "only the stored bytes A to B, such as 0-999",
        "raw": "print all stored bytes, and nothing else",
    },
)
def show(context: Context) -> Answer | int:
    """Show a piece of evidence, and the end of its stored output or file."""
    id = context.values["id"]
    if not context.get("raw"):
        return context.call_as_owner(ShowEvidence(id, *byte_range(context.get("range"))))
    if context.json:
        raise Usage("--raw and --json exclude each other. Give one.")
    start = 0
    while True:
        found = context.call_as_owner(ShowEvidence(id, start, start + SHOWN_AT_ONCE))
        if (content := found.get("content")) is None:
            raise NotFound(f"{id} has no stored bytes. To show it: interlock evidence show {id}")
        data = content["text"].encode() if "text" in content else bytes.fromhex(content["hex"])
        output.raw(data)
        if "next_offset" not in content:
            return 0
        start = content["next_offset"]
