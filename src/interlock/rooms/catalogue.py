"""All verbs and all kinds of facts. A command that needs one room's verbs imports that room."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from interlock.verbs import DECLARED
from interlock.verbs.verb import Verb

if TYPE_CHECKING:
    from interlock.rooms.transaction import FactKind

ROOMS = ("workspace", "identity", "people", "mail", "claims", "work")


def verbs() -> list[type[Verb]]:
    """Every declared verb: those of the rooms in order, then all others."""
    modules = [f"interlock.rooms.{room}.verbs" for room in ROOMS]
    for module in modules:
        import_module(module)
    places = {module: place for place, module in enumerate(modules)}
    return sorted(DECLARED, key=lambda verb: places.get(verb.__module__, len(places)))


def refuse_duplicates(declared: list[type[Verb]]) -> None:
    """Raise ValueError for two verbs with the same route, command, tool or method."""
    for kind, names in {
        "route": [line for v in declared for line in (v.declared.http, *v.declared.http_also)],
        "command": [v.declared.name for v in declared if v.declared.cli],
        "tool": [v.declared.mcp.name for v in declared if v.declared.mcp is not None],
        "method": [v.declared.method.partition(" ")[0] for v in declared],
    }.items():
        twice = {name for name in names if name and names.count(name) > 1}
        if twice:
            raise ValueError(f"Two verbs declare the {kind} {', '.join(sorted(twice))}.")


def fact_kinds() -> dict[str, FactKind]:
    """Every kind of fact, in the order of the rooms."""
    from interlock.rooms.folding import FACTS

    return FACTS


def answer_type(verb: type[Verb]) -> Any:
    """The type of a verb's answer: the return type of its `decide`."""
    names = vars(import_module(verb.__module__)) | {
        "answers": import_module("interlock.rooms.answers")
    }
    returned = verb.decide.__annotations__["return"]
    return eval(returned, names) if isinstance(returned, str) else returned  # noqa: S307
