"""Every client's configuration: what is written into empty, typical and messy files, that it is
written once, and that it comes out again."""

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
from interlock.agents.setup.apply import Setting, prepared, reversed_setting
from interlock.agents.setup.clients import Invocation, client_named, place_at
from interlock.agents.setup.inspect import Found
from interlock.agents.setup.own_entries import hooks_in
from interlock.errors import Usage

CALLER = Invocation(("/opt/bin/interlock",), "otto", "/data/ws")


@pytest.fixture(autouse=True)
def _git_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


class Desk:
    """A repository, a home and a workspace's home."""

    def __init__(self, root: Path) -> None:
        self.repo, self.home, self.kept = root / "a repo", root / "home", root / "kept"
        self.users = self.home / ".local" / "share" / "interlock"
        for directory in (self.repo, self.users, self.kept):
            directory.mkdir(parents=True)
        git(self.repo, "init", "--quiet", "--initial-branch", "main")
        git(self.repo, "commit", "--quiet", "--allow-empty", "--message", "one")

    def setting(self, client: str, sender: str = "otto", **given: Any) -> Setting:
        plugin, is_repositorys = given.pop("plugin", None), given.pop("is_repositorys", False)
        place = place_at(str(given.pop("at", self.repo)), {"HOME": str(self.home)}, **given)
        caller = Invocation(this_interlock(), sender, "/data/ws", is_repositorys)
        return prepared(client, place, str(self.kept), caller, plugin)

    def set_up(self, client: str, sender: str = "otto", **given: Any) -> list[str]:
        """The states of the files."""
        setting = self.setting(client, sender, **given)
        setting.apply()
        return [change["state"] for change in setting.answer(with_diff=False)["changes"]]

    def undo(self, client: str, **given: Any) -> list[str]:
        setting = self.reversed_setting(client, **given)
        setting.apply()
        return [change["state"] for change in setting.answer(with_diff=False)["changes"]]

    def reversed_setting(self, client: str, **given: Any) -> Setting:
        plugin = given.pop("plugin", None)
        place = place_at(str(given.pop("at", self.repo)), {"HOME": str(self.home)}, **given)
        return reversed_setting(client, place, str(self.kept), plugin)

    def forget(self) -> None:
        """The workspace is gone, and the records with it."""
        shutil.rmtree(self.kept)
        self.kept.mkdir()

    def move(self) -> None:
        """The repository is called otherwise from now on."""
        self.repo = self.repo.rename(self.repo.parent / "moved")

    def everything(self) -> dict[str, bytes | None]:
        """Every file and directory, but for git's own objects and the records."""
        found = [*self.repo.rglob("*"), *self.home.rglob("*")]
        return {
            str(path): path.read_bytes() if path.is_file() else None
            for path in found
            if ".git" not in path.parts or path.parts[-2:] == ("info", "exclude")
        }


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


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
    // what the team uses
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
    """What is in it that is not ours, without what is empty."""
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


# --- what is written


def test_claude_code_gets_hooks_in_local_settings_and_a_server(desk: Desk) -> None:
    desk.set_up("claude-code")
    settings = parsed(desk.repo / ".claude" / "settings.local.json")
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
    assert parsed(desk.repo / ".mcp.json")["mcpServers"]["interlock"]["args"][-5:] == [
        *("mcp", "--from", "otto", "--workspace", "/data/ws")
    ]


def test_the_hooks_of_claude_code_look_like_this() -> None:
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


def test_the_files_of_codex_look_like_this(desk: Desk) -> None:
    place = place_at(str(desk.repo), {"HOME": str(desk.home)})
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
    assert any("trust the hooks" in sentence for sentence in wanted.confirm)


def test_the_hooks_of_gemini_look_like_this() -> None:
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


