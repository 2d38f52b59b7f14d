"""Windows: find the running client that started this process, so that all processes of a client
are one holder.

A client's hooks know its session, but its shell and its MCP server do not. The client's process
starts all of them. So a hook stores the window of that process in a file, and later processes
search their ancestors for a stored window. A window names the sender; only the token authorises it.
"""

import json
import os
from contextlib import suppress
from typing import Any

from interlock.machine.processes import Process, ancestors, is_alive, space, words
from interlock.verbs import Record
from interlock.verbs.credentials import Credentials

# Clients whose process has one session at a time. In other clients, the process does not determine
# the session.
ONE_A_PROCESS = ("claude-code", "codex", "gemini")
# Programs that may run between a client and its commands.
SHELLS = ("sh", "dash", "bash", "zsh", "fish", "ksh")
BETWEEN = ("env", "timeout", "uv", "uvx")


class Window(Record):
    """The sender and session of a client's process."""

    sender: str
    session: str


def client_process() -> Process | None:
    """Return the process that runs this process as its hook, directly or by `sh -c`. Return None
    below an interactive shell or a shell script, which are not clients."""
    for found in ancestors():
        if found.name in SHELLS:
            first = [*words(found.pid), ""][1]
            if first.startswith("--") or not first.startswith("-") or "c" not in first:
                return None
        elif found.name not in BETWEEN:
            return found
    return None


def about(process: Process) -> dict[str, Any]:
    """Return the members that identify a client's process in presence."""
    return {"pid": process.pid, "started": process.started, "space": space()}


def note(home: str, process: Process, window: Window) -> None:
    """Store the window of a process. A window is a hint, so ignore errors."""
    path = _path(home, process)
    with suppress(OSError):
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        draft = f"{path}.{os.getpid()}"
        with open(draft, "w", encoding="utf-8") as file:
            json.dump(window._asdict(), file)
        os.replace(draft, path)


def known(home: str, process: Process) -> Window | None:
    try:
        with open(_path(home, process), encoding="utf-8") as file:
            record = json.load(file)
        return Window(record["sender"], record["session"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def forget(home: str, process: Process) -> None:
    with suppress(OSError):
        os.unlink(_path(home, process))


def surrounding(home: str) -> Window | None:
    """Return the window that started this process, if any."""
    try:
        names = set(os.listdir(_path(home)))
    except OSError:
        return None
    for process in ancestors() if names else ():
        if os.path.basename(_path(home, process)) in names:
            return known(home, process)
    return None


def in_window(home: str, credentials: Credentials, sender: str | None) -> Credentials:
    """Return the credentials with the session of the surrounding window, if they have no session
    and the window has the same sender. Callers repeat this, because the client may start another
    session."""
    if credentials.session is not None:
        return credentials
    window = surrounding(home)
    if window is None or sender not in (None, window.sender):
        return credentials
    return credentials._replace(session=window.session)


def sweep(home: str) -> None:
    """Delete the windows whose process has ended."""
    directory = _path(home)
    with suppress(OSError):
        for name in os.listdir(directory):
            pid, _, started = name.partition("-")
            if not pid.isdigit() or not is_alive(int(pid), started.replace("_", " ")):
                os.unlink(os.path.join(directory, name))


def _path(home: str, process: Process | None = None) -> str:
    """Return the file of a process's window, or the directory of all windows."""
    name = f"{process.pid}-{process.started.replace(' ', '_')}" if process else ""
    return os.path.join(home, "windows", "clients", name)
