"""The pages of people: accept an invitation, sign in, and manage the clients that act for them.

These pages contain no script. Other sites link to them, so each page forbids framing, and accepts
a form only together with the cookie that the form was made for.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlencode, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from interlock.doors.web.browsers import (
    HEADERS,
    STALE_FORM,
    Endpoint,
    PersonCookies,
    is_framed,
    peer_of,
    posted,
)
from interlock.doors.web.rendering import Templates
from interlock.doors.web.views import REACH, face
from interlock.errors import (
    BadToken,
    ForeignOrigin,
    NotAllowed,
    NotFound,
    Refusal,
    TokenExpired,
    Usage,
)
from interlock.machine.hosts import is_loopback
from interlock.node.keys import Seals
from interlock.node.live import LiveNode
from interlock.node.passwords import SHORTEST, Attempts, refuse_weak, verifier
from interlock.rooms.identity import token_format
from interlock.rooms.identity.verbs import ListAgents
from interlock.rooms.people.verbs import (
    ChangePassword,
    Enrol,
    ListConnections,
    NameConnection,
    RevokeConnection,
    ShowInvitation,
    ShowPerson,
    SignIn,
    SignOut,
)
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials

CLIENT_REQUEST_TTL_S = 600
# A sign-in form can contain the sealed request of a client.
MAX_FORM_BYTES = 32 << 10
PLAIN_HTTP = (
    "This page is not available over plain HTTP, because others could read your password. Ask the "
    "owner of this server for an https address. The owner puts a TLS proxy in front of the server, "
    "and starts it with interlock up --public-url https://…. If the proxy is on another machine, "
    "the owner adds --proxy ADDRESS."
)
CONTENT_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'self'"
)
DONE = {
    "ended": "Access ended. The client, browser or machine can no longer act for you.",
    "named": "Connection renamed.",
    "password": "Password changed. You are signed out in all other browsers.",
    "joined": "Welcome. Next time, sign in with your name and your password.",
}
BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("Chrom", "Chrome"),
    ("CriOS/", "Chrome"),
    ("Safari/", "Safari"),
)
SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


class People:
    def __init__(self, live: LiveNode, templates: Templates) -> None:
        self.live = live
        self._templates = templates
        self._attempts = Attempts()

    @property
    def cookies(self) -> PersonCookies:
        """The cookies under a key of the workspace, so that every node can read them."""
        return PersonCookies(self.live.node.keys.derived(b"the pages of people"))

    def guarded(self, endpoint: Endpoint) -> Endpoint:
        """Return the endpoint with our security headers. It refuses plain HTTP and frames, and
        shows each refusal as a page."""

        async def answer(request: Request) -> Response:
            try:
                if request.scope.get("interlock.base") is None:
                    raise NotFound(PLAIN_HTTP)
                if is_framed(request):
                    await self.live.report("FRAMED_PAGE", peer_of(request))
                    raise ForeignOrigin(
                        "This page cannot be shown inside another page. Open it in its own window."
                    )
                response = await endpoint(request)
            except Refusal as refusal:
                response = self.notice("Request refused", refusal.message, refusal.http)
            response.headers.setdefault("Content-Security-Policy", CONTENT_POLICY)
            response.headers.update(HEADERS)
            return response

        return answer

    # --- pages

    def page(self, file: str, refusal: Refusal | None = None, **members: Any) -> Response:
        """Render a page. After a refusal, the page has its message and its HTTP status."""
        trouble = refusal.message if refusal else None
        now = self.live.node.clock()
        page = self._templates.page(file, now=now, trouble=trouble, **members)
        return HTMLResponse(page, refusal.http if refusal else 200)

    def notice(self, title: str, words: str, status: int) -> Response:
        """Return a page with only a message. It has all headers, because other doors call this
        without `guarded`."""
        response = self.page("notice.html", title=title, words=words)
        response.status_code = status
        response.headers.update(HEADERS | {"Content-Security-Policy": CONTENT_POLICY})
        return response

    def _visitors_page(
        self, request: Request, file: str, refusal: Refusal | None, **members: Any
    ) -> Response:
        """Return a page with a form for a browser that is not signed in."""
        visit = self.cookies.visit(request)
        form = self.cookies.visitors_form(visit)
        response = self.page(file, refusal, form=form, **members)
        self.cookies.keep_visit(request, response, visit)
        return response

    def sign_in_page(
        self,
        request: Request,
        asked: str | None = None,
        refusal: Refusal | None = None,
        name: str = "",
    ) -> Response:
        """Return the sign-in page. `asked` is the sealed request of a client, which the person
        answers after the sign-in."""
        wanted = self.opened(asked) if asked is not None else None
        response = self._visitors_page(
            request,
            "person_sign_in.html",
            refusal,
            title="Sign in",
            asked=asked if wanted else None,
            asking=asking(wanted) if wanted else None,
            username=name,
        )
        if isinstance(refusal, NotAllowed):
            response.status_code = 403
        return response

    def opened(self, asked: str) -> Answer | None:
        """Return a client's request from its seal, or None if the seal is not valid or has
        expired."""
        return Seals(self.live.node.keys).opened("authorization", asked, CLIENT_REQUEST_TTL_S)

    async def overview(self, request: Request, refusal: Refusal | None = None) -> Response:
        """Show a person's connections, agents, signed-in browsers and tokens."""
        person = await self.person(request)
        if person is None:
            return self.sign_in_page(request)
        known, acting = await asyncio.gather(
            self.call(request, ListAgents()), self.call(request, ListConnections())
        )
        response = self.page(
            "person.html",
            refusal,
            shortest=SHORTEST,
            title=person["person"],
            form=self.cookies.form(request),
            person=person["person"],
            agents=agents(person, known),
            connections=acting["connections"],
            sessions=acting["sessions"],
            tokens=acting["tokens"],
            done=DONE.get(request.query_params.get("done", "")),
            address=f"{request.scope['interlock.base']}/mcp",
        )
        if isinstance(refusal, NotAllowed):
            response.status_code = 403
        return response

    async def to_overview(self, request: Request) -> Response:
        return RedirectResponse("/person", 303)

    # --- the signed-in person

    async def call(self, request: Request, verb: Any) -> Answer:
        """Call a verb as the signed-in person. Raise `BadToken` if no person is signed in."""
        token = self.cookies.token(request)
        if token is None:
            raise BadToken("No person is signed in. Sign in at /person.")
        return await self.live.call(Credentials(token), verb)

    async def person(self, request: Request) -> Answer | None:
        """Return the signed-in person and their agents, or None if no person is signed in."""
        try:
            return await self.call(request, ShowPerson())
        except NotAllowed:
            return None

    def own_form(self, request: Request, form: dict[str, str] | None) -> dict[str, str]:
        """Return the form. Raise `ForeignOrigin` unless its token matches the browser's session
        cookie."""
        if form is None or not self.cookies.is_form(request, form.get("form", "")):
            raise ForeignOrigin(STALE_FORM)
        return form

    def _visitors_form(self, request: Request, form: dict[str, str] | None) -> dict[str, str]:
        """Return the form. Raise `ForeignOrigin` unless its token matches the browser's visit
        cookie."""
        if form is None or not self.cookies.is_visitors_form(request, form.get("form", "")):
            raise ForeignOrigin(STALE_FORM)
        return form

    # --- invitations

    async def invitation(self, request: Request) -> Response:
        """Show or accept an invitation. Showing it does not use it up, because programs that
        preview links open it too."""
        form = await posted(request, MAX_FORM_BYTES) if request.method == "POST" else None
        code = request.path_params["code"]
        try:
            found = await self.live.call(Credentials(), ShowInvitation(code))
        except (BadToken, TokenExpired) as refusal:
            status = 410 if isinstance(refusal, TokenExpired) else 404
            return self.notice("This invitation is not valid", refusal.message, status)
        refused = None
        if request.method == "POST":
            try:
                name = found["name"]
                password = _new_password(name, self._visitors_form(request, form))
                proof = await self._proof(name, password)
                response = await self._signed_in(request, Enrol(code, proof, ""))
                self._attempts.forget(name)
                response.headers["Location"] = "/person?done=joined"
                return response
            except Refusal as refusal:
                refused = refusal
        return self._visitors_page(
            request,
            "invitation.html",
            refused,
            title="You are invited",
            invitation=found,
            link=str(request.url.replace(query="", fragment="")),
            host=request.url.netloc,
            shortest=SHORTEST,
        )

    # --- signing in and out

    async def sign_in(self, request: Request) -> Response:
        form = await posted(request, MAX_FORM_BYTES) or {}
        asked = form.get("request")
        name = form.get("username", "").strip().removeprefix("@")
        try:
            self._visitors_form(request, form)
            async with self._attempt(request, name):
                proof = await self._proof(name, form.get("password", ""))
                response = await self._signed_in(request, SignIn(name, proof, ""))
        except Refusal as refusal:
            return self.sign_in_page(request, asked, refusal, name)
        return _back_to_consent(response, asked)

    async def sign_out(self, request: Request) -> Response:
        form = self.own_form(request, await posted(request, MAX_FORM_BYTES))
        with suppress(NotAllowed):
            await self.call(request, SignOut())
        response = RedirectResponse("/person", 303)
        self.cookies.sign_out(request, response)
        return _back_to_consent(response, form.get("request"))

    async def change_password(self, request: Request) -> Response:
        form = self.own_form(request, await posted(request))
        person = await self.person(request)
        if person is None:
            return self.sign_in_page(request)
        name = person["person"].removeprefix("@")
        try:
            new = _new_password(name, form)
            async with self._attempt(request, name):
                proofs = [await self._proof(name, each) for each in (form.get("current", ""), new)]
                await self.call(request, ChangePassword(*proofs))
        except Refusal as refusal:
            return await self.overview(request, refusal)
        return RedirectResponse("/person?done=password", 303)

    async def _proof(self, name: str, password: str) -> str:
        return await run_in_threadpool(verifier, self.live.node.keys, name, password)

    @asynccontextmanager
    async def _attempt(self, request: Request, name: str) -> AsyncIterator[None]:
        """Limit password attempts, and count wrong passwords. After too many wrong ones, the log
        records `GUESSED_PASSWORD`."""
        peer = peer_of(request)
        with self._attempts.trying(name, peer):
            try:
                yield
            except BadToken:
                if self._attempts.failed(name, peer):
                    await self.live.report("GUESSED_PASSWORD", peer, person=name)
                else:
                    self.live.intrusions["SIGN_IN_FAILED"] += 1
                raise

    async def _signed_in(self, request: Request, verb: SignIn | Enrol) -> Response:
        """Sign the person in with a new token, and end the browser's previous session."""
        token = token_format.compose(os.urandom(token_format.SECRET_BYTES))
        label = browser(request.headers.get("user-agent", ""))
        await self.live.call(
            Credentials(), verb._replace(token_hash=token_format.hashed(token), label=label)
        )
        with suppress(NotAllowed):
            await self.call(request, SignOut())
        response = RedirectResponse("/person", 303)
        self.cookies.sign_in(request, response, token)
        return response

    # --- connections, sessions and tokens

    async def revoke(self, request: Request) -> Response:
        self.own_form(request, await posted(request))
        return await self._do(request, RevokeConnection(request.path_params["id"]), "ended")

    async def rename(self, request: Request) -> Response:
        form = self.own_form(request, await posted(request))
        verb = NameConnection(request.path_params["id"], form.get("name", "").strip())
        return await self._do(request, verb, "named")

    async def _do(
        self, request: Request, verb: RevokeConnection | NameConnection, done: str
    ) -> Response:
        try:
            await self.call(request, verb)
        except NotAllowed:
            return self.sign_in_page(request)
        return RedirectResponse(f"/person?done={done}", 303)


