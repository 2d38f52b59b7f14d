"""Events: the facts of the log as they are told to those whom they concern.

An event says what happened and to what; bodies are fetched by whoever may read them. Mail is told
to those who sent or received it, refusals and tokens to admins, the rest to everyone here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.log.facts import Header
from interlock.log.times import rfc3339
from interlock.rooms.identity.names import agent_of
from interlock.rooms.mail.records import envelope, from_fact
from interlock.rooms.transaction import RuleAnswer, State
from interlock.verbs.addresses import address
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    pass

ADMINS = "scope:admin"
SCANNED_AT_ONCE = 5000
# After these, whoever follows must show again who it is.
IDENTITY_KINDS = (
    *("token_revoked", "token_minted", "token_rebound", "connection_refreshed"),
    *("epoch_started", "workspace_created"),
)
_OF_A_WAKE = ("id", "sender", "adapter", "expires_at", "outcome", "why")
_FOR_ADMINS = (
    *("request_refused", "token_minted", "token_revoked", "token_reaffirmed", "token_imported"),
    *("token_rebound", "token_labelled", "person_invited", "invitation_accepted", "agent_owned"),
    "invitation_withdrawn",
    *("password_set", "person_locked_out"),
    *("connection_granted", "connection_opened", "connection_refreshed"),
    "connection_named",
)
# What proves something to whoever holds the other half of it.
_HIDDEN = ("hash", "code_hash", "refresh_hash", "challenge", "proof")


class Event(NamedTuple):
    """`audience` holds the names of those whom it concerns; None is everyone."""

    seq: int
    kind: str
    audience: frozenset[str] | None
    data: RuleAnswer

    def concerns(self, names: frozenset[str]) -> bool:
        return self.audience is None or not self.audience.isdisjoint(names)


def viewer_names(sender: str, agent: str, scopes: Iterable[str]) -> frozenset[str]:
    """The names under which events concern somebody."""
    return frozenset({sender, agent, *([ADMINS] if "admin" in scopes else [])})


def event(state: State, fact: Header) -> Event:
    audience: frozenset[str] | None = None
    told: dict[str, Any] = {}
    if fact.kind == "message_sent":
        told = {"message": envelope(from_fact(fact), None)}
        audience = frozenset({*fact.outcome["deliveries"], *_both(state, fact.sender)})
    elif fact.kind == "mail_moved":
        audience, told = _moved(state, fact)
    elif fact.kind in ("wake_begun", "wake_ended"):
        audience = frozenset({*_both(state, fact.outcome["sender"]), ADMINS})
        told = dict(_shown(name, fact.outcome[name]) for name in _OF_A_WAKE if name in fact.outcome)
    else:
        shown = {name: value for name, value in fact.outcome.items() if name not in _HIDDEN}
        told = dict(_shown(name, value) for name, value in shown.items())
        if fact.kind in _FOR_ADMINS:
            audience = frozenset({ADMINS})
    head = without_none(
        seq=fact.seq,
        at=rfc3339(fact.at),
        kind=fact.kind,
        by=address(fact.sender),
        session=fact.session,
    )
    # An outcome may have members of these names too: an agent's kind, a claim's session.
    return Event(fact.seq, fact.kind, audience, told | head)


def _shown(name: str, value: Any) -> tuple[str, Any]:
    """A member of a fact's outcome as doors show it: times and addresses as everywhere."""
    if name == "until":
        return name, rfc3339(value)
    if name in ("expires_at", "lease"):
        return "expires_at", rfc3339(value)
    if name in ("code_expires_at", "refresh_expires_at"):
        return name, rfc3339(value)
    if name == "ttl":
        return "ttl_s", value // 1000
    if name in ("sender", "holder", "target") and isinstance(value, str):
        return name, address(value)
    return name, value


def _moved(state: State, fact: Header) -> tuple[frozenset[str], dict[str, Any]]:
    """Receipts, told to the messages' senders and recipients."""
    names: set[str] = set()
    deliveries = []
    for seq, recipient in fact.outcome["items"]:
        row = state.execute("SELECT id, sender FROM mail_messages WHERE seq = ?", (seq,)).fetchone()
        names |= {recipient, *_both(state, row[1])}
        deliveries.append({"id": row[0], "seq": seq, "recipient": address(recipient)})
    return frozenset(names), {"state": fact.outcome["state"], "deliveries": deliveries}


def _both(state: State, sender: str) -> tuple[str, str]:
    return sender, agent_of(state, sender)
