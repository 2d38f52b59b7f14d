"""Waking by a program: Codex's own command, and the owner's command."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from interlock.agents.codex.wake import Codex
from interlock.agents.wake.command import Command
from interlock.plugins import InDoubt, NotWoken, Pointer, Window

THREAD = "0199a213-81c0-7800-8aa1-bbab2a035a53"
POINTER = Pointer("Interlock: 2 messages from @vera are waiting.", 2, ("m1", "m2"))


def window(ways: dict[str, dict[str, str]] | None = None, sender: str = "otto-cli") -> Window:
    return Window(sender, "s1", "codex", 7, ways or {})


def program(path: Path, text: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!{sys.executable}\nimport json, os, subprocess, sys, time\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def codex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake codex that writes its arguments to the file `called`. It fails if the file `refuse`
    exists."""
    program(
        tmp_path / "bin" / "codex",
        f"open({str(tmp_path / 'called')!r}, 'a').write(json.dumps(sys.argv[1:]) + '\\n')\n"
        f"if os.path.exists({str(tmp_path / 'refuse')!r}): sys.exit('no such thread')",
    )
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def test_codex_gets_the_pointer_for_its_thread(codex: Path) -> None:
    with pytest.raises(InDoubt):
        Codex().wake(window({"codex": {"thread": THREAD}}), POINTER)
    (called,) = (codex / "called").read_text().splitlines()
    line = "--message=Interlock: 2 messages from vera are waiting."
    assert json.loads(called) == ["queue", f"--thread={THREAD}", line]


def test_a_failure_of_codex_raises_not_woken(codex: Path) -> None:
    (codex / "refuse").touch()
    with pytest.raises(NotWoken, match="ended with status 1: no such thread"):
        Codex().wake(window({"codex": {"thread": THREAD}}), POINTER)


def test_a_missing_codex_raises_not_woken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotWoken, match="codex is not on the server's PATH"):
        Codex().wake(window({"codex": {"thread": THREAD}}), POINTER)


@pytest.mark.parametrize("way", [{}, {"thread": ""}, {"thread": "--last"}, {"thread": "a b"}])
def test_an_invalid_thread_is_not_tried(codex: Path, way: dict[str, str]) -> None:
    assert not Codex().can_wake(window({"codex": way}))
    with pytest.raises(NotWoken, match="no Codex thread"):
        Codex().wake(window({"codex": way}), POINTER)
    assert not (codex / "called").exists()


def test_a_command_gets_the_pointer_on_its_input_and_in_its_environment(tmp_path: Path) -> None:
    got = tmp_path / "got"
    command = program(
        tmp_path / "tell",
        "told = json.load(sys.stdin)\n"
        "there = {k: v for k, v in os.environ.items() if k.startswith('INTERLOCK_WAKE_')}\n"
        f"json.dump([sys.argv[1:], told, there], open({str(got)!r}, 'w'))",
    )
    Command({"*": (command, "$(touch pwned)", "a b")}).wake(window(), POINTER)
    words, told, there = json.loads(got.read_text())
    assert words == ["$(touch pwned)", "a b"]
    assert told == {
        "sender": "otto-cli",
        "session": "s1",
        "client": "codex",
        "text": POINTER.text,
        "count": 2,
        "ids": ["m1", "m2"],
    }
    assert there == {
        "INTERLOCK_WAKE_SENDER": "otto-cli",
        "INTERLOCK_WAKE_COUNT": "2",
        "INTERLOCK_WAKE_TEXT": POINTER.text,
    }


def test_a_senders_own_command_overrides_the_command_for_all(tmp_path: Path) -> None:
    ran = {name: tmp_path / name for name in ("otto-cli", "*")}
    commands = {
        name: (program(tmp_path / f"tell{at}", f"open({str(path)!r}, 'w')"),)
        for at, (name, path) in enumerate(ran.items())
    }
    Command(commands).wake(window(), POINTER)
    assert [path.exists() for path in ran.values()] == [True, False]
    Command(commands).wake(window(sender="vera"), POINTER)
    assert [path.exists() for path in ran.values()] == [True, True]


def test_a_sender_without_a_command_cannot_be_woken() -> None:
    adapter = Command({"vera": ("true",)})
    assert adapter.can_wake(window(sender="vera"))
    assert not adapter.can_wake(window())
    with pytest.raises(NotWoken, match="no command for otto-cli"):
        adapter.wake(window(), POINTER)


def test_a_failing_or_missing_command_raises_not_woken(tmp_path: Path) -> None:
    failing = program(tmp_path / "tell", "print('first\\nno screen\\n'); sys.exit(3)")
    with pytest.raises(NotWoken, match="ended with status 3: no screen"):
        Command({"*": (failing,)}).wake(window(), POINTER)
    with pytest.raises(NotWoken, match="cannot be run"):
        Command({"*": (str(tmp_path / "missing"),)}).wake(window(), POINTER)


def test_a_command_need_not_read_its_input(tmp_path: Path) -> None:
    Command({"*": (program(tmp_path / "tell", "os.close(0)"),)}).wake(window(), POINTER)


def test_a_command_may_leave_a_process_running(tmp_path: Path) -> None:
    """The adapter must not wait for the end of the output, which that process keeps open."""
    pid = tmp_path / "pid"
    leaving = program(
        tmp_path / "tell",
        "left = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(pid)!r}, 'w').write(str(left.pid))\n"
        "left.returncode = 0",
    )
    Command({"*": (leaving,)}).wake(window(), POINTER)
    left = int(pid.read_text())
    assert is_running(left)
    os.kill(left, 9)


def test_a_command_that_does_not_end_is_killed_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    hanging = program(
        tmp_path / "tell",
        "left = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(pids)!r} + '.part', 'w').write(f'{{os.getpid()}} {{left.pid}}')\n"
        f"os.rename({str(pids)!r} + '.part', {str(pids)!r})\n"
        "time.sleep(600)",
    )
    with pytest.raises(InDoubt, match="did not end within 5 s"):
        Command({"*": (hanging,)}, limit_s=5.0).wake(window(), POINTER)
    for pid in map(int, pids.read_text().split()):
        deadline = time.monotonic() + 30
        while is_running(pid):
            assert time.monotonic() < deadline, f"{pid} still runs"
            time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Return whether a process runs. A zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return not os.path.isdir("/proc/self")
    return status.rpartition(")")[2].split()[0] != "Z"
