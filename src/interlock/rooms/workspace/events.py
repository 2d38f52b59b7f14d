"""Events: the facts of the log in the form that callers get.

An event has the outcome of a fact, and no body. The kind of the fact declares its audience: the
callers who get the event.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from interlock.log.facts import Header
from interlock.log.times import rfc3339
from interlock.rooms.folding import FACTS, kind_of
from interlock.rooms.mail.records import envelope, from_fact
from interlock.rooms.transaction import ADMINS, FoldedState, RuleAnswer
from interlock.verbs.addresses import address
from interlock.verbs.answers import without_none

SCANNED_AT_ONCE = 5000
# After a fact of these kinds, the node authenticates a caller who follows the events again.
IDENTITY_KINDS = frozenset(kind for kind, declared in FACTS.items() if declared.reauthenticates)


class Event(NamedTuple):
    """`audience` has the names of the callers who get the event. None stands for everyone."""

    seq: int
    kind: str
    audience: frozenset[str] | None
    data: RuleAnswer

    def concerns(self, names: frozenset[str]) -> bool:
        return self.audience is None or not self.audience.isdisjoint(names)


def viewer_names(sender: str, agent: str, scopes: Iterable[str]) -> frozenset[str]:
    """The names of a caller in audiences."""
    return frozenset({sender, agent, *([ADMINS] if "admin" in scopes else [])})


def event(state: FoldedState, fact: Header) -> Event:
    """Return the event of a fact. The state must contain the messages that the fact names."""
    declared, outcome = kind_of(fact), fact.outcome
    shown: dict[str, Any]
    if fact.kind == "message_sent":
        shown = {"message": envelope(from_fact(fact), None)}
    elif fact.kind == "mail_moved":
        deliveries = []
        for seq, recipient in outcome["items"]:
            select = "SELECT id FROM mail_messages WHERE seq = ?"
            (id,) = state.execute(select, (seq,)).fetchone()
            deliveries.append({"id": id, "seq": seq, "recipient": address(recipient)})
        shown = {"state": outcome["state"], "deliveries": deliveries}
    else:
        shown = dict(
            _shown(name, value) for name, value in outcome.items() if name not in declared.hidden
        )
    head = without_none(
        seq=fact.seq,
        at=rfc3339(fact.at),
        kind=fact.kind,
        by=address(fact.sender),
        session=fact.session,
    )
    audience = declared.audience(state, fact)
    # An outcome may have members of the same names, such as an agent's kind. Those of `head` win.
    return Event(fact.seq, fact.kind, audience, shown | head)


def _shown(name: str, value: Any) -> tuple[str, Any]:
    """A member of a fact's outcome, with times and addresses as doors show them."""
    if name == "lease":
        return "expires_at", rfc3339(value)
    if name == "until" or name.endswith("_at"):
        return name, rfc3339(value)
    if name == "ttl":
        return "ttl_s", value // 1000
    if name in ("sender", "holder", "target") and isinstance(value, str):
        return name, address(value)
    return name, value
