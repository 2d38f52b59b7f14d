"""The routes of the API: every verb with a route, live events, health and metrics."""

import asyncio
from collections.abc import AsyncIterator

import orjson
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from interlock.doors.http.api import (
    ApiContext,
    Endpoint,
    JsonResponse,
    by_method,
    decoder,
    endpoint_of,
    in_json,
    position,
    refused,
    routes_of,
)
from interlock.doors.http.hooks import hook
from interlock.doors.http.openapi import document
from interlock.errors import NotAllowed, Refusal
from interlock.rooms import catalogue
from interlock.verbs.credentials import Credentials

HEARTBEAT_S = 15.0
EVENT_STREAM = "text/event-stream"


def api(context: ApiContext) -> list[BaseRoute]:
    # Each path has one route, so that the refusal of a method names all methods of the path. Paths
    # without a field come first, because paths with one would match them too.
    by_path: dict[str, dict[str, Endpoint]] = {}
    declared = [route for verb in catalogue.verbs() for route in routes_of(verb)]
    for found in sorted(declared, key=lambda route: "{" in route.path):
        endpoint = endpoint_of(context, decoder(found))
        by_path.setdefault(found.path, {})[found.method] = endpoint
    routes: list[BaseRoute] = [
        Route(path, by_method(endpoints), methods=list(endpoints))
        for path, endpoints in by_path.items()
    ]
    described = document()

    async def openapi(request: Request) -> Response:
        return JsonResponse(described)

    async def health(request: Request) -> Response:
        return JsonResponse({"ok": True})

    async def ready(request: Request) -> Response:
        """Answer 200 if the server can read the log and can follow a shared engine."""
        entries = await context.live.entries()
        shared = context.live.node.shared
        if shared is not None and shared.trouble is not None:
            return refused(shared.trouble, 503)
        return JsonResponse({"ready": True, "entries": entries})

    async def metrics(request: Request) -> Response:
        if not context.open_metrics or request.scope.get("interlock.outside"):
            await context.live.find_viewer(context.credentials(request))
        shared = context.live.node.shared
        standing = await asyncio.to_thread(shared.standing, context.live.node) if shared else {}
        return PlainTextResponse(
            context.metrics.text(await context.live.entries(), standing, context.live.intrusions)
        )

    routes += [
        Route("/v1/events", _events(context)),
        Route("/hooks/{client}/{event}", hook(context.live, context.credentials), methods=["POST"]),
        Route("/openapi.json", openapi),
        Route("/healthz", health),
        Route("/readyz", ready),
        Route("/metrics", metrics),
    ]
    return routes


def _events(context: ApiContext) -> Endpoint:
    """Stream live events. A client resumes after the last event that it received."""
    live = context.live

    async def chunks(shown: Credentials, after: int | None, head: int) -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        if after is not None and after > head:
            # A restore replaced the log with an earlier one, which does not have this position.
            yield b"event: reset\ndata: " + orjson.dumps({"reached": head}) + b"\n\n"
        start = head if after is None else min(after, head)
        try:
            async for events in live.events(shown, start, HEARTBEAT_S):
                encoded = [
                    b"id: %d\nevent: %s\ndata: %s\n\n"
                    % (event.seq, event.kind.encode(), event.json)
                    for event in events
                ]
                yield b"".join(encoded) or b": still here\n\n"
        except NotAllowed as refusal:
            yield b"event: refused\ndata: " + in_json(refusal.as_dict()) + b"\n\n"
        except Refusal:
            return  # the log is not available, and the client reconnects

    async def endpoint(request: Request) -> Response:
        shown = context.credentials(request)
        # A browser that reconnects sends the header.
        given = request.headers.get("last-event-id") or request.query_params.get("after")
        after = position(
            given,
            f"{(given or '')[:80]!r} is not a position in the log. Give the id of an event in "
            "Last-Event-ID or after.",
        )
        viewer = await live.find_viewer(shown)
        if request.method == "HEAD":
            return Response(media_type=EVENT_STREAM)
        # Read the head before sending the status, so that the stream has every later event.
        head = await live.entries()

        async def stream() -> AsyncIterator[bytes]:
            context.metrics.streams += 1
            try:
                with live.present(viewer):
                    async for chunk in chunks(shown, after, head):
                        yield chunk
            finally:
                context.metrics.streams -= 1

        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(stream(), media_type=EVENT_STREAM, headers=headers)

    return endpoint
