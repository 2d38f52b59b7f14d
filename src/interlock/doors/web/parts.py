"""The parts of a page that change while somebody looks, each made from a question or two."""

import asyncio
from typing import Any

from markupsafe import Markup
from starlette.concurrency import run_in_threadpool

from interlock.doors.web import task_views, views
from interlock.doors.web.rendering import Templates
from interlock.errors import NotFound, Refusal, Usage
from interlock.node.live import LiveNode
from interlock.rooms.claims.verbs import ListClaims
from interlock.rooms.identity.verbs import ListAgents
from interlock.rooms.mail.verbs import ListMail
from interlock.rooms.work.verbs import ListBlockers, ListTasks, ShowEvidence, ShowTask, State
from interlock.rooms.workspace.verbs import Review, ShowStatus
from interlock.verbs.credentials import Credentials

MAIL = 60
MAX_MAIL = 500
PATHS_SHOWN = 4
OPEN_TASKS = 100
ENDED_TASKS = 50
ENDS: tuple[State, ...] = ("done", "failed", "cancelled")
AT_ONCE = 1000


class Parts:
    def __init__(self, live: LiveNode, templates: Templates) -> None:
        self._live = live
        self._templates = templates
        self._makers = {
            "header": self._header,
            "agents": self._agents,
            "claims": self._claims,
            "work": self._work,
            "ended": self._ended,
            "review": self._review,
        }
        self._singles = {
            "message": self._message,
            "task": self._task,
            "evidence": self._evidence,
        }

    def has(self, name: str) -> bool:
        return name == "mail" or name in self._makers

    async def several(self, names: tuple[str, ...], mail_shown: int = MAIL) -> dict[str, Markup]:
        made = await asyncio.gather(*(self.part(name, mail_shown) for name in names))
        return dict(zip(names, made, strict=True))

    async def part(self, name: str, mail_shown: int = MAIL) -> Markup:
        """A part as it is now. Where that is refused, for a damaged log perhaps, it says so."""
        try:
            return await (self._mail(mail_shown) if name == "mail" else self._makers[name]())
        except Refusal as refusal:
            return self._templates.part("refusal", refusal=refusal)

    async def single(self, kind: str, id: str) -> Markup | None:
        """One message, task or piece of evidence with all that is known of it, or None where there
        is none of that id."""
        if kind not in self._singles:
            return None
        try:
            return await self._singles[kind](id)
        except (NotFound, Usage):
            return None
        except Refusal as refusal:
            return self._templates.part("refusal", refusal=refusal)

    # --- now

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
        return await self._made("mail", messages=messages, more=more, most=MAX_MAIL)

    async def _message(self, id: str) -> Markup:
        (found,) = (await self._ask(ListMail(message=id)))["messages"]
        return await self._made("message", message=views.message(found, whole=True))

    # --- work

    async def _work(self) -> Markup:
        tasks, blockers = await asyncio.gather(self._tasks("live"), self._ask(ListBlockers()))
        taken = [ShowTask(task["id"]) for task in tasks if "worker" in task]
        shown = await asyncio.gather(*map(self._ask, taken))
        made = await run_in_threadpool(task_views.groups, tasks, shown, blockers["blockers"])
        return await self._made("work", groups=made, open_shown=OPEN_TASKS)

    async def _ended(self) -> Markup:
        found = [task for state in ENDS for task in await self._tasks(state)]
        tasks = task_views.ended(found)[:ENDED_TASKS]
        return await self._made("ended", tasks=tasks, number=len(found))

    async def _tasks(self, state: State) -> list[dict[str, Any]]:
        """All of them: they are listed in the order in which they were made, and any may be the
        one that needs somebody, or that ended last."""
        found: list[dict[str, Any]] = []
        after: int | None = 0
        while after is not None:
            page = await self._ask(ListTasks(state=state, limit=AT_ONCE, after=after))
            found += page["tasks"]
            after = page.get("next")
        return found

    async def _task(self, id: str) -> Markup:
        shown, blockers = await asyncio.gather(
            self._ask(ShowTask(id)), self._ask(ListBlockers(task=id))
        )
        view = await run_in_threadpool(task_views.task, shown, blockers["blockers"])
        return await self._made("task", task=view)

    async def _evidence(self, id: str) -> Markup:
        shown = await self._ask(ShowEvidence(id))
        view = await run_in_threadpool(task_views.shown_evidence, shown)
        return await self._made("evidence", evidence=view)

    async def _review(self) -> Markup:
        sections = task_views.review(await self._ask(Review()))
        return await self._made("review", sections=sections)

    async def _ask(self, act: Any) -> dict[str, Any]:
        return await self._live.call(Credentials(owner=True), act)

    async def _made(self, name: str, **members: Any) -> Markup:
        """A long list takes a hundredth of a second to write, for which nobody else must wait."""
        now = self._live.node.clock()
        return await run_in_threadpool(self._templates.part, name, now=now, **members)
