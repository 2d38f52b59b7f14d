"""Claims: exclusive, leased, fenced. One holder per item at any position of the log.

The holder is (sender, session): two windows of one agent are two holders. A lease ends by
comparison with the log's time, not by an event; whoever notices records it. Waiters stand in a
queue that is in the log too, and what becomes free goes to the first that can have it.
"""

from typing import Any, NamedTuple

from interlock.contracts.acts import (
    AcquireClaim,
    CheckClaim,
    EndSession,
    KeepSession,
    ListClaims,
    ReleaseClaim,
    RenewClaim,
    StopWaiting,
    TakeOverClaim,
)
from interlock.contracts.addresses import address
from interlock.contracts.encoding import canonical, decode
from interlock.contracts.facts import Header
from interlock.contracts.globs import overlap
from interlock.contracts.times import rfc3339
from interlock.errors import ClaimHeld, MissingScope, NotFound, NotHolder, StaleFence
from interlock.kernel.identity import SYSTEM, end_session
from interlock.kernel.mail.sending import notify
from interlock.kernel.moment import Answer, Caller, Moment, State, absent_dropped
from interlock.kernel.workspace import is_paused

# map: claims_held     the live claims, and those whose lease ended and nobody noticed yet
#      claims_waiting  who queues for what; `lease` ends a waiter that stopped asking
#      claims_fence    one row: the last fence given, without its epoch
TABLES = """
CREATE TABLE claims_held(id TEXT PRIMARY KEY, item TEXT UNIQUE, repo TEXT, paths TEXT,
    sender TEXT NOT NULL, agent TEXT NOT NULL, surface TEXT, session TEXT, fence INTEGER NOT NULL,
    branch TEXT, worktree TEXT, note TEXT, acquired_at INTEGER NOT NULL, ttl INTEGER NOT NULL,
    expires_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX claims_repo ON claims_held(repo) WHERE repo IS NOT NULL;
CREATE INDEX claims_due ON claims_held(expires_at);
CREATE TABLE claims_waiting(seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, item TEXT, repo TEXT,
    paths TEXT, sender TEXT NOT NULL, agent TEXT NOT NULL, surface TEXT, session TEXT, branch TEXT,
    worktree TEXT, note TEXT, lease INTEGER NOT NULL) STRICT;
CREATE TABLE claims_fence(one INTEGER PRIMARY KEY CHECK (one = 1), last INTEGER NOT NULL) STRICT;
"""

