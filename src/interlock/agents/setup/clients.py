"""The clients that can be set up, and what they share. Each has a module with its own facts."""

import os
import shlex
from typing import Any, NamedTuple, Protocol, cast

from interlock.agents.setup.documents import Document
from interlock.agents.setup.own_entries import FROM, WORKSPACE, Hooks
from interlock.agents.setup.places import Place, is_tracked

CLIENTS = ("claude-code", "codex", "gemini", "cursor")
GIT = "git"
PATIENCE_S = 10


class Caller(NamedTuple):
    """How a client calls Interlock: the words that start it, who acts, and in which workspace. A
    token is never among them. A workspace that is one repository's own is named in the files of
    that repository alone; `workspace` is None where the client is to find the one where it is."""

    words: tuple[str, ...]
    sender: str
    workspace: str | None
    is_repositorys: bool = False

    def hook(self, client: str, event: str, *more: str) -> list[str]:
        return [*self.words, "hook", client, event, *more, *self._as()]

    def mcp(self) -> list[str]:
        return [*self.words, "mcp", *self._as()]

    def watch(self) -> list[str]:
        return [*self.words, "watch", "--one-line", *self._as()]

    def server(self) -> dict[str, Any]:
        """An MCP server over stdio, in the form that all these clients share."""
        command, *args = self.mcp()
        return {"command": command, "args": args}

    def _as(self) -> list[str]:
        where = [WORKSPACE, self.workspace] if self.workspace is not None else []
        return [FROM, self.sender, *where]

    def for_every_project(self) -> "Caller":
        return self._replace(workspace=None) if self.is_repositorys else self


class Wanted(NamedTuple):
    """What a client wants in its files, and what is to be said about it: what a person has to
    confirm, of it what is `about_server`, and what else they should know."""

    documents: list[Document]
    confirm: list[str]
    notices: list[dict[str, str]]
    about_server: tuple[str, ...] = ()

    @property
    def to_do(self) -> list[str]:
        return [*self.about_server, *self.confirm]


class Client(Protocol):
    """A client's facts. `TITLE` is what people call it, `NAME` what its sender is called where
    nothing else is said, `PROGRAM` and `DIRECTORY` are how it is noticed."""

    TITLE: str
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
    module = __import__(f"interlock.agents.{name.replace('-', '_')}.setup", fromlist=["wanted"])
    return cast(Client, module)


def chosen(
    place: Place, caller: Caller, ours: str, users: str, notices: list[dict[str, str]]
) -> tuple[str, Caller]:
    """The project's file, or the user's, on purpose or because git tracks the project's; and how
    Interlock is called from there."""
    if place.user:
        return users, caller.for_every_project()
    if not is_tracked(place, ours):
        return ours, caller
    message = (
        f"{os.path.relpath(ours, place.root)} is tracked by git and was left alone; {users} is "
        "used instead."
    )
    notices.append({"code": "TRACKED_FILE", "message": message})
    return users, caller.for_every_project()


def grouped(
    command: list[str], timeout: int, matcher: str | None = None, **more: Any
) -> dict[str, Any]:
    """A hook in a group of its own, for clients that run its command in a shell."""
    hook = {"type": "command", "command": shlex.join(command), "timeout": timeout} | more
    return ({"matcher": matcher} if matcher else {}) | {"hooks": [hook]}
