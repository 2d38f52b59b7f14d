"""`python -m interlock.doors.mcp`: MCP over stdio with a node of its own, if no server runs.

The environment and the flags set the identity once, at the start. A session from the environment
belongs to another process. A session from --session belongs to this process: the process renews
its claims, and releases them at the end.
"""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import closing

from interlock.doors.mcp.service import Here, server
from interlock.doors.mcp.streams import converse, kept, standard_streams, window_kept
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
    parser.add_argument("--workspace", help="the workspace's directory")
    parser.add_argument("--from", metavar="SENDER", help="a sender with a stored credential")
    parser.add_argument("--session", help="a session that this process starts and ends")
    parser.add_argument("--repo", help="the repository of paths (default: the current one)")
    given = vars(parser.parse_args())
    try:
        asyncio.run(_serve(given["workspace"], given["from"], given["session"], given["repo"]))
    except Refusal as refusal:
        sys.stderr.write(f"interlock mcp: {refusal.message}\n")
        return refusal.exit
    except asyncio.CancelledError:
        return TERMINATED
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


async def _serve(
    named_place: str | None, named: str | None, session: str | None, named_repo: str | None
) -> None:
    try:
        directory = os.getcwd()
    except OSError:
        directory = None
    place = workspace.find(named_place, os.environ, directory or os.sep)
    link = workspace.link(place, os.environ)
    if not link.is_local:
        raise Usage(f"{place} is a server that offers MCP itself. Give your client {place}/mcp")
    with closing(link):
        credentials = workspace.as_configured(link, os.environ, named=named, session=session)
    repo = name_and_paths(named_repo, [])[0] if named_repo is not None else name_here()
    here = Here(repo, directory)
    credentials_of = _credentials_of(place, credentials, named)

    this = asyncio.current_task()
    assert this is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    with open_node(place) as node:
        async with LiveNode(node) as live:
            await live.call(credentials, Whoami())
            async with kept(live, credentials, session), window_kept(live, credentials_of):
                await converse(server(live, credentials_of, here), *standard_streams())


def _credentials_of(
    place: str, credentials: Credentials, named: str | None
) -> Callable[[object], Credentials]:
    """Return the function that gives each request its credentials: those of the start, with the
    current session of the client that started this process."""
    window = surrounding(place)
    if credentials.session is not None and (
        window is None or window.session != credentials.session
    ):
        return lambda _: credentials
    sender = named.removeprefix("@") if named is not None else None
    return lambda _: in_window(place, credentials._replace(session=None), sender)


if __name__ == "__main__":
    sys.exit(main())