EPOCH_SHIFT = 40
# A waiter shows every few seconds that it still waits; one that died is passed over after this.
# What is handed over to it is leased no longer, until it says that it is there.
WAITER_LEASE_MS = 30_000
SWEPT_AT_ONCE = 200
_HELD = (
    "id, item, repo, paths, sender, agent, surface, session, fence, branch, worktree, note, "
    "acquired_at, ttl, expires_at"
)
_WAITING = (
    "seq, id, item, repo, paths, sender, agent, surface, session, branch, worktree, note, lease"
)


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
    acquired_at: int
    ttl: int
    expires_at: int

    def held_by(self, caller: Caller) -> bool:
        return (self.sender, self.session) == (caller.sender, caller.session)

    def view(self) -> Answer:
        return self.target.outcome() | absent_dropped(
            id=self.id,
            holder=address(self.sender),
            agent=self.agent,
            surface=self.surface,
            session=self.session,
            fence=self.fence,
            branch=self.branch,
            worktree=self.worktree,
            note=self.note,
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
    lease: int


class Wish(NamedTuple):
    """Who would hold a claim, and what it would say."""

    sender: str
    agent: str
    surface: str | None
    session: str | None
    branch: str | None
    worktree: str | None
    note: str | None


def acquire(moment: Moment, act: AcquireClaim) -> Answer:
    """Grants the claim, extends the caller's own, or says who has it.

    In a race the first in the log wins and everyone else sees its claim. With `wait_s` the
    caller is put into the queue, and asks again until it is served or stops waiting."""
    target = _target(act)
    expire(moment)
    mine, others = _split(moment, target)
    if mine is not None and mine.target == target:
        return _acquired(moment, _extend(moment, mine, act))
    ahead = _ahead(moment, target)
    if others or ahead:
        if act.wait_s is not None:
            _wait(moment, act, target)
        return _held(target, others, len(ahead))
    _leave(moment)
    claim = _grant(moment, target, _wish(moment.caller, act), act.ttl_s * 1000)
    return _acquired(moment, claim)


def _acquired(moment: Moment, claim: Claim) -> Answer:
    answer: Answer = {"acquired": True, "claim": claim.view()}
    if notices := _shared_worktree(moment, claim):
        answer["notices"] = notices
    return answer


def _held(target: Target, others: list[Claim], ahead: int) -> Answer:
    if others:
        first = others[0]
        why = f"{target} is held by @{first.sender} until {rfc3339(first.expires_at)}."
    else:
        why = f"{target} is free, but {ahead} asked for it before you."
    refusal = ClaimHeld(f"{why} Do other work, ask the holder, or wait with --wait.")
    queued = {"queued": ahead} if ahead else {}
    held_by = [claim.view() for claim in others]
    return {"acquired": False} | refusal.as_dict() | {"held_by": held_by} | queued


def renew(moment: Moment, act: RenewClaim) -> Answer:
    claim = _own(moment, _target(act), act.fence)
    expires_at = max(claim.expires_at, moment.now + act.ttl_s * 1000)
    moment.record(
        "claim_extended", {"id": claim.id, "ttl": act.ttl_s * 1000, "expires_at": expires_at}
    )
    return {"renewed": True, "claim": _by_id(moment, claim.id).view()}


def release(moment: Moment, act: ReleaseClaim) -> Answer:
    target = _target(act)
    expire(moment)
    mine, others = _split(moment, target)
    if mine is None and not others and act.fence is None:
        return {"released": False}
    claim = _own(moment, target, act.fence)
    moment.record("claim_released", {"id": claim.id, "reason": "released"})
    serve(moment)
    return {"released": True}


def take_over(moment: Moment, act: TakeOverClaim) -> Answer:
    """Gives the caller what another holds. For people and admins, with a reason, in the log; the
    former holder's fence is stale from here on, and it is told."""
    if moment.caller.kind != "human" and "admin" not in moment.caller.scopes:
        raise MissingScope(
            "Taking over another's claim is for a person, or a token with the scope admin.",
            scope="admin",
        )
    target = _target(act)
    expire(moment)
    mine, others = _split(moment, target)
    if mine is None and not others:
        raise NotFound(f"Nobody holds {target}. Use claim acquire.")
    for claim in others if mine is None else [mine, *others]:
        moment.record("claim_released", {"id": claim.id, "reason": act.reason, "taken_over": True})
        if claim.held_by(moment.caller):
            continue
        notify(
            moment,
            claim.sender,
            f"Your claim on {claim.target} (fence {claim.fence}) was taken over by "
            f"@{moment.caller.sender}: {act.reason}",
        )
    claim = _grant(moment, target, _wish(moment.caller, act), act.ttl_s * 1000)
    return _acquired(moment, claim) | {"taken_from": [address(c.sender) for c in others]}


def check(moment: Moment, act: CheckClaim) -> Answer:
    """Who holds it, the asker included."""
    found = [claim for claim in _overlapping(moment, _target(act)) if _live(moment, claim)]
    return {"claimed": bool(found), "claims": [claim.view() for claim in found]}


def list_claims(moment: Moment, act: ListClaims) -> Answer:
    rows = moment.all(f"SELECT {_HELD} FROM claims_held ORDER BY acquired_at, id")
    found = [claim for claim in map(_claim, rows) if _live(moment, claim)]
    if act.mine:
        found = [claim for claim in found if claim.sender == moment.caller.sender]
    return {"claims": [claim.view() for claim in found]}


def held_by_sender(moment: Moment) -> list[Answer]:
    rows = moment.all(
        f"SELECT {_HELD} FROM claims_held WHERE sender = ? ORDER BY acquired_at, id",
        moment.caller.sender,
    )
    return [claim.view() for claim in map(_claim, rows) if _live(moment, claim)]


def stop_waiting(moment: Moment, act: StopWaiting) -> Answer:
    """Leaves every queue, and gives back what was handed over unnoticed at the last moment."""
    _leave(moment)
    return {"waiting": False}


def session_over(moment: Moment, act: EndSession) -> Answer:
    """A session that ends gives up its claims."""
    end_session(moment, act)
    rows = moment.all(
        f"SELECT {_HELD} FROM claims_held WHERE sender = ? AND session = ? ORDER BY id",
        moment.caller.sender,
        act.id,
    )
    for claim in map(_claim, rows):
        moment.record("claim_released", {"id": claim.id, "reason": "session ended"})
    moment.caller = moment.caller._replace(session=act.id)
    _leave(moment)
    serve(moment)
    return {"ended": act.id, "released": [claim.view() for claim in map(_claim, rows)]}


def keep_session(moment: Moment, act: KeepSession) -> Answer:
    """Renews the claims of a living session, but only below half of each lease."""
    rows = moment.all(
        f"SELECT {_HELD} FROM claims_held WHERE sender = ? AND session = ? ORDER BY id",
        moment.caller.sender,
        act.id,
    )
    live = [claim for claim in map(_claim, rows) if _live(moment, claim)]
    for claim in live:
        if claim.expires_at - moment.now < claim.ttl // 2 and not is_paused(moment.state):
            moment.record(
                "claim_extended",
                {"id": claim.id, "ttl": claim.ttl, "expires_at": moment.now + claim.ttl},
            )
    return {"claims": [claim.view() for claim in live]}


# --- leases and the queue


def is_due(moment: Moment) -> bool:
    row = moment.one("SELECT 1 FROM claims_held WHERE expires_at <= ? LIMIT 1", moment.now)
    return row is not None


def expire(moment: Moment) -> None:
    """Records the leases that have ended, and hands over what became free."""
    rows = moment.all(
        f"SELECT {_HELD} FROM claims_held WHERE expires_at <= ? ORDER BY expires_at, id LIMIT ?",
        moment.now,
        SWEPT_AT_ONCE,
    )
    for claim in map(_claim, rows):
        moment.record("claim_expired", {"id": claim.id}, sender=SYSTEM)
    if rows:
        serve(moment)


def serve(moment: Moment) -> None:
    """Hands what is free to the waiters, first come first served, passing over the dead."""
    waiting = [
        _waiter(row) for row in moment.all(f"SELECT {_WAITING} FROM claims_waiting ORDER BY seq")
    ]
    blocked: list[Target] = []
    for waiter in waiting:
        if waiter.lease <= moment.now:
            moment.record("claim_wait_ended", {"id": waiter.id}, sender=SYSTEM)
            continue
        live = [c for c in _overlapping(moment, waiter.target) if _live(moment, c)]
        if live or any(waiter.target.meets(target) for target in blocked):
            blocked.append(waiter.target)
            continue
        moment.record("claim_wait_ended", {"id": waiter.id}, sender=SYSTEM)
        wish = Wish(*waiter[3:10])
        _grant(moment, waiter.target, wish, WAITER_LEASE_MS, sender=SYSTEM)


def _wait(moment: Moment, act: AcquireClaim, target: Target) -> None:
    lease = moment.now + min(WAITER_LEASE_MS, (act.wait_s or 0) * 1000 + 1000)
    for waiter in _queue(moment, target):
        if _is(waiter, moment.caller) and waiter.target == target:
            if waiter.lease - moment.now < WAITER_LEASE_MS // 2 < lease - moment.now:
                moment.record("claim_wait_extended", {"id": waiter.id, "lease": lease})
            return
    wish = _wish(moment.caller, act)
    moment.record(
        "claim_awaited",
        target.outcome()
        | absent_dropped(**wish._asdict())
        | {"id": moment.new_id(), "lease": lease},
    )


def _leave(moment: Moment) -> None:
    rows = moment.all(
        f"SELECT {_WAITING} FROM claims_waiting WHERE sender = ? ORDER BY seq", moment.caller.sender
    )
    for waiter in map(_waiter, rows):
        if _is(waiter, moment.caller):
            moment.record("claim_wait_ended", {"id": waiter.id})


def _queue(moment: Moment, target: Target) -> list[Waiter]:
    """Live waiters for anything that meets the target, in order."""
    rows = moment.all(f"SELECT {_WAITING} FROM claims_waiting ORDER BY seq")
    waiting = [_waiter(row) for row in rows]
    return [w for w in waiting if w.lease > moment.now and w.target.meets(target)]


def _ahead(moment: Moment, target: Target) -> list[Waiter]:
    """Those who asked before the caller; all of them, if it does not wait yet."""
    ahead: list[Waiter] = []
    for waiter in _queue(moment, target):
        if _is(waiter, moment.caller) and waiter.target == target:
            break
        ahead.append(waiter)
    return ahead


def _is(waiter: Waiter, caller: Caller) -> bool:
    return (waiter.sender, waiter.session) == (caller.sender, caller.session)


# --- deciding


def _grant(
    moment: Moment, target: Target, wish: Wish, ttl: int, *, sender: str | None = None
) -> Claim:
    row = moment.one("SELECT last FROM claims_fence")
    fence = (moment.epoch << EPOCH_SHIFT) | ((row[0] if row else 0) + 1)
    id = moment.new_id()
    moment.record(
        "claim_granted",
        target.outcome()
        | absent_dropped(holder=wish.sender, **wish._asdict())
        | {"id": id, "fence": fence, "ttl": ttl, "expires_at": moment.now + ttl},
        sender=sender,
    )
    return _by_id(moment, id)


def _extend(moment: Moment, claim: Claim, act: AcquireClaim) -> Claim:
    """Asking again: a lease never gets shorter, and what is not mentioned is kept."""
    said = absent_dropped(branch=act.branch, worktree=act.worktree, note=act.note)
    ttl = act.ttl_s * 1000
    expires_at = max(claim.expires_at, moment.now + ttl)
    moment.record("claim_extended", {"id": claim.id, "ttl": ttl, "expires_at": expires_at} | said)
    return _by_id(moment, claim.id)


def _own(moment: Moment, target: Target, fence: int | None) -> Claim:
    """The caller's live claim on the target, with the fence it presents."""
    mine, others = _split(moment, target)
    if fence is not None and (mine is None or mine.fence != fence):
        raise StaleFence(
            f"Fence {fence} is no longer good for {target}: the claim was lost. Stop what you do "
            "under it, and acquire it again.",
            fence=fence,
            held_by=[claim.view() for claim in others] or None,
        )
    if mine is None:
        holder = f" @{others[0].sender} does." if others else " Nobody does: acquire it."
        raise NotHolder(
            f"You do not hold {target}, so nothing was changed.{holder}",
            held_by=[claim.view() for claim in others],
        )
    return mine


def _split(moment: Moment, target: Target) -> tuple[Claim | None, list[Claim]]:
    """The caller's own live claim on the target, and others' live claims in its way. A caller's
    own claim on overlapping but different paths is in nobody's way."""
    live = [claim for claim in _overlapping(moment, target) if _live(moment, claim)]
    own = [claim for claim in live if claim.held_by(moment.caller)]
    exact = next((claim for claim in own if claim.target == target), None)
    return exact, [claim for claim in live if not claim.held_by(moment.caller)]


def _overlapping(moment: Moment, target: Target) -> list[Claim]:
    if target.item is not None:
        rows = moment.all(f"SELECT {_HELD} FROM claims_held WHERE item = ?", target.item)
    else:
        rows = moment.all(
            f"SELECT {_HELD} FROM claims_held WHERE repo = ? ORDER BY acquired_at, id", target.repo
        )
    return [claim for claim in map(_claim, rows) if claim.target.meets(target)]


def _live(moment: Moment, claim: Claim) -> bool:
    return claim.expires_at > moment.now


def _shared_worktree(moment: Moment, claim: Claim) -> list[Answer]:
    if claim.worktree is None:
        return []
    rows = moment.all(
        f"SELECT {_HELD} FROM claims_held WHERE worktree = ? ORDER BY acquired_at, id",
        claim.worktree,
    )
    return [
        {
            "code": "SHARED_WORKTREE",
            "message": f"@{other.sender} works in {claim.worktree} too, on {other.target}. Two "
            "holders in one worktree see each other's half-done work; use a worktree each.",
            "claim": other.view(),
        }
        for other in map(_claim, rows)
        if _live(moment, other) and (other.sender, other.session) != (claim.sender, claim.session)
    ]


def _target(act: Any) -> Target:
    return Target(act.item, act.repo if act.paths else None, tuple(sorted(set(act.paths))))


def _wish(caller: Caller, act: AcquireClaim | TakeOverClaim) -> Wish:
    return Wish(
        caller.sender,
        caller.agent,
        caller.surface,
        caller.session,
        act.branch,
        act.worktree,
        act.note,
    )


def _by_id(moment: Moment, id: str) -> Claim:
    row = moment.one(f"SELECT {_HELD} FROM claims_held WHERE id = ?", id)
    assert row is not None
    return _claim(row)


def _claim(row: tuple[Any, ...]) -> Claim:
    id, item, repo, paths, *rest = row
    return Claim(id, Target(item, repo, tuple(decode(paths)) if paths else ()), *rest)


def _waiter(row: tuple[Any, ...]) -> Waiter:
    seq, id, item, repo, paths, *rest = row
    return Waiter(seq, id, Target(item, repo, tuple(decode(paths)) if paths else ()), *rest)


# --- folding


def _paths(outcome: dict[str, Any]) -> str | None:
    return canonical(outcome["paths"]).decode() if "paths" in outcome else None


def _fold_granted(state: State, fact: Header) -> None:
    outcome = fact.outcome
    state.execute(
        f"INSERT INTO claims_held({_HELD}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            outcome["id"],
            outcome.get("item"),
            outcome.get("repo"),
            _paths(outcome),
            outcome["sender"],
            outcome["agent"],
            outcome.get("surface"),
            outcome.get("session"),
            outcome["fence"],
            outcome.get("branch"),
            outcome.get("worktree"),
            outcome.get("note"),
            fact.at,
            outcome["ttl"],
            outcome["expires_at"],
        ),
    )
    state.execute(
        "INSERT OR REPLACE INTO claims_fence VALUES (1, ?)",
        (outcome["fence"] & ((1 << EPOCH_SHIFT) - 1),),
    )


