"""Sessions: running clients of a sender, told apart as holders of claims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.errors import IdentityMismatch, NotHolder
from interlock.rooms.transaction import Caller, Transaction
from interlock.verbs.addresses import address

if TYPE_CHECKING:
    from interlock.rooms.identity.verbs import EndSession


def refuse_foreign(tx: Transaction, caller: Caller) -> None:
    """A session is one sender's: another who names it says what is not so."""
    if caller.session is None:
        return
    row = tx.one("SELECT sender FROM identity_sessions WHERE session = ?", caller.session)
    if row is not None and row[0] != caller.sender:
        raise IdentityMismatch(
            f"The session {caller.session} is @{row[0]}'s, and the token is @{caller.sender}'s.",
            sender=address(caller.sender),
        )


def refuse_ended(tx: Transaction) -> None:
    """What a client left running when it ended can hold nothing any more."""
    row = tx.one(
        "SELECT 1 FROM identity_sessions WHERE session = ? AND ended_at IS NOT NULL",
        tx.caller.session,
    )
    if row is not None:
        raise NotHolder(
            f"The session {tx.caller.session} has ended, and can hold nothing. Start another: "
            "interlock run SENDER -- COMMAND"
        )


def end_session(tx: Transaction, act: EndSession) -> None:
    """Marks a session as ended; the claims room gives up what it held."""
    row = tx.one("SELECT sender, ended_at FROM identity_sessions WHERE session = ?", act.id)
    if row is not None and row[0] == tx.caller.sender and row[1] is None:
        tx.append("session_ended", {"session": act.id})