def test_the_hooks_of_cursor_look_like_this(desk: Desk) -> None:
    desk.set_up("cursor")
    assert parsed(desk.repo / ".cursor" / "hooks.json")["version"] == 1
    assert client_named("cursor").hooks(CALLER)["stop"] == [
        {
            "command": "/opt/bin/interlock hook cursor stop --from otto --workspace /data/ws",
            "timeout": 10,
            "loop_limit": 5,
        }
    ]


@each_client
def test_every_hook_is_of_an_event_that_interlock_answers(client: str) -> None:
    answered = client_of(client).EVENTS
    assert set(client_named(client).hooks(CALLER)) <= set(answered)
    steps = {answered[event] for event in client_named(client).hooks(CALLER)}
    assert {"start", "prompt", "edit", "tool", "stop", "end"} <= steps


@each_client
def test_words_with_spaces_reach_interlock_whole(client: str) -> None:
    caller = Invocation(("/my apps/interlock",), "otto", "/my data/it's")
    hooks = client_named(client).hooks(caller)
    assert hooks_in({"hooks": hooks}, client) == hooks


# --- in, again, and out


@pytest.mark.parametrize(("client", "name", "text"), CASES)
def test_any_file_gets_our_entries_once_and_is_put_back_byte_for_byte(
    client: str, name: str, text: str, desk: Desk
) -> None:
    file = desk.repo / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text.encode())
    file.chmod(0o640)
    before = desk.everything()
    desk.set_up(client)
    once = desk.everything()
    assert once[str(file)] != text.encode()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    theirs = (
        tomllib.loads(text.lstrip("\ufeff"))
        if name.endswith("toml")
        else (jsonc.load(text.lstrip("\ufeff")) if text.strip() else {})
    )
    assert rest_of(parsed(file), client) == rest_of(theirs, client)
    assert set(desk.set_up(client)) == {"unchanged"}
    assert desk.everything() == once
    desk.undo(client)
    assert desk.everything() == before


@pytest.mark.parametrize(("client", "name", "text"), CASES)
def test_what_a_person_changes_afterwards_stays_when_it_is_taken_back(
    client: str, name: str, text: str, desk: Desk
) -> None:
    file = desk.repo / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text.encode())
    desk.set_up(client)
    now = file.read_bytes()
    if name.endswith("toml"):
        file.write_bytes(now.rstrip() + b"\n[later]\nx = 1 # mine\n")
    else:
        text_now = now.decode().removeprefix("\ufeff")
        file.write_text(jsonc.put(text_now, ("later",), {"x": 1}), newline="")
    edited = parsed(file)
    desk.undo(client)
    left = parsed(file)
    assert left["later"] == {"x": 1}
    assert rest_of(left, client) == rest_of(edited, client)
    if "interlock" not in text:
        assert "interlock" not in file.read_text()


@each_client
def test_files_and_directories_that_were_made_are_gone_again(client: str, desk: Desk) -> None:
    before = desk.everything()
    assert set(desk.set_up(client)) == {"created", "changed"}
    assert git(desk.repo, "status", "--short") == ""
    desk.undo(client)
    assert desk.everything() == before
    assert not any(desk.kept.rglob("*"))


@each_client
def test_a_file_of_ours_with_something_of_a_persons_stays_without_our_entries(
    client: str, desk: Desk
) -> None:
    desk.set_up(client)
    file = desk.repo / FILES[client][-1]
    file.write_text(jsonc.put(file.read_text(), ("theirs",), 1))
    desk.undo(client)
    assert {k: v for k, v in parsed(file).items() if k != "version"} == {"theirs": 1}


@each_client
def test_another_sender_takes_the_place_of_the_first_and_undo_goes_back_to_the_beginning(
    client: str, desk: Desk
) -> None:
    before = desk.everything()
    desk.set_up(client)
    desk.set_up(client, "iris")
    texts = [(desk.repo / name).read_text() for name in FILES[client]]
    assert all("iris" in text and "otto" not in text for text in texts)
    desk.undo(client)
    assert desk.everything() == before


