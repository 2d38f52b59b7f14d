"""A workspace in which clients come to their steps, on a clock that stands still until the test
moves it."""

import os
from pathlib import Path
from typing import Any

from interlock.machine.processes import process_of, space
from interlock.node import Node, audit
from interlock.node import wake_ups as dispatching
from interlock.rooms.identity import token_format
from interlock.rooms.identity.verbs import Join
from interlock.rooms.mail.verbs import SendMessage, ShowReceipts
from interlock.rooms.workspace.verbs import Attend, ShowLog
from interlock.stores.sqlite import clock_ms
from interlock.verbs.credentials import Credentials

OWNER = Credentials(owner=True)
SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000


def window_of(pid: int) -> dict[str, Any]:
    """What a client's hooks say of its window."""
    process = process_of(pid)
    assert process is not None
    return {"pid": process.pid, "started": process.started, "space": space()}


def this_window() -> dict[str, Any]:
    """A client's window that lives as long as the test does."""
    return window_of(os.getpid())


class Street:
    """otto works on two surfaces, vera is another agent, mira a person. What windows do is on the
    machine's own clock, and so is whoever `looks_at_windows`."""

    def __init__(self, directory: Path, *, looks_at_windows: bool = False) -> None:
        self.ms = 2_000_000_000_000
        clock = clock_ms if looks_at_windows else lambda: self.ms
        self.node = Node(str(directory), clock=clock)
        self.node.file.writer.execute("PRAGMA synchronous = OFF")
        self.otto = self.join("otto", "cli")
        self.desktop = self.join("otto", "desktop")
        self.vera = self.join("vera")
        self.mira = self.join("mira", kind="human")

    def join(self, name: str, surface: str | None = None, **said: Any) -> Credentials:
        token = token_format.compose(os.urandom(token_format.SECRET_BYTES))
        self.call(OWNER, Join(name, surface, token_hash=token_format.hashed(token), **said))
        return Credentials(token=token)

    def call(self, by: Credentials, act: Any) -> dict[str, Any]:
        return self.node.call(by, act)

    def send(self, by: Credentials, to: str, **said: Any) -> str:
        payload = said.pop("payload", {"text": "hello"})
        sent = self.call(by, SendMessage(to, payload, said.pop("type", "send"), **said))
        return str(sent["message"]["id"])

    def step(self, by: Credentials, step: Any, **said: Any) -> dict[str, Any]:
        return self.call(by, Attend(step, "test", **said))

    def told(self, by: Credentials, step: Any = "prompt") -> list[str]:
        """The ids of the messages that a step is pointed to."""
        return [message["id"] for message in self.step(by, step).get("news", [])]

    def handed(self, by: Credentials, held: int = 0) -> list[str]:
        """The ids of the messages that are handed over before a stop."""
        return [m["id"] for m in self.step(by, "stop", held=held).get("messages", [])]

    def begin(self, sender: str) -> dispatching.Begun | None:
        return dispatching.begin(self.node, sender, "outside")

    def woken(self, sender: str, outcome: str, why: str | None = None) -> list[str]:
        """The ids of the messages for which it was woken from outside."""
        begun = self.begin(sender)
        assert begun is not None
        dispatching.end(self.node, begun, sender, outcome, why)
        return [message["id"] for message in begun.news]

    def sleeper(self, sender: str) -> dispatching.Sleeper | None:
        """None where it has a window at work."""
        found = {sleeper.sender: sleeper for sleeper in dispatching.sleepers(self.node)}
        return found.get(sender)

    def is_due(self, sender: str) -> bool:
        sleeper = self.sleeper(sender)
        return sleeper is not None and sleeper.is_due

    def receipt(self, by: Credentials, id: str) -> dict[str, Any]:
        (delivery,) = self.call(by, ShowReceipts(id))["deliveries"]
        assert isinstance(delivery, dict)
        return delivery

    def history(self, by: Credentials, id: str) -> list[tuple[str, str | None]]:
        """How far a message got, and by which adapter."""
        steps = self.receipt(by, id)["history"]
        return [(step["state"], step.get("adapter")) for step in steps]

    def facts(self, kind: str) -> list[dict[str, Any]]:
        found = audit.show(self.node, ShowLog(limit=1000, kind=kind))["facts"]
        assert isinstance(found, list)
        return found
