"""The plugin with the wake adapters that ship with Interlock."""

from interlock.plugins import Adapter, Config, hookimpl


@hookimpl
def interlock_wake_adapters(config: Config) -> list[Adapter]:
    from interlock.agents.codex.wake import Codex
    from interlock.agents.wake.command import Command
    from interlock.agents.wake.tmux import Tmux

    adapters: list[Adapter] = []
    if config["tmux"]:
        adapters.append(Tmux())
    if config["commands"]:
        adapters.append(Command(config["commands"]))
    if config["codex"]:
        adapters.append(Codex())
    return adapters
