"""The pages where people join, sign in, consent and see what acts for them, asked without a browser
and by somebody who may mean no good. test_people_browsing.py looks at them."""

import base64
import os
import re
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from cryptography.fernet import Fernet
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from interlock.doors.http import Guard
from interlock.doors.http.metrics import Metrics
from interlock.doors.web import consent, people, routes
from interlock.node import Node, passwords
from interlock.node.keys import Seals
from interlock.node.live import LiveNode
from interlock.node.passwords import TRIES
from interlock.rooms.identity.token_format import hashed
from interlock.rooms.identity.verbs import Join
from interlock.rooms.people.verbs import FindGrant, Invite, ListConnections, RevokeConnection
from interlock.verbs.credentials import Credentials
from world.browsing import (
    HOSTILE,
    Reply,
    Web,
    ask,
    fresh_token,
    running,
)
from world.browsing import serving as unguarded
from world.commandline import Place, until

pytestmark = pytest.mark.long

OWNER = Credentials(owner=True)
PASSWORD = "a quiet meadow at noon"
OUTSIDE = "https://interlock.example"
FORM = re.compile(r'name="form" value="([0-9a-f]{64})"')
LASTS_S = 30 * 86_400


class Guarded(Starlette):
    """An application that is asked through the server's guard."""

    guard: Guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self.guard(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


class Town(NamedTuple):
    """A served workspace, and its node."""

    web: Web
    node: Node

    @property
    def url(self) -> str:
        return self.web.url

    def invite(self, name: str, *own: str, surface: str | None = None, ttl_s: int = 600) -> str:
        """The path of an invitation."""
        return str(self.node.call(OWNER, Invite(name, surface, own, ttl_s=ttl_s))["path"])

    def asked(self, **members: Any) -> str:
        """The path to which a client leads that wants to be connected."""
        wanted = {
            "client": "reg_somebody",
            "client_name": "Claude.ai",
            "redirect_uri": "https://client.example/callback",
            "state": "a state & more",
            "challenge": "c" * 43,
            "resource": f"{self.url}/mcp",
            "scopes": ["mail", "claim", "work"],
            "issuer": self.url,
        }
        sealed = Seals(self.node.keys).seal("authorization", wanted | members)
        return f"/consent?request={sealed}"

    def connections(self) -> list[Any]:
        found: list[Any] = self.node.call(OWNER, ListConnections())["connections"]
        return found

    def sessions(self) -> list[Any]:
        found: list[Any] = self.node.call(OWNER, ListConnections())["sessions"]
        return found

    def refusals(self) -> list[str]:
        """The codes of what was refused, as the log has them."""
        found = self.node.events(0, 1000)
        return [event.data["code"] for event in found if event.kind == "request_refused"]


@contextmanager
def serving(place: Place, key: bytes) -> Iterator[Town]:
    place.workspace.mkdir(exist_ok=True)
    nodes: list[Node] = []

    @asynccontextmanager
    async def lifespan(app: Guarded) -> AsyncIterator[None]:
        with Node(str(place.workspace)) as node:
            async with LiveNode(node) as live:
                app.router.routes += routes(live, owner=fresh_token().__eq__, key=key)
                app.guard = Guard(app.router, Metrics(), loopback=True, outside=OUTSIDE)
                nodes.append(node)
                yield

    with running(Guarded(lifespan=lifespan)) as port:
        yield Town(Web(place, "", key, port), nodes[0])


@pytest.fixture
def town(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Town]:
    monkeypatch.setattr(passwords, "MEMORY_KIB", 64)  # nobody guesses here
    with serving(Place(tmp_path), os.urandom(32)) as town:
        yield town


class Visitor:
    """Somebody with cookies and without a browser, who fills in forms."""

    def __init__(self, town: Town) -> None:
        self._town = town
        self.jar: dict[str, str] = {}

    def get(self, path: str, **headers: str) -> Reply:
        return self._kept(ask(self._town.web, path, "GET", None, Cookie=self._cookie(), **headers))

    def post(self, path: str, fields: dict[str, str], **headers: str) -> Reply:
        cookie = self._cookie()
        return self._kept(ask(self._town.web, path, "POST", fields, Cookie=cookie, **headers))

    def fill(self, page: str, path: str, fields: dict[str, str]) -> Reply:
        """Posts a form of a page, with its token."""
        return self.post(path, {"form": form_of(self.get(page)), **fields})

    def _cookie(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self.jar.items())

    def _kept(self, reply: Reply) -> Reply:
        for line in reply.headers.get_all("set-cookie") or []:
            name, _, value = line.partition(";")[0].partition("=")
            if value.strip('"'):
                self.jar[name] = value
            else:
                self.jar.pop(name, None)
        return reply

    # --- what people do

    def join(self, path: str, password: str = PASSWORD) -> Reply:
        return self.fill(path, path, {"password": password, "again": password})

    def sign_in(self, name: str, password: str = PASSWORD, **fields: str) -> Reply:
        typed = {"username": name, "password": password, **fields}
        return self.fill("/person", "/person/sign-in", typed)

    def answer(self, page: str, **fields: str) -> Reply:
        """Answers a client that asks."""
        sealed = page.partition("request=")[2]
        given = {name.replace("_", " "): value for name, value in fields.items()}
        return self.fill(page, "/consent", {"request": sealed, "answer": "allow", **given})


def form_of(reply: Reply) -> str:
    found = FORM.search(reply.text)
    assert found, reply
    return found[1]


def joined(town: Town, name: str, *own: str) -> Visitor:
    visitor = Visitor(town)
    assert visitor.join(town.invite(name, *own)).status == 303
    return visitor


def told(reply: Reply) -> dict[str, str]:
    """What an answer that leads back to a client tells it."""
    assert reply.status == 303, reply
    return {name: value for name, (value,) in parse_qs(urlsplit(_location(reply)).query).items()}


def _location(reply: Reply) -> str:
    return reply.headers["location"]


# --- invitations


def test_looking_at_an_invitation_never_uses_it_up(town: Town) -> None:
    path = town.invite("anna", "otto")
    for method in ("GET", "HEAD", "GET"):
        assert ask(town.web, path, method).status == 200
    shown = Visitor(town).get(path).text
    for words in ("The owner of this server", "@anna", "@otto", 'autocomplete="new-password"'):
        assert words in shown
    assert Visitor(town).join(path).status == 303


def test_an_invitation_that_was_used_is_gone_and_the_page_says_what_to_do(town: Town) -> None:
    path = town.invite("anna")
    Visitor(town).join(path)
    for reply in (ask(town.web, path), Visitor(town).post(path, {"password": PASSWORD})):
        assert reply.status == 404
        assert "This invitation was used" in reply.text
        assert "ask for another" in reply.text


def test_an_unknown_invitation_is_no_good(town: Town) -> None:
    for path in ("/invite/ili_nothing", "/invite/x", "/invite/" + "y" * 300, "/invite/%00%0a"):
        reply = ask(town.web, path)
        assert reply.status == 404, path
        assert "no good" in reply.text


def test_an_invitation_expires(town: Town) -> None:
    path = town.invite("anna", ttl_s=1)
    until(lambda: ask(town.web, path).status == 410)
    assert "expired" in ask(town.web, path).text


def test_an_agent_on_another_machine_is_told_the_command(town: Town) -> None:
    town.node.call(OWNER, Join("otto"))
    path = town.invite("otto", surface="laptop")
    shown = ask(town.web, path)
    assert f"interlock join {town.url}{path}" in shown.text
    assert "@otto-laptop" in shown.text
    assert 'type="password"' not in shown.text
    reply = Visitor(town).fill("/person", path, {"password": PASSWORD, "again": PASSWORD})
    assert reply.status == 400
    assert "is for another machine" in reply.text
    assert town.sessions() == []


@pytest.mark.parametrize(
    ("password", "again", "said"),
    [
        ("short", "short", "at least 12 characters"),
        ("aaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaa", "easily guessed"),
        (PASSWORD, PASSWORD + "!", "not the same"),
        ("", "", "at least 12 characters"),
    ],
)
def test_a_password_that_is_weak_or_mistyped_leaves_the_invitation_good(
    town: Town, password: str, again: str, said: str
) -> None:
    path, visitor = town.invite("anna"), Visitor(town)
    reply = visitor.fill(path, path, {"password": password, "again": again})
    assert reply.status == 400
    assert said in reply.text
    assert town.sessions() == []
    assert visitor.join(path).status == 303


def test_who_joins_is_signed_in_with_a_token_that_is_listed_and_kept_by_the_browser_alone(
    town: Town,
) -> None:
    visitor = Visitor(town)
    reply = visitor.join(town.invite("anna"))
    assert _location(reply) == "/person?done=joined"
    (line,) = (c for c in reply.headers.get_all("set-cookie") or [] if "interlock_person" in c)
    token = line.partition(";")[0].partition("=")[2]
    flags = {flag.strip().lower() for flag in line.split(";")[1:]}
    assert flags >= {"httponly", "samesite=lax", "path=/", f"max-age={LASTS_S}"}
    assert "secure" not in flags
    assert "domain" not in line.lower()
    (session,) = town.sessions()
    assert session["person"] == "@anna"
    assert session["id"] == "tok_" + hashed(token)[:12]
    page = visitor.get("/person?done=joined")
    assert "Welcome" in page.text
    assert token not in page.text


def test_the_cookie_goes_over_https_only_where_it_was_given_there(town: Town) -> None:
    visitor, path = Visitor(town), town.invite("anna")
    outside = {"Host": "interlock.example", "Origin": OUTSIDE}
    page = visitor.get(path, **outside)
    assert f"interlock join {OUTSIDE}{path}" in page.text
    fields = {"form": form_of(page), "password": PASSWORD, "again": PASSWORD}
    reply = visitor.post(path, fields, **outside)
    assert reply.status == 303
    kept = [c for c in reply.headers.get_all("set-cookie") or [] if "Max-Age=0" not in c]
    assert kept
    assert all("secure" in line.lower() for line in kept)


def test_a_new_password_signs_the_others_out(town: Town) -> None:
    first, second = joined(town, "anna"), Visitor(town)
    path = town.invite("anna")
    assert "signs you out everywhere else" in second.get(path).text
    assert second.join(path, PASSWORD + "!").status == 303
    assert "@anna" in second.get("/person").text
    assert "Sign in" in first.get("/person").text
    assert first.sign_in("anna").status == 403
    assert first.sign_in("anna", PASSWORD + "!").status == 303


# --- signing in and out


def test_only_a_name_with_its_password_signs_in(town: Town) -> None:
    joined(town, "anna")
    joined(town, "bert")
    for name, password in (
        ("anna", PASSWORD + "."),
        ("anna", ""),
        ("", PASSWORD),
        ("carl", PASSWORD),
        (HOSTILE, HOSTILE),
        ("anna" * 200, "x" * 5000),
    ):
        visitor = Visitor(town)
        reply = visitor.sign_in(name, password)
        assert reply.status == 403, name
        assert "not the name and the password of anybody" in reply.text
        assert "<script" not in reply.text
        assert not any("person" in name for name in visitor.jar)
    assert Visitor(town).sign_in("@anna").status == 303


def test_guessing_a_password_is_soon_over_and_no_faster_all_at_once(town: Town) -> None:
    joined(town, "anna")
    joined(town, "bert")
    guesses = [f"a wrong password {number}" for number in range(TRIES + 5)]
    with ThreadPoolExecutor(len(guesses)) as crowd:
        replies = list(crowd.map(lambda guess: Visitor(town).sign_in("anna", guess), guesses))
    assert sorted(reply.status for reply in replies) == [403] * TRIES + [429] * 5
    late = Visitor(town).sign_in("anna")
    assert late.status == 429
    assert "Wait" in late.text
    assert Visitor(town).sign_in("bert").status == 303


def test_signing_out_ends_the_token_and_not_only_the_cookie(town: Town) -> None:
    visitor = joined(town, "anna")
    stolen = dict(visitor.jar)
    assert visitor.fill("/person", "/person/sign-out", {}).status == 303
    assert not any("person" in name for name in visitor.jar)
    assert town.sessions() == []
    visitor.jar = stolen
    assert "Where you are signed in" not in visitor.get("/person").text


def test_signing_in_again_ends_what_the_browser_had_before(town: Town) -> None:
    visitor = joined(town, "anna")
    visitor.join(town.invite("bert"))
    assert [session["person"] for session in town.sessions()] == ["@bert"]
    assert "@bert" in visitor.get("/person").text


def test_a_token_that_is_no_persons_opens_no_page(town: Town) -> None:
    visitor = joined(town, "anna")
    (name,) = (name for name in visitor.jar if "person" in name)
    agents = str(town.node.call(OWNER, Join("otto"))["token"])
    for token in (agents, "nonsense", fresh_token(), "ilk_cut"):
        visitor.jar[name] = token
        reply = visitor.get("/person")
        assert reply.status == 200
        assert "current-password" in reply.text
        assert "@otto" not in reply.text


def test_two_workspaces_on_one_machine_keep_their_people_apart(tmp_path: Path) -> None:
    places = [tmp_path / "one", tmp_path / "two"]
    for place in places:
        place.mkdir()
    key = os.urandom(32)
    with serving(Place(places[0]), key) as one, serving(Place(places[1]), key) as two:
        first, second = joined(one, "anna"), joined(two, "anna")
        assert not first.jar.keys() & second.jar.keys()


# --- forms, frames and other sites


POSTS = (
    "/person/sign-out",
    "/person/connections/{id}/revoke",
    "/person/connections/{id}/name",
    "/consent",
)


@pytest.mark.parametrize("path", POSTS)
def test_a_form_is_obeyed_only_with_the_token_of_its_own_cookie(town: Town, path: str) -> None:
    anna, bert = joined(town, "anna"), joined(town, "bert")
    assert told(anna.answer(town.asked(), sender="own anna", scope_mail="on"))["code"]
    (connection,) = town.connections()
    asked = town.asked().partition("request=")[2]
    fields = {"name": "Taken", "request": asked, "answer": "allow", "sender": "own anna"}
    fields["scope mail"] = "on"
    strangers = form_of(Visitor(town).get("/person"))
    for form in ({}, {"form": form_of(bert.get("/person"))}, {"form": strangers}, {"form": "é"}):
        reply = anna.post(path.format(id=connection["id"]), fields | form)
        assert reply.status == 403
        assert "nothing was done" in reply.text
    assert town.connections() == [connection]
    assert len(town.sessions()) == 2
    assert ("FORGED_CONSENT" in town.refusals()) == (path == "/consent")


def test_joining_and_signing_in_need_the_form_and_the_cookie_that_came_with_it(town: Town) -> None:
    joined(town, "anna")
    path = town.invite("bert")
    typed = {"username": "anna", "password": PASSWORD, "again": PASSWORD}
    for target, page in ((path, path), ("/person/sign-in", "/person")):
        form = form_of(Visitor(town).get(page))
        for fields in (typed, typed | {"form": form}):
            for visitor in (Visitor(town), _who_looked_at(town, page)):
                assert visitor.post(target, fields).status == 403
                assert not any("person" in name for name in visitor.jar)
    assert [session["person"] for session in town.sessions()] == ["@anna"]


def _who_looked_at(town: Town, page: str) -> Visitor:
    visitor = Visitor(town)
    assert form_of(visitor.get(page))
    return visitor


def test_without_the_guard_nobody_signs_in(tmp_path: Path) -> None:
    """The guard is what knows whether passwords could be read on their way."""
    with unguarded(Place(tmp_path), fresh_token(), os.urandom(32)) as web:
        for path in ("/person", "/consent", "/invite/x"):
            reply = ask(web, path, Origin=web.url)
            assert reply.status == 404
            assert "plain HTTP" in reply.text


def test_a_foreign_origin_gets_nothing(town: Town) -> None:
    visitor = joined(town, "anna")
    form = form_of(visitor.get("/person"))
    for path in ("/person", town.invite("bert"), town.asked()):
        reply = visitor.get(path, Origin="https://evil.example")
        assert reply.status == 403
        assert "anna" not in reply.text
    for path in ("/person/sign-out", "/consent"):
        for headers in ({"Origin": "https://evil.example"}, {"Sec_Fetch_Site": "cross-site"}):
            assert visitor.post(path, {"form": form}, **headers).status == 403
    assert len(town.sessions()) == 1


def test_links_of_other_sites_lead_to_the_pages_and_to_nothing_else(town: Town) -> None:
    visitor = joined(town, "anna")
    link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    for path in ("/person", town.invite("bert"), town.asked()):
        assert visitor.get(path, **link, Sec_Fetch_Dest="document").status == 200
        assert visitor.get(path, **link).status == 200
        assert visitor.get(path, **link | {"Sec_Fetch_Mode": "cors"}).status == 403
    assert visitor.get("/work", **link, Sec_Fetch_Dest="document").status == 403


@pytest.mark.parametrize("how", ["iframe", "frame", "embed", "object"])
def test_a_page_that_would_be_framed_is_refused_and_the_log_keeps_it(town: Town, how: str) -> None:
    visitor = joined(town, "anna")
    for path in ("/person", town.invite("bert"), town.asked()):
        for site in ("cross-site", "same-origin"):
            headers = {"Sec_Fetch_Site": site, "Sec_Fetch_Mode": "navigate"}
            reply = visitor.get(path, **headers, Sec_Fetch_Dest=how)
            assert reply.status == 403
            assert "@anna" not in reply.text
            assert reply.headers["x-frame-options"] == "DENY"
    assert town.refusals() == ["FRAMED_PAGE"]


def test_pages_forbid_scripts_frames_and_keeping(town: Town) -> None:
    visitor = joined(town, "anna")
    pages = ["/person", town.invite("bert"), town.asked(), "/consent?request=x", "/invite/x"]
    for reply in [*map(visitor.get, pages), *map(Visitor(town).get, pages)]:
        assert "<script" not in reply.text
        assert "style=" not in reply.text
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-frame-options"] == "DENY"
        assert reply.headers["referrer-policy"] == "same-origin"
        rules = dict(rule.strip().split(" ", 1) for rule in _content(reply).split(";"))
        assert rules["default-src"] == "'none'"
        assert rules["frame-ancestors"] == "'none'"
        assert rules["base-uri"] == "'none'"
        assert "script-src" not in rules
        # A client that opened a window for this must find it again afterwards.
        assert "cross-origin-opener-policy" not in reply.headers


def _content(reply: Reply) -> str:
    return reply.headers["content-security-policy"]


# --- consent


@pytest.mark.parametrize(
    ("redirect_uri", "allowed"),
    [
        ("https://claude.ai/api/callback?x=1", "'self' https://claude.ai"),
        ("http://localhost:3334/cb", "'self' http://localhost:3334"),
        ("http://[::1]:3334/cb", "'self' http:"),
        ("cursor://some.app/cb", "'self' cursor:"),
        ("com.example.app:/cb", "'self' com.example.app:"),
        ("https://a.example;script-src *;/cb", "'self'"),
        ("https://a.example,b.example/cb", "'self'"),
        ("https://user@a.example/cb", "'self'"),
        ("https://a.example:99\r\nX-Bad: 1/cb", "'self'"),
    ],
)
def test_the_form_of_consent_leads_back_to_its_client_and_nowhere_else(
    town: Town, redirect_uri: str, allowed: str
) -> None:
    reply = joined(town, "anna").get(town.asked(redirect_uri=redirect_uri))
    assert reply.status == 200
    assert _content(reply).endswith(f"form-action {allowed}")
    assert "x-bad" not in reply.headers


@pytest.mark.parametrize(
    ("redirect_uri", "shown"),
    [
        ("https://claude.ai/api/callback", "<bdi>claude.ai</bdi>"),
        ("https://claude.ai.evil.example:8443/claude.ai", "claude.ai.evil.example:8443"),
        ("https://claude.ai@evil.example/", "<bdi>evil.example</bdi>"),
        ("http://127.0.0.1:1234/cb", "a program on your computer"),
        ("http://localhost:1234/cb", "a program on your computer"),
        ("http://[::1]:1234/cb", "a program on your computer"),
        ("cursor://claude.ai/cb", "<bdi>cursor:</bdi> links"),
    ],
)
def test_the_page_says_where_the_answer_goes(town: Town, redirect_uri: str, shown: str) -> None:
    page = joined(town, "anna").get(town.asked(redirect_uri=redirect_uri)).text
    (where,) = re.findall(r'<p class="host">(.*)</p>', page)
    assert shown in where


def test_allowing_gives_the_client_a_code_for_the_chosen_sender(town: Town) -> None:
    anna = joined(town, "anna", "otto")
    asked = town.asked(redirect_uri="https://client.example/callback?kept=1%202")
    fields = {"scope_mail": "on", "scope_work": "on", "name": " My laptop "}
    reply = anna.answer(asked, sender="new otto", surface_otto="claudeai", **fields)
    assert _location(reply).startswith("https://client.example/callback?kept=1%202&code=ilc_")
    answer = told(reply)
    assert answer.keys() == {"kept", "code", "state", "iss"}
    assert (answer["state"], answer["iss"]) == ("a state & more", town.url)
    (connection,) = town.connections()
    assert connection["address"] == "@otto-claudeai"
    assert connection["person"] == "@anna"
    assert connection["scopes"] == ["mail", "work"]
    assert connection["name"] == "My laptop"
    grant = town.node.call(Credentials(), FindGrant(answer["code"]))
    assert grant["challenge"] == "c" * 43


def test_denying_tells_the_client_so_and_grants_nothing(town: Town) -> None:
    anna = joined(town, "anna")
    reply = anna.answer(town.asked(), answer="deny", sender="own anna", scope_mail="on")
    expected = {"error": "access_denied", "state": "a state & more", "iss": town.url}
    assert told(reply) == expected
    silent = Seals(town.node.keys).opened("authorization", town.asked().partition("=")[2])
    assert silent is not None
    del silent["state"]
    sealed = Seals(town.node.keys).seal("authorization", silent)
    assert "state" not in told(anna.answer(f"/consent?request={sealed}", answer="deny"))
    assert told(anna.answer(town.asked(), answer="perhaps"))["error"] == "access_denied"
    assert town.connections() == []


def test_nobody_can_let_a_client_be_somebody_elses_sender(town: Town) -> None:
    joined(town, "bert", "neo")
    anna = joined(town, "anna", "otto")
    for sender in ("own neo", "new neo", "own bert", "own neo cli"):
        reply = anna.answer(town.asked(), sender=sender, surface_neo="x", scope_mail="on")
        assert reply.status == 403
        assert "is not yours" in reply.text
    assert town.connections() == []
    assert "IDENTITY_MISMATCH" in town.refusals()


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({}, 400, "Choose whom"),
        ({"sender": "new otto"}, 400, "Choose whom"),
        ({"sender": "nonsense"}, 400, "Choose whom"),
        ({"sender": "new otto", "surface_otto": "Not A Name"}, 400, "cannot be a surface"),
        ({"sender": "new otto", "surface_otto": "cli"}, 409, "is an agent of its own"),
        ({"sender": "own otto", "name": "x" * 81}, 400, "at most 80"),
    ],
)
def test_what_cannot_be_is_said_on_the_page_with_what_was_filled_in(
    town: Town, fields: dict[str, str], status: int, said: str
) -> None:
    town.node.call(OWNER, Join("otto-cli"))
    reply = joined(town, "anna", "otto").answer(town.asked(), scope_work="on", **fields)
    assert reply.status == status
    assert said in reply.text
    assert 'name="scope work" checked' in reply.text
    assert 'name="scope mail">' in reply.text
    assert town.connections() == []


