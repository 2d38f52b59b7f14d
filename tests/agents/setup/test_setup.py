"""The command `interlock setup`: its choice of a sender, `--print`, the changes, and `--undo`."""

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
def repository(place: Place) -> Place:
    """A repository on a machine where no sender has joined a workspace."""
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
def test_setup_can_be_shown_applied_repeated_and_undone(client: str, repository: Place) -> None:
    before = files(repository)
    shown = repository.ok("setup", client, "--print")
    assert (files(repository), shown["joins"]) == (before, True)
    assert not repository.workspace.exists()
    done = repository.ok("setup", client)
    assert done["joined"] is True
    assert [change["file"] for change in shown["changes"]] == [
        change["file"] for change in done["changes"]
    ]
    assert done["confirm"]
    after = files(repository)
    again = repository.ok("setup", client)
    assert (states(again), files(repository)) == ({"unchanged"}, after)
    assert "joined" not in again
    assert states(repository.ok("setup", client, "--undo", "--print")) <= {"removed", "changed"}
    assert files(repository) == after
    repository.ok("setup", client, "--undo")
    assert files(repository) == before
    assert repository.ok("setup", client, "--undo")["changes"] == []


@each_client
def test_no_token_is_written_into_a_clients_files(client: str, repository: Place) -> None:
    repository.ok("setup", client)
    kept = [
        json.loads(file.read_text()) for file in (repository.workspace / "credentials").iterdir()
    ]
    assert len(kept) == 1
    assert all(kept[0]["token"].encode() not in data for data in files(repository).values())
    assert all(b"ilk_" not in data for data in files(repository).values())


def test_the_configured_mcp_server_starts_and_acts_as_the_sender(repository: Place) -> None:
    repository.ok("setup", "claude-code")
    words = mcp_words(repository)
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
    environ = repository.environ | {"INTERLOCK_WORKSPACE": str(repository.root / "elsewhere")}
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environ,
        cwd=repository.root,
        text=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(lines)
        child.stdin.flush()
        answers = [json.loads(child.stdout.readline()) for _ in range(2)]
        child.stdin.close()
        child.wait(timeout=60)
    assert answers[1]["result"]["structuredContent"]["sender"] == "claude"


def test_each_client_gets_its_own_sender(repository: Place) -> None:
    assert [repository.ok("setup", client)["sender"] for client in CLIENTS] == [
        *("@claude", "@codex", "@gemini", "@cursor")
    ]


def test_a_client_acts_as_the_only_agent_that_has_joined(repository: Place) -> None:
    repository.join("otto", "cli")
    answer = repository.ok("setup", "claude-code")
    assert (answer["sender"], "joined" in answer) == ("@otto-cli", False)
    assert mcp_words(repository)[-4:] == [
        "--from",
        "otto-cli",
        "--workspace",
        str(repository.workspace),
    ]
    assert repository.ok("setup", "codex")["sender"] == "@codex"


def test_a_client_cannot_act_as_a_person(repository: Place) -> None:
    repository.join("vera", None, "--kind", "human")
    before = files(repository)
    refused = repository.no("USAGE", "setup", "claude-code", "--from", "vera")
    assert "@vera is a person" in refused["message"]
    assert "interlock setup claude-code --from NAME" in refused["message"]
    assert files(repository) == before
    assert repository.ok("setup", "claude-code")["sender"] == "@claude"


@each_client
def test_a_second_setup_keeps_the_sender(client: str, repository: Place) -> None:
    for name in ("otto", "pia"):
        repository.join(name)
    repository.ok("setup", client, "--from", "pia")
    again = repository.ok("setup", client)
    assert (again["sender"], "joined" in again) == ("@pia", False)
    assert states(again) == {"unchanged"}
    assert repository.ok("setup", client, "--from", "otto")["sender"] == "@otto"


def test_the_sender_in_the_clients_files_joins_a_new_workspace(repository: Place) -> None:
    repository.join("otto")
    repository.ok("setup", "gemini", "--from", "otto")
    elsewhere = repository.but(INTERLOCK_WORKSPACE=str(repository.root / "elsewhere"))
    answer = elsewhere.ok("setup", "gemini")
    assert (answer["sender"], answer["joined"]) == ("@otto", True)


