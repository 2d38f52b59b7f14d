"""Briefs: a task written down in Markdown, with a title, a text, a checklist of what it must meet
and perhaps front matter.

Only as much Markdown is read as finds the title and the checklist. What would lose a criterion in
silence (a list without boxes where the criteria stand, a box in a quotation, a code fence that
never ends) is refused with the line's number.
"""

from collections.abc import Iterator
from typing import NamedTuple

from interlock.doors.cli import front_matter
from interlock.doors.cli.checklists import items
from interlock.doors.cli.markdown import Line, heading, lines
from interlock.errors import Usage
from interlock.verbs.spelling import shown

CRITERIA = "acceptance criteria"
CRITERIA_SYNONYMS = ("acceptance criterion", "acceptance", "criteria", "definition of done")


class Brief(NamedTuple):
    """What a brief says of its task. What it does not say is None or empty."""

    title: str
    brief: str
    criteria: tuple[str, ...] = ()
    id: str | None = None
    gates: tuple[str, ...] = ()
    priority: str | None = None
    assignee: str | None = None
    labels: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()


def parse(text: str) -> Brief:
    """Read a brief. The title is the front matter's, or the first `# heading`, or the first line
    underlined with `===`; `brief` is the rest of the text as it stands, the checklist included,
    with a plain newline after each line.

    Criteria are the checklists in the sections called "Acceptance criteria" or the like, or all
    checklists where there is no such section, ticked or not: a tick proves nothing. Values are
    taken as they are; the contract of a task says whether they fit.

    Raises Usage, with `line`, where the form is none of a brief.
    """
    texts = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    front = front_matter.read(texts)
    body = lines(texts, front.lines)
    title, said_so = _title(body, front.words.get("title"))
    rest = _without(body, said_so)
    return Brief(
        title,
        "\n".join(line.text for line in rest).strip("\n"),
        tuple(_criteria(rest)),
        front.words.get("id"),
        front.lists.get("gates", ()),
        front.words.get("priority"),
        front.words.get("assignee"),
        front.lists.get("labels", ()),
        front.lists.get("depends_on", ()),
    )


def _title(body: list[Line], named: str | None) -> tuple[str, Line | None]:
    """The title, and the line that the text can do without because it says the same."""
    first = ((line, text) for line in body for level, text in [heading(line)] if level == 1)
    line, text = next(first, (None, ""))
    if named is not None:
        return named, line if text == named else None
    if not text:
        raise Usage(
            "The brief has no title. Begin its text with a line such as: # Fix the login",
            line=line.number if line else 1,
        )
    return text, line


def _without(body: list[Line], title: Line | None) -> list[Line]:
    """The lines but the title, and what underlines it."""
    if title is None:
        return body
    at = body.index(title)
    after = at + 1 + (body[at + 1 : at + 2] != [] and body[at + 1].kind == "underline")
    return body[:at] + body[after:]


def _criteria(body: list[Line]) -> list[str]:
    sections = list(_sections(body))
    if not sections:
        return items(body, only_boxes=False)
    criteria: list[str] = []
    for head, under in sections:
        found = items(under, only_boxes=True)
        if not found:
            raise front_matter.refusal(
                head.number,
                f"The section '{shown(head.text.strip())}' has no checklist. Write each criterion "
                "as a line such as: - [ ] The tests pass",
            )
        criteria += found
    return criteria


def _sections(body: list[Line]) -> Iterator[tuple[Line, list[Line]]]:
    """The sections of acceptance criteria, each under its heading and with all below it."""
    start, depth = None, 0
    for at, line in enumerate(body):
        level, text = heading(line)
        if level and start is not None and level <= depth:
            yield body[start], body[start + 1 : at]
            start = None
        if level and start is None and _is_about_criteria(text):
            start, depth = at, level
    if start is not None:
        yield body[start], body[start + 1 :]


def _is_about_criteria(text: str) -> bool:
    words = text.casefold().strip(" \t*_:.0123456789")
    return CRITERIA in words or words in CRITERIA_SYNONYMS
