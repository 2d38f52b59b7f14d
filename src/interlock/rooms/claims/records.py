"""The rows of claims and waiters, and the target of a claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from interlock.log.encoding import decode
from interlock.log.times import rfc3339
from interlock.rooms.claims.fold import HELD, WAITING
from interlock.rooms.transaction import Caller, Transaction
from interlock.verbs.addresses import address
from interlock.verbs.answers import without_none
from interlock.verbs.globs import overlap

if TYPE_CHECKING:
    from interlock.rooms import answers
    from interlock.rooms.claims.verbs import AcquireClaim, ReleaseClaim, RenewClaim, TakeOverClaim

WISH = ("sender", "agent", "surface", "session", "branch", "worktree", "note", "everywhere")


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
        """Whether the claim is the caller's. Two sessions differ only where both are known."""
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
    """The rows of claims_held in the order of their grants, with the leases that have ended."""
    rows = tx.all(f"SELECT {HELD} FROM claims_held WHERE {where} ORDER BY fence", *bindings)
    return [Claim(row[0], _target(*row[1:4]), *row[4:]) for row in rows]


def live(tx: Transaction, where: str = "1", *bindings: str | int | None) -> list[Claim]:
    return [claim for claim in held(tx, where, *bindings) if claim.expires_at > tx.now]


def in_the_way(tx: Transaction, target: Target) -> list[Claim]:
    """The live claims of all holders that meet the target."""
    column, value = ("item", target.item) if target.item is not None else ("repo", target.repo)
    return [claim for claim in live(tx, f"{column} = ?", value) if claim.target.meets(target)]


def by_id(tx: Transaction, id: str) -> Claim:
    (claim,) = held(tx, "id = ?", id)
    return claim


def waiters(tx: Transaction, where: str = "1", *bindings: str) -> list[Waiter]:
    """The queue in order, with the waiters that no longer ask."""
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
    """The target of a request. The order and repetition of paths mean nothing."""
    repo = request.repo if request.paths else None
    return Target(request.item, repo, tuple(sorted(set(request.paths))))


def named(tx: Transaction, request: RenewClaim | ReleaseClaim) -> Target | None:
    """The target of a request that may name a claim by its id; None for an id that has ended."""
    if request.id is None:
        return target_of(request)
    found = held(tx, "id = ?", request.id)
    return found[0].target if found else None


def wish_of(caller: Caller, request: AcquireClaim | TakeOverClaim) -> dict[str, Any]:
    """The members of the claim that a request asks for, beside its target and its lease."""
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
