"""The memory of hooks between two calls, and the single process that waits for a session."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interlock.agents.hooks import LOCK, Memo, Memory

LIMIT_S = 30.0
WAITING = """
import sys
from interlock.agents.hooks import Memory
print(Memory(*sys.argv[1:]).is_only_waiter(), flush=True)
sys.stdin.read()
"""


@contextmanager
def waiter(home: Path, session: str) -> Iterator[bool]:
    """Start a process that waits for a session until the test kills it. Yield whether it is the
    only waiter."""
    words = [sys.executable, "-c", WAITING, str(home), session]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        yield child.stdout.readline() == "True\n"
        child.kill()
        child.wait(LIMIT_S)


def known(home: Path) -> set[str]:
    return {path.name for path in (home / "windows" / "waiting").iterdir()} - {LOCK}


def test_only_one_process_waits_for_a_session(tmp_path: Path) -> None:
    with waiter(tmp_path, "s-1") as first:
        assert first
        for session, is_alone in (("s-1", False), ("s-2", True), ("s-1", False)):
            with waiter(tmp_path, session) as another:
                assert another is is_alone
    assert Memory(str(tmp_path), "s-1").is_only_waiter()


def test_files_of_sessions_without_a_waiter_are_deleted(tmp_path: Path) -> None:
    for session in ("s-1", "s-2", "s-3"):
        with waiter(tmp_path, session) as alone:
            assert alone
    assert known(tmp_path) == {"s-3"}, "each waiter deletes the files of ended waiters"
    with waiter(tmp_path, "s-4"), waiter(tmp_path, "s-5"):
        assert known(tmp_path) == {"s-4", "s-5"}, "both sessions have a waiter"


def test_a_session_whose_file_was_deleted_can_get_a_waiter_again(tmp_path: Path) -> None:
    for session in ("s-1", "s-2"):
        with waiter(tmp_path, session):
            pass
    with waiter(tmp_path, "s-1") as alone, waiter(tmp_path, "s-1") as another:
        assert (alone, another) == (True, False)


@pytest.mark.parametrize("damaged", ["", "[0, false]", '[0, false, 7, "x"]', '{"held": 1}', "7"])
def test_a_damaged_memory_counts_as_empty(tmp_path: Path, damaged: str) -> None:
    memory = Memory(str(tmp_path), "s-1")
    memory.keep(Memo(owed="a warning"))
    (path,) = (tmp_path / "windows" / "memos").iterdir()
    path.write_text(damaged)
    assert memory.recall() == Memo()
