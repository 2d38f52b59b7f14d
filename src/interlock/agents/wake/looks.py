"""Recognise on a captured screen whether a client is idle at an empty prompt.

If a screen is not recognised, the adapter does not type into it. Each client's folder has the look
of its screen.
"""
# ruff: noqa: RUF001 - the signs are the clients'

import re
from itertools import pairwise
from typing import NamedTuple

# The number of lines above the prompt that show the client's current state. Lines further up are
# older output.
NEAR = 15

RULE = re.compile(r"\s*[─━▀▄╭╮╰╯┌┐└┘]{3}")
BLANK = re.compile(r"\s*$")
MENU = r"^[\s│]*[❯›>●▸→]\s*\d+[.)]\s"

_SGR = re.compile(r"\x1b\[([0-9;:]*)m")
_OTHER = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[()].|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)|[\x0e\x0f]")


class Look(NamedTuple):
    """The look of a client's screen.

    `programs` matches the name of its process. The prompt starts on a line that matches `marker`,
    directly below a line that matches `above`. It ends before a line that matches `below`. At most
    `blocks` blocks of lines follow. `hints` are texts that the client shows in an empty prompt in
    normal colours. A line near the prompt that matches `busy` shows that the agent works. A line
    that matches `asking` shows that the client waits for a person's decision."""

    programs: re.Pattern[str]
    marker: re.Pattern[str]
    above: re.Pattern[str]
    below: re.Pattern[str]
    blocks: int
    hints: tuple[str, ...]
    busy: re.Pattern[str]
    asking: re.Pattern[str]


class Screen(NamedTuple):
    """The visible lines, and the same lines in `solid` with blanks for text that no person typed.
    Such text is faint, or the block of a cursor on faint text."""

    lines: tuple[str, ...]
    solid: tuple[str, ...]


def any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


def prompt(seen: Screen, look: Look) -> str | None:
    """Return the text in the prompt, without blanks and frame; None if the screen has no prompt
    that looks like the client's."""
    place = _place(seen, look)
    if place is None:
        return None
    start, end, column = place
    inside = squeezed(seen.solid[start][column:] + "".join(seen.solid[start + 1 : end]))
    return "" if inside in map(squeezed, look.hints) else inside


def squeezed(text: str) -> str:
    """Return a text without the blanks, line breaks and frames that clients add."""
    return re.sub(r"[\s│]", "", text)


def why_not(seen: Screen, look: Look) -> str | None:
    """Return why the client must not be woken, as a part of a sentence; None at an empty prompt."""
    place = _place(seen, look)
    near = seen.lines if place is None else seen.lines[max(0, place[0] - NEAR) :]
    if any(look.asking.search(line) for line in near):
        return "the client is waiting for a person's decision"
    if any(look.busy.search(line) for line in near):
        return "the agent is working"
    inside = prompt(seen, look)
    if inside is None:
        return "its screen shows no prompt"
    return "its prompt is not empty" if inside else None


def _place(seen: Screen, look: Look) -> tuple[int, int, int] | None:
    """Return the first line of the prompt, the line below it, and the column after the marker."""
    lines = seen.lines
    for at in range(len(lines) - 1, 0, -1):
        marker = look.marker.match(lines[at])
        if marker is None:
            continue
        below = (number for number in range(at + 1, len(lines)) if look.below.match(lines[number]))
        end = next(below, None)
        if end is None or not look.above.match(lines[at - 1]):
            return None
        blank = [True, *(not line.strip() for line in lines[end + 1 :])]
        blocks = sum(before and not now for before, now in pairwise(blank))
        return (at, end, marker.end()) if blocks <= look.blocks else None
    return None


def screen(captured: str) -> Screen:
    """Parse the output of `tmux capture-pane -e`. Attributes carry over from line to line."""
    rows: list[list[tuple[str, bool, bool]]] = [[]]  # characters, each with faint and reverse
    faint = reverse = False
    at = 0
    while at < len(captured):
        if style := _SGR.match(captured, at):
            faint, reverse = _styled(style[1], faint, reverse)
            at = style.end()
        elif other := _OTHER.match(captured, at):
            at = other.end()
        else:
            if captured[at] == "\n":
                rows.append([])
            else:
                rows[-1].append((captured[at], faint, reverse))
            at += 1
    lines, solid = [], []
    for row in rows:
        lines.append("".join(character for character, _, _ in row))
        next_faint = [*(is_faint for _, is_faint, _ in row[1:]), False]
        solid.append(
            "".join(
                " " if is_faint or (is_reverse and is_before_faint) else character
                for (character, is_faint, is_reverse), is_before_faint in zip(
                    row, next_faint, strict=False
                )
            )
        )
    return Screen(tuple(lines), tuple(solid))


def _styled(parameters: str, faint: bool, reverse: bool) -> tuple[bool, bool]:
    given = iter(parameters.split(";"))
    for parameter in given:
        if parameter in ("38", "48", "58"):
            # The numbers of a colour follow, and a 2 among them does not mean "faint".
            for _ in range(3 if next(given, "") == "2" else 1):
                next(given, "")
        elif parameter in ("", "0"):
            faint = reverse = False
        elif parameter in ("2", "22"):
            faint = parameter == "2"
        elif parameter in ("7", "27"):
            reverse = parameter == "7"
    return faint, reverse
