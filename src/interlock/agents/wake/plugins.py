"""Load the wake adapters: those of Interlock, and those of installed packages.

docs/plugins.md has the contract of a plugin. If a plugin is broken, the loader logs its name and
skips it.
"""

import logging
from collections.abc import Callable
from importlib import metadata
from itertools import chain
from typing import Any

import pluggy

from interlock import plugins
from interlock.agents import wake
from interlock.agents.wake.configuration import Version, read, version
from interlock.errors import Usage
from interlock.plugins import PROJECT, Adapter, Config

GROUP = "interlock.plugins"

log = logging.getLogger("interlock.wake")


class Adapters:
    """The adapters of a workspace. Not thread-safe."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._read: Version | bool = False
        self._adapters: list[Adapter] = []

    def now(self) -> list[Adapter]:
        """Return the adapters that `wake.toml` turns on now. While the file is invalid, return the
        previous adapters. Log the error once."""
        found = version(self._directory)
        if found != self._read:
            self._read = found
            try:
                self._adapters = adapters(read(self._directory))
            except Usage as refusal:
                log.error("wake.toml is ignored", extra={"why": refusal.message})
        return self._adapters


def adapters(config: Config) -> list[Adapter]:
    """Return the adapters of all plugins, Interlock's own first. Skip a plugin if its name, or the
    name of one of its adapters, is taken: the name in a receipt must identify the adapter."""
    found: dict[str, Adapter] = {}
    names: set[str] = set()
    sources: list[tuple[str, Callable[[], Any]]] = [("interlock", lambda: wake)]
    sources += [(point.name, point.load) for point in metadata.entry_points(group=GROUP)]
    for name, load in sources:
        try:
            if name in names:
                raise ValueError(f"another plugin has the name {name}")
            names.add(name)
            # Each plugin has its own manager, so that a plugin that raises does not affect others.
            manager = pluggy.PluginManager(PROJECT)
            manager.add_hookspecs(plugins)
            manager.register(load(), name=name)
            manager.check_pending()  # otherwise a misspelt hook would never run
            theirs: dict[str, Adapter] = {}
            for adapter in chain(*manager.hook.interlock_wake_adapters(config=config)):
                is_text = isinstance(adapter.name, str)
                if not (is_text and callable(adapter.can_wake) and callable(adapter.wake)):
                    raise TypeError("an adapter must have name, can_wake and wake")
                theirs[adapter.name] = adapter
            if taken := theirs.keys() & found.keys():
                raise ValueError(f"other adapters have these names: {sorted(taken)}")
            found |= theirs
        except Exception as trouble:
            why = {"plugin": name, "why": repr(trouble)}
            log.error("skipped a broken plugin", extra=why, exc_info=True)
    return list(found.values())
