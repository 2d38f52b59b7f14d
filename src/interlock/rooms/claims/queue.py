"""Leases that end, and the queue of waiters for claims.

Waiters are facts in the log. A claim that becomes free goes to the first waiter that can have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.rooms.claims.fold import EPOCH_SHIFT
from interlock.rooms.claims.records import (
    Claim,
    Target,
    Waiter,
    Wish,
    by_id,
    held,
    in_the_way,
    waiters,
    wish_of,
)
from interlock.rooms.transaction import SYSTEM, Transaction
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.rooms.claims.verbs import AcquireClaim

# A waiter asks again every few seconds. The queue skips a waiter that has not asked for this long.
# A claim that is handed to a waiter has a lease of the same length, until the waiter asks again.
WAITER_LEASE_MS = 30_000
MAX_EXPIRED_AT_ONCE = 200


def grant(
    tx: Transaction, target: Target, wish: Wish, ttl: int, *, sender: str | None = None
) -> Claim:
    """Grant the claim, with a fence above every earlier fence. An ended lease on the same item that
    is not recorded yet is recorded first."""
    for ended in held(tx, "item = ? AND expires_at <= ?", target.item, tx.now):
        tx.append("claim_expired", {"id": ended.id}, sender=SYSTEM)
    row = tx.one("SELECT last FROM claims_fence")
    fence = (tx.epoch << EPOCH_SHIFT) | ((row[0] if row else 0) + 1)
    id = tx.new_id()
    granted = {"id": id, "fence": fence, "ttl": ttl, "expires_at": tx.now + ttl}
    outcome = target.outcome() | without_none(**wish._asdict()) | granted
    tx.append("claim_granted", outcome, sender=sender)
    return by_id(tx, id)


def is_due(tx: Transaction) -> bool:
    row = tx.one("SELECT 1 FROM claims_held WHERE expires_at <= ? LIMIT 1", tx.now)
    return row is not None


def expire(tx: Transaction) -> None:
    """Record the leases that have ended, and hand the free targets to waiters."""
    ended = held(tx, "expires_at <= ?", tx.now)[:MAX_EXPIRED_AT_ONCE]
    for claim in ended:
        tx.append("claim_expired", {"id": claim.id}, sender=SYSTEM)
    if ended:
        serve(tx)


def end_since(tx: Transaction, after: int) -> None:
    """End the leases that were granted after a position where the log forked. The abandoned branch
    may have granted the same fences. A holder that asks again gets a fence of the new epoch."""
    facts = tx.store.facts(after)
    granted = {fact.outcome["id"] for fact in facts if fact.kind == "claim_granted"}
    for claim in held(tx, "expires_at > ?", tx.now):
        if claim.id in granted:
            reason = "the log forked"
            tx.append("claim_released", {"id": claim.id, "reason": reason}, sender=SYSTEM)
    serve(tx)


def serve(tx: Transaction) -> None:
    """Hand the free targets to the waiters in order, and drop waiters that no longer ask."""
    blocked: list[Waiter] = []
    for waiter in waiters(tx):
        if waiter.lease <= tx.now:
            tx.append("claim_wait_ended", {"id": waiter.id}, sender=SYSTEM)
        elif _must_wait(tx, waiter, blocked):
            blocked.append(waiter)
        else:
            tx.append("claim_wait_ended", {"id": waiter.id}, sender=SYSTEM)
            wish = Wish(*waiter[3:11])
            grant(tx, waiter.target, wish, WAITER_LEASE_MS, sender=SYSTEM)


def _must_wait(tx: Transaction, waiter: Waiter, blocked: list[Waiter]) -> bool:
    """Whether another holder or an earlier waiter blocks this one. A waiter never blocks itself."""
    holder = (waiter.sender, waiter.session)
    waiting = [(w.sender, w.session) for w in blocked if w.target.meets(waiter.target)]
    holding = [(c.sender, c.session) for c in in_the_way(tx, waiter.target)]
    return any(other != holder for other in (*waiting, *holding))


def ahead(tx: Transaction, target: Target) -> list[Waiter]:
    """The waiters that asked before the caller; all of them, if the caller does not wait yet."""
    found: list[Waiter] = []
    for waiter in _queue(tx, target):
        if not waiter.is_caller(tx.caller):
            found.append(waiter)
        elif waiter.target == target:
            break
    return found


def wait(tx: Transaction, request: AcquireClaim, target: Target) -> None:
    """Put the caller into the queue, or extend its place there."""
    lease = tx.now + min(WAITER_LEASE_MS, (request.wait_s or 0) * 1000 + 1000)
    for waiter in _queue(tx, target):
        if waiter.is_caller(tx.caller) and waiter.target == target:
            if waiter.lease - tx.now < WAITER_LEASE_MS // 2 < lease - tx.now:
                tx.append("claim_wait_extended", {"id": waiter.id, "lease": lease})
            return
    wish = without_none(**wish_of(tx.caller, request)._asdict())
    tx.append("claim_awaited", target.outcome() | wish | {"id": tx.new_id(), "lease": lease})


def leave(tx: Transaction, target: Target | None = None) -> None:
    """Take the caller out of the queue for the target, or out of every queue."""
    for waiter in waiters(tx, "sender = ?", tx.caller.sender):
        if waiter.is_caller(tx.caller) and target in (None, waiter.target):
            tx.append("claim_wait_ended", {"id": waiter.id})


def _queue(tx: Transaction, target: Target) -> list[Waiter]:
    """Live waiters for anything that meets the target, in order."""
    found = waiters(tx)
    return [w for w in found if w.lease > tx.now and w.target.meets(target)]
