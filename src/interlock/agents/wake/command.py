"""The user's own command: whatever wakes somebody where nothing else does."""

import json
from collections.abc import Mapping, Sequence

from interlock.agents.wake.running import LIMIT_S, run
from interlock.agents.wake.text import plain
from interlock.plugins import NotWoken, Pointer, Window

ANYBODY = "*"


class Command:
    """Runs the command that `wake.toml` gives for the sender, or for anybody. It gets the pointer
    as JSON on standard input, and its parts in the environment; exit status 0 is "woken"."""

    name = "command"

    def __init__(self, commands: Mapping[str, Sequence[str]], limit_s: float = LIMIT_S) -> None:
        self._commands = commands
        self._limit_s = limit_s

    def can_wake(self, window: Window) -> bool:
        return window.sender in self._commands or ANYBODY in self._commands

    def wake(self, window: Window, pointer: Pointer) -> None:
        command = self._commands.get(window.sender) or self._commands.get(ANYBODY)
        if command is None:
            raise NotWoken(f"There is no command for {window.sender}.")
        text = plain(pointer.text)
        told = {
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
        run(command, json.dumps(told).encode() + b"\n", parts, self._limit_s)
