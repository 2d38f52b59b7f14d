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
from interlock.contracts.times import rfc3339
from interlock.errors import ClaimHeld, MissingScope, NotFound, NotHolder, StaleFence
from interlock.kernel.claims.queueing import ahead, expire, grant, leave, serve, wait
from interlock.kernel.claims.records import (
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
from interlock.kernel.identity.sessions import end_session, refuse_ended
from interlock.kernel.mail.sending import notify
from interlock.kernel.moment import Answer, Moment, absent_dropped
from interlock.kernel.workspace import is_paused


def acquire(moment: Moment, act: AcquireClaim) -> Answer:
    """Grants the claim, extends the caller's own, or says who has it.

    In a race the first in the log wins and everyone else sees its claim. With `wait_s` the
    caller is put into the queue, and asks again until it is served or stops waiting."""
    refuse_ended(moment)
    target = target_of(act)
    expire(moment)
    mine, others = _split(moment, target)
    if mine is not None:
        return _acquired(moment, _extend(moment, mine, act))
    before = ahead(moment, target)
    if others or before:
        if act.wait_s is not None:
            wait(moment, act, target)
        return _held(moment, target, others, len(before))
    leave(moment, target)
    claim = grant(moment, target, wish_of(moment.caller, act), act.ttl_s * 1000)
    return _acquired(moment, claim)


def _acquired(moment: Moment, claim: Claim) -> Answer:
    answer: Answer = {"acquired": True, "claim": claim.view()}
    if notices := _shared_worktree(moment, claim):
        answer["notices"] = notices
    return answer


def _holder(moment: Moment, claim: Claim) -> str:
    """Who holds a claim, as the caller is told; two sessions of one sender are two holders."""
    if claim.sender != moment.caller.sender:
        return f"@{claim.sender}"
    session = f"the session {claim.session}" if claim.session else "no session"
    return f"@{claim.sender} in {session}, which is not this one,"


def _held(moment: Moment, target: Target, others: list[Claim], ahead: int) -> Answer:
    if others:
        first = others[0]
        why = f"{target} is held by {_holder(moment, first)} until {rfc3339(first.expires_at)}."
    else:
        why = f"{target} is free, but {ahead} asked for it before you."
    refusal = ClaimHeld(f"{why} Do other work, ask the holder, or wait with --wait.")
    queued = {"queued": ahead} if ahead else {}
    held_by = [claim.view() for claim in others]
    return {"acquired": False} | refusal.as_dict() | {"held_by": held_by} | queued


def renew(moment: Moment, act: RenewClaim) -> Answer:
    if (target := named(moment, act)) is None:
        raise NotHolder(f"There is no claim {act.id} any more: acquire it again.")
    claim = _own(moment, target, act.fence)
    expires_at = max(claim.expires_at, moment.now + act.ttl_s * 1000)
    moment.record(
        "claim_extended", {"id": claim.id, "ttl": act.ttl_s * 1000, "expires_at": expires_at}
    )
    return {"renewed": True, "claim": by_id(moment, claim.id).view()}


def release(moment: Moment, act: ReleaseClaim) -> Answer:
    if (target := named(moment, act)) is None:
        return {"released": False}
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
    refuse_ended(moment)
    target = target_of(act)
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
    leave(moment, target)
    claim = grant(moment, target, wish_of(moment.caller, act), act.ttl_s * 1000)
    serve(moment)
    return _acquired(moment, claim) | {"taken_from": [address(c.sender) for c in others]}


def check(moment: Moment, act: CheckClaim) -> Answer:
    """Who holds it, the asker included."""
    found = in_the_way(moment, target_of(act))
    return {"claimed": bool(found), "claims": [claim.view() for claim in found]}


def list_claims(moment: Moment, act: ListClaims) -> Answer:
    found = live(moment, "sender = ?", moment.caller.sender) if act.mine else live(moment)
    return {"claims": [claim.view() for claim in found]}


def session_over(moment: Moment, act: EndSession) -> Answer:
    """A session that ends gives up its claims."""
    end_session(moment, act)
    return {"ended": act.id, "released": [claim.view() for claim in give_up(moment, act.id)]}


def give_up(moment: Moment, session: str) -> list[Claim]:
    """Releases what the caller holds in a session, and takes it out of every queue."""
    given_up = held(moment, "sender = ? AND session = ?", moment.caller.sender, session)
    for claim in given_up:
        moment.record("claim_released", {"id": claim.id, "reason": "session ended"})
    moment.caller = moment.caller._replace(session=session)
    leave(moment)
    if given_up:
        serve(moment)
    return given_up


def keep_session(moment: Moment, act: KeepSession) -> Answer:
    """Renews the claims of a living session, but only below half of each lease."""
    return {"claims": [claim.view() for claim in keep(moment, act.id)]}


def keep(moment: Moment, session: str | None) -> list[Claim]:
    """What the caller holds in a session, or in none, renewed where that is due."""
    for claim in holds(moment, session):
        if _is_due(moment, claim) and not is_paused(moment.state):
            extended = {"id": claim.id, "ttl": claim.ttl, "expires_at": moment.now + claim.ttl}
            moment.record("claim_extended", extended)
    return holds(moment, session)


def holds(moment: Moment, session: str | None) -> list[Claim]:
    return live(moment, "sender = ? AND session IS ?", moment.caller.sender, session)


def due(moment: Moment) -> list[tuple[str, str | None]]:
    """The senders and sessions that hold something which is to be renewed now, if they live."""
    found = [claim for claim in live(moment) if _is_due(moment, claim)]
    return list(dict.fromkeys((claim.sender, claim.session) for claim in found))


def _is_due(moment: Moment, claim: Claim) -> bool:
    return claim.expires_at - moment.now < claim.ttl // 2


def _extend(moment: Moment, claim: Claim, act: AcquireClaim) -> Claim:
    """Asking again: a lease never gets shorter, and what is not mentioned is kept."""
    everywhere = int(act.everywhere) or None
    said = absent_dropped(
        branch=act.branch, worktree=act.worktree, note=act.note, everywhere=everywhere
    )
    ttl = act.ttl_s * 1000
    expires_at = max(claim.expires_at, moment.now + ttl)
    moment.record("claim_extended", {"id": claim.id, "ttl": ttl, "expires_at": expires_at} | said)
    return by_id(moment, claim.id)


def _own(moment: Moment, target: Target, fence: int | None) -> Claim:
    """The caller's live claim on the target, with the fence it presents."""
    mine, others = _split(moment, target)
    if fence is not None and (mine is None or mine.fence != fence):
        raise StaleFence(
            f"Fence {fence} is not the fence of a claim of yours on {target}: the claim was lost, "
            "or never had it. Stop what you do under it, and acquire it again.",
            fence=fence,
            held_by=[claim.view() for claim in others] or None,
        )
    if mine is None:
        holder = f" {_holder(moment, others[0])} does." if others else " Nobody does: acquire it."
        raise NotHolder(
            f"You do not hold {target}, so nothing was changed.{holder}",
            held_by=[claim.view() for claim in others],
        )
    return mine


def _split(moment: Moment, target: Target) -> tuple[Claim | None, list[Claim]]:
    """The caller's own live claim on the target, and others' live claims in its way. A caller's
    own claim on overlapping but different paths is in nobody's way."""
    found = in_the_way(moment, target)
    exact = (c for c in found if c.held_by(moment.caller) and c.target == target)
    return next(exact, None), [c for c in found if not c.held_by(moment.caller)]


def _shared_worktree(moment: Moment, claim: Claim) -> list[Answer]:
    if claim.worktree is None:
        return []
    return [
        {
            "code": "SHARED_WORKTREE",
            "message": f"@{other.sender} works in {claim.worktree} too, on {other.target}. Two "
            "holders in one worktree see each other's half-done work; use a worktree each.",
            "claim": other.view(),
        }
        for other in live(moment, "worktree = ?", claim.worktree)
        if (other.sender, other.session) != (claim.sender, claim.session)
    ]
