"""Git as a client: its hooks are the guards', shown here as changes of files."""

import os

from interlock import guards
from interlock.guards import git
from interlock.guards.hooks import HOOKS, KEPT
from interlock.guards.script import MARK, written
from interlock.setup.files import Change, read


def changes(cwd: str) -> list[Change]:
    """What `guards.install` would write, beside what is there. Refused outside of a repository."""
    found = []
    for hook in HOOKS:
        file = os.path.realpath(os.path.join(_directory(cwd), hook.name))
        words = guards.this_interlock()
        script = written(hook.words, words, kept=KEPT, has_input=hook.has_input)
        found.append(Change(file, read(file), script))
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
    return all((change.before or b"").startswith(MARK) for change in changes(cwd))


def _directory(cwd: str) -> str:
    git.root(cwd)
    return os.path.join(cwd, git.line(cwd, "rev-parse", "--git-path", "hooks") or "")
