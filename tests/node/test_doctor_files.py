"""The doctor's check of the files in a workspace's directory, and the refusals while the key is
missing or belongs to another user."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interlock.errors import EngineUnavailable
from interlock.node.keys import Keys
from world.commandline import Place
from world.doctor_findings import findings, only_finding, run_advice
from world.fork_server import Servers
from world.server import ForkedServer

pytestmark = [pytest.mark.long, pytest.mark.every_engine]

NOBODY = 65534


@contextmanager
def without_rights(path: Path) -> Iterator[None]:
    """Allow only root to use the path, and run the block as another user."""
    before, user = path.stat().st_mode, os.geteuid()
    path.chmod(0)
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if user == 0:
            os.seteuid(0)
        path.chmod(before)


@pytest.mark.parametrize(
    ("name", "sick", "well"),
    [
        ("owner.json", 0o644, 600),
        ("keys/checkpoint.key", 0o640, 600),
        ("keys", 0o755, 700),
        ("log.db", 0o666, 600),
        (".", 0o777, 700),
    ],
)
def test_doctor_finds_files_that_other_users_can_access(
    joined: Place, name: str, sick: int, well: int
) -> None:
    (joined.workspace / "owner.json").touch(0o600)
    path = joined.workspace / name
    path.chmod(sick)
    found = only_finding(joined, "secrets-kept")
    assert "Other users of this machine can" in found["message"]
    assert found["do"] == f"chmod {well} {path}"
    run_advice(joined, found)
    assert findings(joined) == []


def test_doctor_and_server_report_a_missing_key(joined: Place, servers: Servers) -> None:
    key = joined.workspace / "keys" / "checkpoint.key"
    kept = key.rename(joined.root / "copy")
    found = only_finding(joined, "secrets-kept")
    assert "The key that signs checkpoints is missing" in found["message"]
    assert str(key) in found["do"]
    assert "is missing" in joined.no("LOG_DAMAGED", "audit", "checkpoint")["message"]
    with ForkedServer(joined, servers) as served:
        page = served.ask("GET", "/person")
        assert page.status == 409
        assert b"is missing" in page.body
        assert str(joined.workspace).encode() not in page.body
        (warned,) = [line for line in served.log() if line["level"] == "warning"]
        assert "Sign-in and invitations are off" in warned["hazard"]
    kept.rename(key)
    assert findings(joined) == []


def test_up_warns_of_a_missing_key(joined: Place) -> None:
    (joined.workspace / "keys" / "checkpoint.key").unlink()
    done = joined.process("up", "--detach", "--port", "0")
    try:
        assert done.status == 0, done
        assert "Warning    Sign-in and invitations are off" in done.text
    finally:
        joined.ok("down")


def test_key_without_permission_counts_as_unavailable_not_lost(joined: Place) -> None:
    keys = Keys(str(joined.workspace))
    with without_rights(joined.workspace / "keys" / "checkpoint.key"):
        trouble = keys.trouble()
        with pytest.raises(EngineUnavailable):
            keys.verifier("w")
        with pytest.raises(EngineUnavailable):
            keys.make()
    assert isinstance(trouble, EngineUnavailable)
    assert "restore nothing" in trouble.message
    assert "chown" in trouble.message
    assert "chmod 600" in trouble.message
    assert keys.trouble() is None


def test_doctor_finds_files_that_the_user_cannot_write(
    joined: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root can access every file, so the test replaces os.access by the answer for another user."""
    log = joined.workspace / "server.log"
    log.touch(0o400)
    monkeypatch.setattr(os, "access", lambda path, may: path != str(log))
    found = only_finding(joined, "secrets-kept")
    assert found["message"] == f"The user who runs Interlock cannot read and write {log}."
    assert found["do"] == f"chmod -R u+rwX {log}"
    monkeypatch.undo()
    run_advice(joined, found)
    assert log.stat().st_mode & 0o777 == 0o600
    assert findings(joined) == []
