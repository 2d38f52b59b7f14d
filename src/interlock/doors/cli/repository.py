"""Which repository a path claim is on: named by its remote, or by its common directory, so that
every clone or every worktree of it means the same one."""

import os
import subprocess

from interlock.errors import Usage


def name_and_paths(repo: str | None, paths: list[str]) -> tuple[str, tuple[str, ...]]:
    """The repository's name, and the paths relative to its root.

    A path is meant from the root, as guards see it; `./x` and absolute ones from where one
    stands. With `--repo` all are from the root."""
    if repo is not None:
        return repo, tuple(paths)
    root = _git("rev-parse", "--show-toplevel")
    if root is None:
        raise Usage(
            "Paths are relative to a repository, and this is none. Stand in one, or name it: "
            "--repo NAME"
        )
    return _name(root), tuple(_from_root(path, root) for path in paths)


def _name(root: str) -> str:
    if remote := _git("config", "--get", "remote.origin.url"):
        return normalised(remote)
    common = _git("rev-parse", "--git-common-dir") or root
    return os.path.realpath(os.path.join(os.getcwd(), common))


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
    relative = os.path.relpath(os.path.join(os.path.realpath(os.getcwd()), path), root)
    return "**" if relative == "." else relative + slash


def _git(*words: str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603
            ["git", *words],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
