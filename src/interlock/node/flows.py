"""Verbs that take several requests: waiting for mail or claims, large bodies, new secrets.

Each is a flow (`verbs.flows`): it yields requests, `Sleep` and `ShowReachable`. The node runs it in
a thread (`Node.call`) or on the event loop (`LiveNode.call`). A sleeping flow holds no transaction.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from interlock.errors import NoAnswer, Refusal
from interlock.rooms.identity.token_format import INVITATION, SECRET_BYTES, compose, hashed
from interlock.rooms.mail.message_types import is_large
from interlock.rooms.workspace.verbs import Attend, Whoami
from interlock.verbs import LazyModule
from interlock.verbs.answers import Answer
from interlock.verbs.flows import Flow, ShowReachable, Sleep
from interlock.verbs.verb import Verb, check_fields, validated

if TYPE_CHECKING:
    from interlock.rooms.claims import verbs as claims
    from interlock.rooms.mail import uploads
    from interlock.rooms.mail import verbs as mail
    from interlock.rooms.people.verbs import Invite
else:
    claims = LazyModule("interlock.rooms.claims.verbs")
    mail = LazyModule("interlock.rooms.mail.verbs")
    uploads = LazyModule("interlock.rooms.mail.uploads")

# A waiter repeats its request within this time, to keep its place in the queue: see
# claims.rules.WAITER_LEASE_MS.
ASK_AGAIN_S = 8.0
# A lease or a quiet time ends without a commit, so a waiter also checks at this interval.
CHECK_AGAIN_S = 1.0


def flow_of(request: Any) -> Flow[Answer] | None:
    """Return the flow of a request that takes several steps, or None if one step is enough. Raises
    Usage for fields of a wrong type."""
    # By name, because importing the verbs of all rooms would slow down every command.
    name = f"{type(request).__module__}.{type(request).__name__}".removeprefix("interlock.rooms.")
    if name not in FLOWS:
        return None
    check_fields(request)
    given = vars(request)
    waits = given.get("wait_s") is not None
    needs_secret = "" in (given.get("token_hash"), given.get("code_hash"))
    has_large_body = "payload" in given and is_large(request.type, request.payload)
    return FLOWS[name](request) if waits or needs_secret or has_large_body else None


def _wait_for(
    request: Verb,
    wait_s: float,
    is_done: Callable[[Answer], bool],
    *,
    asleep: bool = False,
    ask_again_s: float = math.inf,
) -> Flow[Answer]:
    """Repeat a request until `is_done` accepts its answer or the time is over. Return the last
    answer. Meanwhile presence shows the caller as reachable."""
    who = yield Whoami()
    yield ShowReachable(who["sender"], asleep)
    names = frozenset({who["sender"], who["agent"]})
    deadline = time.monotonic() + wait_s
    while True:
        found: Answer = yield request
        left = deadline - time.monotonic()
        if is_done(found) or left <= 0:
            return found
        if not (yield Sleep(min(left, ask_again_s), names)):
            deadline = 0.0


def _inbox(request: mail.ListInbox) -> Flow[Answer]:
    """List open mail. If none of it is unread, wait for new mail."""
    request = validated(request)

    def is_new(found: Answer) -> bool:
        return bool(found["messages"] and (request.after > 0 or found["unread"] > 0))

    return _wait_for(request._replace(wait_s=None), request.wait_s or 0, is_new)


def _attend(request: Attend) -> Flow[Answer]:
    """Wait for a reason to wake an idle client. Check every few seconds, because the log has no
    entry for the end of a quiet time."""
    request = validated(request)
    once, wait_s = request._replace(wait_s=None), request.wait_s or 0
    return _wait_for(
        once, wait_s, lambda found: "news" in found, asleep=True, ask_again_s=ASK_AGAIN_S
    )


def _ask(request: mail.Ask) -> Flow[Answer]:
    """Send the ask and wait for its first answer. A late answer arrives in the inbox."""
    validated(request)
    message = mail.SendMessage(request.to, request.payload(), "ask", key=request.key)
    if is_large(message.type, message.payload):
        sent = yield from uploads.send(message)
    else:
        sent = yield message
    id = sent["message"]["id"]
    shared = {name: sent[name] for name in ("deliveries", "notices")}
    found = yield from _wait_for(mail.FindAnswer(id), request.wait_s, lambda each: each["answered"])
    if found["answered"]:
        yield mail.AckMessages((found["answer"]["id"],))  # the caller receives it in this answer
        return found | shared
    late = NoAnswer(
        f"No answer within {request.wait_s} s. A late answer arrives in the inbox. Do other work, "
        "and do not ask again."
    )
    return {"answered": False, "id": id} | late.as_dict() | shared


def _acquire(request: claims.AcquireClaim) -> Flow[Answer]:
    """Wait in the queue for up to `wait_s`. Leave the queue in every case, also on an error."""
    target = request.item, request.paths, request.repo
    wanted, stop = claims.CheckClaim(*target), claims.StopWaiting(*target)
    answer: Answer | None = None
    try:
        answer = yield request
        if answer["acquired"]:
            return answer
        request = validated(request)
        asked_at = time.monotonic()
        deadline = asked_at + (request.wait_s or 0)
        who = yield Whoami()
        holder = who["address"], who.get("session")
        while (left := deadline - time.monotonic()) > 0:
            if not (yield Sleep(min(left, ASK_AGAIN_S))):
                break
            held = (yield wanted)["claims"]
            others = [claim for claim in held if (claim["holder"], claim.get("session")) != holder]
            if others and time.monotonic() - asked_at < ASK_AGAIN_S:
                continue
            asked_at = time.monotonic()
            answer = yield request
            if answer["acquired"]:
                return answer
    except BaseException as trouble:
        # A caller that was refused at once is not in the queue. A caller that disconnected may be.
        if answer is not None or not isinstance(trouble, Refusal):
            yield stop
        raise
    # Leave the queue before the last request, so that the claim never passes to a caller that was
    # told no.
    yield stop
    final: Answer = yield request._replace(wait_s=None)
    return final


def _invite(request: Invite) -> Flow[Answer]:
    code = compose(os.urandom(SECRET_BYTES), INVITATION)
    answer: Answer = yield request._replace(code_hash=hashed(code))
    return answer | {"invitation": code, "path": f"/invite/{code}"}


def _mint(request: Verb) -> Flow[Answer]:
    """Make a token for a request without one. Only the answer contains it."""
    token = compose(os.urandom(SECRET_BYTES))
    answer: Answer = yield request._replace(token_hash=hashed(token))
    return answer | {"token": token}


# The flow of each verb that can wait, needs a secret that the node makes, or has a large body.
FLOWS: dict[str, Callable[[Any], Flow[Answer]]] = {
    "claims.verbs.AcquireClaim": _acquire,
    "identity.verbs.Join": _mint,
    "identity.verbs.MintToken": _mint,
    "identity.verbs.RotateToken": _mint,
    "mail.verbs.Ask": _ask,
    "mail.verbs.ListInbox": _inbox,
    "mail.verbs.SendMessage": lambda request: uploads.send(request),
    "people.verbs.AcceptInvitation": _mint,
    "people.verbs.Invite": _invite,
    "workspace.verbs.Attend": _attend,
}
