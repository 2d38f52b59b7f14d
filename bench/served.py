"""The server under measurement: the real application, with additional no-op endpoints.

Runs as a child process: `python -m bench.served DIRECTORY` prints the address once it is ready, and
ends with its standard input. `/noop` decodes and checks a send, and answers. `/noop-mcp` is one
tool that does nothing, on the same SDK.
"""

import asyncio
import sys
from contextlib import AsyncExitStack
from typing import Any

import mcp_types as types
import uvicorn
import uvloop
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

from interlock.doors.http.api import JsonResponse, decoder, from_body, request_of, routes_of
from interlock.local.link import open_node
from interlock.node.live import LiveNode
from interlock.rooms.mail.verbs import SendMessage
from interlock.server.records import Owner
from interlock.server.serving import ServerOptions, application, configuration, listening

SEND = decoder(routes_of(SendMessage)[0])


def main() -> None:
    options = ServerOptions(sys.argv[1], "127.0.0.1", 0)
    with open_node(options.directory) as node, listening(options) as listener:
        host, port = listener.getsockname()
        listener.listen()
        uvloop.run(_serve(LiveNode(node), options, f"http://{host}:{port}", listener))


async def _serve(live: LiveNode, options: ServerOptions, url: str, listener: Any) -> None:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(live)
        owner = Owner(options.directory)
        app = application(live, owner, loopback=True)
        await stack.enter_async_context(app.tools.running())
        nothing = _tool()
        await stack.enter_async_context(nothing.run())

        async def idle(scope: Scope, receive: Receive, send: Send) -> None:
            await nothing.handle_request(scope, receive, send)

        app.router.routes[:0] = [
            Route("/noop", _checked, methods=["POST"]),
            Mount("/noop-mcp", app=idle),
        ]
        server = uvicorn.Server(configuration(app.guard))
        print(url, flush=True)
        serving = asyncio.create_task(server.serve([listener]))
        await asyncio.to_thread(sys.stdin.read)
        live.feed.end_waiting()
        server.should_exit = True
        await serving


async def _checked(request: Request) -> Response:
    """Decode and check a send, without sending."""
    given = from_body(await request.body())
    request_of(SEND, {}, given)
    return JsonResponse({"accepted": True})


def _tool() -> StreamableHTTPSessionManager:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    tool = types.Tool(name="nothing", input_schema=schema, output_schema={"type": "object"})

    async def tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool])

    async def call(ctx: Any, params: Any) -> types.CallToolResult:
        return types.CallToolResult(
            content=[types.TextContent(type="text", text="done")],
            structured_content={"done": True},
        )

    app: Server[Any] = Server("nothing", on_list_tools=tools, on_call_tool=call)
    return StreamableHTTPSessionManager(app, json_response=True, stateless=True)


if __name__ == "__main__":
    main()
