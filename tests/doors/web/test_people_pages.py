"""The pages where people join, sign in, consent and manage connections, over plain HTTP, with
requests of attackers too. test_people_browsing.py opens the pages in a real browser."""

import base64
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from cryptography.fernet import Fernet

from interlock.doors.web import consent, people
from interlock.node.keys import Seals
from interlock.node.passwords import TRIES
from interlock.rooms.identity.token_format import hashed
from interlock.rooms.identity.verbs import Join
from interlock.rooms.people.verbs import FindGrant, RevokeConnection
from interlock.verbs.credentials import Credentials
from world.browsing import (
    HOSTILE,
    Reply,
    ask,
    fresh_token,
)
from world.browsing import serving as unguarded
from world.commandline import Place, until
from world.web_door import (
    OWNER,
    PASSWORD,
    PUBLIC_URL,
    Visitor,
    WebDoor,
    form_of,
    joined,
    serving_people,
    web_door,
)

pytestmark = pytest.mark.long

__all__ = ["web_door"]
LASTS_S = 30 * 86_400


def told(reply: Reply) -> dict[str, str]:
    """Return the parameters of a redirect to a client."""
    assert reply.status == 303, reply
    return {name: value for name, (value,) in parse_qs(urlsplit(_location(reply)).query).items()}


def _location(reply: Reply) -> str:
    return reply.headers["location"]


# --- invitations


def test_opening_an_invitation_does_not_use_it_up(web_door: WebDoor) -> None:
    path = web_door.invite("anna", "otto")
    for method in ("GET", "HEAD", "GET"):
        assert ask(web_door.web, path, method).status == 200
    shown = Visitor(web_door).get(path).text
    for words in ("The owner of this server", "@anna", "@otto", 'autocomplete="new-password"'):
        assert words in shown
    assert Visitor(web_door).join(path).status == 303


def test_used_invitation_page_says_what_to_do(
    web_door: WebDoor,
) -> None:
    path = web_door.invite("anna")
    Visitor(web_door).join(path)
    for reply in (ask(web_door.web, path), Visitor(web_door).post(path, {"password": PASSWORD})):
        assert reply.status == 404
        assert "This invitation was used" in reply.text
        assert "Ask for a new invitation." in reply.text


def test_unknown_invitation_is_not_valid(web_door: WebDoor) -> None:
    for path in ("/invite/ili_nothing", "/invite/x", "/invite/" + "y" * 300, "/invite/%00%0a"):
        reply = ask(web_door.web, path)
        assert reply.status == 404, path
        assert "This invitation is not valid" in reply.text


def test_invitation_expires(web_door: WebDoor) -> None:
    path = web_door.invite("anna", ttl_s=1)
    until(lambda: ask(web_door.web, path).status == 410)
    assert "expired" in ask(web_door.web, path).text


def test_invitation_for_another_machine_shows_the_command(web_door: WebDoor) -> None:
    web_door.node.call(OWNER, Join("otto"))
    path = web_door.invite("otto", surface="laptop")
    shown = ask(web_door.web, path)
    assert f"interlock join {web_door.url}{path}" in shown.text
    assert "@otto-laptop" in shown.text
    assert 'type="password"' not in shown.text
    reply = Visitor(web_door).fill("/person", path, {"password": PASSWORD, "again": PASSWORD})
    assert reply.status == 400
    assert "is for another machine" in reply.text
    assert web_door.sessions() == []


@pytest.mark.parametrize(
    ("password", "again", "message"),
    [
        ("short", "short", "at least 12 characters"),
        ("aaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaa", "easy to guess"),
        (PASSWORD, PASSWORD + "!", "passwords differ"),
        ("", "", "at least 12 characters"),
    ],
)
def test_weak_or_mistyped_password_leaves_the_invitation_valid(
    web_door: WebDoor, password: str, again: str, message: str
) -> None:
    path, visitor = web_door.invite("anna"), Visitor(web_door)
    reply = visitor.fill(path, path, {"password": password, "again": again})
    assert reply.status == 400
    assert message in reply.text
    assert web_door.sessions() == []
    assert visitor.join(path).status == 303


