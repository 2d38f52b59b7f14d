"""The checklists of a brief: every `- [ ] text`, with all the lines that belong to it.

A box may be ticked or not, and stand in a bulleted or a numbered list. Lines that are wrapped or
indented under it belong to it, as Markdown shows them.
"""

import re
from collections.abc import Iterable

from interlock.doors.cli.front_matter import refusal
from interlock.doors.cli.markdown import Line, heading
from interlock.verbs.spelling import shown

_LISTED = re.compile(r"[ \t]*(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t]+(.*))?")
_BOX = re.compile(r"\[[ xX]\](?:[ \t]+(.*))?")
# [x](place) and [x]: place are links.
_NEARLY = re.compile(r"[ \t]*(?:[-*+]|[0-9]{1,9}[.)])[ \t]*\[[ \txX]{0,3}\](?![(\[:])")
_QUOTED = re.compile(r"[ \t]*(?:>[ \t]*)+(?:[-*+]|[0-9]{1,9}[.)])[ \t]+\[[ xX]\](?:[ \t]|$)")
_CODE_FROM = 4  # spaces before a line outside of a list that make it code


def items(lines: Iterable[Line], *, only_boxes: bool) -> list[str]:
    """The text of every item with a box. With `only_boxes`, a list item beside them that has none
    is refused: it would be a criterion that nobody checks."""
    reader = _Reader(only_boxes)
    for line in lines:
        reader.take(line)
    reader.close()
    return reader.items


class _Item:
    """One item while its lines come in."""

    def __init__(self, line: Line, indent: int, text: str) -> None:
        self.number = line.number
        self.indent = indent
        self.parts = [text]
        self.apart = False  # whether the next line begins anew

    def add(self, text: str, *, apart: bool) -> None:
        self.parts += ("\n" if apart or self.apart else " ", text)
        self.apart = False

    def text(self) -> str:
        text = "".join(self.parts).strip()
        if not text:
            raise refusal(
                self.number, "This box has no text. Write what must be met: - [ ] The tests pass"
            )
        return text


class _Reader:
    def __init__(self, only_boxes: bool) -> None:
        self.items: list[str] = []
        self._only_boxes = only_boxes
        self._item: _Item | None = None
        self._in_list = False
        self._after_blank = True

    def take(self, line: Line) -> None:
        stripped = line.text.strip()
        if line.kind in ("comment", "underline"):
            return
        if line.kind == "code":
            self._take_code(line.text)
        elif not stripped:
            self._after_blank = True
            if self._item:
                self._item.apart = True
            return
        elif heading(line)[0] or _is_rule(stripped):
            self._leave()
        else:
            self._take_text(line, stripped)
        self._after_blank = False

    def close(self) -> None:
        if self._item:
            self.items.append(self._item.text())
        self._item = None

    def _leave(self) -> None:
        self.close()
        self._in_list = False

    def _take_code(self, text: str) -> None:
        """Code under an item belongs to it, line by line."""
        if self._item is None or text[:1] not in (" ", "\t", ""):
            self._leave()
            return
        margin = len(text) - len(text.lstrip(" \t"))
        self._item.add(text[min(margin, self._item.indent + 2) :], apart=True)
        self._item.apart = True

    def _take_text(self, line: Line, stripped: str) -> None:
        indent = _indent(line.text)
        if indent >= _CODE_FROM and not self._in_list:
            return
        if listed := _LISTED.fullmatch(line.text):
            self._in_list = True
        if box := _BOX.fullmatch(listed[1] or "") if listed else None:
            self.close()
            self._item = _Item(line, indent, box[1] or "")
        elif _QUOTED.match(line.text):
            raise refusal(
                line.number,
                f"'{shown(stripped)}' is a box in a quotation, which asks for nothing. Take the > "
                "away if it is a criterion, and the box if not.",
            )
        elif _NEARLY.match(line.text):
            raise refusal(
                line.number,
                f"'{shown(stripped)}' is nearly a box. Write it with these spaces: - [ ] text",
            )
        elif listed:
            self._take_plain_item(line, indent, stripped)
        elif self._item and (indent or (not self._after_blank and stripped[0] != ">")):
            self._item.add(stripped, apart=False)
        else:
            self._leave()

    def _take_plain_item(self, line: Line, indent: int, stripped: str) -> None:
        if self._item and indent > self._item.indent:
            self._item.add(stripped, apart=True)
        elif self._only_boxes:
            raise refusal(
                line.number,
                f"'{shown(stripped)}' stands among the criteria without a box. Write - [ ] before "
                "it if it is one, and move it under another heading if not.",
            )
        else:
            self.close()


def _indent(text: str) -> int:
    """How far to the right the line begins, a tab being as wide as Markdown has it."""
    return len(text[: len(text) - len(text.lstrip(" \t"))].expandtabs(4))


def _is_rule(stripped: str) -> bool:
    """A line across the page: three or more of one mark, and spaces."""
    marks = "".join(stripped.split())
    return len(marks) >= 3 and marks[0] in "-*_" and not marks.strip(marks[0])