def test_a_client_gets_no_more_than_it_asked_for_and_at_least_something(town: Town) -> None:
    anna = joined(town, "anna")
    asked = town.asked(scopes=["mail", "claim"])
    assert "scope work" not in anna.get(asked).text
    assert anna.answer(asked, sender="own anna", scope_work="on").status == 400
    given = {"scope_mail": "on", "scope_work": "on", "scope_admin": "on"}
    assert told(anna.answer(asked, sender="own anna", **given))["code"]
    (connection,) = town.connections()
    assert connection["scopes"] == ["mail"]


def test_a_request_that_is_none_of_ours_says_to_begin_again(town: Town) -> None:
    anna = joined(town, "anna")
    other = Seals(town.node.keys).seal("client", {"redirect_uri": "https://evil.example/"})
    for sealed in ("", "x", "é\0", other, town.asked().partition("=")[2][:-3]):
        for visitor in (anna, Visitor(town)):
            reply = visitor.get("/consent?" + "request=" + quote(sealed))
            assert reply.status == 410
            assert "Begin again" in reply.text
        form = form_of(anna.get("/person"))
        fields = {"form": form, "request": sealed, "answer": "deny"}
        assert anna.post("/consent", fields).status == 410


def test_what_was_asked_long_ago_is_asked_no_more(town: Town) -> None:
    anna = joined(town, "anna")
    seal = Fernet(base64.urlsafe_b64encode(town.node.keys.derived(b"authorization")))
    content = seal.decrypt(town.asked().partition("=")[2] + "==")
    for age_s, status in ((500, 200), (700, 410)):
        sealed = seal.encrypt_at_time(content, int(time.time()) - age_s).decode()
        assert anna.get(f"/consent?request={sealed}").status == status


