"""Modules that are imported when they are first used.

Every command imports the declarations of a room, and few of them decide anything: a server does.
"""

from types import ModuleType
from typing import Any


class LazyModule:
    """Stands for a module until one of its names is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        module: ModuleType = __import__(self._name, fromlist=["*"])
        return getattr(module, name)
