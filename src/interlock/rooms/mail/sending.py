"""Sending: the recipients of a message, the limits for its sender, and the answer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from interlock.errors import (
    DigestMismatch,
    InvalidMessage,
    NotFound,
    RateLimited,
    Remedy,
    TooLarge,
    TooManyHops,
    UnknownRecipient,
)
from interlock.log.encoding import canonical, digest
from interlock.log.facts import Header
from interlock.rooms.identity import names
from interlock.rooms.identity.names import agent_of
from interlock.rooms.identity.verbs import TO_LIST_AGENTS
from interlock.rooms.mail.message_types import MAIN_MEMBER
from interlock.rooms.mail.records import (
    TO_LIST,
    Message,
    by_seq,
    envelope,
    from_fact,
    load,
    locate,
    received,
    standing,
)
from interlock.rooms.transaction import SYSTEM, KeyedRequest, Transaction, done_before
from interlock.rooms.work.records import blockers, is_thread, near_open, thread_of
from interlock.verbs import LazyModule
from interlock.verbs.addresses import address, near, recipient_name
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.rooms.mail import answers, verbs, waking
else:
    waking = LazyModule("interlock.rooms.mail.waking")

RATE_WINDOW_MS = 60_000
CHUNK_BYTES = 1 << 20


def send(tx: Transaction, request: verbs.SendMessage) -> answers.Sent:
    """Accept a message for its recipients, once for each key, or refuse it and store nothing."""
    keyed = None
    if request.key is not None:
        # The log has a digest of these bytes, so the order of the fields is part of its format.
        given = [
            *(request.to, request.type, request.payload, request.subject, request.thread),
            *(request.reply_to, request.priority, None, request.ttl_s, request.wake),
            *(request.sha256, request.size, None),
        ]
        keyed = KeyedRequest(request.key, canonical(given))
    if (seq := done_before(tx, keyed)) is not None:
        first = by_seq(tx, seq)
        by_recipient = [
            (name, names.senders_of(tx.state, name), state) for name, state in standing(tx, first)
        ]
        return _accepted(tx, request, first, load(tx, first), by_recipient)

    nth = _refuse_flood(tx)
    payload = request.payload
    rest = {k: v for k, v in payload.items() if k != MAIN_MEMBER.get(request.type)}
    refuse_size(tx, request.size + (len(canonical(rest)) if rest else 0))
    recipients = _recipients(tx, request.to)
    parent = locate(tx, request.reply_to) if request.reply_to is not None else None
    hops = parent.hops + 1 if parent else 0
    limit = int(tx.setting("limits.hops"))
    if hops > limit:
        raise TooManyHops(
            f"This would be reply {hops} in a row, and the workspace allows {limit}. Two agents "
            "that answer each other in a loop cause this. Stop replying, or ask a person to start "
            "a new thread.",
            limit=limit,
        )

    ask = None
    if request.type == "answer":
        ask = locate(tx, payload["ask"])
        if ask.type != "ask" or not received(tx, ask):
            raise InvalidMessage(
                f"Message {ask.id} is not an ask that you received. List your mail:",
                TO_LIST,
                type="answer",
            )
        if request.to.removeprefix("@") not in (ask.sender, agent_of(tx.state, ask.sender)):
            raise InvalidMessage(
                f"The recipient is {request.to}, but the ask {ask.id} came from @{ask.sender}. "
                f"Send the answer to @{ask.sender}.",
                type="answer",
            )
    due_at = None
    if request.type == "ask" and "timeout_s" in payload:
        due_at = tx.now + int(payload["timeout_s"]) * 1000
    task = payload.get("task_id")
    # None if the payload names no task, or a task that has ended.
    thread = task_thread = thread_of(tx, task) if task is not None else None
    if request.thread is not None:
        known = is_thread(tx, request.thread)
        thread = request.thread if known else locate(tx, request.thread).thread
    elif parent is not None:
        thread = parent.thread
    about = None
    if request.type == "blocker":
        stopped = task if task_thread is not None else None
        about = without_none(severity=payload["severity"], task=stopped)

    id = tx.new_id()
    outcome = without_none(
        id=id,
        to=request.to,
        type=request.type,
        thread=thread or id,
        priority=request.priority,
        reply_to=parent.id if parent else None,
        expires_at=tx.now + request.ttl_s * 1000 if request.ttl_s is not None else None,
        hops=hops or None,
        wake=request.wake,
        deliveries=list(recipients),
        answers=ask.seq if ask else None,
        due_at=due_at,
        nth=nth,
        about=about,
    )
    body = without_none(
        payload=payload,
        subject=request.subject,
        sha256=request.sha256,
        size=request.size,
        blob=request.sha256 if request.upload is not None else None,
    )
    fact = tx.append("message_sent", outcome, canonical(body), keyed=keyed)
    if request.upload is not None:
        keep_upload(tx, request.upload, request.sha256, request.size, fact)
    if ask is not None:
        items = [[ask.seq, name] for name, _, _, closed in received(tx, ask) if not closed]
        if items:
            tx.append("mail_moved", {"state": "acked", "items": items})
    by_recipient = [(name, senders, "accepted") for name, senders in recipients.items()]
    return _accepted(tx, request, from_fact(fact), body, by_recipient)


def _accepted(
    tx: Transaction,
    request: verbs.SendMessage,
    message: Message,
    body: dict[str, Any] | None,
    by_recipient: list[tuple[str, list[str], str]],
) -> answers.Sent:
    """The answer to a send. `by_recipient` has each recipient, the senders that read its mail, and
    the state of its delivery."""
    deliveries: list[Any] = []
    notices: list[Any] = []
    for name, senders, state in by_recipient:
        deliveries.append(
            {
                "recipient": address(name),
                "known": bool(senders),
                "reach": tx.store.reach(senders, partial(waking.may_wake, tx, message, name))[0],
                "state": state,
            }
        )
        if not senders:
            notices.append(
                without_none(
                    code="UNKNOWN_RECIPIENT",
                    message=f"@{name} is not registered. Interlock delivers the message when "
                    f"@{name} joins, unless it expires first.",
                    did_you_mean=near(name, names.names(tx.state)),
                )
            )
    task = request.payload.get("task_id") if request.type == "blocker" else None
    if task is not None and not any(found.task for found in blockers(tx, "id = ?", message.id)):
        notices.append(
            without_none(
                code="NO_OPEN_TASK",
                message=f"No open task has the id {task!r}, so this blocker stops no task.",
                did_you_mean=near_open(tx, task),
            )
        )
    return {
        "accepted": True,
        "message": envelope(message, body),
        "deliveries": deliveries,
        "notices": notices,
    }


def _recipients(tx: Transaction, to: str) -> dict[str, list[str]]:
    """The mailboxes at this position of the log, with the senders that read each. They are one
    name, the members of a group, or every agent but the sender's own."""
    state = tx.state
    existing = [] if to.startswith("@") else names.names(state)
    name = recipient_name(to, tx.setting("names.pattern"), existing)
    if name is None:
        others = [agent for agent in names.agents(state) if agent != tx.caller.agent]
        return {agent: names.senders_of(state, agent) for agent in others}
    if senders := names.senders_of(state, name):
        return {name: senders}
    if (members := names.members(state, name)) is not None:
        found = {}
        for member in members:
            agent = agent_of(state, member)
            # A surface reads the delivery of its agent too, and needs none of its own.
            if agent != tx.caller.agent and (agent == member or agent not in members):
                found[member] = names.senders_of(state, member)
        return found
    if tx.setting("recipients") == "strict":
        raise UnknownRecipient(
            f"@{name} is not registered, and this workspace delivers only to registered names. "
            "List the addresses:",
            TO_LIST_AGENTS,
            to=to,
            did_you_mean=near(name, names.names(state)),
        )
    return {name: []}


