"""The owner's dashboard: its pages, and the page parts that the browser refreshes."""

import asyncio
from collections.abc import Callable
from typing import Any

from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)

from interlock.doors.web import browsers, task_views, views
from interlock.doors.web.browsers import STALE_FORM, Endpoint, OwnerCookies, is_foreign, posted
from interlock.doors.web.rendering import Templates
from interlock.doors.web.stream import changes
from interlock.errors import BadToken, NotFound, Refusal, Usage
from interlock.node.live import LiveNode
from interlock.rooms.claims.verbs import ListClaims
from interlock.rooms.identity.token_format import hashed
from interlock.rooms.identity.verbs import ListAgents
from interlock.rooms.mail.verbs import ListMail
from interlock.rooms.work.verbs import (
    ListBlockers,
    ListTasks,
    ShowEvidence,
    ShowTask,
    TaskStateFilter,
)
from interlock.rooms.workspace.verbs import Review, ShowStatus
from interlock.verbs.credentials import Credentials

MAIL = 60
MAX_MAIL = 500
MAX_PATHS = 4
MAX_OPEN_TASKS = 100
MAX_ENDED_TASKS = 50
PAGE_OF_TASKS = 1000
END_STATES: tuple[TaskStateFilter, ...] = ("done", "failed", "cancelled")
HEADERS = browsers.HEADERS | {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
}
NOT_THE_OWNERS = (
    "This is not the owner's token. This page does not accept tokens of agents. Run interlock up "
    "on the server's machine, and open the link that it prints."
)
OTHER_SITE = (
    "A page of another site made this request, so Interlock refuses it. Open the dashboard by its "
    "own address.\n"
)


