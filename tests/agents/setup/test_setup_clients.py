"""The configuration of every client: setup adds its entries once to empty, typical and messy files,
and undo removes them."""

import json
import os
import shutil
import stat
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from interlock.agents import CLIENTS
from interlock.agents.guards.hooks import this_interlock
from interlock.agents.hooks import client_of
from interlock.agents.setup import inspect, jsonc, records
from interlock.agents.setup.apply import SetupPlan, prepared, undo_plan
from interlock.agents.setup.clients import Invocation, client_named, place_at
from interlock.agents.setup.inspect import InstalledEntries
from interlock.agents.setup.own_entries import hooks_in
from interlock.errors import Usage

CALLER = Invocation(("/opt/bin/interlock",), "otto", "/data/ws")


@pytest.fixture(autouse=True)
def _isolated_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let git ignore the configuration of the machine, and commit as Otto."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Otto")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "otto@example.org")


def git(place: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(place), *words], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class UserMachine:
    """The directories that setup writes into: a repository, a home, and the records of setup."""

    def __init__(self, root: Path) -> None:
        self.repo, self.home, self.kept = root / "a repo", root / "home", root / "kept"
        self.users = self.home / ".local" / "share" / "interlock"
        for directory in (self.repo, self.users, self.kept):
            directory.mkdir(parents=True)
        git(self.repo, "init", "--quiet", "--initial-branch", "main")
        git(self.repo, "commit", "--quiet", "--allow-empty", "--message", "one")

    def setting(self, client: str, sender: str = "otto", **given: Any) -> SetupPlan:
        plugin, is_repositorys = given.pop("plugin", None), given.pop("is_repositorys", False)
        place = place_at(str(given.pop("at", self.repo)), {"HOME": str(self.home)}, **given)
        caller = Invocation(this_interlock(), sender, "/data/ws", is_repositorys)
        return prepared(client, place, str(self.kept), caller, plugin)

    def set_up(self, client: str, sender: str = "otto", **given: Any) -> list[str]:
        """Set up a client, and return the states of the files."""
        setting = self.setting(client, sender, **given)
        setting.apply()
        return [change["state"] for change in setting.answer(with_diff=False)["changes"]]

    def undo(self, client: str, **given: Any) -> list[str]:
        setting = self.undo_plan(client, **given)
        setting.apply()
        return [change["state"] for change in setting.answer(with_diff=False)["changes"]]

    def undo_plan(self, client: str, **given: Any) -> SetupPlan:
        plugin = given.pop("plugin", None)
        place = place_at(str(given.pop("at", self.repo)), {"HOME": str(self.home)}, **given)
        return undo_plan(client, place, str(self.kept), plugin)

    def forget(self) -> None:
        """Delete the workspace with its records."""
        shutil.rmtree(self.kept)
        self.kept.mkdir()

    def move(self) -> None:
        """Rename the repository's directory."""
        self.repo = self.repo.rename(self.repo.parent / "moved")

    def everything(self) -> dict[str, bytes | None]:
        """Return all files and directories, except git's own files and the records."""
        found = [*self.repo.rglob("*"), *self.home.rglob("*")]
        return {
            str(path): path.read_bytes() if path.is_file() else None
            for path in found
            if ".git" not in path.parts or path.parts[-2:] == ("info", "exclude")
        }


@pytest.fixture
def machine(tmp_path: Path) -> UserMachine:
    """A repository with one commit, and an empty home."""
    return UserMachine(tmp_path)


FILES = {
    "claude-code": (".claude/settings.local.json", ".mcp.json"),
    "codex": (".codex/config.toml", ".codex/hooks.json"),
    "gemini": (".gemini/settings.json",),
    "cursor": (".cursor/mcp.json", ".cursor/hooks.json"),
}
PER_FILE = [(client, name) for client, names in FILES.items() for name in names]
each_client = pytest.mark.parametrize("client", CLIENTS)

