"""Scripts: verbs that take several steps, such as waiting for mail or sending a large body.

A script is a generator. It yields acts and is sent their answers; it yields `Sleep` to wait for a
commit, and `Listening` to be shown as reachable until it ends. What a step raises is raised where
the script stands, so that it can clean up with further steps. It neither blocks nor knows how time
passes, and so serves callers that are threads (`play`) and callers on an event loop (`live`) alike;
nobody holds the turn while waiting.
"""

import os
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.contracts import uploads
from interlock.contracts.acts import (
    AcceptInvitation,
    AckMessages,
    AcquireClaim,
    Ask,
    Attend,
    CheckClaim,
    Credentials,
    FindAnswer,
    Invite,
    Join,
    ListInbox,
    MintToken,
    RotateToken,
    SendMessage,
    StopWaiting,
    Whoami,
)
from interlock.contracts.checks import checked
from interlock.contracts.tokens import INVITATION, SECRET_BYTES, compose, hashed
from interlock.errors import NoAnswer, Refusal
from interlock.rooms.transaction import Answer

if TYPE_CHECKING:
    from interlock.node import Node
    from interlock.stores.file import Listener

# A waiter in a queue is asked for a sign of life within this; see claims.WAITER_LEASE_MS.
SIGN_OF_LIFE_S = 8.0
# The end of a lease or of a quiet time is no commit.
LOOK_AFTER_S = 1.0


class Sleep(NamedTuple):
    """Until something was committed that may matter, or the time is over; waking early does no
    harm. What may matter is mail of these names; with none, claims. The reply is False where
    nobody can wait any longer."""

    seconds: float
    names: frozenset[str] = frozenset()


class Listening(NamedTuple):
    sender: str
    asleep: bool = False


Flow = Generator[Any, Any, Answer]


def flow_of(act: Any) -> Flow | None:
    """The script of an act that takes several steps, or None where one will do."""
    if isinstance(act, SendMessage):
        return uploads.steps(act) if uploads.is_large(act) else None
    if isinstance(act, Ask):
        return _ask(act)
    if isinstance(act, Join | MintToken | RotateToken | AcceptInvitation) and not act.token_hash:
        return _mint(act)
    if isinstance(act, Invite) and not act.code_hash:
        return _invite(act)
    if isinstance(act, ListInbox) and act.wait_s is not None:
        return _inbox(act)
    if isinstance(act, Attend) and act.wait_s is not None:
        return _attend(act)
    if isinstance(act, AcquireClaim) and act.wait_s is not None:
        return _acquire(act)
    return None


def run(node: "Node", credentials: Credentials, script: Flow) -> Answer:
    """Plays a script to its end, in the caller's thread."""
    with ExitStack() as stack:
        listener = stack.enter_context(closing(node.listen()))

        def step(wanted: Any) -> Any:
            if isinstance(wanted, Sleep):
                _doze(listener, min(wanted.seconds, LOOK_AFTER_S))
                return True
            if isinstance(wanted, Listening):
                shown = node.presence.listening(wanted.sender, asleep=wanted.asleep)
                return stack.enter_context(shown)
            return node.verb(credentials, wanted)

        return _run(script, step)


def _doze(listener: "Listener", seconds: float) -> None:
    """Until something was committed, or the time is over."""
    deadline = time.monotonic() + seconds
    while not listener.wait(deadline - time.monotonic()) and time.monotonic() < deadline:
        continue


def _run(script: Flow, step: Callable[[Any], Any]) -> Answer:
    reply, trouble = None, None
    while True:
        try:
            wanted = script.send(reply) if trouble is None else script.throw(trouble)
        except StopIteration as end:
            answer: Answer = end.value
            return answer
        try:
            reply, trouble = step(wanted), None
        except BaseException as raised:  # noqa: BLE001 - the script decides, and raises it again
            trouble = raised


def _names(whoami: Answer) -> frozenset[str]:
    return frozenset({whoami["sender"], whoami["agent"]})


def _inbox(act: ListInbox) -> Flow:
    """Open mail, waiting for some to come that nobody has read; what there is when none did."""
    act = checked(act)
    who = yield Whoami()
    yield Listening(who["sender"])
    deadline = time.monotonic() + (act.wait_s or 0)
    while True:
        found: Answer = yield act._replace(wait_s=None)
        left = deadline - time.monotonic()
        is_new = found["messages"] and (act.after > 0 or found["unread"] > 0)
        if is_new or left <= 0:
            return found
        if not (yield Sleep(left, _names(who))):
            deadline = 0.0


