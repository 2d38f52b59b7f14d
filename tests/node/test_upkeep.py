"""Rebuilding the state, logs of newer versions, and backups of another workspace."""

import os
import shutil
from pathlib import Path
from typing import Any

import apsw
import pytest

from interlock import errors
from interlock.errors import EngineUnavailable
from interlock.log.facts import Header, header_hash, parse_header
from interlock.node import Node, audit, upkeep
from interlock.rooms.claims.verbs import AcquireClaim
from interlock.rooms.mail.verbs import ReadMessage, Redact, Search, SendMessage
from interlock.rooms.workspace.verbs import Review, ShowLog, ShowStatus, Whoami
from world.workspace import OWNER, Workspace


def test_opening_rebuilds_a_state_of_another_schema(
    workspace: Workspace,
) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    workspace.send(otto, "@vera", "kept")
    workspace.call(otto, AcquireClaim(item="B-1"))
    before = upkeep.state_digest(workspace.node)

    def age(turn: Any) -> None:
        turn.db.execute("UPDATE state_position SET schema = '0-older'")
        turn.db.execute("DROP TABLE claims_waiting")
        turn.db.execute("CREATE TABLE mail_of_old(x); INSERT INTO mail_of_old VALUES (1)")

    workspace.node.do(age)
    workspace.close()
    workspace.reopen()
    assert upkeep.state_digest(workspace.node) == before
    assert workspace.query("SELECT 1 FROM sqlite_schema WHERE name = 'mail_of_old'") == []
    assert workspace.texts(vera) == ["kept"]
    assert audit.verify(workspace.node)["ok"]


def with_an_unknown_fact(
    workspace: Workspace, copy: Path, *, state_of_another_schema: bool
) -> None:
    """Copy the workspace, and append a fact of a newer version of Interlock to the copy."""
    copy.mkdir()
    upkeep.backup(workspace.node, OWNER, str(copy / "log.db"))
    db = apsw.Connection(str(copy / "log.db"))
    rows: Any = db.execute("SELECT seq, header FROM log ORDER BY seq DESC LIMIT 1")
    seq, header = rows.fetchone()
    last = parse_header(header)
    dreamed = Header(
        workspace=last.workspace,
        epoch=last.epoch,
        seq=seq + 1,
        at=last.at,
        kind="task_dreamed",
        sender="otto",
        outcome={},
        prev=header_hash(header),
    ).encode()
    db.execute("INSERT INTO log VALUES (?, ?)", (seq + 1, dreamed))
    db.execute("UPDATE head SET seq = ?, hash = ?", (seq + 1, header_hash(dreamed)))
    if state_of_another_schema:
        db.execute("UPDATE state_position SET schema = '9-newer'")
    db.close()


def test_node_stops_at_an_unknown_kind_of_fact(workspace: Workspace, tmp_path: Path) -> None:
    otto = workspace.join("otto")
    copy = tmp_path / "copy"
    with_an_unknown_fact(workspace, copy, state_of_another_schema=False)
    with Node(str(copy), clock=lambda: workspace.ms) as node:
        act = SendMessage("@vera", {"text": "x"}, "send")
        for _ in range(2):
            with pytest.raises(errors.NewerVersion, match="task_dreamed"):
                node.call(otto, act)
        with pytest.raises(errors.NewerVersion):
            upkeep.rebuild(node, OWNER)
        assert audit.show(node, ShowLog(limit=1000))["facts"][-1]["kind"] == "task_dreamed"


def test_node_does_not_open_a_state_that_it_cannot_rebuild(
    workspace: Workspace, tmp_path: Path
) -> None:
    workspace.join("otto")
    copy = tmp_path / "copy"
    with_an_unknown_fact(workspace, copy, state_of_another_schema=True)
    with pytest.raises(errors.NewerVersion):
        Node(str(copy), clock=lambda: workspace.ms)


def test_rebuild_gives_the_same_state_while_many_messages_expire(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    for _ in range(250):
        workspace.send(otto, "@vera", ttl_s=60)
    workspace.ms += 61_000
    answer = upkeep.rebuild(workspace.node, OWNER)
    assert (answer["rebuilt"], answer["changed"]) == (True, False)
    assert audit.verify(workspace.node)["ok"]
    for _ in range(3):  # each request records a few hundred expiries
        workspace.call(OWNER, ShowStatus())
    assert len(workspace.call(OWNER, Review())["expired"]) == 250


def test_redacted_body_is_in_no_file_and_the_log_verifies(
    workspace: Workspace,
) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    id = workspace.send(otto, "@vera", "the password is swordfish")
    workspace.call(vera, Search("swordfish"))
    workspace.call(otto, Redact(id, "leaked"))
    message = workspace.call(vera, ReadMessage(id))
    assert message["redacted"] is True
    assert not {"payload", "sha256", "size"} & message.keys()
    assert audit.verify(workspace.node)["ok"]
    assert upkeep.rebuild(workspace.node, OWNER)["changed"] is False
    workspace.close()
    for path in workspace.directory.rglob("*"):
        if path.is_file():
            assert b"swordfish" not in path.read_bytes(), path


def test_restore_refuses_a_backup_of_another_workspace(
    workspace: Workspace, tmp_path: Path
) -> None:
    otto = workspace.join("otto")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = Workspace(elsewhere)
    other.join("vera")
    backup = str(tmp_path / "other.db")
    upkeep.backup(other.node, OWNER, backup)
    other.close()
    with pytest.raises(errors.Usage):
        upkeep.restore(workspace.node, OWNER, backup)
    assert workspace.call(otto, Whoami())["sender"] == "otto"
    shutil.rmtree(elsewhere)
    assert not [name for name in os.listdir(workspace.directory) if name.startswith("restoring")]


def test_committed_redaction_is_answered_even_if_the_disk_fails_later(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    otto = workspace.join("otto")
    sent = workspace.call(otto, SendMessage("@otto", {"text": "secret"}, "send"))["message"]

    def full() -> bool:
        raise EngineUnavailable("The disk is full.")

    monkeypatch.setattr(workspace.node.file, "scrub", full)
    assert workspace.call(otto, Redact(sent["id"], "a secret"))["redacted"]
    assert workspace.call(otto, SendMessage("@otto", {"text": "next"}, "send"))["accepted"]
