"""Labels: what is written on a token, held against whose token it is.

A label is display text and decides nothing. So one that does not mention its own agent misleads
whoever reads it, whether or not it names another, and is pointed out until it is put right.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping

from interlock.contracts.addresses import address
from interlock.kernel.identity.names import agent_of
from interlock.kernel.moment import State

_WORD = re.compile(r"[^\W_]+")

# What agents go by, for each of them: their own names, those of their senders, and how they are
# shown to people.
Known = Mapping[str, Iterable[str]]


def mentions(label: str, names: Iterable[str]) -> bool:
    """Whether one of the names stands in the label, as whole words, however they are joined:
    `neo-gpt`, `Neo GPT` and `NeoGPT` are the same, and `Ottoman` does not mention `otto`."""
    return _mentioned(label, names) != ""


def _mentioned(label: str, names: Iterable[str]) -> str:
    """The longest of the names that the label mentions, run together; empty if it does none."""
    words = _words(label)
    runs = {
        "".join(words[start:stop])
        for start in range(len(words))
        for stop in range(start + 1, len(words) + 1)
    }
    found = [name for name in map(_run_together, names) if name in runs]
    return max(found, key=len, default="")


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def _run_together(name: str) -> str:
    return "".join(_words(name))


def names_of(state: State, agent: str, sender: str) -> list[str]:
    """What a label of this sender's token may mention."""
    shown = state.execute("SELECT display FROM identity_displays WHERE agent = ?", (agent,))
    return [agent, sender, *(row[0] for row in shown)]


def known_agents(state: State) -> dict[str, list[str]]:
    """Every agent, with what it goes by."""
    rows = state.execute(
        "SELECT name, name FROM identity_agents UNION SELECT agent, sender FROM identity_senders "
        "UNION SELECT agent, display FROM identity_displays ORDER BY 1, 2"
    )
    known: dict[str, list[str]] = {}
    for agent, name in rows:
        known.setdefault(agent, []).append(name)
    return known


def other_agent(label: str, agent: str, known: Known) -> str | None:
    """The one other agent that a label names, if it is one alone. Of two names of which one is a
    part of the other, as `neo` of `neo-gpt`, the longer is meant."""
    found = {other: _mentioned(label, names) for other, names in known.items() if other != agent}
    longest = max(found.values(), key=len, default="")
    meant = [other for other, name in found.items() if name and name not in longest[:-1]]
    meant = [other for other in meant if found[other] == longest or found[other] not in longest]
    return meant[0] if len(meant) == 1 else None


def contradiction(state: State, sender: str, label: str | None) -> str | None:
    """What is wrong with the label of a token of this sender, in a sentence; None where there is
    no label, or it agrees."""
    agent = agent_of(state, sender)
    if label is None or mentions(label, names_of(state, agent, sender)):
        return None
    return sentence(label, sender, agent, other_agent(label, agent, known_agents(state)))


def sentence(label: str, sender: str, agent: str, other: str | None) -> str:
    """How a contradiction is told, wherever it is found."""
    named = f"names {address(other)}" if other is not None else "names nobody"
    called = agent if agent == sender else f"{agent} or {sender}"
    return (
        f"The label {label!r} {named} and does not mention {called}, but the token is "
        f"{address(sender)}'s: whoever holds it acts as {address(sender)}."
    )
