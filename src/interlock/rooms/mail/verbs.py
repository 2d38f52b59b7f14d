"""The verbs of mail: send, ask, answer, list, read, acknowledge, search, and redact.

A message is stored once, and has one delivery for each recipient. A delivery moves from accepted
through shown and read to acked or declined, and stays open until then. `sending` accepts messages,
`reading` shows them, `waking` wakes recipients, `records` reads the tables, and `fold` writes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from interlock.errors import InvalidMessage, MissingScope, NotFound, Remedy, TooLarge, Usage
from interlock.log.encoding import canonical, digest
from interlock.rooms.mail import DEFAULT_SEVERITY
from interlock.rooms.mail.message_types import MAIN_MEMBER, plain, sendable
from interlock.verbs import LazyModule
from interlock.verbs.addresses import address, unicode
from interlock.verbs.answers import Priority
from interlock.verbs.types import (
    MAX_QUERY_LENGTH,
    MAX_ROWS,
    MESSAGE_REF,
    TASK_ID,
    Annotated,
    Duration,
    Integer,
    Key,
    Limit,
    Line,
    MessageRef,
    Note,
    Offset,
    Position,
    Reason,
    Several,
    Text,
    one_line,
)
from interlock.verbs.verb import Tool, Verb

if TYPE_CHECKING:
    from interlock.rooms import answers, transaction
    from interlock.rooms.identity import names
    from interlock.rooms.mail import fold, reading, records, sending
    from interlock.rooms.transaction import Transaction
    from interlock.rooms.workspace import redaction
else:
    fold = LazyModule("interlock.rooms.mail.fold")
    reading = LazyModule("interlock.rooms.mail.reading")
    records = LazyModule("interlock.rooms.mail.records")
    sending = LazyModule("interlock.rooms.mail.sending")
    names = LazyModule("interlock.rooms.identity.names")
    redaction = LazyModule("interlock.rooms.workspace.redaction")
    transaction = LazyModule("interlock.rooms.transaction")

DEFAULT_WAIT_S = 20
MAX_ANSWER_BYTES = 1 << 20


class Body(Text):
    """A text of a message. The check of the whole message raises InvalidMessage for a bad one."""

    def check(self, name: str, value: Any) -> None:
        if not isinstance(value, str):
            self.refuse(name, value)


# The rule checks a recipient, because a setting of the workspace can allow more names.
Recipient = Annotated[
    str, Text("a recipient", "TO", "@NAME for one agent or group, AGENT:* for everyone")
]
Question = Annotated[str, Body("a question", "QUESTION", "the question")]
Options = Annotated[tuple[str, ...], Several(Body("an option", "O", "an answer to choose from"))]
AnswerText = Annotated[str, Body("an answer", "TEXT", "the answer")]
Which = Literal["open", "all", "sent"]
Adapter = Annotated[
    str, one_line("ADAPTER", "the interface that shows the mail, for the receipts: cli, …", 64)
]
BodySize = Annotated[int, Integer(1, help="the size of the whole body in bytes")]
ChunkNumber = Annotated[int, Integer(0, help="the number of the chunk")]
MessageRefs = Annotated[tuple[str, ...], Several(MESSAGE_REF, 1, MAX_ROWS)]
Words = Annotated[
    str,
    Text(
        "words to search for",
        "QUERY",
        "words; a message matches if it has all of them",
        pattern=r"\s*[^\s\0][^\0]*",
        max_length=MAX_QUERY_LENGTH,
    ),
]
Redactable = Annotated[
    str,
    Text(
        "the id of a message, of evidence, of a verdict or of a task, or #SEQ",
        "MESSAGE",
        "the message: its id, a prefix of 6 or more characters, or #SEQ",
        pattern=f"(?:{MESSAGE_REF.pattern}|{TASK_ID.pattern})",
    ),
]


class SendMessage(
    Verb,
    name="send",
    http="POST /v1/messages",
    method="send",
    scope="mail",
    help={
        "type": "the message type: send, ask, answer, announce, wake, command or blocker",
        "payload": "the members of the message; interlock schema TYPE shows them",
        "subject": "the subject, in one line",
        "thread": "the thread to continue: the id of one of its messages",
        "reply_to": "the message that this one answers",
        "priority": "how urgent the message is",
        "ttl_s": "when unread mail expires; by default never",
        "wake": "true: wake idle recipients, even of a broadcast; false: wake no recipient; by "
        "default only direct mail wakes",
        "sha256": "the SHA-256 of an uploaded body",
        "size": "the size of an uploaded body in bytes",
        "upload": "the upload that contains the main text of the message",
    },
):
    """Send a message to one agent, to a group, or to everyone.

    The answer says that the message was accepted, not that a recipient read it. To see whether a
    recipient read it: interlock receipts ID"""

    to: Recipient
    payload: dict[str, Any]
    type: str = "send"
    subject: Line | None = None
    thread: str | None = None
    reply_to: str | None = None
    priority: Priority = "normal"
    key: Key | None = None
    ttl_s: Duration | None = None
    wake: bool | None = None
    sha256: str = ""
    size: int = 0
    upload: str | None = None

    def checked(self) -> SendMessage:
        """Check the payload against its contract. Fill in the digest and the size of the body. The
        body is the main text, or the whole payload if there is no main text."""
        sendable(self.type)
        main = MAIN_MEMBER[self.type]
        payload = self.payload
        if self.type == "blocker":
            payload = {"severity": DEFAULT_SEVERITY} | payload
        # The contract has no maximum for the main text, so one character can replace an upload.
        whole = payload if self.upload is None else payload | {main: "-"}
        if not plain(self.type, whole):
            # Importing Pydantic takes longer than a whole command should.
            from interlock.rooms.mail.payloads import check

            check(self.type, whole, inside="payload.")
        if self.upload is not None:
            return self._replace(payload=payload)
        try:
            body = payload[main].encode() if main in payload else canonical(payload)
        except (UnicodeEncodeError, TypeError):
            raise InvalidMessage(
                f"payload.{main} is not valid UTF-8 text.", member=f"payload.{main}"
            ) from None
        return self._replace(payload=payload, sha256=digest(body), size=len(body))

    def decide(self, tx: Transaction) -> answers.Sent:
        return sending.send(tx, self)


class PutChunk(
    Verb,
    name="upload",
    http="POST /v1/blobs",
    method="put_chunk",
    help={
        "data": "the bytes of the chunk; every chunk but the last has 1 MiB",
        "upload": "the upload that the chunk belongs to; by default a new one",
    },
):
    """Upload a chunk of a large body.

    Upload the first chunk without `upload`. The answer names the upload for the other chunks. The
    Python client uploads large bodies by itself."""

    data: bytes
    size: BodySize
    number: ChunkNumber = 0
    upload: str | None = None

    def decide(self, tx: Transaction) -> answers.Chunk:
        if not tx.caller.scopes & {"mail", "work"}:
            raise MissingScope(
                f"An upload needs the scope mail or work, and the token of @{tx.caller.sender} has "
                "neither.",
                scope="mail",
            )
        sending.refuse_size(tx, self.size)
        end = self.number * sending.CHUNK_BYTES + len(self.data)
        if end > self.size:
            raise Usage(
                f"Chunk {self.number} ends at byte {end}, and size is {self.size}. Give the size "
                "of the whole body."
            )
        upload = self.upload
        if upload is None:
            upload = f"{tx.now:015}.{tx.caller.sender}.{tx.new_id()}"
        sending.refuse_foreign_upload(tx, upload)
        tx.store.put_chunk(upload, self.number, self.data)
        return {"upload": upload, "number": self.number}


class DropUpload(
    Verb,
    name="upload drop",
    http="POST /v1/blobs/drop",
    method="drop_upload",
    help={"upload": "the upload"},
):
    """Discard an upload that no message uses."""

    upload: str

    def decide(self, tx: Transaction) -> answers.Dropped:
        sending.refuse_foreign_upload(tx, self.upload)
        tx.store.drop_upload(self.upload)
        return {"dropped": True}


class Ask(
    Verb,
    name="ask",
    http="POST /v1/asks",
    mcp=Tool(
        "ask to question [options] [wait_s] [key]",
        "Ask an agent or a person, and wait for the answer. If `answered` is false, a late answer "
        "arrives in your inbox: do other work, do not ask again.",
        help={
            "to": "@name",
            "question": "",
            "options": "choices to offer",
            "wait_s": "",
            "key": "same key again = same ask",
        },
        answer="answered id answer code deliveries notices",
    ),
    method="ask",
    help={
        "wait_s": "how long to wait for the answer",
        "timeout_s": "the time limit in seconds; after it, interlock review lists the question as "
        "overdue",
    },
):
    """Ask a question, and wait for the answer.

    Exit 1: no answer arrived in time. A late answer arrives in the inbox."""

    to: Recipient
    question: Question
    options: Options = ()
    wait_s: Duration = DEFAULT_WAIT_S
    timeout_s: int | None = None
    key: Key | None = None

    def checked(self) -> Ask:
        payload = self.payload()
        if not plain("ask", payload):
            from interlock.rooms.mail.payloads import check

            check("ask", payload)
        return self

    def payload(self) -> dict[str, Any]:
        """The payload of the message that asks."""
        payload: dict[str, Any] = {"question": self.question}
        if self.options:
            payload["options"] = list(self.options)
        if self.timeout_s is not None:
            payload["timeout_s"] = self.timeout_s
        return payload

    def decide(self, tx: Transaction) -> answers.Answered | answers.Unanswered:
        """The node runs this verb as a flow: see `node.flows`."""
        raise NotImplementedError


class AnswerAsk(
    Verb,
    http="POST /v1/messages/{message}/answer",
    cli="answer ID TEXT|-",
    bind={"ID": "message"},
    method="answer",
    scope="mail",
):
    """Answer a question that you received.

    The answer acknowledges the question."""

    message: MessageRef
    text: AnswerText
    key: Key | None = None

    def checked(self) -> AnswerAsk:
        if not self.text:
            raise InvalidMessage("The answer is empty. Give its text.", type="answer")
        if not unicode(self.text):
            raise InvalidMessage("The answer is not valid UTF-8 text.", type="answer")
        size = len(self.text.encode())
        if size > MAX_ANSWER_BYTES:
            raise TooLarge(
                f"The answer has {size} bytes, and at most {MAX_ANSWER_BYTES} are allowed. Send a "
                "longer text as a reply:",
                _to_reply("@NAME", self.message),
            )
        return self

    def decide(self, tx: Transaction) -> answers.Sent:
        ask = records.locate(tx, self.message)
        if ask.type != "ask":
            raise InvalidMessage(
                f"Message {ask.id} has the type {ask.type}, and only an ask takes an answer. Reply "
                "to it:",
                _to_reply(address(ask.sender), ask.id),
            )
        body = self.text.encode()
        answer = SendMessage(
            to=address(ask.sender),
            type="answer",
            payload={"text": self.text, "ask": ask.id},
            reply_to=ask.id,
            key=self.key,
            sha256=digest(body),
            size=len(body),
        )
        return sending.send(tx, answer)


class FindAnswer(
    Verb,
    name="answer find",
    http="GET /v1/asks/{message}",
    method="find_answer",
    scope="mail",
    read_only=True,
):
    """Check whether a question of yours was answered."""

    message: MessageRef

    def decide(self, tx: Transaction) -> answers.AnswerFound | answers.NoAnswerFound:
        """Return the first answer. Other recipients of the question do not see it."""
        ask = records.locate(tx, self.message)
        if not records.sent_by(tx, ask):
            raise NotFound(
                f"Message {self.message[:80]!r} is not a question that you asked. List the mail "
                "that you sent:",
                Remedy("interlock inbox --sent", http="`GET /v1/inbox?which=sent`"),
            )
        seq = tx.value("SELECT answer FROM mail_asks WHERE seq = ?", ask.seq)
        if seq is None:
            return {"answered": False, "id": ask.id}
        answer = records.listed(tx, records.by_seq(tx, seq))
        return {"answered": True, "id": ask.id, "answer": answer}


class ListInbox(
    Verb,
    name="inbox",
    http="GET /v1/inbox",
    method="inbox",
    scope="mail",
    read_only=True,
    help={
        "which": "open mail, all mail, or the mail that you sent",
        "wait_s": "how long to wait for new mail; by default not at all",
    },
):
    """List your mail, oldest first.

    Mail stays open until you acknowledge it: interlock ack ID"""

    which: Which = "open"
    limit: Limit = 100
    after: Position = 0
    adapter: Adapter | None = None
    wait_s: Duration | None = None

    def decide(self, tx: Transaction) -> answers.Inbox:
        return reading.inbox(tx, self)


class ListMail(
    Verb,
    name="mail",
    http="GET /v1/mail",
    method="mail",
    scope="admin",
    read_only=True,
    owner=True,
    help={"message": "only this message"},
):
    """List the newest messages of the workspace.

    Only the owner sees the payloads. An admin sees senders, recipients and receipts."""

    limit: Limit = 50
    message: MessageRef | None = None

    def decide(self, tx: Transaction) -> answers.Mail:
        """Only the owner sees payloads: no scope allows a caller to read the mail of others."""
        if self.message is not None:
            found = [records.locate(tx, self.message, of_all=True)]
        else:
            found = records.messages(tx, "1 ORDER BY seq DESC LIMIT ?", self.limit)
        messages = []
        for message in found:
            shown = (
                records.listed(tx, message) if tx.caller.owner else records.envelope(message, None)
            )
            messages.append(shown | {"deliveries": reading.receipts_of(tx, message)})
        return {"messages": messages}


class ReadMessage(
    Verb,
    name="read",
    http="GET /v1/messages/{message}",
    method="read",
    scope="mail",
    read_only=True,
    help={"start": "the first byte of the range", "stop": "the byte after the range"},
):
    """Read a message, or a range of its body."""

    message: MessageRef
    start: Offset | None = None
    stop: Offset | None = None

    def checked(self) -> ReadMessage:
        start = self.start or 0
        if self.stop is not None and self.stop <= start:
            raise Usage(
                f"stop is {self.stop}, and start is {start}. Give a stop above start.",
                member="stop",
            )
        return self

    def decide(self, tx: Transaction) -> answers.Message:
        """The first surface that reads a message takes it."""
        message = records.locate(tx, self.message)
        for name, state, _, _ in records.received(tx, message):
            if state in fold.UNREAD and not transaction.is_paused(tx.state):
                tx.append_if_writable(
                    "mail_moved", {"state": "read", "items": [[message.seq, name]]}
                )
        taken_by = next((taken for _, _, taken, _ in records.received(tx, message) if taken), None)
        body = records.load(tx, message)
        shown = records.envelope(message, body, taken_by if taken_by != tx.caller.sender else None)
        if body is not None:
            shown |= records.content(tx, message, body, self.start or 0, self.stop)
        if records.sent_by(tx, message):
            shown["deliveries"] = reading.receipts_of(tx, message)
        return shown


class AckMessages(
    Verb,
    http="POST /v1/acks",
    http_also=("POST /v1/messages/{messages}/ack",),
    cli="ack ID... [--decline] [--note N]",
    mcp=Tool(
        "ack ids [decline] [note]",
        "Acknowledge messages that you have handled, or decline them with a reason. The sender "
        "sees the receipt; no agent is woken.",
        help={"ids": "message ids", "decline": "", "note": "one line"},
        idempotent=True,
    ),
    bind={"ID": "messages", "ids": "messages"},
    method="ack",
    scope="mail",
    help={
        "decline": "decline the messages: you will not do what they ask",
        "note": "a note for the sender",
    },
):
    """Acknowledge messages that you handled, or decline them.

    If one of the messages was not sent to you, Interlock acknowledges none."""

    messages: MessageRefs
    decline: bool = False
    note: Note | None = None

    def decide(self, tx: Transaction) -> answers.Acknowledged:
        """A message that was acknowledged or declined before stays so."""
        done: list[records.Message] = []
        items: dict[tuple[int, str], None] = {}
        for reference in self.messages:
            message = records.locate(tx, reference)
            mine = records.received(tx, message)
            if not mine:
                raise NotFound(
                    f"Message {reference[:80]!r} was not sent to you. List your mail:",
                    records.TO_LIST,
                )
            items |= {(message.seq, name): None for name, _, _, closed in mine if not closed}
            done.append(message)
        if items:
            state = "declined" if self.decline else "acked"
            note = canonical({"note": self.note}) if self.note is not None else None
            tx.append("mail_moved", {"state": state, "items": [list(item) for item in items]}, note)
        answer: Any = {}
        for message in done:
            answer.setdefault(records.received(tx, message)[0][1], []).append(message.id)
        return answer


class ShowReceipts(
    Verb,
    http="GET /v1/messages/{message}/receipts",
    cli="receipts ID",
    bind={"ID": "message"},
    method="receipts",
    scope="mail",
    read_only=True,
):
    """Show the receipts of a message, for each recipient."""

    message: MessageRef

    def decide(self, tx: Transaction) -> answers.Receipts:
        """Show all receipts to the sender of the message, and to a recipient only its own."""
        message = records.locate(tx, self.message)
        shown = reading.receipts_of(tx, message)
        if not (records.sent_by(tx, message) or tx.caller.owner):
            mine = {address(name) for name, _, _, _ in records.received(tx, message)}
            shown = [delivery for delivery in shown if delivery["recipient"] in mine]
        return {"id": message.id, "deliveries": shown}


class ShowThread(
    Verb,
    http="GET /v1/messages/{message}/thread",
    cli="thread ID [--limit N] [--after SEQ]",
    bind={"ID": "message"},
    method="thread",
    scope="mail",
    read_only=True,
):
    """Show the conversation that a message belongs to."""

    message: MessageRef
    limit: Limit = 100
    after: Position = 0

    def decide(self, tx: Transaction) -> answers.Thread:
        """List the messages of the thread that the caller may see."""
        root = records.locate(tx, self.message).thread
        of_thread = "(id = ?1 OR (thread = ?1 AND thread <> id)) AND seq > ?2 ORDER BY seq LIMIT ?3"
        rows = records.messages(tx, of_thread, root, self.after, self.limit + 1)
        found = rows[: self.limit]
        shown = [records.listed(tx, message) for message in found if records.visible(tx, message)]
        answer: answers.Thread = {"thread": root, "messages": shown}
        if len(rows) > len(found):
            answer["next"] = found[-1].seq
        return answer


class Search(
    Verb,
    http="GET /v1/search",
    cli="search QUERY [--limit N]",
    method="search",
    scope="mail",
    read_only=True,
):
    """Search your mail, sent and received.

    The newest message comes first."""

    query: Words
    limit: Limit = 20

    def decide(self, tx: Transaction) -> answers.Found:
        caller = tx.caller
        senders = (caller.agent, *names.senders_of(tx.state, caller.agent))
        messages: list[answers.Message] = []
        mine = transaction.Mine(records.mailboxes(caller), senders)
        for seq in tx.store.search(self.query, mine):
            message = records.by_seq(tx, seq)
            if not message.redacted:
                messages.append(records.listed(tx, message))
                if len(messages) == self.limit:
                    break
        return {"query": self.query, "messages": messages}


class Explain(
    Verb,
    http="GET /v1/messages/{message}/explain",
    cli="explain ID",
    bind={"ID": "message"},
    method="explain",
    read_only=True,
    owner=True,
):
    """Show the identity behind a message.

    The answer has the sender, the token and its label, who minted the token, and when. It reports a
    label that contradicts the sender."""

    message: MessageRef

    def decide(self, tx: Transaction) -> answers.Story:
        return reading.explain(tx, self)


class Redact(
    Verb,
    http="POST /v1/messages/{message}/redact",
    cli="redact MESSAGE --reason R",
    method="redact",
    owner=True,
):
    """Erase the body of a message permanently.

    Every proof of the log stays valid. To erase evidence, a verdict or a task, give its id. To
    erase any other note, give the #SEQ of its log entry."""

    message: Redactable
    reason: Reason

    def decide(self, tx: Transaction) -> answers.Redacted:
        return redaction.redact(tx, self)


def _to_reply(to: str, message: str) -> Remedy:
    return Remedy(
        f"interlock send {to} TEXT --reply-to {message}",
        SendMessage(to, {"text": "TEXT"}, reply_to=message),
        mcp=f"`send(to: {to}, reply_to: {message}, text: TEXT)`",
    )
