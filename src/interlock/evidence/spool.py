"""Spool files: `evidence run` writes a run to a file while offline, and another process submits it.

A file is one JSON object: the payload, the output in base64, and the idempotency key of the run. If
the client sets its session in the environment of its shell, the file's name contains the session.
Then a hook of the same session can submit the run."""

import base64
import fcntl
import hashlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, NoReturn

from interlock.errors import DigestMismatch, TooLarge, Usage
from interlock.verbs.addresses import filename

FORM: Final = "interlock-run-1"
# The variables in which clients set the session for their shell.
SESSIONS: Final = ("INTERLOCK_SESSION", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID")
# Hooks submit files with the first ending. The user submits files with the second one.
WAITING: Final = ".json"
REFUSED: Final = ".json.refused"
MEMBERS: Final = {"form", "key", "payload", "output"}
MAX_OUTPUT_BYTES: Final = 65 << 20
MAX_PAYLOAD_BYTES: Final = 4 << 20
_KEY: Final = re.compile("run-[0-9a-f]{32}")
_BLOCK: Final = 3 << 18  # a multiple of three, so that the blocks of base64 join


def new_key() -> str:
    """Return an idempotency key: the node records the run once, even if several processes submit
    it."""
    return f"run-{os.urandom(16).hex()}"


def write(
    payload: dict[str, Any],
    output: str,
    key: str,
    directory: str | None = None,
    *,
    ending: str = WAITING,
) -> str:
    """Write the run to a new file, and return its path. `output` is the path of the output. Only
    the owner can read the file. It appears atomically. Raise TooLarge or Usage."""
    if os.path.getsize(output) > MAX_OUTPUT_BYTES:
        raise TooLarge(
            f"The output is larger than {MAX_OUTPUT_BYTES} bytes, the limit of a spool file. Run "
            "the command again with a smaller --output-limit."
        )
    directory = directory or tempfile.gettempdir()
    session = next(filter(None, map(os.environ.get, SESSIONS)), None)
    head = json.dumps({"form": FORM, "key": key, "payload": payload}, ensure_ascii=False)
    try:
        descriptor, part = tempfile.mkstemp(".part", _prefix(session), directory)
        try:
            with os.fdopen(descriptor, "wb") as file, open(output, "rb") as source:
                # Copy in blocks: a large output may not fit into memory.
                file.write(head.removesuffix("}").encode() + b', "output": "')
                while block := source.read(_BLOCK):
                    file.write(base64.b64encode(block))
                file.write(b'"}\n')
                file.flush()
                os.fsync(file.fileno())
            path = part.removesuffix(".part") + ending
            os.rename(part, path)
        except BaseException:
            os.unlink(part)
            raise
    except OSError as trouble:
        raise Usage(
            f"Cannot write the run to {directory}: {trouble.strerror}. Name a writable directory: "
            "--spool DIR"
        ) from None
    return path


def waiting(session: str) -> list[str]:
    """Return the spool files of this session in the default directory, oldest first."""
    directory = tempfile.gettempdir()
    try:
        names = [name for name in os.listdir(directory) if name.startswith(_prefix(session))]
    except OSError:
        return []
    found = []
    for name in names:
        path = os.path.join(directory, name)
        with suppress(FileNotFoundError):  # another hook has submitted and deleted it
            found += [(os.lstat(path).st_mtime_ns, path)] if name.endswith(WAITING) else []
    return [path for _, path in sorted(found)]


def _prefix(session: str | None) -> str:
    return f"interlock-run-{filename(session)}-" if session is not None else "interlock-run-"


@contextmanager
def in_hand(path: str) -> Iterator[bool]:
    """Lock the file for the length of the block. Yield whether this process has the lock and the
    file still exists: then only this process may submit the run. The lock ends with the process."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_mine = os.path.exists(path)
        except OSError:
            is_mine = False
        yield is_mine
    finally:
        os.close(file)


def read(path: str) -> tuple[str, dict[str, Any], bytes]:
    """Return the key, the payload and the output of the run in a file. The payload is marked as
    spooled. For an invalid file, raise Usage, TooLarge, InvalidMessage or DigestMismatch, and no
    other error."""
    from interlock.rooms.mail.payloads import check

    most = MAX_OUTPUT_BYTES * 4 // 3 + MAX_PAYLOAD_BYTES
    try:
        # Do not wait for a pipe or a device.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise Usage(
                    f"{path} is not a regular file. Name a file that interlock evidence run wrote."
                )
            if status.st_size > most:
                raise TooLarge(
                    f"{path} has {status.st_size} bytes. A spool file has at most {most} bytes."
                )
            contents = file.read(most + 1)
    except (OSError, ValueError) as trouble:
        why = getattr(trouble, "strerror", None) or "it is not a valid path"
        gone = " If a hook has submitted the file, the run is recorded and the file is deleted."
        raise Usage(
            f"Cannot read {path}: {why}. Name a file that interlock evidence run wrote."
            + (gone if isinstance(trouble, FileNotFoundError) else "")
        ) from None
    try:
        spooled = json.loads(contents, object_pairs_hook=_object, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        spooled = None
    is_run = isinstance(spooled, dict) and set(spooled) == MEMBERS and spooled["form"] == FORM
    if not is_run or not isinstance(spooled["key"], str) or not _KEY.fullmatch(spooled["key"]):
        raise Usage(f"{path} is not a complete spool file of a run. Run the command again.")
    payload = check("evidence", spooled["payload"])
    if payload["kind"] != "run":
        raise Usage(
            f"{path} contains evidence of the kind {payload['kind']}, not a run. Add it with the "
            "other flags of interlock evidence add."
        )
    try:
        output = base64.b64decode(spooled["output"], validate=True)
    except (ValueError, TypeError):
        raise Usage(f"The output in {path} is not valid base64. Run the command again.") from None
    promised = payload["output"]
    digest = hashlib.sha256(output).hexdigest()
    if len(output) != promised["size"] or digest != promised["sha256"]:
        raise DigestMismatch(
            f"The output in {path} does not match its recorded size and digest. Run the command "
            "again."
        )
    return spooled["key"], payload | {"spooled": True}, output


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a member occurs twice")
    return made


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
