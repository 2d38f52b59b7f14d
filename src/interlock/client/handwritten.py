"""The methods of the client that `interlock.generate` cannot derive: they take other parameters
than their verbs, or go on for the length of a block or a loop."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from interlock.client import answers
from interlock.client.asking import Asked, Method, Texts, texts
from interlock.errors import ClaimHeld, EngineUnavailable, Refusal, Usage
from interlock.rooms.claims import DEFAULT_LEASE_S
from interlock.rooms.claims.verbs import AcquireClaim, ReleaseClaim
from interlock.rooms.identity.token_files import prepared
from interlock.rooms.identity.token_format import hashed
from interlock.rooms.identity.verbs import IdentifyToken, ImportTokens
from interlock.rooms.mail.message_types import MAIN_MEMBER, sendable
from interlock.rooms.mail.verbs import AckMessages, ListInbox, SendMessage
from interlock.rooms.workspace.verbs import ShowStorage

if TYPE_CHECKING:
    from interlock.client import AsyncClient, Client

C = TypeVar("C")

WAIT_S = 25
MIN_PAUSE_S = 0.1
MAX_PAUSE_S = 5.0


class HandWritten:
    """A message is named by its id, a unique prefix of it (6 or more characters), or `#SEQ`. A
    claim is on one `item`, or on `paths` (globs) of a `repo`, by default the repository that you
    are in."""

    @Method
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
        member of the type, and `payload` has the other members. Accepted does not mean read: see
        `receipts`."""
        sendable(type)
        main = MAIN_MEMBER[type]
        given = dict(payload or {})
        if text is not None:
            if main in given:
                raise Usage(f"{main} is given twice: as the text and in the payload.")
            given[main] = text
        return Asked(
            SendMessage(
                to=to,
                type=type,
                payload=given,
                subject=subject,
                thread=thread,
                reply_to=reply_to,
                priority=priority,
                key=key,
                ttl_s=ttl_s,
                wake=wake,
            )
        )

    @Method
    def ack(
        self, *messages: str, decline: bool = False, note: str | None = None
    ) -> Asked[answers.Acknowledged]:
        """Acknowledge messages that you have handled, or decline them."""
        return Asked(AckMessages(messages=messages, decline=decline, note=note))

    def listen(self, after: int | None = None) -> "Listening[Self]":
        """Messages as they arrive, without an end: `for` on a Client, `async for` on either. It
        starts after a position of the log, by default after the first look."""
        return Listening(self, after)

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
        request = AcquireClaim(item, texts(paths), repo, *where, ttl_s, wait_s, everywhere)
        return Claimed(self, Asked(request))

    @Method
    def import_tokens(
        self,
        rows: Iterable[Mapping[str, Any]],
        *,
        map: Mapping[str, str] | None = None,
        apply: bool = False,
    ) -> Asked[answers.Imported]:
        """Import the tokens of another bus, from rows with `token_hash`, `agent` and `label`. The
        answer says what happens to each row; only `apply` changes anything. The client hashes a
        `token`."""
        found = prepared([dict(row) for row in rows]).rows
        return Asked(ImportTokens(rows=found, map=dict(map) if map else None, apply=apply))

    @Method
    def identify_token(self, token: str) -> Asked[answers.KnownToken | answers.UnknownToken]:
        """Say which sender a token belongs to. The client sends only the hash of the token."""
        return Asked(IdentifyToken(token_hash=hashed(token)))


class Claimed(Generic[C]):
    """The result of `claimed`, for `with` on a Client and `async with` on an AsyncClient."""

    def __init__(self, client: C, asked: Asked[answers.Acquired | answers.Held]) -> None:
        self._client, self._asked = client, asked

    def __enter__(self: "Claimed[Client]") -> answers.Claim:
        return self._granted(self._client.do(self._asked))

    def __exit__(self: "Claimed[Client]", kind: Any, trouble: Any, trace: Any) -> None:
        with suppress(Refusal) if trouble else nullcontext():
            self._client.call(self._release)

    async def __aenter__(self: "Claimed[AsyncClient]") -> answers.Claim:
        return self._granted(await self._client.do(self._asked))

    async def __aexit__(self: "Claimed[AsyncClient]", kind: Any, trouble: Any, trace: Any) -> None:
        with suppress(Refusal) if trouble else nullcontext():
            await self._client.call(self._release)

    def _granted(self, answer: answers.Acquired | answers.Held) -> answers.Claim:
        if not answer["acquired"]:
            queued = answer.get("queued")
            raise ClaimHeld(answer["message"], held_by=answer["held_by"], queued=queued)
        claim = answer["claim"]
        # The release names the target: a lost claim has no id any more, and its loss would go
        # unnoticed.
        paths = tuple(claim.get("paths", ()))
        self._release = ReleaseClaim(claim.get("item"), paths, claim.get("repo"), claim["fence"])
        return claim


class Listening(Generic[C]):
    """The result of `listen`: it lists the inbox and waits, again and again, from the last message
    that it yielded. It waits for a server that goes away; a lost answer neither costs a message
    nor yields one twice. `after` is the position of the last message; a second loop, or another
    `listen` from there, continues behind it."""

    def __init__(self, client: C, after: int | None) -> None:
        self._client = client
        self.after = after
        self._has_answered = False
        self._pause_s = MIN_PAUSE_S

    def __iter__(self: "Listening[Client]") -> Iterator[answers.Message]:
        while True:
            try:
                answer = self._client.call(self._request())
            except EngineUnavailable as trouble:
                time.sleep(self._pause_after(trouble))
                continue
            for message in self._arrived(answer):
                self.after = message["seq"]
                yield message

    async def __aiter__(
        self: "Listening[Client] | Listening[AsyncClient]",
    ) -> AsyncIterator[answers.Message]:
        async with self._client.asynchronous() as client:
            while True:
                try:
                    answer = await client.call(self._request())
                except EngineUnavailable as trouble:
                    await asyncio.sleep(self._pause_after(trouble))
                    continue
                for message in self._arrived(answer):
                    self.after = message["seq"]
                    yield message

    def _request(self) -> Any:
        if self.after is None:
            return ShowStorage()
        return ListInbox(after=self.after, adapter="python", wait_s=WAIT_S)

    def _arrived(self, answer: dict[str, Any]) -> list[answers.Message]:
        self._has_answered = True
        self._pause_s = MIN_PAUSE_S
        if self.after is None:
            self.after = answer["entries"]
            return []
        messages: list[answers.Message] = answer["messages"]
        return messages

    def _pause_after(self, trouble: EngineUnavailable) -> float:
        """How long to wait for a server to come back. Raises where none has ever answered."""
        if not self._has_answered:
            raise trouble
        pause_s = self._pause_s
        self._pause_s = min(2 * pause_s, MAX_PAUSE_S)
        return pause_s
