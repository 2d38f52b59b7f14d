"""Changing several files of somebody's: all of them or none, each in one step, modes kept."""

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from interlock.errors import Usage


class Change(NamedTuple):
    """A file as it is and as it is to be; None where there is no file."""

    file: str
    before: bytes | None
    after: bytes | None


def read(file: str) -> bytes | None:
    """What is in the file, or None where there is none."""
    try:
        with open(file, "rb") as stream:
            return stream.read()
    except FileNotFoundError:
        return None
    except OSError as trouble:
        raise Usage(f"{file} cannot be read: {trouble.strerror}.", file=file) from None


def missing_directories(file: str) -> list[str]:
    """The directories that would have to be made for the file, the innermost first."""
    above, missing = os.path.dirname(os.path.realpath(file)), list[str]()
    while above and not os.path.lexists(above):
        missing.append(above)
        above = os.path.dirname(above)
    return missing


def write(changes: Sequence[Change]) -> None:
    """Makes the changes. Where one cannot be made, or its file is no longer as it was, those
    before it are put back, and the refusal names the file."""
    changes = [change for change in changes if change.after != change.before]
    made: list[str] = []
    done: list[Change] = []
    drafts: list[str] = []
    try:
        for change in changes:
            _check(change)
            made += _directories(change)
            drafts.append(_draft(change))
        for change, draft in zip(changes, drafts, strict=True):
            _check(change)
            _place(change, draft)
            done.append(change)
    except OSError as trouble:
        _discard(drafts)
        _put_back(done, made)
        raise _refusal(change, trouble) from None


def refuse_unwritable(changes: Sequence[Change]) -> None:
    """Refuses what `write` surely would, before anything is done."""
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
    return Usage(
        f"{change.file} cannot be changed: {trouble.strerror or trouble}. Nothing was changed."
        + (" In a sandboxed shell, ask a person to run this outside." * _is_walled(trouble)),
        file=change.file,
    )


def remove_empty(directories: Sequence[str]) -> None:
    """Removes those directories that hold nothing."""
    for directory in directories:
        with suppress(OSError):
            os.rmdir(directory)


def _is_walled(trouble: OSError) -> bool:
    return trouble.errno in (errno.EACCES, errno.EPERM, errno.EROFS)


def _check(change: Change) -> None:
    if read(change.file) != change.before:
        raise OSError("somebody else is changing it")
    if change.before is not None and not os.stat(change.file).st_mode & stat.S_IWUSR:
        raise OSError("it is read-only")


def _directories(change: Change) -> list[str]:
    missing = missing_directories(change.file) if change.after is not None else []
    for directory in reversed(missing):
        os.mkdir(directory)
    return missing


def _draft(change: Change) -> str:
    """The new file under another name beside the old one, with its mode and owner. Where the file
    is to go, there is none of that name."""
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
        os.unlink(os.path.realpath(change.file))  # a link that was there leads nowhere again


def _discard(drafts: Sequence[str]) -> None:
    for draft in drafts:
        with suppress(OSError):
            os.unlink(draft)


def _put_back(done: Sequence[Change], made: Sequence[str]) -> None:
    for change in reversed(done):
        with suppress(OSError):
            back = Change(change.file, change.after, change.before)
            _place(back, _draft(back))
    remove_empty(made)
