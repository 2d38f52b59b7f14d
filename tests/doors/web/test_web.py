"""The dashboard in a real browser: its content, its live updates, and the requests it refuses.

The server is uvicorn with only the web door's routes. No guard of the server helps, so the door
itself must refuse strangers.
"""

import http.client
import os
import re
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import apsw
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from interlock.doors.web import stream, views
from interlock.doors.web.browsers import COOKIE_TTL_S, OwnerCookies
from interlock.doors.web.stream import MIN_INTERVAL_S, PARTS
from interlock.node import Node
from interlock.rooms.mail.verbs import SendMessage
from interlock.verbs.credentials import Credentials
from world.browsing import (
    HOSTILE,
    LIMIT_MS,
    SECRET,
    Web,
    ask,
    cookies,
    form_of,
    fresh_token,
    in_every_window,
    is_untouched,
    needs_browser,
    running,
    serving,
    sign_in,
    signed_in,
    wider_than_the_window,
)
from world.commandline import Place, until

pytestmark = pytest.mark.every_engine


# --- serving


@pytest.fixture
def new_web(place: Place) -> Iterator[Web]:
    """A served workspace without agents."""
    with serving(place, fresh_token(), os.urandom(32)) as web:
        yield web


# --- helpers


def send(web: Web, text: str, *words: str, to: str = "@vera", sender: str = "otto-cli") -> str:
    answer = web.place.ok("send", to, "-", "--from", sender, *words, stdin=text.encode())
    return str(answer["message"]["id"])


def row(page: Page, id: str) -> Any:
    return page.locator(f"#mail li[data-key='{id}']")


def private(web: Web) -> list[str]:
    """Return every path that shows data of the workspace."""
    id = send(web, SECRET)
    parts = [f"/parts/{name}" for name in PARTS]
    return ["/", "/?mail=500", *parts, "/live", f"/mail/{id}", f"/parts/message/{id}"]


# --- signing in and out


@needs_browser
def test_sign_in_link_signs_in_and_removes_its_token_from_the_address(
    web: Web, context: BrowserContext
) -> None:
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    page = signed_in(context, web)
    assert page.url == f"{web.url}/"
    assert not [url for url in asked if web.token in url.partition("#")[0]]
    assert web.token not in page.content()
    assert page.evaluate("document.cookie") == ""
    (kept,) = (each for each in context.cookies() if each["name"].startswith("interlock_web"))
    assert kept["httpOnly"]
    assert kept["sameSite"] == "Strict"
    assert kept["path"] == "/"
    assert not kept["secure"]
    assert kept["expires"] == pytest.approx(time.time() + COOKIE_TTL_S, abs=600)
    assert web.token not in kept["value"]


@needs_browser
def test_reopened_sign_in_link_leaves_no_token_in_the_address(
    web: Web, context: BrowserContext
) -> None:
    page = signed_in(context, web)
    page.goto("about:blank")
    page.goto(web.link)
    expect(page.locator("#agents")).to_contain_text("@otto-cli")
    until(lambda: page.url == f"{web.url}/")


@needs_browser
def test_pasted_token_signs_in_and_sign_out_shows_the_sign_in_page(
    web: Web, context: BrowserContext
) -> None:
    page = context.new_page()
    page.goto(web.url)
    expect(page.locator("main")).to_contain_text("interlock up")
    page.get_by_label("Or paste the owner's token").fill(f" {web.token}\n")
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#agents")).to_contain_text("@otto-cli")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    page.goto(web.url)
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    assert "otto" not in page.content()


@needs_browser
def test_sign_out_moves_other_open_pages_to_the_sign_in_page(
    web: Web, context: BrowserContext
) -> None:
    left = signed_in(context, web)
    page = signed_in(context, web)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    send(web, SECRET)
    expect(left.get_by_role("heading", level=1)).to_have_text("Sign in")
    assert SECRET not in left.content()


