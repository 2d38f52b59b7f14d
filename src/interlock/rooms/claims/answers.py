"""Answers about claims: their holders, targets and leases."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from interlock.rooms.shared_answers import No


class Claim(TypedDict):
    """A claim on one `item`, or on `paths` of a `repo`."""

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
    """`queued` callers are ahead in the queue. If `held_by` is empty, the claim is free, and they
    get it first."""

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
    """Files under other holders' claims. The caller must not change those in `denied`, and may
    change those in `warned`."""

    denied: list[ClaimedPath]
    warned: list[ClaimedPath]


class PathsFree(_Guarded):
    """If `guard` is off, the files were compared with no claim."""

    allowed: Literal[True]
    guard: NotRequired[Literal["off"]]


class PathsClaimed(_Guarded, No):
    allowed: Literal[False]
    code: Literal["CLAIM_HELD"]


class CommitReported(TypedDict):
    """`crossed` has the files under other holders' claims that the commit touched."""

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


class ClaimMembers(TypedDict, total=False):
    """Members of events about claims. Events about other subjects have some of them too."""

    id: str
    item: str
    paths: list[str]
    repo: str
    fence: int
    ttl_s: int
    expires_at: str
    branch: str
    worktree: str
    note: str
    everywhere: int
    reason: str
    taken_over: Literal[True]
