"""Where the files of an edit are: in which repository and worktree, and how claims name them."""

import os
from collections.abc import Iterator
from typing import NamedTuple

from interlock.agents.hooks import Step
from interlock.local.repository import name_here, names_of
from interlock.machine import git


class Place(NamedTuple):
    """Files of one worktree, from its root."""

    repo: str
    worktree: str
    paths: tuple[str, ...]


def places(step: Step) -> list[Place]:
    """The files that an edit would change, by worktree: by the names that they go by, and by those
    that symbolic links lead to. What lies in a repository within another is in both; what lies in
    none is nobody's."""
    found: dict[str, dict[str, None]] = {}
    roots: dict[str, list[str]] = {}
    for path in step.paths:
        for whole in names_of(os.path.join(step.cwd or os.getcwd(), os.path.expanduser(path))):
            directory = os.path.dirname(whole)
            if directory not in roots:
                roots[directory] = list(_roots(directory))
            for root in roots[directory]:
                relative = os.path.relpath(whole, root)
                if not relative.startswith(".."):
                    found.setdefault(root, {})[relative] = None
    repos = ((name_here(root), root, paths) for root, paths in found.items())
    return [Place(name, root, tuple(paths)) for name, root, paths in repos if name is not None]


def _roots(place: str) -> Iterator[str]:
    """The roots of the working trees that a directory is in, or will be in once it is made."""
    while True:
        while not os.path.isdir(place):
            place = os.path.dirname(place)
        root = git.said(place, "rev-parse", "--show-toplevel")
        if not root:
            return
        yield os.path.realpath(root)
        place = os.path.dirname(os.path.realpath(root))
