"""Answers to an agent's client, which tells of each step and is told what to say."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from interlock.contracts.answers.claims import Claim, ClaimedPath
from interlock.contracts.answers.mail import Envelope, Message


class Attended(TypedDict):
    """What a client's session is told at a step: who it is, and what is new. `news` are messages
    to be pointed to, `messages` those that are handed over whole, `lost` the sender's sessions
    whose client has died; the rest is of an edit."""

    address: str
    agent: str
    session: NotRequired[str]
    paused: NotRequired[Literal[True]]
    open: int
    unread: int
    lost: NotRequired[list[str]]
    claims: NotRequired[list[Claim]]
    news: NotRequired[list[Envelope]]
    messages: NotRequired[list[Message]]
    allowed: NotRequired[bool]
    denied: NotRequired[list[ClaimedPath]]
    warned: NotRequired[list[ClaimedPath]]
    guard: NotRequired[Literal["off"]]
    error: NotRequired[str]
    code: NotRequired[Literal["CLAIM_HELD"]]
    message: NotRequired[str]


class Muted(TypedDict):
    address: str
    muted: bool
    until: NotRequired[str]
