"""`interlock hook`: the command that clients run as their hooks, hundreds of times a day.

A hook never breaks its client. On every error it prints, within a few seconds, an answer that the
client accepts and that has no effect. It exits with status 0, and writes a line to a log file.
"""

import _thread
import json
import os
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from interlock.agents.hooks import (
    NOTHING,
    HookReply,
    Memory,
    Step,
    attending,
    client_of,
    pointer,
    session_of,
)
from interlock.doors.cli.context import Context
from interlock.doors.cli.grammar import command
from interlock.errors import (
    IdempotencyConflict,
    NotAvailable,
    NotAWorkspace,
    Refusal,
    UnknownSender,
    Usage,
)
from interlock.local import windows, workspace
from interlock.local.link import Link
from interlock.machine import processes
from interlock.rooms.workspace.verbs import Attend
from interlock.verbs.addresses import filename
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials
from interlock.verbs.flows import run

if TYPE_CHECKING:
    from interlock.verbs.verb import Verb

LIMIT_S = 8.0
# After this time, the client may no longer read the answer.
HEARD_WITHIN_S = 6.0
MAX_INPUT_BYTES = 32 << 20
MAX_LOG_BYTES = 256 << 10
WOKEN = 2
WAIT_S = 45
RETRY_S = 5.0
POLL_INTERVAL_S = 1.0


