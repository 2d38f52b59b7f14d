"""The doctor on the files of a workspace's directory, and what is refused while its key is gone or
belongs to another user."""

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
    """Nobody but root may use the path meanwhile, and this process is not root."""
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
def test_what_others_may_read_or_write_is_found(
    joined: Place, name: str, sick: int, well: int
) -> None:
    (joined.workspace / "owner.json").touch(0o600)
    path = joined.workspace / name
    path.chmod(sick)
    found = only_finding(joined, "secrets-kept")
    assert "Others on this machine may" in found["message"]
    assert found["do"] == f"chmod {well} {path}"
    run_advice(joined, found)
    assert findings(joined) == []


def test_a_key_that_is_gone_is_found_and_said_at_the_start(joined: Place, servers: Servers) -> None:
    key = joined.workspace / "keys" / "checkpoint.key"
    kept = key.rename(joined.root / "copy")
    found = only_finding(joined, "secrets-kept")
    assert "The key that signs checkpoints is gone" in found["message"]
    assert str(key) in found["do"]
    assert "is gone" in joined.no("LOG_DAMAGED", "audit", "checkpoint")["message"]
    with ForkedServer(joined, servers) as served:
        page = served.ask("GET", "/person")
        assert page.status == 409
        assert b"is gone" in page.body
        assert str(joined.workspace).encode() not in page.body
        (warned,) = [line for line in served.log() if line["level"] == "warning"]
        assert "Sign-in and invitations are off" in warned["hazard"]
    kept.rename(key)
    assert findings(joined) == []


def test_up_warns_of_a_key_that_is_gone(joined: Place) -> None:
    (joined.workspace / "keys" / "checkpoint.key").unlink()
    done = joined.process("up", "--detach", "--port", "0")
    try:
        assert done.status == 0, done
        assert "Warning    Sign-in and invitations are off" in done.text
    finally:
        joined.ok("down")


def test_a_key_of_another_users_is_not_lost(joined: Place) -> None:
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


def test_a_file_of_another_users_is_found(joined: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """That root is barred from nothing is the system's own: here it says what it would say to
    others."""
    log = joined.workspace / "server.log"
    log.touch(0o400)
    monkeypatch.setattr(os, "access", lambda path, may: path != str(log))
    found = only_finding(joined, "secrets-kept")
    assert found["message"] == f"The user who runs this may not read and write {log}."
    assert found["do"] == f"chmod -R u+rwX {log}"
    monkeypatch.undo()
    run_advice(joined, found)
    assert log.stat().st_mode & 0o777 == 0o600
    assert findings(joined) == []
