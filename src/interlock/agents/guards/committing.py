"""Which files a commit touches."""

import os
from collections.abc import Sequence

from interlock.agents.guards import git
from interlock.errors import Usage
from interlock.local.repository import names_of


def staged(root: str) -> list[str]:
    """The files that the commit which is being made would change, from the root: both names of one
    that is moved, and what is taken away."""
    said = git.ask(root, "diff", "--cached", "--name-only", "--no-renames", "-z", "--no-ext-diff")
    if said is None:
        raise Usage("git does not say what is staged here.")
    return _names(said)


def committed(root: str) -> tuple[str, list[str]] | None:
    """The commit that was just made, and the files that it changed; None where there is none. One
    that was made in place of another has changed what differs from that one."""
    commit = git.line(root, "rev-parse", "--verify", "HEAD^{commit}")
    if commit is None:
        return None
    words = "diff-tree", "--root", "-r", "--no-commit-id", "--name-only", "--no-renames", "-z"
    said = git.ask(root, *words, *_amended(root), commit) or b""
    return commit, _names(said)


def _amended(root: str) -> list[str]:
    """The commit in whose place the last one was made, where git remembers that it was."""
    how = git.line(root, "log", "--walk-reflogs", "--max-count=1", "--format=%gs", "HEAD", "--")
    if how is None or not how.startswith("commit (amend)"):
        return []
    before = git.line(root, "rev-parse", "--verify", "--quiet", "HEAD@{1}^{commit}")
    return [before] if before is not None else []


def _names(said: bytes) -> list[str]:
    """Names as claims could name them, which are text."""
    return [path.decode("utf-8", "replace") for path in said.split(b"\0") if path]


def named(root: str, paths: Sequence[str]) -> list[str]:
    """Files as somebody names them from where they stand, from the root: by their own names, and by
    those that symbolic links lead to. A directory stands for all that is in it."""
    found: dict[str, None] = {}
    for path in paths:
        if not path:
            raise Usage("A file has a name, and this one is empty.")
        inside = [each for each in names_of(path) if os.path.commonpath((root, each)) == root]
        if not inside:
            raise Usage(f"{path[:200]!r} is not in {root}, the repository you stand in.")
        slash = "/" if os.path.isdir(path) else ""
        found |= dict.fromkeys(os.path.relpath(each, root) + slash for each in inside)
    return list(found)


def unpushed(root: str, oid: str, known: Sequence[str]) -> list[str]:
    """The commits up to one that would be pushed, without what is `known` to be there."""
    said = git.ask(root, "rev-list", oid, "--not", *known, "--")
    if said is None:
        raise Usage("git does not say what would be pushed.")
    return said.decode().split()
