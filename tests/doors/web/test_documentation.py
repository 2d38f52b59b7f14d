"""The documentation at /docs: everyone may read it, in a browser that runs no foreign code."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import BrowserContext, Page, expect
from starlette.applications import Starlette
from starlette.routing import Router

from interlock.doors.http import Guard
from interlock.doors.http.metrics import Metrics
from interlock.doors.web import documentation
from world.browsing import Web, ask, in_every_window, needs_browser, running, sign_in
from world.served_workspace import Serve

URL = "http://127.0.0.1:7420"
# The pages with the widest content, and one of each kind.
PAGES = (
    "index.html",
    "work.html",
    "decisions/README.html",
    "reference/cli.html",
    "reference/http.html",
    "reference/python.html",
    "reference/errors.html",
    "search.html?q=fence",
)


def asked(
    path: str, headers: Mapping[str, str] | None = None, method: str = "GET"
) -> httpx2.Response:
    """Ask for a path at a server of this machine that has only the documentation."""
    app = Router(documentation.routes(), redirect_slashes=False)
    guard = Guard(app, Metrics(), loopback=True)

    async def ask() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(guard)) as client:
            return await client.request(method, URL + path, headers=headers)

    return asyncio.run(ask())


# --- serving


def test_server_gives_the_documentation_to_callers_without_a_token(
    site: Path, serve: Serve
) -> None:
    served = serve().server
    reply = served.ask("GET", "/docs")
    assert (reply.status, reply.headers["location"]) == (307, "/docs/")
    reply = served.ask("GET", "/docs/")
    assert (reply.status, reply.body) == (200, (site / "index.html").read_bytes())


def test_pages_of_the_dashboard_link_to_the_documentation(web: Web) -> None:
    for cookie in ("", sign_in(web)):
        assert '<a href="/docs/">' in ask(web, "/", Cookie=cookie).text


@pytest.mark.parametrize(
    ("path", "type"),
    [
        ("/docs/mail.html", "text/html; charset=utf-8"),
        ("/docs/_static/styles/furo.css?v=1", "text/css; charset=utf-8"),
        ("/docs/searchindex.js", "text/javascript; charset=utf-8"),
        ("/docs/_images/scaling.svg", "image/svg+xml"),
        ("/docs/_images/consent.png", "image/png"),
        ("/docs/licenses/furo.txt", "text/plain; charset=utf-8"),
    ],
)
def test_every_file_has_its_type_and_the_strict_headers(site: Path, path: str, type: str) -> None:
    answer = asked(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, type)
    policy = answer.headers["content-security-policy"].split("; ")
    assert {"default-src 'none'", "script-src 'self'", "style-src 'self'"} <= {*policy}
    assert {"frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} <= {*policy}
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert "set-cookie" not in answer.headers


def test_browser_keeps_a_page_and_asks_whether_it_is_current(site: Path) -> None:
    answer = asked("/docs/mail.html")
    assert answer.headers["cache-control"] == "no-cache"
    for header, name in (("If-None-Match", "etag"), ("If-Modified-Since", "last-modified")):
        again = asked("/docs/mail.html", {header: answer.headers[name]})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["cache-control"] == "no-cache"


def test_head_has_the_headers_of_a_page_without_its_body(site: Path) -> None:
    answer, head = asked("/docs/"), asked("/docs/", method="HEAD")
    assert (head.status_code, head.content) == (200, b"")
    for name in ("content-length", "content-type", "etag", "last-modified"):
        assert head.headers[name] == answer.headers[name]


@pytest.mark.parametrize(
    "path",
    [
        "/docs/nothing.html",
        "/docs/_static/",
        "/docs/_static",
        "/docs/reference/",
        "/docs/.digest",
        "/docs/objects.inv",
        "/docs/%00.html",
        "/docs/" + "a" * 300 + ".html",
        # The templates are next to the site.
        "/docs/../templates/base.html",
        "/docs/%2e%2e/templates/base.html",
        "/docs/..%2ftemplates%2fbase.html",
        "/docs/reference/%2e%2e/%2e%2e/templates/base.html",
        "/docs//templates/base.html",
        "/docs/..%5ctemplates%5cbase.html",
    ],
)
def test_nothing_but_the_files_of_the_site_is_served(site: Path, path: str) -> None:
    answer = asked(path)
    assert answer.status_code == 404
    assert "{{" not in answer.text


def test_an_absolute_path_is_not_served(site: Path) -> None:
    answer = asked(f"/docs/{site.parent / 'templates' / 'base.html'}")
    assert (answer.status_code, answer.text) == (404, documentation.NO_PAGE)


def test_documentation_cannot_be_changed(site: Path) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        answer = asked("/docs/index.html", method=method)
        assert (answer.status_code, answer.json()["code"]) == (405, "USAGE")


def test_links_of_other_sites_lead_to_the_documentation_but_their_scripts_do_not(
    site: Path,
) -> None:
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert asked("/docs", followed).status_code == 307
    assert asked("/docs/mail.html", followed).status_code == 200
    for headers in (
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Origin": "https://evil.example"},
        {"Host": "evil.example"},
    ):
        assert asked("/docs/mail.html", headers).json()["code"] == "FOREIGN_ORIGIN"


def test_without_a_site_the_answer_says_how_to_build_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documentation, "SITE", str(tmp_path / "site"))
    answer = asked("/docs/")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert "make docs" in answer.text


# --- reading


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The address of the documentation at a server that runs."""
    with running(Starlette(routes=documentation.routes())) as port:
        yield f"http://127.0.0.1:{port}/docs/"