class Hook:
    """One call of a hook. It answers once: with a text, or without one after a timeout or an
    error."""

    def __init__(self, client: str, event: str) -> None:
        self.client, self.event = client, event
        self._answering = _thread.allocate_lock()
        self._is_answered = self.is_over = False
        self.home: str | None = None
        self.until_ms = int((time.monotonic() + HEARD_WITHIN_S) * 1000)

    def answer(self, reply: HookReply = NOTHING) -> None:
        """Print the answer in the client's form, unless an answer was printed already."""
        with self._answering:
            if self._is_answered:
                return
            self._is_answered = True
            try:
                form = client_of(self.client).encode(self.event, reply)
            except Refusal:
                form = {}  # an unknown client
            with suppress(OSError, ValueError, AttributeError):  # the client no longer reads
                sys.stdout.write(json.dumps(form) + "\n")
                sys.stdout.flush()

    def watch(self) -> None:
        """End the process after the time limit, even while it waits."""
        time.sleep(LIMIT_S)
        if self.is_over:
            return
        self.answer()
        self.log(f"timed out after {LIMIT_S:.0f} s")
        os._exit(0)

    def log(self, what: str, *, keep: bool = True) -> None:
        """Write a line to standard error, and with `keep` to hooks.log of the workspace, or of the
        user if there is no workspace. Ignores errors."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        remark = f"{self.client[:80]} {self.event[:80]}: {' '.join(what.split())[:500]}"
        line = f"{at} {''.join(c if c.isprintable() else '?' for c in remark)}\n"
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(f"interlock hook: {line}")
        if not keep:
            return
        home = self.home or workspace.data(os.environ)
        with suppress(OSError, ValueError):
            os.makedirs(home, 0o700, exist_ok=True)
            path = os.path.join(home, "hooks.log")
            fresh = os.path.exists(path) and os.path.getsize(path) > MAX_LOG_BYTES
            mode, errors = "w" if fresh else "a", "backslashreplace"
            with open(path, mode, encoding="utf-8", errors=errors) as file:
                file.write(line)


def without_fail(words: list[str]) -> int:
    """Run the command line of a hook, and return 0 after an error: most clients treat any other
    status as a refusal."""
    from interlock.doors.cli import run

    try:
        return run(words)
    except (Refusal, KeyboardInterrupt) as wrong:
        client, event = (*words[1:], "", "")[:2]
        call = Hook(client, event)
        call.answer()
        call.log(str(wrong), keep=isinstance(wrong, Refusal))
        return 0


@command(
    "hook CLIENT EVENT [--await]",
    help={
        "client": "the client: claude-code, codex, cursor or gemini",
        "event": "the client's own name of the event, such as Stop",
        "await": "wait while the client is idle, until mail should wake it; then exit 2, with a "
        "line on standard error",
    },
)
def hook(context: Context) -> int:
    """Answer a hook of an agent's client (JSON on standard input).

    interlock setup CLIENT writes this command into the client's configuration. An error never
    stops the client: the command logs it to hooks.log in the workspace.
    """
    call = Hook(context.values["client"], context.values["event"])
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        del os.environ[name]  # the environment must not decide which repository a file is in
    if not context.get("await"):
        _thread.start_new_thread(call.watch, ())
    try:
        return _answered(context, call)
    except (NotAWorkspace, UnknownSender) as absent:
        # Hooks in the user's own configuration name no workspace and run in every directory. A
        # workspace that their sender has not joined is no error for them.
        call.answer()
        named = context.get("workspace") or os.environ.get("INTERLOCK_WORKSPACE")
        call.log(absent.message, keep=bool(named))
    except (Refusal, ValueError, OSError) as trouble:
        call.answer()
        call.log(str(trouble))
    except Exception as defect:  # noqa: BLE001 - the client must go on
        call.answer()
        call.log(f"a defect in Interlock: {defect!r}")
    finally:
        call.is_over = True
    return 0


def _answered(context: Context, call: Hook) -> int:
    """Read the event, find the workspace, and answer the client."""
    client, event = context.values["client"], context.values["event"]
    call.home = _home(context.place)
    decode = client_of(client).decode
    data = sys.stdin.buffer.read(MAX_INPUT_BYTES + 1) if sys.stdin is not None else b""
    if len(data) > MAX_INPUT_BYTES:
        raise ValueError(f"The client's input is longer than {MAX_INPUT_BYTES} bytes.")
    try:
        given = json.loads(data)
    except RecursionError:
        raise ValueError("The client's input is nested too deeply.") from None
    except ValueError as wrong:
        raise ValueError(f"The client's input was not JSON: {wrong}") from None
    step = decode(event, given)
    # Some clients run hooks in a directory of their own.
    context.standing = step.cwd
    if client == "cursor" and step.kind == "edit":
        # Cursor sends the first of its folders, and the file can be in another one.
        file = os.path.join(step.cwd or os.getcwd(), os.path.expanduser(step.paths[0]))
        if workspace.nearest(os.path.dirname(file)) is not None:
            context.standing = os.path.dirname(file)
    link = context.link
    call.home = _home(link.place) if link.is_local else link.home
    if call.home is None:
        raise NotAWorkspace(f"There is no workspace in {link.place}, so this hook has no effect.")
    if context.get("await"):
        if client != "claude-code":
            raise Usage("Only the client claude-code supports --await. Remove it.")
        if step.kind == "other":
            return 0
    # The token of a client's environment takes precedence over its configured sender.
    named = None if workspace.is_inside(os.environ) else context.get("from")
    session = os.environ.get("INTERLOCK_SESSION") or session_of(step.session)
    credentials = workspace.as_configured(link, os.environ, named=named, session=session)
    if context.get("await"):
        return _await(client, link, credentials)
    call.answer(_attended(call, step, link, credentials))
    if step.kind in ("tool", "stop") and credentials.session is not None:
        _hand_over(call, link, credentials, credentials.session)
    return 0


def _home(place: str) -> str | None:
    """Return the directory if it has a workspace of this machine, or None."""
    is_one = "://" not in place and os.path.exists(os.path.join(place, "log.db"))
    return place if is_one else None


def _attended(call: Hook, step: Step, link: Link, credentials: Credentials) -> HookReply:
    """Report the step to the node, and return the reply for the client."""
    client, outlives = call.client, bool(os.environ.get("INTERLOCK_SESSION"))
    is_one_a_process = client in windows.ONE_A_PROCESS
    process = windows.client_process() if link.is_local or is_one_a_process else None
    about: dict[str, Any] = {"client": client}
    if link.is_local:  # a remote server cannot use process ids of this machine
        ways: dict[str, dict[str, str]] = {}
        pane, server = os.environ.get("TMUX_PANE"), os.environ.get("TMUX")
        if pane and server:
            ways["tmux"] = {"pane": pane, "socket": server.partition(",")[0]}
        if client == "codex" and step.session is not None:
            ways["codex"] = {"thread": step.session}
        about |= {"ways": ways} if ways else {}
        about |= windows.about(process) if process is not None else {}

    def send(request: "Verb") -> Answer:
        answer = link.call(credentials, request)
        if not isinstance(request, Attend) or not is_one_a_process or "session" not in answer:
            return answer
        # Store the sender and session of the process, for the client's shell and its MCP server.
        if process is not None and step.kind == "end":
            windows.forget(link.home, process)
        elif process is not None:
            window = windows.Window(answer["address"].removeprefix("@"), answer["session"])
            if windows.known(link.home, process) != window:
                windows.note(link.home, process, window)
                windows.sweep(link.home)
        return answer

    flow = attending(
        client,
        call.event,
        step,
        memory=Memory(link.home, credentials.session),
        window=about,
        until_ms=call.until_ms,
        outlives=outlives,
        unbound=not outlives and not is_one_a_process,
    )
    return run(flow, send)


def _hand_over(call: Hook, link: Link, credentials: Credentials, session: str) -> None:
    """Submit the evidence that offline shells of this session have left in files, each file once,
    even if several hooks run at the same time."""
    places = filter(None, map(os.environ.get, ("TMPDIR", "TEMP", "TMP")))
    directory = next(places, "/tmp")  # noqa: S108 - the system's directory of temporary files
    start = f"interlock-run-{filename(session)}-"
    try:
        if not any(name.startswith(start) for name in os.listdir(directory)):
            return
    except OSError:
        return
    # These imports are slow, so they come after the cheap check above.
    from interlock.evidence import spool
    from interlock.rooms.mail.uploads import attach, in_pieces
    from interlock.rooms.work.verbs import AddEvidence

    for path in spool.waiting(session):
        try:
            if os.lstat(path).st_uid != os.geteuid():
                continue  # every user can create files there, with any name
        except OSError:
            continue
        with spool.in_hand(path) as is_mine:
            if not is_mine:
                continue
            try:
                key, payload, data = spool.read(path)
                flow = attach(AddEvidence(payload, key=key), in_pieces(data), len(data))
                run(flow, lambda request: link.call(credentials, request))
            except NotAvailable:
                raise
            except IdempotencyConflict:
                os.unlink(path)  # another hook has submitted it
            except Refusal as refusal:
                call.log(f"{path} was refused and renamed to *.refused: {refusal.message}")
                os.rename(path, f"{path}.refused")
            else:
                os.unlink(path)


def _await(client: str, link: Link, credentials: Credentials) -> int:
    """Wait while the client is idle, until mail should wake it. Then return exit status 2, with a
    pointer to the mail on standard error. Only one process waits for a session, and it ends with
    its client."""
    process = windows.client_process()
    if not Memory(link.home, credentials.session).is_only_waiter():
        return 0

    def end_with(client: processes.Process) -> None:
        while processes.is_alive(client.pid, client.started):
            time.sleep(POLL_INTERVAL_S)
        os._exit(0)

    if process is not None:
        _thread.start_new_thread(end_with, (process,))
    request = Attend("idle", f"{client}-rewake", wait_s=WAIT_S)
    while True:
        try:
            answer = link.call(credentials, request)
        except Refusal as refusal:
            if refusal.exit != 4:
                raise
            time.sleep(RETRY_S)
            continue
        if "news" in answer:
            # The client shows the line as a hook's error, under a heading of its own.
            line = f"This is a wake-up, not an error. {pointer(answer['news'], answer['unread'])}\n"
            os.write(2, line.encode())
            return WOKEN