def test_joining_signs_in_with_a_listed_token_that_only_the_cookie_contains(
    web_door: WebDoor,
) -> None:
    visitor = Visitor(web_door)
    reply = visitor.join(web_door.invite("anna"))
    assert _location(reply) == "/person?done=joined"
    (line,) = (c for c in reply.headers.get_all("set-cookie") or [] if "interlock_person" in c)
    token = line.partition(";")[0].partition("=")[2]
    flags = {flag.strip().lower() for flag in line.split(";")[1:]}
    assert flags >= {"httponly", "samesite=lax", "path=/", f"max-age={LASTS_S}"}
    assert "secure" not in flags
    assert "domain" not in line.lower()
    (session,) = web_door.sessions()
    assert session["person"] == "@anna"
    assert session["id"] == "tok_" + hashed(token)[:12]
    page = visitor.get("/person?done=joined")
    assert "Welcome" in page.text
    assert token not in page.text


def test_persons_cookie_is_secure_after_sign_in_over_https(web_door: WebDoor) -> None:
    visitor, path = Visitor(web_door), web_door.invite("anna")
    outside = {"Host": "interlock.example", "Origin": PUBLIC_URL}
    page = visitor.get(path, **outside)
    assert f"interlock join {PUBLIC_URL}{path}" in page.text
    fields = {"form": form_of(page), "password": PASSWORD, "again": PASSWORD}
    reply = visitor.post(path, fields, **outside)
    assert reply.status == 303
    kept = [c for c in reply.headers.get_all("set-cookie") or [] if "Max-Age=0" not in c]
    assert kept
    assert all("secure" in line.lower() for line in kept)


def test_new_password_signs_out_all_other_browsers(web_door: WebDoor) -> None:
    first, second = joined(web_door, "anna"), Visitor(web_door)
    path = web_door.invite("anna")
    assert "signs you out in all other browsers" in second.get(path).text
    assert second.join(path, PASSWORD + "!").status == 303
    assert "@anna" in second.get("/person").text
    assert "Sign in" in first.get("/person").text
    assert first.sign_in("anna").status == 403
    assert first.sign_in("anna", PASSWORD + "!").status == 303


# --- signing in and out


def test_sign_in_needs_a_name_and_its_password(web_door: WebDoor) -> None:
    joined(web_door, "anna")
    joined(web_door, "bert")
    for name, password in (
        ("anna", PASSWORD + "."),
        ("anna", ""),
        ("", PASSWORD),
        ("carl", PASSWORD),
        (HOSTILE, HOSTILE),
        ("anna" * 200, "x" * 5000),
    ):
        visitor = Visitor(web_door)
        reply = visitor.sign_in(name, password)
        assert reply.status == 403, name
        assert "The name or the password is wrong." in reply.text
        assert "<script" not in reply.text
        assert not any("person" in name for name in visitor.jar)
    assert Visitor(web_door).sign_in("@anna").status == 303


def test_password_attempts_are_limited_even_when_concurrent(web_door: WebDoor) -> None:
    joined(web_door, "anna")
    joined(web_door, "bert")
    guesses = [f"a wrong password {number}" for number in range(TRIES + 5)]
    with ThreadPoolExecutor(len(guesses)) as crowd:
        replies = list(crowd.map(lambda guess: Visitor(web_door).sign_in("anna", guess), guesses))
    assert sorted(reply.status for reply in replies) == [403] * TRIES + [429] * 5
    late = Visitor(web_door).sign_in("anna")
    assert late.status == 429
    assert "Wait" in late.text
    assert Visitor(web_door).sign_in("bert").status == 303


def test_sign_out_deletes_the_cookie_and_revokes_the_token(web_door: WebDoor) -> None:
    visitor = joined(web_door, "anna")
    stolen = dict(visitor.jar)
    assert visitor.fill("/person", "/person/sign-out", {}).status == 303
    assert not any("person" in name for name in visitor.jar)
    assert web_door.sessions() == []
    visitor.jar = stolen
    assert "Signed-in browsers" not in visitor.get("/person").text


def test_new_sign_in_ends_the_browsers_previous_session(web_door: WebDoor) -> None:
    visitor = joined(web_door, "anna")
    visitor.join(web_door.invite("bert"))
    assert [session["person"] for session in web_door.sessions()] == ["@bert"]
    assert "@bert" in visitor.get("/person").text


