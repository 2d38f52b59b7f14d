"""The pages of people in a real browser, with a client of another site that asks to connect. Most
tests disable scripts, because the pages contain none."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from interlock.errors import Refusal
from interlock.rooms.people.verbs import ShowPerson
from interlock.verbs.credentials import Credentials
from world.browsing import (
    LIMIT_MS,
    browser,
    in_every_window,
    needs_browser,
    running,
    wider_than_the_window,
)
from world.commandline import until
from world.web_door import PASSWORD, WebDoor, joined, web_door

__all__ = ["browser", "web_door"]
pytestmark = pytest.mark.long


class Client(NamedTuple):
    """A client of another site. `told` has the URLs that the server redirected to it."""

    url: str
    told: list[str]

    def asks_at(self, web_door: WebDoor, **members: Any) -> str:
        """Return the address of the consent page for this client."""
        request = {"redirect_uri": f"{self.url}/callback", **members}
        return web_door.url + web_door.consent_path(**request)


@pytest.fixture
def client() -> Iterator[Client]:
    told: list[str] = []

    async def callback(request: Request) -> Response:
        told.append(str(request.url))
        return HTMLResponse("<h1>Connected</h1>")

    async def framing(request: Request) -> Response:
        return HTMLResponse(f"<h1>Framed</h1><iframe src='{request.query_params['of']}'></iframe>")

    async def opening(request: Request) -> Response:
        return HTMLResponse("<h1>Client</h1>")

    app = Starlette(
        routes=[
            Route("/callback", callback),
            Route("/framing", framing),
            Route("/", opening),
        ]
    )
    with running(app) as port:
        yield Client(f"http://localhost:{port}", told)


@contextmanager
def window(browser: Browser, *, scripts: bool = False) -> Iterator[Page]:
    """A page with its own cookies."""
    viewport: Any = {"width": 1280, "height": 800}
    with browser.new_context(viewport=viewport, java_script_enabled=scripts) as context:
        context.set_default_timeout(LIMIT_MS)
        yield context.new_page()


def join_in(page: Page, web_door: WebDoor, name: str, *own: str) -> None:
    page.goto(web_door.url + web_door.invite(name, *own))
    page.get_by_label("Choose a password").fill(PASSWORD)
    page.get_by_label("Repeat the password").fill(PASSWORD)
    page.get_by_role("button", name="Join").click()
    expect(page.get_by_role("status")).to_contain_text("Welcome")


def sign_in_at(page: Page, name: str) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()


@needs_browser
def test_person_joins_and_connects_renames_and_ends_a_client(
    web_door: WebDoor, client: Client, browser: Browser
) -> None:
    with window(browser) as page:
        join_in(page, web_door, "anna", "otto")
        page.goto(client.asks_at(web_door))
        expect(page.locator(".host")).to_have_text("a program on your computer")
        expect(page.get_by_label("a new name:").nth(1)).to_be_checked()
        page.get_by_label("claim").uncheck()
        page.get_by_label("Connection name").fill("Laptop")
        page.get_by_role("button", name="Allow").click()
        expect(page.get_by_role("heading")).to_have_text("Connected")
        (connection,) = web_door.connections()
        assert connection["address"] == "@otto-claudeai"
        assert connection["scopes"] == ["mail", "work"]
        page.goto(f"{web_door.url}/person")
        row = page.locator(".connections li", has_text="Laptop")
        expect(row).to_contain_text("acts as @otto-claudeai")
        page.get_by_text("Rename").click()
        page.get_by_label("New name for Laptop").fill("Desk")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("status")).to_contain_text("renamed")
        page.goto(client.asks_at(web_door))
        expect(page.locator("form.plain")).to_contain_text("already used by Desk")
        page.goto(f"{web_door.url}/person")
        page.get_by_role("button", name="End connection Desk").click()
        expect(page.get_by_role("status")).to_contain_text("Access ended")
        expect(page.locator("main")).to_contain_text("No client is connected")
    (answer,) = client.told
    assert parse_qs(urlsplit(answer).query).keys() == {"code", "state", "iss"}


@needs_browser
def test_sign_in_returns_to_the_clients_request(
    web_door: WebDoor, client: Client, browser: Browser
) -> None:
    joined(web_door, "anna")
    with window(browser) as page:
        page.goto(client.asks_at(web_door))
        expect(page.locator("main")).to_contain_text("calls itself Claude.ai")
        page.get_by_label("Name").fill("anna")
        page.get_by_label("Password").fill("not the right one")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_be_visible()
        sign_in_at(page, "anna")
        expect(page.get_by_role("heading", level=1)).to_have_text("Connect Claude.ai?")
        page.get_by_role("button", name="Deny").click()
        expect(page.get_by_role("heading")).to_have_text("Connected")
    assert "error=access_denied" in client.told[0]
    assert web_door.connections() == []


@needs_browser
def test_two_people_see_only_their_own_agents(
    web_door: WebDoor, client: Client, browser: Browser
) -> None:
    with window(browser) as one, window(browser) as two:
        join_in(one, web_door, "anna", "otto")
        join_in(two, web_door, "bert", "neo")
        for page, mine, theirs in ((one, "otto", "neo"), (two, "neo", "otto")):
            page.goto(client.asks_at(web_door))
            expect(page.locator("form.plain")).to_contain_text(f"@{mine}")
            assert f"@{theirs}" not in page.content()
            page.get_by_role("button", name="Allow").click()
            expect(page.get_by_role("heading")).to_have_text("Connected")
        for page, mine, theirs in ((one, "otto", "neo"), (two, "neo", "otto")):
            page.goto(f"{web_door.url}/person")
            expect(page.locator("main")).to_contain_text(f"@{mine}-claudeai")
            assert f"@{theirs}" not in page.content()
    senders = sorted(connection["address"] for connection in web_door.connections())
    assert senders == ["@neo-claudeai", "@otto-claudeai"]


@needs_browser
def test_another_site_cannot_frame_the_pages(
    web_door: WebDoor, client: Client, browser: Browser
) -> None:
    with window(browser) as page:
        join_in(page, web_door, "anna")
        for path in ("/person", web_door.consent_path()):
            page.goto(f"{client.url}/framing?of={quote(web_door.url + path, safe='')}")
            expect(page.get_by_role("heading")).to_have_text("Framed")
            for frame in page.frames[1:]:
                assert "anna" not in frame.content()
        until(lambda: "FRAMED_PAGE" in web_door.logged_refusals())


@needs_browser
def test_popup_keeps_the_opener_and_sends_no_referrer(
    web_door: WebDoor, client: Client, browser: Browser
) -> None:
    joined(web_door, "anna")
    with window(browser, scripts=True) as page:
        page.goto(client.url)
        with page.expect_popup() as opened:
            page.evaluate("(url) => void window.open(url)", client.asks_at(web_door))
        popup = opened.value
        sign_in_at(popup, "anna")
        popup.get_by_role("button", name="Allow").click()
        expect(popup.get_by_role("heading")).to_have_text("Connected")
        assert popup.evaluate("window.opener !== null")
        assert popup.evaluate("document.referrer") == ""


@needs_browser
def test_scripts_cannot_read_the_cookie_and_urls_contain_no_secret_but_the_code(
    web_door: WebDoor, client: Client, browser: Browser
) -> None:
    with window(browser, scripts=True) as page:
        seen: list[str] = []
        page.on("request", lambda request: seen.append(request.url))
        join_in(page, web_door, "anna")
        assert page.evaluate("document.cookie") == ""
        kept = {each["name"]: each for each in page.context.cookies(web_door.url)}
        (mine,) = (each for name, each in kept.items() if name.startswith("interlock_person"))
        assert (mine["httpOnly"], mine["sameSite"]) == (True, "Lax")
        page.goto(client.asks_at(web_door))
        page.get_by_role("button", name="Allow").click()
        expect(page.get_by_role("heading")).to_have_text("Connected")
        assert not [url for url in seen if mine["value"] in url or quote(PASSWORD) in url]
        assert [url for url in seen if "ilc_" in url] == client.told
        with pytest.raises(Refusal):
            web_door.node.call(Credentials(mine["value"][:-1]), ShowPerson())


@needs_browser
def test_long_names_do_not_make_pages_wider_than_the_window(
    web_door: WebDoor, client: Client, browser: Browser
) -> None:
    long = "w" * 60
    with window(browser, scripts=True) as page:
        join_in(page, web_door, long, "o" * 38)
        asked = client.asks_at(web_door, client_name="W" * 80)
        page.goto(asked)
        page.get_by_label("Connection name").fill("N" * 80)
        page.get_by_label("a new name:").nth(1).check()
        page.get_by_role("button", name="Allow").click()
        expect(page.get_by_role("heading")).to_have_text("Connected")
        invitation = web_door.url + web_door.invite(long)
        for url in (asked, f"{web_door.url}/person", invitation, f"{web_door.url}/invite/{long}"):
            page.goto(url)
            page.evaluate("document.querySelectorAll('details').forEach((it) => it.open = true)")
            for how, _ in in_every_window(page):
                assert wider_than_the_window(page) == [], (url, how)


@needs_browser
def test_owners_sign_in_page_links_to_the_persons_sign_in(
    web_door: WebDoor, browser: Browser
) -> None:
    joined(web_door, "anna")
    with window(browser) as page:
        page.goto(web_door.url)
        page.get_by_role("link", name="Sign in with your name and password").click()
        sign_in_at(page, "anna")
        expect(page.locator(".me")).to_have_text("You are @anna")
