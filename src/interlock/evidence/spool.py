"""A run in a file: for a shell that reaches neither workspace nor server, until somebody who does
hands it over. The file is one JSON object with the payload, the output in base64, and the key under
which the run is recorded once, whoever hands it over and however often. Its name says in which
client's session it was run, where the client tells its shell, so that a hook of the same session
can hand it over."""

import base64
import binascii
import fcntl
import hashlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Final, NamedTuple, NoReturn

from interlock.errors import DigestMismatch, TooLarge, Usage
from interlock.verbs.addresses import filename

FORM: Final = "interlock-run-1"
# By these a client tells what it starts in which session that is.
SESSIONS: Final = ("INTERLOCK_SESSION", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID")
# What hooks hand over, and what only whoever ran it does.
WAITING: Final = ".json"
REFUSED: Final = ".json.refused"
MEMBERS: Final = {"form", "key", "payload", "output"}
MAX_OUTPUT_BYTES: Final = 65 << 20
MAX_PAYLOAD_BYTES: Final = 4 << 20
_KEY: Final = re.compile("run-[0-9a-f]{32}")
_BLOCK: Final = 3 << 18  # a multiple of three, so that the blocks of base64 join


class Spooled(NamedTuple):
    """A run as its file has it. The payload is marked as spooled."""

    key: str
    payload: dict[str, Any]
    output: bytes


def new_key() -> str:
    """For a run that may be handed over more than once, and is to be recorded once."""
    return f"run-{os.urandom(16).hex()}"


def write(
    payload: dict[str, Any],
    output: str,
    key: str,
    directory: str | None = None,
    *,
    ending: str = WAITING,
) -> str:
    """The path of a new file that holds the run; `output` is the path of what is to be stored.
    Nobody else may read it, and it appears whole or not at all. Raises TooLarge and Usage."""
    if os.path.getsize(output) > MAX_OUTPUT_BYTES:
        raise TooLarge(
            f"The output is larger than {MAX_OUTPUT_BYTES} bytes, the limit of a spool file. Run "
            "it again with a smaller output limit."
        )
    directory = directory or tempfile.gettempdir()
    try:
        descriptor, part = tempfile.mkstemp(".part", _prefix(_session()), directory)
        try:
            with os.fdopen(descriptor, "wb") as file, open(output, "rb") as source:
                _fill(file, {"form": FORM, "key": key, "payload": payload}, source)
                file.flush()
                os.fsync(file.fileno())
            path = part.removesuffix(".part") + ending
            os.rename(part, path)
        except BaseException:
            os.unlink(part)
            raise
    except OSError as trouble:
        raise Usage(
            f"The run cannot be written to {directory}: {trouble.strerror}. Name a directory that "
            "can be written to."
        ) from None
    return path


def waiting(session: str) -> list[str]:
    """The runs of this session that wait in the usual place to be handed over, oldest first."""
    directory = tempfile.gettempdir()
    try:
        names = [name for name in os.listdir(directory) if name.startswith(_prefix(session))]
    except OSError:
        return []
    found = []
    for name in names:
        path = os.path.join(directory, name)
        with suppress(FileNotFoundError):  # handed over meanwhile, by another hook
            found += [(os.lstat(path).st_mtime_ns, path)] if name.endswith(WAITING) else []
    return [path for _, path in sorted(found)]


@contextmanager
def in_hand(path: str) -> Iterator[bool]:
    """Whether nobody else is handing this run over, nor has; nobody will, within the block. A hook
    that is ended in the middle of it lets go of the file by that."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        yield _is_locked(file) and os.path.exists(path)
    finally:
        os.close(file)


def _is_locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _session() -> str | None:
    return next(filter(None, map(os.environ.get, SESSIONS)), None)


def _prefix(session: str | None) -> str:
    return f"interlock-run-{filename(session)}-" if session is not None else "interlock-run-"


def _fill(file: BinaryIO, members: dict[str, Any], source: BinaryIO) -> None:
    head = json.dumps(members, ensure_ascii=False)
    file.write(head.removesuffix("}").encode() + b', "output": "')
    while block := source.read(_BLOCK):
        file.write(base64.b64encode(block))
    file.write(b'"}\n')


def read(path: str) -> Spooled:
    """The run in a file. Raises Usage, TooLarge, InvalidMessage or DigestMismatch; whatever the
    file holds, nothing else."""
    from interlock.rooms.mail.payloads import check

    spooled = _parsed(_contents(path), path)
    payload = check("evidence", spooled["payload"])
    if payload["kind"] != "run":
        raise Usage(f"{path} holds no run. Evidence of other kinds is added with evidence add.")
    output = _decoded(spooled["output"], path)
    promised = payload["output"]
    if len(output) != promised["size"] or _digest(output) != promised["sha256"]:
        raise DigestMismatch(
            f"The output in {path} is not the one that was recorded. Run it again."
        )
    return Spooled(spooled["key"], payload | {"spooled": True}, output)


def _contents(path: str) -> bytes:
    most = MAX_OUTPUT_BYTES * 4 // 3 + MAX_PAYLOAD_BYTES
    try:
        # Whoever names a pipe or a device must not make us wait for it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise Usage(f"{path} is not a file. Name the one that evidence run wrote.")
            if found.st_size > most:
                raise TooLarge(f"{path} is larger than any spool file: {found.st_size} bytes.")
            return file.read(most + 1)
    except (OSError, ValueError) as trouble:
        why = getattr(trouble, "strerror", None) or "that is no path"
        gone = " Once a hook has handed it over, it is gone, and the run is recorded."
        raise Usage(
            f"{path} cannot be read: {why}. Name the file that evidence run wrote."
            + (gone if isinstance(trouble, FileNotFoundError) else "")
        ) from None


def _parsed(contents: bytes, path: str) -> dict[str, Any]:
    try:
        spooled = json.loads(contents, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        spooled = None
    if not isinstance(spooled, dict) or set(spooled) != MEMBERS or not _is_run(spooled):
        raise Usage(f"{path} is no spool file of a run, or only a part of one. Run it again.")
    return spooled


def _is_run(spooled: dict[str, Any]) -> bool:
    key = spooled["key"]
    return spooled["form"] == FORM and isinstance(key, str) and bool(_KEY.fullmatch(key))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError
    return made


def _no_constant(_: str) -> NoReturn:
    raise ValueError


def _decoded(output: object, path: str) -> bytes:
    try:
        if isinstance(output, str):
            return base64.b64decode(output, validate=True)
    except (binascii.Error, ValueError):
        pass
    raise Usage(f"The output in {path} is not base64. Run it again.")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