@each_client
def test_an_edit_between_two_setups_stays_when_it_is_taken_back(client: str, desk: Desk) -> None:
    desk.set_up(client)
    file = desk.repo / FILES[client][-1]
    file.write_text(jsonc.put(file.read_text(), ("theirs",), 1))
    desk.set_up(client, "iris")
    desk.undo(client)
    assert {k: v for k, v in parsed(file).items() if k != "version"} == {"theirs": 1}


@each_client
def test_to_show_it_writes_nothing(client: str, desk: Desk) -> None:
    before = desk.everything()
    changes = desk.setting(client).answer(with_diff=True)["changes"]
    assert all(f"+++ {change['file']}" in change["diff"] for change in changes)
    assert desk.everything() == before
    assert not any(desk.kept.iterdir())


def test_a_file_with_nothing_but_a_byte_order_mark_counts_as_empty(desk: Desk) -> None:
    file = desk.repo / ".gemini" / "settings.json"
    file.parent.mkdir()
    file.write_bytes(b"\xef\xbb\xbf")
    desk.set_up("gemini")
    assert "interlock" in parsed(file)["mcpServers"]
    desk.undo("gemini")
    assert file.read_bytes() == b"\xef\xbb\xbf"


def test_what_was_empty_before_us_is_there_and_empty_after_us(desk: Desk) -> None:
    file = desk.repo / ".gemini" / "settings.json"
    file.parent.mkdir()
    file.write_text('{"hooks": {"AfterTool": []}, "mcpServers": {}}')
    desk.set_up("gemini")
    file.write_text(jsonc.put(file.read_text(), ("later",), 1))
    desk.undo("gemini")
    assert parsed(file) == {"hooks": {"AfterTool": []}, "mcpServers": {}, "later": 1}


@pytest.mark.parametrize(("client", "name"), PER_FILE)
def test_what_is_added_has_the_line_ends_of_the_file(client: str, name: str, desk: Desk) -> None:
    file = desk.repo / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"# a\r\nb = 1\r\n" if name.endswith("toml") else b'{\r\n "b": 1\r\n}\r\n')
    desk.set_up(client)
    text = file.read_bytes()
    assert text.count(b"\n") == text.count(b"\r\n") > 3


# --- without a record


@pytest.mark.parametrize(("client", "name"), PER_FILE)
@pytest.mark.parametrize("again", [False, True])
def test_entries_of_ours_that_nobody_knows_of_are_taken_out(
    client: str, name: str, again: bool, desk: Desk
) -> None:
    file = desk.repo / name
    file.parent.mkdir(exist_ok=True)
    text = OLD_TOML if name.endswith("toml") else OLD.replace("CLIENT", client)
    has_server = "hooks" not in name and "local" not in name
    file.write_text(text if has_server else text.replace('"interlock": {', '"other": {', 1))
    theirs = rest_of(parsed(file), client)
    if again:
        desk.set_up(client)
        assert "who" not in file.read_text()
    desk.undo(client)
    assert not hooks_in(parsed(file), client)
    assert ("/gone" in file.read_text()) == (not has_server)
    assert rest_of(parsed(file), client) == theirs
    assert desk.reversed_setting(client).changes == []


@each_client
def test_when_the_workspace_is_gone_undo_takes_everything_out(client: str, desk: Desk) -> None:
    before = desk.everything().keys()
    desk.set_up(client)
    desk.forget()
    assert set(desk.undo(client)) == {"removed"}
    assert desk.everything().keys() == before


@each_client
@pytest.mark.parametrize("again", [False, True])
def test_a_moved_repository_is_as_before_after_undo(client: str, again: bool, desk: Desk) -> None:
    before = {name.replace("a repo", "moved"): data for name, data in desk.everything().items()}
    desk.set_up(client)
    desk.move()
    if again:
        desk.set_up(client, "iris")
    desk.undo(client)
    assert desk.everything() == before
    assert desk.reversed_setting(client).changes == []