OTHERS_HOOKS = """\
{
    // the team's hooks
    "hooks": {
        "Stop": [
            {"hooks": [{"type": "command", "command": "say done"}]}, // said aloud
        ],
        "stop": [ {"command": "say done"} ],
    },
    "permissions": {"allow": ["Bash(ls:*)"]},
    "mcpServers": { "other": {"command": "other"} },
}
"""
NAMESAKE = """{ "mcpServers": {"interlock": {"command": "old"}, "b": {"command": "b"}}, "a": 1 }"""
OLD = """\
{ "mcpServers": {"interlock": {"command": "/gone/interlock", "args": ["mcp"]}, "b": {"x": 1}},
  "hooks": {"Stop": [{"matcher": "x", "hooks": [
      {"type": "command", "command": "before"},
      {"type": "command", "command": "python3 -m interlock hook CLIENT Stop --from who"},
      {"type": "command", "command": "after"}]}],
    "sessionStart": [{"command": "'/my bin/interlock' hook CLIENT sessionStart"}]}
}"""
OLD_TOML = (
    "[mcp_servers.interlock] # by setup\ncommand = '/gone/interlock'\nargs = ['mcp']\n\n[z]\na=1\n"
)
JSON = {
    "empty": "",
    "blank": " \n",
    "an empty object": "{}",
    "comments only inside": "{\n  // nothing yet\n}\n",
    "hooks of others": OTHERS_HOOKS,
    "tabs and CRLF": OTHERS_HOOKS.replace("    ", "\t").replace("\n", "\r\n"),
    "a BOM and no last newline": "\ufeff" + OTHERS_HOOKS.rstrip(),
    "one line": '{"hooks": {}, "mcpServers": {"x": {"command": "x"}}}',
    "another's server of that name": NAMESAKE,
}
TOML = {
    "empty": "",
    "comments": "# mine\n",
    "typical": 'model = "o" # one\n\n[mcp_servers.other] # theirs\ncommand = "x"\n\n[z]\na = 1\n',
    "CRLF": 'model = "o"\r\n# two\r\n[tui]\r\nb = [ 1,\r\n 2, ]\r\n',
    "a BOM and no last newline": '\ufeffmodel = "o"',
    "an inline table": "mcp_servers = { other = { command = 'x' } }\n",
    "another's server of that name": "[mcp_servers.interlock]\nurl = 'x' # mine\n\n[z]\na=1\n",
    "tables out of order": "[mcp_servers.a]\nx=1\n[p]\nq=1\n[mcp_servers.b]\nx=2\n",
}
CASES = [
    pytest.param(client, name, text.replace("CLIENT", client), id=f"{client} {name} {how}")
    for client, name in PER_FILE
    for how, text in (TOML if name.endswith("toml") else JSON).items()
]


def parsed(file: Path) -> Any:
    text = file.read_bytes().decode().removeprefix("\ufeff")
    return tomllib.loads(text) if file.suffix == ".toml" else jsonc.load(text)


def rest_of(data: Any, client: str) -> Any:
    """Return the entries that are not Interlock's, without empty ones."""
    data = json.loads(json.dumps(data))
    for name in ("mcpServers", "mcp_servers"):
        data.get(name, {}).pop("interlock", None)
    for groups in data.get("hooks", {}).values():
        for group in groups:
            if "hooks" in group:
                group["hooks"] = [
                    hook for hook in group["hooks"] if not hooks_in(wrapped(hook), client)
                ]
        groups[:] = [g for g in groups if g.get("hooks", True) and not hooks_in(wrapped(g), client)]
    return emptied({k: v for k, v in data.items() if k != "version"})


def wrapped(hook: Any) -> Any:
    return {"hooks": {"any": [hook]}}


def emptied(data: Any) -> Any:
    if not isinstance(data, dict):
        return data
    return {k: left for k, v in data.items() if (left := emptied(v)) not in ({}, [])}


# --- the content of the files


def test_claude_code_gets_hooks_in_local_settings_and_a_server(machine: UserMachine) -> None:
    machine.set_up("claude-code")
    settings = parsed(machine.repo / ".claude" / "settings.local.json")
    assert list(settings) == ["hooks"]
    assert {event: len(groups) for event, groups in settings["hooks"].items()} == {
        "SessionStart": 1,
        "UserPromptSubmit": 1,
        "PreToolUse": 1,
        "PostToolUse": 1,
        "PostToolUseFailure": 1,
        "StopFailure": 1,
        "Stop": 2,
        "SessionEnd": 1,
    }
    assert parsed(machine.repo / ".mcp.json")["mcpServers"]["interlock"]["args"][-5:] == [
        *("mcp", "--from", "otto", "--workspace", "/data/ws")
    ]


