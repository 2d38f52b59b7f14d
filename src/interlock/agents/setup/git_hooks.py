"""Git as a client: its hooks are the guards', shown here as changes of files."""

import os

from interlock.agents import guards
from interlock.agents.guards import git
from interlock.agents.guards.hooks import HOOKS, KEPT, by_hand
from interlock.agents.guards.script import MARK, written
from interlock.agents.setup.files import Change, read
from interlock.errors import Usage


def changes(cwd: str) -> list[Change]:
    """What `guards.install` would write, beside what is there; nothing where the repository's own
    hooks call us. Refused where that would be, as outside of a repository."""
    if by_hand(cwd) is not None:
        return []
    found = []
    for hook in HOOKS:
        file = os.path.join(os.path.realpath(_directory(cwd)), hook.name)
        words = guards.this_interlock()
        script = written(hook.words, words, kept=KEPT, has_input=hook.has_input)
        now = read(file)
        if now is not None and not now.startswith(MARK):
            found.append(Change(file + KEPT, read(file + KEPT), now))
        found.append(Change(file, now, script))
    return found


def changes_back(cwd: str) -> list[Change]:
    """What `guards.undo` would do, hook by hook: the one from before takes the place of ours."""
    found = []
    for hook in HOOKS:
        file = os.path.join(os.path.realpath(_directory(cwd)), hook.name)
        now, before = read(file), read(file + KEPT)
        if before is not None:
            found += [Change(file, now, before), Change(file + KEPT, before, None)]
        elif (now or b"").startswith(MARK) and not os.path.islink(file):
            found.append(Change(file, now, None))
    return found


def is_installed(cwd: str) -> bool:
    """Whether git asks us here, by hooks of ours or by lines in the repository's own."""
    try:
        own = by_hand(cwd)
        directory = os.path.realpath(_directory(cwd))
        files = [os.path.join(directory, hook.name) for hook in HOOKS]
        return own is not None or all((read(file) or b"").startswith(MARK) for file in files)
    except Usage:
        return False


def _directory(cwd: str) -> str:
    git.root(cwd)
    return os.path.join(cwd, git.line(cwd, "rev-parse", "--git-path", "hooks") or "")
