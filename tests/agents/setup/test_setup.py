"""`interlock setup` as people type it: who the client becomes, what is shown, done, taken back."""

import copy
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from world.commandline import Place

pytestmark = pytest.mark.every_engine

CLIENTS = ("claude-code", "codex", "gemini", "cursor")
each_client = pytest.mark.parametrize("client", CLIENTS)


@pytest.fixture
def desk(place: Place) -> Place:
    """Somebody who stands in a repository, and has joined nothing yet."""
    subprocess.run(["git", "init", "--quiet", str(place.cwd)], check=True, timeout=60)
    return place


def files(place: Place) -> dict[str, bytes]:
    return {
        str(file): file.read_bytes()
        for file in [*place.cwd.rglob("*"), *place.home.rglob("*")]
        if file.is_file() and (".git" not in file.parts or file.name == "exclude")
    }


def mcp_words(place: Place) -> list[str]:
    server = json.loads((place.cwd / ".mcp.json").read_text())["mcpServers"]["interlock"]
    return [server["command"], *server["args"]]


def states(answer: Any) -> set[str]:
    return {change["state"] for change in answer["changes"]}


@each_client
def test_setup_can_be_shown_done_repeated_and_taken_back(client: str, desk: Place) -> None:
    before = files(desk)
    shown = desk.ok("setup", client, "--print")
    assert (files(desk), shown["joins"]) == (before, True)
    assert not desk.workspace.exists()
    done = desk.ok("setup", client)
    assert done["joined"] is True
    assert [change["file"] for change in shown["changes"]] == [
        change["file"] for change in done["changes"]
    ]
    assert done["confirm"]
    after = files(desk)
    again = desk.ok("setup", client)
    assert (states(again), files(desk)) == ({"unchanged"}, after)
    assert "joined" not in again
    assert states(desk.ok("setup", client, "--undo", "--print")) <= {"removed", "changed"}
    assert files(desk) == after
    desk.ok("setup", client, "--undo")
    assert files(desk) == before
    assert desk.ok("setup", client, "--undo")["changes"] == []


@each_client
def test_no_token_is_written_into_a_clients_files(client: str, desk: Place) -> None:
    desk.ok("setup", client)
    kept = [json.loads(file.read_text()) for file in (desk.workspace / "credentials").iterdir()]
    assert len(kept) == 1
    assert all(kept[0]["token"].encode() not in data for data in files(desk).values())
    assert all(b"ilk_" not in data for data in files(desk).values())


def test_the_server_that_is_written_starts_and_is_the_client(desk: Place) -> None:
    desk.ok("setup", "claude-code")
    words = mcp_words(desk)
    assert Path(words[0]).is_absolute()
    opening = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    }
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call"}
    call["params"] = {"name": "whoami", "arguments": {}}
    began = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    lines = "".join(json.dumps(each) + "\n" for each in (opening, began, call))
    environ = desk.environ | {"INTERLOCK_WORKSPACE": str(desk.root / "elsewhere")}
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, cwd=desk.root, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(lines)
        child.stdin.flush()
        answers = [json.loads(child.stdout.readline()) for _ in range(2)]
        child.stdin.close()
        child.wait(timeout=60)
    assert answers[1]["result"]["structuredContent"]["sender"] == "claude"


def test_two_clients_are_two_senders(desk: Place) -> None:
    assert [desk.ok("setup", client)["sender"] for client in CLIENTS] == [
        *("@claude", "@codex", "@gemini", "@cursor")
    ]


def test_the_one_agent_that_has_joined_is_who_a_client_becomes(desk: Place) -> None:
    desk.join("otto", "cli")
    answer = desk.ok("setup", "claude-code")
    assert (answer["sender"], "joined" in answer) == ("@otto-cli", False)
    assert mcp_words(desk)[-4:] == ["--from", "otto-cli", "--workspace", str(desk.workspace)]
    assert desk.ok("setup", "codex")["sender"] == "@codex"


def test_a_client_does_not_become_a_person(desk: Place) -> None:
    desk.join("vera", None, "--kind", "human")
    before = files(desk)
    refused = desk.no("USAGE", "setup", "claude-code", "--from", "vera")
    assert "@vera is a person" in refused["message"]
    assert "interlock setup claude-code --from NAME" in refused["message"]
    assert files(desk) == before
    assert desk.ok("setup", "claude-code")["sender"] == "@claude"


