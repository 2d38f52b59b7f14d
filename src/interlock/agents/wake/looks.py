"""How each client looks: whether it rests at an empty prompt, and what stands in the prompt.

A screen is recognised or it is not, and what is not recognised is left alone. Clients change their
faces with their releases, so all that is known of a face stands in one table, `LOOKS`.
"""
# ruff: noqa: RUF001 - the signs are the clients'

import re
from itertools import pairwise
from typing import NamedTuple

from interlock.agents.wake.screens import Screen

# How many lines above the prompt still speak of now, and not of what was said before.
NEAR = 15

_RULE = re.compile(r"\s*[─━▀▄╭╮╰╯┌┐└┘]{3}")
_BLANK = re.compile(r"\s*$")


class Look(NamedTuple):
    """A client's face. `programs` are what its process is called; the prompt begins on a line that
    starts with `marker`, right below a line like `above`, and goes on up to one like `below`;
    below that stand at most `blocks` blocks of lines. `hints` are what a client shows in an empty
    prompt in the colours of text. Near the prompt, `busy` says that the agent is at work, `asking`
    that the client wants a person's decision."""

    programs: re.Pattern[str]
    marker: re.Pattern[str]
    above: re.Pattern[str]
    below: re.Pattern[str]
    blocks: int
    hints: tuple[str, ...]
    busy: re.Pattern[str]
    asking: re.Pattern[str]


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_MENU = r"^[\s│]*[❯›>●▸→]\s*\d+[.)]\s"

LOOKS = {
    "claude-code": Look(
        # On macOS the process goes by the version, which is the name of its file.
        programs=re.compile(r"claude|\d+(?:\.\d+)+"),
        marker=re.compile(r"\s*(?:│\s)?[❯>](?=\s|$)"),
        above=_RULE,
        below=_RULE,
        blocks=9,
        hints=(),
        busy=_any(r"esc to interrupt", r"^\s*[·✢✳✶✻✼✽*]\s\S.*…\s*\("),
        asking=_any(
            _MENU,
            r"do you want to (?:proceed|make this edit|create|allow)",
            r"enter to (?:select|confirm)",
            r"esc to cancel",
            r"trust this folder",
        ),
    ),
    "codex": Look(
        programs=re.compile(r"codex"),
        marker=re.compile(r"›(?=\s|$)"),
        above=_BLANK,
        below=_BLANK,
        # Only the footer: blank lines that were typed must not hide what was typed below them.
        blocks=1,
        hints=("Ask Codex to do anything",),
        busy=_any(r"esc to interrupt", r"^\s*[•◦]?\s*(?:working|starting mcp) ?\S* ?\("),
        asking=_any(
            _MENU,
            r"would you like to (?:run|make|grant|apply)",
            r"press enter to (?:confirm|continue)",
            r"to answer$",
        ),
    ),
    "gemini": Look(
        programs=re.compile(r"gemini"),
        marker=re.compile(r"\s*(?:│\s)?[>*](?=\s|$)"),
        above=_RULE,
        below=_RULE,
        blocks=3,
        hints=("Type your message or @path/to/file",),
        busy=_any(r"esc to (?:cancel|interrupt)"),
        asking=_any(
            _MENU,
            r"waiting for user confirmation",
            r"action required",
            r"allow (?:once|execution|for this session)",
            r"apply this change\?",
        ),
    ),
    "cursor": Look(
        programs=re.compile(r"cursor-agent|agent"),
        marker=re.compile(r"\s*(?:│\s)?→(?=\s|$)"),
        above=_RULE,
        below=_RULE,
        blocks=3,
        hints=("Plan, search, build anything", "Add a follow-up"),
        busy=_any(r"ctrl\+c to stop", r"^\s*[⠀-⣿⬡⬢]+\s*\S+ing\b"),
        asking=_any(
            _MENU,
            r"run this command\?",
            r"not in allowlist",
            r"^\s*→?\s*(?:run|reject|skip|accept|allow|keep)\b.*\((?:y|n|enter|esc|tab)\b",
            r"trust this workspace",
        ),
    ),
}


def prompt(seen: Screen, look: Look) -> str | None:
    """What stands in the prompt, without its blanks and frame; None where there is no prompt as
    the client draws it."""
    place = _place(seen, look)
    if place is None:
        return None
    start, end, column = place
    inside = squeezed(seen.solid[start][column:] + "".join(seen.solid[start + 1 : end]))
    return "" if inside in map(squeezed, look.hints) else inside


def squeezed(text: str) -> str:
    """A text as it is compared: clients break lines and draw frames as they like."""
    return re.sub(r"[\s│]", "", text)


def why_not(seen: Screen, look: Look) -> str | None:
    """Why nobody should be woken there, in the words of a sentence; None at an empty prompt."""
    place = _place(seen, look)
    near = seen.lines if place is None else seen.lines[max(0, place[0] - NEAR) :]
    if any(look.asking.search(line) for line in near):
        return "it is waiting for a person's decision"
    if any(look.busy.search(line) for line in near):
        return "it is at work"
    inside = prompt(seen, look)
    if inside is None:
        return "its prompt is not to be seen"
    return "something is typed at its prompt" if inside else None


def _place(seen: Screen, look: Look) -> tuple[int, int, int] | None:
    """The first line of the prompt, the line below it, and the column behind the marker."""
    lines = seen.lines
    found = ((at, look.marker.match(lines[at])) for at in range(len(lines) - 1, 0, -1))
    for at, marker in found:
        if marker is None:
            continue
        end = next((at for at in range(at + 1, len(lines)) if look.below.match(lines[at])), None)
        if not look.above.match(lines[at - 1]) or end is None:
            return None
        return (at, end, marker.end()) if _blocks(lines[end + 1 :]) <= look.blocks else None
    return None


def _blocks(lines: tuple[str, ...]) -> int:
    """How many runs of lines that are not blank there are."""
    blank = [True, *(not line.strip() for line in lines)]
    return sum(before and not now for before, now in pairwise(blank))