@needs_browser
def test_sign_in_link_with_a_wrong_token_shows_the_reason(
    web: Web, context: BrowserContext
) -> None:
    page = context.new_page()
    page.goto(f"{web.url}/#token={fresh_token()}")
    expect(page.get_by_role("alert")).to_contain_text("not the owner's token")
    assert "#" not in page.url
    assert not [each for each in context.cookies() if each["name"].startswith("interlock_web")]


def test_only_the_owners_token_signs_in(web: Web) -> None:
    page = ask(web, "/")
    agents = web.place.join("iris")
    mistyped = web.token[:-1] + ("a" if web.token[-1] != "a" else "b")
    for token, why in (
        (fresh_token(), "not the owner"),
        (agents, "does not accept tokens of agents"),
        (mistyped, "mistyped or cut off"),
        ("", "not the owner"),
        ("\udce4\x00", "not the owner"),
    ):
        form = {"form": form_of(page), "token": token.encode("utf-8", "surrogateescape")}
        cookie = cookies(page)["interlock_form"]
        reply = ask(web, "/sign-in", "POST", form, Cookie=cookie)
        assert reply.status == 403, token
        assert why in reply.text.replace("&#39;", "'"), token
        assert "interlock_web" not in cookies(reply)


def test_owners_cookie_is_secure_after_sign_in_over_https(joined: Place) -> None:
    token, key = fresh_token(), os.urandom(32)

    async def behind_tls(request: Request) -> Response:
        response = Response()
        OwnerCookies(key).sign_in(request, response)
        return response

    class Encrypted:
        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await self.app(scope | {"scheme": "https"}, receive, send)

    app = Starlette(routes=[Route("/", behind_tls)])
    app.add_middleware(Encrypted)
    with running(app) as port:
        (kept, _) = ask(Web(joined, token, key, port), "/").headers.get_all("set-cookie") or []
    assert "; Secure" in kept
    assert "; HttpOnly" in kept


