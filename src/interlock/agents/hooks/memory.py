"""The memory of the hooks of one session, outside of the log. Losing it does no harm."""

import fcntl
import json
import os
from contextlib import suppress

from interlock.verbs.addresses import filename
from interlock.verbs.record import Record

# No session has this name: names of sessions do not begin with a dot.
DOOR = ".door"


class Memo(Record):
    """How often in a row the agent was kept from stopping, whether it has forgotten who it is, and
    the lines that its client could not take yet."""

    held: int = 0
    forgot: bool = False
    owed: str = ""


class Memory:
    """The memory of one session, in the directory of its workspace."""

    def __init__(self, home: str, session: str | None) -> None:
        name = filename(session or "alone")
        self._memo = os.path.join(home, "windows", "memos", name)
        self._waiting = os.path.join(home, "windows", "waiting", name)

    def recall(self) -> Memo:
        try:
            with open(self._memo, encoding="utf-8") as file:
                memo = Memo(*json.load(file))
            return Memo(int(memo.held), bool(memo.forgot), str(memo.owed))
        except (OSError, ValueError, TypeError):
            return Memo()

    def keep(self, memo: Memo) -> None:
        with suppress(OSError):
            if memo == Memo():
                os.unlink(self._memo)
                return
            os.makedirs(os.path.dirname(self._memo), 0o700, exist_ok=True)
            with open(self._memo, "w", encoding="utf-8") as file:
                json.dump([memo.held, memo.forgot, memo.owed], file)

    def is_only_waiter(self) -> bool:
        """Whether no other process waits for this session. If so, this process is the waiter until
        it ends."""
        directory = os.path.dirname(self._waiting)
        os.makedirs(directory, 0o700, exist_ok=True)
        # Under a lock, so that no process locks a file that another is about to delete.
        door = _opened(os.path.join(directory, DOOR))
        try:
            fcntl.flock(door, fcntl.LOCK_EX)
            if not os.path.exists(self._waiting):
                # Delete the files of sessions without a waiter.
                for name in os.listdir(directory):
                    path = os.path.join(directory, name)
                    with suppress(OSError):
                        if name != DOOR and (handle := _locked(path)) is not None:
                            os.close(handle)
                            os.unlink(path)
            return _locked(self._waiting) is not None
        finally:
            os.close(door)


def _locked(path: str) -> int | None:
    """Open the file and lock it until it is closed; None if another process has locked it."""
    handle = _opened(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def _opened(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
