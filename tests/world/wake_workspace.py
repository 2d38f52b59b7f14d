"""A workspace in which clients report their steps and are woken."""

import os
from typing import Any

from interlock.machine.processes import process_of, space
from interlock.node import wake_ups as dispatching
from interlock.rooms.mail.verbs import ShowReceipts
from interlock.rooms.workspace.verbs import Attend
from interlock.verbs.credentials import Credentials
from world.workspace import StaffedWorkspace


def window_of(pid: int) -> dict[str, Any]:
    """Return a client's window in the form that its hooks report."""
    process = process_of(pid)
    assert process is not None
    return {"pid": process.pid, "started": process.started, "space": space()}


def this_window() -> dict[str, Any]:
    """A client's window in the process of the test."""
    return window_of(os.getpid())


class WakeWorkspace(StaffedWorkspace):
    """A staffed workspace in which clients report their steps and are woken from outside.

    Presence uses the machine's clock. A test of presence gives that clock to the node too."""

    def step(self, by: Credentials, step: Any, **said: Any) -> dict[str, Any]:
        """Report a client's step, and return the answer."""
        return self.call(by, Attend(step, "test", **said))

    def told(self, by: Credentials, step: Any = "prompt") -> list[str]:
        """The ids of the messages that the answer to a step names."""
        return [message["id"] for message in self.step(by, step).get("news", [])]

    def handed(self, by: Credentials, held: int = 0) -> list[str]:
        """The ids of the messages that the answer to a stop contains."""
        return [m["id"] for m in self.step(by, "stop", held=held).get("messages", [])]

    def begin(self, sender: str) -> dispatching.Begun | None:
        """Start a wake-up of a sender from outside. Return None if it has no new mail."""
        return dispatching.begin(self.node, sender, "outside")

    def woken(self, sender: str, outcome: str, why: str | None = None) -> list[str]:
        """Wake a sender from outside, and return the ids of the messages in the wake-up."""
        begun = self.begin(sender)
        assert begun is not None
        dispatching.end(self.node, begun, sender, outcome, why)
        return [message["id"] for message in begun.news]

    def sleeper(self, sender: str) -> dispatching.Sleeper | None:
        """Return the sender as a sleeper, or None if it has a working window."""
        found = {sleeper.sender: sleeper for sleeper in dispatching.sleepers(self.node)}
        return found.get(sender)

    def is_due(self, sender: str) -> bool:
        """Whether a wake-up of a sleeping sender is due."""
        sleeper = self.sleeper(sender)
        return sleeper is not None and sleeper.is_due

    def receipt(self, by: Credentials, id: str) -> dict[str, Any]:
        """The delivery of a message with one recipient."""
        (delivery,) = self.call(by, ShowReceipts(id))["deliveries"]
        assert isinstance(delivery, dict)
        return delivery

    def history(self, by: Credentials, id: str) -> list[tuple[str, str | None]]:
        """The states of a message with one recipient, each with its adapter."""
        steps = self.receipt(by, id)["history"]
        return [(step["state"], step.get("adapter")) for step in steps]
