"""The verbs of claims, and a claim for the length of a block."""

from collections.abc import Iterable
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from interlock.client.asking import Asked, Verb
from interlock.contracts import acts, answers
from interlock.errors import ClaimHeld, Refusal

if TYPE_CHECKING:
    from interlock.client import AsyncClient, Client

C = TypeVar("C")
Paths = str | Iterable[str]

LEASE_S = 3600


class Claims:
    """A claim is on one `item`, or on `paths` (globs) of a `repo`; the repository that you stand
    in, where none is named."""

    @Verb
    def acquire(
        self,
        item: str | None = None,
        *,
        paths: Paths = (),
        repo: str | None = None,
        branch: str | None = None,
        worktree: str | None = None,
        note: str | None = None,
        ttl_s: int = LEASE_S,
        wait_s: int | None = None,
        everywhere: bool = False,
    ) -> Asked[answers.Acquired | answers.Held]:
        """Take a claim, or extend your own. Where another holds it, the result says who; with
        `wait_s`, stand in the queue for so long first."""
        where = branch, worktree, note
        return Asked(
            acts.AcquireClaim(item, _tuple(paths), repo, *where, ttl_s, wait_s, everywhere)
        )

    def claimed(
        self,
        item: str | None = None,
        *,
        paths: Paths = (),
        repo: str | None = None,
        branch: str | None = None,
        worktree: str | None = None,
        note: str | None = None,
        ttl_s: int = LEASE_S,
        wait_s: int | None = None,
        everywhere: bool = False,
    ) -> "Claimed[Self]":
        """A claim for the length of a block: `with client.claimed("B-1") as claim`. The block is
        entered only with the claim, else `ClaimHeld` is raised; at its end the claim is released.
        If it was lost meanwhile, that raises `StaleFence`: what was done may not stand alone."""
        where = branch, worktree, note
        act = acts.AcquireClaim(item, _tuple(paths), repo, *where, ttl_s, wait_s, everywhere)
        return Claimed(self, Asked(act))

    @Verb
    def renew(
        self,
        item: str | None = None,
        *,
        paths: Paths = (),
        repo: str | None = None,
        id: str | None = None,
        ttl_s: int = LEASE_S,
        fence: int | None = None,
    ) -> Asked[answers.Renewed]:
        """Extend a claim that you hold, named by what it is on or by its id."""
        return Asked(acts.RenewClaim(item, _tuple(paths), repo, ttl_s, fence, id))

    @Verb
    def release(
        self,
        item: str | None = None,
        *,
        paths: Paths = (),
        repo: str | None = None,
        id: str | None = None,
        fence: int | None = None,
    ) -> Asked[answers.Released]:
        """Give a claim up, named by what it is on or by its id."""
        return Asked(acts.ReleaseClaim(item, _tuple(paths), repo, fence, id))

    @Verb
    def check(
        self, item: str | None = None, *, paths: Paths = (), repo: str | None = None
    ) -> Asked[answers.Checked]:
        """Say whether it is claimed, and by whom."""
        return Asked(acts.CheckClaim(item, _tuple(paths), repo))

    @Verb
    def guard(
        self, paths: Paths, *, repo: str = ".", worktree: str | None = None
    ) -> Asked[answers.PathsFree | answers.PathsClaimed]:
        """Say whether you may change these files, named from the repository's root."""
        return Asked(acts.CheckPaths(_tuple(paths), repo, worktree))

    @Verb
    def report_commit(
        self, commit: str, paths: Paths, *, repo: str = ".", worktree: str | None = None
    ) -> Asked[answers.CommitReported]:
        """Report a commit and the files it touched, so that nobody's claim is crossed unnoticed."""
        return Asked(acts.ReportCommit(commit, _tuple(paths), repo, worktree))

    @Verb
    def claims(self, *, mine: bool = False) -> Asked[answers.Claims]:
        """List the claims that live."""
        return Asked(acts.ListClaims(mine))

    @Verb
    def take_over(
        self,
        item: str | None = None,
        *,
        reason: str,
        paths: Paths = (),
        repo: str | None = None,
        branch: str | None = None,
        worktree: str | None = None,
        note: str | None = None,
        ttl_s: int = LEASE_S,
    ) -> Asked[answers.TakenOver]:
        """Take another's claim, with a reason. For people and admins; the former holder is told."""
        where = branch, worktree, note
        return Asked(acts.TakeOverClaim(reason, item, _tuple(paths), repo, *where, ttl_s))

    @Verb
    def stop_waiting(
        self, item: str | None = None, *, paths: Paths = (), repo: str | None = None
    ) -> Asked[answers.NotWaiting]:
        """Leave the queue for a claim. `acquire` does this by itself."""
        return Asked(acts.StopWaiting(item, _tuple(paths), repo))


class Claimed(Generic[C]):
    """What `claimed` gives, for `with` on a Client and `async with` on an AsyncClient."""

    def __init__(self, client: C, asked: Asked[answers.Acquired | answers.Held]) -> None:
        self._client, self._asked = client, asked
        self._claim: answers.Claim | None = None

    def __enter__(self: "Claimed[Client]") -> answers.Claim:
        self._claim = _granted(self._client.do(self._asked))
        return self._claim

    def __exit__(self: "Claimed[Client]", kind: Any, trouble: Any, trace: Any) -> None:
        with suppress(Refusal) if trouble else nullcontext():
            self._client.call(_release(self._claim))

    async def __aenter__(self: "Claimed[AsyncClient]") -> answers.Claim:
        self._claim = _granted(await self._client.do(self._asked))
        return self._claim

    async def __aexit__(self: "Claimed[AsyncClient]", kind: Any, trouble: Any, trace: Any) -> None:
        with suppress(Refusal) if trouble else nullcontext():
            await self._client.call(_release(self._claim))


def _granted(answer: answers.Acquired | answers.Held) -> answers.Claim:
    if not answer["acquired"]:
        queued = answer.get("queued")
        raise ClaimHeld(answer["message"], held_by=answer["held_by"], queued=queued)
    return answer["claim"]


def _release(claim: answers.Claim | None) -> acts.ReleaseClaim:
    """Named by what it is on: a claim that was lost has no id any more, and would go unnoticed."""
    assert claim is not None
    paths = tuple(claim.get("paths", ()))
    return acts.ReleaseClaim(claim.get("item"), paths, claim.get("repo"), claim["fence"])


def _tuple(paths: Paths) -> tuple[str, ...]:
    return (paths,) if isinstance(paths, str) else tuple(paths)
