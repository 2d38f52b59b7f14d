"""Labels of tokens, compared with the agents that the tokens belong to.

A label is display text and decides nothing. A label that does not mention its own agent misleads
its readers, so Interlock reports it until the label or the sender is changed.
"""

import json
import re
import shlex
from collections.abc import Iterable
from itertools import combinations

from interlock.errors import Remedy, message
from interlock.rooms.identity.verbs import LabelToken
from interlock.rooms.transaction import FoldedState, Transaction
from interlock.verbs.addresses import address

_WORD = re.compile(r"[^\W_]+")
_Span = tuple[int, int]


def mentions(label: str, names: Iterable[str]) -> bool:
    """Whether the label mentions one of the names, as whole words in any spelling. `neo-gpt`,
    `Neo GPT` and `NeoGPT` are the same, and `Ottoman` does not mention `otto`."""
    return not set(_runs(label).values()).isdisjoint(map(run_together, names))


def run_together(name: str) -> str:
    """The words of a name in lower case, without separators."""
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
        """The agent of a sender. An unregistered name is its own agent."""
        return self._agent_of.get(sender, sender)

    def agents_called(self, name: str) -> set[str]:
        return self._agents.get(run_together(name), set())

    def named(self, label: str) -> set[str]:
        """The agents that a label mentions. Where one name is part of a longer one, such as `neo`
        of `neo-gpt`, the longer one counts."""
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
        """Say how a label contradicts the sender of its token. Return None without a label, or if
        the label mentions the sender's agent."""
        agent = self.agent_of(sender)
        if label is None or agent in self.named(label):
            return None
        if sender not in self._agent_of and mentions(label, [sender]):
            return None
        other = self.the_one_named(label)
        says = "does not mention" if other is None else f"names {address(other)} and not"
        return (
            f"The label {label!r} {says} {address(agent)}, but the token belongs to "
            f"{address(sender)}. A caller with this token acts as {address(sender)}."
        )


def remedy(id: str, sender: str) -> Remedy:
    """Correct the label of a token that has the right sender."""
    return Remedy(f"interlock token label {id} {sender}", LabelToken(id, sender))


def remapped(agent: str, *labels: str) -> Remedy:
    """Import the tokens of right labels for another agent than their rows name."""
    flags = " ".join(f"--map {shlex.quote(f'{label}={agent}')}" for label in labels)
    field = json.dumps(dict.fromkeys(labels, agent), ensure_ascii=False)
    return Remedy(flags, http=f'`"map": {field}`')


def ways_out(tx: Transaction, known: Known, id: str, sender: str, label: str, seq: int) -> str:
    """Say how to make the label and the sender of a token agree, by a change of either. `seq` is
    the position of the fact that made the token."""
    relabel = remedy(id, sender)
    other = known.the_one_named(label)
    if other is None:
        return either((sender, relabel))
    came = next(iter(tx.store.facts(seq - 1)), None)
    if came is not None and came.kind == "token_imported":
        map = remapped(other, label)
        rebind = Remedy(
            f"interlock token import FILE {map} --apply",
            http=f'`POST /v1/tokens/import` with {map.http} and `"apply": true`',
        )
    else:
        name = known.called(other)
        rebind = Remedy(
            f"interlock token mint --sender {name} && interlock token revoke {id}",
            http=f'`POST /v1/tokens {{"sender": "{name}"}}` and '
            f'`POST /v1/tokens/revoke {{"id": "{id}"}}`',
        )
    return either((other, rebind), (sender, relabel))


def either(*ways: tuple[str, str]) -> str:
    """Join remedies, each with the sender that the token belongs to if the remedy is right."""
    (sender, first), *others = ways
    parts = [f"If it should belong to {address(sender)}:", first]
    for sender, way in others:
        parts += [f"— or, if it should belong to {address(sender)}:", way]
    return message(*parts)
