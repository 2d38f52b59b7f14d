"""What every page asks of a request before it answers, and says with the answer."""

from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import Response

Endpoint = Callable[[Request], Awaitable[Response]]

MAX_FORM_BYTES = 8192
FRAMES = ("iframe", "frame", "embed", "object", "fencedframe")
HEADERS = {
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: with that, browsers send `Origin: null` with our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
STALE_FORM = (
    "This form did not come with its cookie, so nothing was done. Try again; if that does not "
    "help, allow cookies for this address."
)


def is_foreign(request: Request) -> bool:
    """Whether a page of another origin made the browser ask."""
    origin = request.headers.get("origin")
    host = request.headers.get("host", "")
    return origin is not None and origin.partition("://")[2].lower() != host.lower()


def is_framed(request: Request) -> bool:
    """Whether the answer would be shown within another page."""
    return request.headers.get("sec-fetch-dest", "").lower() in FRAMES


def peer_of(request: Request) -> str:
    return request.client.host if request.client else ""


async def posted(request: Request, largest: int = MAX_FORM_BYTES) -> dict[str, str] | None:
    """The fields of a posted form, or None where it is none of ours."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        return None
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > largest:
            return None
    fields = parse_qs(body.decode("utf-8", "replace"))
    return {name: values[0] for name, values in fields.items()}
