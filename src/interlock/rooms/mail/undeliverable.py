"""Mail to names as which nobody has joined: what of it is still lost.

It is so until its sender has sent it again or gone on from it, or was told. That the sender wrote
something else to the name that was meant puts nothing right.
"""

from collections.abc import Iterator
from typing import Any

from interlock.rooms.identity.names import agent_of, is_known
from interlock.rooms.mail.fold import UNREAD
from interlock.rooms.mail.records import Message, by_seq, load
from interlock.rooms.transaction import Transaction

# Of very many the last are enough to say what is wrong.
MAX_LOOKED_AT = 200
_OPEN = (
    "SELECT d.seq FROM mail_deliveries d INDEXED BY mail_open WHERE d.recipient = ? AND closed = 0 "
    f"AND state IN {UNREAD} AND d.seq > ? ORDER BY d.seq DESC LIMIT ?"
)
_RECEIVED = (
    "SELECT seq FROM mail_deliveries WHERE recipient = ? AND seq > ? ORDER BY seq DESC LIMIT ?"
)
_SENT = "SELECT seq FROM mail_messages WHERE sender = ? AND seq > ? ORDER BY seq DESC LIMIT ?"


def astray(tx: Transaction, name: str) -> list[Message]:
    """What was sent to a name and is lost there, newest first."""
    return [lost for lost in _messages(tx, _OPEN, name, 0) if not _is_put_right(tx, lost)]


def _is_put_right(tx: Transaction, lost: Message) -> bool:
    body = load(tx, lost)
    for later in _messages(tx, _SENT, lost.sender, lost.seq):
        if is_known(tx.state, later.to.removeprefix("@")) and (
            lost.id in (later.reply_to, later.thread) or _says_the_same(body, load(tx, later))
        ):
            return True
    return any(
        lost.id in str((load(tx, later) or {}).get("payload"))
        for name in sorted({lost.sender, agent_of(tx.state, lost.sender)})
        for later in _messages(tx, _RECEIVED, name, lost.seq)
    )


def _says_the_same(body: dict[str, Any] | None, other: dict[str, Any] | None) -> bool:
    if body is None or other is None:
        return False
    subject = body.get("subject")
    return body["sha256"] == other["sha256"] or (
        subject is not None and subject == other.get("subject")
    )


def _messages(tx: Transaction, select: str, name: str, after: int) -> Iterator[Message]:
    for (seq,) in tx.all(select, name, after, MAX_LOOKED_AT):
        yield by_seq(tx, seq)