def test_setup_ignores_a_person_in_the_clients_files(repository: Place) -> None:
    repository.join("otto")
    repository.ok("setup", "gemini", "--from", "otto")
    elsewhere = repository.but(INTERLOCK_WORKSPACE=str(repository.root / "elsewhere"))
    elsewhere.join("otto", None, "--kind", "human")
    assert elsewhere.ok("setup", "gemini")["sender"] == "@gemini"


@pytest.mark.parametrize("words", [(), ("--from", "otto")])
def test_print_does_not_mark_a_sender_as_seen(words: tuple[str, ...], repository: Place) -> None:
    for name in ("otto", "pia"):
        repository.join(name)
    repository.ok("setup", "claude-code", "--print", *words)
    assert not any("last_seen" in agent for agent in repository.ok("agents")["agents"])


def test_a_person_with_the_clients_name_does_not_become_its_sender(repository: Place) -> None:
    repository.join("claude", None, "--kind", "human")
    (repository.workspace / "credentials" / "claude.json").unlink()
    before = files(repository)
    repository.no("NAME_TAKEN", "setup", "claude-code")
    assert files(repository) == before


def test_an_agent_without_a_stored_token_gets_a_new_one(repository: Place) -> None:
    repository.join("claude")
    (repository.workspace / "credentials" / "claude.json").unlink()
    repository.ok("setup", "claude-code")
    assert repository.ok("whoami", "--from", "claude")["sender"] == "claude"


def test_a_named_sender_must_have_joined(joined: Place) -> None:
    assert joined.ok("setup", "gemini", "--from", "otto-cli")["sender"] == "@otto-cli"
    before = files(joined)
    joined.no("UNKNOWN_SENDER", "setup", "cursor", "--from", "unknown")
    assert files(joined) == before


def test_in_a_session_the_client_acts_as_the_sessions_sender(joined: Place) -> None:
    token = joined.ok("token", "mint", "--sender", "otto-cli")["token"]
    inside = joined.but(INTERLOCK_TOKEN=token)
    assert inside.ok("setup", "codex")["sender"] == "@otto-cli"
    inside.no("IDENTITY_MISMATCH", "setup", "codex", "--from", "vera")
    (joined.workspace / "credentials" / "otto-cli.json").unlink()
    inside.no("UNKNOWN_SENDER", "setup", "codex")


def test_without_arguments_setup_lists_every_client_and_creates_no_workspace(
    repository: Place,
) -> None:
    (repository.home / ".codex").mkdir()
    rows = {row["client"]: row for row in repository.ok("setup")["clients"]}
    assert [*rows] == [*CLIENTS, "git"]
    assert rows["codex"] == {
        "client": "codex",
        "set_up": False,
        "hooks": False,
        "server": False,
        "command": "interlock setup codex",
        "found": str(repository.home / ".codex"),
    }
    assert "found" in rows["git"]
    assert not repository.workspace.exists()
    repository.ok("setup", "codex")
    repository.ok("setup", "git")
    rows = {row["client"]: row for row in repository.ok("setup")["clients"]}
    assert {name for name, row in rows.items() if row["set_up"]} == {"codex", "git"}
    assert rows["codex"]["sender"] == "@codex"


def test_the_list_shows_installed_and_set_up_in_two_columns(repository: Place) -> None:
    repository.ok("setup", "codex")
    repository.ok("setup", "claude-code")
    (repository.cwd / ".codex" / "hooks.json").unlink()
    (repository.home / ".gemini").mkdir()
    rows = {row.split()[0]: row for row in repository.run("setup", PATH="").text.splitlines()}
    assert "  not installed  server only as @codex " in rows["codex"]
    assert "  not installed  set up as @claude " in rows["claude-code"]
    assert "  installed      not set up " in rows["gemini"]
    assert "  not installed  not set up " in rows["cursor"]
    shutil.rmtree(repository.workspace)
    assert (
        "set up as @claude, but the command that it calls no longer" in repository.run("setup").text
    )


