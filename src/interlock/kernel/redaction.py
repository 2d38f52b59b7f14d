"""Redaction: a body that should never have been written is erased, and every proof stays valid."""

from interlock.contracts.acts import Redact
from interlock.contracts.encoding import canonical
from interlock.errors import MissingScope, NotFound
from interlock.kernel.identity.names import agent_of
from interlock.kernel.mail.messages import Message, locate
from interlock.kernel.moment import Answer, Moment
from interlock.kernel.work.records import Evidence, find_evidence


def redact(moment: Moment, act: Redact) -> Answer:
    """Removes the body of a message, or what a piece of evidence kept, for ever."""
    admin = "admin" in moment.caller.scopes
    found = _find(moment, act.message, of_all=admin)
    if not admin and agent_of(moment.state, found.sender) != moment.caller.agent:
        raise MissingScope(
            "Only its sender, or a token with the scope admin, can redact it.", scope="admin"
        )
    if not found.redacted:
        moment.record("body_redacted", {"target": found.seq}, canonical({"reason": act.reason}))
        moment.store.forget(found.seq)
    return {"redacted": True, "id": found.id, "seq": found.seq}


def _find(moment: Moment, reference: str, *, of_all: bool) -> Message | Evidence:
    try:
        return locate(moment, reference, of_all=of_all)
    except NotFound as nothing:
        try:
            return find_evidence(moment, reference)
        except NotFound:
            raise nothing from None
