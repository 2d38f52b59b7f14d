"""Waking by tmux, in a real tmux: a client at an empty prompt gets the pointer once, and no other
program gets a single byte."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from interlock.agents.wake.tmux import LOOKS, Tmux
from interlock.plugins import InDoubt, NotWoken, Pointer, Window
from world.paths import WORLD

LIMIT_S = 30.0
PROGRAM = WORLD / "fake_terminal_client.py"
# The name of each client's process. Gemini is a script that node runs.
CALLED = {"claude-code": "claude", "codex": "codex", "gemini": "node", "cursor": "cursor-agent"}
LINE = "Interlock: 2 messages from vera are waiting. Read them with: interlock inbox"
POINTER = Pointer(LINE, 2, ("m1", "m2"))

# Without tmux, these tests are skipped on a laptop, and fail in CI.
IN_CI = "CI" in os.environ
pytestmark = [
    pytest.mark.skipif(not (IN_CI or shutil.which("tmux")), reason="tmux is not installed"),
]


def eventually(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, f"timeout while waiting for: {what}"
        time.sleep(0.02)


class Client(NamedTuple):
    """A fake client in a pane."""

    window: Window
    directory: Path

    @property
    def bytes(self) -> bytes:
        with suppress(FileNotFoundError):
            return (self.directory / "bytes").read_bytes()
        return b""

    @property
    def submitted(self) -> list[str]:
        with suppress(FileNotFoundError):
            lines = (self.directory / "submitted").read_text().splitlines()
            return [json.loads(line) for line in lines]
        return []


class Server:
    """A separate tmux server for the tests."""

    def __init__(self, home: Path) -> None:
        self.home = home
        # The path of a socket can have only about a hundred bytes.
        self.socket = str(home / "s")
        self.ask("-f", os.devnull, "new-session", "-d", "-x", "100", "-y", "30", "cat")
        self.ask("set-option", "-g", "remain-on-exit", "on")

    def ask(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-u", "-S", self.socket, *words],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env=os.environ | {"LC_ALL": "C.UTF-8"},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def pane(self, *command: str) -> str:
        return self.ask("new-window", "-P", "-F", "#{pane_id}", *command)

    def client(self, name: str = "claude-code", mode: str = "idle") -> Client:
        directory = self.home / f"c{len(list(self.home.glob('c*')))}"
        pane = self.pane(*self.command(directory, name, mode))
        return self.client_in(pane, directory, name)

    def command(self, directory: Path, name: str, mode: str) -> list[str]:
        """Return a command that runs Python under the name of the client's program. The symbolic
        link leads Python to its installation."""
        directory.mkdir()
        program = directory / CALLED[name]
        program.symlink_to(os.path.realpath(sys.executable))
        script = directory / "gemini"
        script.symlink_to(PROGRAM)
        return [str(program), str(script), name, mode, str(directory)]

    def client_in(self, pane: str, directory: Path, name: str = "claude-code") -> Client:
        eventually((directory / "pid").exists, "the client has started")
        eventually(lambda: "shortcuts" in self.shown(pane), "the client is drawn")
        pid = int((directory / "pid").read_text())
        ways = {"tmux": {"socket": self.socket, "pane": pane}}
        return Client(Window("otto-cli", "s1", name, pid, ways), directory)

    def client_of_a_shell(self, name: str, mode: str, pane: str | None = None) -> Client:
        pane = pane or self.pane("/bin/sh", "-i")
        directory = self.home / f"c{len(list(self.home.glob('c*')))}"
        command = " ".join(self.command(directory, name, mode))
        self.ask("send-keys", "-t", pane, "-l", f"{command}; echo end''ed")
        # Not Enter: a suspended client has left the terminal in raw mode.
        self.ask("send-keys", "-t", pane, "C-j")
        return self.client_in(pane, directory, name)

    def shown(self, pane: str) -> str:
        return self.ask("capture-pane", "-p", "-t", pane)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    assert shutil.which("tmux"), "CI must not pass without tmux"
    server = Server(tmp_path_factory.mktemp("t"))
    try:
        yield server
    finally:
        server.ask("kill-server")


@pytest.fixture
def tmux(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A tmux with one window, and an adapter with the timeouts of the tests."""
    monkeypatch.setattr("interlock.agents.wake.tmux.COMMAND_TIMEOUT_S", LIMIT_S)
    monkeypatch.setattr("interlock.agents.wake.tmux.SEEN_WITHIN_S", LIMIT_S)
    yield server
    server.ask("kill-window", "-a", "-t", ":0")


