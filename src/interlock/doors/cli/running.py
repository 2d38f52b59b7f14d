"""`interlock run`: a client with one token and one session for its shell, hooks and MCP server."""

import os
import signal
import subprocess
import threading
from contextlib import suppress
from typing import Any

from interlock.doors.cli import output
from interlock.doors.cli.context import Context
from interlock.doors.cli.grammar import command
from interlock.errors import Refusal, Usage
from interlock.local.windows import about
from interlock.machine import processes
from interlock.machine.processes import RUN
from interlock.rooms.identity.verbs import EndSession, KeepSession, StartSession
from interlock.rooms.workspace.verbs import Attend

INTERLOCK_FAILED = 125
CANNOT_EXECUTE = 126
NOT_FOUND = 127
POLL_INTERVAL_S = 0.4


@command(
    "run SENDER -- COMMAND...",
    help={"sender": "who the client is, such as otto-cli"},
    examples=("interlock run otto-cli -- claude --resume",),
)
def run(context: Context) -> int:
    """Run a client in a session of its own.

    The client, its shell, its hooks and its MCP server are one holder. Its claims are kept while it
    lives and given up when it ends. The exit status is the client's; 125 means that Interlock
    itself failed.
    """
    if not context.rest:
        raise Usage("Say what to run: interlock run SENDER -- COMMAND...")
    try:
        context.values["from"] = context.values["sender"].removeprefix("@")
        # A client within a client is a holder of its own: its end must not end the outer one.
        session = context.get("session") or f"run-{os.urandom(8).hex()}"
        credentials = context.credentials()._replace(session=session)
        context.link.call(credentials, StartSession(session))
    except Refusal as refusal:
        output.refusal(refusal, json=context.json)
        return INTERLOCK_FAILED
    ended = threading.Event()
    started: list[int] = []

    def keep() -> None:
        """Keep the claims of the session renewed. After a failure the next round tries again."""
        while not ended.wait(POLL_INTERVAL_S):
            with suppress(Refusal):
                context.link.call(credentials, KeepSession(session))
                if not started:
                    continue
                # If this process and the client are killed, others see by the client's process that
                # the session has ended. A server elsewhere has no use for our processes.
                process = processes.process_of(started[0]) if context.link.is_local else None
                if process is not None:
                    window = {"client": RUN} | about(process)
                    context.link.call(credentials, Attend("rest", RUN, window=window))
                started.clear()

    keeper = threading.Thread(target=keep, daemon=True)
    keeper.start()
    try:
        environment = os.environ | {
            "INTERLOCK_TOKEN": credentials.token or "",
            "INTERLOCK_SESSION": session,
            "INTERLOCK_WORKSPACE": context.link.place,
        }
        return _execute(context.rest, environment, started)
    finally:
        ended.set()
        keeper.join()
        try:
            context.link.call(credentials, EndSession(session))
        except Refusal as refusal:
            output.refusal(refusal, json=False)


def _execute(command: list[str], environment: dict[str, str], started: list[int]) -> int:
    # The terminal sends an interrupt to the client itself. A signal to this process alone is
    # forwarded, also if it comes before the client has started. The client inherits no handlers,
    # but it would inherit ignored signals.
    early: list[int] = []
    child: subprocess.Popen[bytes] | None = None

    def forward(number: int, _: Any) -> None:
        if child is None:
            early.append(number)
        else:
            child.send_signal(number)

    signal.signal(signal.SIGINT, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, forward)
    try:
        child = subprocess.Popen(command, env=environment)  # noqa: S603 - what the user asked to run
    except FileNotFoundError:
        output.remark(f"{command[0]}: there is no such command")
        return NOT_FOUND
    except OSError as trouble:
        output.remark(f"{command[0]}: {trouble.strerror}")
        return CANNOT_EXECUTE
    started.append(child.pid)
    for sent in early:
        child.send_signal(sent)
    status = child.wait()
    return 128 - status if status < 0 else status
