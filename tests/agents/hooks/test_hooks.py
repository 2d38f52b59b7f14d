"""Hooks from end to end: a fake client runs them like Claude Code, and two agents work in two
worktrees of one repository."""

import copy
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from world.commandline import LIMIT_S, Place, lines, until
from world.paths import WORLD
from world.server import free_port

pytestmark = pytest.mark.every_engine

PROGRAM = WORLD / "fake_claude_code.py"


class Window:
    """A running client. Each call triggers an event in it, and returns the text for its model."""

    def __init__(self, place: Place, directory: Path, session: str) -> None:
        self.session = session
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), session],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=place.environ,
            cwd=directory,
        )
        self._answers = lines(self._process)

    def __call__(self, do: str, **given: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do} | given).encode() + b"\n")
        self._process.stdin.flush()
        seen: dict[str, Any] = json.loads(next(self._answers))
        assert "complaints" not in seen, seen
        return seen

    def shell(self, *words: str) -> Any:
        """Run `interlock` in the client's shell, and return its answer."""
        command = shlex.join([sys.executable, "-m", "interlock", *words, "--json"])
        return json.loads(self("shell", command=command)["out"])

    def mcp(self, tool: str, **arguments: Any) -> dict[str, Any]:
        seen = self("call", tool=tool, **arguments)
        assert not seen["error"], seen
        answer: dict[str, Any] = seen["answer"]
        return answer

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(LIMIT_S)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for pid in self("waiting")["pids"] if self._process.poll() is None else ():
            os.kill(pid, signal.SIGKILL)
        self._process.stdin.close()
        self._process.wait(LIMIT_S)
        self._process.stdout.close()


class Office:
    """A repository with two worktrees. Setup configured the client of otto-cli in one worktree, and
    the client of nova in the other."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.windows: list[Window] = []
        self.tokens = {"otto-cli": place.join("otto", "cli"), "nova": place.join("nova")}
        place.ok("settings", "wake.quiet_s", "1")
        main, other = place.cwd, place.root / "other"
        git = ["git", "-C", str(main)]
        who = ["-c", "user.name=Otto", "-c", "user.email=otto@example.com"]
        for words in (
            ["init", "--quiet", "--initial-branch=main"],
            [*who, "commit", "--quiet", "--allow-empty", "--message", "Begin"],
            ["worktree", "add", "--quiet", str(other)],
        ):
            subprocess.run([*git, *words], env=place.environ, check=True, timeout=LIMIT_S)
        self.directories = {"otto-cli": main, "nova": other}
        for sender, directory in self.directories.items():
            self.set_up(sender, directory)

    def set_up(self, sender: str, directory: Path) -> None:
        standing = Place(self.place.root, self.place.served)
        standing.cwd = directory
        standing.ok("setup", "claude-code", "--from", sender)

    def window(self, sender: str, session: str) -> Window:
        """Open a client."""
        window = Window(self.place, self.directories[sender], session)
        self.windows.append(window)
        return window

    def opened(self, sender: str, session: str, *, tools: bool = False) -> Window:
        """Open a client and start its session. With `tools`, start its MCP server first."""
        window = self.window(sender, session)
        if tools:
            window("connect")
        window("start")
        return window

    def send(self, sender: str, *words: str) -> str:
        """Send a message from a shell outside of the clients, and return its id."""
        sent = self.place.ok("send", *words, "--from", sender)
        return str(sent["message"]["id"])

    def history(self, id: str, sender: str) -> list[tuple[str, str | None]]:
        """Return the states and adapters of a message's only delivery."""
        (delivery,) = self.place.ok("receipts", id, "--from", sender)["deliveries"]
        return [(step["state"], step.get("adapter")) for step in delivery["history"]]

    def reach(self, name: str) -> str:
        agents = self.place.ok("agents")["agents"]
        (found,) = [agent for agent in agents if agent["address"] == f"@{name}"]
        return str(found["reach"])


@pytest.fixture
def office(place: Place) -> Iterator[Office]:
    office = Office(place)
    yield office
    for window in office.windows:
        window.close()


