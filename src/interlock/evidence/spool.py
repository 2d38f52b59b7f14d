"""A run in a file: for a shell that reaches neither workspace nor server, until somebody who does
hands it over. The file is one JSON object with the payload and the output in base64. Its name says
in which client's session it was run, where the client tells its shell, so that a hook of the same
session can hand it over."""

import base64
import binascii
import hashlib
import json
import os
import stat
import tempfile
from typing import Any, BinaryIO, Final, NoReturn

from interlock.contracts.addresses import filename
from interlock.errors import DigestMismatch, TooLarge, Usage

FORM: Final = "interlock-run-1"
# By these a client tells what it starts in which session that is.
SESSIONS: Final = ("INTERLOCK_SESSION", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID")
MEMBERS: Final = {"form", "payload", "output"}
MOST_OUTPUT: Final = 65 << 20
MOST_PAYLOAD: Final = 4 << 20
_BLOCK: Final = 3 << 18  # a multiple of three, so that the blocks of base64 join


def write(payload: dict[str, Any], output: str, directory: str | None = None) -> str:
    """The path of a new file that holds the run; `output` is the path of what is to be stored.
    Nobody else may read it, and it appears whole or not at all. Raises TooLarge and Usage."""
    if os.path.getsize(output) > MOST_OUTPUT:
        raise TooLarge(
            f"The output is larger than the {MOST_OUTPUT} bytes that a spool file may hold. Run "
            "it again with a smaller output limit."
        )
    directory = directory or tempfile.gettempdir()
    try:
        descriptor, part = tempfile.mkstemp(".part", _prefix(_session()), directory)
        try:
            with os.fdopen(descriptor, "wb") as file, open(output, "rb") as source:
                _fill(file, payload, source)
                file.flush()
                os.fsync(file.fileno())
            path = part.removesuffix(".part") + ".json"
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
    found = [os.path.join(directory, name) for name in names if name.endswith(".json")]
    return sorted(found, key=lambda path: (os.path.getmtime(path), path))


def _session() -> str | None:
    return next(filter(None, map(os.environ.get, SESSIONS)), None)


def _prefix(session: str | None) -> str:
    return f"interlock-run-{filename(session)}-" if session is not None else "interlock-run-"


def _fill(file: BinaryIO, payload: dict[str, Any], source: BinaryIO) -> None:
    head = json.dumps({"form": FORM, "payload": payload}, ensure_ascii=False)
    file.write(head.removesuffix("}").encode() + b', "output": "')
    while block := source.read(_BLOCK):
        file.write(base64.b64encode(block))
    file.write(b'"}\n')


def read(path: str) -> tuple[dict[str, Any], bytes]:
    """The payload, marked as spooled, and the output. Raises Usage, TooLarge, InvalidMessage or
    DigestMismatch; whatever the file holds, nothing else."""
    from interlock.contracts.messages import check

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
    return payload | {"spooled": True}, output


def _contents(path: str) -> bytes:
    most = MOST_OUTPUT * 4 // 3 + MOST_PAYLOAD
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
        raise Usage(
            f"{path} cannot be read: {why}. Name the file that evidence run wrote."
        ) from None


def _parsed(contents: bytes, path: str) -> dict[str, Any]:
    try:
        spooled = json.loads(contents, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        spooled = None
    if not isinstance(spooled, dict) or spooled.get("form") != FORM or set(spooled) != MEMBERS:
        raise Usage(f"{path} is no spool file of a run, or only a part of one. Run it again.")
    return spooled


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
