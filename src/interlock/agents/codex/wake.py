"""Wake a Codex thread with the command `codex queue`, and recognise Codex in a terminal.

Codex confirms that it has queued a line, but not that an idle thread reads it. So the outcome of
such a wake is always unknown, and this adapter does not make a sender count as reachable.
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
    # Only the footer may follow the prompt. A higher limit would miss text that a person typed
    # below a blank line.
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
            raise NotWoken("This window names no Codex thread.")
        if (program := shutil.which("codex")) is None:
            raise NotWoken("The program codex is not on the server's PATH.")
        thread = window.ways[self.name]["thread"]
        # Flag and value are one word, so that Codex never takes a value for a flag.
        run([program, "queue", f"--thread={thread}", f"--message={typed(pointer.text)}"])
        raise InDoubt("Codex queued the line, but does not report whether an idle thread reads it.")
