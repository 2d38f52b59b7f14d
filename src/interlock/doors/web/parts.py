"""The parts of a page that change while somebody looks at it, each made from one question or two."""

import asyncio
from typing import Any

from markupsafe import Markup

from interlock.contracts.acts import (
    Credentials,
    ListAgents,
    ListClaims,
    ListMail,
    Review,
    ShowStatus,
)
from interlock.doors.web import views
from interlock.doors.web.rendering import Templates
from interlock.doors.web.stream import PARTS
from interlock.errors import Refusal
from interlock.node.live import LiveNode

MAIL = 100
MOST_MAIL = 500


class Parts:
    names = PARTS

    def __init__(self, live: LiveNode, templates: Templates) -> None:
        self._live = live
        self._templates = templates

    async def all(self, mail_shown: int) -> dict[str, Markup]:
        made = await asyncio.gather(*(self.part(name, mail_shown) for name in self.names))
        return dict(zip(self.names, made, strict=True))

    async def part(self, name: str, mail_shown: int = MAIL) -> Markup:
        """A part as it is now. What is refused, a damaged log for instance, is said in its place."""
        try:
            members = await self._members(name, mail_shown)
        except Refusal as refusal:
            return self._templates.part("refusal", refusal=refusal)
        return self._templates.part(name, now=self._now(), **members)

    async def message(self, id: str) -> Markup | None:
        """One message with all of its text, or None where it is not among those we can show."""
        try:
            found = (await self._ask(ListMail(limit=MOST_MAIL)))["messages"]
        except Refusal as refusal:
            return self._templates.part("refusal", refusal=refusal)
        for message in found:
            if message["id"] == id:
                shown = views.message(message, whole=True)
                return self._templates.part("message", now=self._now(), message=shown)
        return None

    async def _members(self, name: str, mail_shown: int) -> dict[str, Any]:
        if name == "header":
            status, review = await asyncio.gather(self._ask(ShowStatus()), self._ask(Review()))
            place = views.workspace(self._live.node.directory)
            return {"status": views.legible(status), "needs": views.needs(review), "place": place}
        if name == "agents":
            return {"agents": views.agents(await self._ask(ListAgents()))}
        if name == "claims":
            return {"claims": views.claims(await self._ask(ListClaims()))}
        # One more than is shown says whether there are more.
        found = (await self._ask(ListMail(limit=mail_shown + 1)))["messages"]
        return {
            "messages": [views.message(message) for message in found[:mail_shown]],
            "more": len(found) > mail_shown,
            "most": MOST_MAIL,
        }

    async def _ask(self, act: Any) -> dict[str, Any]:
        return await self._live.call(Credentials(owner=True), act)

    def _now(self) -> int:
        return self._live.node.clock()