def test_the_hooks_of_claude_code_have_this_form() -> None:
    as_otto = ["--from", "otto", "--workspace", "/data/ws"]
    hooks = client_named("claude-code").hooks(CALLER)
    assert hooks["PreToolUse"] == [
        {
            "matcher": "Edit|MultiEdit|Write|NotebookEdit",
            "hooks": [
                {
                    "type": "command",
                    "command": "/opt/bin/interlock",
                    "args": ["hook", "claude-code", "PreToolUse", *as_otto],
                    "timeout": 10,
                }
            ],
        }
    ]
    assert hooks["Stop"][1]["hooks"] == [
        {
            "type": "command",
            "command": "/opt/bin/interlock",
            "args": ["hook", "claude-code", "Stop", "--await", *as_otto],
            "timeout": 86400,
            "asyncRewake": True,
        }
    ]


def test_the_files_of_codex_have_this_form(machine: UserMachine) -> None:
    place = place_at(str(machine.repo), {"HOME": str(machine.home)})
    wanted = client_named("codex").wanted(place, CALLER)
    config, hooks = wanted.documents
    assert config.members == {
        ("mcp_servers", "interlock"): {
            "command": "/opt/bin/interlock",
            "args": ["mcp", "--from", "otto", "--workspace", "/data/ws"],
            "env_vars": ["INTERLOCK_TOKEN", "INTERLOCK_SESSION", "INTERLOCK_WORKSPACE"],
        }
    }
    command = "/opt/bin/interlock hook codex {} --from otto --workspace /data/ws"
    assert hooks.hooks["SessionEnd"] == [
        {"hooks": [{"type": "command", "command": command.format("SessionEnd"), "timeout": 3}]}
    ]
    assert hooks.hooks["PreToolUse"][0]["matcher"] == "apply_patch|Edit|Write"
    assert any("trust Interlock's hooks" in sentence for sentence in wanted.confirm)


def test_the_hooks_of_gemini_have_this_form() -> None:
    assert client_named("gemini").hooks(CALLER)["BeforeTool"] == [
        {
            "matcher": "write_file|replace",
            "hooks": [
                {
                    "type": "command",
                    "command": "/opt/bin/interlock hook gemini BeforeTool --from otto "
                    "--workspace /data/ws",
                    "timeout": 10_000,
                    "name": "interlock",
                }
            ],
        }
    ]


def test_the_hooks_of_cursor_have_this_form(machine: UserMachine) -> None:
    machine.set_up("cursor")
    assert parsed(machine.repo / ".cursor" / "hooks.json")["version"] == 1
    assert client_named("cursor").hooks(CALLER)["stop"] == [
        {
            "command": "/opt/bin/interlock hook cursor stop --from otto --workspace /data/ws",
            "timeout": 10,
            "loop_limit": 5,
        }
    ]


@each_client
def test_interlock_answers_every_event_with_a_hook(client: str) -> None:
    answered = client_of(client).EVENTS
    assert set(client_named(client).hooks(CALLER)) <= set(answered)
    steps = {answered[event] for event in client_named(client).hooks(CALLER)}
    assert {"start", "prompt", "edit", "tool", "stop", "end"} <= steps


@each_client
def test_words_with_spaces_are_not_split(client: str) -> None:
    caller = Invocation(("/my apps/interlock",), "otto", "/my data/it's")
    hooks = client_named(client).hooks(caller)
    assert hooks_in({"hooks": hooks}, client) == hooks


# --- setup, a second setup, and undo


@pytest.mark.parametrize(("client", "name", "text"), CASES)
def test_setup_adds_entries_once_and_undo_restores_the_file_byte_for_byte(
    client: str, name: str, text: str, machine: UserMachine
) -> None:
    file = machine.repo / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text.encode())
    file.chmod(0o640)
    before = machine.everything()
    machine.set_up(client)
    once = machine.everything()
    assert once[str(file)] != text.encode()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    theirs = (
        tomllib.loads(text.lstrip("\ufeff"))
        if name.endswith("toml")
        else (jsonc.load(text.lstrip("\ufeff")) if text.strip() else {})
    )
    assert rest_of(parsed(file), client) == rest_of(theirs, client)
    assert set(machine.set_up(client)) == {"unchanged"}
    assert machine.everything() == once
    machine.undo(client)
    assert machine.everything() == before


