"""Commands derived from verbs: the grammar of a verb's command line, and the request it makes.

A usage line such as `claim acquire (ITEM | --item I | --path GLOB...) [--ttl D]` lists the words of
the command, its arguments in upper case, and its flags. Brackets mean optional, parentheses mean
exactly one, `...` means several, and `|-` means that `-` reads standard input. Each argument and
flag fills the field of its name; `--ttl` also fills `ttl_s`, and `--path` also fills `paths`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from interlock.doors.cli.grammar import Argument, Command, Flag, OneOf
from interlock.verbs.durations import covering
from interlock.verbs.types import Choice, Integer, Several, Switch
from interlock.verbs.verb import Field, fields_of, notes, summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from interlock.verbs.verb import Verb

# A group in brackets or parentheses, a flag with its value, or a word.
_PART = re.compile(r"\[[^\]]*\]|\([^)]*\)|--[a-z-]+(?: [A-Z@]\S*)?(?:\.\.\.)?|\S+")


def command_of(verb: type[Verb]) -> Command:
    """The command of a verb, as the parser, the help and the completion read it."""
    words: list[str] = []
    arguments: list[Argument] = []
    flags: list[Flag] = []
    groups: list[OneOf] = []
    for part, optional, alternatives in _parts(verb.declared.cli):
        if _is_word(part):
            words.append(part)
            continue
        is_choice = len(alternatives) > 1
        for text in alternatives:
            field = field_of(verb, text)
            if text.startswith("--"):
                flags.append(_flag(text, field, required=not optional and not is_choice))
            else:
                arguments.append(_argument(text, field, optional=optional or is_choice))
        if is_choice:
            names = tuple(text.split()[0].removesuffix("...") for text in alternatives)
            groups.append(OneOf(names, required=not optional))
    return Command(
        tuple(words),
        summary(verb),
        tuple(arguments),
        tuple(flags),
        tuple(groups),
        examples=verb.declared.examples,
        notes=notes(verb),
        verb=verb,
    )


def request_of(verb: type[Verb], values: dict[str, Any], read_input: Callable[[], str]) -> Verb:
    """The request that the parsed values of a command make. `-` reads standard input."""
    given: dict[str, Any] = {}
    for part, _, alternatives in _parts(verb.declared.cli):
        for text in alternatives if not _is_word(part) else ():
            key = _key(text)
            if key in values:
                value = values[key]
                if value == "-" and text.split()[-1].endswith("|-"):
                    value = read_input()
                given[field_of(verb, text).name] = tuple(value) if type(value) is list else value
    return verb(**given)


def _is_word(part: str) -> bool:
    """Whether a part of the usage line is a word of the command."""
    return part[0].isalpha() and part.islower()


def field_of(verb: type[Verb], text: str) -> Field:
    """The field that an argument or a flag of the usage line fills."""
    fields = fields_of(verb)
    name = text.split()[0].removesuffix("...").removesuffix("|-")
    key = verb.declared.bind.get(name) or _key(text)
    for candidate in (key, f"{key}_s", f"{key}s"):
        if candidate in fields:
            return fields[candidate]
    raise LookupError(f"{verb.__name__} has no field for {text}")


def _parts(usage: str) -> Iterator[tuple[str, bool, list[str]]]:
    """The parts of a usage line: each with whether it is optional, and its alternatives."""
    for part in _PART.findall(usage):
        if part[0] in "[(":
            yield part, part[0] == "[", part[1:-1].split(" | ")
        else:
            yield part, False, [part]


def _key(text: str) -> str:
    """The name of an argument or a flag among the parsed values."""
    name = text.split()[0].removesuffix("...").split("|")[0]
    return name.lstrip("-").lower().replace("-", "_")


def _flag(text: str, field: Field, *, required: bool) -> Flag:
    name, _, value = text.removesuffix("...").partition(" ")
    shape = field.shape.each if isinstance(field.shape, Several) else field.shape
    choices = shape.choices if isinstance(shape, Choice) else ()
    integer = shape if isinstance(shape, Integer) else None
    return Flag(
        name,
        "" if value == "|".join(choices) else value,
        _described(field),
        many=field.shape.many,
        required=required,
        choices=choices,
        kind="text" if isinstance(shape, Switch) else shape.kind,  # type: ignore[arg-type]
        minimum=integer.minimum if integer else None,
        maximum=integer.maximum if integer else None,
    )


def _argument(text: str, field: Field, *, optional: bool) -> Argument:
    name = text.removesuffix("...")
    flag = _flag(f"--x {name}", field, required=False)
    return Argument(
        name,
        flag.help,
        optional,
        field.shape.many,
        flag.choices,
        flag.kind,
        flag.minimum,
        flag.maximum,
    )


def _described(field: Field) -> str:
    """The help of a field, with its default."""
    if field.default in (None, (), False, "") or field.required:
        return field.help
    default = field.default
    shown = covering(default) if field.shape.kind == "duration" else default
    return f"{field.help} (default: {shown})".strip()