@each_client
def test_a_second_time_the_client_stays_who_it_is(client: str, desk: Place) -> None:
    for name in ("otto", "pia"):
        desk.join(name)
    desk.ok("setup", client, "--from", "pia")
    again = desk.ok("setup", client)
    assert (again["sender"], "joined" in again) == ("@pia", False)
    assert states(again) == {"unchanged"}
    assert desk.ok("setup", client, "--from", "otto")["sender"] == "@otto"


def test_who_is_named_in_the_files_joins_a_new_workspace(desk: Place) -> None:
    desk.join("otto")
    desk.ok("setup", "gemini", "--from", "otto")
    elsewhere = desk.but(INTERLOCK_WORKSPACE=str(desk.root / "elsewhere"))
    answer = elsewhere.ok("setup", "gemini")
    assert (answer["sender"], answer["joined"]) == ("@otto", True)


def test_a_person_that_is_named_in_the_files_is_not_taken(desk: Place) -> None:
    desk.join("otto")
    desk.ok("setup", "gemini", "--from", "otto")
    elsewhere = desk.but(INTERLOCK_WORKSPACE=str(desk.root / "elsewhere"))
    elsewhere.join("otto", None, "--kind", "human")
    assert elsewhere.ok("setup", "gemini")["sender"] == "@gemini"


@pytest.mark.parametrize("words", [(), ("--from", "otto")])
def test_to_look_leaves_no_trace_of_anybody(words: tuple[str, ...], desk: Place) -> None:
    for name in ("otto", "pia"):
        desk.join(name)
    desk.ok("setup", "claude-code", "--print", *words)
    assert not any("last_seen" in agent for agent in desk.ok("agents")["agents"])


def test_a_person_called_like_the_client_is_not_taken_for_it(desk: Place) -> None:
    desk.join("claude", None, "--kind", "human")
    (desk.workspace / "credentials" / "claude.json").unlink()
    before = files(desk)
    desk.no("NAME_TAKEN", "setup", "claude-code")
    assert files(desk) == before


def test_an_agent_whose_token_is_elsewhere_gets_one_for_here(desk: Place) -> None:
    desk.join("claude")
    (desk.workspace / "credentials" / "claude.json").unlink()
    desk.ok("setup", "claude-code")
    assert desk.ok("whoami", "--from", "claude")["sender"] == "claude"


def test_whoever_is_named_must_have_joined(joined: Place) -> None:
    assert joined.ok("setup", "gemini", "--from", "otto-cli")["sender"] == "@otto-cli"
    before = files(joined)
    joined.no("UNKNOWN_SENDER", "setup", "cursor", "--from", "nobody")
    assert files(joined) == before


def test_inside_of_a_session_the_client_is_who_acts(joined: Place) -> None:
    token = joined.ok("token", "mint", "--sender", "otto-cli")["token"]
    inside = joined.but(INTERLOCK_TOKEN=token)
    assert inside.ok("setup", "codex")["sender"] == "@otto-cli"
    inside.no("IDENTITY_MISMATCH", "setup", "codex", "--from", "vera")
    (joined.workspace / "credentials" / "otto-cli.json").unlink()
    inside.no("UNKNOWN_SENDER", "setup", "codex")


def test_alone_it_lists_every_client_and_makes_no_workspace(desk: Place) -> None:
    (desk.home / ".codex").mkdir()
    rows = {row["client"]: row for row in desk.ok("setup")["clients"]}
    assert [*rows] == [*CLIENTS, "git"]
    assert rows["codex"] == {
        "client": "codex",
        "set_up": False,
        "hooks": False,
        "server": False,
        "command": "interlock setup codex",
        "found": str(desk.home / ".codex"),
    }
    assert "found" in rows["git"]
    assert not desk.workspace.exists()
    desk.ok("setup", "codex")
    desk.ok("setup", "git")
    rows = {row["client"]: row for row in desk.ok("setup")["clients"]}
    assert {name for name, row in rows.items() if row["set_up"]} == {"codex", "git"}
    assert rows["codex"]["sender"] == "@codex"


