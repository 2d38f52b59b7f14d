"""Hooks over HTTP: the client posts its hook JSON, and gets an answer in its own format.

Like the command, a hook never breaks the client. After a refusal or bad input, the client gets an
empty answer. Only a missing or invalid token changes the status.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from functools import partial
from typing import Any

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from interlock.agents.hooks import NOTHING, HookReply, Memory, attending, client_of, session_of
from interlock.doors.http.api import CommandResponse, while_there
from interlock.errors import BadToken, NoIdentity, Refusal, TokenExpired, Usage
from interlock.log.encoding import decode
from interlock.node.live import LiveNode
from interlock.verbs.credentials import Credentials
from interlock.verbs.flows import run_async

_LOG = logging.getLogger("interlock.hooks")


def hook(
    live: LiveNode, credentials: Callable[[HTTPConnection], Credentials]
) -> Callable[[Request], Any]:
    async def attended(shown: Credentials, request: Request, client: str, event: str) -> HookReply:
        step = client_of(client).decode(event, decode(await request.body()))
        if step.kind == "edit" and not (step.cwd and os.path.isdir(step.cwd)):
            raise Usage(
                "The files of the edit are on another machine. Use the hook's command on that "
                "machine."
            )
        session = shown.session or session_of(step.session)
        flow = attending(
            client,
            event,
            step,
            memory=Memory(live.node.directory, session),
            window={"client": client},
            outlives=shown.session is not None,
        )
        # The flow reads files and repositories between its requests, so it resumes in a thread.
        call = partial(live.call, shown._replace(session=session))
        return await run_async(flow, call, asyncio.to_thread)

    async def endpoint(request: Request) -> Response:
        client, event = request.path_params["client"], request.path_params["event"]
        reply = NOTHING
        try:
            shown = credentials(request)
            await live.find_viewer(shown)
            await request.body()  # to its end: the next message is the client's disconnect
            reply = await while_there(request, attended(shown, request, client, event))
        except (NoIdentity, BadToken, TokenExpired):
            raise
        except (Refusal, ValueError, OSError) as trouble:
            _LOG.warning("%s %s: %s", client, event, trouble)
        try:
            # A client with hooks has a shell, so the remedies are commands.
            return CommandResponse(client_of(client).encode(event, reply))
        except Usage:
            return CommandResponse({})  # an unknown client

    return endpoint