@pytest.mark.parametrize(("client", "name", "text"), CASES)
def test_undo_keeps_the_later_changes_of_a_person(
    client: str, name: str, text: str, machine: UserMachine
) -> None:
    file = machine.repo / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text.encode())
    machine.set_up(client)
    now = file.read_bytes()
    if name.endswith("toml"):
        file.write_bytes(now.rstrip() + b"\n[later]\nx = 1 # mine\n")
    else:
        text_now = now.decode().removeprefix("\ufeff")
        file.write_text(jsonc.put(text_now, ("later",), {"x": 1}), newline="")
    edited = parsed(file)
    machine.undo(client)
    left = parsed(file)
    assert left["later"] == {"x": 1}
    assert rest_of(left, client) == rest_of(edited, client)
    if "interlock" not in text:
        assert "interlock" not in file.read_text()


@each_client
def test_undo_removes_files_and_directories_that_setup_created(
    client: str, machine: UserMachine
) -> None:
    before = machine.everything()
    assert set(machine.set_up(client)) == {"created", "changed"}
    assert git(machine.repo, "status", "--short") == ""
    machine.undo(client)
    assert machine.everything() == before
    assert not any(machine.kept.rglob("*"))


@each_client
def test_undo_keeps_a_created_file_that_has_a_persons_entries(
    client: str, machine: UserMachine
) -> None:
    machine.set_up(client)
    file = machine.repo / FILES[client][-1]
    file.write_text(jsonc.put(file.read_text(), ("theirs",), 1))
    machine.undo(client)
    assert {k: v for k, v in parsed(file).items() if k != "version"} == {"theirs": 1}


@each_client
def test_a_second_sender_replaces_the_first_and_undo_restores_the_original(
    client: str, machine: UserMachine
) -> None:
    before = machine.everything()
    machine.set_up(client)
    machine.set_up(client, "iris")
    texts = [(machine.repo / name).read_text() for name in FILES[client]]
    assert all("iris" in text and "otto" not in text for text in texts)
    machine.undo(client)
    assert machine.everything() == before


@each_client
def test_undo_keeps_an_edit_between_two_setups(client: str, machine: UserMachine) -> None:
    machine.set_up(client)
    file = machine.repo / FILES[client][-1]
    file.write_text(jsonc.put(file.read_text(), ("theirs",), 1))
    machine.set_up(client, "iris")
    machine.undo(client)
    assert {k: v for k, v in parsed(file).items() if k != "version"} == {"theirs": 1}


@each_client
def test_print_writes_nothing(client: str, machine: UserMachine) -> None:
    before = machine.everything()
    changes = machine.setting(client).answer(with_diff=True)["changes"]
    assert all(f"+++ {change['file']}" in change["diff"] for change in changes)
    assert machine.everything() == before
    assert not any(machine.kept.iterdir())


def test_a_file_with_nothing_but_a_byte_order_mark_counts_as_empty(machine: UserMachine) -> None:
    file = machine.repo / ".gemini" / "settings.json"
    file.parent.mkdir()
    file.write_bytes(b"\xef\xbb\xbf")
    machine.set_up("gemini")
    assert "interlock" in parsed(file)["mcpServers"]
    machine.undo("gemini")
    assert file.read_bytes() == b"\xef\xbb\xbf"


def test_undo_restores_empty_entries(machine: UserMachine) -> None:
    file = machine.repo / ".gemini" / "settings.json"
    file.parent.mkdir()
    file.write_text('{"hooks": {"AfterTool": []}, "mcpServers": {}}')
    machine.set_up("gemini")
    file.write_text(jsonc.put(file.read_text(), ("later",), 1))
    machine.undo("gemini")
    assert parsed(file) == {"hooks": {"AfterTool": []}, "mcpServers": {}, "later": 1}


@pytest.mark.parametrize(("client", "name"), PER_FILE)
def test_new_entries_have_the_line_ends_of_the_file(
    client: str, name: str, machine: UserMachine
) -> None:
    file = machine.repo / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"# a\r\nb = 1\r\n" if name.endswith("toml") else b'{\r\n "b": 1\r\n}\r\n')
    machine.set_up(client)
    text = file.read_bytes()
    assert text.count(b"\n") == text.count(b"\r\n") > 3


# --- without a record


@pytest.mark.parametrize(("client", "name"), PER_FILE)
@pytest.mark.parametrize("again", [False, True])
def test_undo_removes_entries_without_a_record(
    client: str, name: str, again: bool, machine: UserMachine
) -> None:
    file = machine.repo / name
    file.parent.mkdir(exist_ok=True)
    text = OLD_TOML if name.endswith("toml") else OLD.replace("CLIENT", client)
    has_server = "hooks" not in name and "local" not in name
    file.write_text(text if has_server else text.replace('"interlock": {', '"other": {', 1))
    theirs = rest_of(parsed(file), client)
    if again:
        machine.set_up(client)
        assert "who" not in file.read_text()
    machine.undo(client)
    assert not hooks_in(parsed(file), client)
    assert ("/gone" in file.read_text()) == (not has_server)
    assert rest_of(parsed(file), client) == theirs
    assert machine.undo_plan(client).changes == []