def test_only_a_persons_token_opens_the_pages(web_door: WebDoor) -> None:
    visitor = joined(web_door, "anna")
    (name,) = (name for name in visitor.jar if "person" in name)
    agents = str(web_door.node.call(OWNER, Join("otto"))["token"])
    for token in (agents, "nonsense", fresh_token(), "ilk_cut"):
        visitor.jar[name] = token
        reply = visitor.get("/person")
        assert reply.status == 200
        assert "current-password" in reply.text
        assert "@otto" not in reply.text


def test_two_workspaces_on_one_machine_use_different_cookies(tmp_path: Path) -> None:
    places = [tmp_path / "one", tmp_path / "two"]
    for place in places:
        place.mkdir()
    key = os.urandom(32)
    with (
        serving_people(Place(places[0]), key) as one,
        serving_people(Place(places[1]), key) as two,
    ):
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
def test_form_needs_the_token_of_its_own_cookie(web_door: WebDoor, path: str) -> None:
    anna, bert = joined(web_door, "anna"), joined(web_door, "bert")
    assert told(anna.answer(web_door.consent_path(), sender="own anna", scope_mail="on"))["code"]
    (connection,) = web_door.connections()
    asked = web_door.consent_path().partition("request=")[2]
    fields = {"name": "Taken", "request": asked, "answer": "allow", "sender": "own anna"}
    fields["scope mail"] = "on"
    strangers = form_of(Visitor(web_door).get("/person"))
    for form in ({}, {"form": form_of(bert.get("/person"))}, {"form": strangers}, {"form": "é"}):
        reply = anna.post(path.format(id=connection["id"]), fields | form)
        assert reply.status == 403
        assert "Interlock did nothing" in reply.text
    assert web_door.connections() == [connection]
    assert len(web_door.sessions()) == 2
    assert ("FORGED_CONSENT" in web_door.logged_refusals()) == (path == "/consent")


def test_joining_and_sign_in_need_the_form_and_the_cookie_of_one_page(
    web_door: WebDoor,
) -> None:
    joined(web_door, "anna")
    path = web_door.invite("bert")
    typed = {"username": "anna", "password": PASSWORD, "again": PASSWORD}
    for target, page in ((path, path), ("/person/sign-in", "/person")):
        form = form_of(Visitor(web_door).get(page))
        for fields in (typed, typed | {"form": form}):
            for visitor in (Visitor(web_door), _visitor_of(web_door, page)):
                assert visitor.post(target, fields).status == 403
                assert not any("person" in name for name in visitor.jar)
    assert [session["person"] for session in web_door.sessions()] == ["@anna"]


def _visitor_of(web_door: WebDoor, page: str) -> Visitor:
    visitor = Visitor(web_door)
    assert form_of(visitor.get(page))
    return visitor


def test_pages_refuse_sign_in_without_the_guard(tmp_path: Path) -> None:
    """Only the guard knows whether a connection is safe for passwords."""
    with unguarded(Place(tmp_path), fresh_token(), os.urandom(32)) as web:
        for path in ("/person", "/consent", "/invite/x"):
            reply = ask(web, path, Origin=web.url)
            assert reply.status == 404
            assert "plain HTTP" in reply.text


def test_request_from_another_origin_is_refused(web_door: WebDoor) -> None:
    visitor = joined(web_door, "anna")
    form = form_of(visitor.get("/person"))
    for path in ("/person", web_door.invite("bert"), web_door.consent_path()):
        reply = visitor.get(path, Origin="https://evil.example")
        assert reply.status == 403
        assert "anna" not in reply.text
    for path in ("/person/sign-out", "/consent"):
        for headers in ({"Origin": "https://evil.example"}, {"Sec_Fetch_Site": "cross-site"}):
            assert visitor.post(path, {"form": form}, **headers).status == 403
    assert len(web_door.sessions()) == 1


