"""JSON as people keep it, with comments and trailing commas, changed in place.

A change touches the member or element that is meant, and the comma that it needs; every other byte
stays. What is added is written as its neighbours are: indented like them, or on their line.
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


class NotJson(Exception):
    """The text is no JSON, or is of another shape than was expected; says what is wrong."""


class Node(NamedTuple):
    """A value, and where it stands in the text."""

    start: int
    end: int
    value: Any
    parts: list["Part"]


class Part(NamedTuple):
    """A member or an element, with the comma after it if there is one."""

    start: int
    key: str | int
    node: Node
    comma: int | None


def load(text: str) -> Any:
    """What the text holds. Of members with one name the last counts, as it does for clients."""
    return _parse(text).value


def look(data: Any, path: Sequence[str]) -> Any:
    """What stands at the path, or None."""
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def put(text: str, path: Sequence[str], value: Any) -> str:
    """The text with this value at the path, in place of what is there; objects on the way to it
    are made."""
    node = _parse(text)
    for depth, key in enumerate(path):
        _expect(node, dict, path[:depth])
        part = _part(node, key)
        if part is None:
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value}
            return _added(text, node, key, value)
        node = part.node
    return text[: node.start] + _written(value, text, node.start) + text[node.end :]


def append(text: str, path: Sequence[str], value: Any) -> str:
    """The text with one more element at the end of the list at the path, which is made if there
    is none."""
    node = _parse(text)
    for depth, key in enumerate(path):
        _expect(node, dict, path[:depth])
        part = _part(node, key)
        if part is None:
            return put(text, path, [value])
        node = part.node
    _expect(node, list, path)
    return _added(text, node, None, value)


def drop(text: str, path: Path) -> str:
    """The text without the member or element at the path, which must be there."""
    node = _parse(text)
    for key in path[:-1]:
        part = _part(node, key)
        assert part is not None
        node = part.node
    part = _part(node, path[-1])
    assert part is not None
    return _without(text, node, node.parts.index(part))


# --- reading


def _parse(text: str) -> Node:
    tokens = list(_tokens(text))
    try:
        node, rest = _value(text, tokens, 0)
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    if rest != len(tokens):
        raise _wrong(text, tokens[rest][1])
    return node


def _tokens(text: str) -> list[tuple[str, int, int]]:
    found, at = [], 0
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        if start != at:
            break
        if match.lastgroup != "blank":
            found.append((text[at] if match.lastgroup == "mark" else "value", at, end))
        at = end
    if at != len(text):
        raise _wrong(text, at)
    return found


def _value(text: str, tokens: list[tuple[str, int, int]], at: int) -> tuple[Node, int]:
    if at == len(tokens):
        raise NotJson("it ends too early")
    kind, start, end = tokens[at]
    if kind in "{[":
        return _container(text, tokens, at)
    if kind != "value":
        raise _wrong(text, start)
    word = text[start:end]
    if word[0] == '"' and "\\" not in word:
        return Node(start, end, word[1:-1], []), at + 1
    try:
        return Node(start, end, json.loads(word), []), at + 1
    except ValueError:
        raise _wrong(text, start) from None


def _container(text: str, tokens: list[tuple[str, int, int]], at: int) -> tuple[Node, int]:
    start, is_object = tokens[at][1], tokens[at][0] == "{"
    close, parts = "}" if is_object else "]", list[Part]()
    at += 1
    while at < len(tokens) and tokens[at][0] != close:
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


def _part(node: Node, key: str | int) -> Part | None:
    return next((part for part in reversed(node.parts) if part.key == key), None)


def _expect(node: Node, kind: type, path: Path) -> None:
    if not isinstance(node.value, kind):
        name = ".".join(map(str, path)) or "the whole"
        raise NotJson(f"{name} is no {'object' if kind is dict else 'list'}")


def _wrong(text: str, at: int) -> NotJson:
    line = text.count("\n", 0, at) + 1
    return NotJson(f"line {line} cannot be read at {text[at : at + 20]!r}")


# --- writing


def _added(text: str, node: Node, key: str | None, value: Any) -> str:
    name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    if not node.parts:
        return _first(text, node, name, value)
    last, has_comma = node.parts[-1], node.parts[-1].comma is not None
    after = last.node.end if last.comma is None else last.comma + 1
    before, comma = ("", ",") if has_comma else (",", "")
    if "\n" not in text[node.start : node.parts[0].start]:
        new = f" {name}{json.dumps(value, ensure_ascii=False)}"
        return text[:after] + before + new + comma + text[after:]
    indent = _indent(text, node.parts[0].start)
    rest = _REST_OF_LINE.match(text, after)
    end = rest.end() if rest else after
    new = f"{_newline(text)}{indent}{name}{_rendered(value, indent, text)}"
    return text[:after] + before + text[after:end] + new + comma + text[end:]


def _first(text: str, node: Node, name: str, value: Any) -> str:
    """The text with something in what was empty, but for comments."""
    inner = text[node.start + 1 : node.end - 1].rstrip()
    if node.start and "\n" not in text.strip():
        new = f"{name}{json.dumps(value, ensure_ascii=False)}"
    else:
        outer, newline = _indent(text, node.start), _newline(text)
        indent = outer + _unit(text)
        new = f"{newline}{indent}{name}{_rendered(value, indent, text)}{newline}{outer}"
    return text[: node.start + 1] + inner + new + text[node.end - 1 :]


def _written(value: Any, text: str, at: int) -> str:
    if "\n" not in text.strip():
        return json.dumps(value, ensure_ascii=False)
    return _rendered(value, _indent(text, at), text)


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
    """By how much the outermost members are indented."""
    first = _FIRST_MEMBER.match(text)
    return (_indent(text, first.end()) if first else "") or "  "


def _without(text: str, node: Node, index: int) -> str:
    part, parts = node.parts[index], node.parts
    start, end = part.start, part.node.end if part.comma is None else part.comma + 1
    line = text.rfind("\n", 0, start) + 1
    line_end = _LINE_END.match(text, end)
    if line > node.start and not text[line:start].strip() and line_end:
        cut = line, line_end.end()
    elif index == len(parts) - 1:
        cut = len(text[:start].rstrip(" \t")) if index else start, end
    else:
        cut = start, end + len(text[end:]) - len(text[end:].lstrip(" \t"))
    head, tail = text[: cut[0]], text[cut[1] :]
    if part.comma is None and index:
        before = parts[index - 1].comma
        assert before is not None
        head = head[:before] + head[before + 1 :]
    closes = len(text) - node.end + 1
    if not head[node.start + 1 :].strip() and not tail[: len(tail) - closes].strip():
        head, tail = head[: node.start + 1], tail[len(tail) - closes :]
    return head + tail