@each_client
def test_undo_removes_all_entries_of_a_deleted_workspace(client: str, machine: UserMachine) -> None:
    before = machine.everything().keys()
    machine.set_up(client)
    machine.forget()
    assert set(machine.undo(client)) == {"removed"}
    assert machine.everything().keys() == before


@each_client
@pytest.mark.parametrize("again", [False, True])
def test_undo_restores_a_moved_repository(client: str, again: bool, machine: UserMachine) -> None:
    before = {name.replace("a repo", "moved"): data for name, data in machine.everything().items()}
    machine.set_up(client)
    machine.move()
    if again:
        machine.set_up(client, "iris")
    machine.undo(client)
    assert machine.everything() == before
    assert machine.undo_plan(client).changes == []


def test_undo_keeps_hooks_of_other_programs(machine: UserMachine) -> None:
    file = machine.repo / ".gemini" / "settings.json"
    file.parent.mkdir()
    others = ["mine hook gemini Stop", "interlock hook codex Stop", "interlock hook gemini", "'"]
    hooks = [{"hooks": [{"type": "command", "command": command}]} for command in others]
    file.write_text(json.dumps({"hooks": {"Stop": hooks}, "mcpServers": {"interlock": {"url": 1}}}))
    before = file.read_bytes()
    assert machine.undo("gemini") == []
    assert file.read_bytes() == before


@each_client
def test_undo_in_the_project_reports_entries_in_the_users_configuration(
    client: str, machine: UserMachine
) -> None:
    machine.set_up(client, user=True)
    after = machine.everything()
    answer = machine.undo_plan(client).answer(with_diff=False)
    assert answer["changes"] == []
    (notice,) = answer["notices"]
    assert f"interlock setup {client} --user --undo" in notice["message"]
    machine.forget()
    machine.undo(client)
    assert machine.everything() == after
    machine.undo(client, user=True)
    assert "notices" not in machine.undo_plan(client).answer(with_diff=False)
    assert not any(b"interlock" in (data or b"") for data in machine.everything().values())


# --- git


@each_client
def test_setup_uses_the_users_files_if_git_tracks_the_projects(
    client: str, machine: UserMachine
) -> None:
    for name in FILES[client]:
        file = machine.repo / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("" if name.endswith("toml") else "{}\n")
        git(machine.repo, "add", "--force", name)
    before = machine.everything()
    answer = machine.setting(client).answer(with_diff=False)
    assert all(change["file"].startswith(str(machine.home)) for change in answer["changes"])
    assert {notice["code"] for notice in answer["notices"]} == {"TRACKED_FILE"}
    machine.set_up(client)
    assert git(machine.repo, "diff", "--stat") == ""
    assert "notices" not in machine.undo_plan(client).answer(with_diff=False)
    machine.undo(client)
    assert machine.everything() == before


@each_client
def test_undo_in_a_project_with_tracked_files_keeps_the_users_files(
    client: str, machine: UserMachine
) -> None:
    for name in FILES[client]:
        (machine.repo / name).parent.mkdir(exist_ok=True)
        (machine.repo / name).write_text("" if name.endswith("toml") else "{}\n")
        git(machine.repo, "add", "--force", name)
    machine.set_up(client, user=True)
    machine.forget()
    before = machine.everything()
    assert machine.undo(client) == []
    assert machine.everything() == before


@each_client
def test_committed_entries_count_as_set_up(client: str, machine: UserMachine) -> None:
    machine.set_up(client)
    git(machine.repo, "add", "--force", *FILES[client])
    place = place_at(str(machine.repo), {"HOME": str(machine.home)})
    assert inspect.found(client, place)[:3] == (True, True, "otto")