def test_links_of_other_sites_open_only_the_pages_of_people(web_door: WebDoor) -> None:
    visitor = joined(web_door, "anna")
    link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    for path in ("/person", web_door.invite("bert"), web_door.consent_path()):
        assert visitor.get(path, **link, Sec_Fetch_Dest="document").status == 200
        assert visitor.get(path, **link).status == 200
        assert visitor.get(path, **link | {"Sec_Fetch_Mode": "cors"}).status == 403
    assert visitor.get("/work", **link, Sec_Fetch_Dest="document").status == 403


@pytest.mark.parametrize("how", ["iframe", "frame", "embed", "object"])
def test_framed_page_is_refused_and_the_refusal_logged(web_door: WebDoor, how: str) -> None:
    visitor = joined(web_door, "anna")
    for path in ("/person", web_door.invite("bert"), web_door.consent_path()):
        for site in ("cross-site", "same-origin"):
            headers = {"Sec_Fetch_Site": site, "Sec_Fetch_Mode": "navigate"}
            reply = visitor.get(path, **headers, Sec_Fetch_Dest=how)
            assert reply.status == 403
            assert "@anna" not in reply.text
            assert reply.headers["x-frame-options"] == "DENY"
    assert web_door.logged_refusals() == ["FRAMED_PAGE"]


def test_pages_forbid_scripts_frames_and_caching(web_door: WebDoor) -> None:
    visitor = joined(web_door, "anna")
    pages = [
        "/person",
        web_door.invite("bert"),
        web_door.consent_path(),
        "/consent?request=x",
        "/invite/x",
    ]
    for reply in [*map(visitor.get, pages), *map(Visitor(web_door).get, pages)]:
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
        # This policy would cut a client off from the window that it opened.
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
def test_consent_form_may_redirect_only_to_its_client(
    web_door: WebDoor, redirect_uri: str, allowed: str
) -> None:
    reply = joined(web_door, "anna").get(web_door.consent_path(redirect_uri=redirect_uri))
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
def test_consent_page_shows_the_destination_of_the_answer(
    web_door: WebDoor, redirect_uri: str, shown: str
) -> None:
    page = joined(web_door, "anna").get(web_door.consent_path(redirect_uri=redirect_uri)).text
    (where,) = re.findall(r'<p class="host">(.*)</p>', page)
    assert shown in where


def test_allow_gives_the_client_a_code_for_the_chosen_sender(web_door: WebDoor) -> None:
    anna = joined(web_door, "anna", "otto")
    asked = web_door.consent_path(redirect_uri="https://client.example/callback?kept=1%202")
    fields = {"scope_mail": "on", "scope_work": "on", "name": " My laptop "}
    reply = anna.answer(asked, sender="new otto", surface_otto="claudeai", **fields)
    assert _location(reply).startswith("https://client.example/callback?kept=1%202&code=ilc_")
    answer = told(reply)
    assert answer.keys() == {"kept", "code", "state", "iss"}
    assert (answer["state"], answer["iss"]) == ("a state & more", web_door.url)
    (connection,) = web_door.connections()
    assert connection["address"] == "@otto-claudeai"
    assert connection["person"] == "@anna"
    assert connection["scopes"] == ["mail", "work"]
    assert connection["name"] == "My laptop"
    grant = web_door.node.call(Credentials(), FindGrant(answer["code"]))
    assert grant["challenge"] == "c" * 43


def test_deny_tells_the_client_and_grants_nothing(web_door: WebDoor) -> None:
    anna = joined(web_door, "anna")
    reply = anna.answer(web_door.consent_path(), answer="deny", sender="own anna", scope_mail="on")
    expected = {"error": "access_denied", "state": "a state & more", "iss": web_door.url}
    assert told(reply) == expected
    silent = Seals(web_door.node.keys).opened(
        "authorization", web_door.consent_path().partition("=")[2]
    )
    assert silent is not None
    del silent["state"]
    sealed = Seals(web_door.node.keys).seal("authorization", silent)
    assert "state" not in told(anna.answer(f"/consent?request={sealed}", answer="deny"))
    assert told(anna.answer(web_door.consent_path(), answer="perhaps"))["error"] == "access_denied"
    assert web_door.connections() == []


