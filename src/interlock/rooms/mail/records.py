"""One message: find it by a reference, decide who may see it, and show all or part of it."""

from typing import Any, NamedTuple

from interlock.errors import LogDamaged, NotFound, Remedy, Usage
from interlock.log.encoding import decode
from interlock.log.facts import Header
from interlock.log.times import rfc3339
from interlock.rooms.identity.names import agent_of
from interlock.rooms.mail.message_types import MAIN_MEMBER, MESSAGE_VERSION
from interlock.rooms.mail.verbs import ListInbox
from interlock.rooms.transaction import Caller, RuleAnswer, Transaction
from interlock.verbs.addresses import address
from interlock.verbs.answers import without_none

COLUMNS = (
    "seq, id, sender, recipient, type, thread, at, priority, reply_to, expires_at, hops, token, "
    "session, redacted, deliveries, wake"
)
PREFIX_LENGTH = 6
LISTED_BYTES = 65_536
TO_LIST = Remedy("interlock inbox", ListInbox())


class Message(NamedTuple):
    """A row of mail_messages."""

    seq: int
    id: str
    sender: str
    to: str
    type: str
    thread: str
    at: int
    priority: str
    reply_to: str | None
    expires_at: int | None
    hops: int
    token: str | None
    session: str | None
    redacted: int
    deliveries: str
    wake: int | None


def from_fact(fact: Header) -> Message:
    """The row that the fold of a sent message writes."""
    outcome = fact.outcome
    return Message(
        seq=fact.seq,
        id=outcome["id"],
        sender=fact.sender,
        to=outcome["to"],
        type=outcome["type"],
        thread=outcome["thread"],
        at=fact.at,
        priority=outcome["priority"],
        reply_to=outcome.get("reply_to"),
        expires_at=outcome.get("expires_at"),
        hops=outcome.get("hops", 0),
        token=fact.token,
        session=fact.session,
        redacted=0,
        deliveries=" ".join(outcome["deliveries"]),
        wake=outcome.get("wake"),
    )


def messages(tx: Transaction, where: str, *bindings: Any) -> list[Message]:
    """The messages that match an SQL condition, which may end with an order and a limit."""
    rows = tx.all(f"SELECT {COLUMNS} FROM mail_messages WHERE {where}", *bindings)
    return [Message(*row) for row in rows]


def by_seq(tx: Transaction, seq: int) -> Message:
    (message,) = messages(tx, "seq = ?", seq)
    return message


def locate(tx: Transaction, reference: str, *, of_all: bool = False) -> Message:
    """Return the message of an id, a unique prefix of it, or #SEQ. With `of_all`, it need not be
    visible to the caller.

    Raises Usage for a malformed or ambiguous reference. Raises NotFound, with the same text, for a
    message that does not exist and for one that the caller may not see."""
    if reference.startswith("#"):
        digits = reference[1:]
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
            raise Usage(
                f"{reference[:80]!r} is not a position of the log. Give #SEQ, for example #42."
            )
        candidates = messages(tx, "seq = ?", int(digits))
    elif len(reference) < PREFIX_LENGTH:
        raise Usage(
            f"{reference[:80]!r} is too short to name a message. Give its id, at least "
            f"{PREFIX_LENGTH} characters of it, or #SEQ."
        )
    else:
        begins = "id >= ? AND id < ? ORDER BY seq LIMIT 20"
        candidates = messages(tx, begins, reference, reference + "\U0010ffff")
    found = [message for message in candidates if of_all or visible(tx, message)]
    if len(found) > 1:
        raise Usage(
            f"{len(found)} messages have an id that starts with {reference!r}. Give more "
            "characters of the id.",
            matches=[message.id for message in found[:5]],
        )
    if not found:
        raise NotFound(
            f"Message {reference[:80]!r} was not found, or is not visible to you. List your mail:",
            TO_LIST,
        )
    return found[0]


def visible(tx: Transaction, message: Message) -> bool:
    """Whether the caller's agent sent or received the message, or the caller is the owner."""
    return tx.caller.owner or sent_by(tx, message) or bool(received(tx, message))


def sent_by(tx: Transaction, message: Message) -> bool:
    return tx.caller.agent == agent_of(tx.state, message.sender)


def received(tx: Transaction, message: Message) -> list[tuple[str, str, str | None, int]]:
    """The deliveries of the message to the caller: recipient, state, taken_by, closed."""
    rows = tx.all(
        "SELECT recipient, state, taken_by, closed FROM mail_deliveries "
        "WHERE seq = ? AND recipient IN (?, ?) ORDER BY recipient",
        message.seq,
        *mailboxes(tx.caller),
    )
    return [(row[0], row[1], row[2], row[3]) for row in rows]


def mailboxes(caller: Caller) -> tuple[str, str]:
    """The names whose mail the caller sees: its sender and its agent."""
    return caller.sender, caller.agent


def counts(tx: Transaction) -> RuleAnswer:
    """How many messages of the caller are open, and how many unread."""
    rows = tx.all(
        "SELECT open, unread FROM mail_boxes WHERE recipient IN (?, ?)", *mailboxes(tx.caller)
    )
    return {"open": sum(row[0] for row in rows), "unread": sum(row[1] for row in rows)}


