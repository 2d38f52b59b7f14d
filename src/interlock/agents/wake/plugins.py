"""Load the wake adapters: our own, and those of installed packages.

docs/plugins.md has the contract of a plugin. A broken plugin is reported in the log with its name,
and left out.
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
    """The adapters of a workspace. For one thread."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._read: Version | bool = False
        self._adapters: list[Adapter] = []

    def now(self) -> list[Adapter]:
        """The adapters that `wake.toml` switches on now. While the file is invalid, they stay as
        they were; the error is logged once."""
        found = version(self._directory)
        if found != self._read:
            self._read = found
            try:
                self._adapters = adapters(read(self._directory))
            except Usage as refusal:
                log.error("wake.toml is not followed", extra={"why": refusal.message})
        return self._adapters


def adapters(config: Config) -> list[Adapter]:
    """The adapters of all plugins, ours first. A plugin that has the name of an earlier one, or
    an adapter that does, is left out: a receipt must say which adapter it was."""
    found: dict[str, Adapter] = {}
    names: set[str] = set()
    sources: list[tuple[str, Callable[[], Any]]] = [("interlock", lambda: wake)]
    sources += [(point.name, point.load) for point in metadata.entry_points(group=GROUP)]
    for name, load in sources:
        try:
            if name in names:
                raise ValueError(f"another plugin has the name {name} already")
            names.add(name)
            # A manager for each plugin, so that one that raises does not affect the others.
            manager = pluggy.PluginManager(PROJECT)
            manager.add_hookspecs(plugins)
            manager.register(load(), name=name)
            manager.check_pending()  # a misspelt hook would never be called
            theirs: dict[str, Adapter] = {}
            for adapter in chain(*manager.hook.interlock_wake_adapters(config=config)):
                is_text = isinstance(adapter.name, str)
                if not (is_text and callable(adapter.can_wake) and callable(adapter.wake)):
                    raise TypeError("an adapter has a name, can_wake and wake")
                theirs[adapter.name] = adapter
            if taken := theirs.keys() & found.keys():
                raise ValueError(f"there are adapters of these names already: {sorted(taken)}")
            found |= theirs
        except Exception as trouble:
            why = {"plugin": name, "why": repr(trouble)}
            log.error("a plugin is left out", extra=why, exc_info=True)
    return list(found.values())
