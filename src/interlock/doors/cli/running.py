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
    help={"sender": "the sender that the client acts as, such as otto-cli"},
    examples=("interlock run otto-cli -- claude --resume",),
)
def run(context: Context) -> int:
    """Run an agent's client in a session of its own.

    The client, its shell, its hooks and its MCP server share one token and one session. Interlock
    renews the session's claims while the client runs, and releases them when it ends. The exit
    status is the client's. Exit 125: Interlock itself failed.
    """
    if not context.rest:
        raise Usage("No command was given. Write: interlock run SENDER -- COMMAND...")
    try:
        context.values["from"] = context.values["sender"].removeprefix("@")
        # A client inside a client gets its own session, so that its end does not end the outer one.
        session = context.get("session") or f"run-{os.urandom(8).hex()}"
        credentials = context.credentials()._replace(session=session)
        context.link.call(credentials, StartSession(session))
    except Refusal as refusal:
        output.refusal(refusal, json=context.json)
        return INTERLOCK_FAILED
    ended = threading.Event()
    started: list[int] = []

    def keep() -> None:
        """Renew the claims of the session. After a failure, try again in the next round."""
        while not ended.wait(POLL_INTERVAL_S):
            with suppress(Refusal):
                context.link.call(credentials, KeepSession(session))
                if not started:
                    continue
                # If this process and the client are killed, other processes detect the end of the
                # session by the client's process. A remote server cannot check our processes.
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
    # The terminal sends an interrupt to the client too, so do not forward it. Forward a signal that
    # only this process gets, even before the client has started. Install handlers and ignore no
    # signal, because the client would inherit ignored signals.
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
        output.remark(f"{command[0]}: command not found")
        return NOT_FOUND
    except OSError as trouble:
        output.remark(f"{command[0]}: {trouble.strerror}")
        return CANNOT_EXECUTE
    started.append(child.pid)
    for sent in early:
        child.send_signal(sent)
    # A signal that arrives just before a blocking call does not interrupt the call. This thread
    # therefore wakes up regularly, and runs the handler then.
    waiter = threading.Thread(target=child.wait, daemon=True)
    waiter.start()
    while waiter.is_alive():
        waiter.join(POLL_INTERVAL_S)
    status = child.wait()
    return 128 - status if status < 0 else status
