"""Security of joining, sign-in and consent, over plain HTTP at a running server.

test_oauth_attacks.py has the table of attacks, and tests/rooms/people the rules.
"""

import asyncio
import base64
import html
import json
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from interlock.doors.http import Guard
from interlock.doors.http.metrics import Metrics
from interlock.doors.oauth.endpoints import MAX_STATE_LENGTH, START_AGAIN
from world.commandline import Place
from world.people_and_apps import (
    PASSWORD,
    REDIRECT,
    VERIFIER,
    App,
    Browser,
    Caller,
    answered,
    call_tool,
    fields_of,
    hidden,
)
from world.served_workspace import Serve, ServedWorkspace

OUTSIDE = "https://interlock.example"
HOST = urlsplit(OUTSIDE).netloc
EVIL = "https://evil.example"
HOME = "http://127.0.0.1:8123/callback"
TRIES = 2
TRIES_OF_ALL_NAMES = 3
# Without the log's own limits, only the server's limits keep refusals out of the log. Few tries
# make the tests fast.
CONSTANTS = {
    "interlock.rooms.transaction.QUIET_MS": 0,
    "interlock.rooms.transaction.MAX_REFUSALS_PER_MINUTE": 10_000,
    "interlock.node.passwords.TRIES": TRIES,
    "interlock.node.passwords.TRIES_OF_ALL_NAMES": TRIES_OF_ALL_NAMES,
}
KNOWN = "/.well-known/oauth-"
OPEN_TO_ALL = {
    f"{KNOWN}protected-resource": "GET",
    f"{KNOWN}protected-resource/mcp": "GET",
    f"{KNOWN}protected-resource/mcp/": "GET",
    f"{KNOWN}authorization-server": "GET",
    "/token": "POST",
    "/register": "POST",
    "/revoke": "POST",
}
OF_PEOPLE = {"/authorize": "GET", "/consent": "GET", "/person": "GET", "/invite/x": "GET"}
OF_OTHERS = {"/": "GET", "/mcp": "POST", "/v1/whoami": "GET", "/person/sign-in": "POST"}


@pytest.fixture(scope="module")
def workspace(serve: Serve) -> ServedWorkspace:
    """A server behind a proxy, where Vera owns otto.

    The server `open` listens on every interface, over plain HTTP.
    """
    workspace = serve(
        words=("--public-url", OUTSIDE),
        constants=CONSTANTS,
        other_servers={"open": serve(host="0.0.0.0").server},
    )
    workspace.add_person("vera", "otto")
    return workspace


def browser_outside(workspace: ServedWorkspace, peer: str) -> Browser:
    """A browser on another machine, for which the proxy reports this address."""
    browser = Browser(workspace.server, OUTSIDE)
    browser.http.headers["X-Forwarded-For"] = peer
    # The browser uses TLS to the proxy, so it also sends secure cookies.
    both = DefaultCookiePolicy(secure_protocols=("http", "https"))
    browser.http.cookies.jar.set_policy(both)
    return browser


def is_error(answer: httpx2.Response, status: int, error: str) -> bool:
    return (answer.status_code, answer.json().get("error")) == (status, error)


# --- passwords, and tokens on machines


def test_new_password_by_invitation_ends_connections_and_unused_codes(
    workspace: ServedWorkspace, app: App
) -> None:
    nina = Browser(workspace.server).join("nina")
    connected, unopened = app.connect(nina), app.code(nina)
    path = nina.invited("nina")
    again = Browser(workspace.server)
    page = again.get(path)
    assert "ends every connection that acts for you" in page.text
    fields = {"form": hidden(page), "password": PASSWORD, "again": PASSWORD}
    assert again.submit(path, fields).status_code == 303
    assert connected.tool().status_code == 401
    assert is_error(app.refresh(connected.refresh_token), 400, "invalid_grant")
    assert is_error(app.exchange(unopened), 400, "invalid_grant")
    assert "@nina" not in [found["person"] for found in workspace.connections()]


def laptop_of(workspace: ServedWorkspace, person: str, root: Path) -> str:
    """Return the token of a machine that joined with an invitation."""
    link = workspace.url + workspace.place.ok("invite", person, "--surface", "laptop")["path"]
    elsewhere = Place(root).but(INTERLOCK_WORKSPACE=None)
    return str(json.loads(Path(elsewhere.ok("join", link)["kept"]).read_text())["token"])


