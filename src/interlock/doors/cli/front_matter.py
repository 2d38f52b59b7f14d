"""The front matter of a brief: `key: value` lines between two lines of `---`.

The parser accepts a small part of YAML: a word or a quoted text, a list in brackets, a list of
`- item` lines, comments. It refuses everything else with the line number, so that it never reads a
value differently from how the value looks. A YAML library is not suitable: it reads `id: 007` as a
number, joins lines, uses the last of two equal keys, and refuses `assignee: @otto`.
"""

import re
from collections.abc import Sequence
from typing import Any

from interlock.errors import Usage
from interlock.verbs.spelling import listed, near, shown

WORDS = ("id", "title", "priority", "assignee")
LISTS = ("gates", "labels", "depends_on")
KEYS = WORDS + LISTS

_ENTRY = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)[ \t]*:(?:[ \t]+(.*))?")
_ITEM = re.compile(r"[ \t]*-(?:[ \t]+(.*))?")
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"|\'((?:[^\']|\'\')*)\'')
_PIECE = re.compile(r'[ \t]*("(?:[^"\\]|\\["\\])*"|\'(?:[^\']|\'\')*\'|[^,\]]*)[ \t]*([,\]]|$)')


def refusal(line: int, what: str, **members: object) -> Usage:
    """Return the refusal of a brief that has an error in this line, counted from 1."""
    return Usage(f"Line {line} of the brief: {what}", line=line, **members)


def read(lines: Sequence[str]) -> tuple[dict[str, Any], int]:
    """Return the values by key (a text, or a tuple for a list), and the number of their lines.

    The verb checks the values, not this function. Raises Usage, with `line`.
    """
    if lines and lines[0].rstrip() == "+++":
        raise refusal(
            1,
            "Front matter between lines of +++ is TOML, which briefs do not support. Write it "
            "between lines of ---, with one line for each key, such as gates: [athena]",
        )
    if not lines or lines[0].rstrip() != "---":
        return {}, 0
    end = next((at for at, line in enumerate(lines) if at and line.rstrip() == "---"), None)
    if end is None:
        raise refusal(1, "Front matter starts here and has no end. Close it with a line of ---.")
    values: dict[str, Any] = {}
    key, number = "", 0
    items: list[str] | None = None  # the list whose `- item` lines may follow
    for at, line in enumerate(lines[1:end], 2):
        if not _without_comment(line.strip()):
            continue
        if items is not None and (item := _ITEM.fullmatch(line.rstrip())):
            items.append(_scalar(key, (item[1] or "").strip(), at))
            continue
        if items == []:
            break
        entry = _ENTRY.fullmatch(line.rstrip())
        if entry is None:
            raise refusal(at, f"'{shown(line.strip())}' does not have the form key: value.")
        key, value, number, items = entry[1], (entry[2] or "").strip(), at, None
        if key not in KEYS:
            raise refusal(
                at,
                f"Front matter has no key '{shown(key)}'. Its keys are {listed(KEYS)}.",
                key=shown(key),
                did_you_mean=near(key, KEYS) or None,
            )
        if key in values:
            raise refusal(at, f"{key} is given a second time. Give it once.", key=key)
        if key in WORDS:
            if value.startswith("["):
                raise refusal(at, f"{key} is one value, not a list. Write {key}: value", key=key)
            values[key] = _scalar(key, value, at)
        elif value.startswith("["):
            values[key] = _bracketed(key, value, at)
        elif _without_comment(value):
            raise refusal(at, f"{key} is a list. Write {key}: [first, second]", key=key)
        else:
            values[key] = items = []
    if items == []:
        raise refusal(number, f"{key} has no entries. Leave the line out, or write {key}: []")
    return {key: v if isinstance(v, str) else tuple(v) for key, v in values.items()}, end + 1


def _bracketed(key: str, value: str, number: int) -> list[str]:
    """Return the entries of `[a, "b", c]`, all on one line."""
    items: list[str] = []
    at, mark = 1, ","
    while mark == ",":
        piece = _PIECE.match(value, at)
        assert piece is not None  # it matches anywhere
        text, mark, at = piece[1].strip(), piece[2], piece.end()
        if not mark or (_without_comment(text) != text and not _QUOTED.fullmatch(text)):
            raise refusal(
                number,
                f"The list of {key} is not closed. Write {key}: [first, second] on one line, or "
                "each item on its own line as - item",
                key=key,
            )
        if text or items or mark == ",":
            items.append(_scalar(key, text, number))
    if _without_comment(value[at:].strip()):
        raise refusal(number, f"Nothing may follow the ] of {key}.", key=key)
    return items


def _scalar(key: str, value: str, number: int) -> str:
    """Return a word unchanged, or the text between quotes."""
    if quoted := _QUOTED.match(value):
        if _without_comment(value[quoted.end() :].strip()):
            raise refusal(number, f"Nothing may follow the closing quote of {key}.", key=key)
        if quoted[1] is not None:
            return re.sub(r"\\(.)", r"\1", quoted[1])
        return quoted[2].replace("''", "'")
    plain = _without_comment(value)
    if plain in ("", "~", "null", "Null", "NULL"):
        raise refusal(number, f"A value of {key} is empty. Write one, or remove it.", key=key)
    if plain[0] in "[]{}&*!|>%`\"',?:-" or re.search(r":(\s|$)|[\[\]{}]", plain):
        raise refusal(
            number,
            f"'{shown(plain)}' is YAML that a brief does not support. Write a word, or put the "
            'text in quotes: "…", with \\" and \\\\ for those two characters.',
            key=key,
        )
    return plain


def _without_comment(value: str) -> str:
    if value.startswith("#"):
        return ""
    found = re.search(r"[ \t]#", value)
    return value[: found.start()].rstrip() if found else value