def test_what_is_there_and_what_is_set_up_are_two_columns(desk: Place) -> None:
    desk.ok("setup", "codex")
    desk.ok("setup", "claude-code")
    (desk.cwd / ".codex" / "hooks.json").unlink()
    (desk.home / ".gemini").mkdir()
    rows = {row.split()[0]: row for row in desk.run("setup", PATH="").text.splitlines()}
    assert "  not installed  server only as @codex " in rows["codex"]
    assert "  not installed  set up as @claude " in rows["claude-code"]
    assert "  installed      not set up " in rows["gemini"]
    assert "  not installed  not set up " in rows["cursor"]
    shutil.rmtree(desk.workspace)
    assert "set up as @claude, but the command that it calls no longer" in desk.run("setup").text


def test_setup_in_the_users_configuration_names_no_workspace_of_a_repository(desk: Place) -> None:
    at_home = desk.but(INTERLOCK_WORKSPACE=None)
    at_home.ok("init", "--here")
    answer = at_home.ok("setup", "gemini", "--user")
    assert [notice["code"] for notice in answer["notices"]] == ["WORKSPACE_OF_ONE_REPOSITORY"]
    settings = desk.home / ".gemini" / "settings.json"
    assert "--from gemini" in settings.read_text()
    assert "--workspace" not in settings.read_text()
    named = str(desk.cwd / ".git" / "interlock")
    at_home.ok("setup", "gemini", "--user", "--workspace", named)
    assert f"--workspace {named}" in settings.read_text()


def test_undo_finds_entries_whose_workspace_is_gone(desk: Place) -> None:
    before = files(desk)
    at_home = desk.but(INTERLOCK_WORKSPACE=None)
    at_home.ok("init", "--here")
    at_home.ok("setup", "claude-code")
    shutil.rmtree(desk.cwd / ".git" / "interlock")
    assert states(at_home.ok("setup", "claude-code", "--undo")) == {"removed"}
    assert files(desk).keys() == before.keys()


def test_undo_says_what_is_left_in_the_users_configuration(desk: Place) -> None:
    desk.ok("setup", "codex", "--user")
    text = desk.run("setup", "codex", "--undo").text
    assert text.startswith("Nothing to change.\n")
    assert text.endswith("interlock setup codex --user --undo\n")


def test_a_program_on_the_path_is_found(desk: Place) -> None:
    program = desk.root / "bin" / "gemini"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    rows = desk.ok("setup", PATH=f"{program.parent}:{desk.environ['PATH']}")["clients"]
    assert next(row for row in rows if row["client"] == "gemini")["found"] == str(program)


def test_the_hooks_of_git_are_shown_installed_and_taken_back(desk: Place) -> None:
    hooks = desk.cwd / ".git" / "hooks"
    before = {file.name for file in hooks.iterdir()}
    shown = desk.ok("setup", "git", "--print")["changes"]
    assert {file.name for file in hooks.iterdir()} == before
    installed = desk.ok("setup", "git")["hooks"]
    assert [change["file"] for change in shown] == [hook["path"] for hook in installed]
    for change in shown:
        written = Path(change["file"]).read_text()
        assert all(f"+{line}" in change["diff"] for line in written.splitlines())
    assert states(desk.ok("setup", "git", "--print")) == {"unchanged"}
    back = desk.ok("setup", "git", "--undo", "--print")
    assert states(back) == {"removed"}
    assert {change["file"] for change in back["changes"]} == {hook["path"] for hook in installed}
    assert all(Path(hook["path"]).exists() for hook in installed)
    desk.ok("setup", "git", "--undo")
    assert {file.name for file in hooks.iterdir()} == before
    assert desk.ok("setup", "git", "--undo", "--print")["changes"] == []


def test_the_hook_of_git_from_before_is_shown_to_come_back(desk: Place) -> None:
    hook = desk.cwd / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho mine\n")
    hook.chmod(0o755)
    desk.ok("setup", "git")
    rows = desk.ok("setup", "git", "--undo", "--print")["changes"]
    assert (rows[0]["file"], rows[0]["state"]) == (str(hook), "changed")
    assert "\n+echo mine\n" in rows[0]["diff"]
    assert (rows[1]["file"], rows[1]["state"]) == (f"{hook}.before-interlock", "removed")
    desk.ok("setup", "git", "--undo")
    assert hook.read_text() == "#!/bin/sh\necho mine\n"


