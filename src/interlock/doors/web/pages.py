"""The pages: what is asked for, by whom, and what they get."""

from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)

from interlock.doors.web import visits
from interlock.doors.web.assets import Assets
from interlock.doors.web.parts import MAIL, MAX_MAIL, Parts
from interlock.doors.web.passes import Passes
from interlock.doors.web.rendering import Templates
from interlock.doors.web.stream import changes
from interlock.doors.web.visits import STALE_FORM, Endpoint, is_foreign, posted
from interlock.errors import BadToken
from interlock.node.live import LiveNode
from interlock.rooms.identity.token_format import hashed

BOARD = ("header", "agents", "claims", "mail")
HEADERS = visits.HEADERS | {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
}
NOT_THE_OWNERS = (
    "That is not the owner's token. Tokens of agents open nothing here. Where the server was "
    "started, interlock up prints the link that does."
)


class Pages:
    def __init__(
        self, live: LiveNode, owner: Callable[[str], bool], passes: Passes, assets: Assets
    ) -> None:
        self._live = live
        self._owner = owner
        self._passes = passes
        self._templates = Templates(assets)
        self._parts = Parts(live, self._templates)

    def guarded(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint for requests of our own pages and of people, and none of other sites'."""

        async def answer(request: Request) -> Response:
            if is_foreign(request):
                response: Response = PlainTextResponse("Pages of other sites get nothing.\n", 403)
            else:
                response = await endpoint(request)
            response.headers.update(HEADERS)
            return response

        return answer

    # --- what the owner sees

    async def dashboard(self, request: Request) -> Response:
        return await self._page(request, "Now", BOARD, _mail_shown(request))

    async def work(self, request: Request) -> Response:
        return await self._page(request, "Work", ("header", "work", "ended"))

    async def review(self, request: Request) -> Response:
        return await self._page(request, "Review", ("header", "review"))

    async def _page(
        self, request: Request, title: str, names: tuple[str, ...], shown: int = MAIL
    ) -> Response:
        if not self._passes.is_owner(request):
            return self._sign_in_page(request)
        reached = self._live.feed.reached
        parts = await self._parts.several(names, shown)
        frame = self._frame(request, reached, title)
        file = f"{title.lower()}.html"
        return HTMLResponse(
            self._templates.page(file, **frame, title=title, mail_shown=shown, parts=parts)
        )

    def single(self, kind: str, here: str) -> Endpoint:
        """The page of one message, task or piece of evidence, all of it. `here` is the page from
        which people come."""

        async def page(request: Request) -> Response:
            if not self._passes.is_owner(request):
                return self._sign_in_page(request)
            reached = self._live.feed.reached
            id = request.path_params["id"]
            content = await self._parts.single(kind, id)
            header = await self._parts.part("header")
            frame = self._frame(request, reached, here)
            title = kind.capitalize()
            made = self._templates.page(
                f"{kind}.html", **frame, title=title, id=id, header=header, content=content
            )
            return HTMLResponse(made, 200 if content else 404)

        return page

    def _frame(self, request: Request, reached: int, here: str) -> dict[str, Any]:
        """What every page of the owner's needs. `reached` is where the log stood before its parts
        were made, so that nothing that happens meanwhile is missed."""
        form, now = self._passes.form(request), self._live.node.clock()
        return {"form": form, "reached": reached, "now": now, "here": here}

    async def part(self, request: Request) -> Response:
        if not self._passes.is_owner(request):
            return _nothing()
        name = request.path_params["name"]
        if not self._parts.has(name):
            return PlainTextResponse("There is no such part.\n", 404)
        return HTMLResponse(await self._parts.part(name, _mail_shown(request)))

    async def single_part(self, request: Request) -> Response:
        if not self._passes.is_owner(request):
            return _nothing()
        content = await self._parts.single(**request.path_params)
        return HTMLResponse(content) if content else PlainTextResponse("Not found.\n", 404)

    async def stream(self, request: Request) -> Response:
        if not self._passes.is_owner(request):
            return _nothing()
        return StreamingResponse(
            changes(self._live.feed, _position(request)),
            media_type="text/event-stream",
            headers={"X-Accel-Buffering": "no"},
        )

    # --- signing in and out

    async def sign_in(self, request: Request) -> Response:
        form = await posted(request)
        if form is None or not self._passes.is_sign_in_form(request, form.get("form", "")):
            return self._sign_in_page(request, STALE_FORM)
        if trouble := await self._trouble_with(form.get("token", "").strip()):
            return self._sign_in_page(request, trouble)
        response = RedirectResponse("/", 303)
        self._passes.sign_in(request, response)
        return response

    async def _trouble_with(self, token: str) -> str | None:
        try:
            hashed(token)
        except BadToken as mistyped:
            return mistyped.message
        return None if await run_in_threadpool(self._owner, token) else NOT_THE_OWNERS

    def _sign_in_page(self, request: Request, trouble: str | None = None) -> Response:
        token, fresh = self._passes.sign_in_form(request)
        page = self._templates.page("sign_in.html", title="Sign in", form=token, trouble=trouble)
        response = HTMLResponse(page, 403 if trouble else 200)
        if fresh is not None:
            self._passes.keep_form(request, response, fresh)
        return response

    async def to_front(self, request: Request) -> Response:
        return RedirectResponse("/", 303)

    async def sign_out(self, request: Request) -> Response:
        form = await posted(request)
        if form is None or not self._passes.is_form(request, form.get("form", "")):
            return PlainTextResponse(STALE_FORM + "\n", 403)
        response = RedirectResponse("/", 303)
        self._passes.sign_out(response)
        return response


def _nothing() -> Response:
    return PlainTextResponse("", 401)


def _position(request: Request) -> int | None:
    """The last event that the page has seen: a browser that comes back says it in a header."""
    given = request.headers.get("last-event-id") or request.query_params.get("after", "")
    return int(given) if given.isascii() and given.isdigit() and len(given) <= 18 else None


def _mail_shown(request: Request) -> int:
    return MAX_MAIL if request.query_params.get("mail") == str(MAX_MAIL) else MAIL
