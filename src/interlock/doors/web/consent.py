"""Consent: a client asks to act for a person, who says as whom and how far, or no.

What the client asked for comes sealed from the door that heard it, so that nothing of it can be
changed on the way; where the answer goes is in there too, and in no field of a form.
"""

import asyncio
import hmac

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from interlock.doors.web import person_views as views
from interlock.doors.web.people import MAX_FORM_BYTES
from interlock.doors.web.visitors import CONTENT, Visitors
from interlock.doors.web.visits import peer_of, posted
from interlock.errors import AlreadyDone, ForeignOrigin, Refusal, Usage
from interlock.rooms.identity import token_format
from interlock.rooms.identity.verbs import ListAgents
from interlock.rooms.people.verbs import GrantConnection, ListConnections
from interlock.verbs.answers import Answer

EXPIRED = (
    "A client asked to be connected, and that was too long ago, or the address was changed on the "
    "way. Nothing was connected. Begin again in the client."
)
NOBODY_CHOSEN = "Choose whom this client shall act as; a new name has to be written out."


class Consent:
    def __init__(self, visitors: Visitors) -> None:
        self._visitors = visitors

    async def ask(self, request: Request) -> Response:
        asked = request.query_params.get("request", "")
        wanted = self._visitors.opened(asked)
        if wanted is None:
            return self._expired()
        return await self._page(request, asked, wanted)

    async def answer(self, request: Request) -> Response:
        form = await posted(request, MAX_FORM_BYTES)
        asked = (form or {}).get("request", "")
        try:
            form = self._visitors.refuse_strangers(request, form)
        except ForeignOrigin:
            await self._visitors.live.report("FORGED_CONSENT", peer_of(request))
            raise
        wanted = self._visitors.opened(asked)
        if wanted is None:
            return self._expired()
        if form.get("answer") != "allow":
            return _back(wanted, error="access_denied")
        try:
            code = await self._granted(request, wanted, form)
        except AlreadyDone as refusal:
            return self._visitors.notice("Begin again", refusal.message, refusal.http)
        except Refusal as refusal:
            self._visitors.live.intrusions[refusal.code] += 1
            return await self._page(request, asked, wanted, form, refusal)
        return _back(wanted, code=code)

    async def _granted(self, request: Request, wanted: Answer, form: dict[str, str]) -> str:
        """The code that opens the connection, once. A form that is sent twice, as by two clicks,
        gives the same: it is made of what was asked and what was chosen."""
        sender = views.chosen(form)
        if sender is None:
            raise Usage(NOBODY_CHOSEN)
        person = await self._visitors.person(request)
        scopes = tuple(scope for scope in wanted["scopes"] if f"scope {scope}" in form)
        said = (form["request"], person and person["person"], form["sender"], *sender, *scopes)
        secret = hmac.digest(
            self._visitors.live.node.keys.derived(b"codes"), repr(said).encode(), "sha256"
        )
        code = token_format.code(
            secret[: token_format.SECRET_BYTES], redirected=wanted.get("redirected", True)
        )
        act = GrantConnection(
            *sender,
            scopes=scopes,
            client=wanted["client"],
            client_name=wanted["client_name"],
            resource=wanted["resource"],
            redirect_uri=wanted["redirect_uri"],
            challenge=wanted["challenge"],
            code_hash=token_format.hashed(code),
            name=form.get("name", "").strip() or None,
            new=form["sender"].startswith("new "),
        )
        await self._visitors.call(request, act)
        return code

    async def _page(
        self,
        request: Request,
        asked: str,
        wanted: Answer,
        form: dict[str, str] | None = None,
        refusal: Refusal | None = None,
    ) -> Response:
        """Asks the person; again with what they had filled in, where that was refused."""
        person = await self._visitors.person(request)
        if person is None:
            return self._visitors.sign_in_page(request, asked)
        surface = views.surface_of(wanted["client_name"])
        offered = await self._offered(request, person, surface)
        response = self._visitors.page(
            "consent.html",
            refusal.http if refusal else 200,
            title="Connect",
            form=self._visitors.passes.form(request),
            request=asked,
            person=person["person"],
            asking=views.asking(wanted),
            agents=offered,
            chosen=form.get("sender") if form else views.first_choice(offered, surface),
            scopes=[
                (scope, means, form is None or f"scope {scope}" in form)
                for scope, means in views.SCOPES.items()
                if scope in wanted["scopes"]
            ],
            filled=form or {},
            ends_at=f"{request.url.netloc}/person",
            trouble=refusal.message if refusal else None,
        )
        allowed = views.form_action(wanted["redirect_uri"])
        response.headers["Content-Security-Policy"] = CONTENT.replace(
            "form-action 'self'", f"form-action {allowed}"
        )
        return response

    async def _offered(self, request: Request, person: Answer, surface: str) -> list[Answer]:
        call = self._visitors.call
        known, acting = await asyncio.gather(
            call(request, ListAgents()), call(request, ListConnections())
        )
        return views.choices(views.agents(person, known), acting["connections"], surface)

    def _expired(self) -> Response:
        return self._visitors.notice("Begin again", EXPIRED, 410)


def _back(wanted: Answer, **answer: str) -> Response:
    return RedirectResponse(views.answered(wanted, **answer), 303)
