"""A run in a file, written by a shell that reaches neither workspace nor server, until a process
hands it over. The file is one JSON object: the payload, the output in base64, and the key under
which the run is recorded once. The file's name contains the session of the client, where the client
tells its shell, so that a hook of the same session can hand the run over."""

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
# In these variables a client tells its shell the session.
SESSIONS: Final = ("INTERLOCK_SESSION", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID")
# Hooks hand over the first; the user who ran the command hands over the second.
WAITING: Final = ".json"
REFUSED: Final = ".json.refused"
MEMBERS: Final = {"form", "key", "payload", "output"}
MAX_OUTPUT_BYTES: Final = 65 << 20
MAX_PAYLOAD_BYTES: Final = 4 << 20
_KEY: Final = re.compile("run-[0-9a-f]{32}")
_BLOCK: Final = 3 << 18  # a multiple of three, so that the blocks of base64 join


def new_key() -> str:
    """A key under which a run is recorded once, even if it is handed over more than once."""
    return f"run-{os.urandom(16).hex()}"


def write(
    payload: dict[str, Any],
    output: str,
    key: str,
    directory: str | None = None,
    *,
    ending: str = WAITING,
) -> str:
    """Writes the run to a new file and returns its path; `output` is the path of the output. Only
    its owner may read the file, and it appears whole or not at all. Raises TooLarge and Usage."""
    if os.path.getsize(output) > MAX_OUTPUT_BYTES:
        raise TooLarge(
            f"The output is larger than {MAX_OUTPUT_BYTES} bytes, the limit of a spool file. Run "
            "it again with a smaller output limit."
        )
    directory = directory or tempfile.gettempdir()
    session = next(filter(None, map(os.environ.get, SESSIONS)), None)
    head = json.dumps({"form": FORM, "key": key, "payload": payload}, ensure_ascii=False)
    try:
        descriptor, part = tempfile.mkstemp(".part", _prefix(session), directory)
        try:
            with os.fdopen(descriptor, "wb") as file, open(output, "rb") as source:
                # By blocks: a large output does not fit into the memory of every machine.
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
            f"The run cannot be written to {directory}: {trouble.strerror}. Name a directory that "
            "can be written to."
        ) from None
    return path


def waiting(session: str) -> list[str]:
    """The runs of this session that wait in the default directory, oldest first."""
    directory = tempfile.gettempdir()
    try:
        names = [name for name in os.listdir(directory) if name.startswith(_prefix(session))]
    except OSError:
        return []
    found = []
    for name in names:
        path = os.path.join(directory, name)
        with suppress(FileNotFoundError):  # another hook has handed it over meanwhile
            found += [(os.lstat(path).st_mtime_ns, path)] if name.endswith(WAITING) else []
    return [path for _, path in sorted(found)]


def _prefix(session: str | None) -> str:
    return f"interlock-run-{filename(session)}-" if session is not None else "interlock-run-"


@contextmanager
def in_hand(path: str) -> Iterator[bool]:
    """Whether this process alone may hand the run over within the block, and no other has done so.
    The lock ends with the process."""
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
    """The key, the payload and the output of the run in a file. The payload is marked as spooled.
    Raises only Usage, TooLarge, InvalidMessage or DigestMismatch, whatever the file contains."""
    from interlock.rooms.mail.payloads import check

    most = MAX_OUTPUT_BYTES * 4 // 3 + MAX_PAYLOAD_BYTES
    try:
        # Do not wait for a pipe or a device.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise Usage(f"{path} is not a file. Name the one that evidence run wrote.")
            if status.st_size > most:
                raise TooLarge(f"{path} is larger than any spool file: {status.st_size} bytes.")
            contents = file.read(most + 1)
    except (OSError, ValueError) as trouble:
        why = getattr(trouble, "strerror", None) or "that is no path"
        gone = " Once a hook has handed it over, it is gone, and the run is recorded."
        raise Usage(
            f"{path} cannot be read: {why}. Name the file that evidence run wrote."
            + (gone if isinstance(trouble, FileNotFoundError) else "")
        ) from None
    try:
        spooled = json.loads(contents, object_pairs_hook=_object, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        spooled = None
    is_run = isinstance(spooled, dict) and set(spooled) == MEMBERS and spooled["form"] == FORM
    if not is_run or not isinstance(spooled["key"], str) or not _KEY.fullmatch(spooled["key"]):
        raise Usage(f"{path} is no spool file of a run, or only a part of one. Run it again.")
    payload = check("evidence", spooled["payload"])
    if payload["kind"] != "run":
        raise Usage(f"{path} holds no run. Evidence of other kinds is added with evidence add.")
    try:
        output = base64.b64decode(spooled["output"], validate=True)
    except (ValueError, TypeError):
        raise Usage(f"The output in {path} is not base64. Run it again.") from None
    promised = payload["output"]
    digest = hashlib.sha256(output).hexdigest()
    if len(output) != promised["size"] or digest != promised["sha256"]:
        raise DigestMismatch(
            f"The output in {path} is not the one that was recorded. Run it again."
        )
    return spooled["key"], payload | {"spooled": True}, output


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a member is given twice")
    return made


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
