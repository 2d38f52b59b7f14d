"""Which repository a path claim is on: named by its remote, or by its common directory, so that
every clone or every worktree of it means the same one."""

import os
from typing import Any

from interlock.errors import Usage
from interlock.machine import git


def name_and_paths(repo: str | None, paths: list[str]) -> tuple[str, tuple[str, ...]]:
    """The repository's name, and the paths relative to its root.

    A path is meant from the root, as guards see it; `./x` and absolute ones from where one
    stands. With `--repo` all are from the root, and the repository is named by a remote's URL in
    any spelling, by a directory in it, or by a name of its own."""
    if repo is not None:
        return _named(repo), tuple(paths)
    root = _git("rev-parse", "--show-toplevel")
    if root is None:
        raise Usage(
            "Paths are relative to a repository, and this is none. Stand in one, or name it: "
            "--repo NAME"
        )
    return _name("."), tuple(_from_root(path, root) for path in paths)


def located(request: Any) -> Any:
    """A request with the name of its repository, its paths from the root, and its worktree. By
    default the repository is the one of the working directory."""
    if getattr(request, "worktree", None) in (".", "./"):
        # A relative path would name another worktree for every other reader.
        request = request._replace(worktree=os.path.abspath("."))
    if getattr(request, "paths", ()):
        repo, paths = name_and_paths(request.repo, list(request.paths))
        request = request._replace(repo=repo, paths=paths)
    return request


def needs_location(request: Any) -> bool:
    return bool(getattr(request, "paths", ())) or getattr(request, "worktree", None) is not None


def name_here(place: str = ".") -> str | None:
    """The name of the repository that one stands in, if it is one."""
    return _name(place) if _git("rev-parse", "--git-dir", place=place) else None


def names_of(path: str) -> list[str]:
    """A file as it is named, under its own name where its directory really is, and what it leads
    to."""
    whole = os.path.abspath(path)
    own = os.path.join(os.path.realpath(os.path.dirname(whole)), os.path.basename(whole))
    return list(dict.fromkeys((whole, own, os.path.realpath(whole))))


def named_from_afar(repo: str) -> str:
    """The repository that somebody means who stands elsewhere: named by a remote's URL in any
    spelling, or by the name that claims show. Places near them mean nothing here."""
    if repo.startswith((".", "~")):
        raise Usage(
            f"{repo[:80]!r} is a place, and means another repository wherever one stands. Name "
            "the repository by its remote's URL, or as claims on it do."
        )
    return normalised(repo) if _is_remote(repo) else repo


def _named(repo: str) -> str:
    if repo.startswith((".", "/", "~")):
        place = os.path.expanduser(repo)
        return _name(place) if _git("rev-parse", "--git-dir", place=place) else normalised(repo)
    return normalised(repo) if _is_remote(repo) else repo


def _is_remote(repo: str) -> bool:
    return "://" in repo or ("@" in repo and ":" in repo)


def _name(place: str) -> str:
    if remote := _git("config", "--get", "remote.origin.url", place=place):
        if remote.startswith(("./", "../")):  # from the root, wherever in it one stands
            root = _git("rev-parse", "--show-toplevel", place=place) or place
            remote = os.path.join(root, remote)
        return normalised(remote)
    common = _git("rev-parse", "--git-common-dir", place=place) or "."
    return os.path.realpath(os.path.join(place, common))


def normalised(remote: str) -> str:
    """`host/owner/name`, however the remote is written, and without the secrets in it."""
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
    if not path.startswith(("./", "../", "/")) and path != ".":
        return path
    slash = "/" if path.endswith("/") and path != "/" else ""
    here = os.path.realpath(os.getcwd())
    if os.path.isabs(path):
        relative = os.path.relpath(path, root)
    else:
        # Where one stands is a name and no pattern, whatever characters it has.
        relative = os.path.normpath(os.path.join(_quoted(os.path.relpath(here, root)), path))
    return "**" if relative == "." else relative + slash


def _quoted(path: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in path)


def _git(*words: str, place: str = ".") -> str | None:
    return (git.said(place, *words, patience_s=10) or "").strip() or None
