"""Verbs: the operations of Interlock, each declared once beside the rule that decides it.

`verb` has the class that declarations inherit from, `types` the types of their fields, `http` the
encoding of requests, and `flows` the verbs that take several requests.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

    from interlock.verbs.verb import Verb

# Every verb whose module is imported. `help` reads the list, and imports no verb.
DECLARED: "list[type[Verb]]" = []


class LazyModule:
    """Stands for a module until one of its names is used. Every command imports the declarations
    of a room, and few of them decide anything: a server does."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        module: ModuleType = __import__(self._name, fromlist=["*"])
        return getattr(module, name)
