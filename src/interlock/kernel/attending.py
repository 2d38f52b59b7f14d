"""Attending to a client's session: what it is told at each step, over several rooms."""

from interlock.contracts.acts import Attend
from interlock.contracts.addresses import address
from interlock.kernel.claims.guarding import guarded
from interlock.kernel.claims.holding import give_up, holds, keep
from interlock.kernel.mail import waking
from interlock.kernel.mail.messages import Message, envelope
from interlock.kernel.mail.reading import counts
from interlock.kernel.moment import Answer, Moment, absent_dropped
from interlock.kernel.workspace import is_paused


def attend(moment: Moment, act: Attend) -> Answer:
    """Keeps what the session holds; of a client whose shell does not know its session, also what
    the sender holds in none. And tells it what it should know now.

    At its start who it is; whenever it works, of mail that it was not told of; before an edit,
    whose claim is in the way; before it stops, what should not wait; while it is idle, what may
    wake it. When it ends it gives up what it holds."""
    about = _about(moment)
    session = moment.caller.session
    if act.step == "end":
        if session is not None and "paused" not in about:
            give_up(moment, session)
        return about
    claims = keep(moment, None) if act.unbound else holds(moment, None)
    if session is not None:
        claims = [*keep(moment, session), *claims]
    if act.step == "start":
        about |= _some("claims", [claim.view() for claim in claims])
    if act.step == "edit":
        assert act.repo is not None
        return about | guarded(moment, act.repo, act.paths, act.worktree)
    if act.step in ("busy", "rest") or "mail" not in moment.caller.scopes:
        return about
    return about | _mail(moment, act)


def _mail(moment: Moment, act: Attend) -> Answer:
    if act.step == "stop":
        return _some("messages", waking.hand_over(moment, act.adapter, act.held))
    if act.step == "idle":
        return _news(waking.wake(moment, act.adapter))
    return _news(waking.point(moment, act.adapter))


def _about(moment: Moment) -> Answer:
    caller = moment.caller
    about = absent_dropped(
        address=address(caller.sender),
        agent=caller.agent,
        session=caller.session,
        paused=True if is_paused(moment.state) else None,
    )
    return about | counts(moment)


def _news(found: list[Message]) -> Answer:
    return _some("news", [envelope(message, None) for message in found])


def _some(name: str, found: list[Answer]) -> Answer:
    return {name: found} if found else {}
