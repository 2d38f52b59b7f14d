"""The front matter of a brief: `key: value` lines between two lines of `---`.

A small part of YAML and no more: a word or a quoted text, a list in brackets, a list of `- item`
lines, and comments. What YAML would read otherwise than it looks is refused with the line's
number, so that no brief is understood half. Whether a value suits its key is for the contract.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from interlock.errors import Usage
from interlock.verbs.spelling import listed, near, shown

WORDS = ("id", "title", "priority", "assignee")
LISTS = ("gates", "labels", "depends_on")
KEYS = WORDS + LISTS
FENCE = "---"
OTHER_FENCE = "+++"

_ENTRY = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)[ \t]*:(?:[ \t]+(.*))?")
_ITEM = re.compile(r"[ \t]*-(?:[ \t]+(.*))?")
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"|\'((?:[^\']|\'\')*)\'')
_PIECE = re.compile(r'[ \t]*("(?:[^"\\]|\\["\\])*"|\'(?:[^\']|\'\')*\'|[^,\]]*)[ \t]*([,\]]|$)')
_NOTHING = ("", "~", "null", "Null", "NULL")


class FrontMatter(NamedTuple):
    """The values by their keys, and how many lines of the file they took."""

    words: dict[str, str]
    lists: dict[str, tuple[str, ...]]
    lines: int


def refusal(line: int, what: str, **members: object) -> Usage:
    """The refusal of a brief for what stands in one of its lines, counted from 1."""
    return Usage(f"Line {line} of the brief: {what}", line=line, **members)


def read(lines: Sequence[str]) -> FrontMatter:
    """Read what stands before the text. Without a first line of `---` there is none."""
    if lines and lines[0].rstrip() == OTHER_FENCE:
        raise refusal(
            1,
            "Front matter between lines of +++ is TOML, which a brief does not have. Write it "
            "between lines of ---, with a line such as gates: [athena] for each key.",
        )
    if not lines or lines[0].rstrip() != FENCE:
        return FrontMatter({}, {}, 0)
    end = next((at for at, line in enumerate(lines) if at and line.rstrip() == FENCE), None)
    if end is None:
        raise refusal(1, "Front matter begins here and never ends. Close it with a line of ---.")
    words: dict[str, str] = {}
    lists: dict[str, tuple[str, ...]] = {}
    at = 1
    while at < end:
        text = lines[at].strip()
        if text and not text.startswith("#"):
            key, value = _entry(lines[at], at + 1, {*words, *lists})
            if key in LISTS:
                lists[key], at = _list(key, value, lines, at, end)
            else:
                words[key] = _word(key, value, at + 1)
        at += 1
    return FrontMatter(words, lists, end + 1)


def _entry(line: str, number: int, known: set[str]) -> tuple[str, str]:
    entry = _ENTRY.fullmatch(line.rstrip())
    if entry is None:
        raise refusal(number, f"'{shown(line.strip())}' is not of the form key: value.")
    key = entry[1]
    if key not in KEYS:
        raise refusal(
            number,
            f"Front matter has no key '{shown(key)}'. Its keys are {listed(KEYS)}.",
            key=shown(key),
            did_you_mean=near(key, KEYS) or None,
        )
    if key in known:
        raise refusal(number, f"{key} stands here for the second time. Give it once.", key=key)
    return key, (entry[2] or "").strip()


def _word(key: str, value: str, number: int) -> str:
    if value.startswith("["):
        raise refusal(number, f"{key} is one value and no list. Write {key}: value", key=key)
    return _scalar(key, value, number)


def _list(
    key: str, value: str, lines: Sequence[str], at: int, end: int
) -> tuple[tuple[str, ...], int]:
    """The entries, and the last line that they take."""
    if value.startswith("["):
        return _bracketed(key, value, at + 1), at
    if _bare(value):
        raise refusal(at + 1, f"{key} is a list. Write {key}: [first, second]", key=key)
    items: list[str] = []
    last = at
    for below in range(at + 1, end):
        item = _ITEM.fullmatch(lines[below].rstrip())
        if item:
            items.append(_scalar(key, (item[1] or "").strip(), below + 1))
            last = below
        elif _bare(lines[below].strip()):
            break
    if not items:
        raise refusal(at + 1, f"{key} has no entries. Leave the line out, or write {key}: []")
    return tuple(items), last


def _bracketed(key: str, value: str, number: int) -> tuple[str, ...]:
    """The entries of `[a, "b", c]`, all in one line."""
    items: list[str] = []
    at, mark = 1, ","
    while mark == ",":
        piece = _PIECE.match(value, at)
        assert piece is not None  # it matches anywhere
        text, mark, at = piece[1].strip(), piece[2], piece.end()
        if not mark or (_bare(text) != text and not _QUOTED.fullmatch(text)):
            raise refusal(
                number,
                f"The list of {key} is not closed. Write {key}: [first, second] in one line, or "
                "one - item in a line.",
                key=key,
            )
        if text or items or mark == ",":
            items.append(_scalar(key, text, number))
    if _bare(value[at:].strip()):
        raise refusal(number, f"Nothing may follow the ] of {key}.", key=key)
    return tuple(items)


def _scalar(key: str, value: str, number: int) -> str:
    """A word as it stands, or what is between quotes."""
    if quoted := _QUOTED.match(value):
        if _bare(value[quoted.end() :].strip()):
            raise refusal(number, f"Nothing may follow the closing quote of {key}.", key=key)
        if quoted[1] is not None:
            return re.sub(r"\\(.)", r"\1", quoted[1])
        return quoted[2].replace("''", "'")
    plain = _bare(value)
    if plain in _NOTHING:
        raise refusal(number, f"A value of {key} is empty. Write one, or leave it out.", key=key)
    if plain[0] in "[]{}&*!|>%`\"',?:-" or re.search(r":(\s|$)|[\[\]{}]", plain):
        raise refusal(
            number,
            f"'{shown(plain)}' is more YAML than a brief's front matter has. Write a word, or put "
            'the text in quotes: "…", with \\" and \\\\ for those two characters.',
            key=key,
        )
    return plain


def _bare(value: str) -> str:
    """Without the comment at its end."""
    if value.startswith("#"):
        return ""
    found = re.search(r"[ \t]#", value)
    return value[: found.start()].rstrip() if found else value
