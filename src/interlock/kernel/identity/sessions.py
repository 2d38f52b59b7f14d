"""Sessions: running clients of a sender, told apart as holders of claims."""

from interlock.contracts.acts import EndSession, FindSession, StartSession
from interlock.errors import NameTaken
from interlock.kernel.moment import Answer, Moment, absent_dropped


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
