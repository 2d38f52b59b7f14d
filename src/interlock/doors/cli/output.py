"""Output to the terminal: one JSON document, or text without control sequences.

Text of another agent may try to move the cursor, set a title or look like our own lines. Only our
own styles pass, and only to a terminal.
"""

import json
import os
import sys
from contextlib import suppress
from typing import Any, BinaryIO

from interlock.errors import Refusal

_BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_REMOVED = dict.fromkeys([*range(9), *range(11, 32), *range(0x7F, 0xA0), *map(ord, _BIDI)])
_SEQUENCE = (
    "(?:\x1b\\]|\x9d|\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?"
    "|(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]?"
    "|\x1b[ -/]*[0-~]?"
)


class Unwritten(Exception):
    """The answer is known but could not be printed."""


def document(answer: dict[str, Any]) -> None:
    """Print one JSON document, in ASCII, so that no byte of it can steer a terminal."""
    lines(json.dumps(answer))


def lines(text: str) -> None:
    _write(sys.stdout, (text.rstrip("\n") + "\n").encode("utf-8", "backslashreplace"))


def remark(text: str) -> None:
    """Print a line for people to standard error."""
    _write_error(plain(text))


def live(stream: Any) -> BinaryIO:
    """Return the stream that shows the output of another command live. A closed stream discards
    it."""
    if stream is None:
        return open(os.devnull, "wb")
    shown: BinaryIO = stream.buffer
    return shown


def raw(data: bytes) -> None:
    """Print bytes as they are, for a caller that asked for them."""
    _write(sys.stdout, data)


def refusal(refused: Refusal, *, json: bool) -> None:
    """Print the error object, or for people its title, its reason and what to do."""
    if json:
        document(refused.as_dict())
        return
    shown = clean(refused.as_dict())
    text = f"{_styled('31', refused.title, sys.stderr)} ({refused.code}): {shown['message']}"
    near = [name for name in shown.get("did_you_mean", ()) if name not in shown["message"]]
    if near:
        text += f"\nDid you mean {' or '.join(near)}?"
    if shapes := shown.get("valid_shapes"):
        text += "".join(f"\n  {shape}" for shape in shapes)
    if usage := shown.get("usage"):
        text += f"\nUsage: {usage}"
    _write_error(text)


def _write_error(text: str) -> None:
    # If standard error is closed, the caller has only the exit status.
    if sys.stderr is not None:
        _write(sys.stderr, (text.rstrip("\n") + "\n").encode("utf-8", "backslashreplace"))


def _write(stream: Any, data: bytes) -> None:
    """Write to a stream. If the reader closed its pipe, that is no error: the exit status stays.
    Any other failure raises `Unwritten`, because the command may have taken effect."""
    if stream is None:
        raise Unwritten("standard output is closed")
    try:
        stream.buffer.write(data)
        stream.buffer.flush()
    except (OSError, AttributeError, ValueError) as trouble:
        # Prevent an error of the interpreter about the rest of the buffer.
        with suppress(OSError, AttributeError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if not isinstance(trouble, BrokenPipeError):
            raise Unwritten(str(trouble)) from None


def clean(value: Any) -> Any:
    """Return the value with control characters removed from every text in it."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {name: clean(item) for name, item in value.items()}
    return value


def plain(text: str) -> str:
    """Return the text without escape sequences, other control characters, and bidirectional
    overrides. Line ends and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    if "\x1b" in text or "\x9b" in text or "\x9d" in text:
        import re

        text = re.sub(_SEQUENCE, "", text)
    # Every character that some terminal takes for a line end becomes one.
    for end in ("\r\n", "\u2028", "\u2029", "\x85"):
        text = text.replace(end, "\n")
    return text.translate(_REMOVED)


def bold(text: str) -> str:
    return _styled("1", text, sys.stdout)


def dim(text: str) -> str:
    return _styled("2", text, sys.stdout)


def green(text: str) -> str:
    return _styled("32", text, sys.stdout)


def yellow(text: str) -> str:
    return _styled("33", text, sys.stdout)


def _styled(code: str, text: str, stream: Any) -> str:
    if not _is_terminal(stream) or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{code}m{text}\x1b[0m"


def _is_terminal(stream: Any) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def fold(line: str, indent: int = 0) -> list[str]:
    """Split a line into pieces that fit on one row behind a bar. So a wrapped part cannot look like
    a line of our own. Split after a space where the row has one. The pieces together are the
    line. Outside of a terminal the line is not split."""
    if not _is_terminal(sys.stdout):
        return [line]
    import unicodedata

    # A terminal that does not know its size has 80 columns.
    room = max(10, (os.get_terminal_size(sys.stdout.fileno()).columns or 80) - 3 - indent)

    def columns(character: str) -> int:
        return 2 if unicodedata.east_asian_width(character) in "WF" else 1

    pieces, piece, used = [], "", 0
    for character in line.expandtabs(8):
        wide = columns(character)
        while used + wide > room:
            end = piece.rfind(" ") + 1 or len(piece)
            pieces.append(piece[:end])
            piece = piece[end:]
            used = sum(map(columns, piece))
        piece, used = piece + character, used + wide
    return [*pieces, piece]


def width() -> int:
    try:
        return max(40, min(100, os.get_terminal_size().columns or 80))
    except OSError:
        return 80