@needs_browser
def test_two_workspaces_on_one_machine_do_not_sign_each_other_out(
    web: Web, context: BrowserContext, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Place(tmp_path_factory.mktemp("other"))
    with serving(other, fresh_token(), os.urandom(32)) as beside:
        signed_in(context, web)
        signed_in(context, beside)
        page = context.new_page()
        page.goto(web.url)
        expect(page.locator("#agents")).to_contain_text("@otto-cli")


# --- refused requests


def test_without_a_valid_cookie_no_page_part_or_stream_shows_data(web: Web) -> None:
    paths = private(web)
    junk = sign_in(web).partition("=")[0] + "=gAAAAAjunk"
    for shown in ({}, {"Cookie": junk}, {"Cookie": ""}):
        for path in paths:
            reply = ask(web, path, **shown)
            page = path in ("/", "/?mail=500") or path.startswith("/mail/")
            assert reply.status == (200 if page else 401), path
            assert "Sign in" in reply.text if page else reply.text == "", path
            assert "otto" not in reply.text, path
            assert SECRET not in reply.text, path


def test_forged_or_expired_cookie_is_refused(web: Web) -> None:
    name, _, value = sign_in(web).partition("=")
    foreign = OwnerCookies(os.urandom(32))._fernet.encrypt(b"owner").decode()
    long_ago = int(time.time()) - COOKIE_TTL_S - 60
    old = OwnerCookies(web.key)._fernet.encrypt_at_time(b"owner", long_ago).decode()
    other = OwnerCookies(web.key)._fernet.encrypt(b"visitor").decode()
    assert ask(web, "/parts/agents", Cookie=f"{name}={value}").status == 200
    for bad in (foreign, old, other, value[:-2] + "AA"):
        assert ask(web, "/parts/agents", Cookie=f"{name}={bad}").status == 401
        assert ask(web, "/live", Cookie=f"{name}={bad}").status == 401


def test_request_from_another_origin_is_refused(web: Web) -> None:
    paths = private(web)
    cookie = sign_in(web)
    for origin in ("http://evil.example", "http://127.0.0.1:1", "null", f"{web.url}.evil.example"):
        for path in paths:
            reply = ask(web, path, Cookie=cookie, Origin=origin)
            assert reply.status == 403, path
            assert "otto" not in reply.text, path
            assert SECRET not in reply.text, path
            assert "access-control-allow-origin" not in reply.headers, path
    assert "@otto-cli" in ask(web, "/parts/agents", Cookie=cookie, Origin=web.url).text


@needs_browser
def test_page_of_another_origin_can_neither_read_nor_sign_out(
    web: Web, context: BrowserContext
) -> None:
    """The other page is on the same host, so the browser sends our cookie with its requests."""
    send(web, SECRET)

    async def evil(request: Request) -> Response:
        return HTMLResponse(
            f'<form method="post" action="{web.url}/sign-out"><input name="form" value="x"></form>'
        )

    signed_in(context, web)
    with running(Starlette(routes=[Route("/", evil)])) as port:
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{port}/")
        for mode in ("cors", "no-cors"):
            read = page.evaluate(
                """([url, mode]) => fetch(url, { credentials: "include", mode })
                    .then((response) => response.text(), () => "refused")""",
                [f"{web.url}/parts/mail", mode],
            )
            assert read in ("refused", "")
        heard = page.evaluate(
            """(url) => new Promise((done) => {
                const source = new EventSource(url, { withCredentials: true });
                source.addEventListener("changed", () => done("heard"));
                source.addEventListener("error", () => done("refused"));
            })""",
            f"{web.url}/live",
        )
        assert heard == "refused"
        page.evaluate("document.forms[0].submit()")
        expect(page.locator("body")).to_contain_text("A page of another site made this request")
    page.goto(web.url)
    expect(page.locator("#mail")).to_contain_text(SECRET)


def test_form_needs_the_token_of_its_own_cookie(web: Web) -> None:
    cookie, other = sign_in(web), sign_in(web)
    form, others = form_of(ask(web, "/", Cookie=cookie)), form_of(ask(web, "/", Cookie=other))
    assert form != others
    for sent in ({}, {"form": ""}, {"form": others}, {"form": form[:-1]}, {"form": "\u00e9"}):
        reply = ask(web, "/sign-out", "POST", sent, Cookie=cookie, Origin=web.url)
        assert reply.status == 403, sent
        assert not cookies(reply)
    reply = ask(web, "/sign-out", "POST", {"form": form}, Cookie=cookie, Content_Type="text/plain")
    assert reply.status == 403
    assert ask(web, "/sign-out", "POST", {"form": form}, Cookie=cookie).status == 303


def test_sign_in_needs_the_form_and_the_cookie_of_one_page(web: Web) -> None:
    page = ask(web, "/")
    form, cookie = form_of(page), cookies(page)["interlock_form"]
    other = cookies(ask(web, "/"))["interlock_form"]
    for sent, headers in (
        ({"form": form}, {}),
        ({"form": form}, {"Cookie": other}),
        ({"form": "0" * 64}, {"Cookie": cookie}),
        ({}, {"Cookie": cookie}),
    ):
        reply = ask(web, "/sign-in", "POST", sent | {"token": web.token}, **headers)
        assert reply.status == 403, sent
        assert "interlock_web" not in cookies(reply), sent
    large = {"form": form, "token": web.token, "filling": "x" * 100_000}
    assert ask(web, "/sign-in", "POST", large, Cookie=cookie).status == 403


def test_pages_forbid_frames_foreign_scripts_and_caching(web: Web) -> None:
    cookie = sign_in(web)
    for shown in ({}, {"Cookie": cookie}):
        for path in ("/", "/parts/mail", "/mail/none", "/sign-in"):
            headers = ask(web, path, **shown).headers
            policy = headers["content-security-policy"].split("; ")
            assert "default-src 'none'" in policy
            assert "script-src 'self'" in policy
            assert "style-src 'self'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-frame-options"] == "DENY"
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "same-origin"
            assert headers["cache-control"] == "no-store"