def test_the_users_configuration_names_no_workspace_of_a_repository(repository: Place) -> None:
    at_home = repository.but(INTERLOCK_WORKSPACE=None)
    at_home.ok("init", "--here")
    answer = at_home.ok("setup", "gemini", "--user")
    assert [notice["code"] for notice in answer["notices"]] == ["WORKSPACE_OF_ONE_REPOSITORY"]
    settings = repository.home / ".gemini" / "settings.json"
    assert "--from gemini" in settings.read_text()
    assert "--workspace" not in settings.read_text()
    named = str(repository.cwd / ".git" / "interlock")
    at_home.ok("setup", "gemini", "--user", "--workspace", named)
    assert f"--workspace {named}" in settings.read_text()


def test_undo_finds_entries_of_a_deleted_workspace(repository: Place) -> None:
    before = files(repository)
    at_home = repository.but(INTERLOCK_WORKSPACE=None)
    at_home.ok("init", "--here")
    at_home.ok("setup", "claude-code")
    shutil.rmtree(repository.cwd / ".git" / "interlock")
    assert states(at_home.ok("setup", "claude-code", "--undo")) == {"removed"}
    assert files(repository).keys() == before.keys()


def test_undo_reports_entries_in_the_users_configuration(repository: Place) -> None:
    repository.ok("setup", "codex", "--user")
    text = repository.run("setup", "codex", "--undo").text
    assert text.startswith("Nothing to change.\n")
    assert text.endswith("interlock setup codex --user --undo\n")


def test_a_program_on_the_path_is_found(repository: Place) -> None:
    program = repository.root / "bin" / "gemini"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    rows = repository.ok("setup", PATH=f"{program.parent}:{repository.environ['PATH']}")["clients"]
    assert next(row for row in rows if row["client"] == "gemini")["found"] == str(program)


def test_git_hooks_can_be_shown_installed_and_undone(repository: Place) -> None:
    hooks = repository.cwd / ".git" / "hooks"
    before = {file.name for file in hooks.iterdir()}
    shown = repository.ok("setup", "git", "--print")["changes"]
    assert {file.name for file in hooks.iterdir()} == before
    installed = repository.ok("setup", "git")["hooks"]
    assert [change["file"] for change in shown] == [hook["path"] for hook in installed]
    for change in shown:
        written = Path(change["file"]).read_text()
        assert all(f"+{line}" in change["diff"] for line in written.splitlines())
    assert states(repository.ok("setup", "git", "--print")) == {"unchanged"}
    back = repository.ok("setup", "git", "--undo", "--print")
    assert states(back) == {"removed"}
    assert {change["file"] for change in back["changes"]} == {hook["path"] for hook in installed}
    assert all(Path(hook["path"]).exists() for hook in installed)
    repository.ok("setup", "git", "--undo")
    assert {file.name for file in hooks.iterdir()} == before
    assert repository.ok("setup", "git", "--undo", "--print")["changes"] == []


def test_undo_shows_that_it_restores_an_existing_git_hook(repository: Place) -> None:
    hook = repository.cwd / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho mine\n")
    hook.chmod(0o755)
    repository.ok("setup", "git")
    rows = repository.ok("setup", "git", "--undo", "--print")["changes"]
    assert (rows[0]["file"], rows[0]["state"]) == (str(hook), "changed")
    assert "\n+echo mine\n" in rows[0]["diff"]
    assert (rows[1]["file"], rows[1]["state"]) == (f"{hook}.before-interlock", "removed")
    repository.ok("setup", "git", "--undo")
    assert hook.read_text() == "#!/bin/sh\necho mine\n"


@pytest.mark.parametrize(
    "words",
    ["--print", "--undo", "codex --plugin x", "git --user", "git --plugin x"],
)
def test_flags_that_do_not_fit_together_are_refused(words: str, repository: Place) -> None:
    before = files(repository)
    repository.no("USAGE", "setup", *words.split())
    assert files(repository) == before


