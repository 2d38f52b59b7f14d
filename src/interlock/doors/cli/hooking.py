"""`interlock hook`: clients call it hundreds of times a day.

A hook never breaks its client. On any failure it gives an answer that the client accepts and that
asks nothing of it, within a few seconds, with exit status 0 and a line in a log file.
"""

import _thread
import json
import os
import sys
import time
from contextlib import suppress
from typing import Any

from interlock.agents import hooks
from interlock.agents.hooks import NOTHING, Said, Step
from interlock.agents.hooks.attending import attending, session_of
from interlock.agents.hooks.memory import Memory
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
from interlock.rooms.identity.verbs import EndSession
from interlock.rooms.workspace.verbs import Attend
from interlock.verbs.addresses import filename
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials
from interlock.verbs.flows import run

LIMIT_S = 8.0
# A client may no longer wait for an answer after this.
HEARD_WITHIN_S = 6.0
MAX_INPUT_BYTES = 32 << 20
MAX_LOG_BYTES = 256 << 10
WOKEN = 2
WAIT_S = 45
PAUSE_S = 5.0
LOOK_S = 1.0


class Hook:
    """One call of a hook. It answers once, with nothing when it fails or its time is over."""

    def __init__(self, client: str, event: str) -> None:
        self._client, self._event = client, event
        self._answering = _thread.allocate_lock()
        self._is_answered = self.is_over = False
        self.home: str | None = None
        self.until_ms = int((time.monotonic() + HEARD_WITHIN_S) * 1000)

    def answer(self, said: Said = NOTHING) -> None:
        """Print the client's form of the answer, unless an answer was printed already."""
        with self._answering:
            if self._is_answered:
                return
            self._is_answered = True
            try:
                form = hooks.client_of(self._client).encode(self._event, said)
            except Refusal:
                form = {}  # the client is unknown
            with suppress(OSError, ValueError, AttributeError):  # the client has gone
                sys.stdout.write(json.dumps(form) + "\n")
                sys.stdout.flush()

    def watch(self) -> None:
        """End the process in time, whatever it waits for."""
        time.sleep(LIMIT_S)
        if self.is_over:
            return
        self.answer()
        self.log(f"gave up after {LIMIT_S:.0f} s")
        os._exit(0)

    def log(self, what: str, *, keep: bool = True) -> None:
        """Write a line to standard error and, with `keep`, to hooks.log of the workspace or else of
        the user, if it can be written."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        told = f"{self._client[:80]} {self._event[:80]}: {' '.join(what.split())[:500]}"
        line = f"{at} {''.join(c if c.isprintable() else '?' for c in told)}\n"
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
    """Run the command line of a hook. To most clients a status other than 0 is a refusal."""
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
        "client": "claude-code, codex, cursor or gemini",
        "event": "the client's own name of the event, such as Stop",
        "await": "wait beside an idle client until mail may wake it: exit 2 and a line on standard "
        "error",
    },
)
def hook(context: Context) -> int:
    """Answer a client's hook, with the client's JSON on standard input.

    interlock setup CLIENT puts it into the client's configuration. It never fails the client: what
    goes wrong is a line in hooks.log in the workspace.
    """
    call = Hook(context.values["client"], context.values["event"])
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        del os.environ[name]  # they would decide which repository a file is in
    if not context.get("await"):
        _thread.start_new_thread(call.watch, ())
    try:
        return _answered(context, call)
    except (NotAWorkspace, UnknownSender) as refusal:
        # Hooks of the user's own configuration name no workspace. Outside a workspace that their
        # sender has joined, nothing is wrong.
        call.answer()
        named = context.get("workspace") or os.environ.get("INTERLOCK_WORKSPACE")
        call.log(refusal.message, keep=bool(named))
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
    client, event = context.values["client"], context.values["event"]
    call.home = _home(context.place)
    data = sys.stdin.buffer.read(MAX_INPUT_BYTES + 1) if sys.stdin is not None else b""
    if len(data) > MAX_INPUT_BYTES:
        raise ValueError("The client's input is longer than anything that a hook is told.")
    try:
        told = json.loads(data)
    except RecursionError:
        raise ValueError("The client's input is nested too deeply.") from None
    except ValueError as wrong:
        raise ValueError(f"The client's input was not JSON: {wrong}") from None
    step = hooks.client_of(client).decode(event, told)
    # Some clients run hooks in a directory of their own. Cursor names the first of its folders, and
    # a file that it edits may be in another.
    context.standing = step.cwd
    if client == "cursor" and step.kind == "edit":
        file = os.path.join(step.cwd or os.getcwd(), os.path.expanduser(step.paths[0]))
        if workspace.nearest(os.path.dirname(file)) is not None:
            context.standing = os.path.dirname(file)
    link = context.link
    call.home = _home(link.place) if link.is_local else link.home
    if call.home is None:
        raise NotAWorkspace(f"There is no workspace in {link.place}, so nobody is told anything.")
    if context.get("await"):
        if client != "claude-code":
            raise Usage("Only Claude Code can be woken by a hook that waits.")
        if step.kind == "other":
            return 0
    # The token of the environment precedes the sender of the configuration: a user who runs a
    # client under another name means it.
    named = None if workspace.is_inside(os.environ) else context.get("from")
    session = os.environ.get("INTERLOCK_SESSION") or session_of(step.session)
    credentials = workspace.as_configured(link, os.environ, named=named, session=session)
    if context.get("await"):
        return _await(link, credentials)
    call.answer(_attended(client, event, link, step, credentials, call.until_ms))
    if step.kind in ("tool", "stop"):
        _hand_over(link, credentials, call)
    return 0


def _home(place: str) -> str | None:
    """The directory of a workspace of this machine, if there is one."""
    is_one = "://" not in place and os.path.exists(os.path.join(place, "log.db"))
    return place if is_one else None


def _attended(
    client: str, event: str, link: Link, step: Step, credentials: Credentials, until_ms: int
) -> Said:
    window: dict[str, Any] = {"client": client}
    if link.is_local:  # a server elsewhere has no use for our processes
        # The adapters that can wake the window from outside.
        ways: dict[str, dict[str, str]] = {}
        pane, server = os.environ.get("TMUX_PANE"), os.environ.get("TMUX")
        if pane and server:
            ways["tmux"] = {"pane": pane, "socket": server.partition(",")[0]}
        if client == "codex" and step.session is not None:
            ways["codex"] = {"thread": step.session}
        if ways:
            window["ways"] = ways
        if (process := windows.client_process()) is not None:
            window |= windows.about(process)
    outlives = bool(os.environ.get("INTERLOCK_SESSION"))
    flow = attending(
        client,
        event,
        step,
        memory=Memory(link.home, credentials.session),
        window=window,
        until_ms=until_ms,
        outlives=outlives,
        unbound=not outlives and client not in windows.ONE_A_PROCESS,
    )

    def call(request: Attend | EndSession) -> Answer:
        answer = link.call(credentials, request)
        if isinstance(request, Attend):
            _note_window(client, link, answer, step)
        return answer

    return run(flow, call)


def _note_window(client: str, link: Link, answer: dict[str, Any], step: Step) -> None:
    """Note whose window the client's process is, for its shell and its MCP server."""
    if client not in windows.ONE_A_PROCESS or "session" not in answer:
        return
    process = windows.client_process()
    if process is None:
        return
    if step.kind == "end":
        windows.forget(link.home, process)
        return
    window = windows.Window(answer["address"].removeprefix("@"), answer["session"])
    if windows.known(link.home, process) != window:
        windows.note(link.home, process, window)
        windows.sweep(link.home)