def test_a_hook_of_another_program_is_not_ours(desk: Desk) -> None:
    file = desk.repo / ".gemini" / "settings.json"
    file.parent.mkdir()
    others = ["mine hook gemini Stop", "interlock hook codex Stop", "interlock hook gemini", "'"]
    hooks = [{"hooks": [{"type": "command", "command": command}]} for command in others]
    file.write_text(json.dumps({"hooks": {"Stop": hooks}, "mcpServers": {"interlock": {"url": 1}}}))
    before = file.read_bytes()
    assert desk.undo("gemini") == []
    assert file.read_bytes() == before


@each_client
def test_undo_in_the_project_says_what_is_left_in_the_users_configuration(
    client: str, desk: Desk
) -> None:
    desk.set_up(client, user=True)
    after = desk.everything()
    answer = desk.reversed_setting(client).answer(with_diff=False)
    assert answer["changes"] == []
    (notice,) = answer["notices"]
    assert f"interlock setup {client} --user --undo" in notice["message"]
    desk.forget()
    desk.undo(client)
    assert desk.everything() == after
    desk.undo(client, user=True)
    assert "notices" not in desk.reversed_setting(client).answer(with_diff=False)
    assert not any(b"interlock" in (data or b"") for data in desk.everything().values())


# --- git


@each_client
def test_tracked_files_get_nothing_and_the_users_own_are_used(client: str, desk: Desk) -> None:
    for name in FILES[client]:
        file = desk.repo / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("" if name.endswith("toml") else "{}\n")
        git(desk.repo, "add", "--force", name)
    before = desk.everything()
    answer = desk.setting(client).answer(with_diff=False)
    assert all(change["file"].startswith(str(desk.home)) for change in answer["changes"])
    assert {notice["code"] for notice in answer["notices"]} == {"TRACKED_FILE"}
    desk.set_up(client)
    assert git(desk.repo, "diff", "--stat") == ""
    assert "notices" not in desk.reversed_setting(client).answer(with_diff=False)
    desk.undo(client)
    assert desk.everything() == before


@each_client
def test_undo_in_the_project_leaves_the_users_files_alone_where_the_projects_are_tracked(
    client: str, desk: Desk
) -> None:
    for name in FILES[client]:
        (desk.repo / name).parent.mkdir(exist_ok=True)
        (desk.repo / name).write_text("" if name.endswith("toml") else "{}\n")
        git(desk.repo, "add", "--force", name)
    desk.set_up(client, user=True)
    desk.forget()
    before = desk.everything()
    assert desk.undo(client) == []
    assert desk.everything() == before


@each_client
def test_what_a_team_has_committed_counts_as_set_up(client: str, desk: Desk) -> None:
    desk.set_up(client)
    git(desk.repo, "add", "--force", *FILES[client])
    place = place_at(str(desk.repo), {"HOME": str(desk.home)})
    assert inspect.found(client, place)[:3] == (True, True, "otto")


@pytest.mark.parametrize("first", [0, 1])
def test_anothers_server_of_that_name_comes_back_with_the_last_worktree(
    first: int, desk: Desk
) -> None:
    users = desk.home / ".codex" / "config.toml"
    users.parent.mkdir()
    users.write_text(TOML["another's server of that name"])
    for name in FILES["codex"]:
        (desk.repo / name).parent.mkdir(exist_ok=True)
        (desk.repo / name).write_text("" if name.endswith("toml") else "{}")
        git(desk.repo, "add", "--force", name)
    git(desk.repo, "commit", "--quiet", "--message", "two")
    linked = desk.repo.parent / "linked"
    git(desk.repo, "worktree", "add", "--quiet", str(linked))
    before = desk.everything()
    trees = [desk.repo, linked]
    for tree in trees:
        desk.set_up("codex", at=tree)
    desk.undo("codex", at=trees[first])
    assert b"--from" in users.read_bytes()
    desk.undo("codex", at=trees[1 - first])
    assert desk.everything() == before


