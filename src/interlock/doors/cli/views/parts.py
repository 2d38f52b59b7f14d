"""What the views share: tables, times and quoted text."""

from collections.abc import Iterable

from interlock.doors.cli.output import dim, fold
from interlock.verbs.answers import Answer

BAR = "│ "
INDENT = " " * 6


def members(answer: Answer, indent: str = "") -> str:
    """What has no form of its own: one member a line."""
    left = max((len(name) for name in answer), default=0)
    rows = []
    for name, value in answer.items():
        if isinstance(value, dict):
            rows.append(f"{indent}{name}\n{members(value, indent + '  ')}")
        else:
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            rows.append(f"{indent}{dim(name.ljust(left))}  {shown}")
    return "\n".join(rows)


def table(rows: Iterable[tuple[str, ...]], empty: str) -> str:
    lines = [list(row) for row in rows]
    if not lines:
        return dim(empty)
    widths = [max(len(row[i]) for row in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in lines
    )


def time(at: str) -> str:
    return at[:19].replace("T", " ") + "Z"


def count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def quoted(body: str, indent: str = "") -> str:
    lines = body.split("\n")
    return "\n".join(indent + BAR + piece for line in lines for piece in fold(line, len(indent)))


def indented(body: str) -> str:
    """A text under an entry of a list."""
    return quoted(body, INDENT)