def test_no_field_or_parameter_leads_to_another_site(town: Town) -> None:
    joined(town, "anna")
    evil = "https://evil.example/"
    query = "&".join(f"{name}={quote(evil)}" for name in ("next", "redirect_uri", "return_to"))
    for extra in ({"next": evil}, {"redirect_uri": evil}, {"request": evil}, {"request": "//x"}):
        reply = Visitor(town).sign_in("anna", **extra)
        place = urlsplit(_location(reply))
        assert (place.scheme, place.netloc) == ("", "")
        assert place.path in ("/person", "/consent")
    anna = Visitor(town)
    anna.sign_in("anna")
    reply = anna.answer(town.asked() + "&" + query, answer="deny", redirect_uri=evil)
    assert reply.status == 410
    sealed = town.asked().partition("=")[2]
    reply = anna.answer(town.asked(), answer="deny", request=sealed, redirect_uri=evil)
    assert _location(reply).startswith("https://client.example/callback?")


def test_what_a_client_says_of_itself_stays_text(town: Town) -> None:
    anna = joined(town, "anna")
    strange = {"client_name": HOSTILE[:80], "redirect_uri": f"https://a.example/{HOSTILE}"}
    page = anna.get(town.asked(**strange))
    assert HOSTILE[:20] not in page.text
    assert "&lt;script&gt;" in page.text
    reply = anna.answer(town.asked(**strange), sender="own anna", scope_mail="on")
    assert told(reply)["code"]
    assert _location(reply).startswith("https://a.example/")
    assert HOSTILE[:20] not in anna.get("/person").text


