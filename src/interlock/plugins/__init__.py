"""The contract of plugins: wake adapters, which tell an idle agent that it has mail.

A wake is only a hint, because the message is stored. A wake may get lost, and must do no harm. The
node decides which agent to wake, for which mail, and how often. An adapter passes on a line that
Interlock made, and never the text of a message.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pluggy

PROJECT = "interlock"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

# The validated content of `wake.toml`: see `interlock.agents.wake.configuration`.
Config = Mapping[str, Any]


class Window(NamedTuple):
    """A running client of a sender, as its hooks described it. `ways` maps the name of an adapter
    to the address at which it can wake the client. Unknown `client` and `pid` are None. A window
    with `session` None stands for the sender itself, without a running client."""

    sender: str
    session: str | None
    client: str | None
    pid: int | None
    ways: dict[str, dict[str, str]]


@dataclass(frozen=True)
class Pointer:
    """The notice for an idle agent: one line of plain text, and the number and ids of the messages
    that it points to."""

    text: str
    count: int
    ids: tuple[str, ...]


class NotWoken(Exception):
    """The agent certainly did not get the pointer. The message is a sentence for people with the
    reason."""


class InDoubt(Exception):
    """The agent may have got the pointer. The message is a sentence for people."""


class Adapter(Protocol):
    """A way to wake agents. Receipts contain its `name`. If an adapter sets `is_sure` to False,
    Interlock uses it, but does not count a sender as reachable by it."""

    name: str

    def can_wake(self, window: Window) -> bool:
        """Return whether this adapter could wake the window. Must have no side effects."""

    def wake(self, window: Window, pointer: Pointer) -> None:
        """Pass the pointer to the agent within a few seconds. Interlock calls this method in a
        separate thread. Raise `NotWoken` if the agent certainly did not get the pointer. After any
        other exception, such as `InDoubt`, the outcome is unknown, and Interlock does not retry the
        wake."""


@hookspec
def interlock_wake_adapters(config: Config) -> list[Adapter]:
    """Return the adapters of this plugin. Interlock calls the hook again after `wake.toml` has
    changed. `config` is the content of the file. The plugin's own table is
    `config["plugins"].get(NAME, {})`."""
    raise NotImplementedError