def test_person_cannot_grant_the_sender_of_another_person(web_door: WebDoor) -> None:
    joined(web_door, "bert", "neo")
    anna = joined(web_door, "anna", "otto")
    for sender in ("own neo", "new neo", "own bert", "own neo cli"):
        reply = anna.answer(
            web_door.consent_path(), sender=sender, surface_neo="x", scope_mail="on"
        )
        assert reply.status == 403
        assert "You do not own" in reply.text
    assert web_door.connections() == []
    assert "IDENTITY_MISMATCH" in web_door.logged_refusals()


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({}, 400, "Choose the name"),
        ({"sender": "new otto"}, 400, "Choose the name"),
        ({"sender": "nonsense"}, 400, "Choose the name"),
        ({"sender": "new otto", "surface_otto": "Not A Name"}, 400, "cannot be a surface"),
        ({"sender": "new otto", "surface_otto": "cli"}, 409, "is another agent"),
        ({"sender": "own otto", "name": "x" * 81}, 400, "at most 80"),
    ],
)
def test_refused_choice_shows_the_reason_and_keeps_the_form(
    web_door: WebDoor, fields: dict[str, str], status: int, message: str
) -> None:
    web_door.node.call(OWNER, Join("otto-cli"))
    reply = joined(web_door, "anna", "otto").answer(
        web_door.consent_path(), scope_work="on", **fields
    )
    assert reply.status == status
    assert message in reply.text
    assert 'name="scope work" checked' in reply.text
    assert 'name="scope mail">' in reply.text
    assert web_door.connections() == []


def test_client_gets_only_requested_scopes_and_at_least_one(web_door: WebDoor) -> None:
    anna = joined(web_door, "anna")
    asked = web_door.consent_path(scopes=["mail", "claim"])
    assert "scope work" not in anna.get(asked).text
    assert anna.answer(asked, sender="own anna", scope_work="on").status == 400
    given = {"scope_mail": "on", "scope_work": "on", "scope_admin": "on"}
    assert told(anna.answer(asked, sender="own anna", **given))["code"]
    (connection,) = web_door.connections()
    assert connection["scopes"] == ["mail"]


def test_invalid_request_page_says_to_start_again(web_door: WebDoor) -> None:
    anna = joined(web_door, "anna")
    other = Seals(web_door.node.keys).seal("client", {"redirect_uri": "https://evil.example/"})
    for sealed in ("", "x", "é\0", other, web_door.consent_path().partition("=")[2][:-3]):
        for visitor in (anna, Visitor(web_door)):
            reply = visitor.get("/consent?" + "request=" + quote(sealed))
            assert reply.status == 410
            assert "Start again in the client" in reply.text
        form = form_of(anna.get("/person"))
        fields = {"form": form, "request": sealed, "answer": "deny"}
        assert anna.post("/consent", fields).status == 410


def test_clients_request_expires(web_door: WebDoor) -> None:
    anna = joined(web_door, "anna")
    seal = Fernet(base64.urlsafe_b64encode(web_door.node.keys.derived(b"authorization")))
    content = seal.decrypt(web_door.consent_path().partition("=")[2] + "==")
    for age_s, status in ((500, 200), (700, 410)):
        sealed = seal.encrypt_at_time(content, int(time.time()) - age_s).decode()
        assert anna.get(f"/consent?request={sealed}").status == status


def test_no_field_or_parameter_redirects_to_another_site(web_door: WebDoor) -> None:
    joined(web_door, "anna")
    evil = "https://evil.example/"
    query = "&".join(f"{name}={quote(evil)}" for name in ("next", "redirect_uri", "return_to"))
    for extra in ({"next": evil}, {"redirect_uri": evil}, {"request": evil}, {"request": "//x"}):
        reply = Visitor(web_door).sign_in("anna", **extra)
        place = urlsplit(_location(reply))
        assert (place.scheme, place.netloc) == ("", "")
        assert place.path in ("/person", "/consent")
    anna = Visitor(web_door)
    anna.sign_in("anna")
    reply = anna.answer(web_door.consent_path() + "&" + query, answer="deny", redirect_uri=evil)
    assert reply.status == 410
    sealed = web_door.consent_path().partition("=")[2]
    reply = anna.answer(web_door.consent_path(), answer="deny", request=sealed, redirect_uri=evil)
    assert _location(reply).startswith("https://client.example/callback?")


