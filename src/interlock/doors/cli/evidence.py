"""Commands about evidence: running something, attaching something, and looking at it."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

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
from interlock.verbs.credentials import Credentials
from interlock.verbs.flows import run as run_flow
from interlock.verbs.types import LINE, Integer, Seconds

if TYPE_CHECKING:
    from interlock.doors.cli.grammar import Help

INTERLOCK_FAILED = 125
LOOK_AGAIN_S = 0.4
TRY_AGAIN_S = 3.0
# How long the end of a run waits for a renewal that is under way.
LAST_RENEWAL_S = 5.0
SHOWN_AT_ONCE = 1 << 18
MAX_FILE_BYTES = 256 << 20


_ABOUT: "Help" = {
    "task": "the task it is about",
    "criterion": ("the criterion's number in task show", Integer(1, 100)),
    "title": "a line that lists show",
    "fence": ("the fence that you were granted", Integer(1)),
}


@command(
    "evidence run [--task T] [--criterion N] [--title T] [--time-limit D] [--output-limit BYTES] "
    "[--memory-limit BYTES] [--spool DIR] [--fence N] -- COMMAND...",
    help={
        **_ABOUT,
        "time_limit": ("end it after so long: 90s, 15m, 2h", Seconds()),
        "output_limit": (
            "keep at most so much of its output; 64 MiB if absent",
            Integer(1024, 256 << 20),
        ),
        "memory_limit": ("what it may use", Integer(1 << 20)),
        "spool": "write to a file there instead of the workspace",
    },
    examples=("interlock evidence run --task B-12 --criterion 1 -- pytest -q",),
)
def run(context: Context) -> int:
    """Run a command, and keep what came of it as evidence.

    The exit status is the command's own; 125 means that Interlock itself failed. What looks like a
    token is masked in what is kept. A shell that reaches neither the workspace nor a server writes
    a file, for the evidence tool or interlock evidence add --spool.
    """
    from interlock import evidence

    try:
        wanted = _prepared(context)
        with _claim_kept(context, wanted):
            recorded = evidence.record(
                context.rest,
                _limits(context),
                out=output.live(sys.stderr if context.json else sys.stdout),
                err=output.live(sys.stderr),
            )
            _finish_first()
        with recorded:
            payload = recorded.payload | _about(context)
            answer = _kept(context, payload, recorded.output, wanted.get("fence"))
    except evidence.NotStarted as trouble:
        if context.json:
            output.refusal(Usage(f"{trouble}. Nothing was run."), json=True)
        else:
            output.remark(str(trouble))
        return trouble.status
    except Refusal as refusal:
        output.refusal(refusal, json=context.json)
        return INTERLOCK_FAILED
    _say(context, answer)
    return recorded.exit_status


def _finish_first() -> None:
    """What was run is kept before anybody can stop us: that takes a moment, and then we end."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)


def _limits(context: Context) -> Any:
    from interlock.evidence import Limits

    given = {
        "time_s": context.get("time_limit"),
        "output_bytes": context.get("output_limit"),
        "memory_bytes": context.get("memory_limit"),
    }
    return Limits(**{name: value for name, value in given.items() if value is not None})


def _about(context: Context) -> Answer:
    said = {
        "task_id": context.get("task"),
        "criterion": context.get("criterion"),
        "title": context.get("title"),
    }
    return {name: value for name, value in said.items() if value is not None}


def _prepared(context: Context) -> Answer:
    """What the workspace says before the run begins: the fence under which it will be recorded, so
    that a claim which is lost meanwhile is noticed. A shell that reaches nobody finds out nothing.
    """
    if "criterion" in context.values and "task" not in context.values:
        raise Usage("A criterion is one of a task's: name the task with --task.")
    if (title := context.get("title")) is not None:
        LINE.check("title", title)
    fence: int | None = context.get("fence")
    unasked = {"fence": fence} if fence is not None else {}
    if (directory := context.get("spool")) is not None:
        if not os.path.isdir(directory):
            raise Usage(f"{directory} is no directory to write the run into.")
        return unasked
    try:
        context.link.open()
        credentials = context.credentials()
        if "task" not in context.values:
            context.link.call(credentials, Whoami())
            return {}
        wanted = PrepareEvidence(context.values["task"], context.get("criterion"), fence)
        return context.link.call(credentials, wanted)
    except (EngineUnavailable, OSError):
        return unasked


@contextmanager
def _claim_kept(context: Context, wanted: Answer) -> Iterator[None]:
    """Within it, the claim of whoever works on the task is kept renewed."""
    if "lease_s" not in wanted:
        yield
        return
    ended = threading.Event()
    words = (context, context.credentials(), wanted, ended)
    keeper = threading.Thread(target=_keep, args=words, daemon=True)
    keeper.start()
    try:
        yield
    finally:
        ended.set()
        keeper.join(LAST_RENEWAL_S)


def _keep(
    context: Context, credentials: Credentials, found: Answer, ended: threading.Event
) -> None:
    """Renews it below half of the lease, as a living session's. Trouble with that is no reason to
    end the run: the next look tries again, and a claim that was lost is told of at the end."""
    task, fence, lease_s = found["task"], found["fence"], found["lease_s"]
    renewal = RenewClaim(task, ttl_s=lease_s, fence=fence)
    pause_s = found["left_s"] - lease_s / 2
    while not ended.wait(max(LOOK_AGAIN_S, pause_s)):
        try:
            found = context.link.call(credentials, PrepareEvidence(task, fence=fence))
            if found["left_s"] < lease_s / 2:
                context.link.call(credentials, renewal)
            pause_s = found["left_s"] - lease_s / 2
        except NotAllowed:
            return
        except (Refusal, OSError):
            pause_s = min(TRY_AGAIN_S, lease_s / 8)


