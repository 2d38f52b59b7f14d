"""The doctor on what keeps the log, and on files of the machine that asks: each check once sick and
once healthy. Engines that several nodes share have tests of their own beside them."""

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

# --- what keeps the log


def test_a_second_server_that_the_lock_did_not_keep_out_is_found(
    place: Place, servers: Servers
) -> None:
    place.join("otto")
    with ForkedServer(place, servers) as first:
        assert findings(place) == []
        (place.workspace / "server.lock").unlink()
        with ForkedServer(place, servers) as second:
            found = only_finding(place, "one-server")
            assert str(first.pid) in found["message"]
            assert str(second.pid) in found["message"]
            assert found["do"] == f"kill {first.pid}", "the other is the one that commands find"
            run_advice(place, found)
            assert first.wait() == 0
            assert findings(place) == []
            about = server_of(str(place.workspace))
            assert about is not None
            assert about.pid == second.pid
            assert Path(about.socket).is_socket()
            assert Path(about.mcp).is_socket()
            assert place.ok("down") == {"stopped": True, "pid": second.pid}


def test_a_server_that_commands_do_not_find_is_found_and_can_be_ended(
    place: Place, servers: Servers
) -> None:
    """Two ran for the workspace, and the one that commands find was killed."""
    place.join("otto")
    with ForkedServer(place, servers) as first:
        (place.workspace / "server.lock").unlink()
        with ForkedServer(place, servers) as second:
            second.kill()
        assert findings(place) == [], "it may just be starting"
        for file in (place.workspace / "servers").iterdir():
            os.utime(file, (time.time() - 3600, time.time() - 3600))
        found = only_finding(place, "one-server")
        assert f"as the process {first.pid}, and commands do not find it" in found["message"]
        assert found["do"] == "interlock down && interlock up --detach"
        assert place.ok("down") == {"stopped": True, "pid": first.pid}
    assert findings(place) == []


def test_down_ends_a_server_whose_own_word_was_removed(
    place: Place, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "STARTS_WITHIN_S", 0.0)
    place.join("otto")
    with ForkedServer(place, servers) as served:
        (place.workspace / "server.json").unlink()
        assert place.ok("down") == {"stopped": True, "pid": served.pid}


def test_what_a_killed_server_left_is_no_server(place: Place, servers: Servers) -> None:
    with ForkedServer(place, servers) as served:
        assert len(running(str(place.workspace))) == 1
        served.kill()
    assert running(str(place.workspace)) == []
    assert list((place.workspace / "servers").iterdir()) == []
    with ForkedServer(place, servers) as served:
        served.signal(signal.SIGSTOP)
        assert [each.pid for each in running(str(place.workspace))] == [served.pid]
        served.signal(signal.SIGCONT)


def test_a_log_with_two_names_is_found(joined: Place) -> None:
    other = joined.root / "other.db"
    os.link(joined.workspace / "log.db", other)
    found = only_finding(joined, "one-server")
    assert found["do"] == f"find / -xdev -samefile {joined.workspace / 'log.db'}"
    assert "in another directory" in found["message"]
    other.unlink()
    assert findings(joined) == []


def test_a_log_with_two_names_in_one_directory_is_found(joined: Place) -> None:
    other = joined.workspace / "log copy.db"
    os.link(joined.workspace / "log.db", other)
    found = only_finding(joined, "one-server")
    assert "another name beside it, log copy.db" in found["message"]
    run_advice(joined, found)
    assert not other.exists()
    assert findings(joined) == []