def _attend(act: Attend) -> Flow:
    """Waits until there is something to wake an idle client for; what there is when nothing came.
    It looks every few seconds, since the end of a quiet time is nowhere in the log."""
    act = checked(act)
    who = yield Whoami()
    yield Listening(who["sender"], asleep=True)
    deadline = time.monotonic() + (act.wait_s or 0)
    while True:
        found: Answer = yield act._replace(wait_s=None)
        left = deadline - time.monotonic()
        if "news" in found or left <= 0:
            return found
        if not (yield Sleep(min(left, SIGN_OF_LIFE_S), _names(who))):
            deadline = 0.0


def _ask(act: Ask) -> Flow:
    """Sends the ask and waits for its first answer. Without one the answer is a plain no, and a
    late one arrives in the inbox."""
    checked(act)
    payload: dict[str, Any] = {"question": act.question}
    if act.options:
        payload["options"] = list(act.options)
    if act.timeout_s is not None:
        payload["timeout_s"] = act.timeout_s
    sent = yield from _send(SendMessage(act.to, "ask", payload, key=act.key))
    id = sent["message"]["id"]
    told = {name: sent[name] for name in ("deliveries", "notices")}
    who = yield Whoami()
    yield Listening(who["sender"])
    deadline = time.monotonic() + act.wait_s
    while True:
        found: Answer = yield FindAnswer(id)
        if found["answered"]:
            yield AckMessages((found["answer"]["id"],))  # whoever asked has it
            return found | told
        left = deadline - time.monotonic()
        if left <= 0:
            break
        if not (yield Sleep(left, _names(who))):
            deadline = 0.0
    late = NoAnswer(
        f"Nobody answered within {act.wait_s} s. A late answer arrives in the inbox: do other "
        "work, and do not ask again."
    )
    return {"answered": False, "id": id} | late.as_dict() | told


def _acquire(act: AcquireClaim) -> Flow:
    """Acquires, standing in the queue for up to `wait_s`. However the waiting ends, the caller
    leaves the queue."""
    target = act.item, act.paths, act.repo
    wanted, stop = CheckClaim(*target), StopWaiting(*target)
    answer: Answer | None = None
    try:
        answer = yield act
        if answer["acquired"]:
            return answer
        act = checked(act)
        asked = time.monotonic()
        deadline = asked + (act.wait_s or 0)
        who = yield Whoami()
        holder = who["address"], who.get("session")
        while (left := deadline - time.monotonic()) > 0:
            if not (yield Sleep(min(left, SIGN_OF_LIFE_S))):
                break
            held = (yield wanted)["claims"]
            others = [claim for claim in held if (claim["holder"], claim.get("session")) != holder]
            if others and time.monotonic() - asked < SIGN_OF_LIFE_S:
                continue
            asked = time.monotonic()
            answer = yield act
            if answer["acquired"]:
                return answer
    except BaseException as trouble:
        # Whoever was refused at once is not in the queue; whoever went away meanwhile may be.
        if answer is not None or not isinstance(trouble, Refusal):
            yield stop
        raise
    # Out of the queue first: what is handed over now would be held by somebody who was told no.
    yield stop
    final: Answer = yield act._replace(wait_s=None)
    return final


def _invite(act: Invite) -> Flow:
    code = compose(os.urandom(SECRET_BYTES), INVITATION)
    answer: Answer = yield act._replace(code_hash=hashed(code))
    return answer | {"invitation": code, "path": f"/invite/{code}"}


def _mint(act: Join | MintToken | RotateToken | AcceptInvitation) -> Flow:
    """Makes a token for an act that brought no hash of one; the answer is the only place that has
    it."""
    token = compose(os.urandom(SECRET_BYTES))
    answer: Answer = yield act._replace(token_hash=hashed(token))
    return answer | {"token": token}


def _send(act: SendMessage) -> Flow:
    if uploads.is_large(act):
        return (yield from uploads.steps(act))
    answer: Answer = yield act
    return answer
