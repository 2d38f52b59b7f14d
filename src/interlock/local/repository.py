"""Name the repository of a path claim. The name is its remote, which all clones share, or else its
common directory, which all worktrees share."""

import os
from typing import Any

from interlock.errors import Usage
from interlock.machine import git


def name_and_paths(repo: str | None, paths: list[str]) -> tuple[str, tuple[str, ...]]:
    """Return the repository's name, and the paths relative to its root.

    A path is relative to the root, as in guards; `./x` is relative to the working directory. With
    `--repo`, all paths are relative to the root. The value of `--repo` is a remote's URL in any
    form, a directory in the repository, or a free name. Raise Usage outside a repository."""
    if repo is None:
        root = _git("rev-parse", "--show-toplevel")
        if root is None:
            raise Usage(
                "This directory is not in a git repository, and paths are relative to one. Run the "
                "command in a repository, or name it: --repo NAME"
            )
        return _name("."), tuple(_from_root(path, root) for path in paths)
    if repo.startswith((".", "/", "~")):
        return name_here(os.path.expanduser(repo)) or normalised(repo), tuple(paths)
    return _normalised_if_remote(repo), tuple(paths)


def located(request: Any) -> Any:
    """Return the request with the name of its repository, with paths relative to the root, and with
    an absolute worktree. The default repository is the one of the working directory."""
    if getattr(request, "worktree", None) in (".", "./"):
        # Other readers would resolve a relative path to another worktree.
        request = request._replace(worktree=os.path.abspath("."))
    if getattr(request, "paths", ()):
        repo, paths = name_and_paths(request.repo, list(request.paths))
        request = request._replace(repo=repo, paths=paths)
    return request


def needs_location(request: Any) -> bool:
    return bool(getattr(request, "paths", ())) or getattr(request, "worktree", None) is not None


def name_here(place: str = ".") -> str | None:
    """Return the name of the repository at this place, if there is one."""
    return _name(place) if _git("rev-parse", "--git-dir", place=place) else None


def names_of(path: str) -> list[str]:
    """Return the absolute path of a file as given, its path in the resolved directory, and the
    target of the link."""
    whole = os.path.abspath(path)
    own = os.path.join(os.path.realpath(os.path.dirname(whole)), os.path.basename(whole))
    return list(dict.fromkeys((whole, own, os.path.realpath(whole))))


def named_from_afar(repo: str) -> str:
    """Return the name of a repository for a caller on another machine, from a remote's URL in any
    form or from the name in claims. Raise Usage for a relative path, which the server cannot
    resolve."""
    if repo.startswith((".", "~")):
        raise Usage(
            f"{repo[:80]!r} is a path that depends on the caller's machine. Name the repository by "
            "its remote's URL, or by its name in the list of claims."
        )
    return _normalised_if_remote(repo)


def _normalised_if_remote(repo: str) -> str:
    is_remote = "://" in repo or ("@" in repo and ":" in repo)
    return normalised(repo) if is_remote else repo


def _name(place: str) -> str:
    if remote := _git("config", "--get", "remote.origin.url", place=place):
        if remote.startswith(("./", "../")):  # relative to the root, not to this place
            root = _git("rev-parse", "--show-toplevel", place=place) or place
            remote = os.path.join(root, remote)
        return normalised(remote)
    common = _git("rev-parse", "--git-common-dir", place=place) or "."
    return os.path.realpath(os.path.join(place, common))


def normalised(remote: str) -> str:
    """Return `host/owner/name` for any form of the remote's URL, without credentials."""
    text = remote.strip()
    scheme, separator, rest = text.partition("://")
    if separator and scheme == "file":
        return os.path.realpath(rest).removesuffix(".git")
    if not separator and text.startswith(("/", "./", "../", "~")):
        return os.path.realpath(os.path.expanduser(text)).removesuffix(".git")
    if not separator:
        rest = text.replace(":", "/", 1)
    host, slash, path = rest.partition("/")
    host = host.rpartition("@")[2].partition(":")[0].lower()
    return (host + slash + path).rstrip("/").removesuffix(".git")


def _from_root(path: str, root: str) -> str:
    if not path.startswith(("./", "../", "/")) and path not in (".", ".."):
        return path
    slash = "/" if path.endswith("/") and path != "/" else ""
    if os.path.isabs(path):
        relative = os.path.relpath(path, root)
    else:
        # Quote the working directory: it is a name, not a pattern.
        here = os.path.relpath(os.path.realpath(os.getcwd()), root)
        quoted = "".join(f"[{c}]" if c in "*?[" else c for c in here)
        relative = os.path.normpath(os.path.join(quoted, path))
    if relative.split("/")[0] == "..":
        raise Usage(
            f"{path[:80]!r} is outside of the repository {root}. Give a path inside it, such as "
            "src/a.py."
        )
    return "**" if relative == "." else relative + slash


def _git(*words: str, place: str = ".") -> str | None:
    return (git.git_output(place, *words, patience_s=10) or "").strip() or None
