"""The verbs of mail."""

from collections.abc import Iterable
from typing import Any, Literal, Self

from interlock.client.asking import Asked, Verb
from interlock.client.listening import Listening
from interlock.contracts import acts, answers
from interlock.contracts.types import MAIN_MEMBER, sendable
from interlock.errors import Usage

ADAPTER = "python"
Which = Literal["open", "all", "sent"]


class Mail:
    """A message is named by its id, a unique prefix of it (6 or more characters), or `#SEQ`."""

    @Verb
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
        member of the type, `payload` has the others. Accepted is not read: see `receipts`."""
        return Asked(
            acts.SendMessage(
                to,
                type,
                _payload(type, text, payload),
                subject,
                thread,
                reply_to,
                priority,
                key,
                ttl_s,
                wake,
            )
        )

    @Verb
    def ask(
        self,
        to: str,
        question: str,
        *,
        options: Iterable[str] = (),
        wait_s: int = 20,
        timeout_s: int | None = None,
        key: str | None = None,
    ) -> Asked[answers.Answered | answers.Unanswered]:
        """Ask, and wait for the first answer. Without one the result says so, and a late answer
        arrives in the inbox."""
        return Asked(acts.Ask(to, question, tuple(options), wait_s, timeout_s, key))

    @Verb
    def answer(self, message: str, text: str, *, key: str | None = None) -> Asked[answers.Sent]:
        """Answer an ask that you received, which acknowledges it."""
        return Asked(acts.AnswerAsk(message, text, key))

    @Verb
    def find_answer(self, message: str) -> Asked[answers.AnswerFound | answers.NoAnswerFound]:
        """Look whether an ask of yours was answered."""
        return Asked(acts.FindAnswer(message))

    @Verb
    def inbox(
        self,
        which: Which = "open",
        *,
        limit: int = 100,
        after: int = 0,
        wait_s: int | None = None,
    ) -> Asked[answers.Inbox]:
        """List mail, oldest first; with `wait_s`, wait so long for some to come. What is listed is
        marked as shown, and stays open until `ack`."""
        return Asked(acts.ListInbox(which, limit, after, ADAPTER, wait_s))

    def listen(self, after: int | None = None) -> Listening[Self]:
        """Mail as it arrives, for ever: `for` on a Client, `async for` on either. It begins with
        what comes after a position, or after the moment at which it is first looked at."""
        return Listening(self, after)

    @Verb
    def read(
        self, message: str, *, start: int | None = None, stop: int | None = None
    ) -> Asked[answers.Message]:
        """Read a message whole, or the bytes from `start` up to `stop` of its main text."""
        return Asked(acts.ReadMessage(message, start, stop))

    @Verb
    def ack(
        self, *messages: str, decline: bool = False, note: str | None = None
    ) -> Asked[answers.Acknowledged]:
        """Say that messages are handled, or that they will not be."""
        return Asked(acts.AckMessages(messages, decline, note))

    @Verb
    def receipts(self, message: str) -> Asked[answers.Receipts]:
        """Show how far a message got with each recipient."""
        return Asked(acts.ShowReceipts(message))

    @Verb
    def thread(self, message: str, *, limit: int = 100, after: int = 0) -> Asked[answers.Thread]:
        """Show the conversation that a message belongs to."""
        return Asked(acts.ShowThread(message, limit, after))

    @Verb
    def search(self, query: str, *, limit: int = 20) -> Asked[answers.Found]:
        """Search your mail for messages that have all these words, newest first."""
        return Asked(acts.Search(query, limit))

    @Verb
    def mail(self, *, limit: int = 50) -> Asked[answers.Mail]:
        """List the newest mail of everybody, for the owner; an admin sees no bodies."""
        return Asked(acts.ListMail(limit))

    @Verb
    def explain(self, message: str) -> Asked[answers.Story]:
        """Say who is behind a message, from the data."""
        return Asked(acts.Explain(message))

    @Verb
    def redact(self, message: str, reason: str) -> Asked[answers.Redacted]:
        """Remove a message's body for ever; every proof stays valid."""
        return Asked(acts.Redact(message, reason))

    @Verb
    def put_chunk(
        self, data: bytes, size: int, *, number: int = 0, upload: str | None = None
    ) -> Asked[answers.Chunk]:
        """Upload a chunk of a large body. `send` does this by itself."""
        return Asked(acts.PutChunk(data, size, number, upload))

    @Verb
    def drop_upload(self, upload: str) -> Asked[answers.Dropped]:
        """Give up an upload that no message was made of."""
        return Asked(acts.DropUpload(upload))


def _payload(type: str, text: str | None, payload: dict[str, Any] | None) -> dict[str, Any]:
    sendable(type)
    main = MAIN_MEMBER[type]
    given = dict(payload or {})
    if text is None:
        return given
    if main in given:
        raise Usage(f"{main} is given twice: as the text and in the payload.")
    return {main: text} | given
