"""The doctor's checks of the log's files, and of files on the caller's machine.

Each check runs once with the problem and once without it. Shared engines have their own tests.
"""

import json
import os
import shlex
import shutil
import signal
import time
from pathlib import Path

import pytest

from interlock.doors.cli import serving
from interlock.doors.cli.doctor import HOOKS_LOG
from interlock.local import workspace
from interlock.local.link import server_of
from interlock.node.doctor import examine
from interlock.node.servers import running
from interlock.rooms.identity.token_format import SECRET_BYTES, compose
from interlock.rooms.identity.verbs import Join
from world.commandline import Place, until
from world.doctor_findings import findings, node_in_the_past, only_finding, run_advice
from world.fork_server import Servers
from world.server import ForkedServer
from world.workspace import HOUR, OWNER

pytestmark = [pytest.mark.long, pytest.mark.every_engine]

# --- the server and the log's files


def test_doctor_finds_a_second_server(place: Place, servers: Servers) -> None:
    place.join("otto")
    with ForkedServer(place, servers) as first:
        assert findings(place) == []
        (place.workspace / "server.lock").unlink()
        with ForkedServer(place, servers) as second:
            found = only_finding(place, "one-server")
            assert str(first.pid) in found["message"]
            assert str(second.pid) in found["message"]
            assert found["do"] == f"kill {first.pid}", "commands find the second server"
            run_advice(place, found)
            assert first.wait() == 0
            assert findings(place) == []
            about = server_of(str(place.workspace))
            assert about is not None
            assert about.pid == second.pid
            assert Path(about.socket).is_socket()
            assert Path(about.mcp).is_socket()
            assert place.ok("down") == {"stopped": True, "pid": second.pid}


def test_doctor_finds_a_server_that_commands_do_not_find(place: Place, servers: Servers) -> None:
    """Two servers ran for the workspace. The server that commands find was killed."""
    place.join("otto")
    with ForkedServer(place, servers) as first:
        (place.workspace / "server.lock").unlink()
        with ForkedServer(place, servers) as second:
            second.kill()
        assert findings(place) == [], "a new server may be starting"
        for file in (place.workspace / "servers").iterdir():
            os.utime(file, (time.time() - 3600, time.time() - 3600))
        found = only_finding(place, "one-server")
        assert f"the process {first.pid}. Commands do not find it" in found["message"]
        assert found["do"] == "interlock down && interlock up --detach"
        assert place.ok("down") == {"stopped": True, "pid": first.pid}
    assert findings(place) == []


def test_down_stops_a_server_without_its_server_json(
    place: Place, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "STARTS_WITHIN_S", 0.0)
    place.join("otto")
    with ForkedServer(place, servers) as served:
        (place.workspace / "server.json").unlink()
        assert place.ok("down") == {"stopped": True, "pid": served.pid}


def test_files_of_a_killed_server_do_not_count_as_a_server(place: Place, servers: Servers) -> None:
    with ForkedServer(place, servers) as served:
        assert len(running(str(place.workspace))) == 1
        served.kill()
    assert running(str(place.workspace)) == []
    assert list((place.workspace / "servers").iterdir()) == []
    with ForkedServer(place, servers) as served:
        served.signal(signal.SIGSTOP)
        assert [each.pid for each in running(str(place.workspace))] == [served.pid]
        served.signal(signal.SIGCONT)


def test_doctor_finds_a_hard_link_to_the_log(joined: Place) -> None:
    other = joined.root / "other.db"
    os.link(joined.workspace / "log.db", other)
    found = only_finding(joined, "one-server")
    assert found["do"] == f"find / -xdev -samefile {joined.workspace / 'log.db'}"
    assert "in another directory" in found["message"]
    other.unlink()
    assert findings(joined) == []


def test_doctor_finds_a_hard_link_next_to_the_log(joined: Place) -> None:
    other = joined.workspace / "log copy.db"
    os.link(joined.workspace / "log.db", other)
    found = only_finding(joined, "one-server")
    assert "in the same directory, log copy.db" in found["message"]
    run_advice(joined, found)
    assert not other.exists()
    assert findings(joined) == []


