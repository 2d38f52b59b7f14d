"""Sessions: running clients of a sender, told apart as holders of claims."""

from interlock.contracts.acts import EndSession, FindSession, StartSession
from interlock.contracts.addresses import address
from interlock.errors import IdentityMismatch, NameTaken, NotHolder
from interlock.kernel.moment import Answer, Caller, Moment, absent_dropped


def refuse_foreign(moment: Moment, caller: Caller) -> None:
    """A session is one sender's: another who names it says what is not so."""
    if caller.session is None:
        return
    row = moment.one("SELECT sender FROM identity_sessions WHERE session = ?", caller.session)
    if row is not None and row[0] != caller.sender:
        raise IdentityMismatch(
            f"The session {caller.session} is @{row[0]}'s, and the token is @{caller.sender}'s.",
            sender=address(caller.sender),
        )


def refuse_ended(moment: Moment) -> None:
    """What a client left running when it ended can hold nothing any more."""
    row = moment.one(
        "SELECT 1 FROM identity_sessions WHERE session = ? AND ended_at IS NOT NULL",
        moment.caller.session,
    )
    if row is not None:
        raise NotHolder(
            f"The session {moment.caller.session} has ended, and can hold nothing. Start another: "
            "interlock run SENDER -- COMMAND"
        )


def start_session(moment: Moment, act: StartSession) -> Answer:
    row = moment.one("SELECT sender, ended_at FROM identity_sessions WHERE session = ?", act.id)
    if row is not None and (row[0] != moment.caller.sender or row[1] is not None):
        raise NameTaken("That session was used before. Let interlock run make one.")
    if row is None:
        moment.record("session_started", {"session": act.id})
    return {"session": act.id, "sender": moment.caller.sender}


def end_session(moment: Moment, act: EndSession) -> None:
    """Marks a session as ended; the claims room gives up what it held."""
    row = moment.one("SELECT sender, ended_at FROM identity_sessions WHERE session = ?", act.id)
    if row is not None and row[0] == moment.caller.sender and row[1] is None:
        moment.record("session_ended", {"session": act.id})


def find_session(moment: Moment, act: FindSession) -> Answer:
    row = moment.one(
        "SELECT sender FROM identity_sessions WHERE session = ? AND ended_at IS NULL", act.id
    )
    return absent_dropped(session=act.id, sender=row[0] if row else None)