def test_no_address_of_a_client_adds_a_header(town: Town) -> None:
    anna = joined(town, "anna")
    asked = town.asked(redirect_uri="https://a.example/\r\nX-Bad: yes", state="\r\nX-Bad: yes")
    for fields in ({"answer": "deny"}, {"sender": "own anna", "scope_mail": "on"}):
        reply = anna.answer(asked, **fields)
        assert reply.status == (303 if "answer" in fields else 400)
        assert "x-bad" not in reply.headers


def test_a_surface_is_called_after_its_client() -> None:
    surface = consent.surface_of
    assert surface("Claude.ai") == "claudeai"
    assert surface("Visual Studio Code (Insiders), with a long tail") == "visualstudiocodeinsiders"
    assert surface("7Zip 9") == "zip9"
    assert surface("クロード") == surface("") == "connector"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox"),
        (
            "Mozilla/5.0 (iPhone; CPU) Version/26.0 Mobile Safari/6",
            "Safari on iPhone",
        ),
        ("Mozilla/5.0 (Windows NT 10.0) Chrome/140 Safari/537.36 Edg/140", "Edge on Windows"),
        ("curl", "A browser"),
        ("", "A browser"),
    ],
)
def test_a_browser_is_called_as_people_call_it(said: str, shown: str) -> None:
    assert people.browser(said).startswith(shown)


