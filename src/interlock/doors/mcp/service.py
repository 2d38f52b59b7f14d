"""The MCP server: twelve tools over a live node, for both families of protocol revisions.

Calls of tools are answered before the SDK's own handling, as its middleware may. What comes is
checked by our schemas and what goes was built by hand; validating both once more would cost more
time than a durable send takes.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from interlock import __version__
from interlock.doors.mcp.arguments import Arguments, without_sender
from interlock.doors.mcp.calls import flow_of
from interlock.doors.mcp.plans import ELSEWHERE, Here
from interlock.doors.mcp.tools import INPUT, INSTRUCTIONS, TOOLS
from interlock.errors import Internal, Refusal
from interlock.node.live import LiveNode
from interlock.rooms.envelope import said, spoken
from interlock.rooms.mail.message_types import clip
from interlock.rooms.workspace.verbs import Whoami
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials
from interlock.verbs.flows import LocalRead, run_async

Context = ServerRequestContext[Any, Any]
Identify = Callable[[Context], Credentials]
Call = Callable[[Any], Awaitable[Answer]]

LIST_TTL_MS: Final = 3_600_000
_LOG = logging.getLogger("interlock.mcp")


def server(live: LiveNode, identify: Identify, here: Here = ELSEWHERE) -> Server[Any]:
    """A server of the tools. `identify` says whose request it is, and may refuse; `here` is where
    callers stand, as far as that is known."""
    listed = types.ListToolsResult.model_validate({"tools": TOOLS})

    async def list_tools(ctx: Context, params: Any) -> types.ListToolsResult:
        return listed

    app: Server[Any] = Server(
        "interlock",
        version=__version__,
        title="Interlock",
        instructions=INSTRUCTIONS,
        cache_hints={"tools/list": CacheHint(LIST_TTL_MS, "public")},
        get_tool_input_schema=lambda _: None,  # no argument of ours is repeated in a header
        on_list_tools=list_tools,
    )
    app.middleware[:] = [_Calls(live, identify, here, app)]
    return app


def tool_call(method: str, params: Mapping[str, Any] | None) -> tuple[str, Arguments] | None:
    """The tool and its arguments, if this is a call of one; the SDK refuses what is malformed."""
    if method != "tools/call" or params is None:
        return None
    tool, arguments = params.get("name"), params.get("arguments")
    if arguments is None:
        arguments = {}
    return (tool, arguments) if isinstance(tool, str) and isinstance(arguments, dict) else None


def waits(method: str, params: Mapping[str, Any] | None) -> bool:
    """Whether this may take longer than a moment."""
    called = tool_call(method, params)
    return called is not None and (called[0] == "ask" or "wait_s" in called[1])


class _Calls:
    """Answers calls of tools, and leaves all else to the SDK."""

    def __init__(self, live: LiveNode, identify: Identify, here: Here, app: Server[Any]) -> None:
        self._live, self._identify, self._here, self._app = live, identify, here, app

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        if (called := tool_call(ctx.method, ctx.params)) is None:
            return await call_next(ctx)
        tool, arguments = called
        if tool not in INPUT:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {clip(tool)}")
        result = await self._answered(ctx, tool, arguments)
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            result["resultType"] = "complete"
            result["_meta"] = {types.SERVER_INFO_META_KEY: self._app.server_info_stamp}
        return result

    async def _answered(self, ctx: Context, tool: str, arguments: Arguments) -> Answer:
        try:
            answer = await self._done(self._identify(ctx), tool, arguments)
            return _result(answer, spoken(answer), error=False)
        except Refusal as refusal:
            return _refused(refusal)
        except Exception as trouble:  # noqa: BLE001 - a defect is answered too, and logged
            _LOG.exception("defect", extra={"tool": tool})
            return _refused(
                Internal(
                    f"A defect in Interlock: {type(trouble).__name__}. Look whether what you asked "
                    "for was done."
                )
            )

    async def _done(self, credentials: Credentials, tool: str, arguments: Arguments) -> Answer:
        """Run a tool. A request that names another sender is refused first."""
        arguments, claimed = without_sender(arguments)
        if claimed is not None:
            await self._live.call(credentials._replace(claimed=claimed), Whoami())
        flow = flow_of(tool, arguments, self._here)
        return await run_async(flow, partial(step, partial(self._live.call, credentials)))


async def step(call: Call, wanted: Any) -> Any:
    """Do one step of a tool's flow."""
    if isinstance(wanted, LocalRead):
        return await asyncio.to_thread(wanted.read)
    return await call(wanted)


def _refused(refusal: Refusal) -> Answer:
    error = refusal.as_dict()
    return _result(error, said(error), error=True)


def _result(structured: Answer, text: str, *, error: bool) -> Answer:
    content = [{"type": "text", "text": text}]
    return {"content": content, "structuredContent": structured, "isError": error}
