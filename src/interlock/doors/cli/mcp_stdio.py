"""`interlock mcp`: MCP over stdio, for a client's configuration."""

import os
import sys
import time
from functools import partial
from typing import NoReturn

from interlock.doors.cli.context import Context, here_and_now
from interlock.doors.cli.grammar import command
from interlock.doors.cli.serving import become
from interlock.errors import Refusal, Usage
from interlock.local.link import Link, is_served
from interlock.local.windows import in_window
from interlock.local.workspace import as_configured, link
from interlock.verbs.credentials import Credentials

CHANNEL_WAIT_S = 45
CHANNEL_PAUSE_S = 5.0


@command(
    "mcp [--channel]",
    help={"channel": "tell a client that takes channels of what should wake it"},
)
def mcp(context: Context) -> int:
    """Speak MCP over standard input and output, for a client's configuration.

    Through the server where one runs. Who acts comes from INTERLOCK_TOKEN and INTERLOCK_SESSION, as
    interlock run sets them, or from --from.
    """
    from interlock.agents.bridge import Bridge, FdPair, far_end

    place = context.place
    if "://" in place:
        raise Usage(f"A client reaches that server's MCP itself, at {place.rstrip('/')}/mcp")
    if not is_served(place) and not context.get("channel"):
        _serve_alone(context)
    window = _Window(context)
    own, here = context.get("session"), here_and_now()
    news = partial(_channel, context) if context.get("channel") else None

    def find() -> FdPair:
        return far_end(place, window.found(), here, own)

    Bridge(FdPair(0, 1), find, window.is_current, news).run()
    return 0


def _who_acts(context: Context, way: Link) -> Credentials:
    said = {"named": context.get("from"), "session": context.get("session")}
    return as_configured(way, os.environ, **said)


class _Window:
    """Who acts: as was said, in the session that the client around us has at the time."""

    def __init__(self, context: Context) -> None:
        self._named, self._home = _who_acts(context, context.link), context.link.home
        self._sender = (context.get("from") or "").removeprefix("@") or None
        self._is_fixed = bool(context.get("session") or os.environ.get("INTERLOCK_SESSION"))
        self._last: Credentials | None = None

    def found(self) -> Credentials:
        self._last = self._now()
        return self._last

    def is_current(self) -> bool:
        return self._last == self._now()

    def _now(self) -> Credentials:
        if self._is_fixed:
            return self._named
        return in_window(self._home, self._named._replace(session=None), self._sender)


def _channel(context: Context) -> int:
    """A pipe out of which comes what should wake the client: it is told there and then, and does
    not say whether it listens. It ends where nobody tells any more."""
    import threading

    reader, writer = os.pipe()
    threading.Thread(target=_wake, args=(context, writer), daemon=True).start()
    return reader


def _wake(context: Context, writer: int) -> None:
    from interlock.agents.bridge import told
    from interlock.agents.hooks.telling import pointer
    from interlock.rooms.workspace.verbs import Attend

    act = Attend("idle", "channel", wait_s=CHANNEL_WAIT_S)
    try:
        way = link(context.place, os.environ)  # a way of its own: the other may be in use
        while True:
            try:
                found = way.call(_who_acts(context, way), act)
            except Refusal:
                time.sleep(CHANNEL_PAUSE_S)
                continue
            if "news" in found:
                os.write(writer, told(pointer(found["news"], found["unread"]), len(found["news"])))
    finally:
        os.close(writer)  # whoever reads sees that no more will come


def _serve_alone(context: Context) -> NoReturn:
    words = [sys.executable, "-P", "-m", "interlock.doors.mcp"]
    for name in ("workspace", "from", "session"):
        if (value := context.get(name)) is not None:
            words += [f"--{name}", value]
    become(words)