def _hand_over(link: Link, credentials: Credentials, call: Hook) -> None:
    """Hand over the runs of this session that were recorded offline, each once, however many hooks
    run at the same time."""
    if credentials.session is None:
        return
    # The imports below are only worth it if there is a file of a run in this session.
    places = filter(None, map(os.environ.get, ("TMPDIR", "TEMP", "TMP")))
    directory = next(places, "/tmp")  # noqa: S108 - where the spool keeps its files
    start = f"interlock-run-{filename(credentials.session)}-"
    try:
        if not any(name.startswith(start) for name in os.listdir(directory)):
            return
    except OSError:
        return
    from interlock.evidence import spool
    from interlock.rooms.mail.uploads import attach, in_pieces
    from interlock.rooms.work.verbs import AddEvidence

    for path in spool.waiting(credentials.session):
        try:
            if os.lstat(path).st_uid != os.geteuid():
                continue  # any user may write a file there, under any name
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
                os.unlink(path)  # it was handed over already, for a task that it did not name
            except Refusal as refusal:
                call.log(f"{path} was put aside: {refusal.message}")
                os.rename(path, f"{path}.refused")
            else:
                os.unlink(path)


def _await(link: Link, credentials: Credentials) -> int:
    """Wait beside an idle client until something may wake it: exit 2, and the pointer on standard
    error. One process waits for a session at a time, and it ends with its client."""
    from interlock.agents.hooks.telling import pointer

    process = windows.client_process()
    if not Memory(link.home, credentials.session).is_only_waiter():
        return 0
    if process is not None:
        _thread.start_new_thread(_end_with, (process,))
    act = Attend("idle", "claude-code-rewake", wait_s=WAIT_S)
    while True:
        try:
            answer = link.call(credentials, act)
        except Refusal as refusal:
            if refusal.exit != 4:
                raise
            time.sleep(PAUSE_S)
            continue
        if "news" in answer:
            # The client shows it under a heading of its own, as a hook's error.
            line = f"This is no error but a wake-up. {pointer(answer['news'], answer['unread'])}\n"
            os.write(2, line.encode())
            return WOKEN


def _end_with(client: processes.Process) -> None:
    while processes.is_alive(client.pid, client.started):
        time.sleep(LOOK_S)
    os._exit(0)
