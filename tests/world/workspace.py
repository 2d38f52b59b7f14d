"""A workspace that a test uses through its node, without a server.

    workspace = Workspace(tmp_path)
    otto, vera = workspace.join("otto", "cli"), workspace.join("vera", kind="human")
    workspace.send(otto, "@vera", "hello")
    workspace.refused("MISSING_SCOPE", otto, Pause())
    workspace.ms += HOUR

The functions do the same with a node that a test opens itself.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest

from interlock import errors
from interlock.node import Node, audit
from interlock.rooms.identity.verbs import Join, MintToken
from interlock.rooms.mail.verbs import ListInbox, SendMessage
from interlock.rooms.workspace.verbs import ChangeSetting, ShowLog, pages
from interlock.stores.sqlite import clock_ms
from interlock.verbs.credentials import Credentials
from interlock.verbs.flows import run
from interlock.verbs.verb import Verb

OWNER = Credentials(owner=True)
START = 2_000_000_000_000  # 2033-05-18T03:33:20Z, in the future of every test machine's clock
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
Answer = dict[str, Any]


def join(node: Node, name: str, surface: str | None = None, **fields: Any) -> Credentials:
    """Register a sender as the owner, and return its credentials."""
    return Credentials(token=node.call(OWNER, Join(name, surface, **fields))["token"])


def text_to(to: str, text: str = "hello", **fields: Any) -> SendMessage:
    """Return the request to send a text. The fields may replace the payload."""
    usual: dict[str, Any] = {"to": to, "payload": {"text": text}, "type": "send"}
    return SendMessage(**(usual | fields))


def send_text(node: Node, by: Credentials, to: str, text: str = "hello", **fields: Any) -> Answer:
    """Send a text, and return the message as the node accepted it."""
    message: Answer = node.call(by, text_to(to, text, **fields))["message"]
    return message


def facts(node: Node, kind: str | None = None, after: int = 0) -> list[Answer]:
    """The facts after a position of the log, as `audit show` gives them to the owner."""
    flow = pages(ShowLog(after, 1 << 30, kind))
    found: list[Answer] = run(flow, lambda request: audit.show(node, request))["facts"]
    return found


class MovedClock:
    """The machine's clock, moved by the milliseconds that a test adds."""

    def __init__(self, ahead: int = 0) -> None:
        self.ahead = ahead

    def __call__(self) -> int:
        return clock_ms() + self.ahead


class Workspace:
    """An open node, by default on a clock that only the test moves, with `ms`."""

    def __init__(self, directory: Path, clock: Callable[[], int] | None = None) -> None:
        directory.mkdir(exist_ok=True)
        self.directory = directory
        self.ms = START
        self._clock = clock or (lambda: self.ms)
        self.node = self._opened()

    def _opened(self) -> Node:
        node = Node(str(self.directory), clock=self._clock)
        # No test of this class simulates a power failure, so commits need not wait for the disk.
        node.file.writer.execute("PRAGMA synchronous = OFF")
        return node

    def close(self) -> None:
        """Close the node, so that a test can change its files."""
        self.node.close()

    def reopen(self) -> None:
        """Open a new node in the directory, after `close`."""
        self.node = self._opened()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def join(self, name: str, surface: str | None = None, **fields: Any) -> Credentials:
        """Register a sender as the owner, and return its credentials."""
        return join(self.node, name, surface, **fields)

    def call(self, by: Credentials, verb: Verb) -> Answer:
        """Run a request to completion, and return the answer."""
        return self.node.call(by, verb)

    def refused(
        self, code: str, by: Credentials, verb: Verb, *, is_recorded: bool | None = None
    ) -> Answer:
        """Return the error object of a request that must be refused.

        Check that the log has no new entry except the refusal, if the node records its code. Give
        `is_recorded` where the node makes an exception."""
        before = self.head()
        with pytest.raises(errors.Refusal) as caught:
            self.call(by, verb)
        assert caught.value.code == code, caught.value.message
        written = [(fact["kind"], fact["outcome"].get("code")) for fact in self.facts(after=before)]
        if is_recorded is None:
            is_recorded = errors.by_code(code).recorded
        assert written == ([("request_refused", code)] if is_recorded else [])
        return caught.value.as_dict()

    def send(self, by: Credentials, to: str, text: str = "hello", **fields: Any) -> str:
        """Send a text, and return the message's id."""
        return str(send_text(self.node, by, to, text, **fields)["id"])

    def ask(self, by: Credentials, to: str, question: str = "may I?", **fields: Any) -> str:
        """Send a question without waiting for the answer, and return the message's id."""
        sent = self.call(by, SendMessage(to, {"question": question}, "ask", **fields))
        return str(sent["message"]["id"])

    def texts(self, by: Credentials, which: Any = "open") -> list[str]:
        """The texts in a sender's inbox."""
        found = self.call(by, ListInbox(which))["messages"]
        return [message["payload"].get("text", "") for message in found]

    def mint(self, sender: str, **fields: Any) -> Credentials:
        """Mint another token for a sender as the owner, and return it as credentials."""
        return Credentials(token=self.call(OWNER, MintToken(sender, **fields))["token"])

    def set(self, name: str, value: str) -> None:
        """Change a setting as the owner."""
        self.call(OWNER, ChangeSetting(name, value))

    def head(self) -> int:
        """The number of the last fact in the log."""
        return self.node.head()

    def facts(self, kind: str | None = None, after: int = 0) -> list[Answer]:
        """The facts after a position of the log, as `audit show` gives them to the owner."""
        return facts(self.node, kind, after)

    def query(self, sql: str, *bindings: Any) -> list[Any]:
        """All rows of a statement on the workspace's database."""
        with self.node.file.reading() as db:
            return db.execute(sql, bindings).fetchall()


class StaffedWorkspace(Workspace):
    """A workspace with two surfaces of the agent otto, the agent vera, and the person mira."""

    def __init__(self, directory: Path, clock: Callable[[], int] | None = None) -> None:
        super().__init__(directory, clock)
        self.otto = self.join("otto", "cli")
        self.desktop = self.join("otto", "desktop")
        self.vera = self.join("vera")
        self.mira = self.join("mira", kind="human")
