"""`python -m interlock.doors.mcp`: MCP over stdio by itself, where no server runs to lead to.

Who acts is said once, by the environment and the flags. A session that the environment names is
somebody else's; one named by --session is this process's own: its claims are kept renewed, and
given up at the end.
"""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import closing

from interlock.doors.mcp.plans import Here
from interlock.doors.mcp.service import server
from interlock.doors.mcp.sessions import kept, window_kept
from interlock.doors.mcp.stdio import standard_streams
from interlock.doors.mcp.streams import converse
from interlock.errors import Refusal, Usage
from interlock.local import workspace
from interlock.local.link import open_node
from interlock.local.repository import name_and_paths, name_here
from interlock.local.windows import in_window, surrounding
from interlock.node.live import LiveNode
from interlock.rooms.workspace.verbs import Whoami
from interlock.verbs.credentials import Credentials

TERMINATED = 143
INTERRUPTED = 130


def main() -> int:
    parser = argparse.ArgumentParser(
        "python -m interlock.doors.mcp", description="MCP over stdio.", allow_abbrev=False
    )
    parser.add_argument("--workspace", help="its directory")
    parser.add_argument("--from", metavar="SENDER", help="who acts, of those that joined here")
    parser.add_argument("--session", help="a session of this process's own")
    parser.add_argument("--repo", help="which repository paths are in; default: the one here")
    given = vars(parser.parse_args())
    try:
        place = _place(given["workspace"])
        credentials = _who_acts(place, given["from"], given["session"])
        here = _here(given["repo"])
        asyncio.run(_serve(place, credentials, given["session"], here, given["from"]))
    except Refusal as refusal:
        sys.stderr.write(f"interlock mcp: {refusal.message}\n")
        return refusal.exit
    except asyncio.CancelledError:
        return TERMINATED
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _who_acts(place: str, named: str | None, session: str | None) -> Credentials:
    link = workspace.link(place, os.environ)
    if not link.is_local:
        raise Usage(f"{place} serves MCP itself: give your client {place}/mcp")
    with closing(link):
        return workspace.as_configured(link, os.environ, named=named, session=session)


async def _serve(
    place: str, credentials: Credentials, session: str | None, here: Here, named: str | None
) -> None:
    _end_on_sigterm()
    with open_node(place) as node:
        async with LiveNode(node) as live:
            await live.call(credentials, Whoami())
            whoever = _whoever(place, credentials, named)
            async with kept(live, credentials, session), window_kept(live, whoever):
                app = server(live, whoever, here)
                await converse(app, *standard_streams())


def _whoever(
    place: str, credentials: Credentials, named: str | None
) -> Callable[[object], Credentials]:
    """Who asks: as was said at the start, in the session that the client around us has by now."""
    window = surrounding(place)
    if credentials.session is not None and (
        window is None or window.session != credentials.session
    ):
        return lambda _: credentials
    sender = named.removeprefix("@") if named is not None else None
    return lambda _: in_window(place, credentials._replace(session=None), sender)


def _end_on_sigterm() -> None:
    this = asyncio.current_task()
    assert this is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)


def _place(named: str | None) -> str:
    try:
        here = os.getcwd()
    except OSError:
        here = os.sep
    return workspace.find(named, os.environ, here)


def _here(named: str | None) -> Here:
    repo = name_and_paths(named, [])[0] if named is not None else name_here()
    try:
        return Here(repo, os.getcwd())
    except OSError:
        return Here(repo)


if __name__ == "__main__":
    sys.exit(main())
