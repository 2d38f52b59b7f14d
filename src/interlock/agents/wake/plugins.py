"""Where wake adapters come from: our own, and those of packages that are installed beside us.

The contract that a plugin signs is in docs/plugins.md. A plugin that is broken is reported in the
log, with its name; the others go on without it.
"""

import importlib
import logging
from importlib import metadata
from typing import Any

import pluggy

from interlock import plugins
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
        """As `wake.toml` says now. While it says what is not understood, they stay as they were;
        what is wrong is logged once."""
        found = version(self._directory)
        if found != self._read:
            self._read = found
            try:
                self._adapters = adapters(read(self._directory))
            except Usage as refusal:
                log.error("wake.toml is not followed", extra={"why": refusal.message})
        return self._adapters


def adapters(config: Config) -> list[Adapter]:
    """Of all plugins, ours first. A plugin whose adapter goes by a name that another's has is left
    out: a receipt must say which of them it was."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(plugins)
    _register(manager, "interlock", importlib.import_module("interlock.agents.wake.shipped"))
    for point in metadata.entry_points(group=GROUP):
        try:
            _register(manager, point.name, point.load())
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


def _register(manager: pluggy.PluginManager, name: str, plugin: Any) -> None:
    """Refused where a hook of the plugin's is none of ours: it is misspelt, and would be silent."""
    try:
        manager.register(plugin, name=name)
        manager.check_pending()
    except pluggy.PluginValidationError:
        manager.unregister(plugin)
        raise


def _asked(manager: pluggy.PluginManager, plugin: Any, config: Config) -> list[Adapter]:
    """One plugin alone, since the first that raises would take the others' answers along."""
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
