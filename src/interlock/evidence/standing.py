"""Find the commit and the tree of a run. All facts come from git, and the repository does not
change: a temporary index and a temporary object directory give a dirty tree its id."""

import os
import shutil
import tempfile
from typing import NamedTuple

from interlock.machine import git

# Hashing a large tree takes long, but a hanging git must not block the run.
PATIENCE_S = 300

_QUIET = (
    "-c core.fsmonitor=false -c core.untrackedCache=false -c core.splitIndex=false "
    f"-c core.hooksPath={os.devnull} -c core.safecrlf=false -c core.looseCompression=0 "
    "-c advice.addEmbeddedRepo=false -c gc.auto=0"
).split()


class Standing(NamedTuple):
    """A checkout: its commit, if there is one, and the tree of its working directory."""

    commit: str | None
    tree: str | None
    dirty: bool
    root: str


def standing(place: str = ".") -> Standing | None:
    """Return the checkout at this place; None outside a repository, without git, or if git refuses
    to read the repository. If git cannot hash the tree, the tree is None and dirty."""
    root = _git(place, "rev-parse", "--show-toplevel")
    if not root:
        return None
    head = artifact("HEAD", place)
    changes = _git(root, "status", "--porcelain", "-z", "-unormal", "--ignore-submodules=none")
    # Files that are marked assume-unchanged or skip-worktree, without the files that a sparse
    # checkout omits.
    listed = _git(root, "ls-files", "-v", "-z") or ""
    tagged = [(entry[:1], entry[2:]) for entry in listed.split("\0") if entry]
    overlooked = [
        path
        for tag, path in tagged
        if tag.islower() or (tag == "S" and os.path.lexists(os.path.join(root, path)))
    ]
    if head and changes == "" and not overlooked:
        return Standing(*head, dirty=False, root=root)
    commit, committed = head or (None, None)
    tree = _working_tree(root, overlooked)
    return Standing(commit, tree, dirty=changes != "" or tree != committed, root=root)


def unchanged(before: Standing) -> bool:
    """Return whether a clean checkout is still clean after the run: the same commit, and no change
    of a tracked file. New untracked files do not change the tree of the run."""
    head = _git(before.root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    status = ("status", "--porcelain", "-z", "-uno", "--ignore-submodules=untracked")
    return head == before.commit and _git(before.root, *status) == ""


def artifact(commit: str, place: str = ".") -> tuple[str, str] | None:
    """Return the full ids of a revision's commit and tree; None if they do not exist."""
    if commit.startswith("-") or "\0" in commit:
        return None
    found = _git(place, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    tree = found and _git(place, "rev-parse", "--verify", "--quiet", f"{found}^{{tree}}")
    return (found, tree) if found and tree else None


def _working_tree(root: str, overlooked: list[str]) -> str | None:
    index = _git(root, "rev-parse", "--git-path", "index")
    objects = _git(root, "rev-parse", "--git-path", "objects")
    if not index or not objects:
        return None
    with tempfile.TemporaryDirectory(prefix="interlock-tree-") as own:
        escaped = os.path.join(root, objects).replace("\\", "\\\\").replace('"', '\\"')
        lent = [f'"{escaped}"']
        if more := os.environ.get("GIT_ALTERNATE_OBJECT_DIRECTORIES"):
            lent.append(more)
        environment = {
            "GIT_INDEX_FILE": os.path.join(own, "index"),
            "GIT_OBJECT_DIRECTORY": os.path.join(own, "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.pathsep.join(lent),
        }
        os.mkdir(environment["GIT_OBJECT_DIRECTORY"])
        try:
            # With a copy of the index, git reads only the files that have changed. The copy must
            # keep the time of the index, by which git recognises files that changed while they were
            # added.
            shutil.copy2(os.path.join(root, index), environment["GIT_INDEX_FILE"])
        except FileNotFoundError:
            pass  # the repository has no index yet
        except OSError:
            return None
        for mark in ("--no-assume-unchanged", "--no-skip-worktree") if overlooked else ():
            stdin = "\0".join(overlooked)
            _git(root, "update-index", mark, "-z", "--stdin", more=environment, stdin=stdin)
        if _git(root, "add", "--all", "--", ".", more=environment) is None:
            return None
        return _git(root, "write-tree", "--missing-ok", more=environment)


def _git(
    place: str, *words: str, more: dict[str, str] | None = None, stdin: str = ""
) -> str | None:
    """Return the output of git, independent of the user's settings; None if git fails."""
    quiet = {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"} | (more or {})
    data = os.fsencode(stdin)
    return git.git_output(place, *_QUIET, *words, more=quiet, stdin=data, patience_s=PATIENCE_S)