def test_token_on_a_machine_does_not_sign_in_at_the_pages(
    workspace: ServedWorkspace, app: App, vera: Browser, tmp_path: Path
) -> None:
    (name,) = (cookie.name for cookie in vera.http.cookies.jar if "_person_" in cookie.name)
    thief = Browser(workspace.server)
    thief.http.cookies.set(name, laptop_of(workspace, "vera", tmp_path))
    asked = app.asks()
    for target in ("/person", asked):
        page = thief.get(target)
        assert "current-password" in page.text
        assert "own otto" not in page.text
    before = workspace.connections()
    fields = fields_of(thief.get(asked)) | {"sender": "own otto", "answer": "allow"}
    fields |= {f"scope {scope}": "on" for scope in ("mail", "claim", "work")}
    assert thief.submit("/consent", fields).status_code == 403
    assert workspace.connections() == before


def test_person_lists_and_revokes_tokens_on_their_machines(
    workspace: ServedWorkspace, vera: Browser, stranger: Caller, tmp_path: Path
) -> None:
    mona = Browser(workspace.server).join("mona")
    laptop = laptop_of(workspace, "mona", tmp_path)
    page = mona.get("/person")
    assert "Tokens on your machines" in page.text
    shown = page.text.partition("Tokens on your machines")[2]
    assert "@mona-laptop" in shown
    (found,) = [
        t for t in workspace.place.ok("token", "list")["tokens"] if t["sender"] == "mona-laptop"
    ]
    target = f"/person/connections/{found['id']}/revoke"
    assert f'action="{target}"' in shown
    assert call_tool(stranger, laptop, "whoami").status_code == 200
    assert vera.submit(target, {"form": hidden(vera.get("/person"))}).status_code == 404
    assert mona.submit(target, {"form": hidden(page)}).status_code == 303
    assert call_tool(stranger, laptop, "whoami").status_code == 401
    assert "@mona-laptop</b>" not in mona.get("/person").text.partition("Tokens on")[2]


def test_invitation_for_a_machine_changes_no_password(workspace: ServedWorkspace) -> None:
    olga = Browser(workspace.server).join("olga")
    path = olga.invited("olga", "--surface", "desk")
    finder = Browser(workspace.server)
    page = finder.get(path)
    assert "This invitation is for another machine" in page.text
    assert "<form" not in page.text
    new = "a sentence of the finder"
    form = hidden(finder.get("/person"))
    refused = finder.submit(path, {"form": form, "password": new, "again": new})
    assert refused.status_code == 400
    assert "interlock join" in refused.text
    assert "@olga" in olga.get("/person").text
    assert Browser(workspace.server).sign_in("olga").status_code == 303
    left = workspace.place.ok("connection", "list")["invitations"]
    assert ("olga", "desk") in [(found["name"], found.get("surface")) for found in left]


# --- plain HTTP


def test_plain_http_from_other_machines_shows_no_password_form(
    workspace: ServedWorkspace,
) -> None:
    place = workspace.other_servers["open"].place
    path = str(place.ok("invite", "vera")["path"])
    caller = Caller(workspace.other_servers["open"])
    fields = {"form": "0" * 64, "username": "vera", "password": PASSWORD, "again": PASSWORD}
    for target in (path, "/person/sign-in", "/consent", "/person/sign-out"):
        answer = caller.post(target, fields, Origin=caller.url)
        assert answer.status_code == 404
        assert "over plain HTTP" in answer.text
    answer = caller.get(path)
    assert (answer.status_code, "<form" in answer.text) == (404, False)
    assert "set-cookie" not in answer.headers
    assert [found["name"] for found in place.ok("connection", "list")["invitations"]] == ["vera"]


@pytest.mark.parametrize(("path", "method"), [*OPEN_TO_ALL.items(), *OF_PEOPLE.items()])
def test_request_that_reached_the_proxy_over_plain_http_is_not_served(
    stranger: Caller, path: str, method: str
) -> None:
    def asked(**headers: str) -> httpx2.Response:
        sent = {"Host": HOST} | {name.replace("_", "-"): text for name, text in headers.items()}
        return stranger.http.request(method, path, headers=sent)

    plain = asked(X_Forwarded_Proto="http")
    assert plain.status_code == 404
    assert "plain HTTP" in plain.text
    assert "set-cookie" not in plain.headers
    for answer in (asked(), asked(X_Forwarded_Proto="https")):
        assert "plain HTTP" not in answer.text


