"""A workspace for tests of the Python client, synchronous and asynchronous.

The client opens it as a directory, by the URL of a server, or over the server's socket."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import interlock
from interlock.client import Client
from world.commandline import Place
from world.fork_server import Servers
from world.server import ForkedServer, RunningServer
from world.signed_in_people import Connected, let_in

Way = Literal["directory", "url", "socket"]
WAYS: tuple[Way, ...] = ("directory", "url", "socket")
KINDS = ("sync", "async")


class Hand:
    """A client whose methods a test calls in the same way, synchronous or asynchronous."""

    def __init__(self, client: Any, run: Callable[[Any], Any]) -> None:
        self.client, self._run = client, run

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        method = getattr(self.client, verb)
        return lambda *args, **said: self._run(method(*args, **said))


class ClientWorkspace:
    """A workspace, and a client for each of its senders, all of one kind and connected in one way.

    The agent otto and the admin vera have joined. rosa has signed in and granted a connection."""

    def __init__(
        self,
        root: Path,
        way: Way,
        kind: str,
        served: RunningServer | None,
        rosa: tuple[str, Connected],
    ) -> None:
        self.way, self.kind, self.root, self._served = way, kind, root, served
        self.directory = root / "workspace"
        browser, self.connection = rosa
        self.place = served.url if served is not None and way == "url" else str(self.directory)
        self._stack = ExitStack()
        self._runner = self._stack.enter_context(asyncio.Runner())
        with interlock.connect(self.directory) as owner:
            self.tokens = {
                "otto": owner.join("otto")["token"],
                "vera": owner.join("vera", kind="human", scopes=["mail", "claim", "work", "admin"])[
                    "token"
                ],
            }
        self.tokens["rosa"] = browser
        # By URL, the owner's client needs the owner's token. With the directory, it needs none.
        shown = served.owner if served is not None and way == "url" else None
        self.owner = self.hand(shown)
        self.otto, self.vera = self.hand(self.tokens["otto"]), self.hand(self.tokens["vera"])
        self.rosa = self.hand(browser)

    @property
    def served(self) -> RunningServer:
        assert self._served is not None
        return self._served

    def connect(self, token: str | None, session: str | None = None) -> Client:
        return interlock.connect(self.place, token, session)

    def hand(self, token: str | None, session: str | None = None) -> Hand:
        client = self.connect(token, session)
        if self.kind == "sync":
            return Hand(self._stack.enter_context(client), lambda answer: answer)
        twin = self._runner.run(client.__aenter__())
        self._stack.callback(lambda: self._runner.run(client.__aexit__(None, None, None)))
        return Hand(twin, self._runner.run)

    def close(self) -> None:
        self._stack.close()


class Manner(NamedTuple):
    """How a client connects, and whether it is asynchronous."""

    way: Way
    kind: str

    def __str__(self) -> str:
        return f"{self.way}-{self.kind}"


MANNERS = [Manner(way, kind) for way in WAYS for kind in KINDS]


@contextmanager
def opened_workspace(root: Path, manner: Manner, servers: Servers) -> Iterator[ClientWorkspace]:
    """Open a workspace with its clients, and start a server if the clients need one."""
    with ExitStack() as stack:
        rosa = let_in(root / "workspace", "rosa")
        served = None
        if manner.way != "directory":
            served = stack.enter_context(ForkedServer(Place(root), servers))
        workspace = ClientWorkspace(root, manner.way, manner.kind, served, rosa)
        stack.callback(workspace.close)
        yield workspace
