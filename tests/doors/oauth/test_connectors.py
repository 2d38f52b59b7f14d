"""One connector URL gives each person their own identity. The official MCP client runs with its
OAuth support, and two people sign in and consent in a real browser."""

import asyncio
import json
import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from world.commandline import LIMIT_S, Place
from world.server import RunningServer

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"]
ARGUMENTS += ["--disable-background-networking", "--disable-component-update"]
LIMIT_MS = 30_000
PASSWORD = "a horse, a battery, a staple"
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        CHROMIUM is None and "CI" not in os.environ, reason="Chromium is not installed"
    ),
]
expect.set_options(timeout=LIMIT_MS)


class MemoryStorage(TokenStorage):
    """The tokens and the registration that a client keeps between its calls."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Callback:
    """The local web server where a client waits for the browser's redirect."""

    def __init__(self) -> None:
        self._targets: asyncio.Queue[str] = asyncio.Queue()

    async def __aenter__(self) -> "Callback":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.uri = f"http://127.0.0.1:{port}/callback"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readline()).decode()
        while (await reader.readline()).strip():
            continue
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nDone.")
        await writer.drain()
        writer.close()
        if "/callback" in line:
            await self._targets.put(line.split()[1])

    async def answer(self) -> dict[str, str]:
        async with asyncio.timeout(LIMIT_S):
            target = await self._targets.get()
        return {name: values[0] for name, values in parse_qs(urlsplit(target).query).items()}


class Person:
    """A person with their own browser, who connects a client. `asked` counts consent requests."""

    def __init__(self, served: RunningServer, name: str, context: BrowserContext) -> None:
        self.served, self.name, self.context = served, name, context
        self.kept = MemoryStorage()
        self.asked = 0

    async def join(self, own: str) -> None:
        link = self.served.place.ok("invite", self.name, "--own", own)["link"]
        page = await self.context.new_page()
        await page.goto(link)
        await page.fill("#password", PASSWORD)
        await page.fill("#again", PASSWORD)
        await page.click("button.main")
        await page.wait_for_url("**/person**")
        await page.close()

    async def sign_out(self) -> None:
        page = await self.context.new_page()
        await page.goto(f"{self.served.told['url']}/person")
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.locator("input[type=password]")).to_be_visible()
        await page.close()

    async def consent(self, url: str, agent: str, surface: str) -> None:
        """Sign in if needed, choose a sender, and allow the connection."""
        page = await self.context.new_page()
        await page.goto(url)
        if await page.locator("#password").count():
            await page.fill("#username", self.name)
            await page.fill("#password", PASSWORD)
            await page.click("button.main")
        existing = page.locator(f'[value="own {agent} {surface}"]')
        if await existing.count():
            await existing.check()
        else:
            await page.locator(f'[id="new {agent}"]').check()
            await page.fill(f'[name="surface {agent}"]', surface)
        await page.get_by_role("button", name="Allow").click()
        await page.wait_for_url("**/callback?**")
        await page.close()

    @asynccontextmanager
    async def client(self, agent: str, surface: str) -> AsyncIterator[ClientSession]:
        """Connect the official client, which is given only the URL."""
        url = f"{self.served.told['url']}/mcp"
        async with Callback() as callback:

            async def redirected(to: str) -> None:
                self.asked += 1
                await self.consent(to, agent, surface)

            async def returned() -> AuthorizationCodeResult:
                return AuthorizationCodeResult(**await callback.answer())

            auth = OAuthClientProvider(
                url,
                OAuthClientMetadata(
                    client_name="Claude",
                    redirect_uris=[callback.uri],  # type: ignore[list-item]
                    token_endpoint_auth_method="none",
                ),
                self.kept,
                redirected,
                returned,
            )
            async with (
                httpx2.AsyncClient(auth=auth, timeout=LIMIT_S) as http,
                streamable_http_client(url, http_client=http) as (reader, writer, *_),
                ClientSession(reader, writer) as session,
            ):
                await session.initialize()
                yield session


async def called(session: ClientSession, tool: str, **arguments: Any) -> Any:
    result = await session.call_tool(tool, arguments)
    assert not result.is_error, result
    return result.structured_content


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    assert CHROMIUM, "Chromium is not installed, and CI must not pass without it"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        await browser.close()


