"""Install git hooks that call Interlock, and remove them.

An existing hook is renamed and runs first, with the same arguments and input; its refusal stands.
Our hook fails closed: if Interlock is gone, it refuses and says how to remove it. Hooks that are
files of the repository are not changed.
"""

import fcntl
import os
import shlex
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from interlock.agents.guards import commits as git
from interlock.agents.setup.files import Change, read
from interlock.errors import Usage

KEPT = ".before-interlock"
MARK = b"#!/bin/sh\n# Put here by Interlock."

_SCRIPT = """\
{mark} To take it away: interlock guard install --undo
# Do not change it: a hook of your own is the file "$0{kept}", and runs first.
{take_input}if [ -f "$0{kept}" ] && [ -x "$0{kept}" ]; then
  {give_input}"$0{kept}" "$@" || exit
fi
set -- {words} "$@"
if [ -x {program} ]; then
  set -- {command} "$@"
elif command -v interlock >/dev/null 2>&1; then
  set -- interlock "$@"
else
  echo "This repository is guarded by Interlock, which is no longer at" {program} >&2
  echo "Install it and run: interlock guard install. To do without it, remove $0" >&2
  exit 1
fi
{give_input}"$@"
"""
# The script reads git's input once and passes it to both hooks. The dot preserves the newlines at
# its end. A hook need not read its input, so a broken pipe is no error.
_TAKE_INPUT = "input=$(cat && echo .) || exit\ninput=${input%.}\n"
_GIVE_INPUT = 'printf %s "$input" 2>/dev/null | '


class GitHook(NamedTuple):
    """A hook of git: its name, the words of our command, and whether git writes to its input."""

    name: str
    words: str
    has_input: bool


HOOKS = (
    GitHook("pre-commit", "guard check", has_input=False),
    GitHook("post-commit", "guard note", has_input=False),
    GitHook("pre-push", "guard push", has_input=True),
)


def this_interlock() -> tuple[str, ...]:
    """The words that start the running Interlock, with absolute paths: clients and hooks have a
    PATH of their own."""
    script = os.path.join(sysconfig.get_path("scripts"), "interlock")
    if os.access(script, os.X_OK):
        return (script,)
    # Without -P, Python would import a directory of the repository called interlock.
    return (sys.executable, "-P", "-m", "interlock")


def install(place: str = ".", command: Sequence[str] | None = None) -> dict[str, Any]:
    """Install the hooks for all worktrees of the repository, or for this one if core.hooksPath is
    relative. A hook of ours that calls another Interlock is rewritten.

    `command` is how the hooks call Interlock; the default is the running one. Raises Usage, and
    writes nothing, if the hooks are files of the repository that do not call us."""
    if (done := by_hand(place)) is not None:
        return {"hooks": done}
    directory, command = _directory(place), command or this_interlock()
    rows: list[dict[str, Any]] = []
    with _locked(directory, make=True):
        for hook, path in _paths(directory):
            script, is_ours = written(hook, command), _is_ours(path)
            state = "updated" if is_ours else "installed"
            if is_ours and _read(path) == script and os.access(path, os.X_OK):
                state = "unchanged"
            else:
                draft = f"{path}.{os.getpid()}"
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
                with open(os.open(draft, flags, 0o700), "wb") as file:
                    file.write(script)
                    # Every user who can run git in a shared repository must be able to run it.
                    os.fchmod(file.fileno(), 0o755)
                if not is_ours and os.path.lexists(path):
                    os.rename(path, path + KEPT)
                os.replace(draft, path)
            chained = {"runs_first": path + KEPT} if os.path.lexists(path + KEPT) else {}
            rows.append({"hook": hook.name, "path": path, "state": state} | chained)
    return {"hooks": rows} | _notices(place, directory)


def undo(place: str = ".") -> dict[str, Any]:
    """Remove our hooks, and restore the hooks from before."""
    directory = _directory(place)
    rows: list[dict[str, Any]] = []
    with _locked(directory, make=False):
        for hook, path in _paths(directory):
            is_ours, is_kept = _is_ours(path), os.path.lexists(path + KEPT)
            if is_kept:
                os.replace(path + KEPT, path)
            elif is_ours:
                os.unlink(path)
            state = "restored" if is_kept else "removed" if is_ours else "absent"
            rows.append({"hook": hook.name, "path": path, "state": state})
    return {"hooks": rows}


def planned(place: str, *, undo: bool) -> list[Change]:
    """The changes that `install` or `undo` would make. Raises Usage, also outside of a
    repository."""
    if not undo and by_hand(place) is not None:
        return []
    git.root(place)
    changes: list[Change] = []
    for hook in HOOKS:
        path = os.path.join(_directory(place), hook.name)
        now, kept = read(path), read(path + KEPT)
        is_marked = now is not None and now.startswith(MARK)
        if not undo:
            if now is not None and not is_marked:
                changes.append(Change(path + KEPT, kept, now))
            changes.append(Change(path, now, written(hook, this_interlock())))
        elif kept is not None:
            changes += [Change(path, now, kept), Change(path + KEPT, kept, None)]
        elif is_marked and not os.path.islink(path):
            changes.append(Change(path, now, None))
    return changes