# --- text for the agent


def test_an_agent_gets_its_identity_at_the_start_and_after_a_compaction(office: Office) -> None:
    window = office.window("otto-cli", "s1")
    told = window("start")["context"]
    assert "You are @otto-cli on Interlock (agent otto, session s1). You hold no claims." in told
    window.shell("claim", "acquire", "--item", "B-1")
    assert window("prompt") == {}
    told = window("start", source="compact")["context"]
    assert "You are @otto-cli" in told
    assert "You hold B-1 (fence" in told


def test_hooks_answer_nothing_and_write_nothing_without_news(office: Office) -> None:
    window = office.opened("otto-cli", "s1")
    before = office.place.entries()
    assert [window(step) for step in ("prompt", "tool", "tool", "stop")] == [{}] * 4
    assert window("edit", path="src/a.py") == {}
    assert office.place.entries() == before


def test_two_agents_in_two_worktrees_exchange_mail(office: Office) -> None:
    otto, nova = office.opened("otto-cli", "s1"), office.opened("nova", "s2", tools=True)
    question = otto.shell("send", "@nova", "Is the parser yours?")["message"]["id"]
    told = nova("prompt")["context"]
    assert "1 new message, from @otto-cli (verified)" in told
    assert "parser" not in told
    assert nova("tool") == {}
    (found,) = nova.mcp("inbox")["messages"]
    assert (found["id"], found["payload"]["text"]) == (question, "Is the parser yours?")
    nova.mcp("read", id=question)
    nova.mcp("send", to="@otto-cli", text="It is.", reply_to=question)
    assert "from @nova (verified)" in otto("tool")["context"]
    assert otto("tool") == {}
    (answer,) = otto.shell("inbox")["messages"]
    assert answer["reply_to"] == question
    assert office.history(question, "otto-cli")[:3] == [
        ("accepted", None),
        ("woken", "claude-code"),
        ("shown", "mcp"),
    ]


def test_several_new_messages_give_one_line(office: Office) -> None:
    window = office.opened("otto-cli", "s1")
    for number in range(3):
        office.send("nova", "@otto-cli", f"Note {number}")
    told = window("tool")["context"]
    assert told.count("\n") == 0
    assert "3 new messages, newest from @nova (verified)" in told
    assert window("prompt") == {}


def test_no_line_points_to_mail_that_was_read(office: Office) -> None:
    window = office.opened("otto-cli", "s1")
    window.shell("read", office.send("nova", "@otto-cli", "Soon read"))
    assert window("tool") == {}


# --- a blocker


def test_a_blocker_keeps_the_agent_from_stopping_until_it_is_acknowledged(office: Office) -> None:
    window = office.opened("otto-cli", "s1")
    id = office.send("nova", "@otto-cli", "The build is red", "--type", "blocker")
    held = window("stop")["held"]
    assert "The build is red" in held
    assert "@nova" in held
    assert window("stop") == {}, "the hook holds the agent once a turn"
    assert office.history(id, "nova") == [
        ("accepted", None),
        ("woken", "claude-code"),
        ("shown", "claude-code"),
    ]
    window("prompt")
    assert "held" in window("stop"), "the hook holds the agent again at the end of the next turn"
    window.shell("read", id)
    window("prompt")
    assert "held" in window("stop"), "reading a blocker does not resolve it"
    window.shell("ack", id)
    window("prompt")
    assert window("stop") == {}
    told = [state for state, _ in office.history(id, "nova")]
    assert told == ["accepted", "woken", "shown", "read", "acked"]


