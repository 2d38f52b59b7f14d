"""Leases that end, and the queue of those who wait for what was held."""

from interlock.contracts.acts import AcquireClaim, StopWaiting
from interlock.kernel.claims.folding import EPOCH_SHIFT
from interlock.kernel.claims.records import (
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
from interlock.kernel.moment import SYSTEM, Answer, Moment, absent_dropped

# A waiter shows every few seconds that it still waits; one that died is passed over after this.
# What is handed over to it is leased no longer, until it says that it is there.
WAITER_LEASE_MS = 30_000
SWEPT_AT_ONCE = 200


def grant(
    moment: Moment, target: Target, wish: Wish, ttl: int, *, sender: str | None = None
) -> Claim:
    """Gives the claim, with a fence above every fence that was ever given. A lease on the same item
    that ended, and that no sweep has come to yet, is recorded as ended first."""
    for ended in held(moment, "item = ? AND expires_at <= ?", target.item, moment.now):
        moment.record("claim_expired", {"id": ended.id}, sender=SYSTEM)
    row = moment.one("SELECT last FROM claims_fence")
    fence = (moment.epoch << EPOCH_SHIFT) | ((row[0] if row else 0) + 1)
    id = moment.new_id()
    granted = {"id": id, "fence": fence, "ttl": ttl, "expires_at": moment.now + ttl}
    outcome = target.outcome() | absent_dropped(**wish._asdict()) | granted
    moment.record("claim_granted", outcome, sender=sender)
    return by_id(moment, id)


def is_due(moment: Moment) -> bool:
    row = moment.one("SELECT 1 FROM claims_held WHERE expires_at <= ? LIMIT 1", moment.now)
    return row is not None


def expire(moment: Moment) -> None:
    """Records the leases that have ended, and hands over what became free."""
    ended = held(moment, "expires_at <= ?", moment.now)[:SWEPT_AT_ONCE]
    for claim in ended:
        moment.record("claim_expired", {"id": claim.id}, sender=SYSTEM)
    if ended:
        serve(moment)


def end_since(moment: Moment, after: int) -> None:
    """Ends the leases that were granted after a position, from which another log went on until it
    was given up: there, somebody may have had the same fences. Whoever asks again gets one of the
    new epoch."""
    facts = moment.store.facts(after)
    granted = {fact.outcome["id"] for fact in facts if fact.kind == "claim_granted"}
    for claim in held(moment, "expires_at > ?", moment.now):
        if claim.id in granted:
            reason = "the log forked"
            moment.record("claim_released", {"id": claim.id, "reason": reason}, sender=SYSTEM)
    serve(moment)


def serve(moment: Moment) -> None:
    """Hands what is free to the waiters, first come first served, passing over the dead."""
    blocked: list[Waiter] = []
    for waiter in waiters(moment):
        if waiter.lease <= moment.now:
            moment.record("claim_wait_ended", {"id": waiter.id}, sender=SYSTEM)
        elif _must_wait(moment, waiter, blocked):
            blocked.append(waiter)
        else:
            moment.record("claim_wait_ended", {"id": waiter.id}, sender=SYSTEM)
            wish = Wish(*waiter[3:11])
            grant(moment, waiter.target, wish, WAITER_LEASE_MS, sender=SYSTEM)


def _must_wait(moment: Moment, waiter: Waiter, blocked: list[Waiter]) -> bool:
    """Nobody stands in their own way, by what they hold or wait for themselves."""
    holder = (waiter.sender, waiter.session)
    waiting = [(w.sender, w.session) for w in blocked if w.target.meets(waiter.target)]
    holding = [(c.sender, c.session) for c in in_the_way(moment, waiter.target)]
    return any(other != holder for other in (*waiting, *holding))


def ahead(moment: Moment, target: Target) -> list[Waiter]:
    """The others who asked before the caller; all of them, if it does not wait yet."""
    found: list[Waiter] = []
    for waiter in _queue(moment, target):
        if not waiter.is_caller(moment.caller):
            found.append(waiter)
        elif waiter.target == target:
            break
    return found


def wait(moment: Moment, act: AcquireClaim, target: Target) -> None:
    """Puts the caller into the queue, or shows that it still stands there."""
    lease = moment.now + min(WAITER_LEASE_MS, (act.wait_s or 0) * 1000 + 1000)
    for waiter in _queue(moment, target):
        if waiter.is_caller(moment.caller) and waiter.target == target:
            if waiter.lease - moment.now < WAITER_LEASE_MS // 2 < lease - moment.now:
                moment.record("claim_wait_extended", {"id": waiter.id, "lease": lease})
            return
    wish = absent_dropped(**wish_of(moment.caller, act)._asdict())
    moment.record(
        "claim_awaited", target.outcome() | wish | {"id": moment.new_id(), "lease": lease}
    )


def leave(moment: Moment, target: Target | None = None) -> None:
    """Takes the caller out of the queue for the target, or out of every queue."""
    for waiter in waiters(moment, "sender = ?", moment.caller.sender):
        if waiter.is_caller(moment.caller) and target in (None, waiter.target):
            moment.record("claim_wait_ended", {"id": waiter.id})


def stop_waiting(moment: Moment, act: StopWaiting) -> Answer:
    """Leaves the queue; whoever only waited behind the caller is served."""
    leave(moment, target_of(act))
    serve(moment)
    return {"waiting": False}


def _queue(moment: Moment, target: Target) -> list[Waiter]:
    """Live waiters for anything that meets the target, in order."""
    found = waiters(moment)
    return [w for w in found if w.lease > moment.now and w.target.meets(target)]
