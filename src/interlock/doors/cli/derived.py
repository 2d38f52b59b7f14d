"""Commands derived from usage lines, of verbs and of the functions of this package.

A usage line such as `claim acquire (ITEM | --item I | --path GLOB...) [--ttl D]` lists the words of
the command, its arguments in upper case, and its flags. Brackets mean optional, parentheses mean
exactly one, `...` means several, `a|b` lists choices, and `|-` means that `-` reads standard input.
`-- COMMAND...` at the end takes the rest of the words as they are.

Each argument and flag of a verb's line fills the field of its name; `--ttl` also fills `ttl_s`, and
`--path` also fills `paths`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from interlock.doors.cli.grammar import Argument, Command, Flag, OneOf
from interlock.verbs.durations import covering
from interlock.verbs.types import ABSOLUTE_PATH, Choice, Integer, Several, Shape, Switch, Text
from interlock.verbs.verb import Field, fields_of, notes, summary

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.doors.cli.grammar import Help
    from interlock.verbs.verb import Verb

# A group in brackets or parentheses, a flag with its value, or a word.
_PART = re.compile(r"\[[^\]]*\]|\([^)]*\)|--[a-z-]+(?: [A-Z@]\S*)?(?:\.\.\.)?|\S+")
_TEXT = Text()


def command_of(verb: type[Verb]) -> Command:
    """The command of a verb, as the parser, the help and the completion read it."""
    command = _command(verb.declared.cli, verb, {})
    return command._replace(
        summary=summary(verb), notes=notes(verb), examples=verb.declared.examples, verb=verb
    )


def command_of_action(
    usage: str,
    action: Callable[..., Any],
    verb: type[Verb] | None,
    help: Help,
    examples: tuple[str, ...],
) -> Command:
    """The command that a function performs."""
    documented: Any = action if action.__doc__ else verb
    return _command(usage, verb, help)._replace(
        summary=summary(documented),
        notes=notes(documented),
        examples=examples,
        verb=verb,
        action=action,
    )


def _specified(text: str, verb: type[Verb] | None, help: Help) -> tuple[Shape, str]:
    """The shape and the help of an argument or a flag."""
    said = help.get(_key(text))
    if isinstance(said, tuple):
        return said[1], said[0]
    if verb is not None and (field := field_of(verb, text)) is not None:
        about = said or field.help
        if said is None and not field.required and field.default not in (None, (), False, ""):
            is_duration = field.shape.kind == "duration"
            default = covering(field.default) if is_duration else field.default
            about = f"{about} (default: {default})".strip()
        return field.shape, about
    if said is None:
        raise LookupError(f"There is neither a field nor help for {text}.")
    value = text.partition(" ")[2]
    return (Choice(*value.split("|")) if "|" in value and value.islower() else _TEXT), said


def _command(usage: str, verb: type[Verb] | None, help: Help) -> Command:
    words: list[str] = []
    arguments: list[Argument] = []
    flags: list[Flag] = []
    groups: list[OneOf] = []
    line, _, rest = usage.partition(" -- ")
    for part in _PART.findall(line):
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
    parts = tuple(words), "", tuple(arguments), tuple(flags), tuple(groups)
    return Command(*parts, rest=bool(rest))


def request_of(command: Command, values: dict[str, Any], more: dict[str, Any]) -> Verb:
    """The request that the parsed values of a command make, with `more` fields. `-` reads standard
    input, and the path of a file becomes absolute."""
    from interlock.doors.cli.context import absolute, read_text

    given: dict[str, Any] = {}
    specs: list[Argument | Flag] = [*command.arguments, *command.flags]
    for spec in specs:
        field = field_of(command.verb, spec.name)
        if field is None or field.name in more or spec.key not in values:
            continue
        value = values[spec.key]
        if value == "-" and spec.form.strip("[]").endswith("|-"):
            value = read_text()
        elif field.shape is ABSOLUTE_PATH:
            value = absolute(value)
        given[field.name] = tuple(value) if type(value) is list else value
    request: Verb = command.verb(**given, **more)
    return request


def field_of(verb: type[Verb], text: str) -> Field | None:
    """The field that an argument or a flag of the usage line fills, if it fills one."""
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
