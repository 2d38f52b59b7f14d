"""Translate between the hook events of clients and the steps that the node knows.

A client runs `interlock hook CLIENT EVENT` with JSON on standard input. The client's `hooks` module
knows the step of each event, the members of the JSON, and the form of the answers. It does not read
a workspace: the node decides what the client is told.
"""

from typing import Any, Protocol

from interlock.agents import CLIENTS, module_of
from interlock.errors import Usage
from interlock.verbs.record import Record
from interlock.verbs.spelling import near


class Step(Record):
    """An event in a client's session.

    `kind` is `start` (also after a compaction), `prompt` (before the agent sees a person's text),
    `edit` (before a tool that changes files), `tool` (after a tool), `stop` (the agent is about to
    end its turn), `rest` (the turn was interrupted or failed), `end` (the session is over) or
    `other` (nothing to say).
    `paths` are the files that an edit would change, as the client names them: absolute, or relative
    to `cwd`. `held` is how often in a row hooks kept the agent from stopping, says the client.
    `forgets` is true before a compaction by a client that reports no start afterwards: the words of
    the start are due again at the next step that takes words."""

    kind: str
    session: str | None = None
    cwd: str | None = None
    paths: tuple[str, ...] = ()
    held: int = 0
    forgets: bool = False


class HookReply(Record):
    """The words for a client: text for the agent's context, the reason why an edit is denied, or
    what the agent should do before it stops."""

    context: str | None = None
    denial: str | None = None
    hold: str | None = None


NOTHING = HookReply()


class HooksModule(Protocol):
    """The `hooks` module of a client.

    `EVENTS` maps its events to kinds of steps. `CONTEXT` are the events at which it passes text to
    the agent; at others, context is left out, so nothing counts as shown there. The client takes a
    denial at each `edit`, and a hold at each `stop`.

    `decode` raises ValueError for bad input. `encode` raises nothing: `encode(event, NOTHING)` is
    the harmless answer, whatever went wrong before. It is not always an empty object: Cursor takes
    silence before a tool for a no."""

    EVENTS: dict[str, str]
    CONTEXT: frozenset[str]

    def decode(self, event: str, given: dict[str, Any]) -> Step: ...

    def encode(self, event: str, reply: HookReply) -> dict[str, Any]: ...


def client_of(name: str) -> HooksModule:
    """The `hooks` module of a client. Raises Usage."""
    if name not in CLIENTS:
        names = sorted(CLIENTS)
        raise Usage(
            f"There is no client {name[:80]!r}. There are: {', '.join(names)}.",
            did_you_mean=near(name, names) or None,
        )
    module: HooksModule = module_of(name, "hooks")
    return module