# --- what acts for a person


def test_connections_are_renamed_and_ended_by_their_person_alone(town: Town) -> None:
    anna, bert = joined(town, "anna"), joined(town, "bert")
    assert told(anna.answer(town.asked(), sender="own anna", scope_mail="on"))["code"]
    (connection,) = town.connections()
    place = f"/person/connections/{connection['id']}"
    assert "Claude.ai" not in bert.get("/person").text
    assert bert.fill("/person", f"{place}/name", {"name": "Bert's"}).status == 404
    assert bert.fill("/person", f"{place}/revoke", {}).status == 404
    assert anna.fill("/person", f"{place}/name", {"name": ""}).status == 400
    assert anna.fill("/person", f"{place}/name", {"name": "Phone"}).status == 303
    assert "Phone" in anna.get("/person").text
    reply = anna.fill("/person", f"{place}/revoke", {})
    assert "can do nothing here any more" in anna.get(_location(reply)).text
    assert town.connections() == []


def test_another_browser_is_signed_out_from_here(town: Town) -> None:
    here, there, bert = joined(town, "anna"), Visitor(town), joined(town, "bert")
    there.sign_in("anna")
    page = here.get("/person").text
    assert page.count("this one") == 1
    (id,) = re.findall(r"connections/(tok_[0-9a-f]+)/revoke", page)
    revoke = f"/person/connections/{id}/revoke"
    assert bert.fill("/person", revoke, {}).status == 404
    form = form_of(there.get("/person"))
    assert here.fill("/person", revoke, {}).status == 303
    assert "current-password" in there.get("/person").text
    late = there.post("/person/connections/con_0123456789ab/revoke", {"form": form})
    assert "current-password" in late.text


def test_a_revoked_person_cannot_consent_and_is_asked_to_sign_in(town: Town) -> None:
    anna, asked = joined(town, "anna"), town.asked()
    form = form_of(anna.get(asked))
    (session,) = town.sessions()
    town.node.call(OWNER, RevokeConnection(session["id"]))
    sealed = asked.partition("request=")[2]
    fields = {"form": form, "request": sealed, "answer": "allow", "sender": "own anna"}
    reply = anna.post("/consent", fields | {"scope mail": "on"})
    assert "current-password" in reply.text
    assert sealed in reply.text
    assert town.connections() == []
