"""Git hooks that call Interlock: put in place, chained to what was there, and taken back.

A hook that was there before is kept beside ours under another name and runs first, with the same
arguments and input; its refusal stands. Ours fails closed: where Interlock is gone, the hook
refuses and says how to take it away. Hooks that are files of the repository are left alone.
"""

import fcntl
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from interlock.agents.guards import git
from interlock.agents.guards.executable import this_interlock
from interlock.agents.guards.script import MARK, written
from interlock.errors import Usage

KEPT = ".before-interlock"


class Hook(NamedTuple):
    """A hook of git's: its name, the words that it calls us with, and whether git writes to it."""

    name: str
    words: str
    has_input: bool


HOOKS = (
    Hook("pre-commit", "guard check", has_input=False),
    Hook("post-commit", "guard note", has_input=False),
    Hook("pre-push", "guard push", has_input=True),
)


def install(place: str = ".", command: Sequence[str] | None = None) -> dict[str, Any]:
    """Put the hooks in place in the repository here, for all of its worktrees, unless git is told
    to look in each of them. What is already in place stays; a hook of ours that calls another
    Interlock is written anew.

    `command` is how the hooks call Interlock; by default as it is running now. Refused, with
    nothing written, where the hooks are files of the repository."""
    if (done := by_hand(place)) is not None:
        return {"hooks": done}
    directory = _directory(place)
    words = tuple(command or this_interlock())
    with _alone(directory, make=True):
        done = _each(directory, lambda hook, path: _put(hook, path, words))
    return {"hooks": done} | _notices(place, directory)


def undo(place: str = ".") -> dict[str, Any]:
    """Take our hooks away, and put back what was there before, as it was."""
    directory = _directory(place)
    with _alone(directory, make=False):
        return {"hooks": _each(directory, _take_back)}


def _directory(place: str) -> str:
    """Where git looks for hooks: of all worktrees, or where core.hooksPath says."""
    hooks = git.line(place, "rev-parse", "--git-path", "hooks")
    if hooks is None:
        raise Usage("This is no git repository. Stand in the one to be guarded.")
    return os.path.realpath(os.path.join(place, hooks))


def _tracked_home(place: str, directory: str) -> str | None:
    """The directory of the hooks, where git tracks files in it. Husky has git look in a
    directory `_` that it makes itself, below the one with the files."""
    root = os.path.realpath(git.root(place))
    above, name = os.path.split(directory)
    home = above if name == "_" and above != root else directory
    if os.path.commonpath((root, home)) != root:
        return None
    tracked = git.ask(root, "--literal-pathspecs", "ls-files", "-z", "--", home)
    return home if tracked else None


def by_hand(place: str = ".") -> list[dict[str, Any]] | None:
    """The hooks, where they are files of the repository and call us already, which is as good as
    ours. Refused where they do not, with what to add; None where they are no such files."""
    home = _tracked_home(place, _directory(place))
    if home is None:
        return None
    paths = {hook: os.path.join(home, hook.name) for hook in HOOKS}
    missing = [(path, _line(hook)) for hook, path in paths.items() if not _calls_us(path, hook)]
    if missing:
        lines = "; ".join(f"to {path}: {line}" for path, line in missing)
        raise Usage(
            f"The hooks of this repository are files of its own, and Interlock does not change "
            f"them. Add these lines, before anything that reads a hook's input, and commit them: "
            f"{lines}",
            add=[{"file": path, "line": line} for path, line in missing],
        )
    return [{"hook": hook.name, "path": path, "state": "by hand"} for hook, path in paths.items()]


def _line(hook: Hook) -> str:
    return f'interlock {hook.words} "$@" || exit 1'


def _calls_us(path: str, hook: Hook) -> bool:
    commands = (each for each in _read(path).splitlines() if not each.lstrip().startswith(b"#"))
    return any(f"interlock {hook.words}".encode() in each for each in commands)


@contextmanager
def _alone(directory: str, *, make: bool) -> Iterator[None]:
    """Two who install at once must not take each other's hook for the one that was there."""
    try:
        if make:
            os.makedirs(directory, exist_ok=True)
        elif not os.path.isdir(directory):
            yield
            return
        handle = os.open(directory, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)
    except OSError as trouble:
        raise Usage(
            f"The hooks in {directory} cannot be changed: {trouble.strerror}.", file=directory
        ) from None


def _each(directory: str, change: Callable[[Hook, str], dict[str, Any]]) -> list[dict[str, Any]]:
    paths = [os.path.join(directory, hook.name) for hook in HOOKS]
    for path in paths:
        _check_not_replaced(path)
    return [
        {"hook": hook.name, "path": path} | change(hook, path)
        for hook, path in zip(HOOKS, paths, strict=True)
    ]


def _check_not_replaced(path: str) -> None:
    kept = path + KEPT
    if os.path.lexists(path) and not _is_ours(path) and os.path.lexists(kept):
        raise Usage(
            f"{path} was replaced after Interlock had put its hook there, and the one from before "
            f"is still kept in {kept}. Remove the one that is not needed, and try again.",
            file=path,
        )


def _put(hook: Hook, path: str, command: Sequence[str]) -> dict[str, Any]:
    script = written(hook.words, command, kept=KEPT, has_input=hook.has_input)
    ours = _is_ours(path)
    if ours and _read(path) == script and os.access(path, os.X_OK):
        state = "unchanged"
    else:
        state = "updated" if ours else "installed"
        draft = f"{path}.{os.getpid()}"
        _write(draft, script)
        if not ours and os.path.lexists(path):
            os.rename(path, path + KEPT)
        os.replace(draft, path)
    chained = {"runs_first": path + KEPT} if os.path.lexists(path + KEPT) else {}
    return {"state": state} | chained


def _take_back(_: Hook, path: str) -> dict[str, Any]:
    ours, kept = _is_ours(path), os.path.lexists(path + KEPT)
    if kept:
        os.replace(path + KEPT, path)
    elif ours:
        os.unlink(path)
    return {"state": "restored" if kept else "removed" if ours else "absent"}


def _notices(place: str, directory: str) -> dict[str, Any]:
    """Hooks that lie elsewhere are perhaps not this repository's alone, or not all of it has
    them."""
    path = git.line(place, "config", "--type=path", "--get", "core.hooksPath")
    if path is not None and not os.path.isabs(path):
        return _notice(
            "HOOKS_OF_ONE_WORKTREE",
            f"core.hooksPath is {path}, which git looks for in each worktree: what was put into "
            f"{directory} guards this one alone. Install it in every worktree, or have all of them "
            f"use these: git config core.hooksPath {shlex.quote(directory)}",
        )
    common = git.line(place, "rev-parse", "--git-common-dir") or "."
    common = os.path.realpath(os.path.join(place, common))
    if os.path.commonpath((common, directory)) == common:
        return {}
    return _notice(
        "HOOKS_ELSEWHERE",
        f"core.hooksPath leads to {directory}: the hook there works for every repository that has "
        "this setting, and a tool that writes there may replace it.",
    )


def _notice(code: str, message: str) -> dict[str, Any]:
    return {"notices": [{"code": code, "message": message}]}


def _is_ours(path: str) -> bool:
    return not os.path.islink(path) and _read(path).startswith(MARK)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return b""


def _write(path: str, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o700)
    with open(handle, "wb") as file:
        file.write(data)
        # Whoever may run git in a shared repository must be able to run its hooks.
        os.fchmod(handle, 0o755)
