"""Windows: which running client we are inside, so that whatever it starts is one holder.

A client's hooks know its session, and its shell and its MCP server do not. All of them are started
by the client's process, so a hook notes there whose window that process is; whoever comes later
looks whether an ancestor of theirs is one. It says who acts and decides nothing: the token does.
"""

import json
import os
from contextlib import suppress
from typing import Any, NamedTuple

from interlock.machine.processes import Process, ancestors, is_alive, space, words
from interlock.verbs.credentials import Credentials

# Clients that have one session at a time in a process. One that has several says nothing by it.
ONE_A_PROCESS = ("claude-code", "codex", "gemini")
# What may stand between a client and what it runs.
SHELLS = ("sh", "dash", "bash", "zsh", "fish", "ksh")
BETWEEN = ("env", "timeout", "uv", "uvx")


class Window(NamedTuple):
    """The sender and session that a client's process is."""

    sender: str
    session: str


def client_process() -> Process | None:
    """The process that runs us as its hook, perhaps through a shell that was given one command.
    A shell that somebody types into is no client, nor is a script's."""
    for found in ancestors():
        if found.name in SHELLS:
            first = [*words(found.pid), ""][1]
            if first.startswith("--") or not first.startswith("-") or "c" not in first:
                return None
        elif found.name not in BETWEEN:
            return found
    return None


def about(process: Process) -> dict[str, Any]:
    """What presence knows a client's process by."""
    return {"pid": process.pid, "started": process.started, "space": space()}


def note(home: str, process: Process, window: Window) -> None:
    """Notes whose window a process is. It is a hint, and nobody fails for want of it."""
    path = _path(home, process)
    with suppress(OSError):
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        draft = f"{path}.{os.getpid()}"
        with open(draft, "w", encoding="utf-8") as file:
            json.dump(window._asdict(), file)
        os.replace(draft, path)


def known(home: str, process: Process) -> Window | None:
    return _read(_path(home, process))


def forget(home: str, process: Process) -> None:
    with suppress(OSError):
        os.unlink(_path(home, process))


def surrounding(home: str) -> Window | None:
    """The window that we are inside, if any."""
    try:
        known = set(os.listdir(_directory(home)))
    except OSError:
        return None
    for process in ancestors() if known else ():
        if _name(process) in known:
            return _read(_path(home, process))
    return None


def in_window(home: str, credentials: Credentials, sender: str | None) -> Credentials:
    """With the session of the window that we are inside, where none was named, and it is not
    another sender's. It is the client's own, which may begin another."""
    if credentials.session is not None:
        return credentials
    window = surrounding(home)
    if window is None or sender not in (None, window.sender):
        return credentials
    return credentials._replace(session=window.session)


def sweep(home: str) -> None:
    """Forgets the windows whose process has died."""
    directory = _directory(home)
    with suppress(OSError):
        for name in os.listdir(directory):
            pid, _, started = name.partition("-")
            if not pid.isdigit() or not is_alive(int(pid), started.replace("_", " ")):
                os.unlink(os.path.join(directory, name))


def _directory(home: str) -> str:
    return os.path.join(home, "windows", "clients")


def _path(home: str, process: Process) -> str:
    return os.path.join(_directory(home), _name(process))


def _name(process: Process) -> str:
    return f"{process.pid}-{process.started.replace(' ', '_')}"


def _read(path: str) -> Window | None:
    try:
        with open(path, encoding="utf-8") as file:
            said = json.load(file)
        return Window(said["sender"], said["session"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
