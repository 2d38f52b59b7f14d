"""The documentation site at /docs: the files that docs/build.py has put into the folder `site`.

The site is public: it needs no token and reads no cookie. It contains nothing of the workspace.
"""

import os

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.staticfiles import StaticFiles

from interlock.doors.web import browsers
from interlock.doors.web.rendering import STATIC_TYPES

SITE = os.path.join(os.path.dirname(__file__), "site")
# Files of other types are not served.
TYPES = STATIC_TYPES | {
    ".html": "text/html; charset=utf-8",
    ".png": "image/png",
    ".txt": "text/plain; charset=utf-8",
}
HEADERS = browsers.HEADERS | {
    # The style sheet has its icons in it, as data.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    # A browser asks whether its copy is current, because an upgrade changes pages.
    "Cache-Control": "no-cache",
}
NOT_BUILT = "The documentation is not built. Run this in a clone of Interlock: make docs\n"
NO_PAGE = "There is no such page. The documentation starts at /docs/\n"


def routes() -> list[BaseRoute]:
    files = StaticFiles(directory=SITE, check_dir=False)

    async def to_front(request: Request) -> Response:
        return RedirectResponse("/docs/")

    async def serve(request: Request) -> Response:
        path = os.path.normpath(request.path_params["path"].lstrip("/") or "index.html")
        type = TYPES.get(os.path.splitext(path)[1])
        try:
            if type is None:
                raise HTTPException(404)
            response = await files.get_response(path, request.scope)
            if response.status_code == 200:
                response.headers["Content-Type"] = type
        except HTTPException as refused:
            if refused.status_code != 404:
                raise
            response = PlainTextResponse(NO_PAGE if os.path.isdir(SITE) else NOT_BUILT, 404)
        response.headers.update(HEADERS)
        return response

    return [Route("/docs", to_front), Route("/docs/{path:path}", serve)]
