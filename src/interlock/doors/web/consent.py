"""Consent: a client asks to act for a person, who chooses its name and its scopes, or denies it.

The OAuth door seals the request of the client, with the address for the answer. So nothing of it
can be changed on the way, and no field of a form contains that address.
"""

import asyncio
import hmac
import re
from itertools import count
from urllib.parse import urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from interlock.doors.web.browsers import peer_of, posted
from interlock.doors.web.people import CONTENT_POLICY, MAX_FORM_BYTES, People, agents, asking
from interlock.errors import AlreadyDone, ForeignOrigin, Refusal, Usage
from interlock.rooms.identity import token_format
from interlock.rooms.identity.verbs import ListAgents
from interlock.rooms.people.verbs import GrantConnection, ListConnections
from interlock.verbs.addresses import NAME
from interlock.verbs.answers import Answer

EXPIRED = (
    "A client asked to be connected, and that was too long ago, or the address was changed on the "
    "way. Nothing was connected. Begin again in the client."
)
NO_SENDER_CHOSEN = "Choose whom this client shall act as; a new name has to be written out."
SCOPES = {
    "mail": "read and write messages under that name",
    "claim": "reserve items and files, so that nobody else changes them meanwhile",
    "work": "take tasks, hand in work, and give evidence for it",
}
MAX_SURFACE_LENGTH = 24
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_ORIGIN = re.compile(r"[a-z0-9.-]+(:[0-9]{1,5})?")


