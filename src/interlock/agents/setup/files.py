"""Change several files: all of them or none, each atomically, without a change of their modes."""

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from interlock.errors import Usage


class Change(NamedTuple):
    """A file before and after; None where it does not exist."""

    file: str
    before: bytes | None
    after: bytes | None


def read(file: str) -> bytes | None:
    """Return the content of the file, or None if it does not exist. Raise Usage if it is
    unreadable."""
    try:
        with open(file, "rb") as stream:
            return stream.read()
    except FileNotFoundError:
        return None
    except OSError as trouble:
        raise Usage(f"Cannot read {file}: {trouble.strerror}.", file=file) from None


def missing_directories(file: str) -> list[str]:
    """Return the directories that `write` must create for the file, the innermost first."""
    above, missing = os.path.dirname(os.path.realpath(file)), list[str]()
    while above and not os.path.lexists(above):
        missing.append(above)
        above = os.path.dirname(above)
    return missing


def remove_empty(directories: Sequence[str]) -> None:
    for directory in directories:
        with suppress(OSError):
            os.rmdir(directory)


def write(changes: Sequence[Change]) -> None:
    """Make the changes. If a change fails, or its file is no longer equal to `before`, undo the
    others and raise Usage with the name of the file."""
    changes = [change for change in changes if change.after != change.before]
    made: list[str] = []
    done: list[Change] = []
    drafts: list[str] = []
    try:
        for change in changes:
            _check(change)
            missing = missing_directories(change.file) if change.after is not None else []
            for directory in reversed(missing):
                os.mkdir(directory)
            made += missing
            drafts.append(_draft(change))
        for change, draft in zip(changes, drafts, strict=True):
            _check(change)
            _place(change, draft)
            done.append(change)
    except OSError as trouble:
        for draft in drafts:
            with suppress(OSError):
                os.unlink(draft)
        for each in reversed(done):
            with suppress(OSError):
                back = Change(each.file, each.after, each.before)
                _place(back, _draft(back))
        remove_empty(made)
        raise _refusal(change, trouble) from None


def refuse_unwritable(changes: Sequence[Change]) -> None:
    """Raise Usage for a change that `write` would refuse. Change nothing."""
    for change in changes:
        if change.after == change.before:
            continue
        try:
            _check(change)
            above = os.path.dirname(os.path.realpath(change.file))
            while not os.path.lexists(above):
                above = os.path.dirname(above)
            if not os.access(above, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as trouble:
            raise _refusal(change, trouble) from None


def _refusal(change: Change, trouble: OSError) -> Usage:
    may_be_sandbox = trouble.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
    do = " If this shell is sandboxed, ask a person to run the command outside of the sandbox."
    return Usage(
        f"Cannot change {change.file}: {trouble.strerror or trouble}. Nothing was changed."
        + (do if may_be_sandbox else ""),
        file=change.file,
    )


def _check(change: Change) -> None:
    if read(change.file) != change.before:
        raise OSError("another program has changed it")
    if change.before is not None and not os.stat(change.file).st_mode & stat.S_IWUSR:
        raise OSError("it is read-only")


def _draft(change: Change) -> str:
    """Write the new content next to the file, under another name, with the file's mode and owner.
    Return that name. For a file to be removed, write nothing."""
    target = os.path.realpath(change.file)
    draft = f"{target}.{os.urandom(6).hex()}"
    if change.after is None:
        return draft
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    with open(handle, "wb") as stream:
        if os.path.exists(target):
            found = os.stat(target)
            os.fchmod(handle, stat.S_IMODE(found.st_mode))
            with suppress(PermissionError):
                os.fchown(handle, found.st_uid, found.st_gid)
        stream.write(change.after)
    return draft


def _place(change: Change, draft: str) -> None:
    if change.after is not None:
        os.replace(draft, os.path.realpath(change.file))
    elif change.before is not None:
        os.unlink(os.path.realpath(change.file))  # keep a symbolic link, without its target