def test_static_files_have_content_hashes_and_are_cached_forever(web: Web) -> None:
    page = ask(web, "/").text
    files = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
    assert {file.rpartition(".")[2] for file in files} == {"css", "js", "svg"}
    for file in files:
        reply = ask(web, file)
        assert reply.status == 200, file
        assert "immutable" in reply.headers["cache-control"], file
        assert reply.headers["x-content-type-options"] == "nosniff", file
    for none in ("/static/style.css", "/static/..%2f__init__.py", "/static/none"):
        assert ask(web, none).status == 404, none


# --- content


@needs_browser
def test_empty_workspace_shows_the_first_commands(new_web: Web, context: BrowserContext) -> None:
    page = signed_in(context, new_web)
    expect(page.locator("#agents")).to_contain_text("interlock join otto")
    expect(page.locator("#claims")).to_contain_text("interlock claim acquire --item B-0444")
    expect(page.locator("#mail")).to_contain_text("interlock send @vera")
    new_web.place.join("iris")
    expect(page.locator("#agents li")).to_have_count(1)
    expect(page.locator("#agents")).not_to_contain_text("interlock join otto")
    expect(page.locator("#agents li")).to_contain_text("@iris agent")
    expect(page.locator("#agents li .reach")).to_contain_text("unknown")
    assert is_untouched(page)


@needs_browser
def test_message_sent_from_the_command_line_appears_without_reload(
    web: Web, context: BrowserContext
) -> None:
    page = signed_in(context, web)
    done = web.place.process(
        *("--workspace", str(web.place.workspace), "send", "@vera", "The build is green."),
        *("--subject", "main", "--priority", "high", "--from", "otto-cli", "--json"),
        INTERLOCK_WORKSPACE=None,
    )
    assert done.status == 0, done
    found = row(page, done.json["message"]["id"])
    expect(found.locator(".envelope")).to_have_text("@otto-cli →to @vera send high")
    expect(found.locator(".subject")).to_have_text("main")
    expect(found.locator(".text")).to_have_text("The build is green.")
    expect(found.locator(".part")).to_have_count(0)
    assert is_untouched(page)


@needs_browser
def test_receipts_advance_without_reload(web: Web, context: BrowserContext) -> None:
    page = signed_in(context, web)
    id = send(web, "Look at this.")
    state, steps = row(page, id).locator(".state"), row(page, id).locator(".steps i")
    expect(state).to_have_text("accepted")
    expect(steps).to_have_class(["reached", "pending", "pending", "pending", "pending"])
    web.place.ok("inbox", "--from", "vera")
    expect(state).to_have_text("shown")
    web.place.ok("read", id, "--from", "vera")
    expect(state).to_have_text("read")
    web.place.ok("ack", id, "--from", "vera")
    expect(state).to_have_text("acked")
    expect(steps).to_have_class(["reached", "skipped", "reached", "reached", "acked"])
    refused = send(web, "And at that.")
    web.place.ok("ack", refused, "--decline", "--from", "vera")
    expect(row(page, refused).locator(".steps i").last).to_have_class("declined")
    expired = send(web, "Quickly.", "--ttl", "1s")
    expect(row(page, expired).locator(".state")).to_have_text("expired")
    expect(page.locator(".needs")).to_contain_text("1 message expired unread")
    assert is_untouched(page)


@needs_browser
def test_claim_appears_and_its_remaining_time_counts_down(
    web: Web, context: BrowserContext
) -> None:
    page = signed_in(context, web)
    web.place.ok(
        *("claim", "acquire", "--item", "B-0444", "--branch", "fix/login", "--ttl", "10m"),
        *("--worktree", "../shop", "--note", "The login", "--from", "otto-cli"),
        *("--session", "window-1"),
    )
    claim = page.locator("#claims li")
    expect(claim.locator(".what")).to_have_text("B-0444")
    for words in ("@otto-cli", "window-1", "fence 1", "fix/login", "../shop", "The login"):
        expect(claim).to_contain_text(words)
    left = claim.locator(".left")
    assert re.fullmatch(r"(10m 00|9m \d\d)s", left.inner_text())
    box = left.bounding_box()
    shown = left.evaluate(
        """(time) => new Promise((done) => {
            const shown = [time.textContent];
            const watch = new MutationObserver(() => {
                shown.push(time.textContent);
                if (shown.length === 4) done(shown);
            });
            watch.observe(time, { childList: true, characterData: true, subtree: true });
        })"""
    )
    steps = [_seconds(one) - _seconds(next) for one, next in pairwise(shown)]
    assert min(steps) in (1, 2), shown
    assert left.bounding_box() == box
    web.place.ok("claim", "release", "--item", "B-0444", "--from", "otto-cli", "--session=window-1")
    expect(claim).to_have_count(0)
    expect(page.locator("#claims")).to_contain_text("No claims.")
    assert is_untouched(page)


