"""Commands that misbehave: huge output, commands that do not end, and processes that they leave.

Each process of a run writes its id to a file. At the end, none of these processes may run.
"""

import contextlib
import hashlib
import io
import json
import os
import pty
import resource
import select
import shlex
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from interlock.evidence import Limits, record
from interlock.rooms.mail import payloads

LIMIT_S = 60.0
LINUX = sys.platform.startswith("linux")

pytestmark = pytest.mark.long

# Records a run in a separate process. The payload and the exit status go to a file.
PROGRAM = """
import json, re, resource, sys
from interlock.evidence import Limits, record

def memory():
    # getrusage includes the memory of the program that ran before exec.
    if sys.platform.startswith("linux"):
        with open("/proc/self/status") as file:
            return int(re.search(r"VmHWM:\\s*(\\d+)", file.read())[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

place, limits, command = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]
with record(command, Limits(**limits), out=sys.stdout.buffer, err=sys.stderr.buffer) as recorded:
    with open(recorded.output, "rb") as file:
        parts = [file.read(2000)]
        file.seek(max(0, recorded.payload["output"]["size"] - 2000))
        parts.append(file.read())
    told = {
        "payload": recorded.payload,
        "status": recorded.exit_status,
        "parts": [part.decode("latin-1") for part in parts],
        "memory": memory(),
    }
with open(place, "w") as file:
    json.dump(told, file)
sys.exit(recorded.exit_status)
"""


