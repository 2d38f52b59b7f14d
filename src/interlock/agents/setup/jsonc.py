"""Edit JSON with comments and trailing commas in place.

An edit changes one member or element and the comma that it needs, and no other byte. New text has
the indentation of its neighbours, or is on their line. Python's own decoder reads the text. Before
that, blanks replace comments and trailing commas, so that positions do not change.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

Path = Sequence[str | int]

_STRING = r'"(?:[^"\\]|\\.)*"'
_STRING_OR_COMMENT = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_STRING_OR_TRAILING_COMMA = re.compile(rf"{_STRING}|,(?=[ \t\r\n]*[}}\]])", re.DOTALL)
_NOT_BLANK = re.compile(r"[^ \t\r\n]|\Z")
_REST_OF_LINE = re.compile(r"(?:[ \t]|/\*[^\r\n]*?\*/)*(?://[^\r\n]*)?")
_LINE_END = re.compile(r"[ \t]*(?:\r?\n)")
_decode = json.JSONDecoder().raw_decode


class NotJson(ValueError):
    """The text is not JSON, or has an unexpected shape. The message is a clause with the cause."""


class Part(NamedTuple):
    """The positions of a member or an element, of its value, and of the comma after it."""

    start: int
    key: str | int
    at: int
    end: int
    comma: int | None


class _Text:
    """A text, `bare` without comments, and `plain` also without trailing commas."""

    def __init__(self, text: str) -> None:
        def without_comment(match: re.Match[str]) -> str:
            return match[0] if match[0][0] == '"' else " " * len(match[0])

        def without_comma(match: re.Match[str]) -> str:
            if match[0] != ",":
                return match[0]
            follows_value = self.bare[: match.start()].rstrip()[-1:] not in ("", "{", "[", ",")
            return " " if follows_value else ","

        self.text = text
        self.bare = _STRING_OR_COMMENT.sub(without_comment, text)
        self.plain = _STRING_OR_TRAILING_COMMA.sub(without_comma, self.bare)
        try:
            self.value = json.loads(self.plain)
        except RecursionError:
            raise NotJson("it is nested too deeply") from None
        except json.JSONDecodeError as wrong:
            at = wrong.pos
            if at >= len(self.plain.rstrip()):
                raise NotJson("it ends too early") from None
            line = text.count("\n", 0, at) + 1
            raise NotJson(f"line {line} is not valid JSON at {text[at : at + 20]!r}") from None
        self.root = self.next(0)
        first = text.find("\n")
        self.newline = "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"
        member = self.next(self.root + 1)
        has_members = self.bare[self.root] == "{" and self.bare[member] == '"'
        self.unit = (self.indent(member) if has_members else "") or "  "

    def next(self, at: int) -> int:
        """Return the position of the next character that is neither blank nor in a comment."""
        found = _NOT_BLANK.search(self.bare, at)
        assert found is not None
        return found.start()

    def indent(self, at: int) -> str:
        """Return the blanks at the start of the line."""
        line = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def rendered(self, value: Any, indent: str) -> str:
        lines = json.dumps(value, indent=self.unit, ensure_ascii=False).split("\n")
        return f"{self.newline}{indent}".join(lines)

    def parts(self, at: int) -> list[Part]:
        """Return the parts of the object or list at a position."""
        is_object, parts, at = self.bare[at] == "{", list[Part](), self.next(at + 1)
        while self.bare[at] not in "}]":
            start = at
            key: str | int = len(parts)
            if is_object:
                key, at = _decode(self.plain, at)
                at = self.next(self.next(at) + 1)
            end = _decode(self.plain, at)[1]
            after = self.next(end)
            comma = after if self.bare[after] == "," else None
            parts.append(Part(start, key, at, end, comma))
            at = after if comma is None else self.next(after + 1)
        return parts

    def find(self, path: Path) -> tuple[int, int]:
        """Return the position of the innermost existing value on the path, and the number of keys
        that lead to it. Of members with the same name, clients use the last one, and so does this
        method."""
        at = self.root
        for depth, key in enumerate(path):
            if isinstance(key, str):
                self.expect(at, dict, path[:depth])
            found = [part.at for part in self.parts(at) if part.key == key]
            if not found:
                return at, depth
            at = found[-1]
        return at, len(path)

    def expect(self, at: int, kind: type, path: Path) -> None:
        if not isinstance(_decode(self.plain, at)[0], kind):
            name = ".".join(map(str, path)) or "the top level"
            raise NotJson(f"{name} is not {'an object' if kind is dict else 'a list'}")

    def added(self, at: int, key: str | None, value: Any) -> str:
        """Return the text with a new last member or element in the object or list at a position."""
        text, parts = self.text, self.parts(at)
        name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
        one_line = f"{name}{json.dumps(value, ensure_ascii=False)}"
        if not parts:
            close = self.next(at + 1)
            new, outer = one_line, self.indent(at)
            if not at or "\n" in text.strip():
                indent = outer + self.unit
                new = f"{self.newline}{indent}{name}{self.rendered(value, indent)}"
                new += f"{self.newline}{outer}"
            return text[: at + 1] + text[at + 1 : close].rstrip() + new + text[close:]
        last = parts[-1]
        after = last.end if last.comma is None else last.comma + 1
        before, comma = (",", "") if last.comma is None else ("", ",")
        if "\n" not in text[at : parts[0].start]:
            return f"{text[:after]}{before} {one_line}{comma}{text[after:]}"
        indent = self.indent(parts[0].start)
        rest = _REST_OF_LINE.match(text, after)
        end = rest.end() if rest else after
        new = f"{self.newline}{indent}{name}{self.rendered(value, indent)}"
        return text[:after] + before + text[after:end] + new + comma + text[end:]


def load(text: str) -> Any:
    """Parse the text. Raise NotJson for invalid text."""
    return _Text(text).value


def value_at(data: Any, path: Sequence[str]) -> Any:
    """Return the value at the path, or None."""
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def put(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with the value at the path. Create missing objects on the path. Raise
    NotJson."""
    parsed = _Text(text)
    at, depth = parsed.find(path)
    if depth < len(path):
        for missing in reversed(path[depth + 1 :]):
            value = {missing: value}
        return parsed.added(at, path[depth], value)
    if "\n" not in text.strip():
        new = json.dumps(value, ensure_ascii=False)
    else:
        new = parsed.rendered(value, parsed.indent(at))
    return text[:at] + new + text[_decode(parsed.plain, at)[1] :]