@pytest.mark.parametrize(
    "words",
    ["--print", "--undo", "codex --plugin x", "git --user", "git --plugin x"],
)
def test_what_makes_no_sense_together_is_refused(words: str, desk: Place) -> None:
    before = files(desk)
    desk.no("USAGE", "setup", *words.split())
    assert files(desk) == before


def test_a_client_that_is_nearly_named_is_offered(desk: Place) -> None:
    refused = desk.no("USAGE", "setup", "claude")
    assert "Did you mean claude-code?" in refused["message"]
    assert refused["did_you_mean"] == ["claude-code"]


def test_setup_of_git_outside_of_a_repository_says_so(place: Place) -> None:
    assert "no git repository" in place.no("USAGE", "setup", "git")["message"]
    assert "no git repository" in place.no("USAGE", "setup", "git", "--print")["message"]


def test_a_broken_file_stops_it_before_anybody_joins(desk: Place) -> None:
    (desk.cwd / ".mcp.json").write_text("{ nope")
    refused = desk.no("USAGE", "setup", "claude-code")
    assert refused["file"] == str(desk.cwd / ".mcp.json")
    assert not (desk.workspace / "credentials").exists()


def test_a_plugin_is_written_where_one_says(desk: Place) -> None:
    desk.ok("setup", "claude-code", "--plugin", "the plugin")
    assert (desk.cwd / "the plugin" / ".claude-plugin" / "plugin.json").exists()
    desk.ok("setup", "claude-code", "--plugin", "the plugin", "--undo")
    assert not (desk.cwd / "the plugin").exists()


def test_people_are_told_what_happened_and_what_is_left_to_do(desk: Place) -> None:
    text = desk.run("setup", "codex").text
    assert text.startswith("@codex joined.\nCodex acts as @codex here.\ncreated  ")
    assert "To do: Type /hooks in Codex" in text
    assert sys.executable not in text
    assert desk.run("setup", "codex").text.startswith("Codex acts as @codex here.\nunchanged  ")
    text = desk.run("setup", "cursor", "--user").text
    assert text.startswith("@cursor joined.\nCursor acts as @cursor in every project.\n")


def test_what_is_only_shown_is_said_to_be_what_would_happen(desk: Place) -> None:
    text = desk.run("setup", "cursor", "--print").text
    assert text.startswith("@cursor would join.\nCursor would act as @cursor here.\nwould create  ")
    assert f"\nwould change  {desk.cwd / '.git' / 'info' / 'exclude'}\n" in text
    assert desk.ok("setup", "cursor", "--print")["applied"] is False
    assert desk.ok("setup", "cursor")["applied"] is True
    undone = desk.run("setup", "cursor", "--undo", "--print").text
    assert undone.startswith("would remove  ")
    desk.run("setup", "git")
    assert desk.run("setup", "git", "--undo", "--print").text.startswith("would remove  ")


@pytest.mark.parametrize("name", [".mcp.json", "settings.local.json"])
def test_a_file_that_cannot_be_written_stops_it_before_anybody_joins(
    name: str, desk: Place
) -> None:
    (desk.cwd / ".claude").mkdir()
    file = desk.cwd / ("" if name == ".mcp.json" else ".claude") / name
    file.write_text("{}")
    file.chmod(0o444)
    assert desk.no("USAGE", "setup", "claude-code")["file"] == str(file)
    assert not desk.workspace.exists()


def test_what_is_the_users_is_taken_back_from_anywhere_byte_for_byte(desk: Place) -> None:
    settings = desk.home / ".gemini" / "settings.json"
    settings.parent.mkdir()
    settings.write_text("{ }\n")
    at_home = desk.but(INTERLOCK_WORKSPACE=None)
    at_home.ok("init", "--here")
    at_home.ok("setup", "gemini", "--user")
    elsewhere = copy.copy(at_home)
    elsewhere.cwd = desk.root / "elsewhere"
    elsewhere.cwd.mkdir()
    elsewhere.ok("setup", "gemini", "--user", "--undo")
    assert settings.read_text() == "{ }\n"
    assert at_home.ok("doctor")["ok"] is True