def test_a_blocker_wakes_the_idle_agent_and_holds_it_at_its_next_stop(
    office: Office,
) -> None:
    window = office.opened("otto-cli", "s1")
    window("prompt")
    assert window("stop") == {}
    until(lambda: office.reach("otto-cli") == "wakes")
    sent = office.place.ok(
        *("send", "@otto-cli", "The build is red", "--type", "blocker", "--from", "nova")
    )
    assert sent["deliveries"][0]["reach"] == "wakes"
    woken = window("woken")["woken"]
    assert "1 new message, from @nova (verified), type blocker" in woken
    assert "The build" not in woken
    assert window("tool") == {}
    assert "The build is red" in window("stop")["held"]
    assert office.history(sent["message"]["id"], "nova") == [
        ("accepted", None),
        ("woken", "claude-code-rewake"),
        ("shown", "claude-code"),
    ]


def test_one_process_waits_for_a_session_after_several_stops(office: Office) -> None:
    window = office.opened("otto-cli", "s1")
    for _ in range(3):
        window("stop")
    until(lambda: len(window("waiting")["pids"]) == 1)
    office.send("nova", "@otto-cli", "Hello")
    assert "Hello" not in window("woken")["woken"]
    until(lambda: window("waiting")["pids"] == [])


# --- claims


def test_an_edit_under_another_holders_claim_is_denied_and_names_the_holder(office: Office) -> None:
    otto, nova = office.opened("otto-cli", "s1"), office.opened("nova", "s2")
    claim = otto.shell("claim", "acquire", "--path", "src/**")
    assert claim["acquired"] is True
    denied = nova("edit", path="src/a.py")["denied"]
    assert "src/a.py is claimed by @otto-cli (session s1) until" in denied
    assert nova("edit", path="docs/a.md") == {}
    assert otto("edit", path="src/a.py") == {}
    otto.shell("claim", "release", "--path", "src/**")
    assert nova("edit", path="src/a.py") == {}


def test_a_claim_in_another_worktree_causes_a_warning_but_no_denial(office: Office) -> None:
    otto, nova = office.opened("otto-cli", "s1"), office.opened("nova", "s2")
    here = str(office.directories["otto-cli"])
    otto.shell("claim", "acquire", "--path", "src/**", "--worktree", here)
    seen = nova("edit", path="src/a.py")
    assert "denied" not in seen
    assert "@otto-cli holds a claim on src/a.py" in seen["context"]


def test_two_windows_of_one_agent_are_two_holders(office: Office) -> None:
    one, two = (office.opened("otto-cli", session, tools=True) for session in ("s1", "s2"))
    assert one.mcp("claim", paths=["src/**"])["acquired"] is True
    assert one("edit", path="src/a.py") == {}
    assert "(session s1)" in two("edit", path="src/a.py")["denied"]
    assert two.shell("claim", "acquire", "--path", "src/a.py")["acquired"] is False
    assert two.mcp("claim", paths=["src/a.py"])["acquired"] is False
    assert one.shell("claim", "renew", "--path", "src/**")["renewed"] is True


def test_shell_mcp_server_and_hooks_of_a_window_are_one_holder(office: Office) -> None:
    window = office.opened("otto-cli", "s1", tools=True)
    assert window.shell("whoami")["session"] == "s1"
    assert window.mcp("whoami")["session"] == "s1"
    window("start", source="clear", session="s9")
    assert window.shell("whoami")["session"] == "s9"
    assert window.mcp("whoami")["session"] == "s9"


def test_the_end_of_a_session_releases_its_claims(office: Office) -> None:
    one, two = office.opened("otto-cli", "s1"), office.opened("otto-cli", "s2")
    one.shell("claim", "acquire", "--item", "B-1")
    two.shell("claim", "acquire", "--item", "B-2")
    assert one("end") == {}
    (left,) = office.place.ok("claim", "list")["claims"]
    assert left["item"] == "B-2"


# --- runs that were recorded offline


def spooled(office: Office, window: Window, *command: str) -> Path:
    """Record a run in the window's shell while it can reach no workspace. Return the run's file."""
    cut_off = {
        "CLAUDE_CODE_SESSION_ID": window.session,
        "INTERLOCK_WORKSPACE": f"http://127.0.0.1:{free_port()}",
        "INTERLOCK_TOKEN": office.tokens["otto-cli"],
    }
    words = [sys.executable, "-m", "interlock", "evidence", "run", "--json", "--"]
    words += command or ("echo", "hello")
    environ = [f"{name}={value}" for name, value in cut_off.items()]
    seen = window("shell", command=shlex.join(["env", *environ, *words]))
    return Path(json.loads(seen["out"])["spooled"])