def test_a_misspelt_client_gets_near_matches(repository: Place) -> None:
    refused = repository.no("USAGE", "setup", "claude")
    assert "Did you mean claude-code?" in refused["message"]
    assert refused["did_you_mean"] == ["claude-code"]


def test_setup_of_git_is_refused_outside_of_a_repository(place: Place) -> None:
    assert "not in a git repository" in place.no("USAGE", "setup", "git")["message"]
    assert "not in a git repository" in place.no("USAGE", "setup", "git", "--print")["message"]


def test_an_invalid_file_stops_setup_before_a_sender_joins(repository: Place) -> None:
    (repository.cwd / ".mcp.json").write_text("{ nope")
    refused = repository.no("USAGE", "setup", "claude-code")
    assert refused["file"] == str(repository.cwd / ".mcp.json")
    assert not (repository.workspace / "credentials").exists()


def test_a_plugin_is_written_into_the_named_directory(repository: Place) -> None:
    repository.ok("setup", "claude-code", "--plugin", "the plugin")
    assert (repository.cwd / "the plugin" / ".claude-plugin" / "plugin.json").exists()
    repository.ok("setup", "claude-code", "--plugin", "the plugin", "--undo")
    assert not (repository.cwd / "the plugin").exists()


def test_the_output_lists_the_changes_and_the_tasks_of_the_person(repository: Place) -> None:
    text = repository.run("setup", "codex").text
    assert text.startswith("@codex joined.\nCodex acts as @codex here.\ncreated  ")
    assert "To do: Type /hooks in Codex" in text
    assert sys.executable not in text
    assert repository.run("setup", "codex").text.startswith(
        "Codex acts as @codex here.\nunchanged  "
    )
    text = repository.run("setup", "cursor", "--user").text
    assert text.startswith("@cursor joined.\nCursor acts as @cursor in every project.\n")


def test_print_says_that_the_changes_would_happen(repository: Place) -> None:
    text = repository.run("setup", "cursor", "--print").text
    assert text.startswith("@cursor would join.\nCursor would act as @cursor here.\nwould create  ")
    assert f"\nwould change  {repository.cwd / '.git' / 'info' / 'exclude'}\n" in text
    assert repository.ok("setup", "cursor", "--print")["applied"] is False
    assert repository.ok("setup", "cursor")["applied"] is True
    undone = repository.run("setup", "cursor", "--undo", "--print").text
    assert undone.startswith("would remove  ")
    repository.run("setup", "git")
    assert repository.run("setup", "git", "--undo", "--print").text.startswith("would remove  ")


@pytest.mark.parametrize("name", [".mcp.json", "settings.local.json"])
def test_a_read_only_file_stops_setup_before_a_sender_joins(name: str, repository: Place) -> None:
    (repository.cwd / ".claude").mkdir()
    file = repository.cwd / ("" if name == ".mcp.json" else ".claude") / name
    file.write_text("{}")
    file.chmod(0o444)
    assert repository.no("USAGE", "setup", "claude-code")["file"] == str(file)
    assert not repository.workspace.exists()


def test_the_users_configuration_can_be_restored_from_any_directory(repository: Place) -> None:
    settings = repository.home / ".gemini" / "settings.json"
    settings.parent.mkdir()
    settings.write_text("{ }\n")
    at_home = repository.but(INTERLOCK_WORKSPACE=None)
    at_home.ok("init", "--here")
    at_home.ok("setup", "gemini", "--user")
    elsewhere = copy.copy(at_home)
    elsewhere.cwd = repository.root / "elsewhere"
    elsewhere.cwd.mkdir()
    elsewhere.ok("setup", "gemini", "--user", "--undo")
    assert settings.read_text() == "{ }\n"
    assert at_home.ok("doctor")["ok"] is True


def test_undo_restores_a_dangling_symbolic_link(repository: Place) -> None:
    link, target = repository.cwd / ".mcp.json", repository.root / "dots" / "mcp.json"
    link.symlink_to(target)
    repository.ok("setup", "claude-code")
    assert target.exists()
    repository.ok("setup", "claude-code", "--undo")
    assert link.is_symlink()
    assert not target.parent.exists()


