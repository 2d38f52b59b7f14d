"""Load the wake adapters: our own, and those of installed packages.

docs/plugins.md has the contract of a plugin. A broken plugin is reported in the log with its name,
and left out.
"""

import logging
from importlib import metadata
from typing import Any

import pluggy

from interlock import plugins
from interlock.agents import wake
from interlock.agents.wake.configuration import Version, read, version
from interlock.errors import Usage
from interlock.plugins import PROJECT, Adapter, Config, interlock_wake_adapters

GROUP = "interlock.plugins"

log = logging.getLogger("interlock.plugins")


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
    """The adapters of all plugins, ours first. A plugin whose adapter has the name of an earlier
    one is left out, because a receipt must say which adapter it was."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(plugins)
    manager.register(wake, name="interlock")
    for point in metadata.entry_points(group=GROUP):
        try:
            plugin = point.load()
            manager.register(plugin, name=point.name)
            try:
                manager.check_pending()
            except pluggy.PluginValidationError:
                manager.unregister(plugin)  # a misspelt hook would never be called
                raise
        except Exception as trouble:  # noqa: BLE001 - it may raise anything
            _report(point.name, trouble)
    found: dict[str, Adapter] = {}
    for name, plugin in manager.list_name_plugin():
        try:
            theirs = {_name(adapter): adapter for adapter in _asked(manager, plugin, config)}
            if taken := theirs.keys() & found.keys():
                raise ValueError(f"there are adapters of these names already: {sorted(taken)}")
            found |= theirs
        except Exception as trouble:  # noqa: BLE001 - it may raise anything
            _report(name, trouble)
    return list(found.values())


def _asked(manager: pluggy.PluginManager, plugin: Any, config: Config) -> list[Adapter]:
    """Ask one plugin only: the first plugin that raises would lose the answers of the others."""
    others = [each for each in manager.get_plugins() if each is not plugin]
    call = manager.subset_hook_caller(interlock_wake_adapters.__name__, others)
    return [adapter for given in call(config=config) for adapter in given]


def _name(adapter: Adapter) -> str:
    if not (
        isinstance(adapter.name, str) and callable(adapter.can_wake) and callable(adapter.wake)
    ):
        raise TypeError("an adapter has a name, can_wake and wake")
    return adapter.name


def _report(name: str, trouble: Exception) -> None:
    log.error("a plugin is left out", extra={"plugin": name, "why": repr(trouble)}, exc_info=True)
