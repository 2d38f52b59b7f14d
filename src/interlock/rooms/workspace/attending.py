"""Attending to a client's session: what it is told at each step, over several rooms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.rooms.claims.guard import guarded
from interlock.rooms.claims.queue import release_session, renew_session, session_claims
from interlock.rooms.mail import waking
from interlock.rooms.mail.reading import counts
from interlock.rooms.mail.records import Message, envelope
from interlock.rooms.transaction import RuleAnswer, Transaction
from interlock.rooms.workspace.rules import is_paused
from interlock.verbs.addresses import address
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.rooms.workspace.verbs import Attend


def attend(tx: Transaction, act: Attend) -> RuleAnswer:
    """Keeps what the session holds; of a client whose shell does not know its session, also what
    the sender holds in none. And tells it what it should know now.

    At its start who it is; whenever it works, of mail that it was not told of; before an edit,
    whose claim is in the way; before it stops, what should not wait; while it is idle, what may
    wake it. When it ends it gives up what it holds."""
    about = _about(tx)
    session = tx.caller.session
    if act.step == "end":
        if session is not None and "paused" not in about:
            release_session(tx, session)
        return about
    claims = renew_session(tx, None) if act.unbound else session_claims(tx, None)
    if session is not None:
        claims = [*renew_session(tx, session), *claims]
    if act.step == "start":
        about |= _some("claims", [claim.view() for claim in claims])
    if act.step == "edit":
        assert act.repo is not None
        return about | guarded(tx, act.repo, act.paths, act.worktree)
    if act.step in ("busy", "rest") or "mail" not in tx.caller.scopes:
        return about
    return about | _mail(tx, act)


def _mail(tx: Transaction, act: Attend) -> RuleAnswer:
    if act.step == "stop":
        return _some("messages", waking.hand_over(tx, act.adapter, act.held))
    if act.step == "idle":
        return _news(waking.wake(tx, act.adapter))
    return _news(waking.point(tx, act.adapter))


def _about(tx: Transaction) -> RuleAnswer:
    caller = tx.caller
    about = without_none(
        address=address(caller.sender),
        agent=caller.agent,
        session=caller.session,
        paused=True if is_paused(tx.state) else None,
    )
    return about | counts(tx)


def _news(found: list[Message]) -> RuleAnswer:
    return _some("news", [envelope(message, None) for message in found])


def _some(name: str, found: list[RuleAnswer]) -> RuleAnswer:
    return {name: found} if found else {}
