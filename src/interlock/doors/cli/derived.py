"""Derives commands from usage lines: those of verbs, and those of functions in this package.

A usage line such as `claim acquire (ITEM | --item I | --path GLOB...) [--ttl D]` lists the words of
the command, its arguments in upper case, and its flags. Brackets mean optional, parentheses mean
exactly one, `...` means several, `a|b` lists choices, and `|-` means that `-` reads standard input.
`-- COMMAND...` at the end takes the rest of the words as they are.

An argument or flag fills the field of the same name, of that name in seconds (`--ttl`: `ttl_s`), or
of that name in the plural (`--path`: `paths`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.doors.cli.grammar import Argument, Command, Flag, OneOf
from interlock.verbs.types import Choice, Integer, Several, Shape, Switch, Text, described
from interlock.verbs.verb import Field, fields_of, notes, summary

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.doors.cli.grammar import Help
    from interlock.verbs.verb import Verb

_TEXT = Text()


def command_of(
    usage: str,
    action: Callable[..., Any] | None,
    verb: type[Verb] | None,
    help: Help,
    examples: tuple[str, ...],
) -> Command:
    """The command of a usage line, as the parser, the help and the completion read it.

    The docstring of its action, or else of its verb, is its summary and its notes."""
    words: list[str] = []
    arguments: list[Argument] = []
    flags: list[Flag] = []
    groups: list[OneOf] = []
    line, _, rest = usage.partition(" -- ")
    for part in _parts(line):
        if part[0].isalpha() and part.islower():
            words.append(part)
            continue
        is_optional = part[0] == "["
        alternatives = part[1:-1].split(" | ") if part[0] in "[(" else [part]
        is_choice = len(alternatives) > 1
        for text in alternatives:
            shape, described = _specified(text, verb, help)
            each = shape.each if isinstance(shape, Several) else shape
            choices = each.choices if isinstance(each, Choice) else ()
            name, _, value = text.removesuffix("...").partition(" ")
            about: dict[str, Any] = {
                "help": described,
                "many": shape.many or text.endswith("..."),
                "choices": choices,
                "kind": "text" if isinstance(each, Switch) else each.kind,
            }
            if isinstance(each, Integer):
                about |= {"minimum": each.minimum, "maximum": each.maximum}
            if name.startswith("--"):
                shown = "" if value == "|".join(choices) else value
                is_required = not is_optional and not is_choice
                flags.append(Flag(name, shown, required=is_required, **about))
            else:
                arguments.append(Argument(name, optional=is_optional or is_choice, **about))
        if is_choice:
            names = tuple(text.split()[0].removesuffix("...") for text in alternatives)
            groups.append(OneOf(names, required=not is_optional))
    documented: Any = action if action is not None and action.__doc__ else verb
    return Command(
        tuple(words),
        summary(documented),
        tuple(arguments),
        tuple(flags),
        tuple(groups),
        rest=bool(rest),
        examples=examples,
        notes=notes(documented),
        verb=verb,
        action=action,
    )


def _parts(line: str) -> list[str]:
    """The parts of a usage line: a group in brackets or parentheses, a flag with its value, or a
    word."""
    parts: list[str] = []
    for word in line.split():
        last = parts[-1] if parts else ""
        is_in_group = last[:1] in ("[", "(") and last.rstrip(".")[-1] not in "])"
        is_value = (
            last.startswith("--") and " " not in last and (word[0] == "@" or word[0].isupper())
        )
        if is_in_group or is_value:
            parts[-1] = f"{last} {word}"
        else:
            parts.append(word)
    return parts


def _specified(text: str, verb: type[Verb] | None, help: Help) -> tuple[Shape, str]:
    """The shape and the help of an argument or a flag."""
    declared = help.get(_key(text))
    if isinstance(declared, tuple):
        return declared[1], declared[0]
    if verb is not None and (field := field_of(verb, text)) is not None:
        about = declared or field.help
        if field.shape.kind == "duration":
            about = described(about, ": 90s, 15m, 2h, 7d")
        if text.removesuffix("]").endswith("|-"):
            about = f"{about}; - reads standard input"
        if declared is None and not field.required and field.default not in (None, (), False, ""):
            default = field.default
            if field.shape.kind == "duration":
                from interlock.verbs.durations import covering

                default = covering(default)
            about = f"{about} (default: {default})".strip()
        return field.shape, about
    if declared is None:
        raise LookupError(f"{text} fills no field and has no help.")
    value = text.partition(" ")[2]
    return (Choice(*value.split("|")) if "|" in value and value.islower() else _TEXT), declared


def field_of(verb: type[Verb], text: str) -> Field | None:
    """Return the field that an argument or a flag of the usage line fills, or None."""
    fields = fields_of(verb)
    name = text.split()[0].removesuffix("...").removesuffix("|-")
    key = verb.declared.bind.get(name) or _key(text)
    for candidate in (key, f"{key}_s", f"{key}s"):
        if candidate in fields:
            return fields[candidate]
    return None


def _key(text: str) -> str:
    """The name of an argument or a flag among the parsed values."""
    name = text.split()[0].removesuffix("...").split("|")[0]
    return name.lstrip("-").lower().replace("-", "_")