def test_claude_codes_server_of_one_worktree_stands_in_the_users_file(desk: Desk) -> None:
    (desk.repo / ".mcp.json").write_text("{}")
    git(desk.repo, "add", ".mcp.json")
    users = desk.home / ".claude.json"
    users.write_text('{"projects": {"/other": {"mcpServers": {}}}, "n": 1}')
    before = users.read_bytes()
    desk.set_up("claude-code")
    server = parsed(users)["projects"][str(desk.repo)]["mcpServers"]["interlock"]
    assert server["args"][-4:] == ["--from", "otto", "--workspace", "/data/ws"]
    desk.undo("claude-code")
    assert users.read_bytes() == before


@each_client
def test_the_users_own_configuration_is_used_on_purpose(client: str, desk: Desk) -> None:
    before = desk.everything()
    answer = desk.setting(client, user=True).answer(with_diff=False)
    assert all(change["file"].startswith(str(desk.home)) for change in answer["changes"])
    desk.set_up(client, user=True)
    desk.undo(client, user=True)
    assert desk.everything() == before


@each_client
def test_a_workspace_of_one_repository_is_not_named_for_every_project(
    client: str, desk: Desk
) -> None:
    setting = desk.setting(client, user=True, is_repositorys=True)
    (notice,) = setting.answer(with_diff=False)["notices"]
    assert notice["code"] == "WORKSPACE_OF_ONE_REPOSITORY"
    assert all(b"--workspace" not in (change.after or b"") for change in setting.changes)
    setting = desk.setting(client, user=True)
    assert "notices" not in setting.answer(with_diff=False)
    assert all(b"--workspace" in (change.after or b"") for change in setting.changes)
    desk.set_up(client, is_repositorys=True)
    texts = [(desk.repo / name).read_text() for name in FILES[client]]
    assert all("--workspace" in text for text in texts)


# --- what is found by looking


@each_client
def test_a_client_is_set_up_while_its_hooks_and_its_server_are_there(
    client: str, desk: Desk
) -> None:
    place = place_at(str(desk.repo), {"HOME": str(desk.home)})
    assert inspect.found(client, place) == Found()
    desk.set_up(client)
    desk.forget()
    there = Found(True, True, "otto", is_dead=True, workspace="/data/ws")
    assert inspect.found(client, place) == there
    for name in FILES[client]:
        (desk.repo / name).write_text("")
    assert inspect.found(client, place) == Found()
    desk.set_up(client, "iris", user=True)
    assert inspect.found(client, place)[:3] == (True, True, "iris")


@each_client
def test_files_that_cannot_be_read_say_nothing(client: str, desk: Desk) -> None:
    for name in FILES[client]:
        (desk.repo / name).parent.mkdir(exist_ok=True)
        (desk.repo / name).write_bytes(b"{ \xff")
    place = place_at(str(desk.repo), {"HOME": str(desk.home)})
    assert inspect.found(client, place) == Found()


def test_what_is_called_is_alive_while_program_and_workspace_are_there(desk: Desk) -> None:
    place = place_at(str(desk.repo), {"HOME": str(desk.home)})
    caller = Invocation(this_interlock(), "otto", str(desk.kept))
    prepared("cursor", place, str(desk.kept), caller, None).apply()
    assert not inspect.found("cursor", place).is_dead
    caller = Invocation(("/gone/interlock",), "otto", str(desk.kept))
    prepared("cursor", place, str(desk.kept), caller, None).apply()
    assert inspect.found("cursor", place).is_dead


def test_a_plugin_says_whom_it_acts_as(desk: Desk) -> None:
    at = str(desk.repo / "plugin")
    desk.set_up("claude-code", "iris", plugin=at)
    place = place_at(str(desk.repo), {"HOME": str(desk.home)})
    assert inspect.found("claude-code", place, at).sender == "iris"


