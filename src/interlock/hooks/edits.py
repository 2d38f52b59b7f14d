"""Where the files of an edit are: in which repository and worktree, and how claims name them."""

import os
from typing import NamedTuple

from interlock import git
from interlock.hooks import Step
from interlock.repository import name_here


class Place(NamedTuple):
    """Files of one worktree, from its root."""

    repo: str
    worktree: str
    paths: tuple[str, ...]


def places(step: Step) -> list[Place]:
    """The files that an edit would change, by worktree. What lies in no repository is nobody's."""
    found: dict[str, list[str]] = {}
    for path in step.paths:
        whole = os.path.realpath(os.path.join(step.cwd or os.getcwd(), os.path.expanduser(path)))
        root = _root(whole)
        if root is not None:
            found.setdefault(root, []).append(os.path.relpath(whole, root))
    named = ((name_here(root), root, paths) for root, paths in found.items())
    return [Place(name, root, tuple(paths)) for name, root, paths in named if name is not None]


def _root(path: str) -> str | None:
    """The root of the working tree that a file is in, or will be in once it is written."""
    place = os.path.dirname(path)
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    root = (git.said(place, "rev-parse", "--show-toplevel") or "").removesuffix("\n")
    return os.path.realpath(root) if root else None