def _seconds(left: str) -> int:
    minutes, seconds = re.findall(r"\d+", left)
    return int(minutes) * 60 + int(seconds)


@needs_browser
def test_reach_follows_presence_without_reload(
    web: Web, context: BrowserContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "PRESENCE_S", 1.0)
    page = signed_in(context, web)
    vera = page.locator("#agents li[data-key='@vera']")
    expect(vera).to_contain_text("person")
    expect(vera.locator(".word")).to_have_text("unknown")
    expect(vera.locator(".reach")).to_contain_text("never seen")
    with web.place.start("inbox", "--wait", "120s", "--from", "vera") as child:
        try:
            expect(vera.locator(".word")).to_have_text("wakes", timeout=2 * LIMIT_MS)
        finally:
            child.kill()
            child.communicate()
    expect(vera.locator(".word")).to_have_text("waits", timeout=2 * LIMIT_MS)
    expect(vera.locator(".reach")).to_contain_text("just now")
    assert is_untouched(page)


@needs_browser
def test_pause_shows_its_reason_and_the_resume_command(web: Web, context: BrowserContext) -> None:
    page = signed_in(context, web)
    expect(page.locator(".place strong")).to_have_text("workspace")
    web.place.ok("pause", "--reason", "the disk is full")
    expect(page.locator(".paused")).to_contain_text("disk is full. To resume: interlock resume")
    web.place.ok("resume")
    expect(page.locator(".paused")).to_have_count(0)


@needs_browser
def test_broadcast_shows_counts_by_state_and_expands_to_recipients(
    web: Web, context: BrowserContext
) -> None:
    names = [f"agent-{number}" for number in range(5)]
    for name in names:
        web.place.join(name)
    id = send(web, "Everybody stop.", to="AGENT:*", sender="vera")
    page = signed_in(context, web)
    summary = row(page, id).locator("summary")
    expect(summary).to_have_text("6 recipients: 6 accepted")
    expect(row(page, id).locator(".receipt").first).not_to_be_visible()
    summary.click()
    expect(row(page, id).locator(".receipt").first).to_be_visible()
    web.place.ok("ack", id, "--from", names[0])
    expect(summary).to_have_text("6 recipients: 1 acked, 5 accepted")
    expect(row(page, id).locator(".receipt").first).to_be_visible()
    expect(summary).to_be_focused()
    assert is_untouched(page)


@needs_browser
def test_long_text_is_shortened_in_the_list_and_whole_on_its_own_page(
    web: Web, context: BrowserContext
) -> None:
    text = "".join(f"line {number} of the report\n" for number in range(400))
    id = send(web, text, "--subject", "The report")
    page = signed_in(context, web)
    shown = row(page, id).locator(".text").inner_text()
    assert text.startswith(shown)
    expect(row(page, id).locator(".part")).to_contain_text(
        re.compile(rf"Shortened: {len(shown)} bytes of {len(text) / 1000:.1f} kB")
    )
    row(page, id).get_by_role("link", name="Read all").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("The report")
    assert page.locator("pre.text").text_content() == text
    expect(page.locator(".part")).to_have_count(0)
    web.place.ok("ack", id, "--note", "Thank you", "--from", "vera")
    expect(page.locator(".histories")).to_contain_text("Thank you")
    expect(page.locator(".receipt .state")).to_have_text("acked")
    page.goto(f"{web.url}/mail/no-such-message")
    expect(page.get_by_role("heading", level=1)).to_have_text("Message not found")


