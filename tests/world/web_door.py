"""The web door of a workspace in a thread of this process, and visitors without a browser.

A test can use the node behind the door, and replace its constants. Tests that need only HTTP use
`ServedWorkspace`.
"""

import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from interlock.doors.http import Guard
from interlock.doors.http.metrics import Metrics
from interlock.doors.web import routes
from interlock.node import Node, passwords
from interlock.node.keys import Seals
from interlock.node.live import LiveNode
from interlock.rooms.people.verbs import Invite, ListConnections
from interlock.verbs.credentials import Credentials
from world.browsing import Reply, Web, ask, fresh_token, running
from world.commandline import Place

OWNER = Credentials(owner=True)
PASSWORD = "a quiet meadow at noon"
PUBLIC_URL = "https://interlock.example"
FORM = re.compile(r'name="form" value="([0-9a-f]{64})"')


class GuardedApp(Starlette):
    """A web application behind the guard of the server."""

    guard: Guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self.guard(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


class WebDoor:
    """The web door and its node, for tests of people's pages that need both."""

    def __init__(self, web: Web, node: Node) -> None:
        self.web = web
        self.node = node
        self.url = web.url

    def invite(self, name: str, *own: str, surface: str | None = None, ttl_s: int = 600) -> str:
        """Invite a person or an agent. Return the path of the invitation."""
        return str(self.node.call(OWNER, Invite(name, surface, own, ttl_s=ttl_s))["path"])

    def consent_path(self, **members: Any) -> str:
        """Return the path to which a client sends a person, to request a connection."""
        wanted = {
            "client": "reg_unknown",
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
        """The connections of OAuth apps, oldest first."""
        found: list[Any] = self.node.call(OWNER, ListConnections())["connections"]
        return found

    def sessions(self) -> list[Any]:
        """The browsers in which people are signed in, oldest first."""
        found: list[Any] = self.node.call(OWNER, ListConnections())["sessions"]
        return found

    def logged_refusals(self) -> list[str]:
        """The codes of the refusals in the log, oldest first."""
        found = self.node.events(0, 1000)
        return [event.data["code"] for event in found if event.kind == "request_refused"]


@contextmanager
def serving_people(place: Place, key: bytes) -> Iterator[WebDoor]:
    """Serve the web door of a place's workspace until the block ends."""
    place.workspace.mkdir(exist_ok=True)
    nodes: list[Node] = []

    @asynccontextmanager
    async def lifespan(app: GuardedApp) -> AsyncIterator[None]:
        with Node(str(place.workspace)) as node:
            async with LiveNode(node) as live:
                app.router.routes += routes(live, owner=fresh_token().__eq__, key=key)
                app.guard = Guard(app.router, Metrics(), loopback=True, outside=PUBLIC_URL)
                nodes.append(node)
                yield

    with running(GuardedApp(lifespan=lifespan)) as port:
        yield WebDoor(Web(place, "", key, port), nodes[0])


@pytest.fixture
def web_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebDoor]:
    """The web door of a new workspace, with passwords that are fast to check."""
    monkeypatch.setattr(passwords, "MEMORY_KIB", 64)
    with serving_people(Place(tmp_path), os.urandom(32)) as web_door:
        yield web_door


class Visitor:
    """A person with cookies and without a browser, who fills in the forms of a web door."""

    def __init__(self, web_door: WebDoor) -> None:
        self._web = web_door.web
        self.jar: dict[str, str] = {}

    def get(self, path: str, **headers: str) -> Reply:
        return self._keep(ask(self._web, path, "GET", None, Cookie=self._cookie(), **headers))

    def post(self, path: str, fields: dict[str, str], **headers: str) -> Reply:
        return self._keep(ask(self._web, path, "POST", fields, Cookie=self._cookie(), **headers))

    def fill(self, page: str, path: str, fields: dict[str, str]) -> Reply:
        """Post a form of a page, with the token of the form."""
        return self.post(path, {"form": form_of(self.get(page)), **fields})

    def _cookie(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self.jar.items())

    def _keep(self, reply: Reply) -> Reply:
        for line in reply.headers.get_all("set-cookie") or []:
            name, _, value = line.partition(";")[0].partition("=")
            if value.strip('"'):
                self.jar[name] = value
            else:
                self.jar.pop(name, None)
        return reply

    def join(self, path: str, password: str = PASSWORD) -> Reply:
        """Accept an invitation."""
        return self.fill(path, path, {"password": password, "again": password})

    def sign_in(self, name: str, password: str = PASSWORD, **fields: str) -> Reply:
        typed = {"username": name, "password": password, **fields}
        return self.fill("/person", "/person/sign-in", typed)

    def answer(self, page: str, **fields: str) -> Reply:
        """Answer a client's request for a connection."""
        sealed = page.partition("request=")[2]
        given = {name.replace("_", " "): value for name, value in fields.items()}
        return self.fill(page, "/consent", {"request": sealed, "answer": "allow", **given})


def form_of(reply: Reply) -> str:
    """The token of the form on a page."""
    found = FORM.search(reply.text)
    assert found, reply
    return found[1]


def joined(web_door: WebDoor, name: str, *own: str) -> Visitor:
    """Return a visitor who accepted an invitation and owns these agents."""
    visitor = Visitor(web_door)
    assert visitor.join(web_door.invite(name, *own)).status == 303
    return visitor
