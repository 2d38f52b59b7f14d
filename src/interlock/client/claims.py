"""A claim for the length of a block."""

from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from interlock.client import answers
from interlock.client.asking import Asked, Texts, texts
from interlock.errors import ClaimHeld, Refusal
from interlock.rooms.claims.verbs import DEFAULT_LEASE_S, AcquireClaim, ReleaseClaim

if TYPE_CHECKING:
    from interlock.client import AsyncClient, Client

C = TypeVar("C")


class Claims:
    """A claim is on one `item`, or on `paths` (globs) of a `repo`, by default the repository that
    you are in."""

    def claimed(
        self,
        item: str | None = None,
        *,
        paths: Texts = (),
        repo: str | None = None,
        branch: str | None = None,
        worktree: str | None = None,
        note: str | None = None,
        ttl_s: int = DEFAULT_LEASE_S,
        wait_s: int | None = None,
        everywhere: bool = False,
    ) -> "Claimed[Self]":
        """A claim for the length of a block: `with client.claimed("B-1") as claim`. Raises
        `ClaimHeld` where another holder has it. The end of the block releases the claim, and raises
        `StaleFence` where the claim was lost meanwhile."""
        where = branch, worktree, note
        act = AcquireClaim(item, texts(paths), repo, *where, ttl_s, wait_s, everywhere)
        return Claimed(self, Asked(act))


class Claimed(Generic[C]):
    """The result of `claimed`, for `with` on a Client and `async with` on an AsyncClient."""

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


def _release(claim: answers.Claim | None) -> ReleaseClaim:
    """Named by its target: a lost claim has no id any more, and its loss would go unnoticed."""
    assert claim is not None
    paths = tuple(claim.get("paths", ()))
    return ReleaseClaim(claim.get("item"), paths, claim.get("repo"), claim["fence"])
