"""Mail as it arrives, over whatever way the client has: an inbox that is asked to wait, again and
again, from the last message that was handed over. A server that goes away is waited for; neither
its end nor a lost answer costs a message or shows one twice."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from interlock.client.answers import Message
from interlock.errors import EngineUnavailable
from interlock.rooms.mail.verbs import ListInbox
from interlock.rooms.workspace.verbs import ShowStorage

if TYPE_CHECKING:
    from interlock.client import AsyncClient, Client

C = TypeVar("C")

WAIT_S = 25
FIRST_PAUSE_S = 0.1
MAX_PAUSE_S = 5.0


class Listening(Generic[C]):
    """What `listen` gives. `after` is the position of the last message handed over; going through
    it again, or through another one from there, goes on behind it."""

    def __init__(self, client: C, after: int | None) -> None:
        self._client = client
        self.after = after
        self._answered = False
        self._pause_s = FIRST_PAUSE_S

    def __iter__(self: "Listening[Client]") -> Iterator[Message]:
        while True:
            try:
                answer = self._client.call(self._act())
            except EngineUnavailable as trouble:
                time.sleep(self._pause_after(trouble))
                continue
            for message in self._arrived(answer):
                self.after = message["seq"]
                yield message

    async def __aiter__(
        self: "Listening[Client] | Listening[AsyncClient]",
    ) -> AsyncIterator[Message]:
        async with self._client.asynchronous() as client:
            while True:
                try:
                    answer = await client.call(self._act())
                except EngineUnavailable as trouble:
                    await asyncio.sleep(self._pause_after(trouble))
                    continue
                for message in self._arrived(answer):
                    self.after = message["seq"]
                    yield message

    def _act(self) -> Any:
        if self.after is None:
            return ShowStorage()
        return ListInbox(after=self.after, adapter="python", wait_s=WAIT_S)

    def _arrived(self, answer: dict[str, Any]) -> list[Message]:
        self._answered = True
        self._pause_s = FIRST_PAUSE_S
        if self.after is None:
            self.after = answer["entries"]
            return []
        messages: list[Message] = answer["messages"]
        return messages

    def _pause_after(self, trouble: EngineUnavailable) -> float:
        """How long to wait for a server to come back. One that never answered is no such server."""
        if not self._answered:
            raise trouble
        pause_s = self._pause_s
        self._pause_s = min(2 * pause_s, MAX_PAUSE_S)
        return pause_s
