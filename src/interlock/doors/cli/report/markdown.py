"""Write a report in Markdown (CommonMark with tables).

Text of one line is escaped character by character and never starts a line. Longer text is in a
fence that is longer than any fence in the text. So the text of another author cannot make a
heading, a row, or a block of proofs.
"""

import re

from interlock.doors.cli.report import document as doc
from interlock.verbs.spelling import visible

# Renderers read a bar or a backslash before the rest of a row, so write them as entities.
_ENTITIES = {"|": "&#124;", "\\": "&#92;", "<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;"}
_ESCAPED = {character: f"\\{character}" for character in "`*_[]#~$"}
_TEXT = str.maketrans(_ENTITIES | _ESCAPED)


def write(document: doc.Report, proofs: str) -> str:
    parts = [f"# {_text(document.title)}", _line(document.state), _block(document.about)]
    for title, blocks in document.sections:
        parts += [f"## {_text(title)}", *map(_block, blocks)]
    return "\n\n".join([*parts, f"```json interlock-proofs\n{proofs}\n```"]) + "\n"


def _block(block: doc.Block) -> str:
    match block:
        case doc.Paragraph(line):
            return _line(line)
        case doc.Points(lines):
            return "\n".join(f"- {_line(line)}" for line in lines)
        case doc.Pairs(pairs):
            return "\n".join(f"- {_text(name)}: {_line(line)}" for name, line in pairs)
        case doc.Table(head, rows):
            written = [map(_text, head), ("---" for _ in head), *(map(_line, row) for row in rows)]
            return "\n".join(f"| {' | '.join(cells)} |" for cells in written)
        case doc.Quote(label, text):
            text = visible(text)
            fence = "`" * (1 + max([2, *map(len, re.findall("`+", text))]))
            return f"{_text(label)}:\n\n{fence}text\n{text.removesuffix(chr(10))}\n{fence}"
        case doc.LoggedStep():
            parts = [f"### `#{block.seq}` {_text(block.when)}", _line(block.head)]
            parts += [*map(_block, block.quotes), _block(block.pairs)]
            return "\n\n".join(filter(None, parts))


def _line(line: doc.Line) -> str:
    written = ""
    for piece in doc.pieces(line):
        match piece:
            case doc.Code(text):
                code = doc.flat(text)
                plain = code and not set("`|\\") & set(code)
                written += f"`{code}`" if plain else _text(code)
            case doc.Mark(word):
                written += f"**{_text(word)}**"
            case doc.LogReference(seq):
                written += f"`#{seq}`"
            case _:
                written += _text(piece)
    return written


def _text(text: str) -> str:
    """Return the text on one line, with one space at each end where it has any."""
    before = " " if text[:1].isspace() else ""
    after = " " if text[-1:].isspace() and text.strip() else ""
    return f"{before}{doc.flat(text).translate(_TEXT)}{after}"