def test_codex_finds_the_hooks_of_a_linked_worktree_in_the_main_checkout(desk: Desk) -> None:
    linked = desk.repo.parent / "linked"
    git(desk.repo, "worktree", "add", "--quiet", str(linked))
    desk.set_up("codex", at=linked)
    assert (linked / ".codex" / "config.toml").exists()
    assert not (linked / ".codex" / "hooks.json").exists()
    assert (desk.repo / ".codex" / "hooks.json").exists()
    assert git(desk.repo, "status", "--short") == git(linked, "status", "--short") == ""


def test_shared_hooks_of_codex_stay_until_the_last_worktree_is_taken_back(desk: Desk) -> None:
    linked = desk.repo.parent / "linked"
    git(desk.repo, "worktree", "add", "--quiet", str(linked))
    before = desk.everything()
    desk.set_up("codex", at=linked)
    desk.set_up("codex")
    hooks = desk.repo / ".codex" / "hooks.json"
    as_set_up = hooks.read_bytes()
    setting = desk.reversed_setting("codex", at=linked)
    setting.apply()
    (notice,) = setting.answer(with_diff=False)["notices"]
    assert (notice["code"], str(desk.repo) in notice["message"]) == ("SHARED_FILE", True)
    assert not (linked / ".codex").exists()
    assert hooks.read_bytes() == as_set_up
    desk.undo("codex", at=linked)
    assert hooks.read_bytes() == as_set_up
    desk.undo("codex")
    assert desk.everything() == before


def test_a_worktree_that_is_gone_uses_nothing(desk: Desk) -> None:
    linked = desk.repo.parent / "linked"
    git(desk.repo, "worktree", "add", "--quiet", str(linked))
    before = desk.everything()
    desk.set_up("codex", at=linked)
    desk.set_up("codex")
    git(desk.repo, "worktree", "remove", "--force", str(linked))
    desk.undo("codex")
    assert desk.everything() == before


def test_whoever_renames_the_client_of_another_worktree_is_told(desk: Desk) -> None:
    linked = desk.repo.parent / "linked"
    git(desk.repo, "worktree", "add", "--quiet", str(linked))
    desk.set_up("codex")
    assert "notices" not in desk.setting("codex", at=linked).answer(with_diff=False)
    (notice,) = desk.setting("codex", "iris", at=linked).answer(with_diff=False)["notices"]
    assert (notice["code"], "@iris" in notice["message"]) == ("SHARED_FILE", True)


def test_lines_for_git_stay_while_another_worktree_needs_them(desk: Desk) -> None:
    linked = desk.repo.parent / "linked"
    git(desk.repo, "worktree", "add", "--quiet", str(linked))
    before = desk.everything()
    desk.set_up("claude-code")
    desk.set_up("claude-code", at=linked)
    desk.undo("claude-code")
    assert git(linked, "status", "--short") == ""
    desk.undo("claude-code", at=linked)
    assert desk.everything() == before


def test_a_line_that_was_there_before_us_stays(desk: Desk) -> None:
    (desk.repo / ".git" / "info" / "exclude").write_text("/.mcp.json\n")
    before = desk.everything()
    desk.set_up("claude-code")
    with (desk.repo / ".git" / "info" / "exclude").open("a") as file:
        file.write("later\n")
    desk.undo("claude-code")
    assert (desk.repo / ".git" / "info" / "exclude").read_text() == "/.mcp.json\nlater\n"
    assert desk.everything().keys() == before.keys()


def test_outside_of_a_repository_the_files_are_those_of_the_directory(desk: Desk) -> None:
    here = desk.home / "plain"
    here.mkdir()
    desk.set_up("gemini", at=here)
    assert (here / ".gemini" / "settings.json").exists()
    desk.undo("gemini", at=here)
    assert not any(here.iterdir())