@needs_browser
def test_command_is_shown_whole_or_not_at_all(web: Web, context: BrowserContext) -> None:
    long = "rm -rf build && " + "make all && " * 100 + "true"
    short = send(web, "make all", "--type", "command", "--why", "main is green")
    id = send(web, long, "--type", "command", "--why", "so " * 600)
    page = signed_in(context, web)
    expect(row(page, short).locator(".text")).to_have_text("make all")
    expect(row(page, short)).to_contain_text("main is green")
    expect(row(page, id).locator(".text")).to_have_count(0)
    expect(row(page, id)).not_to_contain_text("rm -rf")
    expect(row(page, id).locator(".part")).to_contain_text("shows a command whole or not at all")
    row(page, id).get_by_role("link", name="Read all").click()
    assert page.locator("pre.text").text_content() == long
    huge = send(web, "true; " * 20_000, "--type", "command", "--why", "a test")
    page.goto(f"{web.url}/mail/{huge}")
    expect(page.locator("pre.text")).to_have_count(0)
    expect(page.locator(".part")).to_contain_text(f"interlock read {huge}")


@needs_browser
def test_link_shows_older_mail(web: Web, context: BrowserContext) -> None:
    with Node(str(web.place.workspace)) as node:
        token = web.place.ok("token", "mint", "--sender", "otto-cli")["token"]
        for number in range(65):
            request = SendMessage("@vera", {"text": f"Number {number}."}, "send")
            node.call(Credentials(token), request)
    page = signed_in(context, web)
    expect(page.locator("#mail li")).to_have_count(60)
    expect(page.locator("#mail li").first).to_contain_text("Number 64.")
    page.get_by_role("link", name="Show 500").click()
    expect(page.locator("#mail li")).to_have_count(65)
    expect(page.locator("#line")).to_have_text("Live")
    send(web, "One more.")
    expect(page.locator("#mail li")).to_have_count(66)


@needs_browser
def test_redacted_body_disappears_from_the_page(web: Web, context: BrowserContext) -> None:
    id = send(web, SECRET, "--subject", "A slip")
    page = signed_in(context, web)
    expect(row(page, id)).to_contain_text(SECRET)
    web.place.ok("redact", id, "--reason", "a password")
    expect(row(page, id)).to_contain_text("The body was redacted.")
    expect(row(page, id)).not_to_contain_text(SECRET)
    assert is_untouched(page)


@needs_browser
def test_times_use_the_viewers_time_zone(web: Web, browser: Browser) -> None:
    id = send(web, "Is it late?")
    with browser.new_context(timezone_id="Asia/Kolkata") as context:
        context.set_default_timeout(LIMIT_MS)
        page = signed_in(context, web)
        moment = row(page, id).locator("time")
        at = datetime.fromisoformat(moment.get_attribute("datetime") or "")
        local = at.astimezone(timezone(timedelta(hours=5, minutes=30)))
        expect(moment).to_have_text(f"{local:%H:%M}")


# --- text of agents is data


@needs_browser
def test_hostile_text_stays_text(web: Web, context: BrowserContext) -> None:
    troubles: list[str] = []
    context.on("dialog", lambda dialog: troubles.append(dialog.message))
    context.on("console", lambda message: troubles.append(message.text))
    page = signed_in(context, web)
    id = send(web, HOSTILE, "--subject", HOSTILE, to="AGENT:*")
    asked = send(web, HOSTILE, "--type", "command", "--why", HOSTILE)
    web.place.ok(
        *("claim", "acquire", "--item", "B-0444", "--branch", HOSTILE, "--worktree", HOSTILE),
        *("--note", HOSTILE, "--from", "otto-cli"),
    )
    path = "<img src=x onerror=alert(1)>"
    web.place.ok("claim", "acquire", "--path", path, "--repo", "<b>shop</b>", "--from", "vera")
    web.place.ok("ack", id, "--note", HOSTILE, "--from", "vera")
    expect(row(page, id).locator(".state")).to_have_text("acked")
    expect(page.locator("#claims li")).to_have_count(2)
    assert row(page, id).locator(".text").text_content() == HOSTILE
    assert row(page, id).locator(".subject").text_content() == HOSTILE
    assert row(page, asked).locator(".text").text_content() == HOSTILE
    assert page.locator("#claims .path").text_content() == path
    expect(page.locator("#claims .repo")).to_have_text("in <b>shop</b>")
    for place in (".branch bdi", ".worktree bdi", ".note"):
        assert page.locator(f"#claims {place}").text_content() == HOSTILE, place
    web.place.ok("pause", "--reason", HOSTILE)
    expect(page.locator(".paused bdi")).to_have_text(HOSTILE)
    page.reload()
    expect(page.locator("#line")).to_have_text("Live")
    page.goto(f"{web.url}/mail/{id}")
    assert page.locator("pre.text").text_content() == HOSTILE
    assert page.locator(".histories .note").text_content() == HOSTILE
    assert page.title() == "Message · Interlock"
    assert page.locator("main :is(script, img, [onfocus], [onerror])").count() == 0
    assert troubles == []