def _kept(context: Context, payload: Answer, path: str, fence: int | None) -> Answer:
    """What the workspace answers; or the file, where neither it nor a server can be reached, or
    nothing may be written just now: what was run is not to be lost. Where only the answer was
    lost, the key keeps what is handed over later from being recorded again."""
    from interlock.evidence import spool

    key = spool.new_key()
    if (directory := context.get("spool")) is None:
        act = AddEvidence(payload, fence=fence, key=key)
        size = os.path.getsize(path)
        try:
            context.link.open()  # before a credential is missed that lies where nobody can look
            with open(path, "rb") as file:
                return run_flow(attach(act, in_chunks(file), size), context.call)
        except (NotAvailable, OSError) as trouble:
            why = trouble.message if isinstance(trouble, NotAvailable) else str(trouble)
            output.remark(f"The workspace does not take it now: {why}")
        except Refusal as refusal:
            raise _put_aside(refusal, payload, path, key) from None
    written = spool.write(payload, path, key, directory)
    return {"spooled": written, "do": _to_hand_over(payload, written)}


def _put_aside(refusal: Refusal, payload: Answer, path: str, key: str) -> Refusal:
    """The refusal, with the file in which the run is all the same. No hook hands it over: whether
    it is still wanted is for whoever ran it to say."""
    from interlock.evidence import spool

    try:
        aside = spool.write(payload, path, key, ending=spool.REFUSED)
    except Refusal:
        return refusal
    do = _to_hand_over(payload, aside)
    said = f"{refusal.message} What ran is in a file, and can be handed over when you may: {do}"
    return type(refusal)(said, **refusal.members | {"spooled": aside, "do": do})


def _to_hand_over(payload: Answer, path: str) -> str:
    return f"interlock evidence add --task {payload.get('task_id', 'TASK')} --spool {path}"


def _say(context: Context, answer: Answer) -> None:
    """What became of it, beside the command's own output."""
    if context.json:
        output.document(answer)
        return
    from interlock.doors.cli.views import text

    output.remark(text("evidence run", output.clean(answer)))
    found, most = answer.get("evidence", {}), context.get("memory_limit")
    if most is not None and found.get("ended_by") == "signal" and not found.get("interrupted"):
        output.remark(f"A signal ended it, under a memory limit of {most} bytes.")


@command(
    "evidence add --task T [--criterion N] [--title T] "
    "(--file F | --url U | --note N | --spool FILE) [--fence N]",
    help={
        **_ABOUT,
        "file": "a file; its bytes are kept",
        "url": "a page",
        "note": "what you say",
        "spool": "a file that evidence run wrote while offline",
    },
)
def add(context: Context) -> Answer:
    """Attach a file, a page or a note.

    What was said meets a criterion only when a passing verdict names it.
    """
    about = _about(context)
    fence = context.get("fence")
    if (path := context.get("file")) is not None:
        return _file(context, path, about, fence)
    if (path := context.get("spool")) is not None:
        return _spooled(context, path, about, fence)
    if (url := context.get("url")) is not None:
        return context.call(AddEvidence(about | {"kind": "url", "url": url}, fence=fence))
    note = context.text(context.values["note"])
    return context.call(AddEvidence(about | {"kind": "note", "text": note}, fence=fence))


def _file(context: Context, path: str, about: Answer, fence: int | None) -> Answer:
    from interlock.evidence.files import Attached

    with Attached(path, MAX_FILE_BYTES) as file, open(file.output, "rb") as copy:
        act = AddEvidence(file.payload | about, fence=fence)
        return run_flow(attach(act, in_chunks(copy), file.payload["size"]), context.call)


def _spooled(context: Context, path: str, about: Answer, fence: int | None) -> Answer:
    from interlock.evidence import spool

    key, payload, data = spool.read(path)
    act = AddEvidence(payload | about, fence=fence, key=key)
    return run_flow(attach(act, in_pieces(data), len(data)), context.call)


@command(
    "evidence show ID [--range A-B | --raw]",
    help={
        "id": "the evidence: its id, a prefix of 6 or more characters, or #SEQ",
        "range": "the bytes A to B of what it kept, such as 0-999",
        "raw": "write all that it kept, byte for byte, and nothing else",
    },
)
def show(context: Context) -> Answer | int:
    """Show evidence, and the end of what it kept."""
    id = context.values["id"]
    if not context.get("raw"):
        return context.call_as_owner(ShowEvidence(id, *byte_range(context.get("range"))))
    if context.json:
        raise Usage("--raw writes the bytes and nothing else, so it does not go with --json.")
    start = 0
    while True:
        found = context.call_as_owner(ShowEvidence(id, start, start + SHOWN_AT_ONCE))
        if (content := found.get("content")) is None:
            raise NotFound(f"{id} keeps no bytes. See interlock evidence show {id}")
        data = content["text"].encode() if "text" in content else bytes.fromhex(content["hex"])
        output.raw(data)
        if "next_offset" not in content:
            return 0
        start = content["next_offset"]
