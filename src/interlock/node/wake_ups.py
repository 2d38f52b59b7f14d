"""Whom a server may wake, and the record of it. What the rules say of it is the kernel's; how it is
done, an adapter's."""

from functools import partial
from typing import Any, NamedTuple

from interlock.node import Node
from interlock.node.batch import Batch
from interlock.rooms.claims import queue
from interlock.rooms.identity.names import agent_of
from interlock.rooms.mail import waking
from interlock.rooms.mail.reading import counts
from interlock.rooms.mail.records import envelope
from interlock.rooms.transaction import Caller
from interlock.rooms.workspace.rules import is_paused
from interlock.stores.presence import IDLE, WORKING, Window
from interlock.verbs.answers import Answer


class Begun(NamedTuple):
    """A wake that was begun and must be ended: the messages it is for, and how many are unread."""

    id: str
    news: list[Answer]
    unread: int


class Sleeper(NamedTuple):
    """A sender that nobody works for just now: its idle windows, and whether anything would wake
    it."""

    sender: str
    windows: list[Window]
    is_due: bool


def sleepers(node: Node) -> list[Sleeper]:
    """Every sender without a window at work. Looks, and leaves no trace."""
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
    """Gives up what sessions hold whose client has died on this machine."""
    with node.file.reading() as db:
        now = node.transaction(db).now
        senders = [str(row[0]) for row in db.execute("SELECT sender FROM identity_senders")]
    for sender in senders:
        node.presence.sweep(sender, now)
        for session in node.presence.lost(sender):
            node.do(partial(_give_up, sender, session))
            node.note_end(sender, session)


def keep(node: Node) -> None:
    """Renews what sessions hold whose client lives on this machine, be it idle."""
    with node.file.reading() as db:
        found = queue.sessions_to_renew(node.transaction(db))
    for sender, session in found:
        if session in node.presence.living(sender):
            node.do(partial(_keep, sender, session))


def _keep(sender: str, session: str | None, turn: Batch) -> None:
    caller = Caller(sender, agent_of(turn.system().state, sender), "agent", session=session)
    queue.renew_session(turn.transaction(caller), session)


def _give_up(sender: str, session: str, turn: Batch) -> None:
    tx = turn.system()
    if not is_paused(tx.state):
        caller = Caller(sender, agent_of(tx.state, sender), "agent", session=session)
        queue.release_session(turn.transaction(caller), session)


def begin(node: Node, sender: str, adapter: str) -> Begun | None:
    """None where there is nothing any more to wake it for."""

    def work(turn: Batch) -> Begun | None:
        tx = turn.system()
        if is_paused(tx.state):
            return None
        caller = Caller(sender, agent_of(tx.state, sender), "agent")
        unread = counts(turn.transaction(caller))["unread"]
        begun = waking.begin(tx, caller, adapter)
        if begun is None:
            return None
        id, messages = begun
        return Begun(id, [envelope(message, None) for message in messages], unread)

    found: Begun | None = node.do(work)
    return found


def end(node: Node, begun: Begun, sender: str, outcome: str, why: str | None = None) -> None:
    def work(turn: Batch) -> Any:
        return waking.end(turn.system(), begun.id, sender, outcome, why)

    node.do(work)