@pytest.mark.embedded("the file of a node is a copy")
def test_doctor_finds_a_log_that_is_not_synced_to_disk(
    joined: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with node_in_the_past(joined, 0) as node:
        assert examine(node)["ok"]
        monkeypatch.setattr(node.file, "_synchronous", "OFF")
        node.file.let_go()
        (found,) = examine(node)["findings"]
    assert found["check"] == "engine-durable"
    assert found["message"] == (
        "The engine may lose acknowledged writes: its file is open with synchronous 0 instead of 2."
    )
    assert found["do"] == "interlock down && interlock up --detach"


def test_doctor_finds_a_log_ahead_of_the_clock(joined: Place) -> None:
    assert findings(joined) == []
    with node_in_the_past(joined, -HOUR) as node:
        node.call(OWNER, Join("bert"))
    found = only_finding(joined, "clock-level")
    assert "s ahead of the" in found["message"]
    assert "clock" in found["do"] or "ntp" in found["do"] or "networktime" in found["do"]


# --- credentials


def test_advice_replaces_a_revoked_credential_with_the_same_scopes(joined: Place) -> None:
    made = joined.ok("token", "mint", "--sender", "vera", "--scope", "admin", "--keep")
    joined.ok("token", "revoke", made["id"])
    found = only_finding(joined, "credentials-good")
    assert "The stored credential of @vera was revoked" in found["message"]
    run_advice(joined, found)
    assert findings(joined) == []
    assert "admin" in joined.ok("whoami", "--from", "vera")["scopes"]


def test_doctor_finds_an_expired_credential(joined: Place) -> None:
    made = joined.ok("token", "mint", "--sender", "vera", "--ttl", "1s", "--keep")
    (found,) = until(lambda: findings(joined))
    assert found["check"] == "credentials-good"
    assert found["do"] == f"interlock token rotate {made['id']}"


@pytest.mark.parametrize("token", [compose(bytes(SECRET_BYTES)), "ilk_cut-off"])
def test_doctor_finds_a_credential_with_an_unknown_token(joined: Place, token: str) -> None:
    kept = joined.workspace / "credentials" / "vera.json"
    kept.write_text(json.dumps({"sender": "vera", "token": token}))
    found = only_finding(joined, "credentials-good")
    assert "contains a token that this workspace does not know" in found["message"]
    run_advice(joined, found)
    assert findings(joined) == []


@pytest.mark.parametrize(
    "text",
    ["garbage", "[]", '{"sender": "vera"}', '{"sender": "vera", "token": 7}', "\udcff"],
)
def test_advice_replaces_an_invalid_credential_file(joined: Place, text: str) -> None:
    kept = joined.workspace / "credentials" / "vera.json"
    kept.write_bytes(text.encode("utf-8", "surrogateescape"))
    found = only_finding(joined, "credentials-good")
    assert found["message"] == f"{kept} is not a valid credential file."
    run_advice(joined, found)
    assert findings(joined) == []
    assert joined.ok("whoami", "--from", "vera")["sender"] == "vera"


def test_doctor_finds_a_credential_in_the_file_of_another_sender(joined: Place) -> None:
    credentials = joined.workspace / "credentials"
    shutil.copy(credentials / "otto-cli.json", credentials / "vera.json")
    found = only_finding(joined, "credentials-good")
    assert "vera.json contains the credential of @otto-cli" in found["message"]
    run_advice(joined, found)
    assert findings(joined) == []
    shutil.copy(credentials / "otto-cli.json", credentials / "old copy.json")
    found = only_finding(joined, "credentials-good")
    run_advice(joined, found)
    assert not (credentials / "old copy.json").exists()
    assert findings(joined) == []


def test_doctor_finds_a_token_of_another_sender(joined: Place) -> None:
    token = joined.ok("token", "mint", "--sender", "otto-cli")["token"]
    kept = joined.workspace / "credentials" / "vera.json"
    kept.write_text(json.dumps({"sender": "vera", "token": token}))
    found = only_finding(joined, "credentials-good")
    assert "credential of @vera contains a token of @otto-cli" in found["message"]
    run_advice(joined, found)
    assert findings(joined) == []


def test_doctor_finds_a_credential_that_other_users_can_read(joined: Place) -> None:
    kept = joined.workspace / "credentials" / "vera.json"
    kept.chmod(0o644)
    found = only_finding(joined, "credentials-good")
    assert found["message"] == f"Other users of this machine can read or write {kept}."
    assert found["do"] == f"chmod 600 {kept}"
    run_advice(joined, found)
    assert findings(joined) == []


def test_doctor_finds_a_credential_of_a_sender_that_never_joined(joined: Place) -> None:
    kept = joined.workspace / "credentials" / "ghost.json"
    kept.write_text(json.dumps({"sender": "ghost", "token": compose(bytes(SECRET_BYTES))}))
    kept.chmod(0o600)
    found = only_finding(joined, "credentials-good")
    assert "of @ghost belongs to a sender that has not joined" in found["message"]
    assert found["do"] == f"rm {kept} && interlock join ghost"
    run_advice(joined, found)
    assert findings(joined) == []


def test_advice_for_a_remote_credential_is_to_ask_the_owner(
    joined: Place, servers: Servers
) -> None:
    otto = joined.ok("token", "mint", "--sender", "otto-cli")["token"]
    with ForkedServer(joined, servers) as served:
        there = {"INTERLOCK_WORKSPACE": served.url, "INTERLOCK_SESSION": None}
        home = Path(workspace.link(served.url, joined.environ).home)
        (home / "credentials").mkdir(parents=True)
        for name, sender in (("vera", "vera"), ("ghost", "ghost"), ("otto-cli", "otto-cli")):
            kept = home / "credentials" / f"{name}.json"
            token = compose(bytes(SECRET_BYTES))
            kept.write_text(json.dumps({"sender": sender, "token": token}))
            kept.chmod(0o600)
        found = findings(joined, **there, INTERLOCK_TOKEN=otto)
        asked = "Ask the workspace's owner to run on its machine: interlock invite "
        assert [each["do"] for each in found] == [
            asked + whom for whom in ("ghost", "otto --surface cli", "vera")
        ]
        for each in found:
            words = shlex.split(each["do"].partition("interlock ")[2])
            invited = joined.ok(*words)
            link = served.url + invited["path"]
            joined.ok("join", link)
            assert each not in findings(joined, **there, INTERLOCK_TOKEN=otto)
        assert findings(joined, **there, INTERLOCK_TOKEN=otto) == []


# --- hooks and waking


def test_doctor_shows_problems_of_hooks_for_a_day(joined: Place) -> None:
    for _ in range(2):
        joined.run("hook", "claude-code", "SessionStart", stdin=b"no JSON")
    found = only_finding(joined, "hooks-working")
    assert "(2 times): claude-code SessionStart: " in found["message"]
    run_advice(joined, found)
    log = joined.workspace / HOOKS_LOG
    for age_s, count in ((86_000, 1), (87_000, 0)):
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - age_s))
        log.write_text(f"{at} claude-code SessionStart: old\n")
        assert len(findings(joined)) == count


