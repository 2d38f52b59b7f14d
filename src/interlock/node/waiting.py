"""Waiting: the one place where an act is tried again until it succeeds or time is up.

Each wait listens for commits and looks cheaply first; nobody holds the turn while waiting.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import closing

from interlock.contracts.acts import (
    AcquireClaim,
    CheckClaim,
    Credentials,
    FindAnswer,
    ListInbox,
    ReadMessage,
    SendMessage,
    StopWaiting,
    Whoami,
)
from interlock.errors import NoAnswer
from interlock.kernel.moment import Answer
from interlock.node import Node

# A waiter in a queue is asked for a sign of life within this; see claims.WAITER_LEASE_MS.
SIGN_OF_LIFE_S = 8.0


def until(node: Node, seconds: float, attempt: Callable[[], Answer | None]) -> Answer | None:
    """The first answer that is not None, asked for after every commit and every now and then."""
    deadline = time.monotonic() + seconds
    with closing(node.listen()) as listener:
        while True:
            if (answer := attempt()) is not None:
                return answer
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            listener.wait(left)


def inbox(node: Node, credentials: Credentials, act: ListInbox, seconds: float) -> Answer:
    """Open mail, waiting for some to come; an empty answer when none did."""
    with node.presence.listening(_sender(node, credentials)):
        last: list[Answer] = []

        def attempt() -> Answer | None:
            last[:] = [node.call(credentials, act)]
            return last[0] if last[0]["messages"] else None

        return until(node, seconds, attempt) or last[0]


def ask(node: Node, credentials: Credentials, act: SendMessage, seconds: float) -> Answer:
    """Sends the ask and waits for its first answer. Without one the answer is a plain no, and a
    late one arrives in the inbox."""
    sent = node.send(credentials, act)
    id = sent["message"]["id"]

    def attempt() -> Answer | None:
        found = node.call(credentials, FindAnswer(id))
        return found if found["answered"] else None

    with node.presence.listening(_sender(node, credentials)):
        found = until(node, seconds, attempt)
    told = {name: sent[name] for name in ("deliveries", "notices")}
    if found is not None:
        node.call(credentials, ReadMessage(found["answer"]["id"]))
        return found | told
    late = NoAnswer(
        f"Nobody answered within {seconds:.0f} s. A late answer arrives in the inbox: do other "
        "work, and do not ask again."
    )
    return {"answered": False, "id": id} | late.as_dict() | told


def acquire(node: Node, credentials: Credentials, act: AcquireClaim) -> Answer:
    """Acquires, standing in the queue for up to `wait_s`. However the waiting ends, the caller
    leaves the queue."""
    answer = node.call(credentials, act)
    if answer["acquired"] or act.wait_s is None:
        return answer
    wanted = CheckClaim(act.item, act.paths, act.repo)
    holder = "@" + _sender(node, credentials), credentials.session
    asked = [time.monotonic()]

    def attempt() -> Answer | None:
        held = node.call(credentials, wanted)["claims"]
        others = [claim for claim in held if (claim["holder"], claim.get("session")) != holder]
        if others and time.monotonic() - asked[0] < SIGN_OF_LIFE_S:
            return None
        asked[0] = time.monotonic()
        again = node.call(credentials, act)
        return again if again["acquired"] else None

    try:
        found = until(node, act.wait_s, attempt)
    except BaseException:
        node.call(credentials, StopWaiting(*wanted))
        raise
    if found is not None:
        return found
    # Out of the queue first: what is handed over now would be held by somebody who was told no.
    node.call(credentials, StopWaiting(*wanted))
    return node.call(credentials, act._replace(wait_s=None))


def _sender(node: Node, credentials: Credentials) -> str:
    return str(node.call(credentials, Whoami())["sender"])


def mail(node: Node, credentials: Credentials, after: int | None = None) -> Iterator[Answer]:
    """Messages as they arrive, for ever: those after a position, or from now on."""
    if after is None:
        with node.file.reading() as db:
            after = node.engine.head(db).seq
    with node.presence.listening(_sender(node, credentials)), closing(node.listen()) as listener:
        while True:
            found = node.call(credentials, ListInbox(after=after, adapter="watch"))["messages"]
            for message in found:
                yield message
                after = int(message["seq"])
            if not found:
                listener.wait(60.0)
