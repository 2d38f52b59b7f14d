"""The methods of the client that `interlock.generate` cannot derive from a verb.

The parameters of such a method differ from the fields of its verb, or callers use the method in a
`with` statement or a loop."""

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
    """A message is named by its id, a unique prefix of its id (6 or more characters), or `#SEQ`. A
    claim covers one `item`, or `paths` (globs) of a `repo`. The default `repo` is the repository of
    the current directory."""

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
        """Send a message to one agent (`@otto`) or to everyone (`AGENT:*`). `text` fills the main
        member of the message type, and `payload` has the other members. Accepted does not mean
        read. `receipts` shows the state of each delivery."""
        sendable(type)
        main = MAIN_MEMBER[type]
        given = dict(payload or {})
        if text is not None:
            if main in given:
                raise Usage(
                    f"{main} is given twice, as the text and in the payload. Omit one of them."
                )
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
        """Return an endless iterator over arriving messages, for `for` on a Client or `async for`
        on either client. It starts after the log position `after`. By default it starts after the
        end of the log at its first request."""
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
        """Hold a claim for a block: `with client.claimed("B-1") as claim`. Entering the block
        raises `ClaimHeld` if another holder has the claim. Leaving the block releases the claim,
        and raises `StaleFence` if the claim was lost in the block."""
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
        """Import tokens of another message bus, from rows with `token_hash`, `agent` and `label`.
        The answer has a verdict for each row. Without `apply`, nothing changes. If a row has a
        clear-text `token`, the client sends only its hash."""
        found = prepared([dict(row) for row in rows]).rows
        return Asked(ImportTokens(rows=found, map=dict(map) if map else None, apply=apply))

    @Method
    def identify_token(self, token: str) -> Asked[answers.KnownToken | answers.UnknownToken]:
        """Identify the sender of a token. The client sends only the hash of the token."""
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
        # Release by target, not by id: the id of a lost claim is unknown to the node, and the
        # loss would go unnoticed.
        paths = tuple(claim.get("paths", ()))
        self._release = ReleaseClaim(claim.get("item"), paths, claim.get("repo"), claim["fence"])
        return claim


class Listening(Generic[C]):
    """The result of `listen`. It repeatedly lists the inbox from the last yielded message, and
    waits for more. If the server stops, it retries until the server is back. It neither loses a
    message nor yields one twice. `after` is the log position of the last yielded message. A second
    loop, or another `listen(after)`, continues from there."""

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
        """Return the seconds to wait before the next request. Raise the error if no request has
        succeeded yet."""
        if not self._has_answered:
            raise trouble
        pause_s = self._pause_s
        self._pause_s = min(2 * pause_s, MAX_PAUSE_S)
        return pause_s