def is_installed(place: str) -> bool:
    """Whether git calls us here, by our hooks or by lines in the repository's own."""
    try:
        if by_hand(place) is not None:
            return True
        paths = [os.path.join(_directory(place), hook.name) for hook in HOOKS]
        return all((read(path) or b"").startswith(MARK) for path in paths)
    except Usage:
        return False


def by_hand(place: str = ".") -> list[dict[str, Any]] | None:
    """The hooks that are files of the repository and call us; None if they are no such files.
    Raises Usage with the lines to add if they do not call us."""
    directory = _directory(place)
    root = os.path.realpath(git.root(place))
    # Husky has git look in a directory `_` that it creates below the one with the files.
    above, name = os.path.split(directory)
    home = above if name == "_" and above != root else directory
    if os.path.commonpath((root, home)) != root:
        return None
    if not git.ask(root, "--literal-pathspecs", "ls-files", "-z", "--", home):
        return None
    missing, rows = [], []
    for hook in HOOKS:
        path = os.path.join(home, hook.name)
        commands = (each for each in _read(path).splitlines() if not each.lstrip().startswith(b"#"))
        if not any(f"interlock {hook.words}".encode() in each for each in commands):
            missing.append({"file": path, "line": f'interlock {hook.words} "$@" || exit 1'})
        rows.append({"hook": hook.name, "path": path, "state": "by hand"})
    if missing:
        lines = "; ".join(f"to {each['file']}: {each['line']}" for each in missing)
        raise Usage(
            f"The hooks of this repository are files of its own, and Interlock does not change "
            f"them. Add these lines, before anything that reads a hook's input, and commit them: "
            f"{lines}",
            add=missing,
        )
    return rows


def written(hook: GitHook, command: Sequence[str]) -> bytes:
    """The script of a hook: it runs the hook from before, then `command`."""
    return os.fsencode(
        _SCRIPT.format(
            mark=MARK.decode(),
            kept=KEPT,
            words=hook.words,
            program=shlex.quote(command[0]),
            command=shlex.join(command),
            take_input=_TAKE_INPUT if hook.has_input else "",
            give_input=_GIVE_INPUT if hook.has_input else "",
        )
    )


def _directory(place: str) -> str:
    """Where git looks for hooks: the repository's directory, or core.hooksPath."""
    hooks = git.line(place, "rev-parse", "--git-path", "hooks")
    if hooks is None:
        raise Usage("This is no git repository. Stand in the one to be guarded.")
    return os.path.realpath(os.path.join(place, hooks))


@contextmanager
def _locked(directory: str, *, make: bool) -> Iterator[None]:
    """Lock the directory, so that a concurrent install does not take our hook for a user's."""
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


def _paths(directory: str) -> list[tuple[GitHook, str]]:
    """The hooks and their files. Raises Usage if another program has replaced our hook."""
    paths = [(hook, os.path.join(directory, hook.name)) for hook in HOOKS]
    for _, path in paths:
        kept = path + KEPT
        if os.path.lexists(path) and not _is_ours(path) and os.path.lexists(kept):
            raise Usage(
                f"{path} was replaced after Interlock had put its hook there, and the one from "
                f"before is still kept in {kept}. Remove the one that is not needed, and try "
                "again.",
                file=path,
            )
    return paths


def _notices(place: str, directory: str) -> dict[str, Any]:
    """Warn if core.hooksPath leads elsewhere: other repositories may use the hooks, or not all
    worktrees of this one."""
    path = git.line(place, "config", "--type=path", "--get", "core.hooksPath")
    if path is not None and not os.path.isabs(path):
        code, message = (
            "HOOKS_OF_ONE_WORKTREE",
            f"core.hooksPath is {path}, which git looks for in each worktree: what was put into "
            f"{directory} guards this one alone. Install it in every worktree, or have all of them "
            f"use these: git config core.hooksPath {shlex.quote(directory)}",
        )
    else:
        common = git.line(place, "rev-parse", "--git-common-dir") or "."
        common = os.path.realpath(os.path.join(place, common))
        if os.path.commonpath((common, directory)) == common:
            return {}
        code, message = (
            "HOOKS_ELSEWHERE",
            f"core.hooksPath leads to {directory}: the hook there works for every repository that "
            "has this setting, and a tool that writes there may replace it.",
        )
    return {"notices": [{"code": code, "message": message}]}


def _is_ours(path: str) -> bool:
    return not os.path.islink(path) and _read(path).startswith(MARK)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return b""