@pytest.mark.parametrize("first", [0, 1])
def test_the_undo_of_the_last_worktree_restores_another_server_of_that_name(
    first: int, machine: UserMachine
) -> None:
    users = machine.home / ".codex" / "config.toml"
    users.parent.mkdir()
    users.write_text(TOML["another's server of that name"])
    for name in FILES["codex"]:
        (machine.repo / name).parent.mkdir(exist_ok=True)
        (machine.repo / name).write_text("" if name.endswith("toml") else "{}")
        git(machine.repo, "add", "--force", name)
    git(machine.repo, "commit", "--quiet", "--message", "two")
    linked = machine.repo.parent / "linked"
    git(machine.repo, "worktree", "add", "--quiet", str(linked))
    before = machine.everything()
    trees = [machine.repo, linked]
    for tree in trees:
        machine.set_up("codex", at=tree)
    machine.undo("codex", at=trees[first])
    assert b"--from" in users.read_bytes()
    machine.undo("codex", at=trees[1 - first])
    assert machine.everything() == before


def test_claude_codes_server_of_one_worktree_is_in_the_users_file(machine: UserMachine) -> None:
    (machine.repo / ".mcp.json").write_text("{}")
    git(machine.repo, "add", ".mcp.json")
    users = machine.home / ".claude.json"
    users.write_text('{"projects": {"/other": {"mcpServers": {}}}, "n": 1}')
    before = users.read_bytes()
    machine.set_up("claude-code")
    server = parsed(users)["projects"][str(machine.repo)]["mcpServers"]["interlock"]
    assert server["args"][-4:] == ["--from", "otto", "--workspace", "/data/ws"]
    machine.undo("claude-code")
    assert users.read_bytes() == before


@each_client
def test_the_flag_user_selects_the_users_configuration(client: str, machine: UserMachine) -> None:
    before = machine.everything()
    answer = machine.setting(client, user=True).answer(with_diff=False)
    assert all(change["file"].startswith(str(machine.home)) for change in answer["changes"])
    machine.set_up(client, user=True)
    machine.undo(client, user=True)
    assert machine.everything() == before


@each_client
def test_the_users_configuration_does_not_name_a_repositorys_workspace(
    client: str, machine: UserMachine
) -> None:
    setting = machine.setting(client, user=True, is_repositorys=True)
    (notice,) = setting.answer(with_diff=False)["notices"]
    assert notice["code"] == "WORKSPACE_OF_ONE_REPOSITORY"
    assert all(b"--workspace" not in (change.after or b"") for change in setting.changes)
    setting = machine.setting(client, user=True)
    assert "notices" not in setting.answer(with_diff=False)
    assert all(b"--workspace" in (change.after or b"") for change in setting.changes)
    machine.set_up(client, is_repositorys=True)
    texts = [(machine.repo / name).read_text() for name in FILES[client]]
    assert all("--workspace" in text for text in texts)


# --- finding entries


@each_client
def test_a_client_is_set_up_while_its_files_have_hooks_and_server(
    client: str, machine: UserMachine
) -> None:
    place = place_at(str(machine.repo), {"HOME": str(machine.home)})
    assert inspect.found(client, place) == InstalledEntries()
    machine.set_up(client)
    machine.forget()
    there = InstalledEntries(True, True, "otto", is_dead=True, workspace="/data/ws")
    assert inspect.found(client, place) == there
    for name in FILES[client]:
        (machine.repo / name).write_text("")
    assert inspect.found(client, place) == InstalledEntries()
    machine.set_up(client, "iris", user=True)
    assert inspect.found(client, place)[:3] == (True, True, "iris")


@each_client
def test_unreadable_files_count_as_empty(client: str, machine: UserMachine) -> None:
    for name in FILES[client]:
        (machine.repo / name).parent.mkdir(exist_ok=True)
        (machine.repo / name).write_bytes(b"{ \xff")
    place = place_at(str(machine.repo), {"HOME": str(machine.home)})
    assert inspect.found(client, place) == InstalledEntries()


def test_entries_are_dead_if_their_program_does_not_exist(
    machine: UserMachine,
) -> None:
    place = place_at(str(machine.repo), {"HOME": str(machine.home)})
    caller = Invocation(this_interlock(), "otto", str(machine.kept))
    prepared("cursor", place, str(machine.kept), caller, None).apply()
    assert not inspect.found("cursor", place).is_dead
    caller = Invocation(("/gone/interlock",), "otto", str(machine.kept))
    prepared("cursor", place, str(machine.kept), caller, None).apply()
    assert inspect.found("cursor", place).is_dead


def test_the_sender_of_a_plugin_is_found(machine: UserMachine) -> None:
    at = str(machine.repo / "plugin")
    machine.set_up("claude-code", "iris", plugin=at)
    place = place_at(str(machine.repo), {"HOME": str(machine.home)})
    assert inspect.found("claude-code", place, at).sender == "iris"


