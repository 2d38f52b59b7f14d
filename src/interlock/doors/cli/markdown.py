"""As much of Markdown as a brief needs: its lines, with code and comments told apart, and its
headings. One pass, and no line is looked at twice."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from interlock.doors.cli.front_matter import refusal

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t](.*))?")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")
# Neither a list nor a quotation.
_PARAGRAPH = re.compile(r" {0,3}(?![-*+>]|[0-9]{1,9}[.)])\S.*")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)")
_COMMENT_ENDS = "-->"


class Line(NamedTuple):
    """A line, with its number in the file. Code is shown as it stands, a comment not at all. A line
    that is underlined is a heading of that `level`, and the underline a line of its own."""

    number: int
    text: str
    kind: Literal["text", "code", "comment", "underline"]
    level: int = 0


def lines(texts: Sequence[str], start: int) -> list[Line]:
    """The lines from `start` on. A fence or comment that never ends is refused, because all that
    follows it would be lost."""
    found: list[Line] = []
    for line in _lines(texts, start):
        if (mark := _underlines(line, found)) and found:
            found[-1] = found[-1]._replace(level="=-".index(mark) + 1)
            line = line._replace(kind="underline")
        found.append(line)
    return found


def _underlines(line: Line, before: list[Line]) -> str:
    """The mark of an underline below a line that stands alone: what is wrapped is no heading."""
    rule = _UNDERLINE.fullmatch(line.text) if line.kind == "text" else None
    if rule is None or not before or before[-1].kind != "text":
        return ""
    stands_alone = len(before) == 1 or not before[-2].text.strip() or heading(before[-2])[0]
    is_text = _PARAGRAPH.fullmatch(before[-1].text) and not heading(before[-1])[0]
    return rule[1][0] if stands_alone and is_text else ""


def _lines(texts: Sequence[str], start: int) -> Iterator[Line]:
    end, since = "", 0
    for number, text in enumerate(texts[start:], start + 1):
        ends = _ends(text, end)
        if not end:
            end, since = _opens(text), number
            ends = end == _COMMENT_ENDS and end in text
        yield Line(number, text, _kind(end))
        if ends:
            end = ""
    if end:
        raise refusal(
            since, f"The {_kind(end)} that begins here never ends. Close it with {end[:80]}"
        )


def heading(line: Line) -> tuple[int, str]:
    """The level and the text of a heading; level 0 where the line is none."""
    if line.level:
        return line.level, line.text.strip()
    found = _HEADING.fullmatch(line.text) if line.kind == "text" else None
    if found is None:
        return 0, ""
    text = (found[2] or "").strip()
    bare = text.rstrip("#")
    return len(found[1]), text if bare and bare[-1] not in " \t" else bare.rstrip()


def _opens(text: str) -> str:
    """What will end the fence or comment that begins in this line, if one does."""
    if text.lstrip(" \t").startswith("<!--"):
        return _COMMENT_ENDS
    fence = _FENCE.fullmatch(text)
    return fence[1] if fence and not (fence[1][0] == "`" and "`" in fence[2]) else ""


def _kind(end: str) -> Literal["text", "code", "comment"]:
    if not end:
        return "text"
    return "comment" if end == _COMMENT_ENDS else "code"


def _ends(text: str, end: str) -> bool:
    if not end:
        return False
    if end == _COMMENT_ENDS:
        return end in text
    mark = text.strip()
    return mark.startswith(end) and not mark.strip(end[0])
