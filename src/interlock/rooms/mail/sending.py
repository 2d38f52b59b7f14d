"""Sending: who gets a message, what limits hold, and what the sender is told about it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from interlock.errors import (
    DigestMismatch,
    InvalidMessage,
    MissingScope,
    NotFound,
    RateLimited,
    TooLarge,
    TooManyHops,
    UnknownRecipient,
    Usage,
)
from interlock.log.encoding import canonical, digest
from interlock.log.facts import Header
from interlock.rooms.identity import names
from interlock.rooms.identity.names import agent_of
from interlock.rooms.mail.message_types import MAIN_MEMBER
from interlock.rooms.mail.records import (
    Message,
    by_seq,
    envelope,
    from_fact,
    load,
    locate,
    received,
    standing,
    wakes,
)
from interlock.rooms.transaction import SYSTEM, Request, RuleAnswer, Transaction
from interlock.rooms.work.records import blockers, is_thread, near_open, thread_of
from interlock.rooms.workspace.rules import done_before
from interlock.verbs.addresses import address, near, recipient_name
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.rooms.mail.verbs import DropUpload, PutChunk, SendMessage

RATE_WINDOW_MS = 60_000
CHUNK_BYTES = 1 << 20


def send(tx: Transaction, act: SendMessage) -> RuleAnswer:
    """Accepts a message for its recipients, once per key, or refuses and stores nothing."""
    request = _request(act)
    if (before := done_before(tx, request)) is not None:
        first = by_seq(tx, before)
        stands = [
            (name, names.senders_of(tx.state, name), state) for name, state in standing(tx, first)
        ]
        return _accepted(tx, act, first, load(tx, first), stands)
    nth = _refuse_flood(tx)
    _refuse_large(tx, act)
    recipients = _recipients(tx, act.to)
    parent = locate(tx, act.reply_to) if act.reply_to is not None else None
    id = tx.new_id()
    hops = _hops(tx, parent)
    ask = _answered(tx, act)
    outcome = without_none(
        id=id,
        to=act.to,
        type=act.type,
        thread=_thread(tx, act, parent) or id,
        priority=act.priority,
        reply_to=parent.id if parent else None,
        expires_at=tx.now + act.ttl_s * 1000 if act.ttl_s is not None else None,
        hops=hops or None,
        wake=act.wake,
        deliveries=list(recipients),
        answers=ask.seq if ask else None,
        due_at=_due_at(tx, act),
        nth=nth,
        about=_about(tx, act),
    )
    body = _body(act)
    fact = tx.append("message_sent", outcome, canonical(body), request=request)
    if act.upload is not None:
        keep_upload(tx, act.upload, act.sha256, act.size, fact)
    if ask is not None:
        _close_answered(tx, ask)
    message = from_fact(fact)
    stands = [(name, senders, "accepted") for name, senders in recipients.items()]
    return _accepted(tx, act, message, body, stands)


def put_chunk(tx: Transaction, act: PutChunk) -> RuleAnswer:
    """Keeps a part of a large body, for an act of the same sender that names the upload."""
    if not tx.caller.scopes & {"mail", "work"}:
        raise MissingScope("An upload needs the scope mail or work.", scope="mail")
    _refuse_size(tx, act.size)
    if act.number * CHUNK_BYTES + len(act.data) > act.size:
        raise Usage(f"That is more than the {act.size} bytes that the body was said to have.")
    upload = act.upload
    if upload is None:
        upload = f"{tx.now:015}.{tx.caller.sender}.{tx.new_id()}"
    _own_upload(tx, upload)
    tx.store.put_chunk(upload, act.number, act.data)
    return {"upload": upload, "number": act.number}


def drop_upload(tx: Transaction, act: DropUpload) -> RuleAnswer:
    _own_upload(tx, act.upload)
    tx.store.drop_upload(act.upload)
    return {"dropped": True}


def keep_upload(tx: Transaction, upload: str, sha256: str, size: int, fact: Header) -> None:
    """Makes an upload of the caller the blob that a fact points to."""
    _own_upload(tx, upload)
    kept = tx.store.keep_blob(upload, sha256, fact.seq)
    if kept != size:
        raise DigestMismatch(f"The upload has {kept} bytes, not {size}. Upload it again.")


def _own_upload(tx: Transaction, upload: str) -> None:
    if upload[15:-36] != f".{tx.caller.sender}.":
        raise NotFound(f"There is no upload {upload[:80]!r} of yours.")


def notify(tx: Transaction, recipient: str, text: str, *, about: Message | None = None) -> Header:
    """A message from Interlock itself: what was done to something of the recipient's."""
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
    """A message that an act writes, of the caller where nobody else is named. The owner of the
    file is no sender, so what it does is told by Interlock."""
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


