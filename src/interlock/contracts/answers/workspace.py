"""Answers about the workspace: how it stands, what needs a person, what is wrong."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from interlock.contracts.answers.parts import From
from interlock.contracts.answers.work import ToResolve, VerdictDue


class Setting(TypedDict):
    name: str
    value: str
    default: str


class Finding(TypedDict):
    """What is wrong, and what puts it right."""

    check: str
    message: str
    do: str
    subject: NotRequired[str]


class Examined(TypedDict):
    ok: bool
    checks: int
    findings: list[Finding]


class Status(TypedDict):
    workspace: str
    epoch: int
    created_at: str
    now: str
    paused: bool
    pause_reason: NotRequired[str]
    agents: int
    senders: int
    messages: int
    open_deliveries: int
    claims: int
    waiting: int
    tasks: int
    blockers: int
    refusals: int


class Storage(TypedDict):
    """Where it lies is told to the owner alone."""

    directory: NotRequired[str]
    engine: str
    entries: int
    bytes: int
    # of a log that several nodes share
    url: NotRequired[str]
    name: NotRequired[str]
    node: NotRequired[str]
    confirmed_s_ago: NotRequired[int]
    set_aside: NotRequired[int]
    trouble: NotRequired[str]
    nodes: NotRequired[list["NodeStanding"]]


class NodeStanding(TypedDict):
    """How far a node has folded the log, and how far that is behind the engine."""

    node: str
    seq: int
    lag: int
    seen_s_ago: int


class ExpiredMail(From):
    id: str
    seq: int
    to: str
    at: str
    do: str


class UnansweredAsk(ExpiredMail):
    overdue: NotRequired[Literal[True]]


class UnknownName(TypedDict):
    to: str
    open: int
    did_you_mean: NotRequired[list[str]]
    do: str


class Refused(TypedDict):
    seq: int
    at: str
    sender: str
    code: str
    token: NotRequired[str]
    do: str


class DeadHolder(TypedDict):
    on: str
    holder: str
    since: str
    do: str


class DueFrom(VerdictDue):
    holders: list[str]


class Review(TypedDict):
    """What needs a person, each with the command to type."""

    verdicts_due: list[DueFrom]
    blockers: list[ToResolve]
    unanswered: list[UnansweredAsk]
    expired: list[ExpiredMail]
    unknown_recipients: list[UnknownName]
    dead_holders: list[DeadHolder]
    refusals: list[Refused]


class Settings(TypedDict):
    settings: list[Setting]


class SettingChanged(TypedDict):
    name: str
    value: str


class Paused(TypedDict):
    paused: Literal[True]
    reason: NotRequired[str]


class Resumed(TypedDict):
    paused: Literal[False]
