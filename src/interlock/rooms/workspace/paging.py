"""A flow that reads the log page by page, until it has as many facts as the caller wants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.rooms.workspace.verbs import ShowLog
    from interlock.verbs.flows import Flow


def pages(request: ShowLog) -> Flow[Any]:
    """Repeat the request from where the last page stopped. One page scans a part of the log."""
    answer = yield request
    facts = list(answer["facts"])
    while len(facts) < request.limit and "next" in answer:
        answer = yield request._replace(after=answer["next"], limit=request.limit - len(facts))
        facts += answer["facts"]
    return answer | {"facts": facts}
