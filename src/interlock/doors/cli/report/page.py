"""Write a report as one HTML file that loads nothing: no script, no picture, no other file."""

import os
from html import escape

from interlock.doors.cli.report import document as doc
from interlock.verbs.spelling import visible

_STYLE = os.path.join(os.path.dirname(__file__), "page.css")
# If a defect lets markup through the escaping, the browser still runs and loads nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def write(document: doc.Report, proofs: str) -> str:
    with open(_STYLE, encoding="utf-8") as file:
        style = file.read()
    title = _text(document.title)
    sections = "\n".join(
        "\n".join(["<section>", f"<h2>{_text(name)}</h2>", *map(_block, blocks), "</section>"])
        for name, blocks in document.sections
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
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
<p>{_line(document.state)}</p>
{_block(document.about)}
</header>
{sections}
<details>
<summary>The proofs (JSON)</summary>
<pre class="proofs">{escape(proofs)}</pre>
</details>
</main>
<script type="application/json" id="interlock-proofs">
{proofs}
</script>
</body>
</html>
"""


def _block(block: doc.Block) -> str:
    match block:
        case doc.Paragraph(line):
            return f"<p>{_line(line)}</p>"
        case doc.Points(lines):
            return f"<ul>{''.join(f'<li>{_line(line)}</li>' for line in lines)}</ul>"
        case doc.Pairs(pairs):
            written = (f"<dt>{_text(name)}</dt><dd>{_line(line)}</dd>" for name, line in pairs)
            return f"<dl>{''.join(written)}</dl>"
        case doc.Table(names, rows):
            head = "".join(f'<th scope="col">{_text(name)}</th>' for name in names)
            body = "".join(f"<tr>{''.join(map(_cell, names, row))}</tr>\n" for row in rows)
            return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>"
        case doc.Quote(label, text):
            # A browser drops the first line end of a pre, so write an extra one.
            written_text = f"<pre>\n{escape(visible(text))}</pre>"
            return f"<figure><figcaption>{_text(label)}</figcaption>{written_text}</figure>"
        case doc.LoggedStep(seq):
            link = f'<a href="#entry-{seq}">#{seq}</a>'
            parts = [
                f'<article id="entry-{seq}" class="{_text(block.look)}">',
                f'<p class="where">{link} <time>{_text(block.when)}</time></p>',
                f"<p>{_line(block.head)}</p>",
                *map(_block, block.quotes),
                *([_block(block.pairs)] if block.pairs.rows else []),
                "</article>",
            ]
            return "\n".join(parts)


def _cell(name: str, line: doc.Line) -> str:
    """Write a cell with the name of its column, which a narrow screen shows next to the cell."""
    return f'<td data-column="{_text(name)}"><div>{_line(line)}</div></td>'


def _line(line: doc.Line) -> str:
    written = ""
    for piece in doc.pieces(line):
        match piece:
            case doc.Code(text):
                written += f"<code>{_text(text)}</code>"
            case doc.Mark(word, tone):
                written += f'<strong class="mark {_text(tone)}">{_text(word)}</strong>'
            case doc.LogReference(seq):
                written += f'<a href="#entry-{seq}">#{seq}</a>'
            case _:
                text = escape(visible(piece))
                written += text if piece.isascii() else f"<bdi>{text}</bdi>"
    return written


def _text(text: str) -> str:
    return escape(doc.flat(text))
