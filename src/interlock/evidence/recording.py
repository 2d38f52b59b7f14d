"""`evidence run`: a command is run, and what came of it is made ready to be recorded."""

import hashlib
import os
import resource
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, BinaryIO, Final, Self

from interlock.errors import Usage
from interlock.evidence.copying import Live
from interlock.evidence.counting import counts
from interlock.evidence.keeping import Keeper
from interlock.evidence.running import Ended, Limits, run
from interlock.evidence.standing import Standing, standing, unchanged
from interlock.evidence.transcript import Transcript
from interlock.rooms.work.secrets import masked_words

CANNOT_EXECUTE: Final = 126
NOT_FOUND: Final = 127
OUT_OF_TIME: Final = 124
# What the contract of evidence takes as a list of words; beyond, the command is one line.
MAX_WORDS: Final = 4096
MAX_WORD_LENGTH: Final = 131_072


class NotStarted(Exception):
    """The command could not be started, so there is nothing to record. Says why, in words for a
    person, and with which status to exit."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Recorded:
    """What came of a run: the payload of its evidence, the file with the output to be stored,
    and the status to exit with; `unstarted` says why nothing ran, where nothing did. Closing it
    removes the file."""

    def __init__(
        self, payload: dict[str, Any], output: str, exit_status: int, unstarted: str | None = None
    ) -> None:
        self.payload = payload
        self.output = output
        self.exit_status = exit_status
        self.unstarted = unstarted

    def close(self) -> None:
        shutil.rmtree(os.path.dirname(self.output), ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def record(
    command: Sequence[str],
    limits: Limits | None = None,
    *,
    out: BinaryIO,
    err: BinaryIO,
    unstarted_too: bool = False,
) -> Recorded:
    """Runs the command in the current directory, with its output live on `out` and `err`.

    Returns when the command has ended and nothing that it started is left. Signals sent to us
    meanwhile go on to it, if this is the main thread. Raises Usage for what cannot be asked for,
    and NotStarted when there is no such command; then nothing has run. With `unstarted_too` that is
    recorded as a shell would have it: a status, and why as the output.
    """
    limits = limits or Limits()
    _check(command, limits)
    here = _here()
    before = standing(here)
    with _keeping():
        folder = tempfile.mkdtemp(prefix="interlock-run-")
    output = os.path.join(folder, "output")
    try:
        with _keeping():
            keeper = Keeper(output, limits.output_bytes)
        with closing(keeper):
            transcript = Transcript(keeper)
            unstarted = None
            try:
                ended = _run(command, limits, out, err, transcript)
            except NotStarted as trouble:
                if not unstarted_too:
                    raise
                unstarted = str(trouble)
                Live(err).write(f"{unstarted}\n".encode())
                transcript.add(1, f"{unstarted}\n".encode())
                ended = Ended(trouble.status, None, False, 0, [])
            with _keeping():
                cut = transcript.finish()
        if ended.left:
            Live(err).write(f"interlock: processes that do not end: {ended.left}\n".encode())
        payload = _payload(command, here, before, ended, transcript, output, cut=cut)
        return Recorded(payload, output, _exit_status(ended), unstarted)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


@contextmanager
def _keeping() -> Iterator[None]:
    """Within it, what is written to a file of ours: where that fails, nothing can be recorded."""
    try:
        yield
    except OSError as trouble:
        raise Usage(
            f"What the command writes cannot be kept: {trouble.strerror}. Make room for temporary "
            "files, or name another directory for them in TMPDIR."
        ) from None


def _check(command: Sequence[str], limits: Limits) -> None:
    if not command or not command[0]:
        raise Usage("Say what to run: interlock evidence run -- COMMAND...")
    if any("\0" in word for word in command):
        raise Usage("No word of a command can hold a NUL character.")
    if limits.time_s is not None and limits.time_s <= 0:
        raise Usage("A time limit is more than nothing, for example 10m.")
    if limits.output_bytes < 0:
        raise Usage("An output limit is a number of bytes.")
    if limits.memory_bytes is not None:
        _check_memory(limits.memory_bytes)


def _check_memory(wanted: int) -> None:
    if not sys.platform.startswith("linux"):
        raise Usage("This system cannot limit the memory of a process. Leave out --memory-limit.")
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    if wanted < 1024 or (most != resource.RLIM_INFINITY and wanted > most):
        raise Usage(f"A memory limit is at least 1024 bytes, and here at most {most}.")


def _here() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise Usage("The directory that you stand in is gone. Stand in another.") from None


def _run(
    command: Sequence[str], limits: Limits, out: BinaryIO, err: BinaryIO, transcript: Transcript
) -> Ended:
    def keep(stream: int, data: bytes) -> None:
        with _keeping():
            transcript.add(stream, data)

    try:
        return run(command, limits, out, err, keep)
    except FileNotFoundError:
        raise NotStarted(f"{command[0]}: there is no such command", NOT_FOUND) from None
    except OSError as trouble:
        raise NotStarted(f"{command[0]}: {trouble.strerror}", CANNOT_EXECUTE) from None


def _exit_status(ended: Ended) -> int:
    if ended.told is not None:
        return 128 + ended.told
    status = _exit_code(ended)
    # A command that ended well because its time was over has not done what it was to do.
    return status or OUT_OF_TIME if ended.out_of_time else status


def _exit_code(ended: Ended) -> int:
    return 128 - ended.status if ended.status < 0 else ended.status


def _payload(
    command: Sequence[str],
    here: str,
    before: Standing | None,
    ended: Ended,
    transcript: Transcript,
    output: str,
    *,
    cut: bool,
) -> dict[str, Any]:
    words, masked = masked_words(command)
    if len(words) <= MAX_WORDS and all(len(word) <= MAX_WORD_LENGTH for word in words):
        shown: list[str] | str = words
    else:
        shown = shlex.join(words)
    masked += transcript.masked
    members = {
        "kind": "run",
        "command": shown,
        "cwd": _cwd(here, before),
        "exit_code": _exit_code(ended),
        "duration_ms": ended.duration_ms,
        "commit": before and before.commit,
        "tree": before and before.tree,
        "dirty": before and (before.dirty or not unchanged(before)),
        "output": {"sha256": _digest(output), "size": os.path.getsize(output)},
        "produced": transcript.produced if cut else None,
        "masked": masked or None,
        "tests": counts(output, whole=not cut),
        "ended_by": _ended_by(ended),
        "interrupted": True if ended.told is not None or ended.out_of_time else None,
    }
    return {name: value for name, value in members.items() if value is not None}


def _ended_by(ended: Ended) -> str | None:
    if ended.out_of_time:
        return "time limit"
    return "signal" if ended.status < 0 else None


def _cwd(here: str, before: Standing | None) -> str:
    """Relative to the repository, or else the directory's own name: where on a machine things
    lie is nobody else's business."""
    if before:
        place = os.path.relpath(os.path.realpath(here), os.path.realpath(before.root))
    else:
        place = os.path.basename(here) or here
    return os.fsencode(place).decode("utf-8", "replace")


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
