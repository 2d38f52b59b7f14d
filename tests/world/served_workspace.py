"""A workspace with a running server, and the people, senders and OAuth apps that use it.

    workspace = ServedWorkspace(server)
    vera = workspace.add_person("vera", "otto")
    workspace.add_sender("eve")
    assert workspace.send("eve", "@vera") > 0
    assert workspace.app.connect(vera, "own otto").tool().status_code == 200

The fixture `serve` starts one; tests/world/fixtures.py has it.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from world.event_streams import Stream, listen
from world.people_and_apps import App, Browser, Caller
from world.server import Reply, RunningServer


class ServedWorkspace:
    """A running server, with its people, tokens and refusals by name."""

    def __init__(
        self, server: RunningServer, other_servers: Mapping[str, RunningServer] | None = None
    ) -> None:
        """`other_servers` serve other workspaces, by names that the test gives."""
        self.server = server
        self.other_servers = dict(other_servers or {})
        self.place = server.place
        self.url = server.url
        self.stranger = Caller(server)
        self._people: dict[str, Browser] = {}
        self._tokens: dict[str, str] = {}

    # --- people, senders and apps

    def add_person(self, name: str, *agents: str) -> Browser:
        """Invite a person who owns these agents, and join as that person in a browser."""
        own = [word for agent in agents for word in ("--own", agent)]
        self._people[name] = Browser(self.server).join(name, *own)
        return self._people[name]

    def person(self, name: str) -> Browser:
        """The browser in which a person joined."""
        return self._people[name]

    def add_sender(self, name: str, surface: str | None = None, *words: str) -> str:
        """Register a sender, with further words of `interlock join`. Return its token."""
        token = self.place.join(name, surface, *words)
        self._tokens[f"{name}-{surface}" if surface else name] = token
        return token

    def token(self, name: str) -> str:
        """Return the token of a sender. `owner` is the owner of the workspace."""
        return self.server.owner if name == "owner" else self._tokens[name]

    @cached_property
    def app(self) -> App:
        """An OAuth app, registered when a test first needs one."""
        return App(self.server)

    # --- requests

    def ask(self, sender: str, method: str, target: str, body: Any = None) -> Reply:
        """Send a request over HTTP with the token of a sender."""
        return self.server.ask(method, target, body, token=self.token(sender))

    def listen(
        self, sender: str, *, after: int | None = None, last_id: int | str | None = None
    ) -> Stream:
        """Follow the events of a sender, from a position or from the last id that it saw."""
        return listen(self.server, self.token(sender), after=after, last_id=last_id)

    def send(self, sender: str, to: str, text: str = "Hello.") -> int:
        """Send a message as a sender of this workspace. Return its position in the log."""
        sent = self.server.send(self.token(sender), to, text)
        assert sent.status == 200, sent
        return int(sent.json["message"]["seq"])

    # --- state

    def head(self) -> int:
        """The number of entries in the log."""
        return int(self.server.ask("GET", "/readyz").json["entries"])

    def connections(self) -> list[dict[str, Any]]:
        """The connections of OAuth apps, oldest first."""
        found: list[dict[str, Any]] = self.place.ok("connection", "list")["connections"]
        return found

    def logged_refusals(self) -> list[str]:
        """The codes of the refusals in the log, oldest first."""
        facts = self.place.facts("request_refused")
        return [fact["outcome"]["code"] for fact in facts]

    def counted_refusals(self, code: str) -> int:
        """The number of refusals with this code in the server's metrics."""
        lines = self.stranger.get("/metrics").text.splitlines()
        name = f'interlock_refusals_total{{code="{code}"}} '
        return sum(int(line.removeprefix(name)) for line in lines if line.startswith(name))


class Serve(Protocol):
    """The fixture `serve`: it starts a server for a new workspace."""

    def __call__(
        self,
        *,
        host: str = "127.0.0.1",
        words: Sequence[str] = (),
        constants: Mapping[str, Any] | None = None,
        other_servers: Mapping[str, RunningServer] | None = None,
    ) -> ServedWorkspace: ...
