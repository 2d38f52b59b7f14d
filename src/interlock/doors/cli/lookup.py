"""Finds the commands that the words of a command line may name.

A command imports only the modules that declare commands of its first word. `index` is generated
from the declarations.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from interlock.doors.cli.index import MODULES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock.doors.cli.grammar import Command
    from interlock.verbs.verb import Verb

HAND_WRITTEN = "interlock.doors.cli.commands"
# The headings of the overview, with the first words of their commands.
GROUPS = {
    "Start": "up down init join invite run mcp setup hook whoami agents status review",
    "Mail": "send ask answer inbox read ack receipts thread search watch mute explain redact",
    "Claims": "claim guard",
    "Work": "task evidence gate blocker report scrub",
    "Audit": "audit",
    "Administration": "token connection group settings pause resume backup restore rebuild migrate "
    "repair doctor schema completion",
}
OTHERS = "More"


def commands_for(words: Sequence[str]) -> list[Command]:
    """The commands of the first words among these. All commands, where the first word that is
    neither a flag nor its value names none."""
    from interlock.verbs.verb import DECLARED

    named = next((word for word in words if word in MODULES), None)
    first = next((word for word in words if not word.startswith("-")), None)
    if named is None or (words[:1] == [first] and first not in MODULES):
        return all_commands()
    found = [command for module in MODULES[named] for command in _commands_in(module)]
    # A verb that is declared outside the rooms is in no index.
    known = {module for modules in MODULES.values() for module in modules}
    others = (v for v in DECLARED if v.declared.cli and v.__module__ not in known)
    return found + [_command_of(verb) for verb in others]


def all_commands() -> list[Command]:
    """Every command, in the order of the overview."""
    from interlock.rooms import catalogue

    places = {word: (n, heading) for n, (heading, word) in enumerate(_words())}
    derived = [_command_of(verb) for verb in catalogue.verbs() if verb.declared.cli]
    found = derived + _commands_in(HAND_WRITTEN)
    grouped = [c._replace(group=places.get(c.words[0], (0, OTHERS))[1]) for c in found]
    return sorted(grouped, key=lambda c: places.get(c.words[0], (len(places), ""))[0])


def _words() -> Iterable[tuple[str, str]]:
    return ((heading, word) for heading, words in GROUPS.items() for word in words.split())


def _commands_in(module: str) -> list[Command]:
    from interlock.verbs.verb import DECLARED

    __import__(module)
    if module == HAND_WRITTEN:
        commands: Iterable[Command] = sys.modules[module].COMMANDS
        return list(commands)
    declared = (v for v in DECLARED if v.__module__ == module and v.declared.cli)
    return [_command_of(verb) for verb in declared]


def _command_of(verb: type[Verb]) -> Command:
    from interlock.doors.cli.derived import command_of

    return command_of(verb)
