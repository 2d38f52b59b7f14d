"""Arguments of a call, checked against the tool's input schema: nothing unknown, nothing coerced.

The part of JSON Schema that the tools use, and no more. What a value may mean is for the node to
say; here only its type, its choices and its range are looked at.
"""

from typing import Any

from interlock.doors.mcp.tools import INPUT, Schema
from interlock.errors import Usage
from interlock.rooms.mail.message_types import clip
from interlock.verbs.addresses import unicode

Arguments = dict[str, Any]

SENDER_MEMBERS = ("from", "source", "sender")


def without_sender(arguments: Arguments) -> tuple[Arguments, str | None]:
    """The other arguments, and who the caller says it is. That decides nothing, and must not
    contradict the token: names that differ among themselves are nobody's."""
    said = {name: arguments[name] for name in SENDER_MEMBERS if name in arguments}
    if not said:
        return arguments, None
    for member, name in said.items():
        _fits(member, name, {"type": "string"})
    names = {name.removeprefix("agent:").removeprefix("@") for name in said.values()}
    rest = {name: value for name, value in arguments.items() if name not in said}
    return rest, " and ".join(sorted(names))


def checked(tool: str, arguments: Arguments) -> Arguments:
    """The arguments as they are, or `Usage` naming the member and what is expected of it."""
    schema = INPUT[tool]
    properties = schema["properties"]
    for member, value in arguments.items():
        if member not in properties:
            raise _unknown(tool, member, list(properties))
        _fits(member, value, properties[member])
    for member in schema.get("required", ()):
        if member not in arguments:
            raise _refused(member, properties[member], "is missing")
    return arguments


def _fits(member: str, value: Any, schema: Schema) -> None:
    if not _is_a(value, schema["type"]):
        raise _refused(member, schema, f"is {_described(value)}")
    if schema["type"] == "array":
        for entry in value:
            if not _is_a(entry, "string"):
                raise _refused(member, schema, f"holds {_described(entry)}")
    if "enum" in schema and value not in schema["enum"]:
        raise _refused(member, schema, f"is '{clip(value)}'")
    if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        raise _refused(member, schema, f"is {clip(str(value))}")


def _is_a(value: Any, kind: str) -> bool:
    if kind == "string":
        return isinstance(value, str) and unicode(value)
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62
    return isinstance(value, bool if kind == "boolean" else list)


def _described(value: Any) -> str:
    if isinstance(value, str) and not unicode(value):
        return "text that UTF-8 cannot hold"
    if value is None:
        return "null: leave it out"
    kinds = {str: "a string", bool: "a boolean", list: "an array", dict: "an object"}
    return kinds.get(type(value), "a number")


def _expected(schema: Schema) -> str:
    kind: str = schema["type"]
    if "enum" in schema:
        return f"one of {', '.join(schema['enum'])}"
    if kind == "array":
        return "an array of strings"
    if kind != "integer":
        return f"a {kind}"
    if "maximum" in schema:
        return f"a whole number from {schema['minimum']} to {schema['maximum']}"
    return f"a whole number from {schema['minimum']}"


def _refused(member: str, schema: Schema, why: str) -> Usage:
    expected = _expected(schema)
    return Usage(f"{member} {why}. It must be {expected}.", member=member, expected=expected)


def _unknown(tool: str, member: str, known: list[str]) -> Usage:
    said = clip(member)
    takes = f"It takes {', '.join(known)}." if known else "It takes nothing."
    return Usage(f"{tool} has no member '{said}'. {takes}", member=said)
