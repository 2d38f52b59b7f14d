"""Combine the doors into one application, and serve it until a signal ends the server."""

import asyncio
import errno
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from typing import NamedTuple

import uvicorn
from starlette.requests import HTTPConnection
from starlette.routing import Route, Router

from interlock import __version__
from interlock.doors import oauth, web
from interlock.doors.http import Guard, api
from interlock.doors.http.api import ApiContext
from interlock.doors.http.metrics import Metrics
from interlock.errors import AddressUnavailable
from interlock.local.link import About
from interlock.machine.hosts import is_loopback
from interlock.node import Node
from interlock.node.live import LiveNode
from interlock.server.connections import ConnectionLimit, HttpConnection
from interlock.server.mcp import Tools, loaded, local_socket, mcp_socket
from interlock.server.records import Owner, publish, socket_path, withdraw
from interlock.server.waking import Waker

_LOG = logging.getLogger("interlock.server")
BACKLOG = 2048
FAREWELL_S = 5


class ServerOptions(NamedTuple):
    """The workspace and the address to serve. `outside` is the public URL of a proxy in front of
    the server. `proxies` are the proxy's source addresses, if it is on another machine."""

    directory: str
    host: str
    port: int
    outside: str | None = None
    proxies: tuple[str, ...] = ()


def listening(options: ServerOptions) -> socket.socket:
    """Return a socket that is bound to the server's address. Raise AddressUnavailable."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((options.host, options.port))
    except (OSError, UnicodeError) as trouble:
        listener.close()
        why = trouble.strerror if isinstance(trouble, OSError) else "this is not a host name"
        advice = "Set --host to an address of this machine: 127.0.0.1, or 0.0.0.0 for all of them."
        if isinstance(trouble, OSError) and trouble.errno in (errno.EADDRINUSE, errno.EACCES):
            advice = "Choose another port with --port. --port 0 chooses a free one."
        raise AddressUnavailable(
            f"The server cannot listen on {options.host[:80]}:{options.port}: {why}. {advice}"
        ) from None
    return listener


class Server(uvicorn.Server):
    """Serves HTTP at an address and at the workspace's own socket."""

    def __init__(self, config: uvicorn.Config, live: LiveNode, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._live = live
        self._started = started

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End the server on a signal, and faster on a second Ctrl-C. Neither ends the process
        before the clean-up. Ignore the signals that the parent process ignores (nohup)."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self.handle_exit, number, None)
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._live.feed.end_waiting()
        await super().shutdown(sockets)


async def serve(
    node: Node, options: ServerOptions, listener: socket.socket, ready: Callable[[About], None]
) -> None:
    """Serve until a signal arrives. Then answer the requests that have arrived, and end."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - for links
    shown = f"[{host}]" if ":" in host else host
    about = About(
        os.getpid(),
        options.outside or f"http://{shown}:{port}",
        socket_path(options.directory, "server.sock"),
        socket_path(options.directory, "mcp.sock"),
        __version__,
        options.host,
        port,
        list(options.proxies),
    )
    async with AsyncExitStack() as stack:
        owner = Owner(options.directory)
        live = await stack.enter_async_context(LiveNode(node))
        app = application(
            live,
            owner,
            loopback=is_loopback(options.host),
            outside=options.outside,
            proxies=options.proxies,
        )
        await stack.enter_async_context(app.tools.running())
        stack.callback(withdraw, options.directory, about)
        await stack.enter_async_context(mcp_socket(live, about.mcp))
        await stack.enter_async_context(Waker(live).running())

        def started() -> None:
            publish(options.directory, about)
            _LOG.info("ready", extra={"url": about.url, "directory": options.directory})
            ready(about)

        server = Server(configuration(app.guard), live, started)
        await server.serve([listener, local_socket(about.socket)])
        _LOG.info("ended")


class Application(NamedTuple):
    """The HTTP application behind its guard. `tools` must run while it is served."""

    guard: Guard
    router: Router
    tools: Tools


def application(
    live: LiveNode,
    owner: Owner,
    *,
    loopback: bool,
    outside: str | None = None,
    proxies: tuple[str, ...] = (),
) -> Application:
    metrics = Metrics()
    context = ApiContext(live, metrics, owner.token, open_metrics=loopback)
    tools = Tools(live, lambda scope: context.credentials(HTTPConnection(scope)))
    pages = web.routes(live, owner=owner.is_shown, key=owner.key)
    routes = [
        *api(context),
        Route("/mcp", tools),
        Route("/mcp/", tools),
        *oauth.routes(live, loaded, web.notices(live)),
        *pages,
    ]
    router = Router(routes, redirect_slashes=False)
    guard = Guard(
        router,
        metrics,
        loopback=loopback,
        outside=outside,
        proxies=proxies,
        report=live.report,
    )
    return Application(guard, router, tools)


def configuration(app: Guard) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=partial(HttpConnection, limit=ConnectionLimit()),  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=FAREWELL_S,
    )
