"""The senders that a server may wake, and the record of each wake-up. `rooms.mail.waking` has the
rules. An adapter of the agent's client wakes the agent."""

from functools import partial
from typing import Any, NamedTuple

from interlock.node import Node
from interlock.node.batch import Batch
from interlock.rooms.claims import rules as claims
from interlock.rooms.identity.names import agent_of
from interlock.rooms.mail import waking
from interlock.rooms.mail.records import counts, envelope
from interlock.rooms.transaction import Caller, is_paused
from interlock.stores.presence import IDLE, WORKING, Window
from interlock.verbs.answers import Answer


class Begun(NamedTuple):
    """A wake-up that has started and must be ended: its messages, and the number of unread ones."""

    id: str
    news: list[Answer]
    unread: int


class Sleeper(NamedTuple):
    """A sender without a working client: its idle windows, and whether it is due to be woken."""

    sender: str
    windows: list[Window]
    is_due: bool


def sleepers(node: Node) -> list[Sleeper]:
    """Return every sender without a working window. Writes nothing."""
    with node.file.reading() as db:
        tx = node.transaction(db)
        since = waking.fresh_since(tx)
        found = []
        for sender, agent in tx.all("SELECT sender, agent FROM identity_senders ORDER BY 1"):
            windows = node.presence.windows(sender, tx.now)
            if all(window.doing != WORKING for window in windows):
                idle = [window for window in windows if window.doing == IDLE]
                caller = Caller(sender, agent, "agent")
                due = waking.would_wake(tx, caller, since) and not is_paused(tx.state)
                found.append(Sleeper(sender, idle, due))
    return found


def release_dead_sessions(node: Node) -> None:
    """Release the claims of sessions whose client has died on this machine."""
    with node.file.reading() as db:
        now = node.transaction(db).now
        senders = [str(row[0]) for row in db.execute("SELECT sender FROM identity_senders")]
    for sender in senders:
        node.presence.sweep(sender, now)
        for session in node.presence.lost(sender):
            node.do(partial(_release, sender, session))
            node.note_end(sender, session)


def keep(node: Node) -> None:
    """Renew the claims of sessions whose client runs on this machine, even if it is idle."""
    with node.file.reading() as db:
        found = claims.sessions_to_renew(node.transaction(db))
    for sender, session in found:
        if session in node.presence.living(sender):
            node.do(partial(_renew, sender, session))


def _renew(sender: str, session: str | None, batch: Batch) -> None:
    caller = Caller(sender, agent_of(batch.system().state, sender), "agent", session=session)
    claims.renew_session(batch.transaction(caller), session)


def _release(sender: str, session: str, batch: Batch) -> None:
    tx = batch.system()
    if not is_paused(tx.state):
        caller = Caller(sender, agent_of(tx.state, sender), "agent", session=session)
        claims.release_session(batch.transaction(caller), session)


def begin(node: Node, sender: str, adapter: str) -> Begun | None:
    """Record the start of a wake-up. Return None if there is no reason for it any more."""

    def work(batch: Batch) -> Begun | None:
        tx = batch.system()
        if is_paused(tx.state):
            return None
        caller = Caller(sender, agent_of(tx.state, sender), "agent")
        unread = counts(batch.transaction(caller))["unread"]
        begun = waking.begin(tx, caller, adapter)
        if begun is None:
            return None
        id, messages = begun
        return Begun(id, [envelope(message, None) for message in messages], unread)

    found: Begun | None = node.do(work)
    return found


def end(node: Node, begun: Begun, sender: str, outcome: str, why: str | None = None) -> None:
    def work(batch: Batch) -> Any:
        return waking.end(batch.system(), begun.id, sender, outcome, why)

    node.do(work)
