"""Hooks that fail. After any error the client gets, in time and with exit status 0, an answer that
it accepts and that has no effect.

Without the error, the hooks in each of these workspaces would deny an edit and hold a stop. So an
answer without effect shows that the hook handled the error.
"""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from interlock.agents.hooks import NOTHING, client_of
from world.commandline import Place
from world.fork_server import Servers
from world.server import ForkedServer

pytestmark = [pytest.mark.long, pytest.mark.every_engine]

BOUND_S = 30.0
MAX_LOG_BYTES = 256 << 10
PATCH = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-a\n+b\n*** End Patch"
FILE = {"file_path": "src/a.py"}
EDITS: dict[str, tuple[str, dict[str, Any]]] = {
    "claude-code": ("PreToolUse", {"tool_name": "Edit", "tool_input": FILE}),
    "codex": ("PreToolUse", {"tool_name": "apply_patch", "tool_input": {"command": PATCH}}),
    "gemini": ("BeforeTool", {"tool_name": "replace", "tool_input": FILE}),
    "cursor": ("preToolUse", {"tool_name": "Write", "tool_input": FILE}),
}
STOPS: dict[str, tuple[str, dict[str, Any]]] = {
    "claude-code": ("Stop", {}),
    "codex": ("Stop", {}),
    "gemini": ("AfterAgent", {}),
    "cursor": ("stop", {"status": "completed"}),
}
Steps = dict[str, tuple[str, dict[str, Any]]]
Answers = dict[str, Any]


