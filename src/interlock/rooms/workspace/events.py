"""Events: the facts of the log, as callers see them whom they concern.

An event has the outcome of a fact, and no body. Mail concerns its sender and its recipients,
refusals and tokens concern admins, and all other events concern every caller.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from interlock.log.facts import Header
from interlock.log.times import rfc3339
from interlock.rooms.identity.names import agent_of
from interlock.rooms.mail.records import envelope, from_fact
from interlock.rooms.transaction import FoldedState, RuleAnswer
from interlock.verbs.addresses import address
from interlock.verbs.answers import without_none

ADMINS = "scope:admin"
SCANNED_AT_ONCE = 5000
# After these, a caller who follows the events must be authenticated again.
IDENTITY_KINDS = (
    *("token_revoked", "token_minted", "token_rebound", "connection_refreshed"),
    *("epoch_started", "workspace_created"),
)
_OF_A_WAKE = ("id", "sender", "adapter", "expires_at", "outcome", "why")
_FOR_ADMINS = (
    *("request_refused", "token_minted", "token_revoked", "token_reaffirmed", "token_imported"),
    *("token_rebound", "token_labelled", "person_invited", "invitation_accepted", "agent_owned"),
    *("invitation_withdrawn", "password_set", "person_locked_out", "connection_granted"),
    *("connection_opened", "connection_refreshed", "connection_named"),
)
# Members that prove something to the holder of a secret.
_HIDDEN = ("hash", "code_hash", "refresh_hash", "challenge", "proof")


class Event(NamedTuple):
    """`audience` has the names whom the event concerns; None stands for everyone."""

    seq: int
    kind: str
    audience: frozenset[str] | None
    data: RuleAnswer

    def concerns(self, names: frozenset[str]) -> bool:
        return self.audience is None or not self.audience.isdisjoint(names)


def viewer_names(sender: str, agent: str, scopes: Iterable[str]) -> frozenset[str]:
    """The names under which events concern a caller."""
    return frozenset({sender, agent, *([ADMINS] if "admin" in scopes else [])})


def event(state: FoldedState, fact: Header) -> Event:
    """The event of a fact. The state must have the messages that the fact is about."""

    def both(sender: str) -> tuple[str, str]:
        return sender, agent_of(state, sender)

    outcome = fact.outcome
    audience: frozenset[str] | None = None
    shown: dict[str, Any] = {}
    if fact.kind == "message_sent":
        audience = frozenset({*outcome["deliveries"], *both(fact.sender)})
        shown = {"message": envelope(from_fact(fact), None)}
    elif fact.kind == "mail_moved":
        names: set[str] = set()
        deliveries = []
        select = "SELECT id, sender FROM mail_messages WHERE seq = ?"
        for seq, recipient in outcome["items"]:
            id, sender = state.execute(select, (seq,)).fetchone()
            names |= {recipient, *both(sender)}
            deliveries.append({"id": id, "seq": seq, "recipient": address(recipient)})
        audience = frozenset(names)
        shown = {"state": outcome["state"], "deliveries": deliveries}
    elif fact.kind in ("wake_begun", "wake_ended"):
        audience = frozenset({*both(outcome["sender"]), ADMINS})
        shown = dict(_shown(name, outcome[name]) for name in _OF_A_WAKE if name in outcome)
    else:
        audience = frozenset({ADMINS}) if fact.kind in _FOR_ADMINS else None
        shown = dict(_shown(*member) for member in outcome.items() if member[0] not in _HIDDEN)
    head = without_none(
        seq=fact.seq,
        at=rfc3339(fact.at),
        kind=fact.kind,
        by=address(fact.sender),
        session=fact.session,
    )
    # An outcome may have members of these names too: an agent's kind, a claim's session.
    return Event(fact.seq, fact.kind, audience, shown | head)


def _shown(name: str, value: Any) -> tuple[str, Any]:
    """A member of a fact's outcome, with times and addresses as doors show them."""
    if name in ("expires_at", "lease"):
        return "expires_at", rfc3339(value)
    if name in ("until", "code_expires_at", "refresh_expires_at"):
        return name, rfc3339(value)
    if name == "ttl":
        return "ttl_s", value // 1000
    if name in ("sender", "holder", "target") and isinstance(value, str):
        return name, address(value)
    return name, value
