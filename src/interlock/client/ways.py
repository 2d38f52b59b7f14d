"""The ways of the asynchronous client: HTTP to a server, over its address or its socket, and the
workspace's node in this process. They answer as `interlock.local.link` does.

Whoever stops waiting lets go at once: a cancelled call closes its connection, and a node that
waited in this process stops.
"""

import asyncio
import ssl
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Protocol

from interlock import __version__
from interlock.errors import EngineUnavailable
from interlock.local.link import (
    NobodyThere,
    decoded,
    encoded,
    lost,
    open_node,
    patience,
    seen_headers,
    seen_in,
    server_of,
)
from interlock.rooms.mail import uploads
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials
from interlock.verbs.flows import run_async
from interlock.verbs.http import SEEN_HEADER, Request

if TYPE_CHECKING:
    from interlock.node.live import LiveNode


class Way(Protocol):
    async def call(self, credentials: Credentials, act: Any) -> Answer:
        """Does what is asked; raises the refusals of `errors`."""

    async def close(self) -> None: ...


class Connections:
    """Connections to one server, kept open between calls. Proxies of the environment are for the
    world outside, and agents talk to their own machine or to one that they name."""

    def __init__(self, base: str, socket: str | None = None) -> None:
        import httpx2

        self._base = base
        self._seen = 0
        verify = ssl.create_default_context() if base.startswith("https:") else False
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
        transport = httpx2.AsyncHTTPTransport(
            verify=verify, trust_env=False, limits=limits, uds=socket
        )
        self._http: httpx2.AsyncClient = httpx2.AsyncClient(transport=transport, trust_env=False)

    async def exchange(self, request: Request, patience_s: float) -> tuple[int, bytes]:
        """One request. `NobodyThere` where nothing was asked, `OSError` where nobody knows."""
        import httpx2

        try:
            response = await self._http.request(
                request.method,
                self._base + request.target,
                headers=request.headers | seen_headers(self._seen),
                content=request.body,
                timeout=patience_s,
            )
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.InvalidURL) as trouble:
            raise NobodyThere(str(trouble)) from None
        except httpx2.RequestError as trouble:
            raise ConnectionResetError(str(trouble) or type(trouble).__name__) from None
        self._seen = max(self._seen, seen_in(response.headers.get(SEEN_HEADER)))
        return response.status_code, response.content

    async def close(self) -> None:
        await self._http.aclose()


class RemoteWay:
    """A server somewhere else, by its URL."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._server = Connections(url.rstrip("/"))

    async def call(self, credentials: Credentials, act: Any) -> Answer:
        if uploads.is_large(act):
            return await _in_steps(self, credentials, act)
        request = encoded(credentials, act)
        try:
            return decoded(*await self._server.exchange(request, patience(act)))
        except NobodyThere as trouble:
            raise EngineUnavailable(f"{self._url} cannot be reached: {trouble}.") from None
        except OSError as trouble:
            if request.method != "GET":
                raise lost(trouble) from None
            raise EngineUnavailable(f"{self._url} went away: {trouble}.") from None

    async def close(self) -> None:
        await self._server.close()


class LocalWay:
    """A workspace on this machine: through its server's socket, or the file where none runs."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._open = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._live: LiveNode | None = None
        self._server: Connections | None = None
        about = server_of(directory)
        if about is not None and about.version == __version__:
            self._server = Connections("http://localhost", about.socket)
            self._open.push_async_callback(self._server.close)

    async def call(self, credentials: Credentials, act: Any) -> Answer:
        if self._server is not None:
            if uploads.is_large(act):
                return await _in_steps(self, credentials, act)
            request = encoded(credentials, act)
            try:
                return decoded(*await self._server.exchange(request, patience(act)))
            except NobodyThere:
                self._server = None
            except OSError as trouble:
                if request.method != "GET":
                    raise lost(trouble) from None
                self._server = None
        return await (await self._opened()).call(credentials, act)

    async def _opened(self) -> "LiveNode":
        from interlock.node.live import LiveNode

        async with self._opening:
            if self._live is None:
                node = await asyncio.to_thread(open_node, self._directory)
                self._open.callback(node.close)
                self._live = await self._open.enter_async_context(LiveNode(node))
            return self._live

    async def close(self) -> None:
        await self._open.aclose()


async def _in_steps(way: Way, credentials: Credentials, act: Any) -> Answer:
    return await run_async(uploads.send(act), lambda step: way.call(credentials, step))
