"""Grants, leases and the queue of waiters for claims.

Waiters are facts in the log. A claim that becomes free goes to the first waiter that can have it.
The node renews the claims of a session while its client lives, and releases them when it ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from interlock.log.encoding import decode
from interlock.log.times import rfc3339
from interlock.rooms.claims.fold import EPOCH_SHIFT, HELD, WAITING
from interlock.rooms.transaction import SYSTEM, Caller, Transaction, is_paused
from interlock.verbs.addresses import address
from interlock.verbs.answers import without_none
from interlock.verbs.globs import overlap

if TYPE_CHECKING:
    from interlock.rooms import answers
    from interlock.rooms.claims.verbs import AcquireClaim, ReleaseClaim, RenewClaim, TakeOverClaim

# A waiter asks again every few seconds. The queue skips a waiter that has not asked for this long.
# A claim that is handed to a waiter has a lease of the same length, until the waiter asks again.
WAITER_LEASE_MS = 30_000
MAX_EXPIRED_AT_ONCE = 200
WISH = ("sender", "agent", "surface", "session", "branch", "worktree", "note", "everywhere")


def grant(
    tx: Transaction, target: Target, wish: dict[str, Any], ttl: int, *, sender: str | None = None
) -> Claim:
    """Grant the claim, with a fence above every earlier fence. If a lease on the same item has
    ended and the log has no record of that yet, record it first."""
    for ended in held(tx, "item = ? AND expires_at <= ?", target.item, tx.now):
        tx.append("claim_expired", {"id": ended.id}, sender=SYSTEM)
    last = tx.value("SELECT last FROM claims_fence") or 0
    fence = (tx.epoch << EPOCH_SHIFT) | (last + 1)
    id = tx.new_id()
    granted = {"id": id, "fence": fence, "ttl": ttl, "expires_at": tx.now + ttl}
    tx.append("claim_granted", target.outcome() | wish | granted, sender=sender)
    return by_id(tx, id)


# Whether a lease has ended that `expire` must record.
IS_DUE = "SELECT 1 FROM claims_held WHERE expires_at <= ? LIMIT 1"


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
        # Another holder or an earlier waiter blocks this one. A waiter never blocks itself.
        in_front: list[Waiter | Claim] = [
            *(earlier for earlier in blocked if earlier.target.meets(waiter.target)),
            *in_the_way(tx, waiter.target),
        ]
        own = (waiter.sender, waiter.session)
        is_blocked = any((other.sender, other.session) != own for other in in_front)
        if waiter.lease > tx.now and is_blocked:
            blocked.append(waiter)
            continue
        tx.append("claim_wait_ended", {"id": waiter.id}, sender=SYSTEM)
        if waiter.lease > tx.now:
            grant(tx, waiter.target, waiter.wish, WAITER_LEASE_MS, sender=SYSTEM)


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
    """Put the caller into the queue, or renew the lease of its place there."""
    lease = tx.now + min(WAITER_LEASE_MS, (request.wait_s or 0) * 1000 + 1000)
    for waiter in _queue(tx, target):
        if waiter.is_caller(tx.caller) and waiter.target == target:
            if waiter.lease - tx.now < WAITER_LEASE_MS // 2 < lease - tx.now:
                tx.append("claim_wait_extended", {"id": waiter.id, "lease": lease})
            return
    place = {"id": tx.new_id(), "lease": lease}
    tx.append("claim_awaited", target.outcome() | wish_of(tx.caller, request) | place)


def leave(tx: Transaction, target: Target | None = None) -> None:
    """Remove the caller from the queue for the target, or from every queue."""
    for waiter in waiters(tx, "sender = ?", tx.caller.sender):
        if waiter.is_caller(tx.caller) and target in (None, waiter.target):
            tx.append("claim_wait_ended", {"id": waiter.id})


def _queue(tx: Transaction, target: Target) -> list[Waiter]:
    """The live waiters for targets that overlap this one, in order."""
    found = waiters(tx)
    return [w for w in found if w.lease > tx.now and w.target.meets(target)]


# --- the claims of a session


def session_claims(tx: Transaction, session: str | None) -> list[Claim]:
    """The caller's live claims in a session; with None, those without a session."""
    return live(tx, "sender = ? AND session IS ?", tx.caller.sender, session)


def renew_session(tx: Transaction, session: str | None) -> list[Claim]:
    """Renew the caller's claims in a session whose lease is more than half over."""
    for claim in session_claims(tx, session):
        if _needs_renewal(tx, claim) and not is_paused(tx.state):
            extended = {"id": claim.id, "ttl": claim.ttl, "expires_at": tx.now + claim.ttl}
            tx.append("claim_extended", extended)
    return session_claims(tx, session)


def release_session(tx: Transaction, session: str) -> list[Claim]:
    """Release the caller's claims in a session, and leave every queue."""
    released = held(tx, "sender = ? AND session = ?", tx.caller.sender, session)
    for claim in released:
        tx.append("claim_released", {"id": claim.id, "reason": "session ended"})
    tx.caller = tx.caller._replace(session=session)
    leave(tx)
    if released:
        serve(tx)
    return released


def sessions_to_renew(tx: Transaction) -> list[tuple[str, str | None]]:
    """The senders and sessions whose claims must be renewed now, if their clients are alive."""
    found = [claim for claim in live(tx) if _needs_renewal(tx, claim)]
    return list(dict.fromkeys((claim.sender, claim.session) for claim in found))