def test_codex_hooks_of_a_linked_worktree_are_in_the_main_checkout(
    machine: UserMachine,
) -> None:
    linked = machine.repo.parent / "linked"
    git(machine.repo, "worktree", "add", "--quiet", str(linked))
    machine.set_up("codex", at=linked)
    assert (linked / ".codex" / "config.toml").exists()
    assert not (linked / ".codex" / "hooks.json").exists()
    assert (machine.repo / ".codex" / "hooks.json").exists()
    assert git(machine.repo, "status", "--short") == git(linked, "status", "--short") == ""


def test_shared_hooks_of_codex_stay_until_the_undo_of_the_last_worktree(
    machine: UserMachine,
) -> None:
    linked = machine.repo.parent / "linked"
    git(machine.repo, "worktree", "add", "--quiet", str(linked))
    before = machine.everything()
    machine.set_up("codex", at=linked)
    machine.set_up("codex")
    hooks = machine.repo / ".codex" / "hooks.json"
    as_set_up = hooks.read_bytes()
    setting = machine.undo_plan("codex", at=linked)
    setting.apply()
    (notice,) = setting.answer(with_diff=False)["notices"]
    assert (notice["code"], str(machine.repo) in notice["message"]) == ("SHARED_FILE", True)
    assert not (linked / ".codex").exists()
    assert hooks.read_bytes() == as_set_up
    machine.undo("codex", at=linked)
    assert hooks.read_bytes() == as_set_up
    machine.undo("codex")
    assert machine.everything() == before


def test_a_removed_worktree_does_not_count_as_a_user_of_the_file(machine: UserMachine) -> None:
    linked = machine.repo.parent / "linked"
    git(machine.repo, "worktree", "add", "--quiet", str(linked))
    before = machine.everything()
    machine.set_up("codex", at=linked)
    machine.set_up("codex")
    git(machine.repo, "worktree", "remove", "--force", str(linked))
    machine.undo("codex")
    assert machine.everything() == before


def test_a_changed_sender_of_a_shared_file_is_reported(machine: UserMachine) -> None:
    linked = machine.repo.parent / "linked"
    git(machine.repo, "worktree", "add", "--quiet", str(linked))
    machine.set_up("codex")
    assert "notices" not in machine.setting("codex", at=linked).answer(with_diff=False)
    (notice,) = machine.setting("codex", "iris", at=linked).answer(with_diff=False)["notices"]
    assert (notice["code"], "@iris" in notice["message"]) == ("SHARED_FILE", True)


def test_exclude_lines_stay_while_another_worktree_needs_them(machine: UserMachine) -> None:
    linked = machine.repo.parent / "linked"
    git(machine.repo, "worktree", "add", "--quiet", str(linked))
    before = machine.everything()
    machine.set_up("claude-code")
    machine.set_up("claude-code", at=linked)
    machine.undo("claude-code")
    assert git(linked, "status", "--short") == ""
    machine.undo("claude-code", at=linked)
    assert machine.everything() == before


def test_undo_removes_exclude_lines_that_only_another_repository_needs(
    machine: UserMachine,
) -> None:
    other = machine.repo.parent / "other"
    git(machine.repo, "clone", "--quiet", ".", str(other))
    before = machine.everything()
    machine.set_up("claude-code")
    machine.set_up("claude-code", at=other)
    machine.undo("claude-code")
    assert machine.everything() == before


def test_undo_keeps_an_exclude_line_that_existed_before_setup(machine: UserMachine) -> None:
    (machine.repo / ".git" / "info" / "exclude").write_text("/.mcp.json\n")
    before = machine.everything()
    machine.set_up("claude-code")
    with (machine.repo / ".git" / "info" / "exclude").open("a") as file:
        file.write("later\n")
    machine.undo("claude-code")
    assert (machine.repo / ".git" / "info" / "exclude").read_text() == "/.mcp.json\nlater\n"
    assert machine.everything().keys() == before.keys()


def test_outside_of_a_repository_setup_uses_the_directory(machine: UserMachine) -> None:
    here = machine.home / "plain"
    here.mkdir()
    machine.set_up("gemini", at=here)
    assert (here / ".gemini" / "settings.json").exists()
    machine.undo("gemini", at=here)
    assert not any(here.iterdir())


# --- refusals