class HookProcesses:
    """The hooks of all clients, run as processes of otto-cli in a repository.

    vera has claimed src and sent a blocker to otto-cli."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.words: tuple[str, ...] = ("--from", "otto-cli")
        self.before: tuple[str, ...] = ()
        subprocess.run(["git", "init", "--quiet", str(place.cwd)], check=True, timeout=BOUND_S)
        place.ok("claim", "acquire", "--path", "src/**", "--from", "vera")
        place.ok("send", "@otto-cli", "It is red", "--type", "blocker", "--from", "vera")

    def answers(self, steps: Steps, stdin: bytes | None = None, *, ends: bool = True) -> Answers:
        """Run the hooks of all clients at once, and return their answers. If `ends` is false, keep
        their input open."""
        began = time.monotonic()
        children = {client: self._start(client, event) for client, (event, _) in steps.items()}
        try:
            for client, child in children.items():
                assert child.stdin is not None
                with suppress(BrokenPipeError):
                    child.stdin.write(self._given(steps[client][1]) if stdin is None else stdin)
                    child.stdin.flush()
                if ends:
                    _close(child.stdin)
            return {client: _ended(child, began) for client, child in children.items()}
        finally:
            for child in children.values():
                child.kill()
                child.wait()
                for stream in (child.stdin, child.stdout, child.stderr):
                    _close(stream)

    def _start(self, client: str, event: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "interlock", "hook", client, event, *self.words]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [*self.before, *command],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=self.place.environ,
            cwd=self.place.cwd,
        )

    def _given(self, given: dict[str, Any]) -> bytes:
        return json.dumps(given | {"session_id": "s1", "cwd": str(self.place.cwd)}).encode()

    def logged(self, what: str) -> None:
        """Check that the log has a line with this text for every client."""
        found = (self.place.workspace / "hooks.log").read_text().splitlines()
        for client in EDITS:
            assert any(f" {client} " in line and what in line for line in found), found


def _close(stream: Any) -> None:
    with suppress(BrokenPipeError):
        stream.close()


def _ended(child: "subprocess.Popen[bytes]", began: float) -> Any:
    """Wait until a hook ends in time, and return its answer."""
    assert child.stdout is not None
    assert child.stderr is not None
    status = child.wait(max(0.1, began + BOUND_S - time.monotonic()))
    out, err = child.stdout.read(), child.stderr.read()
    assert status == 0, err
    assert b"Traceback" not in err, err
    return json.loads(out)


def harmless(steps: Steps) -> Answers:
    return {name: client_of(name).encode(event, NOTHING) for name, (event, _) in steps.items()}


@pytest.fixture
def hooks(joined: Place) -> HookProcesses:
    """The hooks of otto-cli, where an edit is denied and a stop is held."""
    return HookProcesses(joined)


@pytest.fixture
def server(hooks: HookProcesses, servers: Servers) -> Iterator[ForkedServer]:
    """A server for the workspace of the hooks."""
    server = ForkedServer(hooks.place, servers)
    with server:
        yield server


def _is_told(answers: Answers) -> bool:
    """Return whether every client got a denial or a hold."""
    said = {client: json.dumps(answer) for client, answer in answers.items()}
    return all("@vera" in text for text in said.values())


# --- no error


def test_without_an_error_hooks_deny_the_edit_and_hold_the_stop(hooks: HookProcesses) -> None:
    assert _is_told(hooks.answers(EDITS))
    for client, step in STOPS.items():
        # Each hook needs a blocker that no hook has shown yet.
        hooks.place.ok("send", "@otto-cli", "Again", "--type", "blocker", "--from", "vera")
        assert _is_told(hooks.answers({client: step})), client
    assert not (hooks.place.workspace / "hooks.log").exists()


# --- the server


def test_hooks_use_the_database_file_after_the_server_crashed(
    hooks: HookProcesses, server: ForkedServer
) -> None:
    server.kill()
    assert _is_told(hooks.answers(EDITS))


@pytest.mark.parametrize("steps", [EDITS, STOPS], ids=["edit", "stop"])
def test_hooks_do_not_wait_for_a_hanging_server(
    steps: Steps, hooks: HookProcesses, server: ForkedServer
) -> None:
    server.signal(signal.SIGSTOP)
    try:
        assert hooks.answers(steps) == harmless(steps)
    finally:
        server.signal(signal.SIGCONT)
    hooks.logged("timed out after")


@pytest.mark.parametrize("elsewhere", [False, True], ids=["socket", "http"])
def test_the_next_hook_delivers_mail_after_a_stopped_server_resumes(
    elsewhere: bool, hooks: HookProcesses, server: ForkedServer
) -> None:
    steps = {"claude-code": STOPS["claude-code"]}
    hooks.place.ok("send", "@otto-cli", "At once", "--priority", "high", "--from", "vera")
    here = hooks.place
    if elsewhere:
        kept = json.loads((here.workspace / "credentials" / "otto-cli.json").read_text())
        token = kept["token"]
        hooks.place = here.but(
            INTERLOCK_WORKSPACE=f"http://127.0.0.1:{server.port}", INTERLOCK_TOKEN=token
        )
        hooks.words = ()
    server.signal(signal.SIGSTOP)
    try:
        assert hooks.answers(steps) == harmless(steps)
    finally:
        server.signal(signal.SIGCONT)
    told = json.dumps(hooks.answers(steps))
    assert "At once" in told
    assert "It is red" in told


def test_hooks_do_not_wait_for_an_unreachable_remote_server(hooks: HookProcesses) -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))  # no process listens on this port
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        hooks.place = hooks.place.but(INTERLOCK_WORKSPACE=url, INTERLOCK_TOKEN="ilk_nothing")
        hooks.words = ()
        assert hooks.answers(STOPS) == harmless(STOPS)


# --- the workspace


def test_hooks_create_no_workspace(hooks: HookProcesses) -> None:
    shutil.rmtree(hooks.place.workspace)
    assert hooks.answers(EDITS) == harmless(EDITS)
    assert not hooks.place.workspace.exists()


def test_hooks_do_not_change_a_directory_that_is_no_workspace(hooks: HookProcesses) -> None:
    shutil.rmtree(hooks.place.workspace)
    hooks.place.workspace.mkdir()
    (hooks.place.workspace / "thesis.txt").write_text("mine")
    assert hooks.answers(EDITS) == harmless(EDITS)
    assert [file.name for file in hooks.place.workspace.iterdir()] == ["thesis.txt"]


def test_a_file_in_place_of_the_workspace_gives_an_answer_without_effect(
    hooks: HookProcesses,
) -> None:
    shutil.rmtree(hooks.place.workspace)
    hooks.place.workspace.write_text("mine")
    assert hooks.answers(EDITS) == harmless(EDITS)
    assert hooks.place.workspace.read_text() == "mine"


def test_a_log_that_is_no_database_gives_an_answer_without_effect(hooks: HookProcesses) -> None:
    for file in hooks.place.workspace.glob("log.db*"):
        file.unlink()
    (hooks.place.workspace / "log.db").write_bytes(b"just text, and no database\n" * 400)
    assert hooks.answers(EDITS) == harmless(EDITS)
    hooks.logged("")


def test_a_read_only_workspace_gives_an_answer_without_effect(hooks: HookProcesses) -> None:
    """setpriv drops root's capability to ignore file modes."""
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root ignores file modes, and setpriv is not installed")
        hooks.before = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
    places = [hooks.place.workspace, *hooks.place.workspace.rglob("*")]
    modes = {place: place.stat().st_mode for place in places}
    try:
        for place in places:
            place.chmod(0o500 if place.is_dir() else 0o400)
        assert hooks.answers(STOPS) == harmless(STOPS)
    finally:
        for place, mode in modes.items():
            place.chmod(mode)
    assert not (hooks.place.workspace / "hooks.log").exists()