def _fold_extended(state: State, fact: Header) -> None:
    outcome = fact.outcome
    state.execute(
        "UPDATE claims_held SET ttl = ?, expires_at = ?, branch = coalesce(?, branch), "
        "worktree = coalesce(?, worktree), note = coalesce(?, note) WHERE id = ?",
        (
            outcome["ttl"],
            outcome["expires_at"],
            outcome.get("branch"),
            outcome.get("worktree"),
            outcome.get("note"),
            outcome["id"],
        ),
    )


def _fold_ended(state: State, fact: Header) -> None:
    state.execute("DELETE FROM claims_held WHERE id = ?", (fact.outcome["id"],))


def _fold_awaited(state: State, fact: Header) -> None:
    outcome = fact.outcome
    state.execute(
        f"INSERT INTO claims_waiting({_WAITING}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            fact.seq,
            outcome["id"],
            outcome.get("item"),
            outcome.get("repo"),
            _paths(outcome),
            outcome["sender"],
            outcome["agent"],
            outcome.get("surface"),
            outcome.get("session"),
            outcome.get("branch"),
            outcome.get("worktree"),
            outcome.get("note"),
            outcome["lease"],
        ),
    )


def _fold_wait_extended(state: State, fact: Header) -> None:
    state.execute(
        "UPDATE claims_waiting SET lease = ? WHERE id = ?",
        (fact.outcome["lease"], fact.outcome["id"]),
    )


def _fold_wait_ended(state: State, fact: Header) -> None:
    state.execute("DELETE FROM claims_waiting WHERE id = ?", (fact.outcome["id"],))


FOLDS = {
    "claim_granted": _fold_granted,
    "claim_extended": _fold_extended,
    "claim_released": _fold_ended,
    "claim_expired": _fold_ended,
    "claim_awaited": _fold_awaited,
    "claim_wait_extended": _fold_wait_extended,
    "claim_wait_ended": _fold_wait_ended,
}