def test_a_link_that_led_nowhere_leads_nowhere_again(desk: Place) -> None:
    link, target = desk.cwd / ".mcp.json", desk.root / "dots" / "mcp.json"
    link.symlink_to(target)
    desk.ok("setup", "claude-code")
    assert target.exists()
    desk.ok("setup", "claude-code", "--undo")
    assert link.is_symlink()
    assert not target.parent.exists()


def test_a_server_of_anothers_that_is_called_like_ours_is_named_and_comes_back(
    desk: Place,
) -> None:
    servers = desk.cwd / ".mcp.json"
    servers.write_text('{"mcpServers": {"interlock": {"command": "theirs"}}}')
    notices = desk.ok("setup", "claude-code")["notices"]
    assert [notice["code"] for notice in notices] == ["OTHERS_SERVER"]
    assert "notices" not in desk.ok("setup", "claude-code")
    desk.ok("setup", "claude-code", "--undo")
    assert servers.read_text() == '{"mcpServers": {"interlock": {"command": "theirs"}}}'


@pytest.mark.parametrize("setting", [".githooks", ".husky/_"])
def test_hooks_of_the_repository_are_listed_and_shown_as_they_are_set_up(
    setting: str, desk: Place
) -> None:
    home = desk.cwd / setting.removesuffix("/_")
    (desk.cwd / setting).mkdir(parents=True)
    (home / "pre-commit").write_text("#!/bin/sh\n")

    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(desk.cwd), *words], check=True, timeout=60)

    git("config", "core.hooksPath", setting)
    git("add", str(home))
    wanted = desk.no("USAGE", "setup", "git")["add"]
    assert desk.no("USAGE", "setup", "git", "--print")["add"] == wanted
    assert desk.ok("setup")["clients"][-1]["set_up"] is False
    for each in wanted:
        with open(each["file"], "a") as file:
            file.write(each["line"] + "\n")
    assert {hook["state"] for hook in desk.ok("setup", "git")["hooks"]} == {"by hand"}
    assert desk.ok("setup", "git", "--print")["changes"] == []
    assert desk.ok("setup")["clients"][-1]["set_up"] is True


def test_without_hooks_at_all_the_list_is_there_all_the_same(desk: Place) -> None:
    git = ["git", "-C", str(desk.cwd), "config", "core.hooksPath", "/dev/null"]
    subprocess.run(git, check=True, timeout=60)
    row = desk.ok("setup")["clients"][-1]
    assert (row["client"], row["set_up"]) == ("git", False)
    desk.no("USAGE", "setup", "git")


def test_outside_of_a_repository_git_is_there_and_the_repository_is_not(place: Place) -> None:
    row = place.run("setup").text.splitlines()[-1]
    assert row.split("  ")[0] == "git"
    assert "  installed      no repository here  " in row


def test_a_plugin_in_a_worktree_is_hidden_from_git(desk: Place) -> None:
    before = files(desk)
    desk.ok("setup", "claude-code", "--plugin", "plugin")
    said = subprocess.run(
        ["git", "-C", str(desk.cwd), "status", "--short"], capture_output=True, timeout=60
    )
    assert said.stdout == b""
    desk.ok("setup", "claude-code", "--plugin", "plugin", "--undo")
    assert files(desk) == before


@pytest.mark.parametrize("client", ["codex", "gemini", "cursor"])
def test_what_is_to_be_confirmed_is_of_the_files_that_were_written(
    client: str, desk: Place
) -> None:
    assert any("trust" in each for each in desk.ok("setup", client, "--print")["confirm"])
    for name in ("settings.json", "hooks.json", "mcp.json"):
        file = desk.cwd / f".{client}" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("{}")
    (desk.cwd / f".{client}" / "config.toml").write_text("")
    git = ["git", "-C", str(desk.cwd), "add", "."]
    subprocess.run(git, check=True, timeout=60)
    answer = desk.ok("setup", client, "--print")
    assert not any("project" in each for each in answer.get("confirm", []))
    away = desk.but(INTERLOCK_WORKSPACE="http://127.0.0.1:9")
    (desk.workspace / "x").parent.mkdir(exist_ok=True)
    answer = away.ok("setup", client, "--print")
    assert "Give the client the MCP server" in answer["confirm"][0]
    assert not any("MCP server interlock" in each for each in answer["confirm"])
