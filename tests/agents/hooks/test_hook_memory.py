"""What hooks remember between two calls, and who waits for a session. Who waits is a process."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interlock.agents.hooks import DOOR, Memo, Memory

LIMIT_S = 30.0
WAITING = """
import sys
from interlock.agents.hooks import Memory
print(Memory(*sys.argv[1:]).is_only_waiter(), flush=True)
sys.stdin.read()
"""


@contextmanager
def waiter(home: Path, session: str) -> Iterator[bool]:
    """A process that waits for a session until it is killed, and whether it does so alone."""
    words = [sys.executable, "-c", WAITING, str(home), session]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        yield child.stdout.readline() == "True\n"
        child.kill()
        child.wait(LIMIT_S)


def known(home: Path) -> set[str]:
    return {path.name for path in (home / "windows" / "waiting").iterdir()} - {DOOR}


def test_one_waits_for_a_session_at_a_time(tmp_path: Path) -> None:
    with waiter(tmp_path, "s-1") as first:
        assert first
        for session, is_alone in (("s-1", False), ("s-2", True), ("s-1", False)):
            with waiter(tmp_path, session) as another:
                assert another is is_alone
    assert Memory(str(tmp_path), "s-1").is_only_waiter()


def test_sessions_for_which_nobody_waits_any_more_are_forgotten(tmp_path: Path) -> None:
    for session in ("s-1", "s-2", "s-3"):
        with waiter(tmp_path, session) as alone:
            assert alone
    assert known(tmp_path) == {"s-3"}, "each forgot those before it"
    with waiter(tmp_path, "s-4"), waiter(tmp_path, "s-5"):
        assert known(tmp_path) == {"s-4", "s-5"}, "somebody waits for both"


def test_a_session_that_was_forgotten_is_waited_for_again(tmp_path: Path) -> None:
    for session in ("s-1", "s-2"):
        with waiter(tmp_path, session):
            pass
    with waiter(tmp_path, "s-1") as alone, waiter(tmp_path, "s-1") as another:
        assert (alone, another) == (True, False)


@pytest.mark.parametrize("damaged", ["", "[0, false]", '[0, false, 7, "x"]', '{"held": 1}', "7"])
def test_a_damaged_memory_is_an_empty_one(tmp_path: Path, damaged: str) -> None:
    memory = Memory(str(tmp_path), "s-1")
    memory.keep(Memo(owed="a warning"))
    (path,) = (tmp_path / "windows" / "memos").iterdir()
    path.write_text(damaged)
    assert memory.recall() == Memo()