@pytest.mark.embedded("the file of a node is a copy")
def test_a_file_that_does_not_wait_for_the_disk_is_found(
    joined: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with node_in_the_past(joined, 0) as node:
        assert examine(node)["ok"]
        monkeypatch.setattr(node.file, "_synchronous", "OFF")
        node.file.let_go()
        (found,) = examine(node)["findings"]
    assert found["check"] == "engine-durable"
    assert found["message"] == (
        "The engine may lose what it acknowledged: its file is open with synchronous 0, and not 2."
    )
    assert found["do"] == "interlock down && interlock up --detach"


def test_a_log_that_is_ahead_of_the_clock_is_found(joined: Place) -> None:
    assert findings(joined) == []
    with node_in_the_past(joined, -HOUR) as node:
        node.call(OWNER, Join("bert"))
    found = only_finding(joined, "clock-level")
    assert "s ahead of the" in found["message"]
    assert "clock" in found["do"] or "ntp" in found["do"] or "networktime" in found["do"]


# --- credentials


def test_a_credential_that_was_revoked_is_made_anew_with_its_scopes(joined: Place) -> None:
    made = joined.ok("token", "mint", "--sender", "vera", "--scope", "admin", "--keep")
    joined.ok("token", "revoke", made["id"])
    found = only_finding(joined, "credentials-good")
    assert "The stored credential of @vera was revoked" in found["message"]
    run_advice(joined, found)
    assert findings(joined) == []
    assert "admin" in joined.ok("whoami", "--from", "vera")["scopes"]


def test_a_credential_that_has_expired_is_found(joined: Place) -> None:
    made = joined.ok("token", "mint", "--sender", "vera", "--ttl", "1s", "--keep")
    (found,) = until(lambda: findings(joined))
    assert found["check"] == "credentials-good"
    assert found["do"] == f"interlock token rotate {made['id']}"


@pytest.mark.parametrize("token", [compose(bytes(SECRET_BYTES)), "ilk_cut-off"])
def test_a_credential_that_opens_nothing_here_is_found(joined: Place, token: str) -> None:
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
def test_a_file_that_is_no_credential_is_made_anew(joined: Place, text: str) -> None:
    kept = joined.workspace / "credentials" / "vera.json"
    kept.write_bytes(text.encode("utf-8", "surrogateescape"))
    found = only_finding(joined, "credentials-good")
    assert found["message"] == f"{kept} is not a valid credential file."
    run_advice(joined, found)
    assert findings(joined) == []
    assert joined.ok("whoami", "--from", "vera")["sender"] == "vera"


def test_a_credential_in_anothers_file_is_found(joined: Place) -> None:
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


def test_a_token_under_anothers_name_is_found(joined: Place) -> None:
    token = joined.ok("token", "mint", "--sender", "otto-cli")["token"]
    kept = joined.workspace / "credentials" / "vera.json"
    kept.write_text(json.dumps({"sender": "vera", "token": token}))
    found = only_finding(joined, "credentials-good")
    assert "credential of @vera contains a token of @otto-cli" in found["message"]
    run_advice(joined, found)
    assert findings(joined) == []


def test_a_credential_that_others_may_read_is_found(joined: Place) -> None:
    kept = joined.workspace / "credentials" / "vera.json"
    kept.chmod(0o644)
    found = only_finding(joined, "credentials-good")
    assert found["message"] == f"Other users of this machine can read or write {kept}."
    assert found["do"] == f"chmod 600 {kept}"
    run_advice(joined, found)
    assert findings(joined) == []


def test_a_credential_of_somebody_who_never_joined_is_found(joined: Place) -> None:
    kept = joined.workspace / "credentials" / "ghost.json"
    kept.write_text(json.dumps({"sender": "ghost", "token": compose(bytes(SECRET_BYTES))}))
    kept.chmod(0o600)
    found = only_finding(joined, "credentials-good")
    assert "of @ghost belongs to a sender that has not joined" in found["message"]
    assert found["do"] == f"rm {kept} && interlock join ghost"
    run_advice(joined, found)
    assert findings(joined) == []


def test_elsewhere_the_owner_is_asked_for_another_credential(
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


def test_the_trouble_of_hooks_is_told_for_a_day(joined: Place) -> None:
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


def test_hooks_that_found_no_workspace_are_told_of_too(joined: Place) -> None:
    nowhere = {"INTERLOCK_WORKSPACE": str(joined.root / "nowhere")}
    joined.run("hook", "claude-code", "SessionStart", stdin=b"no JSON", **nowhere)
    assert str(joined.home) in only_finding(joined, "hooks-working")["do"]


def test_a_log_of_hooks_that_cannot_be_read_is_a_finding(joined: Place) -> None:
    (joined.workspace / HOOKS_LOG).mkdir()
    found = only_finding(joined, "hooks-working")
    assert found["message"].startswith("This could not be looked at: ")


def test_rules_that_others_may_write_are_found(joined: Place) -> None:
    rules = joined.workspace / "wake.toml"
    rules.write_text("tmux = true\n")
    rules.chmod(0o666)
    found = only_finding(joined, "wake-rules-followed")
    assert found["do"] == f"chmod go-w {rules}"
    run_advice(joined, found)
    assert findings(joined) == []


def test_rules_that_are_not_understood_are_found(joined: Place) -> None:
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
    """A client that is set up here, and found to be so."""
    name = str(request.param)
    joined.ok("setup", name, "--from", "otto-cli")
    assert findings(joined) == []
    return name


def test_a_client_whose_credential_is_gone_is_found(joined: Place, client: str) -> None:
    (joined.workspace / "credentials" / "otto-cli.json").unlink()
    found = only_finding(joined, "clients-configured")
    assert "no longer has its credential" in found["message"]
    run_advice(joined, found)
    assert findings(joined) == []


def test_a_client_whose_entries_were_changed_is_found(joined: Place, client: str) -> None:
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


def test_a_client_that_calls_what_is_gone_is_found(joined: Place) -> None:
    joined.ok("setup", "claude-code", "--from", "otto-cli")
    servers = joined.cwd / ".mcp.json"
    said = json.loads(servers.read_text())
    said["mcpServers"]["interlock"]["command"] = str(joined.root / "gone" / "interlock")
    servers.write_text(json.dumps(said))
    found = only_finding(joined, "clients-configured")
    assert "names a program or a workspace that no longer exists" in found["message"]
    run_advice(joined, found)
    assert findings(joined) == []


def test_a_client_whose_settings_are_no_json_is_mended_by_hand(joined: Place) -> None:
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
    """A command that puts into a file what should be in it."""
    script = place.root / "editor"
    script.write_text(f'#!/bin/sh\ncp "{good}" "$1"\n')
    script.chmod(0o700)
    return str(script)


def test_a_client_of_a_sender_that_never_joined_is_found(joined: Place) -> None:
    """The workspace was made anew, and what was set up for the old one is still there."""
    joined.ok("setup", "claude-code", "--from", "otto-cli")
    joined.workspace.rename(joined.root / "old")
    joined.ok("init")
    shutil.copytree(joined.root / "old" / "setup", joined.workspace / "setup")
    found = only_finding(joined, "clients-configured")
    assert "but this sender has not joined the workspace" in found["message"]
    run_advice(joined, found)
    assert findings(joined) == []


@pytest.mark.parametrize("how", [("--user",), ("--plugin", "plugin")])
def test_what_was_set_up_for_the_user_or_as_a_plugin_is_looked_at(
    joined: Place, how: tuple[str, ...]
) -> None:
    joined.ok("setup", "claude-code", "--from", "otto-cli", *how)
    assert findings(joined) == []
    for path in _configuration(joined):
        _renamed(path)
    found = only_finding(joined, "clients-configured")
    assert how[0] in found["do"]
