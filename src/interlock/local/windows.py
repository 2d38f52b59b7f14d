"""Windows: the running client that this process is inside, so that all it starts is one holder.

A client's hooks know its session, and its shell and its MCP server do not. The client's process
starts all of them. So a hook notes the window of that process, and later processes look for a noted
window among their ancestors. A window names the sender; only the token authorises it.
"""

import json
import os
from contextlib import suppress
from typing import Any

from interlock.machine.processes import Process, ancestors, is_alive, space, words
from interlock.verbs import Record
from interlock.verbs.credentials import Credentials

# Clients with one session at a time in a process. In a client with several, the process tells none.
ONE_A_PROCESS = ("claude-code", "codex", "gemini")
# Programs that may stand between a client and the commands that it runs.
SHELLS = ("sh", "dash", "bash", "zsh", "fish", "ksh")
BETWEEN = ("env", "timeout", "uv", "uvx")


class Window(Record):
    """The sender and session of a client's process."""

    sender: str
    session: str


def client_process() -> Process | None:
    """The process that runs us as its hook, perhaps through a shell that was given one command.
    An interactive shell is no client, nor is a script's."""
    for found in ancestors():
        if found.name in SHELLS:
            first = [*words(found.pid), ""][1]
            if first.startswith("--") or not first.startswith("-") or "c" not in first:
                return None
        elif found.name not in BETWEEN:
            return found
    return None


def about(process: Process) -> dict[str, Any]:
    """The members by which presence knows a client's process."""
    return {"pid": process.pid, "started": process.started, "space": space()}


def note(home: str, process: Process, window: Window) -> None:
    """Notes the window of a process. It is a hint: a failure is ignored."""
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
    """The window that we are inside, if any."""
    try:
        names = set(os.listdir(_path(home)))
    except OSError:
        return None
    for process in ancestors() if names else ():
        if os.path.basename(_path(home, process)) in names:
            return known(home, process)
    return None


def in_window(home: str, credentials: Credentials, sender: str | None) -> Credentials:
    """The credentials with the session of the window that we are inside, where they have none and
    it is not another sender's. The client may begin another session."""
    if credentials.session is not None:
        return credentials
    window = surrounding(home)
    if window is None or sender not in (None, window.sender):
        return credentials
    return credentials._replace(session=window.session)


def sweep(home: str) -> None:
    """Forgets the windows whose process has died."""
    directory = _path(home)
    with suppress(OSError):
        for name in os.listdir(directory):
            pid, _, started = name.partition("-")
            if not pid.isdigit() or not is_alive(int(pid), started.replace("_", " ")):
                os.unlink(os.path.join(directory, name))


def _path(home: str, process: Process | None = None) -> str:
    """The file of a process's window, or the directory of all."""
    name = f"{process.pid}-{process.started.replace(' ', '_')}" if process else ""
    return os.path.join(home, "windows", "clients", name)
