"""Edit JSON with comments and trailing commas in place.

An edit changes one member or element and the comma that it needs. Every other byte stays. New text
follows its neighbours: it has their indentation, or stands on their line.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

Path = Sequence[str | int]

_BLANK = r"[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/"
_TOKEN = re.compile(
    rf"(?P<blank>{_BLANK})"
    r'|(?P<string>"(?:[^"\\\x00-\x1f]|\\.)*")'
    r"|(?P<word>[-+.\w]+)"
    r"|(?P<mark>[{}\[\]:,])",
    re.DOTALL,
)
_REST_OF_LINE = re.compile(r"(?:[ \t]|/\*[^\r\n]*?\*/)*(?://[^\r\n]*)?")
_FIRST_MEMBER = re.compile(rf"(?:{_BLANK})*+{{(?:{_BLANK})*+(?=\")", re.DOTALL)
_LINE_END = re.compile(r"[ \t]*(?:\r?\n)")


class NotJson(ValueError):
    """The text is not JSON, or has an unexpected shape. The message says what is wrong."""


class Node(NamedTuple):
    """A value and its position in the text."""

    start: int
    end: int
    value: Any
    parts: list["Part"]

    def part(self, key: str | int) -> "Part | None":
        """Of members with the same name, the last one counts, as it does for clients."""
        return next((part for part in reversed(self.parts) if part.key == key), None)


class Part(NamedTuple):
    """A member or an element, with the position of the comma after it."""

    start: int
    key: str | int
    node: Node
    comma: int | None


def load(text: str) -> Any:
    """Parse the text. Raises NotJson."""
    return _parse(text).value


def look(data: Any, path: Sequence[str]) -> Any:
    """The value at the path, or None."""
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def put(text: str, path: Sequence[str], value: Any) -> str:
    """Set the value at the path, and create missing objects on the way. Raises NotJson."""
    node, depth = _nearest(text, path)
    if depth < len(path):
        for missing in reversed(path[depth + 1 :]):
            value = {missing: value}
        return _added(text, node, path[depth], value)
    if "\n" not in text.strip():
        new = json.dumps(value, ensure_ascii=False)
    else:
        new = _rendered(value, _indent(text, node.start), text)
    return text[: node.start] + new + text[node.end :]


def append(text: str, path: Sequence[str], value: Any) -> str:
    """Append an element to the list at the path, or create the list. Raises NotJson."""
    node, depth = _nearest(text, path)
    if depth < len(path):
        return put(text, path, [value])
    _expect(node, list, path)
    return _added(text, node, None, value)


def drop(text: str, path: Path) -> str:
    """Remove the member or element at the path, which must exist."""
    node = _parse(text)
    for key in path[:-1]:
        part = node.part(key)
        assert part is not None
        node = part.node
    part = node.part(path[-1])
    assert part is not None
    parts, index = node.parts, node.parts.index(part)
    start, end = part.start, part.node.end if part.comma is None else part.comma + 1
    line = text.rfind("\n", 0, start) + 1
    line_end = _LINE_END.match(text, end)
    if line > node.start and not text[line:start].strip() and line_end:
        head, tail = text[:line], text[line_end.end() :]
    elif index == len(parts) - 1:
        head, tail = text[:start].rstrip(" \t") if index else text[:start], text[end:]
    else:
        head, tail = text[:start], text[end:].lstrip(" \t")
    if part.comma is None and index:
        before = parts[index - 1].comma
        assert before is not None
        head = head[:before] + head[before + 1 :]
    closes = len(text) - node.end + 1
    if not head[node.start + 1 :].strip() and not tail[: len(tail) - closes].strip():
        head, tail = head[: node.start + 1], tail[len(tail) - closes :]
    return head + tail


# --- reading


def _parse(text: str) -> Node:
    tokens, at = list[tuple[str, int, int]](), 0
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        if start != at:
            break
        if match.lastgroup != "blank":
            tokens.append((text[at] if match.lastgroup == "mark" else "value", at, end))
        at = end
    if at != len(text):
        raise _wrong(text, at)
    try:
        node, rest = _value(text, tokens, 0)
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    if rest != len(tokens):
        raise _wrong(text, tokens[rest][1])
    return node


def _value(text: str, tokens: list[tuple[str, int, int]], at: int) -> tuple[Node, int]:
    """The value that begins at a token, and the number of the token after it."""
    if at == len(tokens):
        raise NotJson("it ends too early")
    kind, start, end = tokens[at]
    if kind == "value":
        try:
            return Node(start, end, json.loads(text[start:end]), []), at + 1
        except ValueError:
            raise _wrong(text, start) from None
    if kind not in "{[":
        raise _wrong(text, start)
    is_object, parts, at = kind == "{", list[Part](), at + 1
    while at < len(tokens) and tokens[at][0] != ("}" if is_object else "]"):
        if parts and parts[-1].comma is None:
            raise _wrong(text, tokens[at][1])
        first: int = tokens[at][1]
        key: str | int = len(parts)
        if is_object:
            name, at = _value(text, tokens, at)
            if not isinstance(name.value, str) or at == len(tokens) or tokens[at][0] != ":":
                raise _wrong(text, first)
            key, at = name.value, at + 1
        node, at = _value(text, tokens, at)
        comma = tokens[at][1] if at < len(tokens) and tokens[at][0] == "," else None
        at += comma is not None
        parts.append(Part(first, key, node, comma))
    if at == len(tokens):
        raise NotJson("it ends too early")
    value = {p.key: p.node.value for p in parts} if is_object else [p.node.value for p in parts]
    return Node(start, tokens[at][2], value, parts), at + 1


def _nearest(text: str, path: Sequence[str]) -> tuple[Node, int]:
    """The innermost existing node on the path, and how many keys lead to it."""
    node = _parse(text)
    for depth, key in enumerate(path):
        _expect(node, dict, path[:depth])
        part = node.part(key)
        if part is None:
            return node, depth
        node = part.node
    return node, len(path)


def _expect(node: Node, kind: type, path: Path) -> None:
    if not isinstance(node.value, kind):
        name = ".".join(map(str, path)) or "the whole"
        raise NotJson(f"{name} is no {'object' if kind is dict else 'list'}")


def _wrong(text: str, at: int) -> NotJson:
    line = text.count("\n", 0, at) + 1
    return NotJson(f"line {line} cannot be read at {text[at : at + 20]!r}")


# --- writing


def _added(text: str, node: Node, key: str | None, value: Any) -> str:
    """The text with a new last member or element of a node."""
    name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    newline, one_line = _newline(text), f"{name}{json.dumps(value, ensure_ascii=False)}"
    if not node.parts:
        inner = text[node.start + 1 : node.end - 1].rstrip()
        if node.start and "\n" not in text.strip():
            new = one_line
        else:
            outer = _indent(text, node.start)
            indent = outer + _unit(text)
            new = f"{newline}{indent}{name}{_rendered(value, indent, text)}{newline}{outer}"
        return text[: node.start + 1] + inner + new + text[node.end - 1 :]
    last = node.parts[-1]
    after = last.node.end if last.comma is None else last.comma + 1
    before, comma = ("", ",") if last.comma is not None else (",", "")
    if "\n" not in text[node.start : node.parts[0].start]:
        return f"{text[:after]}{before} {one_line}{comma}{text[after:]}"
    indent = _indent(text, node.parts[0].start)
    rest = _REST_OF_LINE.match(text, after)
    end = rest.end() if rest else after
    new = f"{newline}{indent}{name}{_rendered(value, indent, text)}"
    return text[:after] + before + text[after:end] + new + comma + text[end:]


def _rendered(value: Any, indent: str, text: str) -> str:
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).split("\n")
    return f"{_newline(text)}{indent}".join(lines)


def _newline(text: str) -> str:
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def _indent(text: str, at: int) -> str:
    """The blanks at the beginning of the line."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    """The indentation of the outermost members."""
    first = _FIRST_MEMBER.match(text)
    return (_indent(text, first.end()) if first else "") or "  "
