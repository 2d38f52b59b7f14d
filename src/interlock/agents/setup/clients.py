"""The parts that the setups of all clients share: paths of files, and commands of Interlock."""

import os
import shlex
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, Protocol, cast

from interlock.agents import module_of
from interlock.agents.setup.documents import Document
from interlock.agents.setup.own_entries import FROM, WORKSPACE, Hooks
from interlock.machine import git

GIT = "git"
USER = "user"
HOOK_TIMEOUT_S = 10


class Invocation(NamedTuple):
    """The command by which a client calls Interlock: the words that start it, the sender and the
    workspace, but never a token. Without a `workspace`, Interlock finds the workspace of the
    client's directory. If the workspace `is_repositorys`, only files of that repository name it."""

    words: tuple[str, ...]
    sender: str
    workspace: str | None
    is_repositorys: bool = False

    def hook(self, client: str, event: str, *more: str) -> list[str]:
        return [*self.words, "hook", client, event, *more, *self._as()]

    def watch(self) -> list[str]:
        return [*self.words, "watch", "--one-line", *self._as()]

    def server(self) -> dict[str, Any]:
        """Return the MCP server over stdio, in the form that all these clients share."""
        words = [*self.words, "mcp", *self._as()]
        return {"command": words[0], "args": words[1:]}

    def _as(self) -> list[str]:
        where = [WORKSPACE, self.workspace] if self.workspace is not None else []
        return [FROM, self.sender, *where]

    def for_every_project(self) -> "Invocation":
        return self._replace(workspace=None) if self.is_repositorys else self


class SetupTarget(NamedTuple):
    """A place to set up. `root` is the root of the worktree, or the directory outside of a
    repository. `main` is the main checkout of the worktree. `home` is the user's home directory.
    `user` selects the user's configuration."""

    root: str
    main: str
    home: str
    environ: Mapping[str, str]
    in_git: bool
    user: bool

    @property
    def name(self) -> str:
        """Return the name of the place in records."""
        return USER if self.user else self.root

    def in_home(self, variable: str, directory: str) -> str:
        """Return a client's directory in the user's home, or the directory in the variable."""
        return self.environ.get(variable) or os.path.join(self.home, directory)


class Wanted(NamedTuple):
    """The documents that a client needs, the tasks of the person, and notices. `about_server` are
    the tasks that concern the MCP server."""

    documents: list[Document]
    confirm: list[str]
    notices: list[dict[str, str]]
    about_server: tuple[str, ...] = ()


class SetupModule(Protocol):
    """The `setup` module of a client. `TITLE` is its name for people. `NAME` is its program, its
    default sender and, after a dot, its directory in the user's home and in a project."""

    TITLE: str
    NAME: str

    @staticmethod
    def wanted(place: SetupTarget, caller: Invocation) -> Wanted:
        """Return the entries of each of the client's files."""

    @staticmethod
    def hooks(caller: Invocation) -> Hooks:
        """Return the hooks by event, in the client's own form."""


def client_named(name: str) -> SetupModule:
    return cast(SetupModule, module_of(name, "setup"))


def place_at(cwd: str, environ: Mapping[str, str], *, user: bool = False) -> SetupTarget:
    home = environ.get("HOME") or os.path.expanduser("~")
    root = git.git_output(cwd, "rev-parse", "--show-toplevel")
    if not root:
        return SetupTarget(os.path.realpath(cwd), os.path.realpath(cwd), home, environ, False, user)
    main = root
    own, common = (
        git.git_output(root, "rev-parse", name) for name in ("--git-dir", "--git-common-dir")
    )
    trees = (git.git_output(root, "worktree", "list", "--porcelain") or "").split("\n")
    if own != common and "bare" not in trees[:2]:
        main = trees[0].removeprefix("worktree ") or root
    return SetupTarget(root, main, home, environ, True, user)


def chosen(
    place: SetupTarget, caller: Invocation, project: str, users: str, notices: list[dict[str, str]]
) -> tuple[str, Invocation]:
    """Return the file to write and the command for it. The file is the project's, or the user's if
    `place.user` is true or git tracks the project's."""
    if place.user:
        return users, caller.for_every_project()
    inside = os.path.dirname(project)
    while not os.path.isdir(inside):
        inside = os.path.dirname(inside)
    is_tracked = place.in_git and any(
        git.git_output(inside, "--literal-pathspecs", "ls-files", "--error-unmatch", "--", name)
        is not None
        for name in {project, os.path.realpath(project)}
    )
    if not is_tracked:
        return project, caller
    message = (
        f"Git tracks {os.path.relpath(project, place.root)}, so setup does not change it. Setup "
        f"uses {users} instead."
    )
    notices.append({"code": "TRACKED_FILE", "message": message})
    return users, caller.for_every_project()


def grouped(
    command: list[str], timeout: int, matcher: str | None = None, **more: Any
) -> dict[str, Any]:
    """Return a hook in its own group, for clients that run its command in a shell."""
    hook = {"type": "command", "command": shlex.join(command), "timeout": timeout} | more
    return ({"matcher": matcher} if matcher else {}) | {"hooks": [hook]}


def exclude_file(place: SetupTarget) -> str | None:
    """Return the repository's `info/exclude`, which its worktrees share."""
    found = git.git_output(place.root, "rev-parse", "--git-path", "info/exclude")
    return os.path.normpath(os.path.join(place.root, found)) if found else None


def exclude_line(place: SetupTarget, file: str, known: Collection[str]) -> str | None:
    """Return the line that hides a file of a worktree from git. Return None if the file is outside
    of the worktree, or if a line hides it that setup did not write. `known` are setup's lines."""
    for root in (place.root, place.main):
        if os.path.commonpath((root, file)) == root:
            line = "/" + os.path.relpath(file, root)
            is_hidden = git.git_output(root, "check-ignore", "-q", "--", file) is not None
            return line if line in known or not is_hidden else None
    return None