class Pages:
    def __init__(
        self,
        live: LiveNode,
        is_owners_token: Callable[[str], bool],
        cookies: OwnerCookies,
        templates: Templates,
    ) -> None:
        self._live = live
        self._is_owners_token = is_owners_token
        self._cookies = cookies
        self._templates = templates

    def guarded(self, endpoint: Endpoint) -> Endpoint:
        """Return the endpoint with our security headers. It refuses requests from other origins."""

        async def answer(request: Request) -> Response:
            if is_foreign(request):
                response: Response = PlainTextResponse(OTHER_SITE, 403)
            else:
                response = await endpoint(request)
            response.headers.update(HEADERS)
            return response

        return answer

    # --- pages

    def page(self, title: str, *names: str) -> Endpoint:
        """Return the endpoint of a page that has several parts."""

        async def page(request: Request) -> Response:
            if not self._cookies.is_owner(request):
                return self._sign_in_page(request)
            # Read the log position before the parts, so that the stream misses no change.
            reached, shown = self._live.feed.reached, _mail_shown(request)
            made = await asyncio.gather(*(self._part(name, shown) for name in names))
            return self._page(
                request,
                f"{title.lower()}.html",
                title=title,
                here=title,
                reached=reached,
                mail_shown=shown,
                parts=dict(zip(names, made, strict=True)),
            )

        return page

    def single(self, kind: str, here: str) -> Endpoint:
        """Return the endpoint of the page of one message, task or piece of evidence. `here` is the
        navigation entry to highlight."""

        async def page(request: Request) -> Response:
            if not self._cookies.is_owner(request):
                return self._sign_in_page(request)
            reached, id = self._live.feed.reached, request.path_params["id"]
            content = await self._single(kind, id)
            return self._page(
                request,
                "single.html",
                200 if content else 404,
                title=kind.capitalize(),
                here=here,
                reached=reached,
                kind=kind,
                id=id,
                content=content,
                parts={"header": await self._part("header")},
            )

        return page

    def _page(self, request: Request, file: str, status: int = 200, **members: Any) -> Response:
        form, now = self._cookies.form(request), self._live.node.clock()
        return HTMLResponse(self._templates.page(file, form=form, now=now, **members), status)

    async def part(self, request: Request) -> Response:
        if not self._cookies.is_owner(request):
            return PlainTextResponse("", 401)
        content = await self._part(request.path_params["name"], _mail_shown(request))
        if content is None:
            return PlainTextResponse("No part of the dashboard has this name.\n", 404)
        return HTMLResponse(content)

    async def single_part(self, request: Request) -> Response:
        if not self._cookies.is_owner(request):
            return PlainTextResponse("", 401)
        content = await self._single(**request.path_params)
        return HTMLResponse(content) if content else PlainTextResponse("Not found.\n", 404)

    async def stream(self, request: Request) -> Response:
        if not self._cookies.is_owner(request):
            return PlainTextResponse("", 401)
        # A browser that reconnects sends the id of the last event that it received as a header.
        given = request.headers.get("last-event-id") or request.query_params.get("after", "")
        is_position = given.isascii() and given.isdigit() and len(given) <= 18
        return StreamingResponse(
            changes(self._live.feed, int(given) if is_position else None),
            media_type="text/event-stream",
            headers={"X-Accel-Buffering": "no"},
        )

    # --- parts

    async def _part(self, name: str, mail_shown: int = MAIL) -> Markup | None:
        """Return a rendered part, or None for an unknown name. If the node refuses the request,
        for example because the log is damaged, the part shows the refusal."""
        ask = self._ask
        try:
            match name:
                case "header":
                    status, review = await asyncio.gather(ask(ShowStatus()), ask(Review()))
                    place = views.workspace(self._live.node.directory)
                    needs = views.needs(review)
                    return await self._made(name, status=status, needs=needs, place=place)
                case "agents":
                    return await self._made(name, agents=views.agents(await ask(ListAgents())))
                case "claims":
                    claims = views.claims(await ask(ListClaims()))
                    return await self._made(name, claims=claims, paths_shown=MAX_PATHS)
                case "mail":
                    # Read one message more than the page shows, to know whether older ones exist.
                    found = (await ask(ListMail(limit=mail_shown + 1)))["messages"]
                    messages = await run_in_threadpool(views.messages, found[:mail_shown])
                    more = len(found) > mail_shown
                    return await self._made(name, messages=messages, more=more, most=MAX_MAIL)
                case "work":
                    tasks, blockers = await asyncio.gather(self._tasks("live"), ask(ListBlockers()))
                    taken = [ShowTask(task["id"]) for task in tasks if "worker" in task]
                    shown = await asyncio.gather(*map(ask, taken))
                    groups = await run_in_threadpool(
                        task_views.groups, tasks, shown, blockers["blockers"]
                    )
                    return await self._made(name, groups=groups, open_shown=MAX_OPEN_TASKS)
                case "ended":
                    found = [task for state in END_STATES for task in await self._tasks(state)]
                    tasks = task_views.ended(found)[:MAX_ENDED_TASKS]
                    return await self._made(name, tasks=tasks, number=len(found))
                case "review":
                    return await self._made(name, sections=task_views.review(await ask(Review())))
                case _:
                    return None
        except Refusal as refusal:
            return self._templates.part("refusal", refusal=refusal)

    async def _single(self, kind: str, id: str) -> Markup | None:
        """Return one message, task or piece of evidence with all details, or None for an unknown
        kind or id."""
        ask = self._ask
        try:
            match kind:
                case "message":
                    (found,) = (await ask(ListMail(message=id)))["messages"]
                    return await self._made(kind, message=views.message(found, whole=True))
                case "task":
                    shown, blockers = await asyncio.gather(
                        ask(ShowTask(id)), ask(ListBlockers(task=id))
                    )
                    view = await run_in_threadpool(task_views.task, shown, blockers["blockers"])
                    return await self._made(kind, task=view)
                case "evidence":
                    shown = await ask(ShowEvidence(id))
                    view = await run_in_threadpool(task_views.shown_evidence, shown)
                    return await self._made(kind, evidence=view)
                case _:
                    return None
        except (NotFound, Usage):
            return None
        except Refusal as refusal:
            return self._templates.part("refusal", refusal=refusal)

    async def _tasks(self, state: TaskStateFilter) -> list[dict[str, Any]]:
        """Return all tasks in a state. The node lists tasks by creation, so a task that needs a
        person, or that ended last, can be anywhere in the list."""
        found: list[dict[str, Any]] = []
        after: int | None = 0
        while after is not None:
            page = await self._ask(ListTasks(state=state, limit=PAGE_OF_TASKS, after=after))
            found += page["tasks"]
            after = page.get("next")
        return found

    async def _ask(self, verb: Any) -> dict[str, Any]:
        return await self._live.call(Credentials(owner=True), verb)

    async def _made(self, name: str, **members: Any) -> Markup:
        """Render a part in a thread. A long list takes 10 ms, and other requests must not wait."""
        now = self._live.node.clock()
        return await run_in_threadpool(self._templates.part, name, now=now, **members)

    # --- signing in and out

    async def sign_in(self, request: Request) -> Response:
        form = await posted(request)
        if form is None or not self._cookies.is_visitors_form(request, form.get("form", "")):
            return self._sign_in_page(request, STALE_FORM)
        token = form.get("token", "").strip()
        try:
            hashed(token)
        except BadToken as mistyped:
            return self._sign_in_page(request, mistyped.message)
        if not await run_in_threadpool(self._is_owners_token, token):
            return self._sign_in_page(request, NOT_THE_OWNERS)
        response = RedirectResponse("/", 303)
        self._cookies.sign_in(request, response)
        return response

    def _sign_in_page(self, request: Request, trouble: str | None = None) -> Response:
        visit = self._cookies.visit(request)
        form = self._cookies.visitors_form(visit)
        page = self._templates.page("sign_in.html", title="Sign in", form=form, trouble=trouble)
        response = HTMLResponse(page, 403 if trouble else 200)
        self._cookies.keep_visit(request, response, visit)
        return response

    async def to_front(self, request: Request) -> Response:
        return RedirectResponse("/", 303)

    async def sign_out(self, request: Request) -> Response:
        form = await posted(request)
        if form is None or not self._cookies.is_form(request, form.get("form", "")):
            return PlainTextResponse(STALE_FORM + "\n", 403)
        response = RedirectResponse("/", 303)
        self._cookies.sign_out(request, response)
        return response


def _mail_shown(request: Request) -> int:
    return MAX_MAIL if request.query_params.get("mail") == str(MAX_MAIL) else MAIL
