"""A report as one HTML file that asks for nothing else: no script, no picture, no address."""

import os
from html import escape

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

_STYLE = os.path.join(os.path.dirname(__file__), "page.css")
# Should anything ever get past the escaping, the browser still runs and fetches nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<main>
<header>
<p class="kind">Interlock report</p>
<h1>{title}</h1>
<p>{state}</p>
{about}
</header>
{sections}
<details>
<summary>The proofs, as JSON</summary>
<pre class="proofs">{readable}</pre>
</details>
</main>
<script type="application/json" id="interlock-proofs">
{proofs}
</script>
</body>
</html>
"""


def write(document: Document, proofs: str) -> str:
    with open(_STYLE, encoding="utf-8") as file:
        style = file.read()
    return _PAGE.format(
        policy=_POLICY,
        title=_text(document.title),
        style=style,
        state=_inline(document.state),
        about=_pairs(document.about),
        sections="\n".join(map(_section, document.sections)),
        readable=escape(proofs),
        proofs=proofs,
    )


def _section(section: Section) -> str:
    blocks = "\n".join(map(_block, section.blocks))
    return f"<section>\n<h2>{_text(section.title)}</h2>\n{blocks}\n</section>"


def _block(block: Block) -> str:
    match block:
        case Paragraph(line):
            return f"<p>{_line(line)}</p>"
        case Points(lines):
            return f"<ul>{''.join(f'<li>{_line(line)}</li>' for line in lines)}</ul>"
        case Pairs():
            return _pairs(block)
        case Table():
            return _table(block)
        case Quote():
            return _quote(block)
        case Entry():
            return _entry(block)


def _pairs(pairs: Pairs) -> str:
    rows = (f"<dt>{_text(name)}</dt><dd>{_line(line)}</dd>" for name, line in pairs.rows)
    return f"<dl>{''.join(rows)}</dl>"


def _table(table: Table) -> str:
    """Each cell knows the name of its column, for a screen that has no room for a row."""
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in table.head)
    rows = "".join(f"<tr>{''.join(map(_cell, table.head, row))}</tr>\n" for row in table.rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>"


def _cell(name: str, line: Line) -> str:
    return f'<td data-column="{_text(name)}"><div>{_line(line)}</div></td>'


def _quote(quote: Quote) -> str:
    # A browser drops a line end that begins a pre; this one is there to be dropped.
    text = f"<pre>\n{escape(visible(quote.text))}</pre>"
    return f"<figure><figcaption>{_text(quote.label)}</figcaption>{text}</figure>"


def _entry(entry: Entry) -> str:
    place = f'<a href="#entry-{entry.seq}">#{entry.seq}</a>'
    parts = [
        f'<p class="where">{place} <time>{_text(entry.when)}</time></p>',
        f"<p>{_line(entry.head)}</p>",
        *map(_quote, entry.quotes),
        _pairs(entry.pairs) if entry.pairs.rows else "",
    ]
    body = "\n".join(part for part in parts if part)
    return f'<article id="entry-{entry.seq}" class="{_text(entry.look)}">\n{body}\n</article>'


def _line(line: Line) -> str:
    return "".join(map(_inline, line))


def _inline(piece: str | Code | Mark | Position) -> str:
    match piece:
        case Code(text):
            return f"<code>{_text(text)}</code>"
        case Mark(word, tone):
            return f'<strong class="mark {_text(tone)}">{_text(word)}</strong>'
        case Position(seq):
            return f'<a href="#entry-{seq}">#{seq}</a>'
        case _:
            return (
                escape(visible(piece))
                if piece.isascii()
                else f"<bdi>{escape(visible(piece))}</bdi>"
            )


def _text(text: str) -> str:
    return escape(flat(text))
