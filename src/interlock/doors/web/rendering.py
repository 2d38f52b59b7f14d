"""Templates and static files. Templates escape every value, because other agents write text."""

import hashlib
import os
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from interlock.doors.web import task_views, views

TEMPLATES = os.path.join(os.path.dirname(__file__), "templates")
STATIC = os.path.join(os.path.dirname(__file__), "static")
STATIC_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
STATIC_HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# The navigation: paths and titles.
PAGES = (("/", "Now"), ("/work", "Work"), ("/review", "Review"))


class Assets:
    """The style sheet, the script and the icon, read once. Each URL contains a hash of the content.
    A browser can therefore cache a file forever, and never uses an old file with a new page."""

    def __init__(self) -> None:
        self.urls: dict[str, str] = {}
        self._served: dict[str, tuple[bytes, str]] = {}
        for file in sorted(os.listdir(STATIC)):
            stem, ending = os.path.splitext(file)
            if ending not in STATIC_TYPES:
                continue
            with open(os.path.join(STATIC, file), "rb") as opened:
                content = opened.read()
            name = f"{stem}.{hashlib.sha256(content).hexdigest()[:12]}{ending}"
            self.urls[file] = f"/static/{name}"
            self._served[name] = content, STATIC_TYPES[ending]

    async def serve(self, request: Request) -> Response:
        found = self._served.get(request.path_params["name"])
        if found is None:
            return PlainTextResponse("No file has this name.\n", 404)
        content, type = found
        return Response(content, media_type=type, headers=STATIC_HEADERS)


class Templates:
    def __init__(self, assets: Assets) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=views.shown,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals.update(asset=assets.urls.__getitem__, pages=PAGES)
        self._environment.filters.update(
            clock=views.clock,
            ago=views.ago,
            left=views.left,
            count=views.count,
            size=views.size,
            duration=task_views.duration,
        )

    def page(self, name: str, **members: Any) -> str:
        return self._environment.get_template(name).render(members)

    def part(self, name: str, **members: Any) -> Markup:
        """Return a part of a page as escaped markup."""
        return Markup(self._environment.get_template(f"parts/{name}.html").render(members))  # noqa: S704 - escaped by the template
