"""Find the changes of a commit or a push, and the guards that apply to a push.

The node decides whether a gate has passed, and which claims cover a file.
"""

import os
import re
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from interlock.errors import Usage
from interlock.local.repository import names_of, normalised
from interlock.machine.git import run_git

if TYPE_CHECKING:
    from interlock.local.project import PushGuard


def ask(place: str, *words: str) -> bytes | None:
    """Return the output of git, or None if git fails. Raise Usage if git cannot run, so that the
    guard refuses the commit or push."""
    try:
        done = run_git(place, *words)
    except (OSError, subprocess.TimeoutExpired) as trouble:
        raise Usage(f"Cannot run git: {trouble}") from None
    return done.stdout if done.returncode == 0 else None


def line(place: str, *words: str) -> str | None:
    """Return the line that git prints, or None if it prints nothing or fails. Raise Usage if git
    cannot run."""
    output = ask(place, *words)
    return os.fsdecode(output).removesuffix("\n") or None if output is not None else None


def root(place: str) -> str:
    """Return the root of the working tree, or of a bare repository. Raise Usage outside of a
    repository."""
    found = line(place, "rev-parse", "--show-toplevel") or line(
        place, "rev-parse", "--absolute-git-dir"
    )
    if found is None:
        raise Usage("This directory is not in a git repository. Run the command in a repository.")
    return found


# --- commits


def staged(root: str) -> list[str]:
    """Return the files that the next commit changes, relative to the root. They include deleted
    files, and both names of a moved file. Raise Usage if git cannot list them."""
    output = ask(root, "diff", "--cached", "--name-only", "--no-renames", "-z", "--no-ext-diff")
    if output is None:
        raise Usage("git cannot list the staged files.")
    return _texts(output)


def committed(root: str) -> tuple[str, list[str]] | None:
    """Return the last commit and the files that it changed; None if there is no commit. Compare an
    amended commit with the commit that it replaces."""
    commit = line(root, "rev-parse", "--verify", "HEAD^{commit}")
    if commit is None:
        return None
    how = line(root, "log", "--walk-reflogs", "--max-count=1", "--format=%gs", "HEAD", "--")
    replaced = None
    if how is not None and how.startswith("commit (amend)"):
        replaced = line(root, "rev-parse", "--verify", "--quiet", "HEAD@{1}^{commit}")
    words = "diff-tree", "--root", "-r", "--no-commit-id", "--name-only", "--no-renames", "-z"
    commits = (replaced, commit) if replaced is not None else (commit,)
    return commit, _texts(ask(root, *words, *commits) or b"")


def _texts(output: bytes) -> list[str]:
    return [path.decode("utf-8", "replace") for path in output.split(b"\0") if path]


def named(root: str, paths: Sequence[str]) -> list[str]:
    """Return the files that the user names, relative to the root. A symbolic link counts under its
    own name and under its target. A directory means all files in it. Raise Usage for a file outside
    of the repository."""
    found: dict[str, None] = {}
    for path in paths:
        if not path:
            raise Usage("A file name is empty. Give the path of a file.")
        inside = [each for each in names_of(path) if os.path.commonpath((root, each)) == root]
        if not inside:
            raise Usage(f"{path[:200]!r} is outside of the current repository, {root}.")
        slash = "/" if os.path.isdir(path) else ""
        found |= dict.fromkeys(os.path.relpath(each, root) + slash for each in inside)
    return list(found)


# --- pushes


class Push(NamedTuple):
    """One ref that a push changes. An id of zeros means that the ref does not exist: locally for a
    deletion, remotely for a new ref."""

    local_ref: str
    local_oid: str
    remote_ref: str
    remote_oid: str

    @property
    def deletes(self) -> bool:
        return not self.local_oid.strip("0")

    @property
    def creates(self) -> bool:
        return not self.remote_oid.strip("0")


def pushes(stdin_text: str) -> list[Push]:
    """Parse the standard input of a pre-push hook, which has a line for every ref. Raise Usage for
    other input, so that each ref is checked."""
    found = []
    for text in filter(None, stdin_text.split("\n")):
        parts = text.rsplit(" ", 3)  # the user types the local ref, which may contain spaces
        if len(parts) != 4 or not all(re.fullmatch("[0-9a-f]{40,64}", parts[at]) for at in (1, 3)):
            raise Usage(
                f"{text[:200]!r} is not a line of git's input for a pre-push hook: LOCAL-REF "
                "LOCAL-ID REMOTE-REF REMOTE-ID. The hook runs this command when you run git push."
            )
        found.append(Push(*parts))
    return found


def covering(root: str, remote: str, url: str, push: Push) -> tuple["PushGuard", ...]:
    """Return the guards that apply to this push of one ref. A guard of a remote also covers a push
    to its URL, and to another remote with the same URL."""
    names = _remote_names(root, remote, url)
    return tuple(
        guard
        for guard in guards_in_force(root, push.remote_oid, push.local_oid)
        if any(guard.covers(name, url, push.remote_ref) for name in names)
    )


def unpushed(root: str, remote: str, url: str, push: Push) -> list[str]:
    """Return the commits that the push sends: those that are not on the remote, by the remote refs
    in this repository. For a remote without a name, return those that are on no remote. Raise Usage
    if git cannot list them."""
    remotes = (line(root, "remote") or "").split("\n")
    names = sorted(_remote_names(root, remote, url).intersection(remotes))
    known = [f"--remotes={name}" for name in names] or ["--remotes"]
    if not push.creates and _has_commit(root, push.remote_oid):
        known.append(push.remote_oid)
    output = ask(root, "rev-list", push.local_oid, "--not", *known, "--")
    if output is None:
        raise Usage("git cannot list the commits of this push.")
    return output.decode().split()


def guards_in_force(root: str, *oids: str) -> tuple["PushGuard", ...]:
    """Return the guards of the working tree, and of each of these commits that exists in this
    repository.

    Callers pass the remote's current commit, so that a push cannot remove its own guard. They pass
    the pushed commit too, so that the checked-out branch does not matter. Raise Usage if the rules
    of a commit are unreadable."""
    from interlock.local import project

    guards = list(project.load(root).guards)
    for oid in oids:
        if not oid.strip("0") or not _has_commit(root, oid):
            continue
        entry = ask(root, "ls-tree", "-z", "--full-tree", oid, "--", project.FILE)
        if entry == b"":
            continue
        data = ask(root, "cat-file", "blob", f"{oid}:{project.FILE}") if entry else None
        where = f"{project.FILE} of {oid[:12]}"
        if data is None:
            raise Usage(f"Cannot read {where}.", file=project.FILE)
        guards += project.decode(data, where).guards
    return tuple(dict.fromkeys(guards))


def _has_commit(root: str, oid: str) -> bool:
    return ask(root, "cat-file", "-e", f"{oid}^{{commit}}") is not None


def _remote_names(root: str, remote: str, url: str) -> set[str]:
    """Return the name that the push uses for the remote, and the other remotes with the same
    URL."""
    names = {remote}
    for name in (line(root, "remote") or "").split("\n"):
        urls = line(root, "remote", "get-url", "--push", "--all", name) if name else None
        urls = (urls or "") + "\n" + (line(root, "remote", "get-url", name) or "")
        if any(normalised(each) == normalised(url) for each in urls.split("\n") if each):
            names.add(name)
    return names