def _accepted(
    tx: Transaction,
    act: SendMessage,
    message: Message,
    body: RuleAnswer | None,
    stands: list[tuple[str, list[str], str]],
) -> RuleAnswer:
    """The answer to a send: accepted, by whom it can be read, and how soon they would see it.

    `stands` has for each recipient the senders that see its mail, and how far the delivery is."""
    deliveries, notices = [], []
    for name, senders, state in stands:
        deliveries.append(
            {
                "recipient": address(name),
                "known": bool(senders),
                "reach": tx.store.reach(senders, partial(_may_wake, tx, message, name))[0],
                "state": state,
            }
        )
        if not senders:
            notices.append(_unknown(tx, name))
    return {
        "accepted": True,
        "message": envelope(message, body),
        "deliveries": deliveries,
        "notices": notices + _stops_none(tx, act, message),
    }


def _may_wake(tx: Transaction, message: Message, name: str) -> bool:
    return wakes(message) and not names.is_muted(tx, (name, agent_of(tx.state, name)))


def _unknown(tx: Transaction, name: str) -> RuleAnswer:
    return without_none(
        code="UNKNOWN_RECIPIENT",
        message=f"Nobody has joined as @{name} yet. The message is kept until somebody does, or "
        "it expires.",
        did_you_mean=near(name, names.names(tx.state)),
    )


def _stops_none(tx: Transaction, act: SendMessage, message: Message) -> list[RuleAnswer]:
    """A blocker that named a task which was not there, or had come to its end."""
    named = act.payload.get("task_id") if act.type == "blocker" else None
    if named is None or any(found.task for found in blockers(tx, "id = ?", message.id)):
        return []
    notice = without_none(
        code="NO_OPEN_TASK",
        message=f"There is no open task {named!r}, so this stops none.",
        did_you_mean=near_open(tx, named),
    )
    return [notice]


def _request(act: SendMessage) -> Request | None:
    """The bytes by which the node recognises a repeated send: the fields that the caller gave.
    Their order is part of the log's format, because the log keeps a digest of these bytes."""
    if act.key is None:
        return None
    head = [act.to, act.type, act.payload, act.subject, act.thread, act.reply_to, act.priority]
    return Request(
        act.key, canonical([*head, None, act.ttl_s, act.wake, act.sha256, act.size, None])
    )


def _body(act: SendMessage) -> RuleAnswer:
    return without_none(
        payload=act.payload,
        subject=act.subject,
        sha256=act.sha256,
        size=act.size,
        blob=act.sha256 if act.upload is not None else None,
    )


def _recipients(tx: Transaction, to: str) -> dict[str, list[str]]:
    """The mailboxes of this moment, with the senders that see each: one name, a group's members,
    or every agent but the sender's own."""
    state = tx.state
    existing = [] if to.startswith("@") else names.names(state)
    name = recipient_name(to, tx.setting("names.pattern"), existing)
    if name is None:
        others = [agent for agent in names.agents(state) if agent != tx.caller.agent]
        return {agent: names.senders_of(state, agent) for agent in others}
    if senders := names.senders_of(state, name):
        return {name: senders}
    if (members := names.members(state, name)) is not None:
        chosen = [m for m in members if _needs_delivery(tx, m, members)]
        return {member: names.senders_of(state, member) for member in chosen}
    if tx.setting("recipients") == "strict":
        raise UnknownRecipient(
            f"Nobody has joined as @{name}, and this workspace delivers to known names only. "
            "Copy an address from interlock agents.",
            to=to,
            did_you_mean=near(name, names.names(state)),
        )
    return {name: []}


