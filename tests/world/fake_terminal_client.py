"""A fake AI client in a terminal. It draws a prompt like the real client, and accepts a bracketed
paste as one text. It records each byte that it reads and each submitted line.

Run as a program: CLIENT MODE DIRECTORY.
"""
# ruff: noqa: RUF001 - the real clients use these characters

import json
import os
import select
import sys
import termios
import tty
from pathlib import Path

WIDTH = 60
FAINT, PLAIN, REVERSE = "\x1b[2m", "\x1b[0m", "\x1b[7m"
HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
SPINNER = "|/-\\"
RULE = "─" * WIDTH
PASTE, PASTED = b"\x1b[200~", b"\x1b[201~"

# The line above the text, the prefix, the line below, and the text of an empty prompt.
FACES = {
    "claude-code": (RULE, "❯ ", RULE, f'{REVERSE}T{PLAIN}{FAINT}ry "fix the tests"{PLAIN}'),
    "codex": ("", "› ", "", f"{FAINT}Ask Codex to do anything{PLAIN}"),
    "gemini": (f"╭{RULE}╮", "│ > ", f"╰{RULE}╯", " Type your message or @path/to/file"),
    "cursor": ("▄" * WIDTH, " → ", "▀" * WIDTH, f"{FAINT}Add a follow-up{PLAIN}"),
}
BUSY = {
    "claude-code": "✻ Brewing… (12s · esc to interrupt)",
    "codex": "• Working (12s • esc to interrupt)",
    "gemini": "⠏ Thinking about it (esc to cancel, 12s)",
    "cursor": "  ⠞ Generating  ctrl+c to stop",
}
ASKING = {
    "claude-code": " Do you want to proceed?\r\n ❯ 1. Yes\r\n   2. No",
    "codex": "  Would you like to run the following command?\r\n› 1. Yes, proceed (y)\r\n  2. No",
    "gemini": "│ Allow execution of: 'make'?\r\n│ ● 1. Allow once\r\n│   2. No (esc)",
    "cursor": " Run this command?\r\n  → Run (once) (y)\r\n    Skip (esc or n)",
}


class FakeTerminalClient:
    """A client for a tmux pane, to test how Interlock wakes the imitated client."""

    def __init__(self, client: str, mode: str, directory: Path) -> None:
        self.client = client
        self.mode = mode
        self.directory = directory
        self.typed = "half a tho" if mode == "typed" else ""
        self.said = ["earlier on, things were said"]
        self.pasting = False
        self.unread = b""
        self.frames = 0

    def draw(self) -> None:
        """Redraw line by line, so that an incomplete frame still shows the prompt."""
        above, sign, below, hint = FACES[self.client]
        lines = list(self.said[-5:])
        if self.mode == "busy":
            lines.append(BUSY[self.client])
        if self.mode == "spinning":
            # Every frame differs, so that each capture of the screen differs from the last one.
            self.frames += 1
            lines.append(f"{SPINNER[self.frames % len(SPINNER)]} {self.frames}")
        if self.mode == "asking":
            lines.append(ASKING[self.client])
        else:
            lines += [above, sign + self.inside(hint), below]
        if self.mode == "hidden":
            lines = [*lines[:-3], above, sign, "", "  a thought below two empty lines", below]
        text = "\r\n".join([*lines, "  ? for shortcuts"]).replace("\r\n", f"{CLEAR_LINE}\r\n")
        os.write(1, f"{HOME}{text}{CLEAR_LINE}{CLEAR_BELOW}".encode())

    def inside(self, hint: str) -> str:
        if not self.typed:
            return hint
        first = WIDTH - 4
        parts = [self.typed[:first]]
        parts += [self.typed[at : at + first] for at in range(first, len(self.typed), first)]
        return "\r\n  ".join(parts)

    def take(self, data: bytes) -> None:
        """Process the bytes of one read, which may end inside a paste, a marker or a character."""
        with (self.directory / "bytes").open("ab") as file:
            file.write(data)
        self.unread += data
        while self.unread:
            if self.unread.startswith((PASTE, PASTED)):
                self.pasting = self.unread.startswith(PASTE)
                self.unread = self.unread[len(PASTE) :]
                if not self.pasting:
                    self.pasted()
            elif PASTE.startswith(self.unread) or PASTED.startswith(self.unread):
                return
            else:
                length = character_length(self.unread[0])
                if len(self.unread) < length:
                    return
                key, self.unread = self.unread[:length], self.unread[length:]
                self.key(key)

    def pasted(self) -> None:
        if self.mode == "meddled":
            self.typed += " and what a person typed"
        if self.mode == "leaving":
            self.draw()
            os._exit(0)

    def key(self, key: bytes) -> None:
        if key == b"\r" and not self.pasting:
            self.submit()
        elif self.mode != "deaf":
            self.typed += key.decode()

    def submit(self) -> None:
        with (self.directory / "submitted").open("a") as file:
            file.write(json.dumps(self.typed) + "\n")
        if self.mode != "stuck":
            self.said.append(f"> {self.typed[:40]}")
            self.typed = ""

    def run(self) -> None:
        before = termios.tcgetattr(0)
        tty.setraw(0)
        os.write(1, b"\x1b[?2004h")
        try:
            self.draw()
            draft = self.directory / "draft"
            draft.write_text(str(os.getpid()))
            draft.rename(self.directory / "pid")
            while True:
                if select.select([0], [], [], 0.05)[0]:
                    self.take(os.read(0, 65536))
                    if not self.pasting:
                        self.draw()
                elif self.mode == "spinning":
                    self.draw()
        finally:
            termios.tcsetattr(0, termios.TCSADRAIN, before)


def character_length(first: int) -> int:
    """The number of bytes of a UTF-8 character, by its first byte."""
    if first < 0x80:
        return 1
    return 2 if first < 0xE0 else 3 if first < 0xF0 else 4


if __name__ == "__main__":
    FakeTerminalClient(sys.argv[1], sys.argv[2], Path(sys.argv[3])).run()
