"""The Python client: the verbs of Interlock as methods, for a workspace's directory or URL.

    with interlock.connect(token=token) as client:
        client.send("@vera", "The build is green.")

    async with interlock.connect("http://127.0.0.1:7420", token=token) as client:
        async for message in client.listen():
            ...

Methods return the dictionaries of `interlock.client.answers`, and raise the refusals of
`interlock.errors`. A plain "no" (a held claim, no answer in time) is an answer.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from typing import Any, Self, TypeVar, cast

from interlock.client.asking import Asked
from interlock.client.handwritten import HandWritten
from interlock.client.link import AsyncLink
from interlock.client.methods import Methods
from interlock.local import workspace
from interlock.local.repository import located, needs_location
from interlock.rooms.workspace.verbs import ShowLog, pages
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials
from interlock.verbs.flows import run, run_async
from interlock.verbs.verb import Verb

__all__ = ["AsyncClient", "Client", "connect"]

R = TypeVar("R")


def connect(
    place: "str | os.PathLike[str] | None" = None,
    token: str | None = None,
    session: str | None = None,
) -> "Client":
    """Return a client for the workspace at a directory or a server's URL. Without `place`, the
    client uses the workspace that the command line would find. The first call opens the workspace.

    The token decides the sender. Without a token, the client uses the identity that the command
    line would use, such as INTERLOCK_TOKEN or the only credential in the workspace. `async with` on
    the client gives the asynchronous client."""
    named = os.fspath(place) if place is not None else None
    try:
        here = os.getcwd()
    except OSError:
        here = os.sep  # the current directory was removed
    return Client(workspace.find(named, os.environ, here), token, session)


class _Credentials:
    """The credentials of a client: the given token, else the credentials that the command line
    would use. The first request that needs credentials finds them."""

    def __init__(self, place: str, token: str | None, session: str | None) -> None:
        self._place, self._token, self._session = place, token, session
        self._found: dict[bool, Credentials] = {}

    def known(self, request: Verb) -> Credentials | None:
        if request.declared.anyone:
            return Credentials()
        return self._found.get(not request.needs_sender())

    def find(self, request: Verb) -> Credentials:
        """Return the credentials for a request. The first call may open the workspace."""
        if (known := self.known(request)) is not None:
            return known
        owner_may = not request.needs_sender()
        if self._token is not None:
            # A session belongs to the sender of the token in the environment.
            is_same = self._token == os.environ.get("INTERLOCK_TOKEN")
            running = os.environ.get("INTERLOCK_SESSION") if is_same else None
            found = Credentials(token=self._token, session=self._session or running or None)
        else:
            with closing(workspace.link(self._place, os.environ)) as link:
                found = workspace.who_acts(
                    link, os.environ, named=None, session=self._session, owner_may=owner_may
                )
        self._found[owner_may] = found
        return found


class Client(HandWritten, Methods):
    """The verbs as methods that return their answer. Several threads can share one client. `with`
    closes the client, and `async with` gives an asynchronous client."""

    def __init__(self, place: str, token: str | None = None, session: str | None = None) -> None:
        self.place = place
        self._credentials = _Credentials(place, token, session)
        self._link = workspace.link(place, os.environ)
        self._twin: AbstractAsyncContextManager[AsyncClient] | None = None
        self._opening = threading.Lock()
        self._is_open = False

    def call(self, request: Verb) -> Answer:
        """Call a verb with this request, unchanged."""
        with self._opening:
            credentials = self._credentials.find(request)
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
        """Give an asynchronous client with the same credentials for the block."""
        link = AsyncLink(self.place)
        try:
            yield AsyncClient(link, self._credentials)
        finally:
            await link.close()

    async def __aenter__(self) -> "AsyncClient":
        if self._twin is not None:
            raise RuntimeError(
                "This client is already open in an `async with` block. Call connect() again."
            )
        self._twin = self.asynchronous()
        return await self._twin.__aenter__()

    async def __aexit__(self, *trouble: Any) -> None:
        twin, self._twin = self._twin, None
        assert twin is not None
        await twin.__aexit__(*trouble)


class AsyncClient(HandWritten, Methods):
    """The verbs as coroutines. A cancelled call closes its connection at once. The server may still
    have executed the request."""

    def __init__(self, link: AsyncLink, credentials: _Credentials) -> None:
        self._link, self._credentials = link, credentials

    async def call(self, request: Verb) -> Answer:
        """Call a verb with this request, unchanged."""
        credentials = self._credentials.known(request)
        if credentials is None:
            credentials = await asyncio.to_thread(self._credentials.find, request)
        return await self._link.call(credentials, request)

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
