"""An animated SVG of several terminals, from snapshots of their screens.

A snapshot is the output of `tmux capture-pane -e`: lines of text with colours. Each terminal keeps
its own frames, so a frame that did not change is stored once.
"""

import re
from html import escape
from typing import NamedTuple

SGR = re.compile(r"\x1b\[([0-9;:]*)m")
COLUMN, ROW, SIZE = 7.25, 16.0, 12
COLOURS = (
    *("#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4"),
    *("#6e7681", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#f0f6fc"),
)
PLAIN = "#d7dde5"


class Run(NamedTuple):
    """Text of one style, from a column on."""

    column: int
    text: str
    colour: str
    bold: bool


class Frame(NamedTuple):
    """A snapshot of a terminal, shown from `start` to `end` seconds."""

    start: float
    end: float
    lines: list[str]


class Panel(NamedTuple):
    title: str
    columns: int
    rows: int
    frames: list[Frame]


# Few fonts have this character.
REPLACED = str.maketrans({"⏵": "▸"})


def runs(line: str) -> list[Run]:
    """Split a line of a snapshot into runs of one style."""
    found, column, at = [], 0, 0
    line = line.translate(REPLACED)
    colour, bold, dim = PLAIN, False, False
    for match in [*SGR.finditer(line), None]:
        text = line[at : match.start() if match else len(line)]
        if text.strip():
            lead = len(text) - len(text.lstrip())
            shown = "#8b949e" if dim and colour == PLAIN else colour
            found.append(Run(column + lead, text.strip(), shown, bold))
        column += len(text)
        if match is None:
            break
        at = match.end()
        codes = [int(code or 0) for code in re.split("[;:]", match[1] or "0")]
        while codes:
            code = codes.pop(0)
            if code == 0:
                colour, bold, dim = PLAIN, False, False
            elif code in (1, 2, 22):
                bold, dim = code == 1, code == 2
            elif code == 39:
                colour = PLAIN
            elif 30 <= code <= 37 or 90 <= code <= 97:
                colour = COLOURS[code - 30 if code < 90 else code - 82]
            elif code in (38, 48):
                if codes[:1] == [2]:
                    value = "#{:02x}{:02x}{:02x}".format(
                        *codes[-3:] if len(codes) == 5 else codes[1:4]
                    )
                    codes = codes[5:] if len(codes) == 5 else codes[4:]
                else:
                    value = indexed(codes[1])
                    codes = codes[2:]
                colour = value if code == 38 else colour
    return found


def indexed(number: int) -> str:
    """A colour of the palette of 256 colours."""
    if number < 16:
        return COLOURS[number]
    if number >= 232:
        return "#{0:02x}{0:02x}{0:02x}".format(8 + 10 * (number - 232))
    steps = (0, 95, 135, 175, 215, 255)
    number -= 16
    return f"#{steps[number // 36]:02x}{steps[number // 6 % 6]:02x}{steps[number % 6]:02x}"


def document(title: str, panels: list[Panel], captions: list[tuple[float, str]], end: float) -> str:
    """The SVG. `captions` are the sentences below the terminals, each with its start. Together they
    are the description of the picture."""
    described = " ".join(text for _, text in captions)
    width = max(panel.columns for panel in panels) * COLUMN + 40
    styles = [
        "svg{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
        f"font-size:{SIZE}px}}",
        "text{white-space:pre}.c{font:600 17px system-ui,'DejaVu Sans',sans-serif;fill:#f0f6fc}",
        ".p{fill:#0d1117;stroke:#30363d}",
        ".t{font:600 13px system-ui,'DejaVu Sans',sans-serif;fill:#8b949e}.b{font-weight:700}",
        f".f{{visibility:hidden;animation-duration:{end:.1f}s;animation-iteration-count:infinite;"
        "animation-timing-function:step-end}",
        # A reader who wants no motion sees the last frames.
        "@media (prefers-reduced-motion:reduce){.f{animation:none}.l{visibility:visible}}",
    ]
    body: list[str] = []
    count = 0

    def group(start: float, stop: float, inner: str) -> str:
        nonlocal count
        count += 1
        first, last = 100 * start / end, 100 * stop / end
        after = "" if last >= 100 else f"{last:.3f}%{{visibility:hidden}}"
        before = "" if first <= 0 else "0%{visibility:hidden}"
        styles.append(f"@keyframes k{count}{{{before}{first:.3f}%{{visibility:visible}}{after}}}")
        last_class = " l" if last >= 100 else ""
        return f'<g class="f{last_class}" style="animation-name:k{count}">{inner}</g>'

    y = 12.0
    for panel in panels:
        height = panel.rows * ROW + 34
        size = f'width="{width - 20:.0f}" height="{height:.0f}"'
        body.append(f'<rect class="p" x="10" y="{y}" {size} rx="8"/>')
        body.append(f'<text class="t" x="22" y="{y + 19}">{escape(panel.title)}</text>')
        for frame in panel.frames:
            rows = []
            for number, line in enumerate(frame.lines[-panel.rows :]):
                base = y + 40 + number * ROW
                for run in runs(line):
                    bold = ' class="b"' if run.bold else ""
                    rows.append(
                        f'<text x="{20 + run.column * COLUMN:.1f}" y="{base:.0f}" '
                        f'fill="{run.colour}"{bold}>{escape(run.text)}</text>'
                    )
            body.append(group(frame.start, frame.end, "".join(rows)))
        y += height + 10
    y += 26
    for number, (start, text) in enumerate(captions):
        stop = captions[number + 1][0] if number + 1 < len(captions) else end
        body.append(
            group(start, stop, f'<text class="c" x="20" y="{y - 4:.0f}">{escape(text)}</text>')
        )
    height = y + 16
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'role="img" aria-labelledby="title desc"><title id="title">{escape(title)}</title>'
        f'<desc id="desc">{escape(described)}</desc>'
        f"<style>{''.join(styles)}</style>"
        f'<rect width="{width:.0f}" height="{height:.0f}" rx="12" fill="#161b22"/>'
        f"{''.join(body)}</svg>\n"
    )
