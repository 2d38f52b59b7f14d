"""Answers about mail: messages, how far each got, and conversations."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from interlock.rooms.identity.answers import Token
from interlock.rooms.shared_answers import From, No, Priority, Reach, State


class Envelope(From):
    """A message without what it says."""

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
    """How a delivery came to a state."""

    state: State
    at: str
    by: NotRequired[str]
    adapter: NotRequired[str]
    note: NotRequired[str]


class WakeTried(TypedDict):
    """An attempt to wake somebody by an adapter that may fail. `unknown` is one whose end nobody
    knows; it is not repeated."""

    adapter: str
    at: str
    outcome: Literal["begun", "woken", "failed", "unknown"]
    why: NotRequired[str]


class Receipt(TypedDict):
    """How far a message got with one recipient."""

    recipient: str
    state: State
    history: list[Step]
    wakes: NotRequired[list[WakeTried]]


class Message(Envelope):
    """A message with what it says, whole or a `part` of it; without, where that was redacted or
    is not for the one who asks. The sender sees its `deliveries`; other surfaces of an agent see
    by which it was `taken_by`."""

    payload: NotRequired[dict[str, Any]]
    part: NotRequired[Literal[True]]
    shown: NotRequired[int]
    offset: NotRequired[int]
    next_offset: NotRequired[int]
    taken_by: NotRequired[str]
    deliveries: NotRequired[list[Receipt]]


class Delivery(TypedDict):
    """What to expect of one recipient of a message that was just accepted."""

    recipient: str
    known: bool
    reach: Reach
    state: State


class Notice(TypedDict):
    """What a sender should know about a message that was accepted all the same."""

    code: Literal["UNKNOWN_RECIPIENT", "NO_OPEN_TASK"]
    message: str
    did_you_mean: NotRequired[list[str]]


class Sent(TypedDict):
    """Accepted, which never means more than that."""

    accepted: Literal[True]
    message: Envelope
    deliveries: list[Delivery]
    notices: list[Notice]


class Inbox(TypedDict):
    """`next` is there where more follows: go on after it."""

    messages: list[Message]
    open: int
    unread: int
    next: NotRequired[int]


class Acknowledged(TypedDict):
    """The ids of the messages named, by where each stands now."""

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
    """By what name and which client, and for whom, a connection acts."""

    id: str
    name: str
    client: str
    person: str


class Story(TypedDict):
    """Who is behind a message. What Interlock itself writes has no token; one that a person gave a
    client by consent is of a `connection`. Where the token's label says otherwise, that is a
    `contradiction`, which `do` puts right if the identity is as it should be."""

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
    """The ask stands; a late answer arrives in the inbox."""

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