def append(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with one more element in the list at the path. Create a missing list. Raise
    NotJson."""
    parsed = _Text(text)
    at, depth = parsed.find(path)
    if depth < len(path):
        return put(text, path, [value])
    parsed.expect(at, list, path)
    return parsed.added(at, None, value)


def drop(text: str, path: Path) -> str:
    """Return the text without the member or element at the path, which must exist."""
    parsed = _Text(text)
    above, _ = parsed.find(path[:-1])
    parts = parsed.parts(above)
    index = max(number for number, part in enumerate(parts) if part.key == path[-1])
    part = parts[index]
    start, end = part.start, part.end if part.comma is None else part.comma + 1
    line = text.rfind("\n", 0, start) + 1
    line_end = _LINE_END.match(text, end)
    if line > above and not text[line:start].strip() and line_end:
        head, tail = text[:line], text[line_end.end() :]
    elif index == len(parts) - 1:
        head, tail = text[:start].rstrip(" \t") if index else text[:start], text[end:]
    else:
        head, tail = text[:start], text[end:].lstrip(" \t")
    if part.comma is None and index:
        before = parts[index - 1].comma
        assert before is not None
        head = head[:before] + head[before + 1 :]
    rest = len(text) - _decode(parsed.plain, above)[1] + 1  # from the closing bracket on
    if not head[above + 1 :].strip() and not tail[: len(tail) - rest].strip():
        head, tail = head[: above + 1], tail[len(tail) - rest :]
    return head + tail
