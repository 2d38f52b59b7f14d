"""Labels: what is written on a token, held against whose token it is.

A label is display text and decides nothing. So one that does not mention its own agent misleads
whoever reads it, whether or not it names another, and is pointed out until it is put right.
"""

import re
from collections.abc import Iterable

from interlock.contracts.addresses import address
from interlock.kernel.moment import State

_WORD = re.compile(r"[^\W_]+")


def mentions(label: str, names: Iterable[str]) -> bool:
    """Whether one of the names stands in the label, as whole words, however they are joined:
    `neo-gpt`, `Neo GPT` and `NeoGPT` are the same, and `Ottoman` does not mention `otto`."""
    return not _runs(label).isdisjoint(map(run_together, names))


def run_together(name: str) -> str:
    """A name without regard to case and to what joins its words."""
    return "".join(_words(name))


def _words(text: str) -> list[str]:
    if not text.isascii():
        import unicodedata  # few labels need it

        text = unicodedata.normalize("NFKC", text)
    return _WORD.findall(text.casefold())


def _runs(label: str) -> set[str]:
    """Whatever can be read in a label from the beginning of a word to the end of one."""
    words = _words(label)
    ends = range(1, len(words) + 1)
    return {"".join(words[start:end]) for end in ends for start in range(end)}


class Known:
    """What everybody goes by: agents' names, their senders', and how they are shown to people.
    Read once for many labels; names that are about to be known can be added."""

    def __init__(self, state: State) -> None:
        self._agents: dict[str, set[str]] = {}
        self._agent_of: dict[str, str] = {}
        for agent, sender in state.execute("SELECT agent, sender FROM identity_senders"):
            self.add(agent, sender)
        for agent, display in state.execute("SELECT agent, display FROM identity_displays"):
            self.show(agent, display)

    def add(self, agent: str, sender: str) -> None:
        self._agent_of[sender] = agent
        self.show(agent, agent)
        self.show(agent, sender)

    def show(self, agent: str, name: str) -> None:
        self._agents.setdefault(run_together(name), set()).add(agent)

    def agent_of(self, sender: str) -> str:
        """Whose surface a sender is; a name that nobody has is an agent's own."""
        return self._agent_of.get(sender, sender)

    def agents_called(self, name: str) -> set[str]:
        return self._agents.get(run_together(name), set())

    def named(self, label: str) -> dict[str, str]:
        """The agents that a label mentions, each with its longest name there, run together."""
        found: dict[str, str] = {}
        for run in sorted(_runs(label) & self._agents.keys(), key=len):
            found |= dict.fromkeys(self._agents[run], run)
        return found

    def the_one_named(self, label: str) -> str | None:
        """The agent that a label names, if it is one alone. Of two names of which one is a part
        of the other, as `neo` of `neo-gpt`, the longer is meant."""
        found = self.named(label)
        longest = max(found.values(), key=len, default="")
        meant = [who for who, name in found.items() if name == longest or name not in longest]
        return meant[0] if len(meant) == 1 else None

    def contradiction(self, sender: str, label: str | None) -> str | None:
        """What is wrong with the label of a token of this sender, in a sentence; None where there
        is no label, or it mentions the sender's agent."""
        agent = self.agent_of(sender)
        if label is None or agent in self.named(label) or mentions(label, [sender]):
            return None
        other = self.the_one_named(label)
        says = "does not mention" if other is None else f"names {address(other)} and not"
        return (
            f"The label {label!r} {says} {address(agent)}, but the token is {address(sender)}'s: "
            f"whoever holds it acts as {address(sender)}."
        )


def contradiction(state: State, sender: str, label: str | None) -> str | None:
    """As with `Known.contradiction`, for a single label."""
    return Known(state).contradiction(sender, label) if label is not None else None


def remedy(id: str, sender: str) -> str:
    """What puts a contradiction right where the identity is as it should be."""
    return f"interlock token label {id} {sender}"