def test_a_full_disk_gives_an_answer_without_effect(hooks: HookProcesses) -> None:
    """The limit on file sizes has the effect of a full disk on one process."""
    hooks.before = ("sh", "-c", 'ulimit -f 0; exec "$@"', "sh")
    assert hooks.answers(STOPS) == harmless(STOPS)
    assert hooks.place.ok("audit", "verify")["ok"] is True


def test_hooks_answer_if_presence_and_log_cannot_be_written(hooks: HookProcesses) -> None:
    presence = hooks.place.workspace / "presence"
    shutil.rmtree(presence, ignore_errors=True)
    presence.write_text("")
    (hooks.place.workspace / "hooks.log").mkdir()
    assert _is_told(hooks.answers(EDITS))
    hooks.words = ("--from", "unknown")
    assert hooks.answers(EDITS) == harmless(EDITS)


def test_hooks_do_not_hold_an_agent_in_a_paused_workspace(hooks: HookProcesses) -> None:
    hooks.place.ok("pause")
    assert hooks.answers(STOPS) == harmless(STOPS)


# --- locks


def test_hooks_do_not_wait_for_a_locked_database(hooks: HookProcesses) -> None:
    connection = apsw.Connection(str(hooks.place.workspace / "log.db"))
    with closing(connection):
        connection.execute("BEGIN IMMEDIATE")
        assert hooks.answers(STOPS) == harmless(STOPS)
        connection.execute("ROLLBACK")
    hooks.logged("")


@pytest.mark.parametrize("name", ["turnstile.turn", "turnstile.queue"])
def test_hooks_do_not_wait_for_a_turn_that_another_process_keeps(
    name: str, hooks: HookProcesses
) -> None:
    """The holder of the turn blocks all writers. The holder of the queue's lock blocks the writers
    that would queue."""
    with (
        open(hooks.place.workspace / "turnstile.turn", "r+") as turn,
        open(hooks.place.workspace / name, "r+") as other,
    ):
        fcntl.flock(turn, fcntl.LOCK_EX)
        if name != "turnstile.turn":
            fcntl.flock(other, fcntl.LOCK_EX)
        assert hooks.answers(STOPS) == harmless(STOPS)
    hooks.logged("")


def test_hooks_do_not_wait_for_a_server_that_waits_for_the_turn(
    hooks: HookProcesses, server: ForkedServer
) -> None:
    with open(hooks.place.workspace / "turnstile.turn", "r+") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        assert hooks.answers(STOPS) == harmless(STOPS)
    hooks.logged("timed out after")


# --- identity


def test_an_unknown_sender_gets_an_answer_without_effect(hooks: HookProcesses) -> None:
    hooks.words = ("--from", "unknown")
    assert hooks.answers(EDITS) == harmless(EDITS)
    hooks.logged("No credential for 'unknown'")


def test_a_revoked_token_gets_an_answer_without_effect(hooks: HookProcesses) -> None:
    hooks.place.ok("token", "revoke", "--sender", "otto-cli")
    assert hooks.answers(STOPS) == harmless(STOPS)
    hooks.logged("token")


# --- input


