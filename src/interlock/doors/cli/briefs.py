"""Briefs: a task in Markdown, with a title, a text, a checklist of criteria, perhaps front matter.

The parser reads only the Markdown that it needs to find the title and the checklist. It refuses
text that would silently lose a criterion, with the line number. Examples are a list without boxes
among the criteria, a box in a quotation, and a code fence that never ends. A Markdown library
accepts all three.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from interlock.doors.cli import front_matter
from interlock.doors.cli.front_matter import refusal
from interlock.errors import Usage
from interlock.verbs.spelling import shown

CRITERIA = "acceptance criteria"
CRITERIA_SYNONYMS = ("acceptance criterion", "acceptance", "criteria", "definition of done")

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t](.*))?")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")
# Neither a list nor a quotation.
_PARAGRAPH = re.compile(r" {0,3}(?![-*+>]|[0-9]{1,9}[.)])\S.*")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)")
_LISTED = re.compile(r"[ \t]*(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t]+(.*))?")
_BOX = re.compile(r"\[[ xX]\](?:[ \t]+(.*))?")
# [x](URL) and [x]: URL are links.
_NEARLY = re.compile(r"[ \t]*(?:[-*+]|[0-9]{1,9}[.)])[ \t]*\[[ \txX]{0,3}\](?![(\[:])")
_QUOTED = re.compile(r"[ \t]*(?:>[ \t]*)+(?:[-*+]|[0-9]{1,9}[.)])[ \t]+\[[ xX]\](?:[ \t]|$)")
_CODE_INDENT = 4  # spaces before a line outside of a list that make it code


class Brief(NamedTuple):
    """A brief, with None or an empty value for each part that it does not have."""

    title: str
    brief: str
    criteria: tuple[str, ...] = ()
    id: str | None = None
    gates: tuple[str, ...] = ()
    priority: str | None = None
    assignee: str | None = None
    labels: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()


class _Line(NamedTuple):
    """A line with its number in the file. A heading also has its level and its text."""

    number: int
    text: str
    kind: Literal["text", "heading", "underline", "code", "comment"]
    level: int = 0
    title: str = ""


def parse(text: str) -> Brief:
    """Read a brief. The title is the front matter's, or the first `# heading`, or the first line
    underlined with `===`. `brief` is the rest of the text, the checklist included, with a plain
    newline after each line.

    Criteria are the checklists in the sections called "Acceptance criteria" or similar. Without
    such a section, they are all checklists. Ticked boxes count too: a tick proves nothing.

    Raises Usage, with `line`, if the text is not a brief.
    """
    texts = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    values, taken = front_matter.read(texts)
    body = _lines(texts, taken)
    heading = next((line for line in body if line.level == 1), None)
    title = values.pop("title", None)
    if title is None:
        if heading is None or not heading.title:
            raise Usage(
                "The brief has no title. Start its text with a line such as: # Fix the login",
                line=heading.number if heading else 1,
            )
        title = heading.title
    if heading is not None and heading.title == title:
        at = body.index(heading)
        is_underlined = [line.kind for line in body[at + 1 : at + 2]] == ["underline"]
        del body[at : at + 1 + is_underlined]
    return Brief(
        title,
        "\n".join(line.text for line in body).strip("\n"),
        tuple(_criteria(body)),
        **values,
    )


def _lines(texts: Sequence[str], start: int) -> list[_Line]:
    """Return the lines from `start` on, in one pass. Refuse a code block or a comment without an
    end: everything after it would be lost."""
    found: list[_Line] = []
    end, since = "", _Line(0, "", "text")  # the end and the first line of an open block
    for number, text in enumerate(texts[start:], start + 1):
        line = _Line(number, text, "text")
        fence = _FENCE.fullmatch(text)
        if end:
            line = line._replace(kind=since.kind)
            mark = text.strip()
            if since.kind == "comment":
                end = "" if end in text else end
            elif mark.startswith(end) and not mark.strip(end[0]):
                end = ""
        elif text.lstrip(" \t").startswith("<!--"):
            since = line = line._replace(kind="comment")
            end = "" if "-->" in text else "-->"
        elif fence and not (fence[1][0] == "`" and "`" in fence[2]):
            since = line = line._replace(kind="code")
            end = fence[1]
        elif heading := _HEADING.fullmatch(text):
            title = (heading[2] or "").strip()
            bare = title.rstrip("#")
            title = title if bare and bare[-1] not in " \t" else bare.rstrip()
            line = line._replace(kind="heading", level=len(heading[1]), title=title)
        elif (rule := _UNDERLINE.fullmatch(text)) and _can_be_underlined(found):
            title, level = found[-1].text.strip(), "=-".index(rule[1][0]) + 1
            found[-1] = found[-1]._replace(kind="heading", level=level, title=title)
            line = line._replace(kind="underline")
        found.append(line)
    if end:
        raise refusal(
            since.number,
            f"The {since.kind} block that starts here has no end. Close it with {end[:80]}",
        )
    return found


def _can_be_underlined(before: list[_Line]) -> bool:
    """Return whether the last line is a paragraph of one line. A longer one is not a heading."""
    if not before or before[-1].kind != "text" or not _PARAGRAPH.fullmatch(before[-1].text):
        return False
    return len(before) == 1 or before[-2].kind == "heading" or not before[-2].text.strip()


def _criteria(body: list[_Line]) -> list[str]:
    criteria: list[str] = []
    start: int | None = None  # the heading of a section of criteria
    has_section = False
    for at, line in enumerate((*body, _Line(0, "", "heading", 1))):
        if not line.level:
            continue
        if start is not None and line.level <= body[start].level:
            found = _checklist(body[start + 1 : at], only_boxes=True)
            if not found:
                raise refusal(
                    body[start].number,
                    f"The section '{shown(body[start].text.strip())}' has no checklist. Write each "
                    "criterion as a line such as: - [ ] The tests pass",
                )
            criteria += found
            start = None
        words = line.title.casefold().strip(" \t*_:.0123456789")
        if start is None and (CRITERIA in words or words in CRITERIA_SYNONYMS):
            start, has_section = at, True
    return criteria if has_section else _checklist(body, only_boxes=False)


class _Item:
    """One item of a checklist, while the parser collects its lines."""

    def __init__(self, line: _Line, indent: int, text: str) -> None:
        self.number = line.number
        self.indent = indent
        self.parts = [text]
        self.is_apart = False  # whether the next line starts on a line of its own

    def add(self, text: str, *, apart: bool) -> None:
        self.parts += ("\n" if apart or self.is_apart else " ", text)
        self.is_apart = False

    def text(self) -> str:
        text = "".join(self.parts).strip()
        if not text:
            raise refusal(
                self.number,
                "This checkbox has no text. Write the criterion after it: - [ ] The tests pass",
            )
        return text


def _checklist(lines: Iterable[_Line], *, only_boxes: bool) -> list[str]:
    """Return the text of every `- [ ] item`, ticked or not, in a bulleted or a numbered list. The
    lines that are wrapped or indented under an item belong to it. With `only_boxes`, refuse a list
    item without a box: it would be a criterion that is never checked."""
    items: list[str] = []
    item: _Item | None = None
    in_list = is_after_blank = False
    for line in lines:
        text, stripped = line.text, line.text.strip()
        margin = text[: len(text) - len(text.lstrip(" \t"))]
        indent = len(margin.expandtabs(4))
        if line.kind in ("comment", "underline"):
            continue
        if line.kind == "text" and not stripped:
            is_after_blank = True
            if item:
                item.is_apart = True
            continue
        is_wrapped, is_after_blank = not is_after_blank, False

        if line.kind == "code" and item and text[:1] in (" ", "\t", ""):
            # Code under an item belongs to it, line by line.
            item.add(text[min(len(margin), item.indent + 2) :], apart=True)
            item.is_apart = True
            continue
        is_text = line.kind == "text" and not _is_rule(stripped)
        if is_text and indent >= _CODE_INDENT and not in_list:
            continue
        listed = box = None
        if is_text:
            listed = _LISTED.fullmatch(text)
            box = _BOX.fullmatch(listed[1] or "") if listed else None
            if not box and _QUOTED.match(text):
                raise refusal(
                    line.number,
                    f"'{shown(stripped)}' is a checkbox in a quotation, which contains no "
                    "criteria. If it is a criterion, remove the >. Otherwise remove the box.",
                )
            if not box and _NEARLY.match(text):
                raise refusal(
                    line.number,
                    f"'{shown(stripped)}' is not a valid checkbox. Write: - [ ] text",
                )
            if listed and not box and item and indent > item.indent:
                in_list = True
                item.add(stripped, apart=True)
                continue
            if listed and not box and only_boxes:
                raise refusal(
                    line.number,
                    f"'{shown(stripped)}' is among the criteria and has no checkbox. If it is a "
                    "criterion, write - [ ] before its text. Otherwise move it under another "
                    "heading.",
                )
            if not listed and item and (indent or (is_wrapped and stripped[0] != ">")):
                item.add(stripped, apart=False)
                continue
        # The line ends the current item.
        if item:
            items.append(item.text())
        in_list = listed is not None
        item = _Item(line, indent, box[1] or "") if box else None
    if item:
        items.append(item.text())
    return items


def _is_rule(stripped: str) -> bool:
    """Return whether a line is a horizontal rule: three or more of one mark, and spaces."""
    marks = "".join(stripped.split())
    return len(marks) >= 3 and marks[0] in "-*_" and not marks.strip(marks[0])