@pytest.mark.parametrize(("client", "name"), PER_FILE)
@pytest.mark.parametrize("text", [b"{ nope", b"\xff\xfe", b"[1]"])
def test_an_invalid_file_is_named_and_nothing_changes(
    client: str, name: str, text: bytes, machine: UserMachine
) -> None:
    if name.endswith("toml") and text == b"[1]":
        return
    file = machine.repo / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text)
    before = machine.everything()
    with pytest.raises(Usage) as refused:
        machine.set_up(client)
    assert refused.value.members["file"] == str(file)
    assert machine.everything() == before
    assert not any(machine.kept.rglob("*"))


@pytest.mark.parametrize(("client", "name"), PER_FILE)
def test_a_read_only_file_is_refused_and_nothing_changes(
    client: str, name: str, machine: UserMachine
) -> None:
    file = machine.repo / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("" if name.endswith("toml") else "{}")
    file.chmod(0o444)
    before = machine.everything()
    with pytest.raises(Usage) as refused:
        machine.set_up(client)
    assert refused.value.members["file"] == str(file)
    assert "read-only" in refused.value.message
    assert machine.everything() == before
    shelf = records.shelf(str(machine.kept), {"HOME": str(machine.home)})
    assert shelf.load(client, str(machine.repo)) is None


def test_hooks_of_another_shape_are_refused(machine: UserMachine) -> None:
    (machine.repo / ".gemini").mkdir()
    (machine.repo / ".gemini" / "settings.json").write_text('{"hooks": []}')
    with pytest.raises(Usage, match="hooks is not an object"):
        machine.set_up("gemini")


def test_setup_follows_a_symbolic_link_and_keeps_it(machine: UserMachine) -> None:
    real = machine.home / "real.json"
    real.write_text("{}")
    (machine.repo / ".gemini").mkdir()
    link = machine.repo / ".gemini" / "settings.json"
    link.symlink_to(real)
    machine.set_up("gemini")
    assert link.is_symlink()
    assert "interlock" in real.read_text()
    machine.undo("gemini")
    assert (link.is_symlink(), real.read_text()) == (True, "{}")


def test_a_file_that_changed_after_the_plan_is_not_overwritten(machine: UserMachine) -> None:
    setting = machine.setting("cursor")
    (machine.repo / ".cursor").mkdir()
    (machine.repo / ".cursor" / "hooks.json").write_text("{}")
    with pytest.raises(Usage, match="another program has changed it"):
        setting.apply()
    assert not (machine.repo / ".cursor" / "mcp.json").exists()
    assert (machine.repo / ".cursor" / "hooks.json").read_text() == "{}"


# --- a plugin


def test_a_plugin_has_all_entries_and_undo_removes_it(machine: UserMachine) -> None:
    place = machine.repo / "plugin"
    before = machine.everything()
    machine.set_up("claude-code", plugin=str(place))
    assert {str(file.relative_to(place)) for file in place.rglob("*") if file.is_file()} == {
        ".claude-plugin/plugin.json",
        "hooks/hooks.json",
        "monitors/monitors.json",
        ".mcp.json",
        "skills/interlock/SKILL.md",
    }
    assert parsed(place / ".claude-plugin" / "plugin.json")["name"] == "interlock"
    assert hooks_in(parsed(place / "hooks" / "hooks.json"), "claude-code")
    (monitor,) = parsed(place / "monitors" / "monitors.json")
    assert set(monitor) == {"name", "command", "description", "when"}
    assert "watch --one-line --from otto" in monitor["command"]
    skill = (place / "skills" / "interlock" / "SKILL.md").read_text()
    assert skill.startswith("---\ndescription: ")
    assert set(machine.set_up("claude-code", plugin=str(place))) == {"unchanged"}
    machine.undo("claude-code", plugin=str(place))
    assert machine.everything() == before


def test_a_plugin_does_not_overwrite_other_files(machine: UserMachine) -> None:
    (machine.repo / "plugin").mkdir()
    (machine.repo / "plugin" / ".mcp.json").write_text("{}")
    with pytest.raises(Usage, match="Name an empty directory"):
        machine.set_up("claude-code", plugin=str(machine.repo / "plugin"))


def test_undo_keeps_a_changed_file_of_the_plugin(machine: UserMachine) -> None:
    place = machine.repo / "plugin"
    machine.set_up("claude-code", plugin=str(place))
    skill = place / "skills" / "interlock" / "SKILL.md"
    skill.write_text("mine")
    machine.undo("claude-code", plugin=str(place))
    assert [file for file in place.rglob("*") if file.is_file()] == [skill]