def test_plain_http_refuses_tokens_and_names_no_token_server(
    workspace: ServedWorkspace,
) -> None:
    outside = browser_outside(workspace, "203.0.113.1").join("ulla")
    app = App(workspace.server, url=OUTSIDE)
    connected = app.connect(outside, resource=OUTSIDE)
    assert connected.whoami(X_Forwarded_Proto="https").status_code == 200
    refused = connected.whoami(X_Forwarded_Proto="http")
    assert (refused.status_code, refused.json()["code"]) == (401, "WRONG_AUDIENCE")
    assert "resource_metadata" not in refused.headers["www-authenticate"]


# --- callers behind a proxy


async def shows_its_client(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse(scope["client"][0])(scope, receive, send)


@pytest.mark.parametrize(
    ("peer", "host", "forwarded", "seen"),
    [
        ("127.0.0.1", HOST, ["203.0.113.7"], "203.0.113.7"),
        ("::1", HOST, ["203.0.113.7"], "203.0.113.7"),
        ("127.0.0.1", HOST, ["198.51.100.1, 203.0.113.7"], "203.0.113.7"),
        ("127.0.0.1", HOST, ["198.51.100.1", "203.0.113.7"], "203.0.113.7"),
        ("127.0.0.1", HOST, ["2001:db8::7"], "2001:db8::7"),
        ("127.0.0.1", HOST, [], "127.0.0.1"),
        ("127.0.0.1", HOST, [""], "127.0.0.1"),
        ("192.0.2.9", HOST, ["203.0.113.7"], "192.0.2.9"),
        ("127.0.0.1", "127.0.0.1:7420", ["203.0.113.7"], "127.0.0.1"),
    ],
)
def test_only_a_proxy_on_this_machine_reports_the_callers_address(
    peer: str, host: str, forwarded: list[str], seen: str
) -> None:
    """The proxy appends its entry to `X-Forwarded-For`; earlier entries came with the request."""
    guard = Guard(shows_its_client, Metrics(), loopback=False, outside=OUTSIDE)

    async def ask() -> str:
        transport = httpx2.ASGITransport(guard, client=(peer, 1))
        headers = [("Host", host), *(("X-Forwarded-For", text) for text in forwarded)]
        async with httpx2.AsyncClient(transport=transport) as client:
            return (await client.get(f"http://{host}/", headers=headers)).text

    assert asyncio.run(ask()) == seen


def test_password_guesses_block_only_the_guessers_address(
    workspace: ServedWorkspace,
) -> None:
    browser_outside(workspace, "203.0.113.20").join("gina")
    guesser = browser_outside(workspace, "203.0.113.21")
    failed = workspace.counted_refusals("SIGN_IN_FAILED")
    guessed = workspace.counted_refusals("GUESSED_PASSWORD")
    logged = workspace.logged_refusals().count("GUESSED_PASSWORD")
    for number in range(TRIES):
        assert guesser.sign_in("gina", f"a wrong sentence, {number}").status_code == 403
    assert workspace.counted_refusals("SIGN_IN_FAILED") == failed + TRIES - 1
    assert workspace.counted_refusals("GUESSED_PASSWORD") == guessed + 1
    assert workspace.logged_refusals().count("GUESSED_PASSWORD") == logged + 1
    shut_out = guesser.sign_in("gina")
    assert shut_out.status_code == 429
    assert "Too many sign-ins failed" in shut_out.text
    assert browser_outside(workspace, "203.0.113.20").sign_in("gina").status_code == 303


def test_guesses_for_many_names_block_the_guessers_address(workspace: ServedWorkspace) -> None:
    browser_outside(workspace, "203.0.113.30").join("hilde")
    crowd = browser_outside(workspace, "203.0.113.31")
    tried = [
        crowd.sign_in(f"name-{number}").status_code for number in range(TRIES_OF_ALL_NAMES + 2)
    ]
    assert tried == [403] * TRIES_OF_ALL_NAMES + [429] * 2
    assert crowd.sign_in("hilde").status_code == 429
    assert browser_outside(workspace, "203.0.113.30").sign_in("hilde").status_code == 303


def test_guesses_against_each_person_are_logged(workspace: ServedWorkspace) -> None:
    for number, name in enumerate(("mia", "nora", "unregistered")):
        if name != "unregistered":
            browser_outside(workspace, f"203.0.113.{50 + number}").join(name)
        guesser = browser_outside(workspace, f"203.0.113.{60 + number}")
        for _ in range(TRIES):
            assert guesser.sign_in(name, "a sentence that is wrong").status_code == 403
    shown = [(row["sender"], row["code"]) for row in workspace.place.ok("review")["refusals"]]
    for whose in ("@mia", "@nora", "@interlock"):
        assert (whose, "GUESSED_PASSWORD") in shown


def test_refusals_of_a_connection_and_of_strangers_are_both_logged(
    workspace: ServedWorkspace, app: App, vera: Browser
) -> None:
    code = app.code(vera)
    before = workspace.logged_refusals().count("WRONG_VERIFIER")
    assert app.exchange(code, code_verifier="x" * 43).status_code == 400
    assert app.exchange(code, code_verifier=None).status_code == 400
    assert workspace.logged_refusals().count("WRONG_VERIFIER") == before + 2


def test_wrong_resource_is_logged_under_the_connections_sender(
    workspace: ServedWorkspace, app: App, vera: Browser
) -> None:
    connected = app.connect(vera, "own otto")
    elsewhere = {"resource": f"{EVIL}/mcp"}
    refused = app.refresh(connected.refresh_token, **elsewhere)
    assert refused.json()["error"] == "invalid_target"
    last = workspace.place.facts("request_refused")[-1]
    assert (last["sender"], last["outcome"]["code"]) == ("@otto", "WRONG_RESOURCE")


def test_refusal_during_a_pause_does_not_suppress_the_next_one(
    workspace: ServedWorkspace,
) -> None:
    server = workspace.other_servers["open"]
    place, stranger = server.place, Caller(server)
    place.ok("pause")
    assert stranger.get("/v1/whoami", {"token": "x"}).status_code == 400
    place.ok("resume")
    assert place.facts("request_refused") == []
    assert stranger.get("/v1/whoami", {"token": "x"}).status_code == 400
    kept = [fact["outcome"]["code"] for fact in place.facts("request_refused")]
    assert kept == ["TOKEN_IN_URL"]


NEW = "another sentence that is hard to guess"


def change(browser: Browser, current: str, new: str = NEW, again: str = NEW) -> httpx2.Response:
    fields = {"current": current, "password": new, "again": again}
    return browser.submit("/person/password", fields | {"form": hidden(browser.get("/person"))})


def test_person_changes_their_password_and_stays_connected(
    workspace: ServedWorkspace,
) -> None:
    browser = browser_outside(workspace, "203.0.113.70").join("paula")
    other = browser_outside(workspace, "203.0.113.71")
    assert other.sign_in("paula").status_code == 303
    app = App(workspace.server, url=OUTSIDE)
    connected = app.connect(browser)
    changed = change(browser, PASSWORD)
    assert changed.headers["location"] == "/person?done=password", changed.text
    assert "@paula" in browser.get("/person").text
    assert "@paula" not in other.get("/person").text
    connected.refresh()
    assert connected.tool().status_code == 200
    assert browser_outside(workspace, "203.0.113.72").sign_in("paula").status_code == 403
    assert browser_outside(workspace, "203.0.113.73").sign_in("paula", NEW).status_code == 303


def test_password_change_needs_the_current_password(workspace: ServedWorkspace) -> None:
    browser = browser_outside(workspace, "203.0.113.80").join("quirin")
    for current, new, again, status, reason in (
        (PASSWORD, NEW, "another password", 400, "passwords differ"),
        (PASSWORD, "short", "short", 400, "at least"),
        ("wrong", NEW, NEW, 403, "password is wrong"),
        ("wrong", NEW, NEW, 403, "password is wrong"),
        (PASSWORD, NEW, NEW, 429, "Too many sign-ins failed"),
    ):
        refused = change(browser, current, new, again)
        assert (refused.status_code, reason in refused.text) == (status, True), refused.text
    assert browser_outside(workspace, "203.0.113.81").sign_in("quirin").status_code == 303
    shown = [(row["sender"], row["code"]) for row in workspace.place.ok("review")["refusals"]]
    assert ("@quirin", "GUESSED_PASSWORD") in shown
    forged = browser.submit(
        "/person/password", {"current": PASSWORD, "password": NEW, "again": NEW}
    )
    assert forged.status_code == 403


def test_other_hosts_of_the_domain_cannot_set_the_cookies(workspace: ServedWorkspace) -> None:
    browser = browser_outside(workspace, "203.0.113.40").join("ingrid")
    names = {cookie.name for cookie in browser.http.cookies.jar}
    assert {name.partition("_person_")[0] for name in names} == {"__Host-interlock"}
    (cookie,) = browser.http.cookies.jar
    assert (cookie.secure, cookie.path, cookie.domain_specified) == (True, "/", False)
    planted = browser_outside(workspace, "203.0.113.41")
    planted.http.cookies.set(cookie.name.removeprefix("__Host-"), cookie.value or "")
    assert "@ingrid" not in planted.get("/person").text
    assert "@ingrid" in browser.get("/person").text
    assert browser.sign_out().status_code == 303
    assert "_person_" not in "".join(cookie.name for cookie in browser.http.cookies.jar)


def test_sign_in_form_ignores_cookies_set_by_other_hosts(
    workspace: ServedWorkspace,
) -> None:
    browser = browser_outside(workspace, "203.0.113.42")
    form = hidden(browser.get("/person"))
    (visit,) = browser.http.cookies.jar
    assert visit.name.startswith("__Host-interlock_visit_")
    planted = browser_outside(workspace, "203.0.113.42")
    planted.http.cookies.set(visit.name.removeprefix("__Host-"), visit.value or "")
    fields = {"form": form, "username": "vera", "password": PASSWORD}
    assert planted.submit("/person/sign-in", fields).status_code == 403
    assert browser.submit("/person/sign-in", fields).status_code == 303


# --- invalid authorization requests

WRONG: dict[str, dict[str, str | None]] = {
    "response type token": {"response_type": "token"},
    "unknown response type": {"response_type": "id_token code"},
    "no response type": {"response_type": None},
    "no response type, no challenge": {"response_type": None, "code_challenge": None},
    "another server": {"resource": f"{EVIL}/mcp"},
    "another path": {"resource": "http://127.0.0.1/elsewhere"},
    "plain challenge method": {"code_challenge_method": "plain"},
    "no challenge method": {"code_challenge_method": None},
    "empty challenge method": {"code_challenge_method": ""},
    "no challenge": {"code_challenge": None},
    "short challenge": {"code_challenge": "a" * 42},
    "long challenge": {"code_challenge": "a" * 44},
    "challenge that is not a digest": {"code_challenge": "=" * 43},
    "long state": {"state": "x" * (MAX_STATE_LENGTH + 1)},
}


@pytest.mark.parametrize("changes", WRONG.values(), ids=WRONG.keys())
def test_invalid_authorization_request_redirects_to_no_client(
    app: App, vera: Browser, stranger: Caller, changes: dict[str, str | None]
) -> None:
    """An attacker could register any address, and then lead people to it."""
    asked = app.wish(**changes)
    for caller in (stranger, vera):
        answer = caller.get("/authorize", asked)
        assert answer.status_code == 400
        assert START_AGAIN in answer.text
        assert "location" not in answer.headers
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    alone = app.wish(**changes, redirect_uri=None)
    assert "location" not in stranger.get("/authorize", alone).headers


REASONS: dict[str, tuple[dict[str, str | None], str]] = {
    "response type token": ({"response_type": "token"}, "asked for a response type other than"),
    "another server": ({"resource": f"{EVIL}/mcp"}, "access to another server"),
    "unknown client": ({"client_id": "reg_x"}, "not registered at this server"),
    "no client": ({"client_id": None}, "did not send its client_id."),
    "no response type": ({"response_type": None}, "did not send its response_type."),
    "another redirect": ({"redirect_uri": EVIL}, "that it did not register."),
    "malformed redirect": ({"redirect_uri": "nowhere"}, "that it did not register."),
    "malformed resource": ({"resource": "x"}, "access to another server"),
}


@pytest.mark.parametrize(("changes", "reason"), REASONS.values(), ids=REASONS.keys())
def test_invalid_authorization_request_shows_a_plain_reason(
    app: App, stranger: Caller, changes: dict[str, str | None], reason: str
) -> None:
    text = html.unescape(stranger.get("/authorize", app.wish(**changes)).text)
    assert reason in text
    assert f". {START_AGAIN}" in text
    for strange in (
        "pydantic",
        "Input should be",
        "Field required",
        "validation",
        "Client ID",
    ):
        assert strange not in text


@pytest.mark.parametrize("name", ["state", "client_id", "scope", "resource", "code_challenge"])
def test_duplicate_parameter_is_refused(app: App, stranger: Caller, name: str) -> None:
    wish = app.wish(scope="mail")
    answer = stranger.http.get(f"/authorize?{urlencode([*wish.items(), (name, wish[name])])}")
    assert answer.status_code == 400
    assert "twice" in answer.text
    assert "location" not in answer.headers


@pytest.mark.parametrize(
    "changes",
    [
        {"response_type": "token"},
        {"response_type": None, "code_challenge": None},
        {"resource": f"{EVIL}/mcp"},
    ],
)
def test_local_client_gets_the_error_in_one_line(
    workspace: ServedWorkspace, changes: dict[str, str | None]
) -> None:
    state = "two\nlines & more"
    back = App(workspace.server, redirect=HOME).authorize(state=state, **changes)
    assert back.status_code == 302
    assert back.headers["location"].startswith(f"{HOME}?")
    error = answered(back)
    assert error["error"]
    assert error["error_description"].isprintable()
    assert (error["state"], error["iss"]) == (state, workspace.url)


def test_longest_accepted_request_completes_every_step(
    workspace: ServedWorkspace, vera: Browser
) -> None:
    """A later step must not refuse a request as too large or forged after /authorize accepted
    it."""
    uris = [f"https://client.example/{number}/{'a' * 470}" for number in range(8)]
    about = {"client_name": "N" * 80, "token_endpoint_auth_method": "none"}
    taken = [
        uris[:count]
        for count in range(1, 9)
        if workspace.app.register(about | {"redirect_uris": uris[:count]}).status_code == 201
    ]
    app = App(workspace.server, redirect=uris[0], redirect_uris=taken[-1], **about)
    before = workspace.counted_refusals("FORGED_CONSENT")
    for state in ("\x01" * MAX_STATE_LENGTH, "\U0001f511" * MAX_STATE_LENGTH, '"\\' * 1000):
        back = vera.consent(app.asks(state=state))
        assert back.status_code == 303, back.text
        assert answered(back)["state"] == state
        assert app.exchange(answered(back)["code"]).status_code == 200
    assert workspace.counted_refusals("FORGED_CONSENT") == before
    browser = Browser(workspace.server)
    signing_in = fields_of(browser.get(app.asks(state="\x01" * MAX_STATE_LENGTH)))
    back = browser.submit(
        "/person/sign-in", signing_in | {"username": "vera", "password": PASSWORD}
    )
    assert browser.get(back.headers["location"]).status_code == 200


def test_redirect_uris_that_are_too_long_together_are_refused(app: App) -> None:
    uris = [f"https://client.example/{number}/{'a' * 470}" for number in range(8)]
    refused = app.register({"redirect_uris": uris})
    assert is_error(refused, 400, "invalid_redirect_uri")
    assert "together" in refused.json()["error_description"]


@pytest.mark.parametrize(
    "uri",
    [
        *("ws://client.example/", "wss://client.example/", "ftp://client.example/"),
        *("mailto:vera@client.example", "tel:+15550100", "sms:+15550100", "intent://x#Intent;end"),
        *("ms-settings:privacy", "ms-word:ofe", "search-ms:query=x", "search:x"),
        *("view-source:https://client.example/", "blob:https://client.example/x"),
    ],
)
def test_redirect_uri_with_a_scheme_of_other_programs_is_refused(app: App, uri: str) -> None:
    about = {"redirect_uris": [uri], "token_endpoint_auth_method": "none"}
    assert is_error(app.register(about), 400, "invalid_redirect_uri")


# --- clients with a secret


@pytest.mark.parametrize("shown", ["client_secret_post", "client_secret_basic"])
@pytest.mark.parametrize("registered", ["client_secret_post", "client_secret_basic", None])
def test_client_secret_is_accepted_in_form_and_header(
    workspace: ServedWorkspace, vera: Browser, registered: str | None, shown: str
) -> None:
    app = App(workspace.server, token_endpoint_auth_method=registered)
    app.about["token_endpoint_auth_method"] = shown
    connected = app.connect(vera)
    connected.refresh()
    assert connected.tool().status_code == 200
    assert app.revoke(connected.token).status_code == 200
    assert connected.tool().status_code == 401


def test_wrong_client_secret_gets_a_basic_challenge(workspace: ServedWorkspace) -> None:
    app = App(workspace.server, token_endpoint_auth_method="client_secret_basic")
    app.about["client_secret"] = "another"
    for answer in (app.exchange("x"), app.refresh("x"), app.revoke("x")):
        assert is_error(answer, 401, "invalid_client")
        assert answer.headers["www-authenticate"] == 'Basic realm="interlock"'
    app.about["token_endpoint_auth_method"] = "client_secret_post"
    for answer in (app.exchange("x"), app.refresh("x"), app.revoke("x")):
        assert is_error(answer, 401, "invalid_client")
        assert "www-authenticate" not in answer.headers


def test_malformed_basic_header_is_refused(stranger: Caller) -> None:
    fields = {"grant_type": "refresh_token", "refresh_token": "x"}
    for pair in ("%", base64.b64encode(b"\xff\xfe").decode(), "Og=="):
        answer = stranger.post("/token", fields, Authorization=f"Basic {pair}")
        assert is_error(answer, 401, "invalid_client")


# --- clients that run in a page

PAGE = {"Origin": EVIL, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}


@pytest.mark.parametrize(("path", "method"), OPEN_TO_ALL.items())
def test_cookieless_endpoints_answer_clients_in_other_sites_pages(
    vera: Browser, stranger: Caller, path: str, method: str
) -> None:
    wanted = "authorization, content-type, mcp-protocol-version"
    asking = {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": wanted}
    first = vera.http.request("OPTIONS", path, headers=PAGE | asking)
    assert first.status_code == 200
    assert method in first.headers["access-control-allow-methods"]
    allowed = first.headers["access-control-allow-headers"]
    assert all(name in allowed for name in wanted.split(", "))
    answer = stranger.http.request(method, path, headers=PAGE)
    assert answer.status_code in (200, 400, 401)
    assert answer.headers["access-control-allow-origin"] == "*"
    with_cookies = vera.http.request(method, path, headers=PAGE)
    assert with_cookies.status_code == answer.status_code
    for each in (first, answer, with_cookies):
        assert "access-control-allow-credentials" not in each.headers


def test_client_in_another_sites_page_gets_a_token(
    workspace: ServedWorkspace, vera: Browser
) -> None:
    app = App(workspace.server)
    code = app.code(vera)
    app.http.headers.update(PAGE)
    assert app.register({"redirect_uris": [REDIRECT]}).status_code == 201
    given = app.exchange(code)
    assert (given.status_code, given.headers["access-control-allow-origin"]) == (200, "*")
    again = app.refresh(given.json()["refresh_token"])
    assert (again.status_code, again.headers["access-control-allow-origin"]) == (200, "*")
    assert app.revoke(again.json()["access_token"]).status_code == 200


@pytest.mark.parametrize(("path", "method"), [*OF_PEOPLE.items(), *OF_OTHERS.items()])
def test_other_endpoints_refuse_requests_of_other_sites_pages(
    vera: Browser, path: str, method: str
) -> None:
    asking = {"Access-Control-Request-Method": method}
    for answer in (
        vera.http.request("OPTIONS", path, headers=PAGE | asking),
        vera.http.request(method, path, headers=PAGE),
        vera.http.request(method, path, headers={"Sec-Fetch-Site": "cross-site"}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (403, "FOREIGN_ORIGIN")
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(("path", "method"), OPEN_TO_ALL.items())
def test_rebound_host_name_is_refused(stranger: Caller, path: str, method: str) -> None:
    headers = PAGE | {"Host": "evil.example"}
    answer = stranger.http.request(method, path, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "FOREIGN_ORIGIN")


# --- codes and refresh tokens


def test_code_of_an_ended_connection_does_not_count_as_replayed(
    workspace: ServedWorkspace, app: App, vera: Browser
) -> None:
    code = app.code(vera, "own otto")
    page = vera.get("/person")
    target = f"/person/connections/{workspace.connections()[-1]['id']}/revoke"
    assert vera.submit(target, {"form": hidden(page)}).status_code == 303
    logged = workspace.logged_refusals().count("CODE_REPLAYED")
    counted = workspace.counted_refusals("CODE_REPLAYED")
    refused = app.exchange(code)
    assert is_error(refused, 400, "invalid_grant")
    assert "may have a copy" not in refused.json()["error_description"]
    assert workspace.logged_refusals().count("CODE_REPLAYED") == logged
    assert workspace.counted_refusals("CODE_REPLAYED") == counted


PUBLISHED = f"{EVIL}/client.json"


@pytest.mark.parametrize(
    "fields",
    [
        {"grant_type": "refresh_token", "refresh_token": "ilr_unknown"},
        {"grant_type": "refresh_token", "refresh_token": "x"},
        {
            "grant_type": "authorization_code",
            "code": "x",
            "redirect_uri": REDIRECT,
            "code_verifier": VERIFIER,
        },
    ],
)
def test_bad_grant_of_a_published_client_is_invalid_grant(
    workspace: ServedWorkspace, stranger: Caller, fields: dict[str, str]
) -> None:
    """A client that reads `invalid_client` discards its registration."""
    before = workspace.counted_refusals("BAD_CLIENT_DOCUMENT")
    answer = stranger.post("/token", fields | {"client_id": PUBLISHED})
    assert is_error(answer, 400, "invalid_grant")
    assert workspace.counted_refusals("BAD_CLIENT_DOCUMENT") == before, (
        "the server fetched the document"
    )


@pytest.mark.parametrize("more", [{"token": "x"}, {"code": "x"}, {"refresh_token": "x"}, {}])
def test_authorization_always_fetches_the_clients_document(
    app: App, stranger: Caller, more: dict[str, str]
) -> None:
    wish = app.wish(client_id="https://127.0.0.1/client.json") | more
    answer = stranger.get("/authorize", wish)
    assert answer.status_code == 400
    assert "not a public address" in answer.text


@pytest.mark.parametrize("scope", ["mail claim work", "mail offline_access", "mail", "openid", ""])
def test_refresh_with_the_originally_requested_scopes_works(
    app: App, vera: Browser, scope: str
) -> None:
    """The client gets the scopes that the person granted, which may be fewer."""
    connected = app.connect(vera, scope="mail")
    given = app.refresh(connected.refresh_token, scope=scope)
    assert given.status_code == 200, given.text
    assert given.json()["scope"] == "mail"


# --- URLs


@pytest.mark.parametrize(
    "query",
    [
        "t=%69lk_0",
        "t=%69%6C%6B%5F0",
        "t=%49LK_0",
        "t=il%72_0",
        "access%5Ftoken=x",
        "%61ccess_token=x",
        "a=1&ACCESS_TOKEN=x",
    ],
)
def test_token_in_a_url_is_detected_in_any_encoding(
    workspace: ServedWorkspace, stranger: Caller, query: str
) -> None:
    before = workspace.counted_refusals("TOKEN_IN_URL")
    answer = stranger.http.get(f"{workspace.url}/v1/whoami?{query}")
    assert answer.request.url.query.decode() == query, "httpx2 changed the query"
    assert (answer.status_code, answer.json()["code"]) == (400, "USAGE")
    assert workspace.counted_refusals("TOKEN_IN_URL") == before + 1


def test_trailing_slash_names_the_same_resource(
    workspace: ServedWorkspace, app: App, vera: Browser, stranger: Caller
) -> None:
    connected = app.connect(vera, resource=f"{workspace.url}/mcp/")
    headers = {
        "Accept": "application/json, text/event-stream",
        "Authorization": f"Bearer {connected.token}",
    }
    params = {"name": "whoami", "arguments": {}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = stranger.http.post("/mcp/", json=asked, headers=headers)
    assert answer.status_code == 200
    assert answer.json()["result"]["structuredContent"]["sender"] == "vera"
    refused = stranger.http.post("/mcp/", json=asked)
    assert refused.status_code == 401
    challenge = dict(parse_qsl(refused.headers["www-authenticate"].replace(", ", "&")))
    assert (
        challenge["resource_metadata"].strip('"') == f"{workspace.url}{KNOWN}protected-resource/mcp"
    )
    both = [stranger.get(f"{KNOWN}protected-resource/mcp{end}").json() for end in ("", "/")]
    assert both[0] == both[1]


# --- the size of the log


def test_bad_registrations_do_not_fill_the_log(workspace: ServedWorkspace) -> None:
    """The log's own limit is off in this module, so only the server's limit applies."""
    logged = workspace.logged_refusals().count("BAD_REGISTRATION")
    counted = workspace.counted_refusals("BAD_REGISTRATION")
    with httpx2.Client(base_url=workspace.url, trust_env=False, timeout=60) as client:
        for _ in range(300):
            assert client.post("/register", content=b"{").status_code == 400
    assert workspace.counted_refusals("BAD_REGISTRATION") == counted + 300
    assert workspace.logged_refusals().count("BAD_REGISTRATION") - logged <= 1


# --- a pause


def test_connections_and_sessions_can_end_during_a_pause(
    workspace: ServedWorkspace, app: App
) -> None:
    paula = Browser(workspace.server).join("paula")
    by_client, by_page, by_owner = (app.connect(paula) for _ in range(3))
    *_, one, two, three = workspace.connections()
    page = paula.get("/person")
    workspace.place.ok("pause", "--reason", "a leak")
    try:
        later = app.refresh(by_client.refresh_token)
        assert is_error(later, 503, "temporarily_unavailable")
        assert app.revoke(by_client.token).status_code == 200
        target = f"/person/connections/{two['id']}/revoke"
        assert paula.submit(target, {"form": hidden(page)}).status_code == 303
        workspace.place.ok("token", "revoke", three["id"])
        assert paula.sign_out().status_code == 303
        left = [found["id"] for found in workspace.connections()]
        assert not {one["id"], two["id"], three["id"]} & set(left)
    finally:
        workspace.place.ok("resume")
    for connected in (by_client, by_page, by_owner):
        assert connected.tool().status_code == 401
    assert "current-password" in paula.get("/person").text
