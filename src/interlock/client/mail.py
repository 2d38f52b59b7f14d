"""The methods of mail that take other parameters than their verbs."""

from typing import Any, Self

from interlock.client import answers
from interlock.client.asking import Asked, Method
from interlock.client.listening import Listening
from interlock.errors import Usage
from interlock.rooms.mail.message_types import MAIN_MEMBER, sendable
from interlock.rooms.mail.verbs import AckMessages, SendMessage


class Mail:
    """A message is named by its id, a unique prefix of it (6 or more characters), or `#SEQ`."""

    @Method
    def send(
        self,
        to: str,
        text: str | None = None,
        *,
        type: str = "send",
        payload: dict[str, Any] | None = None,
        subject: str | None = None,
        thread: str | None = None,
        reply_to: str | None = None,
        priority: answers.Priority = "normal",
        key: str | None = None,
        ttl_s: int | None = None,
        wake: bool | None = None,
    ) -> Asked[answers.Sent]:
        """Send a message to one agent (`@otto`) or to everyone (`AGENT:*`). `text` is the main
        member of the type, and `payload` has the other members. Accepted does not mean read: see
        `receipts`."""
        sendable(type)
        main = MAIN_MEMBER[type]
        given = dict(payload or {})
        if text is not None:
            if main in given:
                raise Usage(f"{main} is given twice: as the text and in the payload.")
            given[main] = text
        return Asked(
            SendMessage(
                to=to,
                type=type,
                payload=given,
                subject=subject,
                thread=thread,
                reply_to=reply_to,
                priority=priority,
                key=key,
                ttl_s=ttl_s,
                wake=wake,
            )
        )

    @Method
    def ack(
        self, *messages: str, decline: bool = False, note: str | None = None
    ) -> Asked[answers.Acknowledged]:
        """Acknowledge messages that you have handled, or decline them."""
        return Asked(AckMessages(messages=messages, decline=decline, note=note))

    def listen(self, after: int | None = None) -> Listening[Self]:
        """Messages as they arrive, without an end: `for` on a Client, `async for` on either. It
        starts after a position of the log, by default after the first look."""
        return Listening(self, after)
