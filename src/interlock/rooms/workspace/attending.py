"""Attending to a client's session: the news for each step, over several rooms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.rooms.claims.guard import guarded
from interlock.rooms.claims.queue import release_session, renew_session, session_claims
from interlock.rooms.mail import waking
from interlock.rooms.mail.reading import counts
from interlock.rooms.mail.records import envelope
from interlock.rooms.workspace.rules import is_paused
from interlock.verbs.addresses import address
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.rooms.transaction import Transaction
    from interlock.rooms.workspace import answers, verbs


def attend(tx: Transaction, request: verbs.Attend) -> answers.Attended:
    """Renew the claims of the session, and return the news for its step. If the client's shell does
    not know the session, renew the sender's claims without a session too.

    The news are: at the start the held claims; before an edit the claims in its way; before a stop
    urgent mail; while idle the mail that may wake it; at other steps new mail. The end releases the
    claims of the session."""
    caller, session = tx.caller, tx.caller.session
    paused = is_paused(tx.state)
    about = without_none(
        address=address(caller.sender),
        agent=caller.agent,
        session=session,
        paused=True if paused else None,
    ) | counts(tx)
    if request.step == "end":
        if session is not None and not paused:
            release_session(tx, session)
        return about
    claims = renew_session(tx, None) if request.unbound else session_claims(tx, None)
    if session is not None:
        claims = [*renew_session(tx, session), *claims]
    if request.step == "edit":
        assert request.repo is not None
        return about | guarded(tx, request.repo, request.paths, request.worktree)

    news: dict[str, list[Any]] = {}
    if request.step == "start":
        news["claims"] = [claim.view() for claim in claims]
    if request.step not in ("busy", "rest") and "mail" in caller.scopes:
        if request.step == "stop":
            news["messages"] = waking.hand_over(tx, request.adapter, request.held)
        else:
            tell = waking.wake if request.step == "idle" else waking.point
            news["news"] = [envelope(message, None) for message in tell(tx, request.adapter)]
    return about | {name: found for name, found in news.items() if found}
