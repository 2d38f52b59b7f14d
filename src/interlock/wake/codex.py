"""Codex takes a line for an idle thread from its own command, and hands it over at the next turn of
one that is at work."""

import re
import shutil

from interlock.wake import NotWoken, Pointer, Window
from interlock.wake.running import run
from interlock.wake.text import typed

_THREAD = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}")


class Codex:
    """Wakes a window whose ways name a thread: `{"codex": {"thread": ID}}`."""

    name = "codex"

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
