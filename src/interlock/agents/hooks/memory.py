"""What hooks of one session remember between two calls, beside the log: hints, and nothing else."""

import fcntl
import json
import os
from contextlib import suppress
from typing import NamedTuple

from interlock.verbs.addresses import filename

# No session's: a name there has no dot.
DOOR = ".door"


class Memo(NamedTuple):
    """How often in a row the agent was kept from stopping, whether it has forgotten since who it
    is, and what it is still to be told, which its client took no words for at the time."""

    held: int = 0
    forgot: bool = False
    owed: str = ""


class Memory:
    """The memory of one session, in the directory of its workspace."""

    def __init__(self, home: str, session: str | None) -> None:
        self._home, self._name = home, filename(session or "alone")

    def recall(self) -> Memo:
        try:
            with open(self._path("memos"), encoding="utf-8") as file:
                held, forgot, owed = Memo(*json.load(file))
            return Memo(int(held), bool(forgot), str(owed))
        except (OSError, ValueError, TypeError):
            return Memo()

    def keep(self, memo: Memo) -> None:
        path = self._path("memos")
        with suppress(OSError):
            if memo == Memo():
                os.unlink(path)
                return
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                json.dump(memo, file)

    def is_only_waiter(self) -> bool:
        """Whether nobody else waits for this session; so for as long as this process lives."""
        path = self._path("waiting")
        directory = os.path.dirname(path)
        os.makedirs(directory, 0o700, exist_ok=True)
        # One at a time: else somebody might take a file that another is just forgetting.
        door = _opened(os.path.join(directory, DOOR))
        try:
            fcntl.flock(door, fcntl.LOCK_EX)
            if not os.path.exists(path):
                _forget_left(directory)
            return _locked(path) is not None
        finally:
            os.close(door)

    def _path(self, kind: str) -> str:
        return os.path.join(self._home, "windows", kind, self._name)


def _forget_left(directory: str) -> None:
    """Forgets the sessions for which nobody waits any more."""
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        with suppress(OSError):
            if name != DOOR and (handle := _locked(path)) is not None:
                os.close(handle)
                os.unlink(path)


def _locked(path: str) -> int | None:
    """The file, locked for as long as it is open; None where somebody else has it."""
    handle = _opened(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def _opened(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
