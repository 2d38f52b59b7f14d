"""What is held and what is awaited, read from the tables, and what a claim is on."""

from typing import Any, NamedTuple

from interlock.contracts.acts import AcquireClaim, ReleaseClaim, RenewClaim, TakeOverClaim
from interlock.contracts.addresses import address
from interlock.contracts.globs import overlap
from interlock.log.encoding import decode
from interlock.log.times import rfc3339
from interlock.rooms.claims.fold import HELD, WAITING
from interlock.rooms.transaction import Answer, Caller, Row, Transaction, without_none


class Target(NamedTuple):
    """What a claim is on: one item, or globs of one repository."""

    item: str | None
    repo: str | None
    paths: tuple[str, ...]

    def meets(self, other: "Target") -> bool:
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
        """Whether it is not another's: two sessions are told apart where both are known."""
        known = self.session is not None and caller.session is not None
        return self.sender == caller.sender and (self.session == caller.session or not known)

    def view(self) -> Answer:
        return self.target.outcome() | without_none(
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


class Waiter(NamedTuple):
    """A row of claims_waiting."""

    seq: int
    id: str
    target: Target
    sender: str
    agent: str
    surface: str | None
    session: str | None
    branch: str | None
    worktree: str | None
    note: str | None
    everywhere: int | None
    lease: int

    def is_caller(self, caller: Caller) -> bool:
        return (self.sender, self.session) == (caller.sender, caller.session)


class Wish(NamedTuple):
    """Who would hold a claim, and what it would say."""

    sender: str
    agent: str
    surface: str | None
    session: str | None
    branch: str | None
    worktree: str | None
    note: str | None
    everywhere: int | None


def held(tx: Transaction, where: str = "1", *bindings: str | int | None) -> list[Claim]:
    """The rows of claims_held in the order of their grants; leases that ended among them."""
    rows = tx.all(f"SELECT {HELD} FROM claims_held WHERE {where} ORDER BY fence", *bindings)
    return [_claim(row) for row in rows]


def live(tx: Transaction, where: str = "1", *bindings: str | int | None) -> list[Claim]:
    return [claim for claim in held(tx, where, *bindings) if claim.expires_at > tx.now]


def in_the_way(tx: Transaction, target: Target) -> list[Claim]:
    """The live claims that meet the target, whoever holds them."""
    column, value = ("item", target.item) if target.item is not None else ("repo", target.repo)
    return [claim for claim in live(tx, f"{column} = ?", value) if claim.target.meets(target)]


def by_id(tx: Transaction, id: str) -> Claim:
    (claim,) = held(tx, "id = ?", id)
    return claim


def waiters(tx: Transaction, where: str = "1", *bindings: str) -> list[Waiter]:
    """The queue, first come first; those among them that died."""
    rows = tx.all(f"SELECT {WAITING} FROM claims_waiting WHERE {where} ORDER BY seq", *bindings)
    return [_waiter(row) for row in rows]


def target_of(act: Any) -> Target:
    """What an act is about. The order and repetition of paths mean nothing."""
    return Target(act.item, act.repo if act.paths else None, tuple(sorted(set(act.paths))))


def named(tx: Transaction, act: RenewClaim | ReleaseClaim) -> Target | None:
    """What an act is about that may name a claim by its id; None where no claim has that id."""
    if act.id is None:
        return target_of(act)
    found = held(tx, "id = ?", act.id)
    return found[0].target if found else None


def wish_of(caller: Caller, act: AcquireClaim | TakeOverClaim) -> Wish:
    holder = (caller.sender, caller.agent, caller.surface, caller.session)
    return Wish(*holder, act.branch, act.worktree, act.note, int(act.everywhere) or None)


def _claim(row: Row) -> Claim:
    id, item, repo, paths, *rest = row
    return Claim(id, Target(item, repo, tuple(decode(paths)) if paths else ()), *rest)


def _waiter(row: Row) -> Waiter:
    seq, id, item, repo, paths, *rest = row
    return Waiter(seq, id, Target(item, repo, tuple(decode(paths)) if paths else ()), *rest)
