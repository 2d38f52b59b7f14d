"""Labels: what is written on a token, held against whose token it is.

A label is display text and decides nothing. So one that does not mention its own agent misleads
whoever reads it, whether or not it names another, and is pointed out until it is put right.
"""

import re
import shlex
from collections.abc import Iterable
from itertools import combinations

from interlock.rooms.transaction import State, Transaction
from interlock.verbs.addresses import address

_WORD = re.compile(r"[^\W_]+")
_Span = tuple[int, int]


def mentions(label: str, names: Iterable[str]) -> bool:
    """Whether one of the names stands in the label, as whole words, however they are joined:
    `neo-gpt`, `Neo GPT` and `NeoGPT` are the same, and `Ottoman` does not mention `otto`."""
    return not set(_runs(label).values()).isdisjoint(map(run_together, names))


def run_together(name: str) -> str:
    """A name without regard to case and to what joins its words."""
    return "".join(_words(name))


def _words(text: str) -> list[str]:
    if not text.isascii():
        import unicodedata  # few labels need it

        text = unicodedata.normalize("NFKC", text)
    return _WORD.findall(text.casefold())


def _runs(label: str) -> dict[_Span, str]:
    """Whatever can be read in a label from the beginning of a word to the end of one, and from
    which word to which."""
    words = _words(label)
    spans = combinations(range(len(words) + 1), 2)
    return {(start, end): "".join(words[start:end]) for start, end in spans}


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

    def named(self, label: str) -> set[str]:
        """The agents that a label mentions. Of two names of which one is a part of the other where
        they stand, as `neo` of `neo-gpt`, the longer is meant."""
        found = {
            span: self._agents[run] for span, run in _runs(label).items() if run in self._agents
        }
        return {
            agent
            for span, agents in found.items()
            for agent in agents
            if not any(agent not in found[other] for other in found if _is_within(span, other))
        }

    def the_one_named(self, label: str) -> str | None:
        """The agent that a label names, if it is one alone."""
        found = self.named(label)
        return found.pop() if len(found) == 1 else None

    def called(self, agent: str) -> str:
        """A sender of an agent's: itself, if it is one."""
        own = sorted(sender for sender, whose in self._agent_of.items() if whose == agent)
        return agent if agent in own or not own else own[0]

    def contradiction(self, sender: str, label: str | None) -> str | None:
        """What is wrong with the label of a token of this sender, in a sentence; None where there
        is no label, or it mentions the sender's agent."""
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


def _is_within(span: _Span, other: _Span) -> bool:
    return span != other and other[0] <= span[0] and span[1] <= other[1]


def remedy(id: str, sender: str) -> str:
    """What puts a contradiction right where the identity is as it should be."""
    return f"interlock token label {id} {sender}"


def remapped(label: str, agent: str) -> str:
    """What puts it right in an import where the label is as it should be."""
    return f"--map {shlex.quote(f'{label}={agent}')}"


def ways_out(tx: Transaction, known: Known, id: str, sender: str, label: str, seq: int) -> str:
    """The one field that puts a contradiction right, in either direction; `seq` is where the log
    says how the token came here."""
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
