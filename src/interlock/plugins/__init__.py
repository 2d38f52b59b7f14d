"""The contract of plugins: wake adapters, which tell an idle agent that it has mail.

The stored message counts, and a wake is only a hint: it may get lost, and must do no harm. The node
decides whom to wake, for what, and how often. An adapter only passes on a line that Interlock made,
and never a message's text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pluggy

PROJECT = "interlock"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

# The content of `wake.toml`, checked: see `interlock.agents.wake.configuration`.
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
    """The words for an idle agent: one line of plain text, and the messages that it is about."""

    text: str
    count: int
    ids: tuple[str, ...]


class NotWoken(Exception):
    """The agent certainly was not told. The message gives the reason, in a sentence for people."""


class InDoubt(Exception):
    """The agent may have been told. The message is a sentence for people."""


class Adapter(Protocol):
    """One way to wake agents. Receipts contain its `name`. An adapter with a false `is_sure` may
    try, but does not make a sender count as reachable."""

    name: str

    def can_wake(self, window: Window) -> bool:
        """Whether this adapter could try. Has no effect."""

    def wake(self, window: Window, pointer: Pointer) -> None:
        """Tell the agent within a few seconds, in a thread of its own. Raises `NotWoken` if the
        agent certainly was not told. After any other exception, such as `InDoubt`, the outcome of
        the wake is unknown, and it is not repeated."""


@hookspec
def interlock_wake_adapters(config: Config) -> list[Adapter]:
    """The adapters of this plugin. Interlock calls the hook again when `wake.toml` has changed.
    `config` is the content of the file; the plugin's own table is
    `config["plugins"].get(NAME, {})`."""
    raise NotImplementedError
