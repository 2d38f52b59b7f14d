"""The consent page: a client asks to act for a person. The person chooses the client's sender and
scopes, or denies the request.

The OAuth door seals the client's request together with the redirect address. A browser therefore
cannot change them, and no form field contains that address as plain text.
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

START_AGAIN = "Start again in the client"
EXPIRED = (
    "The client's request has expired, or its link is incomplete. Interlock connected nothing. "
    "Go back to the client and connect again."
)
NO_SENDER_CHOSEN = (
    "Choose the name that the client acts as. If you choose a new name, fill in the field next to "
    "it."
)
SCOPES = {
    "mail": "read and send messages under this name",
    "claim": "claim items and files, so that other agents do not change them at the same time",
    "work": "take tasks, submit work, and add evidence",
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
            return self._people.notice(START_AGAIN, EXPIRED, 410)
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
            return people.notice(START_AGAIN, EXPIRED, 410)
        if form.get("answer") != "allow":
            return _redirect(wanted, error="access_denied")
        try:
            code = await self._granted(request, wanted, form)
        except AlreadyDone as refusal:
            return people.notice(START_AGAIN, refusal.message, refusal.http)
        except Refusal as refusal:
            people.live.intrusions[refusal.code] += 1
            return await self._page(request, asked, wanted, form, refusal)
        return _redirect(wanted, code=code)

    async def _granted(self, request: Request, wanted: Answer, form: dict[str, str]) -> str:
        """Grant the connection, and return its authorization code, which works once. The code
        derives from the request and the choices, so a double click gives the same code twice."""
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
        """Return the consent page, or the sign-in page if no person is signed in. After a refusal,
        the form keeps the person's choices."""
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
    """Redirect to the client with the answer. `iss` names the server that answers (RFC 9207)."""
    address, _, _ = wanted["redirect_uri"].partition("#")
    if "state" in wanted:
        members["state"] = wanted["state"]
    query = urlencode(members | {"iss": wanted["issuer"]})
    return RedirectResponse(f"{address}{'&' if '?' in address else '?'}{query}", 303)


def _form_action(redirect_uri: str) -> str:
    """Return the `form-action` policy of the consent page. It allows the client's address, because
    browsers also apply the policy to the redirect after the form."""
    address = urlsplit(redirect_uri)
    if not _SCHEME.fullmatch(address.scheme):
        return "'self'"
    if address.scheme not in ("https", "http") or address.netloc.startswith("["):
        # The policy cannot express a host such as [::1].
        return f"'self' {address.scheme}:"
    host = address.netloc.lower()
    return f"'self' {address.scheme}://{host}" if _ORIGIN.fullmatch(host) else "'self'"


def _choices(own: list[Answer], connections: list[Answer], surface: str) -> list[Answer]:
    """Return the agents with the choices of the form. `value` is the value that the form sends.
    `connected` lists the connections that already use the sender. `surface` is the suggestion for
    a new surface."""
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
    """Return the preselected choice: the surface that is named after the client. If the person has
    several agents, return None, because only the person knows which one to use."""
    own = [agent for agent in offered if not agent["is_person"]] or offered
    if len(own) != 1:
        return None
    (agent,) = own
    for sender in agent["senders"]:
        if sender.get("surface") == surface and not sender["connected"]:
            return str(sender["value"])
    return str(agent["new"])


def surface_of(client: str) -> str:
    """Return a surface name that is derived from the client's own name."""
    letters = "".join(c for c in client.lower() if c.isascii() and c.isalnum())
    short = letters.lstrip("0123456789")[:MAX_SURFACE_LENGTH]
    return short if re.fullmatch(NAME, short) else "connector"