def pane_of(client: Client) -> str:
    return client.window.ways["tmux"]["pane"]


def assert_not_woken(client: Client, why: str, window: Window | None = None) -> None:
    with pytest.raises(NotWoken, match=why):
        Tmux().wake(window or client.window, POINTER)
    assert client.bytes == b""


@pytest.mark.parametrize("name", LOOKS)
def test_a_client_at_an_empty_prompt_gets_and_submits_the_pointer_once(
    tmux: Server, name: str
) -> None:
    client = tmux.client(name)
    assert Tmux().can_wake(client.window)
    Tmux().wake(client.window, POINTER)
    assert client.submitted == [LINE]
    assert client.bytes == b"\x1b[200~" + LINE.encode() + b"\x1b[201~\r"


def test_a_client_can_be_woken_a_second_time(tmux: Server) -> None:
    client = tmux.client()
    Tmux().wake(client.window, POINTER)
    Tmux().wake(client.window, Pointer("Interlock: 1 message is waiting.", 1, ("m3",)))
    assert client.submitted == [LINE, "Interlock: 1 message is waiting."]


def test_a_pointer_of_several_screen_lines_arrives_whole(tmux: Server) -> None:
    client = tmux.client()
    line = "Interlock: " + " ".join(f"{number} from agent-{number}," for number in range(15))
    Tmux().wake(client.window, Pointer(line, 15, ()))
    assert client.submitted == [line]


def test_no_paste_buffer_remains_in_tmux(tmux: Server) -> None:
    Tmux().wake(tmux.client().window, POINTER)
    assert tmux.ask("list-buffers") == ""


@pytest.mark.parametrize("name", LOOKS)
@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("busy", "the agent is working"),
        ("asking", "waiting for a person's decision"),
        ("typed", "its prompt is not empty"),
        ("hidden", "its prompt is not empty|shows no prompt"),
    ],
)
def test_a_client_that_is_not_at_an_empty_prompt_gets_nothing(
    tmux: Server, name: str, mode: str, why: str
) -> None:
    assert_not_woken(tmux.client(name, mode), why)


