"""Wake adapters: ways to tell an idle agent that it has mail. They are plugins, ours included.

The stored message is the truth and a wake is a hint: what an adapter does may be lost, and must do
no harm. Whom to wake, for what and how often is the node's to decide; an adapter only carries a
line that Interlock made, and never a message's text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pluggy

PROJECT = "interlock"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

# What `wake.toml` says, checked: see `interlock.agents.wake.configuration`.
Config = Mapping[str, Any]


class Window(NamedTuple):
    """A running client of a sender, as its hooks told of it. `ways` are addresses at which it may
    be woken, by the name of the adapter that understands each; where `client` and `pid` are not
    known they are None. A sender's own `ways`, without a running client, come with `session` None.
    """

    sender: str
    session: str | None
    client: str | None
    pid: int | None
    ways: dict[str, dict[str, str]]


@dataclass(frozen=True)
class Pointer:
    """What an idle agent is told: one line of plain text, and how many messages it stands for."""

    text: str
    count: int
    ids: tuple[str, ...]


class NotWoken(Exception):
    """The adapter is certain that nobody was told; says why, in a sentence for people."""


class InDoubt(Exception):
    """The agent may have been told, or may not; says what was seen, in a sentence for people."""


class Adapter(Protocol):
    """One way to wake. `name` is written into the receipts. One that has `is_sure` as False may
    try, and nobody is shown as reachable by it."""

    name: str

    def can_wake(self, window: Window) -> bool:
        """Whether this adapter could try, judged by what is known and without any effect."""

    def wake(self, window: Window, pointer: Pointer) -> None:
        """Tells the agent, within a few seconds, or raises `NotWoken` where it certainly did not.
        Called in a thread of its own. Anything else that is raised, `InDoubt` or not, leaves the
        wake in doubt: it is marked as unknown, and not repeated."""


@hookspec
def interlock_wake_adapters(config: Config) -> list[Adapter]:
    """The adapters of this plugin. Interlock calls the hook again when `wake.toml` has changed.
    `config` is the content of the file; the plugin's own table is
    `config["plugins"].get(NAME, {})`."""
    raise NotImplementedError
