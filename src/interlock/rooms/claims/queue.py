"""Leases that end, and the queue of those who wait for what was held."""

from interlock.contracts.acts import AcquireClaim, StopWaiting
from interlock.rooms.claims.fold import EPOCH_SHIFT
from interlock.rooms.claims.records import (
    Claim,
    Target,
    Waiter,
    Wish,
    by_id,
    held,
    in_the_way,
    target_of,
    waiters,
    wish_of,
)
from interlock.rooms.transaction import SYSTEM, Answer, Transaction, without_none

# A waiter shows every few seconds that it still waits; one that died is passed over after this.
# What is handed over to it is leased no longer, until it says that it is there.
WAITER_LEASE_MS = 30_000
SWEPT_AT_ONCE = 200


def grant(
    tx: Transaction, target: Target, wish: Wish, ttl: int, *, sender: str | None = None
) -> Claim:
    """Gives the claim, with a fence above every fence that was ever given. A lease on the same item
    that ended, and that no sweep has come to yet, is recorded as ended first."""
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
    """Records the leases that have ended, and hands over what became free."""
    ended = held(tx, "expires_at <= ?", tx.now)[:SWEPT_AT_ONCE]
    for claim in ended:
        tx.append("claim_expired", {"id": claim.id}, sender=SYSTEM)
    if ended:
        serve(tx)


def end_since(tx: Transaction, after: int) -> None:
    """Ends the leases that were granted after a position, from which another log went on until it
    was given up: there, somebody may have had the same fences. Whoever asks again gets one of the
    new epoch."""
    facts = tx.store.facts(after)
    granted = {fact.outcome["id"] for fact in facts if fact.kind == "claim_granted"}
    for claim in held(tx, "expires_at > ?", tx.now):
        if claim.id in granted:
            reason = "the log forked"
            tx.append("claim_released", {"id": claim.id, "reason": reason}, sender=SYSTEM)
    serve(tx)


def serve(tx: Transaction) -> None:
    """Hands what is free to the waiters, first come first served, passing over the dead."""
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
    """Nobody stands in their own way, by what they hold or wait for themselves."""
    holder = (waiter.sender, waiter.session)
    waiting = [(w.sender, w.session) for w in blocked if w.target.meets(waiter.target)]
    holding = [(c.sender, c.session) for c in in_the_way(tx, waiter.target)]
    return any(other != holder for other in (*waiting, *holding))


def ahead(tx: Transaction, target: Target) -> list[Waiter]:
    """The others who asked before the caller; all of them, if it does not wait yet."""
    found: list[Waiter] = []
    for waiter in _queue(tx, target):
        if not waiter.is_caller(tx.caller):
            found.append(waiter)
        elif waiter.target == target:
            break
    return found


def wait(tx: Transaction, act: AcquireClaim, target: Target) -> None:
    """Puts the caller into the queue, or shows that it still stands there."""
    lease = tx.now + min(WAITER_LEASE_MS, (act.wait_s or 0) * 1000 + 1000)
    for waiter in _queue(tx, target):
        if waiter.is_caller(tx.caller) and waiter.target == target:
            if waiter.lease - tx.now < WAITER_LEASE_MS // 2 < lease - tx.now:
                tx.append("claim_wait_extended", {"id": waiter.id, "lease": lease})
            return
    wish = without_none(**wish_of(tx.caller, act)._asdict())
    tx.append("claim_awaited", target.outcome() | wish | {"id": tx.new_id(), "lease": lease})


def leave(tx: Transaction, target: Target | None = None) -> None:
    """Takes the caller out of the queue for the target, or out of every queue."""
    for waiter in waiters(tx, "sender = ?", tx.caller.sender):
        if waiter.is_caller(tx.caller) and target in (None, waiter.target):
            tx.append("claim_wait_ended", {"id": waiter.id})


def stop_waiting(tx: Transaction, act: StopWaiting) -> Answer:
    """Leaves the queue; whoever only waited behind the caller is served."""
    leave(tx, target_of(act))
    serve(tx)
    return {"waiting": False}


def _queue(tx: Transaction, target: Target) -> list[Waiter]:
    """Live waiters for anything that meets the target, in order."""
    found = waiters(tx)
    return [w for w in found if w.lease > tx.now and w.target.meets(target)]
