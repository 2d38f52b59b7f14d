"""Finds the commands that the words of a command line may name.

A command imports only the module that declares it, or the modules of its first word while it is not
fully typed. `index` is generated from the declarations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.doors.cli.grammar import DECLARED as ACTIONS
from interlock.doors.cli.grammar import Command
from interlock.doors.cli.index import HEADINGS, SUMMARIES
from interlock.verbs import DECLARED as VERBS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def commands_for(words: Sequence[str]) -> list[Command]:
    """Return the commands that these words may name. After `help`, skip that word."""
    if words[:1] == ["help"] and len(words) > 1:
        words = words[1:]
    names = [name for summaries in SUMMARIES.values() for name in summaries]
    if exact := [name for name in names if name.split() == list(words[: name.count(" ") + 1])]:
        return _declared(exact)
    known = {name.partition(" ")[0] for name in names}
    if words and words[0] in known:
        return _declared(words[:1])
    if words and not words[0].startswith("-"):
        return named_commands()
    # Flags may precede the words of a command, and the value of a flag may be such a word.
    return _declared(known.intersection(words) or known)


def all_commands() -> list[Command]:
    """Every command, in the order of the overview."""
    return _in_order(_declared())


def named_commands() -> list[Command]:
    """Every command in the order of the overview, with only its words and its summary. This imports
    no module that declares commands."""
    named = (pair for names in SUMMARIES.values() for pair in names.items())
    found = [Command(tuple(name.split()), summary) for name, summary in named]
    return _in_order(found + _declared(()))


def _declared(prefixes: Iterable[str] | None = None) -> list[Command]:
    """Return the commands that start with one of these words or pairs of words, or all commands.
    Include every verb that is declared outside the modules of the index."""
    places = {module: place for place, module in enumerate(SUMMARIES)}
    begin = None if prefixes is None else tuple(f"{prefix} " for prefix in prefixes)

    def is_wanted(usage: str, module: str) -> bool:
        is_named = begin is None or f"{usage} ".startswith(begin)
        return bool(usage) and (is_named or module not in places)

    for module, names in SUMMARIES.items():
        if any(is_wanted(name, module) for name in names):
            __import__(module)
    verbs = [verb for verb in VERBS if is_wanted(verb.declared.cli, verb.__module__)]
    verbs.sort(key=lambda verb: places.get(verb.__module__, len(places)))
    actions = [action for action in ACTIONS if is_wanted(action[0], action[1].__module__)]
    if not verbs and not actions:
        return []
    from interlock.doors.cli.derived import command_of

    found = [
        command_of(verb.declared.cli, None, verb, {}, verb.declared.examples) for verb in verbs
    ]
    return found + [command_of(*action) for action in actions]


def _in_order(commands: list[Command]) -> list[Command]:
    headings = [(word, heading) for heading, words in HEADINGS.items() for word in words.split()]
    places = {word: (n, heading) for n, (word, heading) in enumerate(headings)}
    last = (len(places), "")
    commands.sort(key=lambda command: places.get(command.words[0], last)[0])
    return [c._replace(group=places.get(c.words[0], last)[1]) for c in commands]
