"""Answers about claims: who holds what, and until when."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from interlock.rooms.shared_answers import No


class Claim(TypedDict):
    """What is held is one `item`, or `paths` of a `repo`."""

    id: str
    item: NotRequired[str]
    paths: NotRequired[list[str]]
    repo: NotRequired[str]
    holder: str
    agent: str
    surface: NotRequired[str]
    session: NotRequired[str]
    fence: int
    branch: NotRequired[str]
    worktree: NotRequired[str]
    note: NotRequired[str]
    everywhere: NotRequired[Literal[True]]
    acquired_at: str
    expires_at: str


class SharedWorktree(TypedDict):
    code: Literal["SHARED_WORKTREE"]
    message: str
    claim: Claim


class Acquired(TypedDict):
    acquired: Literal[True]
    claim: Claim
    notices: NotRequired[list[SharedWorktree]]


class Held(No):
    """Nobody else holds it where `held_by` is empty: then `queued` asked for it before."""

    acquired: Literal[False]
    code: Literal["CLAIM_HELD"]
    held_by: list[Claim]
    queued: NotRequired[int]


class TakenOver(Acquired):
    taken_from: list[str]


class Claims(TypedDict):
    claims: list[Claim]


class ClaimedPath(TypedDict):
    path: str
    claim: Claim


class _Guarded(TypedDict):
    """Files under others' claims: those that must not be changed, and those of which one is only
    warned."""

    denied: list[ClaimedPath]
    warned: list[ClaimedPath]


class PathsFree(_Guarded):
    """Where the guard is off, no claim was looked for."""

    allowed: Literal[True]
    guard: NotRequired[Literal["off"]]


class PathsClaimed(_Guarded, No):
    allowed: Literal[False]
    code: Literal["CLAIM_HELD"]


class CommitReported(TypedDict):
    """`crossed` has the files of others that the commit touched."""

    commit: str
    crossed: list[ClaimedPath]


class Checked(TypedDict):
    claimed: bool
    claims: list[Claim]


class Renewed(TypedDict):
    renewed: Literal[True]
    claim: Claim


class Released(TypedDict):
    released: bool


class NotWaiting(TypedDict):
    waiting: Literal[False]
