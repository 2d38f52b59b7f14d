"""What happens in an agent's client, in our words, and what is said about it in the client's own.

A client runs `interlock hook CLIENT EVENT` with JSON on standard input. Its module here knows which
of its events are which step, where in the JSON things stand, and the exact form of the answers it
accepts. Nothing here looks at a workspace: what is said at a step is the node's to decide.
"""

from typing import Any, NamedTuple, Protocol

from interlock.agents import CLIENTS
from interlock.errors import Usage
from interlock.verbs.spelling import near


class Step(NamedTuple):
    """What has come to pass in a client's session.

    `kind` is `start` (also after a compaction), `prompt` (before the agent sees what a person
    typed), `edit` (before a tool that changes files), `tool` (after a tool), `stop` (the agent
    would end its turn), `rest` (its turn was broken off or failed), `end` (the session is over) or
    `other`, at which there is nothing to say.
    `paths` are the files that an edit would change, as the client names them: absolute, or from
    `cwd`. `held` is how often in a row the client says that a hook kept the agent from stopping.
    `forgets` is true where the agent's context is about to be shortened by a client that reports no
    start afterwards: what was said at the start is due again at the next step that takes words."""

    kind: str
    session: str | None = None
    cwd: str | None = None
    paths: tuple[str, ...] = ()
    held: int = 0
    forgets: bool = False


class Said(NamedTuple):
    """What a client is to be told: text for the agent's context, or why an edit is denied, or what
    the agent should see to before it stops. Nothing of it where there is nothing."""

    context: str | None = None
    denial: str | None = None
    hold: str | None = None


NOTHING = Said()


class Client(Protocol):
    """A client's forms.

    `EVENTS` says which step each of its events is. `CONTEXT` are the events at which it hands text
    to the agent; at others, context is left out, so nothing counts as shown there. A denial is
    taken wherever the step is `edit`, a hold wherever it is `stop`.

    `decode` refuses bad input with `ValueError`, which says what is wrong in a sentence. `encode`
    refuses nothing, so that `encode(event, NOTHING)` is the answer that does no harm, whatever went
    wrong before. It is not always an empty object: Cursor takes silence before a tool for a no."""

    EVENTS: dict[str, str]
    CONTEXT: frozenset[str]

    def decode(self, event: str, given: dict[str, Any]) -> Step: ...

    def encode(self, event: str, said: Said) -> dict[str, Any]: ...


def client_of(name: str) -> Client:
    """The forms of a client, imported on demand."""
    if name not in CLIENTS:
        raise Usage(
            f"There is no client {name[:80]!r}. There are: {', '.join(sorted(CLIENTS))}.",
            did_you_mean=near(name, list(CLIENTS)) or None,
        )
    module: Client = __import__(
        f"interlock.agents.{name.replace('-', '_')}.hooks", fromlist=["decode"]
    )
    return module
