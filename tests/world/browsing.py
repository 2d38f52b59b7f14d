"""Serve the web door in a thread, and open its pages in a real browser."""

import asyncio
import http.client
import os
import re
import shutil
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from itertools import product
from typing import Any, Literal, NamedTuple
from urllib.parse import urlencode

import pytest
import uvicorn
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from starlette.applications import Starlette

from interlock.doors.web import routes
from interlock.node import Node
from interlock.node.live import LiveNode
from interlock.rooms.identity.token_format import SECRET_BYTES, compose
from world.commandline import Place, until

LIMIT_MS = 30_000


Scheme = Literal["light", "dark"]


CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]


ARGUMENTS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]


# A developer's machine may lack a browser. In CI, a missing browser fails the test.
IN_CI = "CI" in os.environ


needs_browser = pytest.mark.skipif(
    CHROMIUM is None and not IN_CI, reason="Chromium is not installed"
)


HOSTILE = (
    "</div></li><script>document.title = 'taken'</script><img src=x onerror=\"document.title='t'\">"
    "\" autofocus onfocus=\"document.title='t'\" x=' {{ 7 * 7 }} &lt;b&gt;"
)


SECRET = "Only the owner may read this"


expect.set_options(timeout=LIMIT_MS)


class Web(NamedTuple):
    """A served workspace, the owner's token, and the key that signs its cookies."""

    place: Place
    token: str
    key: bytes
    port: int

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    @property
    def link(self) -> str:
        return f"{self.url}/#token={self.token}"


class Reply(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    text: str


@contextmanager
def running(app: Starlette, port: int = 0) -> Iterator[int]:
    """Serve an application in a thread. Yield its port."""
    with closing(socket.socket()) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        config = uvicorn.Config(app, ws="none", log_config=None, timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
        thread.start()
        try:
            until(lambda: server.started)
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def serving(place: Place, token: str, key: bytes, port: int = 0) -> Iterator[Web]:
    place.workspace.mkdir(exist_ok=True)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        with Node(str(place.workspace)) as node:
            async with LiveNode(node) as live:
                app.router.routes += routes(live, owner=token.__eq__, key=key)
                try:
                    yield
                finally:
                    live.feed.end_waiting()

    with running(Starlette(lifespan=lifespan), port) as chosen:
        yield Web(place, token, key, chosen)


def fresh_token() -> str:
    return compose(os.urandom(SECRET_BYTES))


@pytest.fixture
def web(joined: Place) -> Iterator[Web]:
    """Serve the dashboard of a workspace with the senders otto-cli and vera."""
    with serving(joined, fresh_token(), os.urandom(32)) as web:
        yield web


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        assert CHROMIUM, "Chromium is missing, and CI must not pass without it"
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        context.set_default_timeout(LIMIT_MS)
        yield context


def signed_in(context: BrowserContext, web: Web) -> Page:
    """Open the dashboard by its link, wait until it is live, and mark it to detect a reload."""
    page = context.new_page()
    page.goto(web.link)
    expect(page.locator("#line")).to_have_text("Live")
    page.evaluate("window.untouched = true")
    return page


def is_untouched(page: Page) -> bool:
    return bool(page.evaluate("window.untouched === true"))


def wider_than_the_window(page: Page) -> list[str]:
    found: list[str] = page.evaluate(
        """[...document.querySelectorAll("body *")]
            .filter((element) => !element.closest(".unseen, .skip"))
            .filter((element) => getComputedStyle(element.parentElement).overflowX === "visible")
            .filter((element) => element.getBoundingClientRect().right > innerWidth + 1)
            .map((element) => element.outerHTML.slice(0, 80))"""
    )
    width = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return found + ([f"the page, by {width}"] if width > 0 else [])


def in_every_window(page: Page) -> Iterator[tuple[str, Scheme]]:
    """Show the page in a wide and a narrow window, light and dark. Yield size and scheme."""
    schemes: tuple[Scheme, ...] = ("light", "dark")
    for width, scheme in product((1280, 375), schemes):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        yield f"{width} pixels, {scheme}", scheme


def ask(web: Web, path: str, method: str = "GET", form: Any = None, **headers: str) -> Reply:
    """Send one request. Return the whole answer, or the first part of a stream."""
    with closing(http.client.HTTPConnection("127.0.0.1", web.port, timeout=30)) as connection:
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        if form is not None:
            said.setdefault("Content-Type", "application/x-www-form-urlencoded")
        connection.request(method, path, urlencode(form) if form is not None else None, said)
        answer = connection.getresponse()
        endless = answer.headers.get("content-type", "").startswith("text/event-stream")
        text = answer.read1() if endless else answer.read()
        return Reply(answer.status, answer.headers, text.decode())


def cookies(reply: Reply) -> dict[str, str]:
    """Return the cookies that an answer sets, by the first part of their names."""
    found = {}
    for line in reply.headers.get_all("set-cookie") or []:
        name, _, value = line.partition(";")[0].partition("=")
        found[name.rpartition("_")[0]] = f"{name}={value}" if value.strip('"') else ""
    return found


def form_of(reply: Reply) -> str:
    found = re.search(r'name="form" value="([0-9a-f]{64})"', reply.text)
    assert found, reply.text
    return found[1]


def sign_in(web: Web) -> str:
    """Sign in as the owner, and return the cookie."""
    page = ask(web, "/")
    reply = ask(
        web,
        "/sign-in",
        "POST",
        {"form": form_of(page), "token": web.token},
        Cookie=cookies(page)["interlock_form"],
        Origin=web.url,
    )
    assert reply.status == 303, reply
    return cookies(reply)["interlock_web"]
