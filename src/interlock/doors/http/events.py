"""Live events: one stream for each listener, resumed from the last event that it has seen."""

from collections.abc import AsyncIterator, Awaitable, Callable

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from interlock.doors.http.metrics import Metrics
from interlock.errors import NotAllowed, Refusal, Usage
from interlock.node.feed import EncodedEvent
from interlock.node.live import LiveNode
from interlock.verbs.credentials import Credentials

HEARTBEAT_S = 15.0
MEDIA_TYPE = "text/event-stream"


def event_stream(
    live: LiveNode, metrics: Metrics, credentials: Callable[[Request], Credentials]
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        shown = credentials(request)
        after = _position(request)
        viewer = await live.identify(shown)
        if request.method == "HEAD":
            return Response(media_type=MEDIA_TYPE)
        # Where the log ends is looked up before anything is said, the status among it: from then
        # on nothing is missed.
        head = await live.entries()

        async def stream() -> AsyncIterator[bytes]:
            metrics.streams += 1
            try:
                with live.present(viewer):
                    async for chunk in _told(live, shown, after, head):
                        yield chunk
            finally:
                metrics.streams -= 1

        return StreamingResponse(
            stream(),
            media_type=MEDIA_TYPE,
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    return endpoint


def _position(request: Request) -> int | None:
    """Where to go on: the header that a browser sends when it comes back, or `after`."""
    given = request.headers.get("last-event-id") or request.query_params.get("after")
    if given is None:
        return None
    if not (given.isascii() and given.isdigit() and len(given) <= 18):
        raise Usage(f"{given[:80]!r} is not a position in the log.")
    return int(given)


async def _told(
    live: LiveNode, shown: Credentials, after: int | None, head: int
) -> AsyncIterator[bytes]:
    yield b"retry: 1000\n\n"
    if after is None:
        after = head
    elif after > head:
        # The log was put back to an earlier state; what came after that was never there.
        yield b"event: reset\ndata: " + orjson.dumps({"reached": head}) + b"\n\n"
        after = head
    try:
        async for events in live.events(shown, after, HEARTBEAT_S):
            yield b"".join(map(_encoded, events)) if events else b": still here\n\n"
    except NotAllowed as refusal:
        yield b"event: refused\ndata: " + orjson.dumps(refusal.as_dict()) + b"\n\n"
    except Refusal:
        return  # whoever comes back may find the log at hand again


def _encoded(event: EncodedEvent) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.kind.encode(), event.json)
