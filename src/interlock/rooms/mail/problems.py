"""The problems of a payload, in words: which member, its value, and what it must be.

A refusal repeats only short values, because an agent pays for every word it reads, and a payload
may be large or deep.
"""

from typing import TYPE_CHECKING, Final

from interlock.errors import InvalidMessage
from interlock.rooms.mail.message_types import SHAPES, clip

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

MAX_PROBLEMS: Final = 20

_WANTED: Final = {
    "string_type": "a string",
    "int_type": "a whole number, written without quotes, fraction or exponent",
    "bool_type": "true or false",
    "list_type": "a list",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "union_tag_not_found": "a string or a list of strings",
}


def not_an_object(type: str, payload: object) -> InvalidMessage:
    """The refusal of a payload that is not an object."""
    return _refusal(type, [("payload", f"must be an object, not {_given(payload)}")], 1)


def explain(type: str, of: str, members: list[str], found: "ValidationError") -> InvalidMessage:
    """The refusal with the problems found. `members` are the members of `of`, which is the type or
    a kind of it."""
    errors = found.errors(include_url=False)
    problems = []
    for error in errors[:MAX_PROBLEMS]:
        loc = error["loc"]
        if type == "evidence":
            # Pydantic also names the branch of a union, which is no member.
            loc = loc[1:]
            if loc[:1] == ("command",) and loc[1:2] in (("argv",), ("line",)):
                loc = loc[:1] + loc[2:]
        where, problem = ".".join(clip(str(part)) for part in loc), _problem(error)
        if error["type"] == "extra_forbidden" and len(loc) == 1:
            problem = f"is not a member of {of}, which has {', '.join(members)}"
        if not loc:
            where, problem = "kind", "must be 'run', 'file', 'url' or 'note'"
        problems.append((where, problem))
    return _refusal(type, problems, len(errors))


def _refusal(type: str, problems: list[tuple[str, str]], count: int) -> InvalidMessage:
    member, problem = problems[0]
    others = f" (and {count - 1} more)" if count > 1 else ""
    return InvalidMessage(
        f"{member} {problem}{others}. The contract: interlock schema {type}.",
        type=type,
        problems=[{"member": member, "problem": problem} for member, problem in problems],
    )


def _problem(error: "ErrorDetails") -> str:
    kind, given, limits = error["type"], error["input"], error.get("ctx", {})
    if kind in _WANTED:
        hint = "; an optional member is left out instead" if given is None else ""
        return f"must be {_WANTED[kind]}, not {_given(given)}{hint}"
    had = f"; it had {len(given)}" if isinstance(given, str | list) else ""
    match kind:
        case "string_pattern_mismatch":
            return f"must be {SHAPES[limits['pattern']]}; it was {_given(given)}"
        case "literal_error":
            return f"must be {limits['expected']}, not {_given(given)}"
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return "is not a member here"
        case "invalid_key":
            return "is not a member: names are strings"
        case "repeated":
            return "must not hold the same entry twice"
        case "string_too_short" | "too_short":
            return "must not be empty"
        case "string_too_long":
            return f"must have at most {limits['max_length']} characters{had}"
        case "too_long":
            return f"must have at most {limits['max_length']} entries{had}"
        case "greater_than_equal":
            return f"must be at least {limits['ge']}"
        case "less_than_equal":
            return f"must be at most {limits['le']}"
        case "string_unicode":
            return "holds characters that are not Unicode text"
    return "does not fit the contract"


def _given(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | float():
            return f"{value}" if abs(value) < 10**15 else "a number"
        case "":
            return "an empty string"
        case str():
            short = len(value) <= 32 and value.isprintable()
            return f"'{value}'" if short else f"a string of {len(value)} characters"
        case list():
            return "a list"
        case dict():
            return "an object"
    return type(value).__name__