def test_another_mcp_server_called_interlock_is_reported_and_restored(
    repository: Place,
) -> None:
    servers = repository.cwd / ".mcp.json"
    servers.write_text('{"mcpServers": {"interlock": {"command": "theirs"}}}')
    notices = repository.ok("setup", "claude-code")["notices"]
    assert [notice["code"] for notice in notices] == ["OTHERS_SERVER"]
    assert "notices" not in repository.ok("setup", "claude-code")
    repository.ok("setup", "claude-code", "--undo")
    assert servers.read_text() == '{"mcpServers": {"interlock": {"command": "theirs"}}}'


@pytest.mark.parametrize("setting", [".githooks", ".husky/_"])
def test_tracked_git_hooks_count_as_set_up_once_they_call_interlock(
    setting: str, repository: Place
) -> None:
    home = repository.cwd / setting.removesuffix("/_")
    (repository.cwd / setting).mkdir(parents=True)
    (home / "pre-commit").write_text("#!/bin/sh\n")

    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(repository.cwd), *words], check=True, timeout=60)

    git("config", "core.hooksPath", setting)
    git("add", str(home))
    wanted = repository.no("USAGE", "setup", "git")["add"]
    assert repository.no("USAGE", "setup", "git", "--print")["add"] == wanted
    assert repository.ok("setup")["clients"][-1]["set_up"] is False
    for each in wanted:
        with open(each["file"], "a") as file:
            file.write(each["line"] + "\n")
    assert {hook["state"] for hook in repository.ok("setup", "git")["hooks"]} == {"by hand"}
    assert repository.ok("setup", "git", "--print")["changes"] == []
    assert repository.ok("setup")["clients"][-1]["set_up"] is True


def test_the_list_works_if_git_hooks_are_disabled(repository: Place) -> None:
    git = ["git", "-C", str(repository.cwd), "config", "core.hooksPath", "/dev/null"]
    subprocess.run(git, check=True, timeout=60)
    row = repository.ok("setup")["clients"][-1]
    assert (row["client"], row["set_up"]) == ("git", False)
    repository.no("USAGE", "setup", "git")


def test_the_list_shows_that_there_is_no_repository(place: Place) -> None:
    row = place.run("setup").text.splitlines()[-1]
    assert row.split("  ")[0] == "git"
    assert "  installed      no repository here  " in row


def test_a_plugin_in_a_worktree_is_hidden_from_git(repository: Place) -> None:
    before = files(repository)
    repository.ok("setup", "claude-code", "--plugin", "plugin")
    status = subprocess.run(
        ["git", "-C", str(repository.cwd), "status", "--short"], capture_output=True, timeout=60
    )
    assert status.stdout == b""
    repository.ok("setup", "claude-code", "--plugin", "plugin", "--undo")
    assert files(repository) == before


@pytest.mark.parametrize("client", ["codex", "gemini", "cursor"])
def test_the_tasks_of_the_person_concern_the_files_that_setup_wrote(
    client: str, repository: Place
) -> None:
    assert any(
        "trust" in each.lower() for each in repository.ok("setup", client, "--print")["confirm"]
    )
    for name in ("settings.json", "hooks.json", "mcp.json"):
        file = repository.cwd / f".{client}" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("{}")
    (repository.cwd / f".{client}" / "config.toml").write_text("")
    git = ["git", "-C", str(repository.cwd), "add", "."]
    subprocess.run(git, check=True, timeout=60)
    answer = repository.ok("setup", client, "--print")
    assert not any("project" in each for each in answer.get("confirm", []))
    away = repository.but(INTERLOCK_WORKSPACE="http://127.0.0.1:9")
    (repository.workspace / "x").parent.mkdir(exist_ok=True)
    answer = away.ok("setup", client, "--print")
    assert answer["confirm"][0].startswith("Add the MCP server http://127.0.0.1:9/mcp")
    assert not any("MCP server interlock" in each for each in answer["confirm"])
