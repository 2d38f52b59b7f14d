"""All verbs of all rooms. A command that needs one room's verbs imports that room instead."""

from importlib import import_module
from typing import Any

from interlock.verbs.verb import DECLARED, Verb

ROOMS = ("workspace", "identity", "people", "mail", "claims", "work")


def module_of(room: str) -> str:
    return f"interlock.rooms.{room}.verbs"


def verbs() -> list[type[Verb]]:
    """Every declared verb, in the order of the rooms."""
    for room in ROOMS:
        import_module(module_of(room))
    return list(DECLARED)


def answer_type(verb: type[Verb]) -> Any:
    """The type of a verb's answer: the return type of its `decide`."""
    names = vars(import_module(verb.__module__)) | {
        "answers": import_module("interlock.rooms.answers")
    }
    returned = verb.decide.__annotations__["return"]
    return eval(returned, names) if isinstance(returned, str) else returned  # noqa: S307