@pytest.fixture
def page(context: BrowserContext, address: str) -> Iterator[Page]:
    """A page that asks no other host, breaks no policy, and has no error in a script."""
    troubles: list[str] = []

    def note(trouble: str, *, when: bool = True) -> None:
        troubles.extend([trouble] * when)

    def is_foreign(url: str) -> bool:
        return not url.startswith((address, "data:"))

    page = context.new_page()
    page.on("pageerror", lambda error: note(str(error)))
    page.on("console", lambda said: note(said.text, when=said.type == "error"))
    page.on("request", lambda asked: note(asked.url, when=is_foreign(asked.url)))
    yield page
    assert troubles == []


@needs_browser
def test_search_finds_pages_by_a_word(page: Page, address: str) -> None:
    page.goto(address)
    page.get_by_placeholder("Search").fill("redaction")
    page.keyboard.press("Enter")
    results = page.locator("#search-results li")
    expect(results.first).to_contain_text("redact", ignore_case=True)
    # The text around the word comes from the page that was found.
    expect(page.locator("#search-results .context").first).to_be_visible()
    results.get_by_role("link", name="Mail", exact=True).first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Mail")


@needs_browser
def test_guides_are_found_before_decisions(page: Page, address: str) -> None:
    page.goto(f"{address}search.html?q=claim")
    expect(page.get_by_text("Search finished")).to_be_visible()
    links: list[str] = page.locator("#search-results li > a").evaluate_all(
        "(links) => links.map((link) => link.getAttribute('href'))"
    )
    is_decision = [link.startswith("decisions/") for link in links]
    assert {*is_decision[:5]} == {False}
    assert True in is_decision


@needs_browser
def test_reader_chooses_light_or_dark_colours(page: Page, address: str) -> None:
    page.emulate_media(color_scheme="light")
    page.goto(f"{address}mail.html")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.locator(".theme-toggle-content .theme-toggle").click()
    expect(page.locator("body")).to_have_attribute("data-theme", "dark")
    dark = page.evaluate(colour)
    assert dark != light
    page.reload()
    assert page.evaluate(colour) == dark


@needs_browser
def test_pages_fit_a_desktop_and_a_phone(page: Page, address: str) -> None:
    for name in PAGES:
        page.goto(address + name)
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 800})
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, (name, width)


@pytest.mark.long
@needs_browser
def test_every_page_fits_every_window(page: Page, address: str, site: Path) -> None:
    for path in sorted(site.rglob("*.html")):
        page.goto(address + str(path.relative_to(site)))
        for window, _ in in_every_window(page):
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), window
