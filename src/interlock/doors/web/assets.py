"""The style sheet, the script and the icon. Their names carry a hash of what is in them, so that a
browser keeps each for ever and never uses an old one with a new page."""

import hashlib
import os
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

FOLDER = os.path.join(os.path.dirname(__file__), "static")
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Asset(NamedTuple):
    content: bytes
    type: str


class Assets:
    """Read once: what is served does not change while the server runs."""

    def __init__(self) -> None:
        self._urls: dict[str, str] = {}
        self._served: dict[str, Asset] = {}
        for file in sorted(os.listdir(FOLDER)):
            stem, ending = os.path.splitext(file)
            if ending not in TYPES:
                continue
            with open(os.path.join(FOLDER, file), "rb") as opened:
                content = opened.read()
            name = f"{stem}.{hashlib.sha256(content).hexdigest()[:12]}{ending}"
            self._urls[file] = f"/static/{name}"
            self._served[name] = Asset(content, TYPES[ending])

    def url(self, file: str) -> str:
        return self._urls[file]

    async def serve(self, request: Request) -> Response:
        asset = self._served.get(request.path_params["name"])
        if asset is None:
            return PlainTextResponse("There is no such file.\n", 404)
        return Response(asset.content, media_type=asset.type, headers=HEADERS)
