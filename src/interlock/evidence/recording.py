"""Run a command for `evidence run`, and make the payload of its evidence."""

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
from interlock.evidence.counting import counts
from interlock.evidence.output import Keeper, Live, Transcript
from interlock.evidence.running import CommandEnd, Limits, run
from interlock.evidence.standing import Standing, standing, unchanged
from interlock.rooms.work.secrets import masked_words

CANNOT_EXECUTE: Final = 126
NOT_FOUND: Final = 127
OUT_OF_TIME: Final = 124
# The limits of a list of words in evidence. A longer command is stored as one line.
MAX_WORDS: Final = 4096
MAX_WORD_LENGTH: Final = 131_072


class NotStarted(Exception):
    """The command could not start, so there is no run to record. The message is the reason, for
    people. `status` is the exit status for the caller."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Recorded:
    """The result of a run: the payload of its evidence, the file with the output to store, and the
    exit status for the caller. `unstarted` is the reason if the command could not start. Closing
    the result deletes the file."""

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
    """Run the command in the current directory, with its output live on `out` and `err`.

    Return when the command and all processes that it started have ended. In the main thread,
    forward signals to the command. Raise Usage for wrong arguments, and NotStarted if the command
    cannot start. With `unstarted_too`, return a record instead, like that of a shell: an exit
    status, and the reason as the output.
    """
    limits = limits or Limits()
    _check(command, limits)
    try:
        here = os.getcwd()
    except FileNotFoundError:
        raise Usage(
            "The current directory no longer exists. Change to another directory."
        ) from None
    before = standing(here)
    with _writing():
        folder = tempfile.mkdtemp(prefix="interlock-run-")
    output = os.path.join(folder, "output")
    try:
        with _writing():
            keeper = Keeper(output, limits.output_bytes)
        with closing(keeper):
            transcript = Transcript(keeper)

            def keep(stream: int, data: bytes) -> None:
                with _writing():
                    transcript.add(stream, data)

            unstarted = None
            try:
                ended = run(command, limits, out, err, keep)
            except OSError as error:
                is_missing = isinstance(error, FileNotFoundError)
                why = "command not found" if is_missing else error.strerror
                status = NOT_FOUND if is_missing else CANNOT_EXECUTE
                unstarted = f"{command[0]}: {why}"
                if not unstarted_too:
                    raise NotStarted(unstarted, status) from None
                Live(err).write(f"{unstarted}\n".encode())
                transcript.add(1, f"{unstarted}\n".encode())
                ended = CommandEnd(status, None, False, 0, [])
            with _writing():
                cut = transcript.finish()
        if ended.left:
            Live(err).write(f"interlock: cannot end these processes: {ended.left}\n".encode())
        payload = _payload(command, here, before, ended, transcript, output, cut=cut)
        exit_status = payload["exit_code"]
        if ended.received is not None:
            exit_status = 128 + ended.received
        elif ended.out_of_time:
            # A command that exits with 0 because of its time limit has not finished its work.
            exit_status = exit_status or OUT_OF_TIME
        return Recorded(payload, output, exit_status, unstarted)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


@contextmanager
def _writing() -> Iterator[None]:
    """Raise Usage if code in the block cannot write the temporary file."""
    try:
        yield
    except OSError as error:
        raise Usage(
            f"Cannot store the output: {error.strerror}. Free space for temporary files, or set "
            "TMPDIR to another directory."
        ) from None


def _check(command: Sequence[str], limits: Limits) -> None:
    if not command or not command[0]:
        raise Usage("No command given. Name it: interlock evidence run -- COMMAND...")
    if any("\0" in word for word in command):
        raise Usage("A word of the command contains a NUL character. Remove it.")
    if limits.time_s is not None and limits.time_s <= 0:
        raise Usage("The time limit must be greater than 0, for example 10m.")
    if limits.output_bytes < 0:
        raise Usage("The output limit must not be negative.")
    if limits.memory_bytes is None:
        return
    if not sys.platform.startswith("linux"):
        raise Usage("This system cannot limit the memory of a process. Omit --memory-limit.")
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    is_bounded = most != resource.RLIM_INFINITY
    if limits.memory_bytes < 1024 or (is_bounded and limits.memory_bytes > most):
        bound = f", and at most {most} on this system" if is_bounded else ""
        raise Usage(f"The memory limit must be at least 1024 bytes{bound}.")


def _payload(
    command: Sequence[str],
    here: str,
    before: Standing | None,
    ended: CommandEnd,
    transcript: Transcript,
    output: str,
    *,
    cut: bool,
) -> dict[str, Any]:
    words, masked = masked_words(command)
    is_short = len(words) <= MAX_WORDS and all(len(word) <= MAX_WORD_LENGTH for word in words)
    # The path in the repository, or else the directory's name: evidence does not disclose the paths
    # of a machine.
    if before:
        place = os.path.relpath(os.path.realpath(here), os.path.realpath(before.root))
    else:
        place = os.path.basename(here) or here
    ended_by = "signal" if ended.status < 0 else None
    with open(output, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    members = {
        "kind": "run",
        "command": words if is_short else shlex.join(words),
        "cwd": os.fsencode(place).decode("utf-8", "replace"),
        "exit_code": 128 - ended.status if ended.status < 0 else ended.status,
        "duration_ms": ended.duration_ms,
        "commit": before and before.commit,
        "tree": before and before.tree,
        "dirty": before and (before.dirty or not unchanged(before)),
        "output": {"sha256": digest, "size": os.path.getsize(output)},
        "produced": transcript.produced if cut else None,
        "masked": masked + transcript.masked or None,
        "tests": counts(output, whole=not cut),
        "ended_by": "time limit" if ended.out_of_time else ended_by,
        "interrupted": True if ended.received is not None or ended.out_of_time else None,
    }
    return {name: value for name, value in members.items() if value is not None}