def test_doctor_shows_problems_of_hooks_without_a_workspace(joined: Place) -> None:
    nowhere = {"INTERLOCK_WORKSPACE": str(joined.root / "nowhere")}
    joined.run("hook", "claude-code", "SessionStart", stdin=b"no JSON", **nowhere)
    assert str(joined.home) in only_finding(joined, "hooks-working")["do"]


def test_unreadable_hooks_log_is_a_finding(joined: Place) -> None:
    (joined.workspace / HOOKS_LOG).mkdir()
    found = only_finding(joined, "hooks-working")
    assert found["message"].startswith("This check failed with an error: ")


def test_doctor_finds_a_wake_toml_that_other_users_can_write(joined: Place) -> None:
    rules = joined.workspace / "wake.toml"
    rules.write_text("tmux = true\n")
    rules.chmod(0o666)
    found = only_finding(joined, "wake-rules-followed")
    assert found["do"] == f"chmod go-w {rules}"
    run_advice(joined, found)
    assert findings(joined) == []


def test_doctor_finds_an_invalid_wake_toml(joined: Place) -> None:
    rules = joined.workspace / "wake.toml"
    rules.write_text("tmuks = true\n")
    rules.chmod(0o600)
    found = only_finding(joined, "wake-rules-followed")
    assert "tmuks in wake.toml" in found["message"]
    assert found["do"] == f'"${{EDITOR:-vi}}" {rules}'
    rules.write_text("tmux = true\n")
    assert findings(joined) == []


