"""What a report is made of, whatever it is written in.

Every text in here is only text: a writer escapes all of it, so it makes no difference who wrote it.
"""

from typing import NamedTuple


class Code(NamedTuple):
    """Something to be copied letter by letter: a digest, an address, a command of ours."""

    text: str


class Mark(NamedTuple):
    """A word of ours that must catch the eye. Only `RUN` has the look of what was run."""

    word: str
    tone: str = "plain"


class Position(NamedTuple):
    """An entry of the log."""

    seq: int


Line = tuple["str | Code | Mark | Position", ...]


class Paragraph(NamedTuple):
    line: Line


class Points(NamedTuple):
    lines: tuple[Line, ...]


class Pairs(NamedTuple):
    """Names, each with what is to be said about it."""

    rows: tuple[tuple[str, Line], ...]


class Table(NamedTuple):
    head: tuple[str, ...]
    rows: tuple[tuple[Line, ...], ...]


class Quote(NamedTuple):
    """What somebody else wrote, or what is to be copied whole, kept line by line."""

    label: str
    text: str


class Entry(NamedTuple):
    """A step of the story, at its position in the log."""

    seq: int
    when: str
    head: Line
    look: str = "plain"
    quotes: tuple[Quote, ...] = ()
    pairs: Pairs = Pairs(())


Block = Paragraph | Points | Pairs | Table | Quote | Entry


class Section(NamedTuple):
    title: str
    blocks: tuple[Block, ...]


class Document(NamedTuple):
    title: str
    state: Mark
    about: Pairs
    sections: tuple[Section, ...]


def visible(text: str) -> str:
    """The text with everything shown that a reader could not see and that could turn the order of
    what is seen. Taking it out would leave a document that says less than was written."""
    ends = text.replace("\r\n", "\n")
    if ends.isascii() and ends.replace("\n", "").isprintable():
        return ends
    return "".join(c if _seen(c) else f"⟨U+{ord(c):04X}⟩" for c in ends)


def _seen(character: str) -> bool:
    import unicodedata

    # Scripts and pictures are joined by the last two.
    if character in "\n\t\u200c\u200d":
        return True
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def flat(text: str) -> str:
    """The text on one line."""
    return " ".join(visible(text).split())
