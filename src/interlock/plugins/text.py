"""Turn a pointer's text into one harmless line, whatever it was made from.

A client reads a pasted line before its agent does: it takes a first `!` or `/` for a command, `@`
for a file, and a control character for a key.
"""

import re
import unicodedata

from interlock.plugins import NotWoken

# Clients show longer pastes as "[Pasted text]", which the adapter could not recognise.
LONGEST = 400


def plain(text: str) -> str:
    """One line without control, format or other unprintable characters. A longer line is cut, and
    ends in `…`. Raises NotWoken if nothing is left."""
    line = ""
    for character in text:
        category = unicodedata.category(character)
        line += " " if category[0] == "C" or category in ("Zl", "Zp") else character
    line = " ".join(line.split())
    if not line:
        raise NotWoken("There is nothing to say.")
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def typed(text: str) -> str:
    """A line that clients take for text only: no command at its start, no file in it, and no end
    that opens a list of completions, from which Enter would choose. Raises NotWoken."""
    line = plain(re.sub(r"(?<!\S)@+", "", plain(text)))
    if not (line[0].isalnum() or line[0] == "["):
        line = plain(f"Interlock: {line}")
    return f"{line}." if line.endswith("\\") or line.split()[-1][0] in "/$#" else line