# --- clients


@pytest.fixture(params=["claude-code", "codex", "gemini", "cursor"])
def client(request: pytest.FixtureRequest, joined: Place) -> str:
    """A client that is set up, without findings."""
    name = str(request.param)
    joined.ok("setup", name, "--from", "otto-cli")
    assert findings(joined) == []
    return name


def test_doctor_finds_a_client_without_a_credential(joined: Place, client: str) -> None:
    (joined.workspace / "credentials" / "otto-cli.json").unlink()
    found = only_finding(joined, "clients-configured")
    assert "no longer has its credential" in found["message"]
    run_advice(joined, found)
    assert findings(joined) == []


def test_doctor_finds_a_changed_client_configuration(joined: Place, client: str) -> None:
    changed = [path for path in _configuration(joined) if _renamed(path)]
    assert changed
    found = only_finding(joined, "clients-configured")
    assert "differs from what setup would write now" in found["message"]
    assert found["do"] == f"cd {joined.cwd} && interlock setup {client} --from otto-cli"
    run_advice(joined, found)
    assert findings(joined) == []


def _configuration(place: Place) -> list[Path]:
    kept = place.home / ".local"
    ours = [
        *place.cwd.rglob("*"),
        *(each for each in place.home.rglob("*") if kept not in each.parents),
    ]
    return [path for path in ours if path.is_file() and "interlock" in path.read_text()]


def _renamed(path: Path) -> bool:
    before = path.read_text()
    path.write_text(before.replace("otto-cli", "otto-desktop"))
    return "otto-cli" in before


def test_doctor_finds_a_client_that_calls_a_missing_command(joined: Place) -> None:
    joined.ok("setup", "claude-code", "--from", "otto-cli")
    servers = joined.cwd / ".mcp.json"
    said = json.loads(servers.read_text())
    said["mcpServers"]["interlock"]["command"] = str(joined.root / "gone" / "interlock")
    servers.write_text(json.dumps(said))
    found = only_finding(joined, "clients-configured")
    assert "names a program or a workspace that no longer exists" in found["message"]
    run_advice(joined, found)
    assert findings(joined) == []


def test_advice_for_invalid_json_settings_is_to_edit_them(joined: Place) -> None:
    joined.ok("setup", "claude-code", "--from", "otto-cli")
    settings = joined.cwd / ".claude" / "settings.local.json"
    before = settings.read_text()
    settings.write_text("not json")
    found = only_finding(joined, "clients-configured")
    assert str(settings) in found["message"]
    assert found["do"] == f'"${{EDITOR:-vi}}" {settings}'
    good = joined.root / "good.json"
    good.write_text(before)
    run_advice(joined.but(EDITOR=_editor(joined, good)), found)
    assert findings(joined) == []


def _editor(place: Place, good: Path) -> str:
    """Return a command that writes the correct content into a file."""
    script = place.root / "editor"
    script.write_text(f'#!/bin/sh\ncp "{good}" "$1"\n')
    script.chmod(0o700)
    return str(script)


def test_doctor_finds_a_client_of_a_sender_that_never_joined(joined: Place) -> None:
    """The user created the workspace again, and the client's setup for the old one remains."""
    joined.ok("setup", "claude-code", "--from", "otto-cli")
    joined.workspace.rename(joined.root / "old")
    joined.ok("init")
    shutil.copytree(joined.root / "old" / "setup", joined.workspace / "setup")
    found = only_finding(joined, "clients-configured")
    assert "but this sender has not joined the workspace" in found["message"]
    run_advice(joined, found)
    assert findings(joined) == []


@pytest.mark.parametrize("how", [("--user",), ("--plugin", "plugin")])
def test_doctor_checks_user_and_plugin_configurations(joined: Place, how: tuple[str, ...]) -> None:
    joined.ok("setup", "claude-code", "--from", "otto-cli", *how)
    assert findings(joined) == []
    for path in _configuration(joined):
        _renamed(path)
    found = only_finding(joined, "clients-configured")
    assert how[0] in found["do"]
