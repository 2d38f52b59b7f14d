"""Answers about mail: messages, their receipts, and conversations."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from interlock.rooms.identity.answers import Token
from interlock.rooms.shared_answers import From, No, Priority, Reach, State


class Envelope(From):
    """A message without its payload."""

    id: str
    seq: int
    type: str
    version: str
    source: str
    to: str
    thread: str
    at: str
    priority: Priority
    subject: NotRequired[str]
    reply_to: NotRequired[str]
    expires_at: NotRequired[str]
    sha256: NotRequired[str]
    size: NotRequired[int]
    redacted: NotRequired[Literal[True]]


class Step(TypedDict):
    """A state that a delivery reached: when, and by which sender or adapter."""

    state: State
    at: str
    by: NotRequired[str]
    adapter: NotRequired[str]
    note: NotRequired[str]


class WakeTried(TypedDict):
    """An attempt to wake a recipient by an adapter that may fail. `unknown` means that Interlock
    does not know the outcome, and does not repeat the attempt."""

    adapter: str
    at: str
    outcome: Literal["begun", "woken", "failed", "unknown"]
    why: NotRequired[str]


class Receipt(TypedDict):
    """The state of a message for one recipient, with its history."""

    recipient: str
    state: State
    history: list[Step]
    wakes: NotRequired[list[WakeTried]]


class Message(Envelope):
    """A message with its payload, whole or a `part` of it. The payload is absent if it was redacted
    or if the caller may not read it. The sender sees `deliveries`. `taken_by` names the surface of
    the recipient that took the message first; that surface itself does not see the member."""

    payload: NotRequired[dict[str, Any]]
    part: NotRequired[Literal[True]]
    shown: NotRequired[int]
    offset: NotRequired[int]
    next_offset: NotRequired[int]
    taken_by: NotRequired[str]
    deliveries: NotRequired[list[Receipt]]


class Delivery(TypedDict):
    """One recipient of an accepted message, and how Interlock can reach it now."""

    recipient: str
    known: bool
    reach: Reach
    state: State


class Notice(TypedDict):
    """A warning about a message that was accepted."""

    code: Literal["UNKNOWN_RECIPIENT", "NO_OPEN_TASK"]
    message: str
    did_you_mean: NotRequired[list[str]]


class Sent(TypedDict):
    """The message is stored, which does not mean that a recipient has read it."""

    accepted: Literal[True]
    message: Envelope
    deliveries: list[Delivery]
    notices: list[Notice]


class Inbox(TypedDict):
    """`next` is present if more mail follows: give it as `after` to list the next page."""

    messages: list[Message]
    open: int
    unread: int
    next: NotRequired[int]


class Acknowledged(TypedDict):
    """The ids of the named messages, grouped by their present state."""

    acked: NotRequired[list[str]]
    declined: NotRequired[list[str]]
    expired: NotRequired[list[str]]


class Receipts(TypedDict):
    id: str
    deliveries: list[Receipt]


class Thread(TypedDict):
    thread: str
    messages: list[Message]
    next: NotRequired[int]


class ConnectionBehind(TypedDict):
    """A connection: its name, its client, and the person for whom it acts."""

    id: str
    name: str
    client: str
    person: str


class Story(TypedDict):
    """The identity behind a message. A message that Interlock itself wrote has no `token`. A token
    that a person gave to a client by consent has a `connection`. `contradiction` says how the
    token's label contradicts the sender. `do` corrects the label, if the sender is right."""

    message: Envelope
    sender: str
    agent: str
    session: NotRequired[str]
    token: NotRequired[Token]
    connection: NotRequired[ConnectionBehind]
    contradiction: NotRequired[str]
    do: NotRequired[str]


class Redacted(TypedDict):
    redacted: Literal[True]
    id: str
    seq: int


class AnswerFound(TypedDict):
    answered: Literal[True]
    id: str
    answer: Message


class NoAnswerFound(TypedDict):
    answered: Literal[False]
    id: str


class Answered(AnswerFound):
    deliveries: list[Delivery]
    notices: list[Notice]


class Unanswered(No):
    """The ask stays open. A late answer arrives in the inbox."""

    answered: Literal[False]
    id: str
    code: Literal["NO_ANSWER"]
    deliveries: list[Delivery]
    notices: list[Notice]


class Found(TypedDict):
    query: str
    messages: list[Message]


class Mail(TypedDict):
    messages: list[Message]


class Chunk(TypedDict):
    upload: str
    number: int


class Dropped(TypedDict):
    dropped: Literal[True]


class WakeMembers(TypedDict, total=False):
    """Members of events about wakes."""

    adapter: str
    outcome: Literal["woken", "failed", "unknown"]
    why: str
    until: str
    off: Literal[True]