def _refuse_flood(tx: Transaction) -> int | None:
    """The number of this message among the sender's messages of this minute, or None without a
    limit. Raises RateLimited."""
    limit = int(tx.setting("limits.sends_per_minute"))
    if limit == 0:
        return None
    row = tx.one(
        "SELECT at, nth FROM mail_messages WHERE sender = ? ORDER BY seq DESC LIMIT 1",
        tx.caller.sender,
    )
    same = row is not None and row[0] // RATE_WINDOW_MS == tx.now // RATE_WINDOW_MS
    nth = int(row[1]) + 1 if row is not None and same else 1
    if nth > limit:
        wait_s = (RATE_WINDOW_MS - tx.now % RATE_WINDOW_MS + 999) // 1000
        raise RateLimited(
            f"@{tx.caller.sender} has reached the limit of this workspace, which is {limit} "
            f"{'message' if limit == 1 else 'messages'} a minute. Try again in {wait_s} s.",
            retry_after_s=wait_s,
            limit=limit,
        )
    return nth


def refuse_size(tx: Transaction, size: int) -> None:
    limit = int(tx.setting("limits.message_bytes"))
    if size > limit:
        from interlock.rooms.workspace.verbs import ChangeSetting

        raise TooLarge(
            f"The message has {size} bytes, and this workspace allows {limit}. Send the location "
            "of a file instead, or ask an admin to raise the limit:",
            Remedy(
                f"interlock settings limits.message_bytes {size}",
                ChangeSetting("limits.message_bytes", str(size)),
            ),
            size=size,
            limit=limit,
        )