@needs_browser
def test_control_characters_are_shown_as_code_points(web: Web, context: BrowserContext) -> None:
    id = send(web, "invoice\u202efdp.exe\u2066 \x1b[31m\u200bend", to="@vera")
    page = signed_in(context, web)
    expect(row(page, id).locator(".text")).to_have_text(
        "invoice⟨U+202E⟩fdp.exe⟨U+2066⟩ ⟨U+001B⟩[31m⟨U+200B⟩end"
    )


@needs_browser
def test_no_text_makes_the_page_wider_than_its_window(web: Web, context: BrowserContext) -> None:
    word = "W" * 2000
    send(web, word, "--subject", "S" * 200)
    send(web, word, to="@" + "n" * 120)
    send(web, "x" * 1_000_000)
    whole = send(web, "y" * 90 + " " + "z" * 200, "--type", "command", "--why", word)
    web.place.ok(
        *("claim", "acquire", "--item", "I" * 200, "--branch", "b" * 200, "--worktree", "/w" * 99),
        *("--note", "n" * 300, "--from", "otto-cli", "--session", "s" * 100),
    )
    web.place.ok("claim", "acquire", "--path", "p/" * 90, "--repo", "r" * 90, "--from", "vera")
    page = signed_in(context, web)
    expect(page.locator("#mail li")).to_have_count(4)
    for window, scheme in in_every_window(page):
        assert wider_than_the_window(page) == [], window
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (max(map(int, re.findall(r"\d+", paper))) < 100) == (scheme == "dark")
    page.goto(f"{web.url}/mail/{whole}")
    expect(page.locator("pre.text")).to_have_count(1)
    for window, _ in in_every_window(page):
        assert wider_than_the_window(page) == [], window


# --- live updates


@needs_browser
def test_lost_connection_is_shown_and_missed_mail_appears_after_reconnect(
    joined: Place, context: BrowserContext
) -> None:
    token, key = fresh_token(), os.urandom(32)
    with serving(joined, token, key) as web:
        page = signed_in(context, web)
    expect(page.locator("#line")).to_have_text("Connection lost, reconnecting")
    id = send(web, "Sent while no server ran.")
    with serving(joined, token, key, web.port):
        expect(page.locator("#line")).to_have_text("Live")
        expect(row(page, id)).to_contain_text("Sent while no server ran.")
        assert is_untouched(page)
        page.goto("about:blank")


@needs_browser
def test_new_mail_keeps_scroll_position_and_focus(web: Web, context: BrowserContext) -> None:
    ids = [send(web, f"Number {number}.\n" * 4) for number in range(20)]
    page = signed_in(context, web)
    link = row(page, ids[4]).locator("a.at")
    link.focus()
    page.evaluate("scrollBy(0, 40)")
    before = link.bounding_box()
    new = send(web, "A new one.\n" * 4)
    expect(row(page, new)).to_have_count(1)
    web.place.ok("ack", ids[4], ids[19], "--from", "vera")
    expect(row(page, ids[4]).locator(".state")).to_have_text("acked")
    expect(link).to_be_focused()
    after = link.bounding_box()
    assert before is not None
    assert after is not None
    assert after["y"] == pytest.approx(before["y"], abs=2)
    assert page.locator("#mail li").first.get_attribute("data-key") == new


