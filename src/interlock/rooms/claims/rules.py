"""Acquiring, renewing, releasing and taking over; and looking at what is held."""

from interlock.contracts.acts import (
    AcquireClaim,
    CheckClaim,
    EndSession,
    KeepSession,
    ListClaims,
    ReleaseClaim,
    RenewClaim,
    TakeOverClaim,
)
from interlock.contracts.addresses import address
from interlock.errors import ClaimHeld, MissingScope, NotFound, NotHolder, StaleFence
from interlock.log.times import rfc3339
from interlock.rooms.claims.queue import ahead, expire, grant, leave, serve, wait
from interlock.rooms.claims.records import (
    Claim,
    Target,
    by_id,
    held,
    in_the_way,
    live,
    named,
    target_of,
    wish_of,
)
from interlock.rooms.identity.sessions import end_session, refuse_ended
from interlock.rooms.mail.sending import notify
from interlock.rooms.transaction import Answer, Transaction, without_none
from interlock.rooms.workspace.rules import is_paused


def acquire(tx: Transaction, act: AcquireClaim) -> Answer:
    """Grants the claim, extends the caller's own, or says who has it.

    In a race the first in the log wins and everyone else sees its claim. With `wait_s` the
    caller is put into the queue, and asks again until it is served or stops waiting."""
    refuse_ended(tx)
    target = target_of(act)
    expire(tx)
    mine, others = _split(tx, target)
    if mine is not None:
        return _acquired(tx, _extend(tx, mine, act))
    before = ahead(tx, target)
    if others or before:
        if act.wait_s is not None:
            wait(tx, act, target)
        return _held(tx, target, others, len(before))
    leave(tx, target)
    claim = grant(tx, target, wish_of(tx.caller, act), act.ttl_s * 1000)
    return _acquired(tx, claim)


def _acquired(tx: Transaction, claim: Claim) -> Answer:
    answer: Answer = {"acquired": True, "claim": claim.view()}
    if notices := _shared_worktree(tx, claim):
        answer["notices"] = notices
    return answer


def _holder(tx: Transaction, claim: Claim) -> str:
    """Who holds a claim, as the caller is told; two sessions of one sender are two holders."""
    if claim.sender != tx.caller.sender:
        return f"@{claim.sender}"
    session = f"the session {claim.session}" if claim.session else "no session"
    return f"@{claim.sender} in {session}, which is not this one,"


def _held(tx: Transaction, target: Target, others: list[Claim], ahead: int) -> Answer:
    if others:
        first = others[0]
        why = f"{target} is held by {_holder(tx, first)} until {rfc3339(first.expires_at)}."
    else:
        why = f"{target} is free, but {ahead} asked for it before you."
    refusal = ClaimHeld(f"{why} Do other work, ask the holder, or wait with --wait.")
    queued = {"queued": ahead} if ahead else {}
    held_by = [claim.view() for claim in others]
    return {"acquired": False} | refusal.as_dict() | {"held_by": held_by} | queued


def renew(tx: Transaction, act: RenewClaim) -> Answer:
    if (target := named(tx, act)) is None:
        raise NotHolder(f"There is no claim {act.id} any more: acquire it again.")
    claim = _own(tx, target, act.fence)
    expires_at = max(claim.expires_at, tx.now + act.ttl_s * 1000)
    tx.append("claim_extended", {"id": claim.id, "ttl": act.ttl_s * 1000, "expires_at": expires_at})
    return {"renewed": True, "claim": by_id(tx, claim.id).view()}


def release(tx: Transaction, act: ReleaseClaim) -> Answer:
    if (target := named(tx, act)) is None:
        return {"released": False}
    expire(tx)
    mine, others = _split(tx, target)
    if mine is None and not others and act.fence is None:
        return {"released": False}
    claim = _own(tx, target, act.fence)
    tx.append("claim_released", {"id": claim.id, "reason": "released"})
    serve(tx)
    return {"released": True}


def take_over(tx: Transaction, act: TakeOverClaim) -> Answer:
    """Gives the caller what another holds. For people and admins, with a reason, in the log; the
    former holder's fence is stale from here on, and it is told."""
    if tx.caller.kind != "human" and "admin" not in tx.caller.scopes:
        raise MissingScope(
            "Taking over another's claim is for a person, or a token with the scope admin.",
            scope="admin",
        )
    refuse_ended(tx)
    target = target_of(act)
    expire(tx)
    mine, others = _split(tx, target)
    if mine is None and not others:
        raise NotFound(f"Nobody holds {target}. Use claim acquire.")
    for claim in others if mine is None else [mine, *others]:
        tx.append("claim_released", {"id": claim.id, "reason": act.reason, "taken_over": True})
        if claim.held_by(tx.caller):
            continue
        notify(
            tx,
            claim.sender,
            f"Your claim on {claim.target} (fence {claim.fence}) was taken over by "
            f"@{tx.caller.sender}: {act.reason}",
        )
    leave(tx, target)
    claim = grant(tx, target, wish_of(tx.caller, act), act.ttl_s * 1000)
    serve(tx)
    return _acquired(tx, claim) | {"taken_from": [address(c.sender) for c in others]}