# --- messages that the rules write


def notify(tx: Transaction, recipient: str, text: str, *, about: Message | None = None) -> Header:
    """Write a message from Interlock itself, which wakes no recipient."""
    return post(
        tx,
        recipient,
        "send",
        {"text": text},
        sender=SYSTEM,
        thread=about.thread if about else None,
        reply_to=about.id if about else None,
        wake=False,
    )


def post(
    tx: Transaction,
    recipient: str,
    type: str,
    payload: dict[str, Any],
    *,
    sender: str | None = None,
    thread: str | None = None,
    reply_to: str | None = None,
    about: dict[str, str] | None = None,
    wake: bool | None = None,
) -> Header:
    """Write a message for a rule, by default from the caller. The owner has no sender, so Interlock
    is the sender of the owner's messages."""
    main = MAIN_MEMBER.get(type)
    encoded = payload[main].encode() if main in payload else canonical(payload)
    body = {"payload": payload, "sha256": digest(encoded), "size": len(encoded)}
    writer = sender or (SYSTEM if tx.caller.owner else None)
    id = tx.new_id()
    outcome = without_none(
        id=id,
        to=address(recipient),
        type=type,
        thread=thread or id,
        priority="normal",
        reply_to=reply_to,
        wake=wake,
        deliveries=[recipient],
        about=about,
        nth=_refuse_flood(tx) if writer is None else None,
    )
    return tx.append("message_sent", outcome, canonical(body), sender=writer)


# --- uploads


def keep_upload(tx: Transaction, upload: str, sha256: str, size: int, fact: Header) -> None:
    """Make an upload of the caller the blob that a fact points to. Raises NotFound, or
    DigestMismatch."""
    refuse_foreign_upload(tx, upload)
    kept = tx.store.keep_blob(upload, sha256, fact.seq)
    if kept != size:
        raise DigestMismatch(f"The upload has {kept} bytes, not {size}. Upload it again.")


def refuse_foreign_upload(tx: Transaction, upload: str) -> None:
    """Raise NotFound for an upload of another sender."""
    if upload[15:-36] != f".{tx.caller.sender}.":
        raise NotFound(f"You have no upload {upload[:80]!r}. Start a new upload.")