class RunDirectory:
    """A directory in which the processes of a run write their process ids."""

    def __init__(self, directory: os.PathLike[str]) -> None:
        self.pids = os.path.join(directory, "pids")
        self.told = os.path.join(directory, "told.json")

    @property
    def mark(self) -> str:
        """Return the shell command that writes the shell's process id to the file."""
        return f"echo $$ >> '{self.pids}'"

    def numbers(self) -> list[int]:
        with contextlib.suppress(FileNotFoundError), open(self.pids, encoding="utf-8") as file:
            return [int(line) for line in file.read().split("\n")[:-1]]
        return []

    def living(self) -> list[int]:
        return [pid for pid in self.numbers() if alive(pid)]

    def started(self, *command: str, **limits: Any) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, self.told, json.dumps(limits), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def outcome(self) -> dict[str, Any]:
        with open(self.told, encoding="utf-8") as file:
            told: dict[str, Any] = json.load(file)
        payloads.check("evidence", told["payload"])
        return told


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def eventually(condition: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "timeout while waiting for the condition"
        select.select([], [], [], 0.01)


@pytest.fixture
def directory(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[RunDirectory]:
    """The directory of a run, outside of a repository. Processes of a failed test are killed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", os.path.realpath(tmp_path))
    # A shell that starts the tests in the background can make them ignore these signals, and each
    # process of a run would inherit that.
    hang_up = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
    made = RunDirectory(tmp_path)
    yield made
    signal.signal(signal.SIGHUP, hang_up)
    signal.signal(signal.SIGINT, interrupt)
    for pid in made.living():  # only after a failure
        os.kill(pid, signal.SIGKILL)


def ran(script: str, limits: Limits) -> tuple[dict[str, Any], bytes, int]:
    with record(["sh", "-c", script], limits, out=io.BytesIO(), err=io.BytesIO()) as recorded:
        with open(recorded.output, "rb") as file:
            stored = file.read()
        return payloads.check("evidence", recorded.payload), stored, recorded.exit_status


QUICK = Limits(grace_s=0.3)


@pytest.mark.parametrize(
    "what", ["/dev/zero", pytest.param("/dev/urandom", marks=pytest.mark.long)]
)
def test_200_megabytes_without_line_ends_are_stored_up_to_the_limit_with_a_note(
    directory: RunDirectory, what: str
) -> None:
    size, limit = 200_000_000, 8 << 20
    child = directory.started("head", "-c", str(size), what, output_bytes=limit)
    shown, count = hashlib.sha256(), 0
    assert child.stdout is not None
    while data := child.stdout.read(1 << 20):
        shown.update(data)
        count += len(data)
    assert child.wait(LIMIT_S) == 0
    child.stdout.close()
    assert count == size
    if what == "/dev/zero":
        assert shown.hexdigest() == hashlib.sha256(bytes(size)).hexdigest()
    told = directory.outcome()
    line = f"\n[interlock: {size - limit} bytes are not stored]\n"
    assert told["payload"]["produced"] == size
    assert told["payload"]["output"]["size"] == limit + len(line)
    assert told["payload"]["exit_code"] == 0
    memory = told["memory"] if LINUX else told["memory"] // 1024
    assert memory < 150_000, "the memory in kilobytes is not bounded"


@pytest.mark.long
def test_200_megabytes_of_lines_keep_the_first_and_the_last(directory: RunDirectory) -> None:
    program = "import sys\nfor i in range(2_000_000):\n    sys.stdout.write('%099d\\n' % i)\n"
    child = directory.started(sys.executable, "-c", program)
    assert child.stdout is not None
    while child.stdout.read(1 << 20):
        pass
    assert child.wait(LIMIT_S) == 0
    child.stdout.close()
    told = directory.outcome()
    assert told["payload"]["produced"] == 200_000_000
    assert told["parts"][0].startswith(f"{0:099}\n")
    assert told["parts"][1].endswith(f"{1_999_999:099}\n")


def test_a_command_that_ignores_sigterm_is_killed_at_the_time_limit(
    directory: RunDirectory,
) -> None:
    script = f"trap '' TERM; {directory.mark}; echo begun; while :; do sleep 0.05; done"
    payload, stored, status = ran(script, Limits(time_s=3, grace_s=0.3))
    assert stored == b"begun\n"
    assert (payload["exit_code"], status) == (137, 137)
    assert (payload["ended_by"], payload["interrupted"]) == ("time limit", True)
    assert len(directory.numbers()) == 1
    assert directory.living() == []


def test_a_command_that_exits_with_0_at_its_time_limit_has_not_succeeded(
    directory: RunDirectory,
) -> None:
    script = f"trap 'echo cleaned; exit 0' TERM; {directory.mark}; while :; do sleep 0.05; done"
    payload, stored, status = ran(script, Limits(time_s=3))
    assert stored.endswith(b"cleaned\n")
    assert (payload["exit_code"], status) == (0, 124)
    assert (payload["ended_by"], payload["interrupted"]) == ("time limit", True)
    assert directory.living() == []


def test_remaining_children_are_ended_and_do_not_block_the_run(directory: RunDirectory) -> None:
    child = f"{directory.mark}; echo child; while :; do sleep 0.05; done"
    script = (
        f'for i in 1 2 3; do sh -c "{child.replace("$", chr(92) + "$")}" & done; '
        f"while [ \"$(wc -l < '{directory.pids}')\" != 3 ]; do sleep 0.01; done 2>/dev/null; exit 7"
    )
    payload, stored, status = ran(script, QUICK)
    assert (payload["exit_code"], status) == (7, 7)
    assert stored.count(b"child\n") == 3
    assert "ended_by" not in payload
    assert len(directory.numbers()) == 3
    assert directory.living() == []


DAEMON = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork():
    os.wait()
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    sys.exit(0)
os.setsid()
if os.fork():
    os._exit(0)
if sys.argv[2] == "silent":
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
part = sys.argv[1] + ".part"
with open(part, "a") as file:
    file.write(f"{os.getpid()}\\n")
os.rename(part, sys.argv[1])
time.sleep(1000)
"""


@pytest.mark.skipif(not LINUX, reason="only Linux can adopt such orphans")
@pytest.mark.parametrize("how", ["silent", "holding the pipe"])
def test_a_daemon_that_left_group_and_session_and_ignores_sigterm_is_ended(
    directory: RunDirectory, how: str
) -> None:
    command = [sys.executable, "-c", DAEMON, directory.pids, how]
    with record(command, QUICK, out=io.BytesIO(), err=io.BytesIO()) as recorded:
        assert recorded.exit_status == 0
    assert len(directory.numbers()) == 1
    assert directory.living() == []


@pytest.mark.skipif(not LINUX, reason="only Linux can adopt such orphans")
def test_a_child_process_from_before_the_run_is_not_ended(directory: RunDirectory) -> None:
    earlier = subprocess.Popen(["sleep", "1000"])
    try:
        payload, _, _ = ran("sleep 1000 & exit 0", QUICK)
        assert payload["exit_code"] == 0
        assert earlier.poll() is None
    finally:
        earlier.kill()
        earlier.wait(LIMIT_S)


@pytest.mark.skipif(not LINUX, reason="only Linux can adopt such orphans")
def test_no_zombie_remains_and_later_orphans_are_not_adopted(directory: RunDirectory) -> None:
    ran("for i in 1 2 3 4 5; do (sleep 0.01 &) ; done; sleep 0.2", QUICK)
    with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children", encoding="utf-8") as file:
        children = [int(pid) for pid in file.read().split()]
    for pid in children:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            assert file.read().rpartition(")")[2].split()[0] != "Z"
    # This process does not adopt an orphan after the run.
    subprocess.run(
        ["sh", "-c", f"sh -c '{directory.mark}; exec sleep 1000' & sleep 0.05"], check=True
    )
    eventually(directory.numbers)
    (orphan,) = directory.numbers()
    with open(f"/proc/{orphan}/stat", encoding="utf-8") as file:
        assert int(file.read().rpartition(")")[2].split()[1]) != os.getpid()


def until_shown(child: "subprocess.Popen[bytes]", text: bytes) -> None:
    """Wait until the run has shown this text."""
    assert child.stdout is not None
    seen = b""
    deadline = time.monotonic() + LIMIT_S
    while text not in seen:
        left = deadline - time.monotonic()
        assert select.select([child.stdout], [], [], max(0.0, left))[0], seen
        data = os.read(child.stdout.fileno(), 4096)
        assert data, seen
        seen += data


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_interlock_is_forwarded_to_the_command_and_recorded(
    directory: RunDirectory, number: signal.Signals
) -> None:
    name = number.name.removeprefix("SIG")
    trap = f"trap 'echo told; exit 5' {name}"
    script = f"{trap}; {directory.mark}; echo ready; while :; do sleep 0.05; done"
    child = directory.started("sh", "-c", script)
    until_shown(child, b"ready\n")
    child.send_signal(number)
    output, _ = child.communicate(timeout=LIMIT_S)
    assert b"told\n" in output
    assert child.returncode == 128 + number
    told = directory.outcome()
    assert told["payload"]["exit_code"] == 5
    assert told["payload"]["interrupted"] is True
    assert told["parts"][0].startswith("ready\n")
    assert told["parts"][0].endswith("told\n")
    assert directory.living() == []


def test_a_signal_reaches_the_children_of_the_command(directory: RunDirectory) -> None:
    """A shell handles a signal only after its current child has ended. The child ends here only if
    it gets the signal too."""
    waited_for = "sh -c 'echo ready; exec sleep 200'"
    script = f"trap 'exit 5' TERM; {directory.mark}; {waited_for}; exit 0"
    child = directory.started("sh", "-c", script)
    try:
        until_shown(child, b"ready\n")
        child.terminate()
        child.communicate(timeout=LIMIT_S)
    finally:
        child.kill()
    assert directory.outcome()["payload"]["exit_code"] == 5
    assert directory.living() == []


def test_a_command_that_a_forwarded_signal_ended_is_recorded_as_such(
    directory: RunDirectory,
) -> None:
    child = directory.started("sh", "-c", f"{directory.mark}; echo ready; exec sleep 1000")
    until_shown(child, b"ready\n")
    child.terminate()
    child.communicate(timeout=LIMIT_S)
    told = directory.outcome()
    assert told["status"] == child.returncode == 143
    assert told["payload"]["exit_code"] == 143
    assert (told["payload"]["ended_by"], told["payload"]["interrupted"]) == ("signal", True)
    assert directory.living() == []


def test_a_second_signal_kills_the_command(directory: RunDirectory) -> None:
    script = f"trap 'echo not yet' TERM; {directory.mark}; echo ready; while :; do sleep 0.05; done"
    child = directory.started("sh", "-c", script)
    until_shown(child, b"ready\n")
    child.terminate()
    until_shown(child, b"not yet\n")
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=LIMIT_S)
    told = directory.outcome()
    assert told["status"] == 143
    assert told["payload"]["exit_code"] == 137
    assert told["payload"]["interrupted"] is True
    assert directory.living() == []


def test_a_command_that_ignores_a_signal_is_killed_after_the_grace_time(
    directory: RunDirectory,
) -> None:
    script = f"trap 'echo not yet' TERM; {directory.mark}; echo ready; while :; do sleep 0.05; done"
    child = directory.started("sh", "-c", script, grace_s=1)
    until_shown(child, b"ready\n")
    child.terminate()
    child.communicate(timeout=LIMIT_S)
    told = directory.outcome()
    assert told["status"] == 143
    assert told["payload"]["interrupted"] is True
    assert directory.living() == []


@pytest.mark.skipif(not LINUX, reason="needs /proc")
def test_an_unrelated_process_that_keeps_the_pipe_open_does_not_block_the_run(
    directory: RunDirectory, tmp_path: os.PathLike[str]
) -> None:
    go = os.path.join(tmp_path, "go")
    script = f"{directory.mark}; echo first; while [ ! -e '{go}' ]; do sleep 0.05; done; echo last"
    child = directory.started("sh", "-c", script)
    until_shown(child, b"first\n")
    held = os.open(f"/proc/{directory.numbers()[0]}/fd/1", os.O_WRONLY)
    try:
        with open(go, "w", encoding="utf-8"):
            pass
        child.communicate(timeout=LIMIT_S)
    finally:
        os.close(held)
    assert directory.outcome()["parts"][0] == "first\nlast\n"


def test_the_command_ignores_the_signals_that_interlock_ignores(directory: RunDirectory) -> None:
    script = f"echo ready; {directory.mark}; kill -HUP $$; echo alive"
    done = subprocess.run(
        ["nohup", sys.executable, "-c", PROGRAM, directory.told, "{}", "sh", "-c", script],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert done.stdout == b"ready\nalive\n"
    assert directory.outcome()["payload"]["exit_code"] == 0


def test_the_time_limit_applies_while_the_live_output_is_not_read(directory: RunDirectory) -> None:
    """The command ends in time, and its earlier output is not lost."""
    script = f"{directory.mark}; while :; do echo on and on and on; done"
    child = directory.started("sh", "-c", script, time_s=3, grace_s=0.2)
    eventually(directory.numbers)
    eventually(lambda: not directory.living())
    shown, _ = child.communicate(timeout=LIMIT_S)
    told = directory.outcome()
    assert told["payload"]["ended_by"] == "time limit"
    assert told["payload"]["output"]["size"] == len(shown)


def typed(directory: RunDirectory, script: str, *steps: tuple[bytes, bytes]) -> tuple[bytes, int]:
    """Run the script at a terminal. Wait for each text, then type the answer to it."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(
            sys.executable,
            [sys.executable, "-c", PROGRAM, directory.told, "{}", "sh", "-c", script],
        )
    modes = termios.tcgetattr(terminal)
    modes[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSANOW, modes)
    seen, waiting = b"", list(steps)
    deadline = time.monotonic() + LIMIT_S
    while True:
        assert select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0], seen
        try:
            data = os.read(terminal, 4096)
        except OSError:  # on Linux: no process has the terminal open
            data = b""
        if not data:
            break
        seen += data
        while waiting and waiting[0][0] in seen:
            os.write(terminal, waiting.pop(0)[1])
    os.close(terminal)
    return seen, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_at_a_terminal_the_command_reads_the_keyboard(directory: RunDirectory) -> None:
    seen, status = typed(
        directory, 'echo name?; read name; echo "hello $name"', (b"name?", b"otto\n")
    )
    assert b"hello otto" in seen
    assert status == 0
    assert directory.outcome()["parts"][0] == "name?\nhello otto\n"


def test_at_a_terminal_ctrl_c_reaches_the_command_once_and_is_recorded(
    directory: RunDirectory,
) -> None:
    script = (
        f"rest=forever; trap 'echo told; rest=20' INT; {directory.mark}; echo ready; "
        'until [ "$rest" = 0 ]; do sleep 0.05; '
        '[ "$rest" = forever ] || rest=$((rest - 1)); done; exit 0'
    )
    seen, status = typed(directory, script, (b"ready", b"\x03"))
    assert seen.count(b"told") == 1
    assert status == 130
    told = directory.outcome()
    assert told["payload"]["exit_code"] == 0
    assert told["payload"]["interrupted"] is True
    assert directory.living() == []


def test_at_a_terminal_ctrl_c_is_not_forwarded_to_the_command(directory: RunDirectory) -> None:
    """The terminal sends the signal to its foreground group. As in a shell, a command that has left
    the group does not get it."""
    program = (
        "import os, signal, time\n"
        "os.setpgid(0, 0)\n"
        "signal.signal(signal.SIGINT, lambda *_: print('told', flush=True))\n"
        "print('ready', flush=True)\n"
        "time.sleep(2)\n"
    )
    script = f"exec {shlex.join([sys.executable, '-c', program])}"
    seen, status = typed(directory, script, (b"ready", b"\x03"))
    assert b"told" not in seen
    assert status == 130
    assert directory.outcome()["payload"]["interrupted"] is True


def test_the_memory_limit_applies_to_every_process_of_the_run(directory: RunDirectory) -> None:
    program = "import resource; print(resource.getrlimit(resource.RLIMIT_AS)[1])"
    script = f"'{sys.executable}' -c '{program}'; (setsid '{sys.executable}' -c '{program}')"
    limit = 600 << 20
    before = resource.getrlimit(resource.RLIMIT_AS)
    _, stored, _ = ran(script, Limits(memory_bytes=limit))
    assert stored == b"%d\n" % limit * 2
    assert resource.getrlimit(resource.RLIMIT_AS) == before