def _needs_renewal(tx: Transaction, claim: Claim) -> bool:
    return claim.expires_at - tx.now < claim.ttl // 2


# --- the rows of claims and waiters, and the target of a claim


class Target(NamedTuple):
    """The target of a claim: one item, or globs of one repository."""

    item: str | None
    repo: str | None
    paths: tuple[str, ...]

    def meets(self, other: Target) -> bool:
        if self.item is not None or other.item is not None:
            return self.item == other.item
        if self.repo != other.repo:
            return False
        return any(overlap(mine, theirs) for mine in self.paths for theirs in other.paths)

    def outcome(self) -> dict[str, Any]:
        if self.item is not None:
            return {"item": self.item}
        return {"repo": self.repo, "paths": list(self.paths)}

    def __str__(self) -> str:
        return self.item if self.item is not None else f"{', '.join(self.paths)} in {self.repo}"


class Claim(NamedTuple):
    """A row of claims_held."""

    id: str
    target: Target
    sender: str
    agent: str
    surface: str | None
    session: str | None
    fence: int
    branch: str | None
    worktree: str | None
    note: str | None
    everywhere: int | None
    acquired_at: int
    ttl: int
    expires_at: int

    def held_by(self, caller: Caller) -> bool:
        return (self.sender, self.session) == (caller.sender, caller.session)

    def is_own(self, caller: Caller) -> bool:
        """Whether the claim is the caller's. Sessions count only if claim and caller have one."""
        known = self.session is not None and caller.session is not None
        return self.sender == caller.sender and (self.session == caller.session or not known)

    def view(self) -> answers.Claim:
        members = self.target.outcome() | without_none(
            id=self.id,
            holder=address(self.sender),
            agent=self.agent,
            surface=self.surface,
            session=self.session,
            fence=self.fence,
            branch=self.branch,
            worktree=self.worktree,
            note=self.note,
            everywhere=True if self.everywhere else None,
            acquired_at=rfc3339(self.acquired_at),
            expires_at=rfc3339(self.expires_at),
        )
        return cast("answers.Claim", members)


class Waiter(NamedTuple):
    """A row of claims_waiting. `wish` has the members of the claim that the waiter wants."""

    id: str
    target: Target
    sender: str
    session: str | None
    wish: dict[str, Any]
    lease: int

    def is_caller(self, caller: Caller) -> bool:
        return (self.sender, self.session) == (caller.sender, caller.session)


def held(tx: Transaction, where: str = "1", *bindings: str | int | None) -> list[Claim]:
    """The rows of claims_held in the order of their grants, ended leases included."""
    rows = tx.all(f"SELECT {HELD} FROM claims_held WHERE {where} ORDER BY fence", *bindings)
    return [Claim(row[0], _target(*row[1:4]), *row[4:]) for row in rows]


def live(tx: Transaction, where: str = "1", *bindings: str | int | None) -> list[Claim]:
    return [claim for claim in held(tx, where, *bindings) if claim.expires_at > tx.now]


def in_the_way(tx: Transaction, target: Target) -> list[Claim]:
    """The live claims of all holders that overlap the target."""
    column, value = ("item", target.item) if target.item is not None else ("repo", target.repo)
    return [claim for claim in live(tx, f"{column} = ?", value) if claim.target.meets(target)]


def by_id(tx: Transaction, id: str) -> Claim:
    (claim,) = held(tx, "id = ?", id)
    return claim


def waiters(tx: Transaction, where: str = "1", *bindings: str) -> list[Waiter]:
    """The queue in order, including waiters that no longer ask."""
    columns = WAITING.split(", ")
    found = []
    sql = f"SELECT {WAITING} FROM claims_waiting WHERE {where} ORDER BY seq"
    for values in tx.all(sql, *bindings):
        row = dict(zip(columns, values, strict=True))
        target = _target(row["item"], row["repo"], row["paths"])
        wish = without_none(**{name: row[name] for name in WISH})
        found.append(Waiter(row["id"], target, row["sender"], row["session"], wish, row["lease"]))
    return found


def _target(item: str | None, repo: str | None, paths: str | None) -> Target:
    return Target(item, repo, tuple(decode(paths)) if paths else ())


def target_of(request: Any) -> Target:
    """The target of a request, with each path once, in sorted order."""
    repo = request.repo if request.paths else None
    return Target(request.item, repo, tuple(sorted(set(request.paths))))


def named(tx: Transaction, request: RenewClaim | ReleaseClaim) -> Target | None:
    """The target of a request that may name a claim by its id; None for an id that has ended."""
    if request.id is None:
        return target_of(request)
    found = held(tx, "id = ?", request.id)
    return found[0].target if found else None


def wish_of(caller: Caller, request: AcquireClaim | TakeOverClaim) -> dict[str, Any]:
    """The members of the claim that a request asks for, except its target and its lease."""
    members: dict[str, Any] = without_none(
        sender=caller.sender,
        agent=caller.agent,
        surface=caller.surface,
        session=caller.session,
        branch=request.branch,
        worktree=request.worktree,
        note=request.note,
        everywhere=int(request.everywhere) or None,
    )
    return members
