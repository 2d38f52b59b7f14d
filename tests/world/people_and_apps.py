"""People with a browser, and OAuth apps that act for them, at a running server.

    vera = Browser(server).join("vera", "--own", "otto")
    connected = App(server).connect(vera, "own otto")
    assert connected.tool("whoami").status_code == 200

They speak plain HTTP, so that a test can send requests that no browser and no app would send.
"""

import base64
import copy
import hashlib
import html
import re
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

import httpx2

from world.commandline import LIMIT_S
from world.server import RunningServer

PASSWORD = "a sentence that is hard to guess"
REDIRECT = "https://client.example/callback"
VERIFIER = "a-verifier-as-long-as-the-standard-wants-it-to-be"
Fields = dict[str, str]
Changes = dict[str, str | None]


def challenge_of(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def answered(response: httpx2.Response) -> Fields:
    """The parameters of the address to which the server redirects a browser."""
    return dict(parse_qsl(urlsplit(response.headers["location"]).query))


def hidden(page: httpx2.Response, name: str = "form") -> str:
    """The value of a hidden field in the form of a page."""
    found = re.search(f'name="{name}" value="([^"]*)"', page.text)
    assert found is not None, page.text
    return html.unescape(found[1])


def fields_of(page: httpx2.Response) -> Fields:
    """Return the fields of an unchanged form: hidden ones, and checked boxes."""
    sent: Fields = {}
    for tag in re.findall(r"<input [^>]*>", page.text):
        pairs = re.findall(r'([a-z]+)="([^"]*)"', tag)
        said = {name: html.unescape(value) for name, value in pairs}
        if said.get("type") not in ("radio", "checkbox") or tag.endswith(" checked>"):
            sent[said["name"]] = said.get("value", "on")
    return sent


class Caller:
    """A client for HTTP requests that follow no redirect. `url` sets the Host header."""

    def __init__(self, served: RunningServer, url: str | None = None) -> None:
        self.served = served
        self.url = url or served.url
        # Keep no connection open, because tests do not close the client before the server ends.
        limits = httpx2.Limits(max_keepalive_connections=0)
        self.http = httpx2.Client(
            base_url=served.url,
            headers={"Host": urlsplit(self.url).netloc},
            timeout=LIMIT_S,
            trust_env=False,
            limits=limits,
        )

    def at(self, served: RunningServer) -> Self:
        """Return the same caller at another server with the same address."""
        other = copy.copy(self)
        Caller.__init__(other, served, self.url)
        other.http.cookies = self.http.cookies
        return other

    def get(self, target: str, params: Fields | None = None, **headers: str) -> httpx2.Response:
        return self.http.get(target, params=params, headers=_said(headers))

    def post(self, target: str, fields: Fields, **headers: str) -> httpx2.Response:
        return self.http.post(target, data=fields, headers=_said(headers))


class Browser(Caller):
    """A person's browser. It stores cookies, and sends the origin of a form."""

    def __init__(self, served: RunningServer, url: str | None = None) -> None:
        super().__init__(served, url)
        self.name = ""

    def submit(self, target: str, fields: Fields, **headers: str) -> httpx2.Response:
        return self.post(target, fields, **{"Origin": self.url, **headers})

    def invited(self, name: str, *words: str) -> str:
        """Invite a person, and return the path of the invitation's page."""
        return str(self.served.place.ok("invite", name, *words)["path"])

    def join(self, name: str, *words: str) -> "Browser":
        """Invite the person, and accept the invitation with a password."""
        path = self.invited(name, *words)
        fields = {"form": hidden(self.get(path)), "password": PASSWORD, "again": PASSWORD}
        joined = self.submit(path, fields)
        assert joined.status_code == 303, joined.text
        self.name = name
        return self

    def sign_in(self, name: str, password: str = PASSWORD, **more: str) -> httpx2.Response:
        page = self.get("/person")
        fields = {"form": hidden(page), "username": name, "password": password}
        return self.submit("/person/sign-in", fields | more)

    def sign_out(self) -> httpx2.Response:
        return self.submit("/person/sign-out", {"form": hidden(self.get("/person"))})

    def consent(self, target: str, sender: str | None = None, **more: str) -> httpx2.Response:
        """Allow a connection that an app requests, as one of the senders on the page."""
        page = self.get(target)
        assert page.status_code == 200, page.text
        chosen = {"sender": sender or f"own {self.name}", "answer": "allow"}
        return self.submit("/consent", fields_of(page) | chosen | more)


class App(Caller):
    """An OAuth app. It registers itself, and sends its registration in each request."""

    def __init__(
        self,
        served: RunningServer,
        redirect: str = REDIRECT,
        *,
        url: str | None = None,
        **metadata: Any,
    ) -> None:
        super().__init__(served, url)
        self.redirect = redirect
        about = {
            "client_name": "Claude",
            "redirect_uris": [redirect],
            "token_endpoint_auth_method": "none",
        }
        told = self.register(about | metadata)
        assert told.status_code == 201, told.text
        self.about = told.json()
        self.id = str(self.about["client_id"])

    def register(self, metadata: Any) -> httpx2.Response:
        return self.http.post("/register", json=metadata)

    def wish(self, **changes: str | None) -> Fields:
        """Return the parameters for /authorize. A change to None omits a parameter."""
        wish: Changes = {
            "response_type": "code",
            "client_id": self.id,
            "redirect_uri": self.redirect,
            "state": "as it was",
            "code_challenge": challenge_of(VERIFIER),
            "code_challenge_method": "S256",
            "resource": f"{self.url}/mcp",
        }
        return {name: value for name, value in (wish | changes).items() if value is not None}

    def authorize(self, **changes: str | None) -> httpx2.Response:
        return self.get("/authorize", self.wish(**changes))

    def asks(self, **changes: str | None) -> str:
        """Request authorization, and return the path where the person consents."""
        sent = self.authorize(**changes)
        assert sent.status_code == 302, sent.text
        there = urlsplit(sent.headers["location"])
        assert there.path == "/consent", sent.headers
        return f"{there.path}?{there.query}"

    def code(self, person: Browser, sender: str | None = None, **changes: str | None) -> str:
        """Get a code by the consent of a person."""
        back = person.consent(self.asks(**changes), sender)
        assert back.status_code == 303, back.text
        return answered(back)["code"]

    def exchange(self, code: str, **changes: str | None) -> httpx2.Response:
        fields: Changes = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect,
            "client_id": self.id,
            "code_verifier": VERIFIER,
        }
        return self._ask("/token", fields | changes)

    def refresh(self, refresh: str, **changes: str | None) -> httpx2.Response:
        fields: Changes = {"grant_type": "refresh_token", "refresh_token": refresh}
        return self._ask("/token", fields | {"client_id": self.id} | changes)

    def revoke(self, token: str, **changes: str | None) -> httpx2.Response:
        fields: Changes = {"token": token, "client_id": self.id}
        return self._ask("/revoke", fields | changes)

    def _ask(self, target: str, fields: Changes) -> httpx2.Response:
        headers = {}
        method, secret = self.about["token_endpoint_auth_method"], self.about.get("client_secret")
        if method == "client_secret_post":
            fields = {"client_secret": secret} | fields
        if method == "client_secret_basic":
            pair = base64.b64encode(f"{self.id}:{secret}".encode()).decode()
            headers = {"Authorization": f"Basic {pair}"}
        given = {name: value for name, value in fields.items() if value is not None}
        return self.post(target, given, **headers)

    def connect(
        self, person: Browser, sender: str | None = None, **changes: str | None
    ) -> "ConnectedApp":
        """Get tokens by the consent of a person."""
        given = self.exchange(self.code(person, sender, **changes))
        assert given.status_code == 200, given.text
        return ConnectedApp(self, given.json())


