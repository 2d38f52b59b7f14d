"""The parts of a report, for every format.

Every `str` in a document is plain text of any author. The writers escape all of it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from interlock.verbs.spelling import visible


class Code(NamedTuple):
    """Text to copy exactly: a digest, an address, a command."""

    text: str


class Mark(NamedTuple):
    """A highlighted word of Interlock. Only RUN has the tone `run`."""

    word: str
    tone: str = "plain"


class LogReference(NamedTuple):
    """A reference to an entry of the log."""

    seq: int


Piece = str | Code | Mark | LogReference
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
    """Text of another author, or text to copy, with its line ends."""

    label: str
    text: str


class LoggedStep(NamedTuple):
    """A step of the history, at its position in the log."""

    seq: int
    when: str
    head: Line
    look: str
    quotes: Sequence[Quote]
    pairs: Pairs


Block = Paragraph | Points | Pairs | Table | Quote | LoggedStep


class Report(NamedTuple):
    title: str
    state: Line
    about: Pairs
    sections: Sequence[tuple[str, Sequence[Block]]]


def pieces(line: Line) -> tuple[Piece, ...]:
    return (line,) if isinstance(line, Piece) else line


def flat(text: str) -> str:
    """Return the visible text on one line."""
    return " ".join(visible(text).split())