def test_the_next_tool_hook_submits_a_run_that_was_recorded_offline(office: Office) -> None:
    window = office.opened("otto-cli", "s.1")
    path = spooled(office, window)
    before = office.place.entries()
    assert window("tool") == {}
    until(lambda: not path.exists())
    assert office.place.entries() == before + 1


@pytest.mark.long
def test_concurrent_hooks_submit_a_run_once(office: Office) -> None:
    window = office.opened("otto-cli", "s.1")
    path = spooled(office, window, "head", "-c", "8000000", "/dev/zero")
    before = len(office.place.facts("evidence_added"))
    told = {"session_id": "s.1", "cwd": str(office.place.cwd), "tool_name": "Bash"}
    words = ("hook", "claude-code", "PostToolUse", "--from", "otto-cli")
    hooks = [office.place.start(*words) for _ in range(6)]
    for hook in hooks:
        assert hook.stdin is not None
        hook.stdin.write(json.dumps(told).encode())
        hook.stdin.close()  # each hook starts its work at the end of its input
        hook.stdin = None
    for hook in hooks:
        with hook:
            out, err = hook.communicate(timeout=LIMIT_S)
        assert (hook.returncode, json.loads(out), err) == (0, {}, b"")
    assert not path.exists()
    assert len(office.place.facts("evidence_added")) == before + 1
    assert not (office.place.workspace / "hooks.log").exists()


def test_a_run_is_recorded_once_if_a_killed_hook_left_its_file(
    office: Office,
) -> None:
    window = office.opened("otto-cli", "s.1")
    path = spooled(office, window)
    contents = path.read_bytes()
    window("tool")
    until(lambda: not path.exists())
    before = office.place.entries()
    path.write_bytes(contents)
    window("tool")
    until(lambda: not path.exists())
    assert office.place.entries() == before


def test_a_run_that_was_submitted_by_hand_is_not_recorded_again(office: Office) -> None:
    """The submission by hand names a task, which the run itself does not."""
    window = office.opened("otto-cli", "s.1")
    path = spooled(office, window)
    office.place.ok("task", "create", "--title", "Greet", "--id", "B-1", "--from", "nova")
    window.shell("evidence", "add", "--task", "B-1", "--spool", str(path))
    before = office.place.entries()
    window("tool")
    until(lambda: not path.exists())
    assert office.place.entries() == before
    assert not path.with_name(f"{path.name}.refused").exists()


def test_hooks_do_not_submit_a_run_of_another_user(office: Office) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can change the owner of a file")
    window = office.opened("otto-cli", "s.1")
    path = spooled(office, window)
    os.chown(path, 65_534, 65_534)
    before = office.place.entries()
    assert window("tool") == {}
    assert window("stop") == {}
    assert path.exists()
    assert office.place.entries() == before


# --- reach


def test_reach_follows_the_steps_of_the_window(office: Office) -> None:
    assert office.reach("nova") == "unknown"
    window = office.opened("otto-cli", "s1")
    window("prompt")
    until(lambda: office.reach("otto-cli") == "working")
    window("stop")
    until(lambda: office.reach("otto-cli") == "wakes")


def test_an_agent_whose_client_was_killed_is_offline_and_its_waiter_ends(
    office: Office,
) -> None:
    window = office.opened("otto-cli", "s1")
    window("prompt")
    window("stop")
    until(lambda: office.reach("otto-cli") == "wakes")
    (pid,) = window("waiting")["pids"]
    window.kill()
    until(lambda: office.reach("otto-cli") == "offline")
    until(lambda: not _runs(pid))
    sent = office.place.ok("send", "@otto-cli", "Hello?", "--from", "nova")
    assert sent["deliveries"][0]["reach"] == "offline"
    assert office.history(sent["message"]["id"], "nova") == [("accepted", None)]