class ConnectedApp:
    """An OAuth app with tokens. `refresh` replaces them."""

    def __init__(self, app: App, given: dict[str, Any]) -> None:
        self.app = app
        self.take(given)

    def take(self, given: dict[str, Any]) -> None:
        self.given = given
        self.token, self.refresh_token = str(given["access_token"]), str(given["refresh_token"])

    def refresh(self) -> None:
        given = self.app.refresh(self.refresh_token)
        assert given.status_code == 200, given.text
        self.take(given.json())

    def whoami(self, **headers: str) -> httpx2.Response:
        """Request the sender of the token over HTTP."""
        said = {"Authorization": f"Bearer {self.token}", **headers}
        return self.app.get("/v1/whoami", None, **said)

    def tool(self, name: str = "whoami", **arguments: Any) -> httpx2.Response:
        return call_tool(self.app, self.token, name, **arguments)


def call_tool(caller: Caller, token: str | None, name: str, **arguments: Any) -> httpx2.Response:
    """Call one tool at /mcp."""
    headers = {"Accept": "application/json, text/event-stream"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    params = {"name": name, "arguments": arguments}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return caller.http.post("/mcp", json=asked, headers=headers)


def _said(headers: Fields) -> Fields:
    """Return headers whose names have hyphens instead of underscores."""
    return {name.replace("_", "-"): value for name, value in headers.items()}