@pytest.mark.parametrize(
    "stdin",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"\0" * 100,
        b"\xff\xfe\x00garbage",
        b"[" * 200_000,
        b" " * (33 << 20),
        b'{"tool_name": 7, "tool_input": [], "session_id": {}, "cwd": 5}',
        b'{"tool_name": "Edit", "tool_input": {"file_path": "a\\u0000b"}, "cwd": "/"}',
        b'{"tool_name": "Edit", "tool_input": {"file_path": "\\ud800"}, "cwd": "\\u0000"}',
    ],
    ids=[
        *("empty", "cut", "null", "list", "text", "zeros", "bytes", "deep", "huge"),
        *("types", "zero", "surrogate"),
    ],
)
def test_bad_input_gets_an_answer_without_effect(stdin: bytes, hooks: HookProcesses) -> None:
    assert hooks.answers(EDITS, stdin) == harmless(EDITS)


def test_bad_input_is_logged(hooks: HookProcesses) -> None:
    hooks.answers(EDITS, b"{")
    hooks.logged("")


def test_hooks_do_not_wait_for_input_that_never_ends(hooks: HookProcesses) -> None:
    assert hooks.answers(EDITS, b'{"session_id": "s1"', ends=False) == harmless(EDITS)
    hooks.logged("timed out after")


# --- command line


@pytest.mark.parametrize(
    "words",
    [
        *("", "claude-code", "unknown Stop", "claude-code Nothing", "claude-code Stop more"),
        *("claude-code Stop --wrong", "claude-code Stop --from", "claude-code Stop --workspace"),
        *("--wrong claude-code Stop", "claude-code Stop --await --wrong", "unknown Stop --await"),
    ],
)
def test_a_bad_command_line_gets_an_empty_answer(words: str, hooks: HookProcesses) -> None:
    done = hooks.place.process("hook", *words.split(), stdin=b"{}")
    assert (done.status, done.json) == (0, {})


def test_after_a_bad_flag_cursor_gets_permission_for_the_tool(hooks: HookProcesses) -> None:
    done = hooks.place.process("hook", "cursor", "preToolUse", "--wrong", stdin=b"{}")
    assert (done.status, done.json) == (0, {"permission": "allow"})


# --- output


@pytest.mark.parametrize("steps", [EDITS, STOPS], ids=["edit", "stop"])
def test_a_closed_output_damages_nothing(steps: Steps, hooks: HookProcesses) -> None:
    kept = _kept(hooks.place.workspace)
    for client, (event, given) in steps.items():
        command = [sys.executable, "-m", "interlock", "hook", client, event, *hooks.words]
        done = subprocess.run(
            ["sh", "-c", 'exec "$@" >&-', "sh", *command],
            input=json.dumps(given | {"session_id": "s1", "cwd": str(hooks.place.cwd)}).encode(),
            env=hooks.place.environ,
            cwd=hooks.place.cwd,
            timeout=BOUND_S,
            check=False,
            stderr=subprocess.PIPE,
        )
        assert done.returncode == 0, done.stderr
    assert hooks.place.ok("audit", "verify")["ok"] is True
    assert _kept(hooks.place.workspace) == kept


def _kept(workspace: Path) -> dict[str, bytes]:
    """Return the content of the files that a hook must not change."""
    files = [*workspace.glob("turnstile.*"), *(workspace / "credentials").iterdir()]
    return {file.name: file.read_bytes() for file in files}


def test_a_closed_reader_of_the_output_causes_no_error(hooks: HookProcesses) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "interlock", "hook", "claude-code", "Stop", *hooks.words]
    with open(writing, "wb") as out:
        done = subprocess.run(
            command,
            input=b'{"session_id": "s1"}',
            stdout=out,
            stderr=subprocess.PIPE,
            env=hooks.place.environ,
            timeout=BOUND_S,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, b"")


# --- hooks.log


def test_the_size_of_the_hooks_log_is_bounded(hooks: HookProcesses) -> None:
    log = hooks.place.workspace / "hooks.log"
    log.write_text("x" * MAX_LOG_BYTES + "\n")
    hooks.words = ("--from", "unknown" * 1000)
    hooks.answers({"codex": EDITS["codex"]})
    (line,) = log.read_text().splitlines()
    assert " codex PreToolUse: " in line
    assert len(line) < 1000