def check(tx: Transaction, act: CheckClaim) -> Answer:
    """Who holds it, the asker included."""
    found = in_the_way(tx, target_of(act))
    return {"claimed": bool(found), "claims": [claim.view() for claim in found]}


def list_claims(tx: Transaction, act: ListClaims) -> Answer:
    found = live(tx, "sender = ?", tx.caller.sender) if act.mine else live(tx)
    return {"claims": [claim.view() for claim in found]}


def session_over(tx: Transaction, act: EndSession) -> Answer:
    """A session that ends gives up its claims."""
    end_session(tx, act)
    return {"ended": act.id, "released": [claim.view() for claim in give_up(tx, act.id)]}


def give_up(tx: Transaction, session: str) -> list[Claim]:
    """Releases what the caller holds in a session, and takes it out of every queue."""
    given_up = held(tx, "sender = ? AND session = ?", tx.caller.sender, session)
    for claim in given_up:
        tx.append("claim_released", {"id": claim.id, "reason": "session ended"})
    tx.caller = tx.caller._replace(session=session)
    leave(tx)
    if given_up:
        serve(tx)
    return given_up


def keep_session(tx: Transaction, act: KeepSession) -> Answer:
    """Renews the claims of a living session, but only below half of each lease."""
    return {"claims": [claim.view() for claim in keep(tx, act.id)]}


def keep(tx: Transaction, session: str | None) -> list[Claim]:
    """What the caller holds in a session, or in none, renewed where that is due."""
    for claim in holds(tx, session):
        if _is_due(tx, claim) and not is_paused(tx.state):
            extended = {"id": claim.id, "ttl": claim.ttl, "expires_at": tx.now + claim.ttl}
            tx.append("claim_extended", extended)
    return holds(tx, session)


def holds(tx: Transaction, session: str | None) -> list[Claim]:
    return live(tx, "sender = ? AND session IS ?", tx.caller.sender, session)


def due(tx: Transaction) -> list[tuple[str, str | None]]:
    """The senders and sessions that hold something which is to be renewed now, if they live."""
    found = [claim for claim in live(tx) if _is_due(tx, claim)]
    return list(dict.fromkeys((claim.sender, claim.session) for claim in found))


def _is_due(tx: Transaction, claim: Claim) -> bool:
    return claim.expires_at - tx.now < claim.ttl // 2


def _extend(tx: Transaction, claim: Claim, act: AcquireClaim) -> Claim:
    """Asking again: a lease never gets shorter, and what is not mentioned is kept."""
    everywhere = int(act.everywhere) or None
    said = without_none(
        branch=act.branch, worktree=act.worktree, note=act.note, everywhere=everywhere
    )
    ttl = act.ttl_s * 1000
    expires_at = max(claim.expires_at, tx.now + ttl)
    tx.append("claim_extended", {"id": claim.id, "ttl": ttl, "expires_at": expires_at} | said)
    return by_id(tx, claim.id)


def _own(tx: Transaction, target: Target, fence: int | None) -> Claim:
    """The caller's live claim on the target, with the fence it presents."""
    mine, others = _split(tx, target)
    if fence is not None and (mine is None or mine.fence != fence):
        raise StaleFence(
            f"Fence {fence} is not the fence of a claim of yours on {target}: the claim was lost, "
            "or never had it. Stop what you do under it, and acquire it again.",
            fence=fence,
            held_by=[claim.view() for claim in others] or None,
        )
    if mine is None:
        holder = f" {_holder(tx, others[0])} does." if others else " Nobody does: acquire it."
        raise NotHolder(
            f"You do not hold {target}, so nothing was changed.{holder}",
            held_by=[claim.view() for claim in others],
        )
    return mine


def _split(tx: Transaction, target: Target) -> tuple[Claim | None, list[Claim]]:
    """The caller's own live claim on the target, and others' live claims in its way. A caller's
    own claim on overlapping but different paths is in nobody's way."""
    found = in_the_way(tx, target)
    exact = (c for c in found if c.held_by(tx.caller) and c.target == target)
    return next(exact, None), [c for c in found if not c.held_by(tx.caller)]


def _shared_worktree(tx: Transaction, claim: Claim) -> list[Answer]:
    if claim.worktree is None:
        return []
    return [
        {
            "code": "SHARED_WORKTREE",
            "message": f"@{other.sender} works in {claim.worktree} too, on {other.target}. Two "
            "holders in one worktree see each other's half-done work; use a worktree each.",
            "claim": other.view(),
        }
        for other in live(tx, "worktree = ?", claim.worktree)
        if (other.sender, other.session) != (claim.sender, claim.session)
    ]
