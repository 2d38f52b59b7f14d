"""The clients that can be set up, and what they share. Each has a module with its own facts."""

import os
import shlex
from typing import Any, NamedTuple, Protocol, cast

from interlock.setup.documents import Document
from interlock.setup.ours import Hooks
from interlock.setup.places import Place, is_tracked

CLIENTS = ("claude-code", "codex", "gemini", "cursor")
GIT = "git"
SERVER = "interlock"
PATIENCE_S = 10


class Caller(NamedTuple):
    """How a client calls Interlock: the words that start it, who acts, and in which workspace. A
    token is never among them."""

    words: tuple[str, ...]
    sender: str
    workspace: str

    def hook(self, client: str, event: str, *more: str) -> list[str]:
        return [*self.words, "hook", client, event, *more, *self._as()]

    def mcp(self) -> list[str]:
        return [*self.words, "mcp", *self._as()]

    def server(self) -> dict[str, Any]:
        """An MCP server over stdio, in the form that all these clients share."""
        command, *args = self.mcp()
        return {"command": command, "args": args}

    def _as(self) -> list[str]:
        return ["--from", self.sender, "--workspace", self.workspace]


class Wanted(NamedTuple):
    """What a client wants in its files, and what is to be said about it."""

    documents: list[Document]
    confirm: list[str]
    notices: list[dict[str, str]]


class Client(Protocol):
    """A client's facts. `NAME` is what its sender is called where nothing else is said, `PROGRAM`
    and `DIRECTORY` are how it is noticed."""

    NAME: str
    PROGRAM: str
    DIRECTORY: str

    @staticmethod
    def wanted(place: Place, caller: Caller) -> Wanted:
        """What is to stand in which of its files."""

    @staticmethod
    def hooks(caller: Caller) -> Hooks:
        """Its hooks by event, in the client's own form."""


def client_named(name: str) -> Client:
    """The client's facts, imported on demand."""
    module = __import__(f"interlock.setup.{name.replace('-', '_')}", fromlist=["wanted"])
    return cast(Client, module)


def chosen(place: Place, ours: str, users: str, notices: list[dict[str, str]]) -> str:
    """The project's file, or the user's: on purpose, or because git tracks the project's."""
    if place.user:
        return users
    if not is_tracked(place, ours):
        return ours
    message = (
        f"{os.path.relpath(ours, place.root)} is tracked by git and was left alone; {users} is "
        "used instead."
    )
    notices.append({"code": "TRACKED_FILE", "message": message})
    return users


def grouped(
    command: list[str], timeout: int, matcher: str | None = None, **more: Any
) -> dict[str, Any]:
    """A hook in a group of its own, for clients that run its command in a shell."""
    hook = {"type": "command", "command": shlex.join(command), "timeout": timeout} | more
    return ({"matcher": matcher} if matcher else {}) | {"hooks": [hook]}
