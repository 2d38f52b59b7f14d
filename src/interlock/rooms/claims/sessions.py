"""The claims of a session: kept while its client lives, released when it ends."""

from interlock.rooms.claims.queue import leave, serve
from interlock.rooms.claims.records import Claim, held, live
from interlock.rooms.transaction import Transaction
from interlock.rooms.workspace.rules import is_paused


def holds(tx: Transaction, session: str | None) -> list[Claim]:
    """The caller's live claims in a session, or outside any."""
    return live(tx, "sender = ? AND session IS ?", tx.caller.sender, session)


def keep(tx: Transaction, session: str | None) -> list[Claim]:
    """Renew the caller's claims in a session. A claim is renewed when half of its lease is over."""
    for claim in holds(tx, session):
        if is_due(tx, claim) and not is_paused(tx.state):
            extended = {"id": claim.id, "ttl": claim.ttl, "expires_at": tx.now + claim.ttl}
            tx.append("claim_extended", extended)
    return holds(tx, session)


def give_up(tx: Transaction, session: str) -> list[Claim]:
    """Release the caller's claims in a session, and leave every queue."""
    given_up = held(tx, "sender = ? AND session = ?", tx.caller.sender, session)
    for claim in given_up:
        tx.append("claim_released", {"id": claim.id, "reason": "session ended"})
    tx.caller = tx.caller._replace(session=session)
    leave(tx)
    if given_up:
        serve(tx)
    return given_up


def due(tx: Transaction) -> list[tuple[str, str | None]]:
    """The senders and sessions whose claims must be renewed now, if they are alive."""
    found = [claim for claim in live(tx) if is_due(tx, claim)]
    return list(dict.fromkeys((claim.sender, claim.session) for claim in found))


def is_due(tx: Transaction, claim: Claim) -> bool:
    return claim.expires_at - tx.now < claim.ttl // 2
