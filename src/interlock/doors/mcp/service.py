"""The MCP server: the tools over a live node, for both families of protocol revisions.

The server's middleware answers calls of tools before the SDK's own handling. Our schemas check the
arguments, and our code builds the answers; validating both once more would take longer than a
durable send. The end of the module has the JSON-RPC messages that all transports share.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.dispatcher import as_request_id
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, RequestId
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from pydantic_core import from_json

from interlock import __version__
from interlock.doors.mcp.calls import ELSEWHERE, Here, tool_flow
from interlock.doors.mcp.tools import INSTRUCTIONS, Arguments, offered_tools, without_sender
from interlock.errors import Internal, Refusal
from interlock.node.live import LiveNode
from interlock.rooms import catalogue
from interlock.rooms.envelope import answer_text, json_text
from interlock.rooms.mail.message_types import clip
from interlock.rooms.workspace.verbs import Whoami
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials
from interlock.verbs.flows import LocalRead, run_async
from interlock.verbs.verb import fields_of

Context = ServerRequestContext[Any, Any]
CredentialsOf = Callable[[Context], Credentials]
Received = JSONRPCRequest | JSONRPCNotification

LIST_TTL_MS: Final = 3_600_000
MAX_MESSAGE_BYTES: Final = 8 << 20
# Tools that wait by default, such as ask.
_WAITING: Final = frozenset(
    verb.declared.mcp.name
    for verb in catalogue.verbs()
    if verb.declared.mcp is not None
    and "wait_s" in fields_of(verb)
    and fields_of(verb)["wait_s"].default is not None
)
_LOG = logging.getLogger("interlock.mcp")


def server(live: LiveNode, credentials_of: CredentialsOf, here: Here = ELSEWHERE) -> Server[Any]:
    """A server of the tools. `credentials_of` returns the credentials of a request, and may refuse;
    `here` is the callers' repository and directory, where they are known."""
    tools = offered_tools()
    entries = [tool.listed for tool in tools.values()]
    listed = types.ListToolsResult.model_validate({"tools": entries})

    async def list_tools(ctx: Context, params: Any) -> types.ListToolsResult:
        return listed

    async def step(credentials: Credentials, wanted: Any) -> Any:
        """Do one step of a tool's flow."""
        if isinstance(wanted, LocalRead):
            return await asyncio.to_thread(wanted.read)
        return await live.call(credentials, wanted)

    async def run_tool(ctx: Context, tool: str, arguments: Arguments) -> Answer:
        """Run a tool. A request that names another sender is refused first."""
        credentials = credentials_of(ctx)
        arguments, claimed = without_sender(arguments)
        if claimed is not None:
            await live.call(credentials._replace(claimed=claimed), Whoami())
        return await run_async(tool_flow(tools[tool], arguments, here), partial(step, credentials))

    async def answer_calls(ctx: Context, call_next: CallNext) -> HandlerResult:
        if (called := tool_call(ctx.method, ctx.params)) is None:
            return await call_next(ctx)
        tool, arguments = called
        if tool not in tools:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {clip(tool)}")
        refusal: Refusal | None = None
        try:
            structured = await run_tool(ctx, tool, arguments)
            text = answer_text(structured)
        except Refusal as refused:
            refusal = refused
        except Exception as trouble:  # noqa: BLE001 - a defect is answered too, and logged
            _LOG.exception("defect", extra={"tool": tool})
            refusal = Internal(
                f"A defect in Interlock: {type(trouble).__name__}. Look whether what you asked "
                "for was done."
            )
        if refusal is not None:
            structured = refusal.as_dict()
            text = json_text(structured)
        result: dict[str, Any] = {
            "content": [{"type": "text", "text": text}],
            "structuredContent": structured,
            "isError": refusal is not None,
        }
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            result["resultType"] = "complete"
            result["_meta"] = {types.SERVER_INFO_META_KEY: app.server_info_stamp}
        return result

    app: Server[Any] = Server(
        "interlock",
        version=__version__,
        title="Interlock",
        instructions=INSTRUCTIONS,
        cache_hints={"tools/list": CacheHint(LIST_TTL_MS, "public")},
        get_tool_input_schema=lambda _: None,  # no argument of ours is repeated in a header
        on_list_tools=list_tools,
    )
    app.middleware[:] = [answer_calls]
    return app


def tool_call(method: str, params: Mapping[str, Any] | None) -> tuple[str, Arguments] | None:
    """The tool and its arguments, if this is a well-formed call of a tool; the SDK refuses the
    others."""
    if method != "tools/call" or params is None:
        return None
    tool, arguments = params.get("name"), params.get("arguments")
    if arguments is None:
        arguments = {}
    return (tool, arguments) if isinstance(tool, str) and isinstance(arguments, dict) else None


def waits(method: str, params: Mapping[str, Any] | None) -> bool:
    """Whether a request may wait for mail, an answer or a claim."""
    called = tool_call(method, params)
    return called is not None and (called[0] in _WAITING or "wait_s" in called[1])


# --- JSON-RPC messages


def parsed(data: bytes) -> Received | JSONRPCError | None:
    """A request or a notification, or the error that answers anything else. None for a response:
    the server asks clients nothing, so it ignores their responses."""
    try:
        message = from_json(data, allow_inf_nan=False)
    except ValueError as trouble:
        return error(types.PARSE_ERROR, f"Parse error: {trouble}")
    if not isinstance(message, dict):
        return error(types.INVALID_REQUEST, "A message is one JSON object; there are no batches.")
    if "method" not in message and ("result" in message or "error" in message):
        return None
    try:
        return (JSONRPCRequest if "id" in message else JSONRPCNotification).model_validate(message)
    except ValidationError:
        id = message.get("id")
        return error(types.INVALID_REQUEST, "This is not a JSON-RPC 2.0 message.", id)


def error(code: int, message: str, id: Any = None) -> JSONRPCError:
    data = types.ErrorData(code=code, message=message)
    return JSONRPCError(jsonrpc="2.0", id=as_request_id(id), error=data)


def cancelled(received: Received) -> RequestId | None:
    """The id of the request that a notification cancels."""
    if received.method != "notifications/cancelled":
        return None
    return cancelled_request_id_from_params(received.params)


def encoded(message: JSONRPCMessage) -> bytes:
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
