"""Codex: wake a thread by Codex's own command, and how Codex looks in a terminal.

Codex confirms that it has queued a line, but not when an idle thread reads it. So such a wake
always stays in doubt, and does not make a sender reachable.
"""
# ruff: noqa: RUF001 - the signs are the client's

import re
import shutil

from interlock.agents.wake.command import run
from interlock.agents.wake.looks import BLANK, MENU, Look, any_of
from interlock.plugins import InDoubt, NotWoken, Pointer, Window
from interlock.plugins.text import typed

_THREAD = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}")

LOOK = Look(
    programs=re.compile(r"codex"),
    marker=re.compile(r"›(?=\s|$)"),
    above=BLANK,
    below=BLANK,
    # Only the footer: blank lines that were typed must not hide what was typed below them.
    blocks=1,
    hints=("Ask Codex to do anything",),
    busy=any_of(r"esc to interrupt", r"^\s*[•◦]?\s*(?:working|starting mcp) ?\S* ?\("),
    asking=any_of(
        MENU,
        r"would you like to (?:run|make|grant|apply)",
        r"press enter to (?:confirm|continue)",
        r"to answer$",
    ),
)


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
        # Flag and value in one word, so that Codex never takes a value for a flag.
        run([program, "queue", f"--thread={thread}", f"--message={typed(pointer.text)}"])
        raise InDoubt("Codex has taken the line, and does not say whether an idle thread reads it.")