def _runs(pid: int) -> bool:
    """Return whether a process whose parent has ended still runs."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


# --- hooks without a running client


def hooked(place: Place, client: str, event: str, **given: Any) -> Any:
    said = {"session_id": "s-1", "conversation_id": "s-1", "cwd": str(place.cwd)} | given
    return place.run(
        "hook", client, event, "--from", "otto-cli", stdin=json.dumps(said).encode()
    ).json


@pytest.fixture
def repository(joined: Place) -> Place:
    subprocess.run(["git", "init", "--quiet", str(joined.cwd)], check=True, timeout=LIMIT_S)
    return joined


@pytest.mark.parametrize(
    ("client", "before", "tool", "after"),
    [
        ("gemini", "BeforeTool", "write_file", "AfterTool"),
        ("cursor", "preToolUse", "Write", "postToolUse"),
    ],
)
def test_a_warning_follows_the_tool_if_the_client_accepts_no_text_before_it(
    client: str, before: str, tool: str, after: str, repository: Place
) -> None:
    repository.ok(
        *("claim", "acquire", "--path", "src/**", "--worktree", "/srv/other", "--from", "vera")
    )
    edit = {"tool_name": tool, "tool_input": {"file_path": "src/a.py"}}
    for _ in range(2):
        assert hooked(repository, client, before, **edit) in ({}, {"permission": "allow"})
    told = json.dumps(hooked(repository, client, after))
    assert told.count("@vera holds a claim on src/a.py in /srv/other") == 1
    assert hooked(repository, client, after) == {}


def test_the_users_hooks_answer_nothing_without_a_joined_workspace(place: Place) -> None:
    anywhere = place.but(INTERLOCK_WORKSPACE=None)
    assert hooked(anywhere, "claude-code", "SessionStart") == {}
    assert not list(place.home.rglob("hooks.log"))
    anywhere.join("nova", None)
    assert hooked(anywhere, "claude-code", "SessionStart") == {}
    assert not list(place.home.rglob("hooks.log"))
    assert hooked(place, "claude-code", "SessionStart") == {}
    assert list(place.root.rglob("hooks.log")), "a named workspace that does not exist is an error"


def test_cursors_edit_is_checked_in_the_workspace_of_the_file(place: Place) -> None:
    subprocess.run(["git", "init", "--quiet", str(place.cwd)], check=True, timeout=LIMIT_S)
    here = place.but(INTERLOCK_WORKSPACE=None)
    here.ok("init", "--here")
    here.join("otto", "cli")
    here.join("vera", None)
    here.ok("claim", "acquire", "--path", "src/**", "--from", "vera")
    elsewhere = copy.copy(here)
    elsewhere.cwd = place.root / "elsewhere"
    elsewhere.cwd.mkdir()
    edit = {"tool_name": "Write", "tool_input": {"file_path": str(place.cwd / "src" / "a.py")}}
    told = hooked(
        elsewhere, "cursor", "preToolUse", cwd="", workspace_roots=[str(elsewhere.cwd)], **edit
    )
    assert told["permission"] == "deny"
    assert "@vera" in told["agent_message"]


@pytest.mark.parametrize(
    ("stdin", "words"),
    [(b"{", "The client's input was not JSON"), (b"[" * 200_000, "nested too deeply")],
)
def test_invalid_input_is_logged_with_its_cause(stdin: bytes, words: str, joined: Place) -> None:
    joined.run("hook", "codex", "Stop", "--from", "otto-cli", stdin=stdin)
    (line,) = (joined.workspace / "hooks.log").read_text().splitlines()
    assert words in line
    assert "defect" not in line


def test_an_invalid_command_line_is_logged(joined: Place) -> None:
    joined.process("hook", "codex", "Stop", "--wrong", stdin=b"{}")
    (log,) = joined.home.rglob("hooks.log")
    assert " codex Stop: " in log.read_text()
    assert "--wrong" in log.read_text()
