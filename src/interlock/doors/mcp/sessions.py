"""A session that a client's configuration names: its claims are kept while the client is here."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

from interlock.doors.mcp.calls import flow_of
from interlock.doors.mcp.plans import ELSEWHERE
from interlock.errors import Refusal
from interlock.node.live import LiveNode
from interlock.rooms.identity.verbs import KeepSession, StartSession
from interlock.verbs.credentials import Credentials
from interlock.verbs.flows import run_async

KEEP_INTERVAL_S = 0.4
KEEP_WINDOW_INTERVAL_S = 30.0


@asynccontextmanager
async def kept(
    live: LiveNode,
    credentials: Credentials,
    own: str | None,
    gives_up: Callable[[], bool] = lambda: True,
) -> AsyncIterator[None]:
    """Keeps the claims of a session of the client's own renewed, and gives them up at the end,
    unless `gives_up` then says that it is not the client who went away. The session is not ended,
    since the configuration names the same one again at the client's next start."""
    if own is None:
        yield
        return
    await live.call(credentials, StartSession(own))
    keeper = asyncio.create_task(_keep(live, credentials, own))
    try:
        yield
    finally:
        keeper.cancel()
        if gives_up():
            with suppress(Refusal):
                release = flow_of("release", {"all": True}, ELSEWHERE)
                await run_async(release, partial(live.call, credentials))


@asynccontextmanager
async def window_kept(
    live: LiveNode, whoever: Callable[[object], Credentials]
) -> AsyncIterator[None]:
    """Keeps what the window around us holds, in whichever session it is: an idle client has no
    hooks that would, and here is no server that does."""

    async def keep() -> None:
        while True:
            await asyncio.sleep(KEEP_WINDOW_INTERVAL_S)
            credentials = whoever(None)
            if credentials.session is not None:
                with suppress(Refusal):
                    await live.call(credentials, KeepSession(credentials.session))

    keeper = asyncio.create_task(keep())
    try:
        yield
    finally:
        keeper.cancel()


async def _keep(live: LiveNode, credentials: Credentials, session: str) -> None:
    while True:
        await asyncio.sleep(KEEP_INTERVAL_S)
        with suppress(Refusal):
            await live.call(credentials, KeepSession(session))
