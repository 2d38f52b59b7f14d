"""Where a client's files lie: in the worktree while git does not track them, else in the user's own
configuration; and which of the files we make git should not see."""

import os
from collections.abc import Collection, Mapping
from typing import NamedTuple

from interlock.machine import git

USER = "user"


class Place(NamedTuple):
    """Where somebody stands: the worktree's root, or the directory where there is no repository;
    the main checkout that it belongs to; and the user's home. `user` says that the user's own
    configuration is meant on purpose."""

    root: str
    main: str
    home: str
    environ: Mapping[str, str]
    in_git: bool
    user: bool

    @property
    def name(self) -> str:
        """What records call it."""
        return USER if self.user else self.root

    def in_home(self, variable: str, directory: str) -> str:
        """A client's directory in the user's home, which a variable may have moved."""
        return self.environ.get(variable) or os.path.join(self.home, directory)


def place_at(cwd: str, environ: Mapping[str, str], *, user: bool = False) -> Place:
    home = environ.get("HOME") or os.path.expanduser("~")
    root = git.said(cwd, "rev-parse", "--show-toplevel")
    if not root:
        return Place(os.path.realpath(cwd), os.path.realpath(cwd), home, environ, False, user)
    return Place(root, _main_checkout(root), home, environ, True, user)


def _main_checkout(root: str) -> str:
    """The checkout that a linked worktree belongs to; the worktree itself where it is none, or
    belongs to a bare repository."""
    own, common = (git.said(root, "rev-parse", name) for name in ("--git-dir", "--git-common-dir"))
    trees = (git.said(root, "worktree", "list", "--porcelain") or "").split("\n")
    if own == common or "bare" in trees[:2]:
        return root
    return trees[0].removeprefix("worktree ") or root


def is_tracked(place: Place, file: str) -> bool:
    """Whether git has the file in a worktree of this repository, by this name or by the one that a
    link leads to."""
    if not place.in_git:
        return False
    inside = os.path.dirname(file)
    while not os.path.isdir(inside):
        inside = os.path.dirname(inside)
    return any(
        git.said(inside, "--literal-pathspecs", "ls-files", "--error-unmatch", "--", name)
        is not None
        for name in {file, os.path.realpath(file)}
    )


def exclude_file(place: Place) -> str | None:
    """Where git looks for what nobody else is told to ignore; the worktrees share it."""
    found = git.said(place.root, "rev-parse", "--git-path", "info/exclude")
    return os.path.normpath(os.path.join(place.root, found)) if found else None


def line_for(place: Place, file: str, known: Collection[str]) -> str | None:
    """The line that hides a file of a worktree from git, unless it is hidden by another line than
    those known to be ours."""
    for root in (place.root, place.main):
        if os.path.commonpath((root, file)) == root:
            line = "/" + os.path.relpath(file, root)
            is_hidden = git.said(root, "check-ignore", "-q", "--", file) is not None
            return line if line in known or not is_hidden else None
    return None
