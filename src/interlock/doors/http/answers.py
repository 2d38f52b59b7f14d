"""What goes back: JSON, and one error object whatever went wrong."""

from typing import Any

import orjson
from starlette.responses import Response

from interlock.errors import MissingScope, RateLimited, Refusal


class Answer(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content)


def refused(refusal: Refusal, status: int | None = None) -> Answer:
    status = status or refusal.http
    headers = {}
    if isinstance(refusal, RateLimited):
        headers["Retry-After"] = str(refusal.members.get("retry_after_s", 1))
    if isinstance(refusal, MissingScope):
        scope = refusal.members.get("scope", "")
        headers["WWW-Authenticate"] = f'Bearer error="insufficient_scope", scope="{scope}"'
    return Answer(refusal.as_dict(), status, headers)
