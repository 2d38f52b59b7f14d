"""A report in Markdown (CommonMark with tables).

Text of one line is escaped character by character and never begins a line; longer text stands in a
fence that is longer than any in it. So nothing that was written elsewhere can make a heading, a
row, or a block of proofs.
"""

import re

from interlock.doors.cli.report.document import (
    Block,
    Code,
    Document,
    Entry,
    Line,
    Mark,
    Pairs,
    Paragraph,
    Points,
    Position,
    Quote,
    Section,
    Table,
    flat,
    visible,
)

# A bar or a backslash is read before the rest of a row, so they are not there at all.
_ENTITIES = {"|": "&#124;", "\\": "&#92;", "<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;"}
_ESCAPED = {character: f"\\{character}" for character in "`*_[]#~$"}
_TEXT = str.maketrans(_ENTITIES | _ESCAPED)
_UNFIT_FOR_CODE = frozenset("`|\\")


def write(document: Document, proofs: str) -> str:
    parts = [
        f"# {_text(document.title)}",
        _inline(document.state),
        _pairs(document.about),
        *(_section(section) for section in document.sections),
        f"```json interlock-proofs\n{proofs}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _section(section: Section) -> str:
    return "\n\n".join([f"## {_text(section.title)}", *(_block(block) for block in section.blocks)])


def _block(block: Block) -> str:
    match block:
        case Paragraph(line):
            return _line(line)
        case Points(lines):
            return "\n".join(f"- {_line(line)}" for line in lines)
        case Pairs():
            return _pairs(block)
        case Table():
            return _table(block)
        case Quote():
            return _quote(block)
        case Entry():
            return _entry(block)


def _pairs(pairs: Pairs) -> str:
    return "\n".join(f"- {_text(name)}: {_line(line)}" for name, line in pairs.rows)


def _table(table: Table) -> str:
    rows = [
        " | ".join(map(_text, table.head)),
        " | ".join("---" for _ in table.head),
        *(" | ".join(map(_line, row)) for row in table.rows),
    ]
    return "\n".join(f"| {row} |" for row in rows)


def _quote(quote: Quote) -> str:
    text = visible(quote.text)
    fence = "`" * (1 + max([2, *map(len, re.findall("`+", text))]))
    return f"{_text(quote.label)}:\n\n{fence}text\n{text.removesuffix(chr(10))}\n{fence}"


def _entry(entry: Entry) -> str:
    parts = [
        f"### {_inline(Position(entry.seq))} {_text(entry.when)}",
        _line(entry.head),
        *map(_quote, entry.quotes),
        _pairs(entry.pairs),
    ]
    return "\n\n".join(part for part in parts if part)


def _line(line: Line) -> str:
    return "".join(map(_inline, line))


def _inline(piece: str | Code | Mark | Position) -> str:
    match piece:
        case Code(text):
            return _code(text)
        case Mark(word):
            return f"**{_text(word)}**"
        case Position(seq):
            return f"`#{seq}`"
        case _:
            return _text(piece)


def _text(text: str) -> str:
    """On one line, with the spaces at its ends that stand between two pieces."""
    before = " " if text[:1].isspace() else ""
    after = " " if text[-1:].isspace() and text.strip() else ""
    return f"{before}{flat(text).translate(_TEXT)}{after}"


def _code(text: str) -> str:
    line = flat(text)
    return f"`{line}`" if line and _UNFIT_FOR_CODE.isdisjoint(line) else _text(line)
