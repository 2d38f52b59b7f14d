"""What reaches the terminal: one JSON document, or text with every control sequence taken out.

Whatever another agent wrote may try to move the cursor, set a title or look like our own lines;
nothing but our own styles goes through, and those only to a terminal.
"""

import json
import os
import sys
from typing import Any, BinaryIO

from interlock.errors import Refusal

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def document(answer: dict[str, Any]) -> None:
    """Exactly one JSON document. Pure ASCII, so that no byte of it can steer a terminal."""
    _write(sys.stdout, json.dumps(answer))


def lines(text: str) -> None:
    _write(sys.stdout, text)


def remark(text: str) -> None:
    """A line for people beside the answer."""
    _beside(plain(text))


def live(stream: Any) -> BinaryIO:
    """Where what others write is shown as it comes; nowhere, where the stream is closed."""
    if stream is None:
        return open(os.devnull, "wb")
    shown: BinaryIO = stream.buffer
    return shown


def raw(data: bytes) -> None:
    """Bytes as they are, for whoever asked for nothing else."""
    _put(sys.stdout, data)


def refusal(refused: Refusal, *, json: bool) -> None:
    """The error object, or the same for people: what, why, and what to do."""
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
    _beside(text)


def _beside(text: str) -> None:
    """On standard error; where that is closed nobody wants to hear it, and the exit status says
    enough."""
    if sys.stderr is not None:
        _write(sys.stderr, text)


def _write(stream: Any, text: str) -> None:
    _put(stream, (text.rstrip("\n") + "\n").encode("utf-8", "backslashreplace"))


def _put(stream: Any, data: bytes) -> None:
    """A reader that has gone away wanted no more: the exit status stands. An answer that could
    not be written is `Unwritten`, for what was asked may have been done."""
    if stream is None:
        raise Unwritten("standard output is closed")
    try:
        stream.buffer.write(data)
        stream.buffer.flush()
    except BrokenPipeError:
        _silence(stream)
    except (OSError, AttributeError, ValueError) as trouble:
        _silence(stream)
        raise Unwritten(str(trouble)) from None


class Unwritten(Exception):
    """The answer is known and could not be printed."""


def _silence(stream: Any) -> None:
    """Keeps the interpreter from complaining about what is still in the buffer."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, AttributeError, ValueError):
        return


def clean(value: Any) -> Any:
    """The same value with control characters taken out of every text in it."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {name: clean(item) for name, item in value.items()}
    return value


def plain(text: str) -> str:
    """Text without escape sequences, other control characters, or bidirectional overrides; line
    ends and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c for c in _without_sequences(text) if _harmless(c))


def _harmless(character: str) -> bool:
    if character in "\n\t":
        return True
    code = ord(character)
    return code >= 0x20 and not 0x7F <= code <= 0x9F and character not in _BIDI


def _without_sequences(text: str) -> str:
    if "\x1b" not in text and "\x9b" not in text and "\x9d" not in text:
        return _line_ends(text)
    import re

    sequence = (
        "(?:\x1b\\]|\x9d|\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?"
        "|(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]?"
        "|\x1b[ -/]*[0-~]?"
    )
    return _line_ends(re.sub(sequence, "", text))


def _line_ends(text: str) -> str:
    """Whatever some terminal might take for the end of a line is one."""
    for end in ("\r\n", "\u2028", "\u2029", "\x85"):
        text = text.replace(end, "\n")
    return text


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
    """The line in pieces that a terminal shows on one row behind a bar, so that what it wraps
    cannot stand where our own lines begin. Elsewhere it stays whole."""
    if not _is_terminal(sys.stdout):
        return [line]
    import unicodedata

    # A terminal that does not know its size has 80 columns.
    room = max(10, (os.get_terminal_size(sys.stdout.fileno()).columns or 80) - 3 - indent)
    pieces, piece, used = [], "", 0
    for character in line.expandtabs(8):
        wide = 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if used + wide > room:
            pieces.append(piece)
            piece, used = "", 0
        piece, used = piece + character, used + wide
    return [*pieces, piece]


def width() -> int:
    try:
        return max(40, min(100, os.get_terminal_size().columns or 80))
    except OSError:
        return 80
