"""A pointer's text as one harmless line, whatever it was made from.

What is pasted at a client's prompt is read by the client before any agent reads it: a first `!` or
`/` would be its command, an `@` would be a file, and a control character would be a key.
"""

import re
import unicodedata

from interlock.plugins import NotWoken

# Clients show longer pastes as "[Pasted text]", which could not be recognised on the screen.
LONGEST = 400


def plain(text: str) -> str:
    """One line without control, format or other unprintable characters. One that is too long is
    cut, and ends in `…`."""
    line = " ".join("".join(map(_printable, text)).split())
    if not line:
        raise NotWoken("There is nothing to say.")
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def typed(text: str) -> str:
    """A line that no client takes for anything but text: no command at its start, no file in it,
    and at its end nothing that a list of completions would open for, which Enter would choose
    from."""
    line = plain(re.sub(r"(?<!\S)@+", "", plain(text)))
    if not (line[0].isalnum() or line[0] == "["):
        line = plain(f"Interlock: {line}")
    return f"{line}." if line.endswith("\\") or line.split()[-1][0] in "/$#" else line


def _printable(character: str) -> str:
    category = unicodedata.category(character)
    return " " if category[0] == "C" or category in ("Zl", "Zp") else character
