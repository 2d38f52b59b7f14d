"""`interlock mcp`: MCP over stdio, for a client's configuration."""

import os
import sys
import time

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
    help={"channel": "send wake-ups too, to a client that supports channels (Claude Code)"},
)
def mcp(context: Context) -> int:
    """Serve MCP over standard input and output, for a client's configuration.

    If a server runs for the workspace, the command uses it. The identity comes from
    INTERLOCK_TOKEN and INTERLOCK_SESSION, which interlock run sets, or from --from.
    """
    from interlock.agents.bridge import Bridge, FdPair, far_end

    place = context.place
    if "://" in place:
        raise Usage(
            "interlock mcp serves a local workspace. For this server, give the client the URL "
            f"{place.rstrip('/')}/mcp"
        )
    if not is_served(place) and not context.get("channel"):
        words = [sys.executable, "-P", "-m", "interlock.doors.mcp"]
        for name in ("workspace", "from", "session"):
            if (value := context.get(name)) is not None:
                words += [f"--{name}", value]
        become(words)
    home, configured = context.link.home, _configured(context, context.link)
    sender = (context.get("from") or "").removeprefix("@") or None
    is_fixed = bool(context.get("session") or os.environ.get("INTERLOCK_SESSION"))
    own, here = context.get("session"), here_and_now()
    last: Credentials | None = None

    def current() -> Credentials:
        """Return the credentials, in the session that the surrounding client has now."""
        if is_fixed:
            return configured
        return in_window(home, configured._replace(session=None), sender)

    def find() -> FdPair:
        nonlocal last
        last = current()
        return far_end(place, last, here, own)

    def channel() -> int:
        """Return a pipe with the wake-ups for the client. A client does not tell whether it reads
        them."""
        import threading

        reader, writer = os.pipe()
        threading.Thread(target=wake, args=(context, writer), daemon=True).start()
        return reader

    news = channel if context.get("channel") else None
    Bridge(FdPair(0, 1), find, lambda: last == current(), news).run()
    return 0


def _configured(context: Context, way: Link) -> Credentials:
    named, session = context.get("from"), context.get("session")
    return as_configured(way, os.environ, named=named, session=session)


def wake(context: Context, writer: int) -> None:
    """Write the wake-ups for the client into a pipe, until the pipe is closed."""
    from interlock.agents.bridge import channel_notification
    from interlock.agents.hooks import pointer
    from interlock.rooms.workspace.verbs import Attend

    request = Attend("idle", "channel", wait_s=CHANNEL_WAIT_S)
    try:
        way = link(context.place, os.environ)  # another thread may use the context's link
        while True:
            try:
                found = way.call(_configured(context, way), request)
            except Refusal:
                time.sleep(CHANNEL_PAUSE_S)
                continue
            if "news" in found:
                os.write(
                    writer,
                    channel_notification(
                        pointer(found["news"], found["unread"]), len(found["news"])
                    ),
                )
    finally:
        os.close(writer)  # so that the reader notices the end