# --- what is refused


@pytest.mark.parametrize(("client", "name"), PER_FILE)
@pytest.mark.parametrize("text", [b"{ nope", b"\xff\xfe", b"[1]"])
def test_a_file_that_cannot_be_read_is_named_and_nothing_changes(
    client: str, name: str, text: bytes, desk: Desk
) -> None:
    if name.endswith("toml") and text == b"[1]":
        return
    file = desk.repo / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text)
    before = desk.everything()
    with pytest.raises(Usage) as refused:
        desk.set_up(client)
    assert refused.value.members["file"] == str(file)
    assert desk.everything() == before
    assert not any(desk.kept.rglob("*"))


@pytest.mark.parametrize(("client", "name"), PER_FILE)
def test_a_read_only_file_is_refused_and_nothing_changes(
    client: str, name: str, desk: Desk
) -> None:
    file = desk.repo / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("" if name.endswith("toml") else "{}")
    file.chmod(0o444)
    before = desk.everything()
    with pytest.raises(Usage) as refused:
        desk.set_up(client)
    assert refused.value.members["file"] == str(file)
    assert "read-only" in refused.value.message
    assert desk.everything() == before
    shelf = records.shelf(str(desk.kept), {"HOME": str(desk.home)})
    assert shelf.load(client, str(desk.repo)) is None


def test_hooks_of_another_shape_are_refused(desk: Desk) -> None:
    (desk.repo / ".gemini").mkdir()
    (desk.repo / ".gemini" / "settings.json").write_text('{"hooks": []}')
    with pytest.raises(Usage, match="hooks is no object"):
        desk.set_up("gemini")


def test_a_link_is_followed_and_stays_one(desk: Desk) -> None:
    real = desk.home / "real.json"
    real.write_text("{}")
    (desk.repo / ".gemini").mkdir()
    link = desk.repo / ".gemini" / "settings.json"
    link.symlink_to(real)
    desk.set_up("gemini")
    assert link.is_symlink()
    assert "interlock" in real.read_text()
    desk.undo("gemini")
    assert (link.is_symlink(), real.read_text()) == (True, "{}")


def test_a_file_that_somebody_changes_meanwhile_is_not_overwritten(desk: Desk) -> None:
    setting = desk.setting("cursor")
    (desk.repo / ".cursor").mkdir()
    (desk.repo / ".cursor" / "hooks.json").write_text("{}")
    with pytest.raises(Usage, match="somebody else is changing it"):
        setting.apply()
    assert not (desk.repo / ".cursor" / "mcp.json").exists()
    assert (desk.repo / ".cursor" / "hooks.json").read_text() == "{}"


# --- a plugin


def test_a_plugin_holds_everything_and_is_gone_again(desk: Desk) -> None:
    place = desk.repo / "plugin"
    before = desk.everything()
    desk.set_up("claude-code", plugin=str(place))
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
    assert set(desk.set_up("claude-code", plugin=str(place))) == {"unchanged"}
    desk.undo("claude-code", plugin=str(place))
    assert desk.everything() == before


def test_a_plugin_is_not_written_over_files_of_others(desk: Desk) -> None:
    (desk.repo / "plugin").mkdir()
    (desk.repo / "plugin" / ".mcp.json").write_text("{}")
    with pytest.raises(Usage, match="name an empty or a new one"):
        desk.set_up("claude-code", plugin=str(desk.repo / "plugin"))


def test_a_file_of_the_plugin_that_was_changed_stays(desk: Desk) -> None:
    place = desk.repo / "plugin"
    desk.set_up("claude-code", plugin=str(place))
    skill = place / "skills" / "interlock" / "SKILL.md"
    skill.write_text("mine")
    desk.undo("claude-code", plugin=str(place))
    assert [file for file in place.rglob("*") if file.is_file()] == [skill]
