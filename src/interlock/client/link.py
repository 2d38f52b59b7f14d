"""The link of the asynchronous client: HTTP to a server's URL or socket, or a node in this process.
Its answers are the same as those of the links in `interlock.local.link`.

A cancelled call ends at once: it closes its connection, or the node in this process stops waiting.
"""

import asyncio
import ssl
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from interlock.errors import EngineUnavailable
from interlock.local.link import (
    decoded,
    encoded,
    matching_server,
    open_node,
    patience,
    seen_headers,
    seen_in,
    unknown_server_outcome,
)
from interlock.rooms.mail import uploads
from interlock.rooms.mail.message_types import is_large
from interlock.rooms.mail.verbs import SendMessage
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials
from interlock.verbs.flows import run_async
from interlock.verbs.http import SEEN_HEADER

if TYPE_CHECKING:
    import httpx2

    from interlock.node.live import LiveNode


class AsyncLink:
    """`place` is a server's URL or a workspace's directory. For a directory, the link calls the
    workspace's server if one runs, and otherwise opens the file. Connections stay open between
    calls."""

    _http: "httpx2.AsyncClient | None" = None

    def __init__(self, place: str) -> None:
        self._place = place
        self._is_remote = "://" in place
        self._open = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._node: LiveNode | None = None
        self._seen = 0
        server = None if self._is_remote else matching_server(place)
        if not self._is_remote and server is None:
            return
        import httpx2

        self._base = place.rstrip("/") if server is None else "http://localhost"
        # The environment's proxies are for the internet. A client calls its own machine, or a
        # server that the caller names.
        transport = httpx2.AsyncHTTPTransport(
            verify=ssl.create_default_context() if self._base.startswith("https:") else False,
            trust_env=False,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
            uds=server.socket if server else None,
        )
        self._http = httpx2.AsyncClient(transport=transport, trust_env=False)
        self._open.push_async_callback(self._http.aclose)

    async def call(self, credentials: Credentials, request: Any) -> Answer:
        """Call a verb and return its answer. Raise the refusals of `interlock.errors`."""
        if self._http is not None:
            if isinstance(request, SendMessage) and is_large(request.type, request.payload):
                return await run_async(
                    uploads.send(request), lambda step: self.call(credentials, step)
                )
            import httpx2

            http_request = encoded(credentials, request)
            try:
                response = await self._http.request(
                    http_request.method,
                    self._base + http_request.target,
                    headers=http_request.headers | seen_headers(self._seen),
                    content=http_request.body,
                    timeout=patience(request),
                )
                self._seen = max(self._seen, seen_in(response.headers.get(SEEN_HEADER)))
                return decoded(response.status_code, response.content)
            except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.InvalidURL) as trouble:
                why = (
                    f"Cannot connect to the server {self._place}: {trouble}. Check the URL, and "
                    "that the server runs."
                )
            except httpx2.RequestError as trouble:
                what = str(trouble) or type(trouble).__name__
                if http_request.method != "GET":
                    raise unknown_server_outcome(ConnectionResetError(what)) from None
                why = f"The server {self._place} closed the connection: {what}. Try again."
            if self._is_remote:
                raise EngineUnavailable(why)
            self._http = None
        async with self._opening:
            if self._node is None:
                from interlock.node.live import LiveNode

                node = await asyncio.to_thread(open_node, self._place)
                self._open.callback(node.close)
                self._node = await self._open.enter_async_context(LiveNode(node))
        return await self._node.call(credentials, request)

    async def close(self) -> None:
        await self._open.aclose()
