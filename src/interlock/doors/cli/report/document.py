"""The parts of a report, for every form in which it is written.

Every `str` in a document is plain text. The writers escape all of it, whoever wrote it.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Code(NamedTuple):
    """Text to copy exactly: a digest, an address, a command."""

    text: str


class Mark(NamedTuple):
    """A word of ours that stands out. Only RUN has the tone `run`."""

    word: str
    tone: str = "plain"


class Position(NamedTuple):
    """A reference to an entry of the log."""

    seq: int


Piece = str | Code | Mark | Position
Line = Piece | tuple[Piece, ...]


class Paragraph(NamedTuple):
    line: Line


class Points(NamedTuple):
    lines: Sequence[Line]


class Pairs(NamedTuple):
    rows: Sequence[tuple[str, Line]]


class Table(NamedTuple):
    head: Sequence[str]
    rows: Sequence[Sequence[Line]]


class Quote(NamedTuple):
    """Text of another author, or text to copy whole, with its line ends."""

    label: str
    text: str


class Entry(NamedTuple):
    """A step of the story, at its position in the log."""

    seq: int
    when: str
    head: Line
    look: str
    quotes: Sequence[Quote]
    pairs: Pairs


Block = Paragraph | Points | Pairs | Table | Quote | Entry


class Document(NamedTuple):
    title: str
    state: Mark
    about: Pairs
    sections: Sequence[tuple[str, Sequence[Block]]]


def pieces(line: Line) -> tuple[Piece, ...]:
    return (line,) if isinstance(line, Piece) else line


def visible(text: str) -> str:
    """Return the text with every character that a reader cannot see, or that reorders the text
    around it, replaced by its number. Removing it would change what the author wrote."""
    text = text.replace("\r\n", "\n")
    if text.replace("\n", "").isprintable():
        return text
    import unicodedata

    # U+200C and U+200D join letters of some scripts, and emoji.
    hidden = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return "".join(
        c
        if c in "\n\t\u200c\u200d" or unicodedata.category(c) not in hidden
        else f"⟨U+{ord(c):04X}⟩"
        for c in text
    )


def flat(text: str) -> str:
    """Return the visible text on one line."""
    return " ".join(visible(text).split())