def _new_password(name: str, form: dict[str, str]) -> str:
    """Return the new password of a form. Raise `Usage` if it is weak, or if the person typed two
    different ones."""
    password = form.get("password", "")
    refuse_weak(name, password)
    if form.get("again", "") != password:
        raise Usage("The two passwords differ. Type the same password in both fields.")
    return password


def _back_to_consent(response: Response, asked: str | None) -> Response:
    """Redirect to the consent page, if the person came from it."""
    if asked is not None:
        response.headers["Location"] = "/consent?" + urlencode({"request": asked})
    return response


def browser(agent: str) -> str:
    """Return the common name of a browser and its operating system, from its User-Agent."""
    name = next((name for mark, name in BROWSERS if mark in agent), "A browser")
    system = next((name for mark, name in SYSTEMS if mark in agent), None)
    return f"{name} on {system}" if system else name


def asking(wanted: Answer) -> Answer:
    """Return the name that a client gives itself, and the destination of the answer. The person
    should judge by the destination, because any client can take any name."""
    address = urlsplit(wanted["redirect_uri"])
    where = "host"
    if address.scheme not in ("https", "http"):
        where = "scheme"
    elif is_loopback(address.hostname or ""):
        where = "here"
    return {
        "name": wanted["client_name"],
        "where": where,
        "host": address.netloc.rpartition("@")[2],
        "scheme": address.scheme,
        "publisher": urlsplit(wanted["client"]).netloc,
        "everything": not wanted["resource"].endswith("/mcp"),
    }


def agents(person: Answer, known: Answer) -> list[Answer]:
    """Return the person and their agents, each with its senders and their reach."""
    reached = {agent["address"]: agent for agent in known["agents"]}
    return [
        {
            "agent": own["agent"],
            "is_person": "@" + own["agent"] == person["person"],
            "senders": [
                reached[address] | face(address) | {"reach_means": REACH[reached[address]["reach"]]}
                for address in own["senders"]
                if address in reached
            ],
        }
        for own in person["agents"]
    ]
