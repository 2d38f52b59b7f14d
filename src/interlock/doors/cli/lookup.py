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
    """The commands of the first words among these; all commands where none is known."""
    modules = {module for word in words for module in MODULES.get(word, ())}
    if not modules:
        return all_commands()
    return [command for module in sorted(modules) for command in _commands_in(module)]


def all_commands() -> list[Command]:
    """Every command, in the order of the overview."""
    from interlock.rooms import catalogue

    catalogue.verbs()
    places = {word: (n, heading) for n, (heading, word) in enumerate(_words())}
    found = _derived() + _commands_in(HAND_WRITTEN)
    grouped = [c._replace(group=places.get(c.words[0], (0, OTHERS))[1]) for c in found]
    return sorted(grouped, key=lambda c: places.get(c.words[0], (len(places), ""))[0])


def _words() -> Iterable[tuple[str, str]]:
    return ((heading, word) for heading, words in GROUPS.items() for word in words.split())


def _commands_in(module: str) -> list[Command]:
    __import__(module)
    if module == HAND_WRITTEN:
        commands: Iterable[Command] = sys.modules[module].COMMANDS
        return list(commands)
    return [command for command in _derived() if command.verb.__module__ == module]


def _derived() -> list[Command]:
    from interlock.doors.cli.derived import command_of
    from interlock.verbs.verb import DECLARED

    return [command_of(verb) for verb in DECLARED if verb.declared.cli]