@needs_browser
def test_unchanged_rows_are_not_replaced(web: Web, context: BrowserContext) -> None:
    first, second = send(web, "The first."), send(web, "The second.")
    page = signed_in(context, web)
    page.evaluate("document.querySelectorAll('#mail li').forEach((each) => { each.kept = true; })")
    web.place.ok("ack", second, "--from", "vera")
    expect(row(page, second).locator(".state")).to_have_text("acked")
    kept = "(id) => document.querySelector(`#mail li[data-key='${id}']`).kept === true"
    assert page.evaluate(kept, first)
    assert not page.evaluate(kept, second)


@needs_browser
def test_script_and_server_format_times_alike(web: Web, context: BrowserContext) -> None:
    page = signed_in(context, web)
    now = 1_800_000_000_000
    for seconds in (0, 1, 59, 60, 61, 3599, 3600, 3661, 86_399, 86_400, 90_061, 2_592_000):
        at = _rfc3339(now + seconds * 1000)
        assert page.evaluate(f"left({seconds})") == views.left(at, now), seconds
        at = _rfc3339(now - seconds * 1000)
        assert page.evaluate(f"ago({seconds})") == views.ago(at, now), seconds


def _rfc3339(ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(ms // 1000))


def test_burst_of_facts_becomes_a_few_events(web: Web) -> None:
    cookie = sign_in(web)
    token = web.place.ok("token", "mint", "--sender", "otto-cli")["token"]
    began = time.monotonic()
    with closing(http.client.HTTPConnection("127.0.0.1", web.port, timeout=30)) as connection:
        connection.request("GET", "/live", headers={"Cookie": cookie})
        answer = connection.getresponse()
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        with Node(str(web.place.workspace)) as node:
            request = SendMessage("@vera", {"text": "Again."}, "send")
            for _ in range(200):
                last = node.call(Credentials(token), request)["message"]["seq"]
        events: list[int] = []
        while not events or events[-1] < last:
            line = answer.readline().decode()
            if line.startswith("id: "):
                events.append(int(line[4:]))
            elif line.startswith("data: ") and len(events) > 1:
                assert set(line[6:].split()) == {"mail", "agents", "header", "work"}
    assert events == sorted(events)
    assert len(events) <= (time.monotonic() - began) / MIN_INTERVAL_S + 2


def test_reconnecting_page_receives_the_changes_it_missed(web: Web) -> None:
    cookie = sign_in(web)
    reached = web.place.entries()
    send(web, "Sent meanwhile.")

    def first_change(path: str, **headers: str) -> str:
        with closing(http.client.HTTPConnection("127.0.0.1", web.port, timeout=30)) as connection:
            connection.request("GET", path, headers={"Cookie": cookie} | headers)
            answer = connection.getresponse()
            while not (line := answer.readline().decode()).startswith("data: "):
                assert line, "the stream has ended"
            return line[6:].strip()

    everything, changed = " ".join(sorted(PARTS)), "agents header mail work"
    assert first_change(f"/live?after={reached}") == changed
    assert first_change("/live?after=0", **{"Last-Event-ID": str(reached)}) == changed
    for far in ("/live", "/live?after=999999", "/live?after=nonsense"):
        assert first_change(far) == everything


# --- damage


@needs_browser
def test_damage_is_shown_in_its_part_and_other_parts_still_render(
    web: Web, context: BrowserContext
) -> None:
    send(web, "A body to be damaged.")
    connection = apsw.Connection(str(web.place.workspace / "log.db"))
    connection.execute("UPDATE bodies SET body = CAST('junk' AS BLOB)")
    connection.close()
    page = signed_in(context, web)
    expect(page.locator("#mail [role=alert]")).to_contain_text("LOG_DAMAGED")
    expect(page.locator("#agents")).to_contain_text("@otto-cli")