def standing(tx: Transaction, message: Message) -> list[tuple[str, str]]:
    """The recipients of the message in order, each with the state of its delivery."""
    found = []
    for name in message.deliveries.split():
        state = tx.value(
            "SELECT state FROM mail_deliveries WHERE recipient = ? AND seq = ?", name, message.seq
        )
        found.append((name, state))
    return found


def envelope(
    message: Message, body: dict[str, Any] | None, taken_by: str | None = None
) -> RuleAnswer:
    """A message without its payload, as every door shows it."""
    body = body or {}
    return without_none(
        id=message.id,
        seq=message.seq,
        type=message.type,
        version=MESSAGE_VERSION,
        source=f"agent:{message.sender}",
        **{"from": address(message.sender)},
        to=message.to,
        thread=message.thread,
        at=rfc3339(message.at),
        priority=message.priority,
        subject=body.get("subject"),
        reply_to=message.reply_to,
        expires_at=rfc3339(message.expires_at) if message.expires_at is not None else None,
        sha256=body.get("sha256"),
        size=body.get("size"),
        taken_by=address(taken_by) if taken_by is not None else None,
        redacted=True if message.redacted else None,
    )


def listed(
    tx: Transaction, message: Message, taken_by: str | None = None, max_bytes: int = LISTED_BYTES
) -> RuleAnswer:
    """A message in a list: whole if it is short, else its beginning, marked as a part. A command is
    whole or has no text, so that no reader runs a part of it."""
    body = load(tx, message)
    if body is None:
        return envelope(message, None, taken_by)
    stop = 0 if message.type == "command" and body["size"] > max_bytes else max_bytes
    return envelope(message, body, taken_by) | content(tx, message, body, 0, stop)


def load(tx: Transaction, message: Message) -> dict[str, Any] | None:
    """The stored body, or None if it was redacted. Raises LogDamaged."""
    stored = None if message.redacted else tx.store.body(message.seq)
    if stored is None:
        return None
    body = readable(stored, message.seq)
    if not isinstance(body.get("payload"), dict) or not isinstance(body.get("size"), int):
        raise damaged(message.seq)
    return body


def readable(stored: bytes, seq: int) -> dict[str, Any]:
    """Decode a stored body. Raises LogDamaged if it is not the JSON object that was stored."""
    try:
        body = decode(stored)
    except ValueError:
        raise damaged(seq) from None
    if not isinstance(body, dict):
        raise damaged(seq)
    return body


def damaged(seq: int) -> LogDamaged:
    return LogDamaged(
        f"The stored body of #{seq} is damaged. Verify the log:", to_verify(), seq=seq
    )


def to_verify() -> Remedy:
    from interlock.rooms.workspace.verbs import VerifyLog  # damage is rare

    return Remedy("interlock audit verify", VerifyLog())


def content(
    tx: Transaction, message: Message, body: dict[str, Any], start: int, stop: int | None
) -> RuleAnswer:
    """The payload with the bytes [start, stop) of its main text, cut between characters.

    A range that is not empty has at least one character, so that a caller who follows next_offset
    reaches the end. Raises Usage for a start beyond the end or inside a character."""
    payload: dict[str, Any] = body["payload"]
    main = MAIN_MEMBER.get(message.type)
    size: int = body["size"]
    if main is None or (main not in payload and "blob" not in body):
        return {"payload": payload}
    end = size if stop is None else min(stop, size)
    is_whole = start == 0 and end == size
    if start > size:
        raise Usage(
            f"The range starts at byte {start}, and the body has {size} bytes. Start at a byte up "
            f"to {size}.",
            size=size,
        )
    # A character has at most four bytes, so the window has all of the character at `end`.
    until = size if is_whole else min(end + 3, size)
    if "blob" in body:
        window = kept_bytes(tx, message.seq, body["blob"], start, until)
    else:
        window = payload[main].encode()[start:until]
    if is_whole:
        return {"payload": {main: window.decode()} | payload}

    if window and _is_inside(window[0]):
        raise Usage(
            f"Byte {start} is inside a character. Start at 0, and continue at each next_offset."
        )
    cut = max(0, min(end - start, len(window)))
    while 0 < cut < len(window) and _is_inside(window[cut]):
        cut -= 1
    if cut == 0 and end > start:
        cut = 1
        while cut < len(window) and _is_inside(window[cut]):
            cut += 1
    shown = window[:cut]
    following = start + len(shown)
    rest = {name: value for name, value in payload.items() if name != main}
    return without_none(
        payload={main: shown.decode()} | rest if shown else rest,
        part=True,
        shown=len(shown),
        offset=start or None,
        next_offset=following if following < size else None,
    )


def _is_inside(byte: int) -> bool:
    """Whether the byte continues a character of UTF-8."""
    return 0x80 <= byte < 0xC0


def kept_bytes(tx: Transaction, seq: int, sha256: str, start: int, stop: int) -> bytes:
    """The bytes [start, stop) of the blob that a body points to. Raises LogDamaged if any of them
    is missing."""
    if stop <= start:
        return b""
    try:
        data = tx.store.blob(sha256, start, stop)
    except NotFound:
        data = b""
    if len(data) != stop - start:
        raise LogDamaged(
            f"Stored bytes of #{seq} are missing. Verify the log:", to_verify(), seq=seq
        )
    return data
