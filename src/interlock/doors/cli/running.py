"""`interlock run`: a client with one token and one session for its shell, hooks and MCP server."""

import os
import signal
import subprocess
import sys
import threading
from typing import Any

from interlock.contracts import acts
from interlock.doors.cli import output
from interlock.doors.cli.context import Context
from interlock.errors import Refusal, Usage

INTERLOCK_FAILED = 125
CANNOT_EXECUTE = 126
NOT_FOUND = 127
LOOK_EVERY_S = 2.0


def run(context: Context) -> int:
    """Runs the command to its end and exits as it does; its claims end with it."""
    if not context.rest:
        raise Usage("Say what to run: interlock run SENDER -- COMMAND...")
    try:
        sender = context.values["sender"].removeprefix("@")
        context.values["from"] = sender
        credentials = context.credentials()
        session = credentials.session or f"run-{os.urandom(8).hex()}"
        credentials = credentials._replace(session=session)
        context.node.call(credentials, acts.StartSession(session))
    except Refusal as refusal:
        output.complaint(refusal)
        return INTERLOCK_FAILED
    environment = os.environ | {
        "INTERLOCK_TOKEN": credentials.token or "",
        "INTERLOCK_SESSION": session,
        "INTERLOCK_WORKSPACE": context.node.directory,
    }
    ended = threading.Event()
    keeper = threading.Thread(target=_keep, args=(context, credentials, ended), daemon=True)
    keeper.start()
    try:
        return _execute(context.rest, environment)
    finally:
        ended.set()
        keeper.join()
        _end(context, credentials)


def _execute(command: list[str], environment: dict[str, str]) -> int:
    try:
        child = subprocess.Popen(command, env=environment)  # noqa: S603
    except FileNotFoundError:
        sys.stderr.write(f"{command[0]}: there is no such command\n")
        return NOT_FOUND
    except OSError as trouble:
        sys.stderr.write(f"{command[0]}: {trouble.strerror}\n")
        return CANNOT_EXECUTE

    def forward(number: int, _: Any) -> None:
        child.send_signal(number)

    # The terminal sends an interrupt to the client itself; what is sent to us alone goes on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, forward)
    status = child.wait()
    return 128 - status if status < 0 else status


def _keep(context: Context, credentials: acts.Credentials, ended: threading.Event) -> None:
    """Keeps the session's claims renewed while it lives. A moment without the log is no reason
    to end the client: the next look tries again."""
    assert credentials.session is not None
    while not ended.wait(LOOK_EVERY_S):
        try:
            context.node.call(credentials, acts.KeepSession(credentials.session))
        except Refusal:
            continue


def _end(context: Context, credentials: acts.Credentials) -> None:
    assert credentials.session is not None
    try:
        context.node.call(credentials, acts.EndSession(credentials.session))
    except Refusal as refusal:
        output.complaint(refusal)
