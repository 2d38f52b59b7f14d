"""Running a program that is to wake somebody, for as long as it may take and no longer."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress

from interlock.plugins import InDoubt, NotWoken
from interlock.verbs.spelling import shown

LIMIT_S = 20.0


def run(
    command: Sequence[str],
    told: bytes = b"",
    more: Mapping[str, str] | None = None,
    limit_s: float = LIMIT_S,
) -> None:
    """Returns when it has ended well. It is given `told` on standard input, and `more` in its
    environment. One that does not end in time is killed, with what it started; what it has done
    by then nobody knows."""
    # A file and no pipe: what the program leaves running may keep a pipe open.
    with tempfile.TemporaryFile() as output:
        try:
            child = subprocess.Popen(  # noqa: S603 - the owner's own choice, no shell
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | (more or {}),
                process_group=0,
            )
        except (OSError, ValueError) as trouble:
            raise NotWoken(f"{shown(command[0])} cannot be run: {trouble}") from None
        with child:
            try:
                child.communicate(told, timeout=limit_s)
            except subprocess.TimeoutExpired:
                raise InDoubt(f"{shown(command[0])} did not end in {limit_s:g} s.") from None
            finally:
                if child.returncode is None:
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(child.pid, signal.SIGKILL)
        if child.returncode != 0:
            output.seek(0, os.SEEK_SET)
            raise NotWoken(_failure(command[0], child.returncode, output.read(64 << 10)))


def _failure(program: str, status: int, output: bytes) -> str:
    lines = output.decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"{shown(program)} ended with {status}" + (f": {shown(last)}" if last else ".")
