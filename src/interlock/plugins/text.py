"""Turn any pointer text into one harmless line.

A client interprets a pasted line before its agent reads it. It takes `!` or `/` at the start for a
command, `@` for a file, and a control character for a key.
"""

import re
import unicodedata

from interlock.plugins import NotWoken

# Clients show longer pastes as "[Pasted text]", so the adapter could not find the line.
LONGEST = 400


def plain(text: str) -> str:
    """Return one line without control, format or other unprintable characters. Cut a line that is
    longer than LONGEST, and end it with `…`. Raise NotWoken if no character is left."""
    line = ""
    for character in text:
        category = unicodedata.category(character)
        line += " " if category[0] == "C" or category in ("Zl", "Zp") else character
    line = " ".join(line.split())
    if not line:
        raise NotWoken("The pointer has no printable characters.")
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def typed(text: str) -> str:
    """Return a line that clients treat as plain text. It has no command at its start and no file
    name. It does not end in a word that opens a list of completions, where Enter would select an
    entry. Raise NotWoken as `plain` does."""
    line = plain(re.sub(r"(?<!\S)@+", "", plain(text)))
    if not (line[0].isalnum() or line[0] == "["):
        line = plain(f"Interlock: {line}")
    return f"{line}." if line.endswith("\\") or line.split()[-1][0] in "/$#" else line
