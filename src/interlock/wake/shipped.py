"""The adapters that come with Interlock, as a plugin like any other."""

from interlock.wake import Adapter, Config
from interlock.wake.codex import Codex
from interlock.wake.command import Command
from interlock.wake.plugins import hookimpl
from interlock.wake.tmux import Tmux


@hookimpl
def interlock_wake_adapters(config: Config) -> list[Adapter]:
    adapters: list[Adapter] = []
    if config["tmux"]:
        adapters.append(Tmux())
    if config["commands"]:
        adapters.append(Command(config["commands"]))
    if config["codex"]:
        adapters.append(Codex())
    return adapters
