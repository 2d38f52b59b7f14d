"""Wake an agent with the command that the owner gives in `wake.toml`."""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress

from interlock.plugins import InDoubt, NotWoken, Pointer, Window
from interlock.plugins.text import plain
from interlock.verbs.spelling import shown

ANY_SENDER = "*"
LIMIT_S = 20.0


class Command:
    """Runs the command that `wake.toml` gives for the sender, or for `*`. The command gets the
    pointer as JSON on standard input, and its parts in the environment. Exit status 0 means
    "woken"."""

    name = "command"

    def __init__(self, commands: Mapping[str, Sequence[str]], limit_s: float = LIMIT_S) -> None:
        self._commands = commands
        self._limit_s = limit_s

    def can_wake(self, window: Window) -> bool:
        return window.sender in self._commands or ANY_SENDER in self._commands

    def wake(self, window: Window, pointer: Pointer) -> None:
        command = self._commands.get(window.sender) or self._commands.get(ANY_SENDER)
        if command is None:
            raise NotWoken(f"wake.toml has no command for {window.sender}.")
        text = plain(pointer.text)
        news = {
            "sender": window.sender,
            "session": window.session,
            "client": window.client,
            "text": text,
            "count": pointer.count,
            "ids": pointer.ids,
        }
        parts = {
            "INTERLOCK_WAKE_SENDER": window.sender,
            "INTERLOCK_WAKE_COUNT": str(pointer.count),
            "INTERLOCK_WAKE_TEXT": text,
        }
        run(command, json.dumps(news).encode() + b"\n", parts, self._limit_s)


def run(
    command: Sequence[str],
    stdin: bytes = b"",
    more: Mapping[str, str] | None = None,
    limit_s: float = LIMIT_S,
) -> None:
    """Run a program with `stdin` on standard input and `more` in its environment.

    Raise NotWoken if the program cannot start or fails. After `limit_s`, kill it and its children
    and raise InDoubt, because the program may have woken the agent by then."""
    program = shown(command[0])
    # The output goes to a file, because a process that the program leaves running could keep a pipe
    # open.
    with tempfile.TemporaryFile() as output:
        try:
            child = subprocess.Popen(  # noqa: S603 - the owner chose the command; no shell
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | (more or {}),
                process_group=0,
            )
        except (OSError, ValueError) as trouble:
            raise NotWoken(f"{program} cannot be run: {trouble}") from None
        with child:
            try:
                child.communicate(stdin, timeout=limit_s)
            except subprocess.TimeoutExpired:
                raise InDoubt(f"{program} did not end within {limit_s:g} s.") from None
            finally:
                if child.returncode is None:
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(child.pid, signal.SIGKILL)
        if child.returncode != 0:
            output.seek(0, os.SEEK_SET)
            lines = output.read(64 << 10).decode(errors="replace").split("\n")
            last = next((line.strip() for line in reversed(lines) if line.strip()), "")
            why = f": {shown(last)}" if last else "."
            raise NotWoken(f"{program} ended with status {child.returncode}{why}")