def test_clients_name_and_address_stay_text(web_door: WebDoor) -> None:
    anna = joined(web_door, "anna")
    strange = {"client_name": HOSTILE[:80], "redirect_uri": f"https://a.example/{HOSTILE}"}
    page = anna.get(web_door.consent_path(**strange))
    assert HOSTILE[:20] not in page.text
    assert "&lt;script&gt;" in page.text
    reply = anna.answer(web_door.consent_path(**strange), sender="own anna", scope_mail="on")
    assert told(reply)["code"]
    assert _location(reply).startswith("https://a.example/")
    assert HOSTILE[:20] not in anna.get("/person").text


def test_clients_address_and_state_cannot_add_a_header(web_door: WebDoor) -> None:
    anna = joined(web_door, "anna")
    asked = web_door.consent_path(
        redirect_uri="https://a.example/\r\nX-Bad: yes", state="\r\nX-Bad: yes"
    )
    for fields in ({"answer": "deny"}, {"sender": "own anna", "scope_mail": "on"}):
        reply = anna.answer(asked, **fields)
        assert reply.status == (303 if "answer" in fields else 400)
        assert "x-bad" not in reply.headers


def test_surface_is_named_after_its_client() -> None:
    surface = consent.surface_of
    assert surface("Claude.ai") == "claudeai"
    assert surface("Visual Studio Code (Insiders), with a long tail") == "visualstudiocodeinsiders"
    assert surface("7Zip 9") == "zip9"
    assert surface("クロード") == surface("") == "connector"


@pytest.mark.parametrize(
    ("user_agent", "shown"),
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
def test_browser_gets_its_common_name(user_agent: str, shown: str) -> None:
    assert people.browser(user_agent).startswith(shown)


# --- connections and sessions


def test_only_its_person_renames_and_ends_a_connection(web_door: WebDoor) -> None:
    anna, bert = joined(web_door, "anna"), joined(web_door, "bert")
    assert told(anna.answer(web_door.consent_path(), sender="own anna", scope_mail="on"))["code"]
    (connection,) = web_door.connections()
    place = f"/person/connections/{connection['id']}"
    assert "Claude.ai" not in bert.get("/person").text
    assert bert.fill("/person", f"{place}/name", {"name": "Bert's"}).status == 404
    assert bert.fill("/person", f"{place}/revoke", {}).status == 404
    assert anna.fill("/person", f"{place}/name", {"name": ""}).status == 400
    assert anna.fill("/person", f"{place}/name", {"name": "Phone"}).status == 303
    assert "Phone" in anna.get("/person").text
    reply = anna.fill("/person", f"{place}/revoke", {})
    assert "can no longer act for you" in anna.get(_location(reply)).text
    assert web_door.connections() == []


def test_person_signs_out_another_browser(web_door: WebDoor) -> None:
    first, second, bert = joined(web_door, "anna"), Visitor(web_door), joined(web_door, "bert")
    second.sign_in("anna")
    page = first.get("/person").text
    assert page.count("this browser") == 1
    (id,) = re.findall(r"connections/(tok_[0-9a-f]+)/revoke", page)
    revoke = f"/person/connections/{id}/revoke"
    assert bert.fill("/person", revoke, {}).status == 404
    form = form_of(second.get("/person"))
    assert first.fill("/person", revoke, {}).status == 303
    assert "current-password" in second.get("/person").text
    late = second.post("/person/connections/con_0123456789ab/revoke", {"form": form})
    assert "current-password" in late.text


def test_consent_after_revocation_shows_the_sign_in_page(web_door: WebDoor) -> None:
    anna, asked = joined(web_door, "anna"), web_door.consent_path()
    form = form_of(anna.get(asked))
    (session,) = web_door.sessions()
    web_door.node.call(OWNER, RevokeConnection(session["id"]))
    sealed = asked.partition("request=")[2]
    fields = {"form": form, "request": sealed, "answer": "allow", "sender": "own anna"}
    reply = anna.post("/consent", fields | {"scope mail": "on"})
    assert "current-password" in reply.text
    assert sealed in reply.text
    assert web_door.connections() == []