@pytest.mark.parametrize("name", LOOKS)
def test_a_client_with_a_changing_screen_gets_nothing(
    tmux: Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = tmux.client(name, "spinning")

    def sleep_until_redrawn(seconds: float) -> None:
        """Sleep, then wait for the next frame: on a busy machine the client may not draw one."""
        before = tmux.shown(pane_of(client))
        time.sleep(seconds)
        eventually(lambda: tmux.shown(pane_of(client)) != before, "the client has drawn again")

    clock = SimpleNamespace(sleep=sleep_until_redrawn, monotonic=time.monotonic)
    monkeypatch.setattr("interlock.agents.wake.tmux.time", clock)
    assert_not_woken(client, "its screen is changing")


def test_a_client_with_a_spinner_in_its_title_gets_nothing(tmux: Server) -> None:
    client = tmux.client()
    tmux.ask("select-pane", "-t", pane_of(client), "-T", "⠐ fixing the tests")
    assert_not_woken(client, "the agent is working")


def test_another_client_than_the_window_names_gets_nothing(tmux: Server) -> None:
    client = tmux.client("codex")
    assert_not_woken(client, "it runs codex", client.window._replace(client="claude-code"))


def test_a_shell_gets_nothing(tmux: Server) -> None:
    pane = tmux.pane("/bin/sh", "-i")
    pid = int(tmux.ask("display-message", "-p", "-t", pane, "#{pane_pid}"))
    ways = {"tmux": {"socket": tmux.socket, "pane": pane}}
    tmux.ask("send-keys", "-t", pane, "-l", "echo read''y")
    tmux.ask("send-keys", "-t", pane, "Enter")
    eventually(lambda: "\nready\n" in tmux.shown(pane), "the shell asks for the next command")
    before = tmux.shown(pane)
    with pytest.raises(NotWoken, match="sh, not the client"):
        Tmux().wake(Window("otto-cli", "s1", "claude-code", pid, ways), POINTER)
    assert tmux.shown(pane) == before


def test_a_shell_in_front_of_a_suspended_client_gets_nothing(tmux: Server) -> None:
    client = tmux.client_of_a_shell("claude-code", "idle")
    pane = pane_of(client)
    assert client.window.pid is not None
    os.kill(client.window.pid, signal.SIGSTOP)
    try:
        eventually(
            lambda: "ended" in (shown := tmux.shown(pane)) and shown.endswith(("$", "#")),
            "the shell asks for the next command",
        )
        before = tmux.shown(pane)
        assert_not_woken(client, "sh, not the client")
        assert tmux.shown(pane) == before
    finally:
        os.kill(client.window.pid, signal.SIGKILL)


def test_a_client_in_front_of_a_suspended_client_does_not_get_its_pointer(tmux: Server) -> None:
    behind = tmux.client_of_a_shell("claude-code", "idle")
    pane = pane_of(behind)
    assert behind.window.pid is not None
    os.kill(behind.window.pid, signal.SIGSTOP)
    try:
        eventually(lambda: "ended" in tmux.shown(pane), "the shell has the terminal")
        front = tmux.client_of_a_shell("claude-code", "idle", pane)
        assert_not_woken(behind, "is not in its foreground")
        assert front.bytes == b""
    finally:
        os.kill(behind.window.pid, signal.SIGKILL)


def test_a_client_that_a_shell_started_is_woken(tmux: Server) -> None:
    client = tmux.client_of_a_shell("codex", "idle")
    Tmux().wake(client.window, POINTER)
    assert client.submitted == [LINE]


def test_a_client_that_another_program_started_is_woken(tmux: Server) -> None:
    directory = tmux.home / "run"
    code = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    command = tmux.command(directory, "claude-code", "idle")
    pane = tmux.pane(sys.executable, "-c", code, *command)
    client = tmux.client_in(pane, directory)
    leader = int(tmux.ask("display-message", "-p", "-t", pane, "#{pane_pid}"))
    assert_not_woken(client, "is not in its foreground", client.window._replace(pid=leader))
    Tmux().wake(client.window, POINTER)
    assert client.submitted == [LINE]


def test_a_client_with_another_process_id_gets_nothing(tmux: Server) -> None:
    client, other = tmux.client(), tmux.client()
    assert_not_woken(
        client, "is not in its foreground", client.window._replace(pid=other.window.pid)
    )
    assert other.bytes == b""


def test_a_process_that_is_no_client_gets_nothing(tmux: Server) -> None:
    client = tmux.client()
    assert_not_woken(client, "is not in its foreground", client.window._replace(pid=os.getpid()))


def test_a_pane_in_copy_mode_gets_nothing(tmux: Server) -> None:
    client = tmux.client()
    tmux.ask("copy-mode", "-t", pane_of(client))
    assert_not_woken(client, "scrolling or searching")


def test_a_synchronized_pane_gets_nothing(tmux: Server) -> None:
    client = tmux.client()
    tmux.ask("split-window", "-t", pane_of(client), "cat")
    tmux.ask("set-option", "-w", "-t", pane_of(client), "synchronize-panes", "on")
    assert_not_woken(client, "other panes")


def test_a_pane_with_disabled_input_gets_nothing(tmux: Server) -> None:
    client = tmux.client()
    tmux.ask("select-pane", "-d", "-t", pane_of(client))
    assert_not_woken(client, "its input is off")


def test_dead_and_closed_panes_get_nothing(tmux: Server) -> None:
    client = tmux.client()
    pane = pane_of(client)
    assert client.window.pid is not None
    os.kill(client.window.pid, signal.SIGKILL)
    dead = ("display-message", "-p", "-t", pane, "#{pane_dead}")
    eventually(lambda: tmux.ask(*dead) == "1", "the pane is dead")
    assert_not_woken(client, "has ended")
    tmux.ask("kill-pane", "-t", pane)
    assert_not_woken(client, "no longer exists|can't find pane")


@pytest.mark.parametrize(
    "way",
    [
        {"pane": "%1; kill-server"},
        {"pane": "0"},
        {"pane": "-t%1"},
        {"socket": "/nowhere/s"},
        {"socket": __file__},
        {"socket": "a\0b"},
    ],
)
def test_an_invalid_pane_or_socket_gets_nothing(tmux: Server, way: dict[str, str]) -> None:
    client = tmux.client()
    ways = {"tmux": client.window.ways["tmux"] | way}
    assert_not_woken(client, "a pane of this user's tmux", client.window._replace(ways=ways))


@pytest.mark.parametrize("missing", ["client", "pid", "ways"])
def test_an_incomplete_window_gets_nothing(tmux: Server, missing: str) -> None:
    client = tmux.client()
    unknown: dict[str, object] = {missing: {} if missing == "ways" else None}
    window = client.window._replace(**unknown)  # type: ignore[arg-type]
    assert not Tmux().can_wake(window)
    assert_not_woken(client, "does not name a known client", window)


def test_enter_is_not_pressed_if_the_line_does_not_appear(
    tmux: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.agents.wake.tmux.SEEN_WITHIN_S", 0.5)
    client = tmux.client(mode="deaf")
    with pytest.raises(InDoubt, match="does not show the line"):
        Tmux().wake(client.window, POINTER)
    assert client.bytes.count(b"\r") == 0
    assert client.submitted == []


def test_enter_is_not_pressed_if_a_person_typed_in_between(
    tmux: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.agents.wake.tmux.SEEN_WITHIN_S", 0.5)
    client = tmux.client(mode="meddled")
    with pytest.raises(InDoubt, match="does not show the line"):
        Tmux().wake(client.window, POINTER)
    assert client.submitted == []


def test_enter_is_not_pressed_if_the_client_has_ended(tmux: Server) -> None:
    client = tmux.client_of_a_shell("claude-code", "leaving")
    with pytest.raises(InDoubt, match="Enter was not pressed"):
        Tmux().wake(client.window, POINTER)
    eventually(lambda: "ended" in tmux.shown(pane_of(client)), "the shell has the terminal")
    assert client.bytes.endswith(b"\x1b[201~")


def test_enter_is_pressed_once_even_if_it_has_no_effect(
    tmux: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.agents.wake.tmux.SEEN_WITHIN_S", 3.0)
    client = tmux.client(mode="stuck")
    with pytest.raises(InDoubt, match="still shows the line"):
        Tmux().wake(client.window, POINTER)
    assert client.bytes.count(b"\r") == 1


@pytest.mark.parametrize(
    "text",
    [
        "'; touch pwned; '",
        "$(touch pwned) `touch pwned`",
        "!touch pwned",
        "/exit",
        "@/etc/passwd",
        "2 messages\x1b[201~\rtouch pwned\r",
        "2 messages\r\n!touch pwned\n",
        "2 messages\x03\x04\x1b\x1b\x7f\x9b201~ wait",
        "2 messages\u2028\u202e wait #{pane_id} %1 ; kill-server ;",
        "2 messages wait \\",
        "-t %0 -- ;",
    ],
)
def test_a_malicious_text_arrives_as_one_line_of_text(tmux: Server, text: str) -> None:
    client = tmux.client()
    Tmux().wake(client.window, Pointer(text, 1, ()))
    begin, line, end = client.bytes[:6], client.bytes[6:-7], client.bytes[-7:]
    assert (begin, end) == (b"\x1b[200~", b"\x1b[201~\r")
    assert line.decode().isprintable()
    assert line[:1].isalnum()
    assert client.submitted == [line.decode()]
    assert not list(tmux.home.rglob("pwned"))
