"""Labels of tokens, compared with the agents that the tokens belong to.

A label is display text and decides nothing. A label that does not mention its own agent misleads
its readers, so Interlock reports it until the label or the sender is changed.
"""

import re
import shlex
from collections.abc import Iterable
from itertools import combinations

from interlock.rooms.transaction import FoldedState, Transaction
from interlock.verbs.addresses import address

_WORD = re.compile(r"[^\W_]+")
_Span = tuple[int, int]


def mentions(label: str, names: Iterable[str]) -> bool:
    """Whether the label mentions one of the names, as whole words in any spelling: `neo-gpt`,
    `Neo GPT` and `NeoGPT` are the same, and `Ottoman` does not mention `otto`."""
    return not set(_runs(label).values()).isdisjoint(map(run_together, names))


def run_together(name: str) -> str:
    """The words of a name in lower case, without what joins them."""
    return "".join(_words(name))


def _words(text: str) -> list[str]:
    if not text.isascii():
        import unicodedata  # few labels need it

        text = unicodedata.normalize("NFKC", text)
    return _WORD.findall(text.casefold())


def _runs(label: str) -> dict[_Span, str]:
    """Each run of consecutive words of a label, joined, by its first word and the word after it."""
    words = _words(label)
    spans = combinations(range(len(words) + 1), 2)
    return {(start, end): "".join(words[start:end]) for start, end in spans}


class Known:
    """The names of all agents: their own, those of their senders, and their display names. Read
    once for many labels. An import adds the names that it will register."""

    def __init__(self, state: FoldedState) -> None:
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
        """The agent of a sender; an unregistered name is an agent's own."""
        return self._agent_of.get(sender, sender)

    def agents_called(self, name: str) -> set[str]:
        return self._agents.get(run_together(name), set())

    def named(self, label: str) -> set[str]:
        """The agents that a label mentions. Where one name is a part of another, as `neo` of
        `neo-gpt`, the longer one counts."""
        found = {
            span: self._agents[run] for span, run in _runs(label).items() if run in self._agents
        }
        mentioned = set()
        for start, end in found:
            longer = [
                agents
                for other, agents in found.items()
                if other != (start, end) and other[0] <= start and end <= other[1]
            ]
            mentioned |= found[start, end].intersection(*longer)
        return mentioned

    def the_one_named(self, label: str) -> str | None:
        """The agent that a label mentions, if it is only one."""
        found = self.named(label)
        return found.pop() if len(found) == 1 else None

    def called(self, agent: str) -> str:
        """A sender of an agent: the agent itself, if it is one."""
        own = sorted(sender for sender, whose in self._agent_of.items() if whose == agent)
        return agent if agent in own or not own else own[0]

    def contradiction(self, sender: str, label: str | None) -> str | None:
        """A sentence about a label that contradicts the sender of its token; None without a label,
        or if the label mentions the sender's agent."""
        agent = self.agent_of(sender)
        if label is None or agent in self.named(label):
            return None
        if sender not in self._agent_of and mentions(label, [sender]):
            return None
        other = self.the_one_named(label)
        says = "does not mention" if other is None else f"names {address(other)} and not"
        return (
            f"The label {label!r} {says} {address(agent)}, but the token is {address(sender)}'s: "
            f"whoever holds it acts as {address(sender)}."
        )


def remedy(id: str, sender: str) -> str:
    """The command that corrects a label, where the token has the right sender."""
    return f"interlock token label {id} {sender}"


def remapped(label: str, agent: str) -> str:
    """The flag of an import that corrects the agent, where the label is right."""
    return f"--map {shlex.quote(f'{label}={agent}')}"


def ways_out(tx: Transaction, known: Known, id: str, sender: str, label: str, seq: int) -> str:
    """How to make the label and the sender of a token agree, by a change of either. `seq` is the
    position of the fact that made the token."""
    relabel = f"If it is {address(sender)}'s: {remedy(id, sender)}"
    other = known.the_one_named(label)
    if other is None:
        return f"{relabel}."
    came = next(iter(tx.store.facts(seq - 1)), None)
    if came is not None and came.kind == "token_imported":
        rebind = f"interlock token import FILE {remapped(label, other)} --apply"
    else:
        mint = f"interlock token mint --sender {known.called(other)}"
        rebind = f"{mint} && interlock token revoke {id}"
    return f"If it is {address(other)}'s: {rebind}. {relabel}."
