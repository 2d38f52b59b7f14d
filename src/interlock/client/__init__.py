"""The Python client: the verbs of Interlock as methods, over a directory or a URL.

    with interlock.connect(token=token) as client:
        client.send("@vera", "The build is green.")

    async with interlock.connect("http://127.0.0.1:7420", token=token) as client:
        async for message in client.listen():
            ...

Answers are the dictionaries of `interlock.client.answers`, refusals the exceptions of
`interlock.errors`. A plain "no" (a held claim, no answer in time) is an answer.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Self, TypeVar, cast

from interlock.client.asking import Asked
from interlock.client.claims import Claims
from interlock.client.mail import Mail
from interlock.client.methods import Methods
from interlock.client.tokens import Tokens
from interlock.client.ways import LocalWay, RemoteWay, Way
from interlock.client.who import Who
from interlock.local import workspace
from interlock.local.repository import located, needs_location
from interlock.rooms.workspace.verbs import ShowLog, pages
from interlock.verbs.answers import Answer
from interlock.verbs.flows import run, run_async
from interlock.verbs.verb import Verb

__all__ = ["AsyncClient", "Client", "connect"]

R = TypeVar("R")


def connect(
    place: "str | os.PathLike[str] | None" = None,
    token: str | None = None,
    session: str | None = None,
) -> "Client":
    """A client of the workspace at a directory or at a server's URL; without one, of the workspace
    that the command would find. Nothing is opened before the first call.

    Whoever acts is the token's sender; without a token, whom the command would act as:
    INTERLOCK_TOKEN, else the only credential kept there. For the asynchronous client, enter it
    with `async with`."""
    named = os.fspath(place) if place is not None else None
    try:
        here = os.getcwd()
    except OSError:
        here = os.sep  # it was removed, so nothing is near
    return Client(workspace.find(named, os.environ, here), token, session)


class Client(Mail, Claims, Tokens, Methods):
    """The verbs as methods that give their answer. Several threads may use one client; `with`
    closes it, and `async with` gives its asynchronous twin."""

    def __init__(self, place: str, token: str | None = None, session: str | None = None) -> None:
        self.place = place
        self._who = Who(place, token, session)
        self._link = workspace.link(place, os.environ)
        self._twin: AbstractAsyncContextManager[AsyncClient] | None = None
        self._opening = threading.Lock()
        self._is_open = False

    def call(self, request: Verb) -> Answer:
        """Make any request, as it is."""
        with self._opening:
            credentials = self._who.credentials(request)
            if not self._is_open:
                self._link.open()
                self._is_open = True
        return self._link.call(credentials, request)

    def do(self, asked: Asked[R]) -> R:
        if isinstance(asked.request, ShowLog):
            return cast(R, run(pages(asked.request), self.call))
        return cast(R, self.call(located(asked.request)))

    def close(self) -> None:
        self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @asynccontextmanager
    async def asynchronous(self) -> "AsyncIterator[AsyncClient]":
        """The same client, asynchronous, for the length of a block."""
        remote = "://" in self.place
        way: Way = RemoteWay(self.place) if remote else LocalWay(self.place)
        try:
            yield AsyncClient(way, self._who)
        finally:
            await way.close()

    async def __aenter__(self) -> "AsyncClient":
        if self._twin is not None:
            raise RuntimeError("This client was entered already: connect another one.")
        self._twin = self.asynchronous()
        return await self._twin.__aenter__()

    async def __aexit__(self, *trouble: Any) -> None:
        twin, self._twin = self._twin, None
        assert twin is not None
        await twin.__aexit__(*trouble)


class AsyncClient(Mail, Claims, Tokens, Methods):
    """The verbs as coroutines. A call that is cancelled lets go of its connection at once; what it
    asked for may have been done."""

    def __init__(self, way: Way, who: Who) -> None:
        self._way, self._who = way, who

    async def call(self, request: Verb) -> Answer:
        """Make any request, as it is."""
        credentials = self._who.known(request)
        if credentials is None:
            credentials = await asyncio.to_thread(self._who.credentials, request)
        return await self._way.call(credentials, request)

    async def do(self, asked: Asked[R]) -> R:
        request = asked.request
        if isinstance(request, ShowLog):
            return cast(R, await run_async(pages(request), self.call))
        if needs_location(request):
            request = await asyncio.to_thread(located, request)
        return cast(R, await self.call(request))

    @asynccontextmanager
    async def asynchronous(self) -> AsyncIterator[Self]:
        yield self
