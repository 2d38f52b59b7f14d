"""Codex takes a line for a thread from its own command. That it was taken does not say when an idle
thread reads it, so a wake by it is always in doubt, and nobody counts on it."""

import re
import shutil

from interlock.agents.wake.running import run
from interlock.agents.wake.text import typed
from interlock.plugins import InDoubt, NotWoken, Pointer, Window

_THREAD = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}")


class Codex:
    """Wakes a window whose ways name a thread: `{"codex": {"thread": ID}}`."""

    name = "codex"
    is_sure = False

    def can_wake(self, window: Window) -> bool:
        return _THREAD.fullmatch(window.ways.get(self.name, {}).get("thread", "")) is not None

    def wake(self, window: Window, pointer: Pointer) -> None:
        if not self.can_wake(window):
            raise NotWoken("This window names no thread of Codex's.")
        if (program := shutil.which("codex")) is None:
            raise NotWoken("There is no codex on the server's PATH.")
        thread = window.ways[self.name]["thread"]
        # In one word with its flag, so that no value is ever taken for a flag.
        run([program, "queue", f"--thread={thread}", f"--message={typed(pointer.text)}"])
        raise InDoubt("Codex has taken the line, and does not say whether an idle thread reads it.")
