"""Visitors: whoever is not the owner, before and after they have signed in as a person.

Their pages need no script and run none. Other sites lead here, so each page says by itself that it
is not to be framed, and a form is obeyed only with the cookie that it was made for.
"""

import os
from contextlib import suppress
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from interlock.doors.web.passes import PersonPasses
from interlock.doors.web.person_views import asking, browser
from interlock.doors.web.rendering import Templates
from interlock.doors.web.views import legible
from interlock.doors.web.visits import (
    HEADERS,
    STALE_FORM,
    Endpoint,
    is_framed,
    peer_of,
)
from interlock.errors import BadToken, ForeignOrigin, NotAllowed, NotFound, Refusal
from interlock.node.keys import Seals
from interlock.node.live import LiveNode
from interlock.node.passwords import Attempts, verifier
from interlock.rooms.identity import token_format
from interlock.rooms.people.verbs import ChangePassword, Enrol, ShowPerson, SignIn, SignOut
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials

ASKED_FOR_S = 600
PLAIN_HTTP = (
    "People do not sign in here over plain HTTP, where passwords could be read on their way. The "
    "server needs a TLS proxy before it, and its address: interlock up --public-url https://…, "
    "with --proxy ADDRESS where it is on another machine."
)
CONTENT = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'self'"
)


class Visitors:
    def __init__(self, live: LiveNode, templates: Templates) -> None:
        self.live = live
        self._templates = templates
        self._attempts = Attempts()

    @property
    def passes(self) -> PersonPasses:
        """Under the workspace's key, so that every node of it knows them."""
        return PersonPasses(self.live.node.keys.derived(b"the pages of people"))

    def guarded(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint for people and our own pages. A refusal is a page too."""

        async def answer(request: Request) -> Response:
            try:
                if request.scope.get("interlock.base") is None:
                    raise NotFound(PLAIN_HTTP)
                if is_framed(request):
                    await self.live.report("FRAMED_PAGE", peer_of(request))
                    raise ForeignOrigin("This page is not shown within another one.")
                response = await endpoint(request)
            except Refusal as refusal:
                response = self.notice("Nothing was done", refusal.message, refusal.http)
            response.headers.setdefault("Content-Security-Policy", CONTENT)
            response.headers.update(HEADERS)
            return response

        return answer

    # --- pages

    def page(self, file: str, status: int = 200, **members: Any) -> Response:
        now = self.live.node.clock()
        return HTMLResponse(self._templates.page(file, now=now, **members), status)

    def notice(self, title: str, words: str, status: int) -> Response:
        """A page that only says something, wherever it is shown."""
        response = self.page("notice.html", status, title=title, words=legible(words))
        response.headers.update(HEADERS | {"Content-Security-Policy": CONTENT})
        return response

    def visitors_page(
        self, request: Request, file: str, status: int = 200, **members: Any
    ) -> Response:
        """A page with a form for whoever is not signed in."""
        passes = self.passes
        visit = passes.visit(request)
        response = self.page(file, status, form=passes.visitors_form(visit), **members)
        passes.keep_visit(request, response, visit)
        return response

    def sign_in_page(
        self,
        request: Request,
        asked: str | None = None,
        refusal: Refusal | None = None,
        name: str = "",
    ) -> Response:
        """`asked` is what a client wants, sealed, and is looked at after signing in."""
        wanted = self.opened(asked) if asked is not None else None
        return self.visitors_page(
            request,
            "person_sign_in.html",
            403 if isinstance(refusal, NotAllowed) else refusal.http if refusal else 200,
            title="Sign in",
            trouble=refusal.message if refusal else None,
            asked=asked if wanted else None,
            asking=asking(wanted) if wanted else None,
            username=legible(name),
        )

    def opened(self, asked: str) -> Answer | None:
        """What a client wants, unless it is none of ours, or too long ago."""
        return Seals(self.live.node.keys).opened("authorization", asked, ASKED_FOR_S)

    # --- who they are

    async def call(self, request: Request, act: Any) -> Answer:
        """An act of the person's who has signed in."""
        token = self.passes.token(request)
        if token is None:
            raise BadToken("Nobody is signed in here.")
        return await self.live.call(Credentials(token), act)

    async def person(self, request: Request) -> Answer | None:
        """The person who has signed in, and whom they may choose; None where nobody has."""
        try:
            return await self.call(request, ShowPerson())
        except NotAllowed:
            return None

    def refuse_strangers(self, request: Request, form: dict[str, str] | None) -> dict[str, str]:
        """The form, if it is the one that this browser was given by a page of its person's."""
        if form is None or not self.passes.is_form(request, form.get("form", "")):
            raise ForeignOrigin(STALE_FORM)
        return form

    # --- signing in and out

    async def sign_in(self, request: Request, name: str, password: str) -> Response:
        """The way in for a name and its password, or a refusal."""
        peer = peer_of(request)
        with self._attempts.trying(name, peer):
            proof = await self.proof(name, password)
            try:
                return await self._signed_in(request, SignIn(name, proof, ""))
            except BadToken:
                await self._failed(name, peer)
                raise

    async def change_password(self, request: Request, name: str, password: str, new: str) -> None:
        """Another password for whoever is signed in and knows the one before."""
        peer = peer_of(request)
        with self._attempts.trying(name, peer):
            proofs = [await self.proof(name, each) for each in (password, new)]
            try:
                await self.call(request, ChangePassword(*proofs))
            except BadToken:
                await self._failed(name, peer)
                raise

    async def _failed(self, name: str, peer: str) -> None:
        """Counts a wrong password; one that was tried as often as it may be is kept in the log."""
        if self._attempts.failed(name, peer):
            await self.live.report("GUESSED_PASSWORD", peer, person=name)
        else:
            self.live.intrusions["SIGN_IN_FAILED"] += 1

    async def enrol(self, request: Request, code: str, name: str, password: str) -> Response:
        proof = await self.proof(name, password)
        response = await self._signed_in(request, Enrol(code, proof, ""))
        self._attempts.forget(name)
        return response

    async def proof(self, name: str, password: str) -> str:
        return await run_in_threadpool(verifier, self.live.node.keys, name, password)

    async def _signed_in(self, request: Request, act: SignIn | Enrol) -> Response:
        token = token_format.compose(os.urandom(token_format.SECRET_BYTES))
        label = browser(request.headers.get("user-agent", ""))
        await self.live.call(
            Credentials(), act._replace(token_hash=token_format.hashed(token), label=label)
        )
        await self._end_session(request)
        response = RedirectResponse("/person", 303)
        self.passes.sign_in(request, response, token)
        return response

    async def sign_out(self, request: Request) -> Response:
        await self._end_session(request)
        response = RedirectResponse("/person", 303)
        self.passes.sign_out(request, response)
        return response

    async def _end_session(self, request: Request) -> None:
        """Ends what this browser was signed in with, if it was."""
        with suppress(NotAllowed):
            await self.call(request, SignOut())