def refusals(place: Place) -> list[tuple[str, str]]:
    facts = place.ok("audit", "show", "--kind", "request_refused")["facts"]
    return [(fact["sender"], fact["outcome"]["code"]) for fact in facts]


def test_two_people_at_one_url_are_two_senders(tmp_path: Path) -> None:
    with RunningServer(Place(tmp_path)) as served:
        asyncio.run(_two_people(served))


async def _two_people(served: RunningServer) -> None:
    async with chromium() as browser:
        ada = Person(served, "ada", await browser.new_context())
        vera = Person(served, "vera", await browser.new_context())
        await ada.join("otto")
        await vera.join("neo")
        await vera.sign_out()  # she signs in again before her consent
        async with (
            ada.client("otto", "claudeai") as hers,
            vera.client("neo", "claudeai") as others,
        ):
            await _are_two(served, hers, others)
            await _sees_only_her_own(vera)
            await _cannot_become(served, vera)
            await _ends_one(served, ada, hers, others)
        assert (ada.asked, vera.asked) == (2, 1)


async def _are_two(served: RunningServer, hers: ClientSession, others: ClientSession) -> None:
    first, second = await called(hers, "whoami"), await called(others, "whoami")
    assert (first["address"], second["address"]) == ("@otto-claudeai", "@neo-claudeai")
    sent = await called(hers, "send", to="@neo-claudeai", text="Is it you?")
    (message,) = (await called(others, "inbox"))["messages"]
    assert (message["from"], message["source"]) == ("@otto-claudeai", "agent:otto-claudeai")
    explained = served.place.ok("explain", sent["message"]["id"])
    assert explained["token"]["use"] == "connection"
    assert explained["token"]["client"] == "Claude"
    assert (await called(hers, "inbox"))["messages"] == []


async def _sees_only_her_own(vera: Person) -> None:
    page = await vera.context.new_page()
    await page.goto(f"{vera.served.told['url']}/person")
    shown = await page.locator("main").inner_text()
    assert "@neo-claudeai" in shown
    assert "otto" not in shown
    await page.close()


async def _cannot_become(served: RunningServer, vera: Person) -> None:
    """Interlock refuses and records a form that names another person's agent."""
    page = await vera.context.new_page()
    await page.goto(_authorize(served, vera))
    assert "otto" not in await page.locator("main").inner_text()
    await _choose(page, "neo", "otto")
    await page.get_by_role("button", name="Allow").click()
    await expect(page.locator("[role=alert]")).to_contain_text("You do not own")
    assert ("@vera", "IDENTITY_MISMATCH") in refusals(served.place)
    await page.close()


def _authorize(served: RunningServer, person: Person) -> str:
    client = person.kept.client
    assert client is not None
    assert client.redirect_uris
    query = httpx2.QueryParams(
        client_id=client.client_id,
        redirect_uri=str(client.redirect_uris[0]),
        response_type="code",
        code_challenge="c" * 43,
        code_challenge_method="S256",
    )
    return f"{served.told['url']}/authorize?{query}"


async def _choose(page: Page, own: str, other: str) -> None:
    """Change the form to name another person's agent, as an attacker would."""
    await page.evaluate(
        """([own, other]) => {
            for (const field of document.querySelectorAll('form [name]')) {
                field.name = field.name.replaceAll(own, other);
                if (field.type === 'radio') field.value = field.value.replaceAll(own, other);
            }
            document.getElementById('new ' + own).checked = true;
        }""",
        [own, other],
    )


async def _ends_one(
    served: RunningServer, ada: Person, hers: ClientSession, others: ClientSession
) -> None:
    page = await ada.context.new_page()
    await page.goto(f"{served.told['url']}/person")
    await page.get_by_role("button", name=re.compile("^(Revoke|End|Disconnect)")).first.click()
    listed = served.place.ok("connection", "list")["connections"]
    assert [found["address"] for found in listed] == ["@neo-claudeai"]
    assert (await called(others, "whoami"))["address"] == "@neo-claudeai"
    # Her client has lost its connection, so it asks her again and gets a new one.
    assert (await called(hers, "whoami"))["address"] == "@otto-claudeai"
    assert ada.asked == 2
    again = served.place.ok("connection", "list")["connections"]
    assert json.dumps(again).count("@otto-claudeai") == 1
    await page.close()
