"""Checks of the files of a workspace's directory: whoever may read some of them reads everybody's
mail, and whoever may write them is the owner."""

import os
import shlex
import stat
from collections.abc import Iterator

from interlock.errors import LogDamaged
from interlock.node import Node
from interlock.rooms.workspace.findings import Finding

OTHERS = stat.S_IRWXG | stat.S_IRWXO
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
# What SQLite keeps beside the log's file has the mode that the file had.
SECRET = ("owner.json", "engine.json", "log.db")
BESIDE = ("log.db-wal", "log.db-shm")
OURS = (*SECRET, "keys", "credentials", "servers", "server.lock", "server.log")


def secrets(node: Node) -> Iterator[Finding]:
    """The key, the owner's token and the log itself: are they there for us, and for us alone."""
    barred = [path for path in _there(node.directory, OURS) if not _is_usable(path)]
    for path in barred:
        yield Finding(f"The user who runs this may not read and write {path}.", _to_use(path))
    trouble = node.keys.trouble()
    if isinstance(trouble, LogDamaged) or (trouble is not None and not barred):
        yield Finding(
            f"Nobody can sign in or be invited, and no checkpoint is signed: {trouble.message}",
            f"Put it back from a copy: {node.keys.path}",
        )
    yield from _seen_by_others(node.directory)


def _seen_by_others(directory: str) -> Iterator[Finding]:
    if _mode(directory) & OTHERS_WRITE:
        yield Finding(
            f"Others on this machine may put files into {directory}, and take them away.",
            f"chmod 700 {shlex.quote(directory)}",
        )
    is_log_apart = not _mode(os.path.join(directory, "log.db")) & OTHERS
    for path in _there(directory, (*SECRET, *(BESIDE if is_log_apart else ()), "keys")):
        if _mode(path) & OTHERS:
            mode = 700 if os.path.isdir(path) else 600
            yield Finding(
                f"Others on this machine may read or write {path}.",
                f"chmod {mode} {shlex.quote(path)}",
            )


def _there(directory: str, names: tuple[str, ...]) -> list[str]:
    """The files that matter and exist, with whatever lies beside the key."""
    paths = [os.path.join(directory, name) for name in names]
    keys = os.path.join(directory, "keys")
    if os.access(keys, os.R_OK | os.X_OK) and os.path.isdir(keys):
        paths += [os.path.join(keys, name) for name in sorted(os.listdir(keys))]
    return [path for path in paths if os.path.exists(path)]


def _is_usable(path: str) -> bool:
    may = os.R_OK | os.W_OK | (os.X_OK if os.path.isdir(path) else 0)
    return os.access(path, may)


def _to_use(path: str) -> str:
    quoted = shlex.quote(path)
    mode = f"chmod -R u+rwX {quoted}"
    user = os.geteuid()
    return mode if os.stat(path).st_uid == user else f"sudo chown -R {user} {quoted} && {mode}"


def _mode(path: str) -> int:
    """A file that has gone meanwhile is nobody's."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return 0
