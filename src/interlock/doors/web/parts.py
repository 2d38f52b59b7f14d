"""The parts of a page that change while somebody looks, each made from a question or two."""

import asyncio
from typing import Any

from markupsafe import Markup
from starlette.concurrency import run_in_threadpool

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
from interlock.errors import NotFound, Refusal, Usage
from interlock.node.live import LiveNode

MAIL = 60
MOST_MAIL = 500
PATHS_SHOWN = 4


class Parts:
    names = PARTS

    def __init__(self, live: LiveNode, templates: Templates) -> None:
        self._live = live
        self._templates = templates

    async def all(self, mail_shown: int) -> dict[str, Markup]:
        made = await asyncio.gather(*(self.part(name, mail_shown) for name in self.names))
        return dict(zip(self.names, made, strict=True))

    async def part(self, name: str, mail_shown: int = MAIL) -> Markup:
        """A part as it is now. Where that is refused, for a damaged log perhaps, it says so."""
        makers = {
            "header": self._header,
            "agents": self._agents,
            "claims": self._claims,
        }
        try:
            return await (makers[name]() if name in makers else self._mail(mail_shown))
        except Refusal as refusal:
            return self._templates.part("refusal", refusal=refusal)

    async def message(self, id: str) -> Markup | None:
        """One message with its text and its receipts, or None where there is none of that id."""
        try:
            (found,) = (await self._ask(ListMail(message=id)))["messages"]
        except (NotFound, Usage):
            return None
        except Refusal as refusal:
            return self._templates.part("refusal", refusal=refusal)
        return await self._made("message", message=views.message(found, whole=True))

    async def _header(self) -> Markup:
        status, review = await asyncio.gather(self._ask(ShowStatus()), self._ask(Review()))
        return await self._made(
            "header",
            status=views.legible(status),
            needs=views.needs(review),
            place=views.workspace(self._live.node.directory),
        )

    async def _agents(self) -> Markup:
        return await self._made("agents", agents=views.agents(await self._ask(ListAgents())))

    async def _claims(self) -> Markup:
        claims = views.claims(await self._ask(ListClaims()))
        return await self._made("claims", claims=claims, paths_shown=PATHS_SHOWN)

    async def _mail(self, shown: int) -> Markup:
        # One more than is shown says whether there are more.
        found = (await self._ask(ListMail(limit=shown + 1)))["messages"]
        messages = await run_in_threadpool(views.messages, found[:shown])
        more = len(found) > shown
        return await self._made("mail", messages=messages, more=more, most=MOST_MAIL)

    async def _ask(self, act: Any) -> dict[str, Any]:
        return await self._live.call(Credentials(owner=True), act)

    async def _made(self, name: str, **members: Any) -> Markup:
        """A long list takes a hundredth of a second to write, for which nobody else must wait."""
        now = self._live.node.clock()
        return await run_in_threadpool(self._templates.part, name, now=now, **members)