class Consent:
    def __init__(self, people: People) -> None:
        self._people = people

    async def ask(self, request: Request) -> Response:
        asked = request.query_params.get("request", "")
        wanted = self._people.opened(asked)
        if wanted is None:
            return self._people.notice("Begin again", EXPIRED, 410)
        return await self._page(request, asked, wanted)

    async def answer(self, request: Request) -> Response:
        people = self._people
        form = await posted(request, MAX_FORM_BYTES)
        asked = (form or {}).get("request", "")
        try:
            form = people.own_form(request, form)
        except ForeignOrigin:
            await people.live.report("FORGED_CONSENT", peer_of(request))
            raise
        wanted = people.opened(asked)
        if wanted is None:
            return people.notice("Begin again", EXPIRED, 410)
        if form.get("answer") != "allow":
            return _redirect(wanted, error="access_denied")
        try:
            code = await self._granted(request, wanted, form)
        except AlreadyDone as refusal:
            return people.notice("Begin again", refusal.message, refusal.http)
        except Refusal as refusal:
            people.live.intrusions[refusal.code] += 1
            return await self._page(request, asked, wanted, form, refusal)
        return _redirect(wanted, code=code)

    async def _granted(self, request: Request, wanted: Answer, form: dict[str, str]) -> str:
        """Return the code that opens the connection, once. It derives from the request and the
        choices, so a form that is sent twice, as by two clicks, gives the same code."""
        match form.get("sender", "").split():
            case ["new", agent] if surface := form.get(f"surface {agent}", "").strip():
                sender: tuple[str, str | None] = agent, surface
            case ["own", agent]:
                sender = agent, None
            case ["own", agent, surface]:
                sender = agent, surface
            case _:
                raise Usage(NO_SENDER_CHOSEN)
        person = await self._people.person(request)
        scopes = tuple(scope for scope in wanted["scopes"] if f"scope {scope}" in form)
        granted = (form["request"], person and person["person"], form["sender"], *sender, *scopes)
        secret = hmac.digest(
            self._people.live.node.keys.derived(b"codes"), repr(granted).encode(), "sha256"
        )
        code = token_format.code(
            secret[: token_format.SECRET_BYTES], redirected=wanted.get("redirected", True)
        )
        grant = GrantConnection(
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
        await self._people.call(request, grant)
        return code

    async def _page(
        self,
        request: Request,
        asked: str,
        wanted: Answer,
        form: dict[str, str] | None = None,
        refusal: Refusal | None = None,
    ) -> Response:
        """Ask the person; after a refusal again, with the form as they filled it in."""
        people = self._people
        person = await people.person(request)
        if person is None:
            return people.sign_in_page(request, asked)
        surface = surface_of(wanted["client_name"])
        known, acting = await asyncio.gather(
            people.call(request, ListAgents()), people.call(request, ListConnections())
        )
        offered = _choices(agents(person, known), acting["connections"], surface)
        response = people.page(
            "consent.html",
            refusal,
            title="Connect",
            form=people.cookies.form(request),
            request=asked,
            person=person["person"],
            asking=asking(wanted),
            agents=offered,
            chosen=form.get("sender") if form else _first_choice(offered, surface),
            scopes=[
                (scope, means, form is None or f"scope {scope}" in form)
                for scope, means in SCOPES.items()
                if scope in wanted["scopes"]
            ],
            filled=form or {},
            ends_at=f"{request.url.netloc}/person",
        )
        allowed = _form_action(wanted["redirect_uri"])
        response.headers["Content-Security-Policy"] = CONTENT_POLICY.replace(
            "form-action 'self'", f"form-action {allowed}"
        )
        return response


def _redirect(wanted: Answer, **members: str) -> Response:
    """Redirect to the client with the answer. `iss` says whose answer it is (RFC 9207)."""
    address, _, _ = wanted["redirect_uri"].partition("#")
    if "state" in wanted:
        members["state"] = wanted["state"]
    query = urlencode(members | {"iss": wanted["issuer"]})
    return RedirectResponse(f"{address}{'&' if '?' in address else '?'}{query}", 303)


def _form_action(redirect_uri: str) -> str:
    """Return the policy for the form of consent, which leads back to the client. Browsers apply it
    to the redirection after the form too."""
    address = urlsplit(redirect_uri)
    if not _SCHEME.fullmatch(address.scheme):
        return "'self'"
    if address.scheme not in ("https", "http") or address.netloc.startswith("["):
        # The policy cannot express a host such as [::1].
        return f"'self' {address.scheme}:"
    host = address.netloc.lower()
    return f"'self' {address.scheme}://{host}" if _ORIGIN.fullmatch(host) else "'self'"


def _choices(own: list[Answer], connections: list[Answer], surface: str) -> list[Answer]:
    """Return the agents with their choices. `value` is what the form sends, `connected` are the
    clients that use the name already, and `surface` is the proposal for a new one."""
    offered = []
    for agent in own:
        taken = [sender.get("surface") for sender in agent["senders"]]
        senders = [
            sender
            | {
                "value": " ".join(("own", agent["agent"], sender.get("surface", ""))).strip(),
                "connected": [c["name"] for c in connections if c["address"] == sender["address"]],
            }
            for sender in agent["senders"]
        ]
        fresh = (f"{surface}{number}" for number in count(2))
        new = surface if surface not in taken else next(s for s in fresh if s not in taken)
        offered.append(agent | {"senders": senders, "new": f"new {agent['agent']}", "surface": new})
    return offered


def _first_choice(offered: list[Answer], surface: str) -> str | None:
    """Return the proposal: the surface that is named after the client, if the person has only one
    agent. Among several, only the person knows."""
    own = [agent for agent in offered if not agent["is_person"]] or offered
    if len(own) != 1:
        return None
    (agent,) = own
    for sender in agent["senders"]:
        if sender.get("surface") == surface and not sender["connected"]:
            return str(sender["value"])
    return str(agent["new"])


def surface_of(client: str) -> str:
    """Propose the name of a surface, from the name that a client gives itself."""
    letters = "".join(c for c in client.lower() if c.isascii() and c.isalnum())
    short = letters.lstrip("0123456789")[:MAX_SURFACE_LENGTH]
    return short if re.fullmatch(NAME, short) else "connector"
