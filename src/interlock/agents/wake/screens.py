"""A screen as tmux captured it: what it reads, and which of it somebody typed."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_SGR = re.compile(r"\x1b\[([0-9;:]*)m")
_OTHER = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[()].|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)|[\x0e\x0f]")


class Screen(NamedTuple):
    """The visible lines, as they read; and the same with blanks for what nobody typed: faint text,
    and the block of a cursor that stands on faint text."""

    lines: tuple[str, ...]
    solid: tuple[str, ...]


class _Cell(NamedTuple):
    character: str
    faint: bool
    reverse: bool


def screen(captured: str) -> Screen:
    """What `tmux capture-pane -e` gave. Attributes carry over from line to line."""
    lines: list[list[_Cell]] = [[]]
    for cell in _cells(captured):
        if cell.character == "\n":
            lines.append([])
        else:
            lines[-1].append(cell)
    return Screen(
        tuple("".join(cell.character for cell in line) for line in lines),
        tuple("".join(_typed(line, at) for at in range(len(line))) for line in lines),
    )


def _cells(captured: str) -> Iterator[_Cell]:
    faint = reverse = False
    at = 0
    while at < len(captured):
        if style := _SGR.match(captured, at):
            faint, reverse = _styled(style[1], faint, reverse)
            at = style.end()
        elif other := _OTHER.match(captured, at):
            at = other.end()
        else:
            yield _Cell(captured[at], faint, reverse)
            at += 1


def _styled(parameters: str, faint: bool, reverse: bool) -> tuple[bool, bool]:
    given = iter(parameters.split(";"))
    for parameter in given:
        if parameter in ("38", "48", "58"):
            # A colour: its own numbers follow, and a 2 among them is not "faint".
            for _ in range(3 if next(given, "") == "2" else 1):
                next(given, "")
        elif parameter in ("", "0"):
            faint = reverse = False
        elif parameter in ("2", "22"):
            faint = parameter == "2"
        elif parameter in ("7", "27"):
            reverse = parameter == "7"
    return faint, reverse


def _typed(line: list[_Cell], at: int) -> str:
    cell = line[at]
    under_cursor = cell.reverse and at + 1 < len(line) and line[at + 1].faint
    return " " if cell.faint or under_cursor else cell.character
