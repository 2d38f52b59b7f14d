"""Ask git what a commit or a push changes, and which guards a push meets.

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
    """The output of git, or None if it fails. Raises Usage if git cannot run: a guard that cannot
    ask refuses."""
    try:
        done = run_git(place, *words)
    except (OSError, subprocess.TimeoutExpired) as trouble:
        raise Usage(f"git cannot be run here: {trouble}") from None
    return done.stdout if done.returncode == 0 else None


def line(place: str, *words: str) -> str | None:
    """The line that git prints, or None if it prints nothing or fails. Raises Usage."""
    output = ask(place, *words)
    return os.fsdecode(output).removesuffix("\n") or None if output is not None else None


def root(place: str) -> str:
    """The root of the working tree, or of a bare repository. Raises Usage."""
    found = line(place, "rev-parse", "--show-toplevel") or line(
        place, "rev-parse", "--absolute-git-dir"
    )
    if found is None:
        raise Usage("This is no git repository. Stand in the one that is meant.")
    return found


# --- commits


def staged(root: str) -> list[str]:
    """The files that the commit being made changes, relative to the root: both names of a moved
    file, and deleted files. Raises Usage."""
    output = ask(root, "diff", "--cached", "--name-only", "--no-renames", "-z", "--no-ext-diff")
    if output is None:
        raise Usage("git does not say what is staged here.")
    return _texts(output)


def committed(root: str) -> tuple[str, list[str]] | None:
    """The last commit and the files that it changed; None if there is no commit. An amended commit
    is compared with the commit that it replaces."""
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
    """Files that the user names, relative to the root: by their own names, and by the targets of
    symbolic links. A directory means everything in it. Raises Usage for a file outside."""
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
    """Parse the standard input of a pre-push hook: a line for every ref. Raises Usage for anything
    else, so that no ref passes unchecked."""
    found = []
    for text in filter(None, stdin_text.split("\n")):
        parts = text.rsplit(" ", 3)  # the local ref is typed by the user, and may contain spaces
        if len(parts) != 4 or not all(re.fullmatch("[0-9a-f]{40,64}", parts[at]) for at in (1, 3)):
            raise Usage(
                f"{text[:200]!r} is not what git tells a pre-push hook: LOCAL-REF LOCAL-ID "
                "REMOTE-REF REMOTE-ID. The hook calls this by itself when you run git push."
            )
        found.append(Push(*parts))
    return found


def covering(root: str, remote: str, url: str, push: Push) -> tuple["PushGuard", ...]:
    """The guards that this push of one ref meets. A guard of a remote also covers a push to its
    URL, and to another remote with the same URL."""
    names = _remote_names(root, remote, url)
    return tuple(
        guard
        for guard in guards_in_force(root, push.remote_oid, push.local_oid)
        if any(guard.covers(name, url, push.remote_ref) for name in names)
    )


def unpushed(root: str, remote: str, url: str, push: Push) -> list[str]:
    """The commits that the push sends: those that are not on the remote, as far as this repository
    knows; for a remote without a name, those that are on no remote. Raises Usage."""
    remotes = (line(root, "remote") or "").split("\n")
    names = sorted(_remote_names(root, remote, url).intersection(remotes))
    known = [f"--remotes={name}" for name in names] or ["--remotes"]
    if not push.creates and _has_commit(root, push.remote_oid):
        known.append(push.remote_oid)
    output = ask(root, "rev-list", push.local_oid, "--not", *known, "--")
    if output is None:
        raise Usage("git does not say what would be pushed.")
    return output.decode().split()


def guards_in_force(root: str, *oids: str) -> tuple["PushGuard", ...]:
    """The guards of the working tree, and of each of these commits that exists here.

    The commit that the remote has now counts, so that a push cannot remove its own guard. The
    pushed commit counts, so that the checked-out branch does not matter. Raises Usage if the rules
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
            raise Usage(f"{where} cannot be read.", file=project.FILE)
        guards += project.decode(data, where).guards
    return tuple(dict.fromkeys(guards))


def _has_commit(root: str, oid: str) -> bool:
    return ask(root, "cat-file", "-e", f"{oid}^{{commit}}") is not None


def _remote_names(root: str, remote: str, url: str) -> set[str]:
    """The name that the push uses for the remote, and the other remotes with the same URL."""
    names = {remote}
    for name in (line(root, "remote") or "").split("\n"):
        urls = line(root, "remote", "get-url", "--push", "--all", name) if name else None
        urls = (urls or "") + "\n" + (line(root, "remote", "get-url", name) or "")
        if any(normalised(each) == normalised(url) for each in urls.split("\n") if each):
            names.add(name)
    return names