def _needs_delivery(tx: Transaction, member: str, members: list[str]) -> bool:
    """Not the sender's own agent; nor a surface whose agent is a member too, which sees the
    agent's delivery."""
    agent = agent_of(tx.state, member)
    return agent != tx.caller.agent and (agent == member or agent not in members)


def _thread(tx: Transaction, act: SendMessage, parent: Message | None) -> str | None:
    if act.thread is not None:
        named = act.thread
        return named if is_thread(tx, named) else locate(tx, named).thread
    if parent is not None:
        return parent.thread
    return _thread_of_task(tx, act)


def _about(tx: Transaction, act: SendMessage) -> dict[str, str] | None:
    """What folding needs to know of a blocker: how severe it is, and which task it stops."""
    if act.type != "blocker":
        return None
    task = act.payload["task_id"] if _thread_of_task(tx, act) is not None else None
    return without_none(severity=act.payload["severity"], task=task)


def _thread_of_task(tx: Transaction, act: SendMessage) -> str | None:
    """The thread of the task that a payload names, unless that has come to its end."""
    id = act.payload.get("task_id")
    return thread_of(tx, id) if id is not None else None


def _hops(tx: Transaction, parent: Message | None) -> int:
    hops = parent.hops + 1 if parent else 0
    limit = int(tx.setting("limits.hops"))
    if hops > limit:
        raise TooManyHops(
            f"This would be reply {hops} in a row, and the workspace allows {limit}. Agents "
            "answering each other in a loop look like this: stop, or let a person start a new "
            "thread.",
            limit=limit,
        )
    return hops


def _answered(tx: Transaction, act: SendMessage) -> Message | None:
    """The ask that an answer is for, which the caller must have received."""
    if act.type != "answer":
        return None
    ask = locate(tx, act.payload["ask"])
    if ask.type != "ask" or not received(tx, ask):
        raise InvalidMessage(f"{ask.id} is not an ask that you received.", type="answer")
    if act.to.removeprefix("@") not in (ask.sender, agent_of(tx.state, ask.sender)):
        raise InvalidMessage(
            f"The ask came from @{ask.sender}, so its answer goes there, not to {act.to}.",
            type="answer",
        )
    return ask


def _close_answered(tx: Transaction, ask: Message) -> None:
    items = [[ask.seq, name] for name, _, _, closed in received(tx, ask) if not closed]
    if items:
        tx.append("mail_moved", {"state": "acked", "items": items})


def _due_at(tx: Transaction, act: SendMessage) -> int | None:
    if act.type != "ask" or "timeout_s" not in act.payload:
        return None
    return tx.now + int(act.payload["timeout_s"]) * 1000


def _refuse_flood(tx: Transaction) -> int | None:
    """Which send of the sender this is within the current minute of the log's time; None where
    nobody counts."""
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
            f"@{tx.caller.sender} has sent {limit} messages within a minute, which is this "
            f"workspace's limit. Try again in {wait_s} s.",
            retry_after_s=wait_s,
            limit=limit,
        )
    return nth


def _refuse_large(tx: Transaction, act: SendMessage) -> None:
    rest = {k: v for k, v in act.payload.items() if k != MAIN_MEMBER.get(act.type)}
    _refuse_size(tx, act.size + (len(canonical(rest)) if rest else 0))


def _refuse_size(tx: Transaction, size: int) -> None:
    limit = int(tx.setting("limits.message_bytes"))
    if size > limit:
        raise TooLarge(
            f"The message has {size} bytes, and this workspace takes {limit}. Send a file's "
            "location instead, or have limits.message_bytes raised.",
            size=size,
            limit=limit,
        )
