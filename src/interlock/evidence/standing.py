"""The commit and tree that a run stands for. All facts come from git, and nothing is written into
the repository: a dirty tree gets its id through an index and an object directory of our own."""

import os
import shutil
import tempfile
from typing import NamedTuple

from interlock.machine import git

# Hashing a large tree takes long; a git that hangs must not hang the run.
PATIENCE_S = 300

_QUIET = (
    "-c core.fsmonitor=false -c core.untrackedCache=false -c core.splitIndex=false "
    f"-c core.hooksPath={os.devnull} -c core.safecrlf=false -c core.looseCompression=0 "
    "-c advice.addEmbeddedRepo=false -c gc.auto=0"
).split()


class Standing(NamedTuple):
    """The checkout: the commit, if there is one, and the tree as it is in the working directory."""

    commit: str | None
    tree: str | None
    dirty: bool
    root: str


def standing(place: str = ".") -> Standing | None:
    """The checkout at this place; None outside a repository, without git, or where git refuses to
    read it. A tree that git cannot hash is None, and dirty."""
    root = _git(place, "rev-parse", "--show-toplevel")
    if not root:
        return None
    head = artifact("HEAD", place)
    changes = _git(root, "status", "--porcelain", "-z", "-unormal", "--ignore-submodules=none")
    # The files whose changes git was told to ignore. The files that a sparse checkout leaves out
    # are not among them.
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
    """Whether a clean checkout is still clean after the run: the same commit, and no change of a
    tracked file. New untracked files do not change the tree that it ran on."""
    head = _git(before.root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    status = ("status", "--porcelain", "-z", "-uno", "--ignore-submodules=untracked")
    return head == before.commit and _git(before.root, *status) == ""


def artifact(commit: str, place: str = ".") -> tuple[str, str] | None:
    """The full id of a revision's commit and that of its tree; None where there is none."""
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
            # With a copy of the index, git reads only the files that have changed. The copy keeps
            # its time, by which git knows the files that may have changed while they were added.
            shutil.copy2(os.path.join(root, index), environment["GIT_INDEX_FILE"])
        except FileNotFoundError:
            pass  # nothing was ever added
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
    """The output of git, independent of the user's settings; None when it fails."""
    quiet = {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"} | (more or {})
    data = os.fsencode(stdin)
    return git.git_output(place, *_QUIET, *words, more=quiet, stdin=data, patience_s=PATIENCE_S)
