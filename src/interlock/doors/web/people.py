"""The pages of people: joining by an invitation, signing in, and what acts for them."""

import asyncio
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from interlock.doors.web.person_views import agents
from interlock.doors.web.views import legible
from interlock.doors.web.visitors import Visitors
from interlock.doors.web.visits import STALE_FORM, posted
from interlock.errors import BadToken, ForeignOrigin, NotAllowed, Refusal, TokenExpired, Usage
from interlock.node.passwords import SHORTEST, refuse_weak
from interlock.rooms.identity.verbs import ListAgents
from interlock.rooms.people.verbs import (
    ListConnections,
    NameConnection,
    RevokeConnection,
    ShowInvitation,
)
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials

# A form of signing in may hold what a client asked for.
MAX_FORM_BYTES = 32 << 10
DONE = {
    "ended": "It has ended. What used it can do nothing here any more.",
    "named": "The new name is kept.",
    "password": "The new password is kept. You are signed out everywhere else.",
    "joined": "Welcome. From now on you sign in with your name and your password.",
}


class People:
    def __init__(self, visitors: Visitors) -> None:
        self._visitors = visitors

    # --- invitations

    async def invitation(self, request: Request) -> Response:
        """Shows whom an invitation is for. Looking uses nothing up: programs look at links too."""
        try:
            found = await self._invitation(request)
        except (BadToken, TokenExpired) as refusal:
            return self._no_invitation(refusal)
        return self._invitation_page(request, found)

    async def _invitation(self, request: Request) -> Answer:
        shown = ShowInvitation(request.path_params["code"])
        return await self._visitors.live.call(Credentials(), shown)

    def _no_invitation(self, refusal: Refusal) -> Response:
        status = 410 if isinstance(refusal, TokenExpired) else 404
        return self._visitors.notice("This invitation is no good", refusal.message, status)

    def _invitation_page(
        self, request: Request, found: Answer, refusal: Refusal | None = None
    ) -> Response:
        return self._visitors.visitors_page(
            request,
            "invitation.html",
            refusal.http if refusal else 200,
            title="You are invited",
            invitation=legible(found),
            link=str(request.url.replace(query="", fragment="")),
            host=request.url.netloc,
            shortest=SHORTEST,
            trouble=refusal.message if refusal else None,
        )

    async def join(self, request: Request) -> Response:
        form = await posted(request, MAX_FORM_BYTES)
        try:
            found = await self._invitation(request)
        except (BadToken, TokenExpired) as refusal:
            return self._no_invitation(refusal)
        try:
            self._refuse_strangers(request, form)
            return await self._joined(request, found["name"], form or {})
        except Refusal as refusal:
            return self._invitation_page(request, found, refusal)

    async def _joined(self, request: Request, name: str, form: dict[str, str]) -> Response:
        password = _chosen(name, form)
        code = request.path_params["code"]
        response = await self._visitors.enrol(request, code, name, password)
        response.headers["Location"] = _done("joined")
        return response

    def _refuse_strangers(self, request: Request, form: dict[str, str] | None) -> None:
        passes = self._visitors.passes
        if form is None or not passes.is_visitors_form(request, form.get("form", "")):
            raise ForeignOrigin(STALE_FORM)

    async def change_password(self, request: Request) -> Response:
        form = self._visitors.refuse_strangers(request, await posted(request))
        person = await self._visitors.person(request)
        if person is None:
            return self._visitors.sign_in_page(request)
        name = person["person"].removeprefix("@")
        try:
            password = _chosen(name, form)
            await self._visitors.change_password(request, name, form.get("current", ""), password)
        except Refusal as refusal:
            return await self.overview(request, refusal)
        return RedirectResponse(_done("password"), 303)

    # --- who is signed in

    async def overview(self, request: Request, refusal: Refusal | None = None) -> Response:
        """A person, their agents, what acts for them, and where they are signed in."""
        person = await self._visitors.person(request)
        if person is None:
            return self._visitors.sign_in_page(request)
        call = self._visitors.call
        known, acting = await asyncio.gather(
            call(request, ListAgents()), call(request, ListConnections())
        )
        status = 403 if isinstance(refusal, NotAllowed) else refusal.http if refusal else 200
        return self._visitors.page(
            "person.html",
            status,
            shortest=SHORTEST,
            trouble=refusal.message if refusal else None,
            title=person["person"],
            form=self._visitors.passes.form(request),
            person=legible(person["person"]),
            agents=agents(person, known),
            connections=legible(acting["connections"]),
            sessions=legible(acting["sessions"]),
            tokens=legible(acting["tokens"]),
            done=DONE.get(request.query_params.get("done", "")),
            address=f"{request.scope['interlock.base']}/mcp",
        )

    async def to_overview(self, request: Request) -> Response:
        return RedirectResponse("/person", 303)

    async def sign_in(self, request: Request) -> Response:
        form = await posted(request, MAX_FORM_BYTES) or {}
        asked = form.get("request")
        name = form.get("username", "").strip().removeprefix("@")
        try:
            self._refuse_strangers(request, form)
            response = await self._visitors.sign_in(request, name, form.get("password", ""))
        except Refusal as refusal:
            return self._visitors.sign_in_page(request, asked, refusal, name)
        return _on_the_way(response, asked)

    async def sign_out(self, request: Request) -> Response:
        form = self._visitors.refuse_strangers(request, await posted(request, MAX_FORM_BYTES))
        response = await self._visitors.sign_out(request)
        return _on_the_way(response, form.get("request"))

    # --- what acts for them

    async def revoke(self, request: Request) -> Response:
        self._visitors.refuse_strangers(request, await posted(request))
        return await self._do(request, RevokeConnection(request.path_params["id"]), "ended")

    async def rename(self, request: Request) -> Response:
        form = self._visitors.refuse_strangers(request, await posted(request))
        act = NameConnection(request.path_params["id"], form.get("name", "").strip())
        return await self._do(request, act, "named")

    async def _do(
        self, request: Request, act: RevokeConnection | NameConnection, done: str
    ) -> Response:
        try:
            await self._visitors.call(request, act)
        except NotAllowed:
            return self._visitors.sign_in_page(request)
        return RedirectResponse(_done(done), 303)


def _chosen(name: str, form: dict[str, str]) -> str:
    """The password that somebody has chosen, and typed twice."""
    password = form.get("password", "")
    refuse_weak(name, password)
    if form.get("again", "") != password:
        raise Usage("The two passwords are not the same. Type the same one twice.")
    return password


def _on_the_way(response: Response, asked: str | None) -> Response:
    """Leads on to what a client asked for, if that is how somebody came here."""
    if asked is not None:
        response.headers["Location"] = "/consent?" + urlencode({"request": asked})
    return response


def _done(word: str) -> str:
    return f"/person?done={word}"
