"""Recovery: rebuild the state from the log, detect forks, make backups during writes, and restore a
backup as a new epoch."""

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

from interlock.errors import BadToken, LogDamaged, NotAWorkspace, Paused, Refusal, Usage
from interlock.log.encoding import canonical, decode
from interlock.log.merkle import Frontier
from interlock.node import Node, audit, proofs, upkeep
from interlock.node.keys import EVERY
from interlock.rooms import folding
from interlock.rooms.claims.verbs import AcquireClaim, CheckClaim
from interlock.rooms.identity.verbs import ListAgents, ReaffirmTokens, RevokeToken
from interlock.rooms.mail.verbs import ListInbox, ReadMessage, Search, SendMessage
from interlock.rooms.workspace.verbs import Pause, ShowLog, Whoami
from interlock.stores.sqlite import LogFile, SqliteEngine
from world.commandline import LIMIT_S, owner_command
from world.sample_log import (
    LARGE,
    Sample,
    cut,
    drop_state,
    ends,
    header_at,
    make_sample,
    rewind_head,
    sqlite,
    verified,
)
from world.workspace import HOUR, OWNER, Answer, Workspace, join, send_text

# --- the state


def test_a_rebuild_gives_the_same_state(sample: Sample) -> None:
    with sample.open() as node:
        rebuilt = upkeep.rebuild(node, OWNER)
    assert (rebuilt["digest"], rebuilt["changed"]) == (sample.digest, False)
    assert (rebuilt["entries"], rebuilt["schema"]) == (sample.entries, folding.SCHEMA)


def test_opening_rebuilds_a_dropped_state(
    sample: Sample,
) -> None:
    with sqlite(sample) as db:
        drop_state(db)
    with sample.open() as node:
        assert upkeep.state_digest(node) == sample.digest
        assert node.call(sample.vera, ListInbox())["open"] > 0
    assert verified(sample)["ok"]


def test_opening_rebuilds_a_state_of_another_schema(
    sample: Sample,
) -> None:
    with sqlite(sample) as db:
        db.execute("UPDATE state_position SET schema = '0-older'")
        db.execute("DROP TABLE claims_held; CREATE TABLE claims_of_old_schema(x)")
        db.execute("ALTER TABLE mail_messages ADD COLUMN more TEXT")
    with sample.open() as node:
        assert upkeep.state_digest(node) == sample.digest
        with node.file.reading() as reader:
            left = reader.execute(
                "SELECT 1 FROM sqlite_schema WHERE name = 'claims_of_old_schema'"
            ).fetchall()
        assert left == []


def test_rebuild_fixes_a_tampered_state(sample: Sample) -> None:
    with sqlite(sample) as db:
        db.execute("UPDATE mail_messages SET sender = 'vera'")
        db.execute("DELETE FROM mail_boxes")
    with sample.open() as node:
        rebuilt = upkeep.rebuild(node, OWNER)
        assert (rebuilt["digest"], rebuilt["changed"]) == (sample.digest, True)
        assert upkeep.state_digest(node) == sample.digest


def test_rebuild_fixes_a_state_without_a_table(sample: Sample) -> None:
    with sqlite(sample) as db:
        db.execute("DROP TABLE mail_boxes")
    with sample.open() as node:
        assert upkeep.rebuild(node, OWNER)["digest"] == sample.digest


def test_rebuild_works_while_expiries_are_due(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    for number in range(3):
        workspace.call(otto, AcquireClaim(item=f"B-{number}", ttl_s=10))
        workspace.send(otto, "@vera", "soon", ttl_s=10)
    workspace.ms += 60_000
    assert not upkeep.rebuild(workspace.node, OWNER)["changed"]


def test_a_state_behind_the_log_catches_up(
    original_sample: Sample, sample: Sample, tmp_path: Path
) -> None:
    """Transactions prevent this in one file, so the test builds the file by hand."""
    with sample.open() as node:
        for number in range(7):
            send_text(node, sample.otto, "@vera", f"newer {number}")
        node.call(sample.vera, AcquireClaim(item="B-2"))
        newest = node.head()
    behind = original_sample.copied(tmp_path / "behind")
    with sqlite(behind) as db:
        db.execute("ATTACH ? AS newer", (str(sample.file),))
        for table in ("log", "bodies"):
            wanted = f"SELECT * FROM newer.{table} WHERE seq > {original_sample.entries}"
            db.execute(f"INSERT INTO {table} {wanted}")
        db.execute("DELETE FROM main.head; INSERT INTO main.head SELECT * FROM newer.head")
    with behind.open() as node:
        send_text(node, sample.otto, "@vera", "the next one")
        assert node.head() == newest + 1
        held = node.call(OWNER, CheckClaim(item="B-2"))
        assert [claim["holder"] for claim in held["claims"]] == ["@vera"]
        assert not upkeep.rebuild(node, OWNER)["changed"]
        assert audit.verify(node)["ok"]


# --- forks


def state_ahead(db: apsw.Connection) -> None:
    """Make the log shorter than the state."""
    cut(db, ends(db)[0] - 3)
    rewind_head(db)


def state_of_another_log(db: apsw.Connection) -> None:
    """Change the last entry, so that the state belongs to another log of the same length."""
    seq = ends(db)[0]
    header = decode(header_at(db, seq))
    db.execute(
        "UPDATE log SET header = ? WHERE seq = ?", (canonical(header | {"at": 1 << 50}), seq)
    )
    rewind_head(db)


def log_of_another_branch(db: apsw.Connection) -> None:
    """Make the log longer than the state, but not its continuation."""
    state_of_another_log(db)
    seq, last, _ = ends(db)
    next_one = decode(header_at(db, seq)) | {"seq": seq + 1, "prev": last}
    db.execute("INSERT INTO log VALUES (?, ?)", (seq + 1, canonical(next_one)))
    rewind_head(db)


each_fork = pytest.mark.parametrize(
    "fork", [state_ahead, state_of_another_log, log_of_another_branch]
)


@each_fork
def test_node_writes_nothing_on_a_fork(
    sample: Sample, fork: Callable[[apsw.Connection], None]
) -> None:
    with sqlite(sample) as db:
        fork(db)
        before = ends(db)[:2]
    with sample.open() as node:
        for _ in range(2):
            with pytest.raises(LogDamaged, match="forks"):
                send_text(node, sample.otto, "@vera", "into the dark")
            with pytest.raises(LogDamaged, match="forks"):
                node.call(sample.otto, AcquireClaim(item="B-9"))
        # A read is answered from the state, or refused with a code.
        with suppress(Refusal):
            node.call(OWNER, ListAgents())
        assert not audit.verify(node)["ok"]
    with sqlite(sample) as db:
        assert ends(db)[:2] == before
    status, refused = owner_command(sample.directory, "join", "mallory")
    assert (status, refused["code"]) == (1, "LOG_DAMAGED")


@each_fork
def test_restore_ends_a_fork(
    sample: Sample, fork: Callable[[apsw.Connection], None], tmp_path: Path
) -> None:
    with sample.open() as node:
        upkeep.backup(node, OWNER, str(tmp_path / "backup.db"))
    with sqlite(sample) as db:
        fork(db)
    status, restored = owner_command(sample.directory, "restore", str(tmp_path / "backup.db"))
    assert (status, restored["restored"]) == (0, True), restored
    with sample.open() as node:
        node.call(OWNER, ReaffirmTokens())
        send_text(node, sample.otto, "@vera", "back again")
        assert audit.verify(node)["ok"]


def test_restore_ends_a_fork_while_expiries_are_due(workspace: Workspace, tmp_path: Path) -> None:
    otto = workspace.join("otto")
    workspace.call(otto, AcquireClaim(item="B-1", ttl_s=60))
    upkeep.backup(workspace.node, OWNER, str(tmp_path / "backup.db"))
    workspace.send(otto, "@vera", "later")
    workspace.close()
    with closing(apsw.Connection(str(workspace.directory / "log.db"))) as db, db:
        cut(db, ends(db)[0] - 1)
        rewind_head(db)
    workspace.ms += HOUR
    workspace.reopen()
    assert upkeep.restore(workspace.node, OWNER, str(tmp_path / "backup.db"))["restored"]
    assert audit.verify(workspace.node)["ok"]


def unreadable_header_and_no_state(sample: Sample) -> None:
    with sqlite(sample) as db:
        db.execute("UPDATE log SET header = x'fffe' WHERE seq = ?", (sample.message,))
        drop_state(db)


def pages_of_noise(sample: Sample) -> None:
    data = bytearray(sample.file.read_bytes())
    data[8192 : len(data) // 2] = b"noise" * ((len(data) // 2 - 8192) // 5 + 1)
    sample.file.write_bytes(data)


def half_the_file(sample: Sample) -> None:
    sample.file.write_bytes(sample.file.read_bytes()[: sample.file.stat().st_size // 2])


def test_damaged_log_is_refused_and_a_backup_replaces_it(sample: Sample, tmp_path: Path) -> None:
    with sample.open() as node:
        upkeep.backup(node, OWNER, str(tmp_path / "backup.db"))
    unreadable_header_and_no_state(sample)
    status, refused = owner_command(sample.directory, "audit", "verify")
    assert (status, refused["code"]) == (1, "LOG_DAMAGED")
    status, restored = owner_command(sample.directory, "restore", str(tmp_path / "backup.db"))
    assert (status, restored.get("restored")) == (0, True), restored
    assert verified(sample)["ok"]


@pytest.mark.parametrize("damage", [pages_of_noise, half_the_file])
def test_unreadable_file_stays_unchanged_and_its_backup_makes_a_new_workspace(
    sample: Sample, damage: Callable[[Sample], None], tmp_path: Path
) -> None:
    with sample.open() as node:
        upkeep.backup(node, OWNER, str(tmp_path / "backup.db"))
    damage(sample)
    before = sample.file.read_bytes()
    status, refused = owner_command(sample.directory, "audit", "verify")
    assert (status, refused["code"]) == (1, "LOG_DAMAGED")
    assert "--workspace DIRECTORY restore FILE" in refused["message"]
    assert sample.file.read_bytes() == before
    status, restored = owner_command(tmp_path / "new", "restore", str(tmp_path / "backup.db"))
    assert (status, restored.get("restored")) == (0, True), restored
    assert owner_command(tmp_path / "new", "audit", "verify")[1]["ok"]


# --- an incomplete workspace


def an_empty_file(directory: Path) -> None:
    (directory / "log.db").touch()


def a_marked_file(directory: Path) -> None:
    LogFile(str(directory)).close()


def an_empty_log(directory: Path) -> None:
    with closing(LogFile(str(directory))) as file:
        SqliteEngine(file)


def an_empty_log_and_a_key(directory: Path) -> None:
    an_empty_log(directory)
    (directory / "keys").mkdir()
    (directory / "keys" / "checkpoint.key").write_bytes(os.urandom(32))


def an_empty_log_and_state(directory: Path) -> None:
    an_empty_log(directory)
    with closing(apsw.Connection(str(directory / "log.db"))) as db, db:
        db.execute(folding.TABLES)


@pytest.mark.parametrize(
    "half",
    [an_empty_file, a_marked_file, an_empty_log, an_empty_log_and_a_key, an_empty_log_and_state],
)
def test_opening_completes_an_incomplete_workspace(
    tmp_path: Path, half: Callable[[Path], None]
) -> None:
    half(tmp_path)
    with Node(str(tmp_path)) as node:
        found = audit.verify(node)
        assert (found["ok"], found["entries"]) == (True, 1)
        send_text(node, join(node, "otto"), "@vera", "works")
        assert audit.verify(node, proofs.checkpoint(node)["checkpoint"])["ok"]


# --- backups


WRITING = """
import os, sys
from interlock.verbs.credentials import Credentials
from interlock.rooms.mail.verbs import SendMessage
from interlock.errors import Refusal
from interlock.node import Node
node, who, stop = Node(sys.argv[1]), Credentials(token=sys.argv[2]), sys.argv[3]
while not os.path.exists(stop):
    try:
        sent = node.call(who, SendMessage("@vera", {"text": "busy"}))
    except Refusal as refusal:
        print(refusal.code, flush=True)
        break
    print(sent["message"]["id"], flush=True)
node.close()
"""


class Writer:
    """Another process that sends without a pause, and prints the ids of accepted messages."""

    def __init__(self, sample: Sample, stop: Path) -> None:
        words = [str(sample.directory), str(sample.otto.token), str(stop)]
        self.stop = stop
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITING, *words], stdout=subprocess.PIPE, text=True
        )
        self.accepted: list[str] = []

    def hear(self, count: int) -> None:
        """Wait until the node has accepted `count` further messages."""
        assert self.process.stdout is not None
        for _ in range(count):
            self.accepted.append(self.process.stdout.readline().strip())

    def finish(self) -> list[str]:
        self.stop.touch()
        rest, _ = self.process.communicate(timeout=LIMIT_S)
        self.accepted += rest.split()
        return self.accepted


@pytest.fixture
def writer(sample: Sample, tmp_path: Path) -> Iterator[Writer]:
    """Start a process that writes to the sample until `finish`."""
    writer = Writer(sample, tmp_path / "stop")
    yield writer
    writer.process.kill()
    writer.process.communicate()


def opened(backup: Path, directory: Path) -> Node:
    """Open a backup as a separate workspace."""
    directory.mkdir()
    shutil.copy(backup, directory / "log.db")
    return Node(str(directory))


def message_ids(node: Node) -> set[str]:
    with node.file.reading() as db:
        return {str(id) for (id,) in db.execute("SELECT id FROM mail_messages")}


def test_backup_is_complete_while_another_process_writes(
    sample: Sample, writer: Writer, tmp_path: Path
) -> None:
    with sample.open() as node:
        for number in range(4):
            writer.hear(20)
            target = tmp_path / f"backup-{number}.db"
            told = upkeep.backup(node, OWNER, str(target))
            with opened(target, tmp_path / f"copy-{number}") as copy:
                found = audit.verify(copy)
                assert found["ok"], found
                assert set(writer.accepted) <= message_ids(copy)
                assert not upkeep.rebuild(copy, OWNER)["changed"]
                assert told["entries"] == found["entries"]
            assert told["bytes"] == target.stat().st_size
        accepted = set(writer.finish())
        assert accepted <= message_ids(node)
        assert audit.verify(node)["ok"]


def test_backup_needs_a_new_file_and_has_mode_600(sample: Sample, tmp_path: Path) -> None:
    target = tmp_path / "backup.db"
    with sample.open() as node:
        upkeep.backup(node, OWNER, str(target))
        before = target.read_bytes()
        with pytest.raises(Usage):
            upkeep.backup(node, OWNER, str(target))
        with pytest.raises(Refusal):
            upkeep.backup(node, OWNER, str(tmp_path / "absent" / "backup.db"))
        with pytest.raises(Refusal):
            upkeep.backup(node, sample.otto, str(tmp_path / "another.db"))
    assert target.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup.db", "workspace"]
    assert target.stat().st_mode & 0o777 == 0o600


# --- restoring


class Restored(NamedTuple):
    """A workspace that was used after its backup, and then restored from it."""

    sample: Sample
    node: Node
    answer: Answer
    lost: Answer
    fences: list[int]
    late_note: str


@pytest.fixture
def restored(sample: Sample, tmp_path: Path) -> Iterator[Restored]:
    """Restore the sample. Return it with the fences that it granted before."""
    backup = str(tmp_path / "backup.db")
    with sample.open() as node:
        fences = [node.call(sample.otto, AcquireClaim(item="B-7"))["claim"]["fence"]]
        upkeep.backup(node, OWNER, backup)
        for number in range(3):
            granted = node.call(sample.vera, AcquireClaim(item=f"late-{number}"))
            fences.append(granted["claim"]["fence"])
        lost = send_text(node, sample.otto, "@vera", "written after the backup")
        late = proofs.checkpoint(node)["checkpoint"]
        answer = upkeep.restore(node, OWNER, backup)
        yield Restored(sample, node, answer, lost, fences, late)


def test_restore_starts_an_epoch_that_names_the_abandoned_log(restored: Restored) -> None:
    facts = audit.show(restored.node, ShowLog(kind="epoch_started"))["facts"]
    assert [fact["epoch"] for fact in facts] == [1]
    abandoned = facts[0]["outcome"]["abandoned"]
    assert abandoned["seq"] == restored.lost["seq"]
    assert abandoned["root"] == note_root(restored.late_note)
    assert restored.answer["epoch"] == 1
    assert restored.answer["entries"] == restored.node.head()


def note_root(note: str) -> str:
    return base64.b64decode(note.split("\n")[2]).hex()


def test_restored_log_verifies_and_equals_the_backup(restored: Restored) -> None:
    found = audit.verify(restored.node)
    assert found["ok"], found
    assert audit.verify(restored.node, restored.sample.note)["ok"]
    assert restored.lost["id"] not in message_ids(restored.node)
    assert not upkeep.rebuild(restored.node, OWNER)["changed"]


def test_checkpoint_of_the_abandoned_log_does_not_verify(restored: Restored) -> None:
    assert not audit.verify(restored.node, restored.late_note)["ok"]


def test_restore_moves_the_checkpoints_of_the_abandoned_log(restored: Restored) -> None:
    assert restored.node.keys.kept() == []
    aside = [
        path.read_text()
        for path in restored.sample.directory.rglob("*.note")
        if path.parent.name != "checkpoints"
    ]
    assert restored.late_note in aside


def test_restore_saves_the_abandoned_log(restored: Restored, tmp_path: Path) -> None:
    with opened(Path(restored.answer["abandoned"]), tmp_path / "abandoned") as abandoned:
        assert audit.verify(abandoned, restored.late_note)["ok"]
        assert restored.lost["id"] in message_ids(abandoned)


def test_restore_leaves_no_drafts(restored: Restored) -> None:
    left = [path.name for path in restored.sample.directory.iterdir()]
    assert not [name for name in left if name.startswith("restoring")]


def test_tokens_are_suspended_until_they_are_reaffirmed(restored: Restored) -> None:
    node, sample = restored.node, restored.sample
    for who in (sample.otto, sample.vera):
        with pytest.raises(BadToken, match="reaffirm"):
            node.call(who, Whoami())
    told = node.call(OWNER, ReaffirmTokens(sender="otto-cli"))
    assert len(told["reaffirmed"]) == 1
    node.call(sample.otto, Whoami())
    with pytest.raises(BadToken):
        node.call(sample.vera, Whoami())
    fresh = join(node, "neo")
    node.call(fresh, Whoami())


def test_token_revoked_after_the_backup_stays_invalid(sample: Sample, tmp_path: Path) -> None:
    backup = str(tmp_path / "backup.db")
    with sample.open() as node:
        upkeep.backup(node, OWNER, backup)
        node.call(OWNER, RevokeToken(sender="otto-cli"))
        upkeep.restore(node, OWNER, backup)
        with pytest.raises(BadToken):
            node.call(sample.otto, Whoami())


def test_fences_after_a_restore_exceed_all_earlier_fences(restored: Restored) -> None:
    node, sample = restored.node, restored.sample
    node.call(OWNER, ReaffirmTokens())
    for item in ("late-0", "late-1", "new"):
        fence = node.call(sample.otto, AcquireClaim(item=item))["claim"]["fence"]
        assert fence > max(restored.fences)
        restored.fences.append(fence)


def test_mail_and_search_work_after_a_restore(restored: Restored) -> None:
    node, sample = restored.node, restored.sample
    node.call(OWNER, ReaffirmTokens())
    sent = send_text(node, sample.otto, "@vera", "a quetzal after the restore")
    assert node.call(sample.vera, ReadMessage(sent["id"]))["payload"]["text"]
    found = node.call(sample.vera, Search("quetzal"))["messages"]
    assert [message["id"] for message in found] == [sent["id"]]
    blob = node.call(sample.vera, ReadMessage(f"#{sample.blob}"))
    assert blob["payload"]["text"] == LARGE


def test_workspace_can_be_restored_several_times(restored: Restored, tmp_path: Path) -> None:
    node = restored.node
    for epoch in (2, 3, 4):
        told = upkeep.restore(node, OWNER, str(tmp_path / "backup.db"))
        assert told["epoch"] == epoch
        assert audit.verify(node)["ok"]
    upkeep.backup(node, OWNER, str(tmp_path / "later.db"))
    assert upkeep.restore(node, OWNER, str(tmp_path / "later.db"))["epoch"] == 5
    assert audit.verify(node)["ok"]
    epochs = [fact["epoch"] for fact in audit.show(node, ShowLog(kind="epoch_started"))["facts"]]
    assert epochs == [4, 5]


def test_a_backup_is_restored_on_a_new_machine_without_the_old_key(
    sample: Sample, tmp_path: Path
) -> None:
    backup = str(tmp_path / "backup.db")
    with sample.open() as node:
        upkeep.backup(node, OWNER, backup)
        old = proofs.prove(node, 2)
    with closing(apsw.Connection(backup)) as db, db:
        db.execute("UPDATE file_meta SET value = 'elsewhere' WHERE name IN ('host', 'boot')")
    place = tmp_path / "new"
    status, told = owner_command(place, "restore", backup)
    assert (status, told["restored"], told["epoch"]) == (0, True, 1)
    with Node(str(place)) as node:
        assert audit.verify(node, sample.note)["ok"]
        signed = proofs.checkpoint(node)
        assert signed["verifier"] != old["verifier"]
        assert audit.verify(node, signed["checkpoint"])["ok"]
        assert proofs.check_proof(proofs.prove(node, 2), signed["verifier"])["ok"]
        node.call(OWNER, ReaffirmTokens())
        for number in range(EVERY):
            send_text(node, sample.otto, "@vera", f"on {number}")
        found = audit.verify(node)
        assert (found["ok"], found["checkpoints"]) == (True, 2)


def everything(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and "log.db-" not in path.name
    }


def test_a_backup_of_another_workspace_is_refused(sample: Sample, tmp_path: Path) -> None:
    other = make_sample(tmp_path / "other")
    with other.open() as node:
        upkeep.backup(node, OWNER, str(tmp_path / "backup.db"))
    before = everything(sample.directory)
    status, refused = owner_command(sample.directory, "restore", str(tmp_path / "backup.db"))
    assert (status, refused["code"]) == (2, "USAGE")
    assert everything(sample.directory) == before
    assert verified(sample)["ok"]


def no_file(path: Path) -> None:
    pass


def a_directory(path: Path) -> None:
    path.mkdir()


def an_empty(path: Path) -> None:
    path.touch()


def a_text(path: Path) -> None:
    path.write_text("Dear diary, " * 1000)


def a_foreign_database(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as db:
        db.execute("CREATE TABLE log(seq, header); INSERT INTO log VALUES (1, 'x')")


@pytest.mark.parametrize("make", [no_file, a_directory, an_empty, a_text, a_foreign_database])
def test_restore_refuses_other_files(
    sample: Sample, make: Callable[[Path], None], tmp_path: Path
) -> None:
    make(tmp_path / "backup.db")
    before = everything(sample.directory)
    with sample.open() as node, pytest.raises(NotAWorkspace):
        upkeep.restore(node, OWNER, str(tmp_path / "backup.db"))
    assert everything(sample.directory) == before


def half_of_it(backup: Path) -> None:
    backup.write_bytes(backup.read_bytes()[: backup.stat().st_size // 2])


def without_its_last_entries(backup: Path) -> None:
    with closing(apsw.Connection(str(backup))) as db, db:
        cut(db, ends(db)[0] - 3)


def with_a_forged_entry(backup: Path) -> None:
    with closing(apsw.Connection(str(backup))) as db, db:
        forged = canonical(decode(header_at(db, 5)) | {"sender": "mallory"})
        db.execute("UPDATE log SET header = ? WHERE seq = 5", (forged,))


@pytest.mark.parametrize("damage", [half_of_it, without_its_last_entries, with_a_forged_entry])
def test_restore_refuses_a_damaged_backup(
    sample: Sample, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    backup = tmp_path / "backup.db"
    with sample.open() as node:
        upkeep.backup(node, OWNER, str(backup))
    before = everything(sample.directory)
    damage(backup)
    with sample.open() as node, pytest.raises(Refusal):
        upkeep.restore(node, OWNER, str(backup))
    assert everything(sample.directory) == before
    assert verified(sample)["ok"]


SERVING = """
import json, sys
from interlock.verbs.credentials import Credentials
from interlock.errors import Refusal
from interlock.node import Node
from interlock.rooms import catalogue
verbs = {verb.__name__: verb for verb in catalogue.verbs()}
node, who = Node(sys.argv[1]), Credentials(token=sys.argv[2])
print("ready", flush=True)
for line in sys.stdin:
    name, members = json.loads(line)
    try:
        answer = node.call(who, verbs[name](**members))
    except Refusal as refusal:
        answer = refusal.as_dict()
    print(json.dumps(answer), flush=True)
node.close()
"""


class Server:
    """Another process that has the workspace open and executes requests."""

    def __init__(self, sample: Sample) -> None:
        words = [str(sample.directory), str(sample.otto.token)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVING, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "ready"

    def do(self, act: str, **members: Any) -> Answer:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([act, members]) + "\n")
        self.process.stdin.flush()
        answer: Answer = json.loads(self._line())
        return answer

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def close(self) -> None:
        self.process.communicate(timeout=LIMIT_S)


def test_other_process_works_correctly_after_a_restore(sample: Sample, tmp_path: Path) -> None:
    backup = str(tmp_path / "backup.db")
    message = {"to": "@vera", "type": "send", "payload": {"text": "from the other process"}}
    with closing(Server(sample)) as server, sample.open() as node:
        upkeep.backup(node, OWNER, backup)
        lost = server.do("SendMessage", **message)["message"]
        held = server.do("AcquireClaim", item="B-7")["claim"]
        upkeep.restore(node, OWNER, backup)
        assert server.do("SendMessage", **message)["code"] == "BAD_TOKEN"
        node.call(OWNER, ReaffirmTokens())
        sent = server.do("SendMessage", **message)["message"]
        again = server.do("AcquireClaim", item="B-7")["claim"]
        assert again["fence"] > held["fence"]
        inbox = node.call(sample.vera, ListInbox(limit=1000))["messages"]
        ids = [found["id"] for found in inbox]
        assert sent["id"] in ids
        assert lost["id"] not in ids
        assert server.do("ReadMessage", message=sent["id"])["payload"] == message["payload"]
        assert server.do("ReadMessage", message=lost["id"])["code"] == "NOT_FOUND"
        assert audit.verify(node)["ok"]
        assert not upkeep.rebuild(node, OWNER)["changed"]


@pytest.mark.parametrize("round", range(3))
def test_writes_of_another_process_are_in_the_new_or_the_abandoned_log(
    sample: Sample, writer: Writer, tmp_path: Path, round: int
) -> None:
    with sample.open() as node:
        writer.hear(10)
        upkeep.backup(node, OWNER, str(tmp_path / "backup.db"))
        writer.hear(10)
        told = upkeep.restore(node, OWNER, str(tmp_path / "backup.db"))
        *accepted, refused = writer.finish()
        assert refused == "BAD_TOKEN"
        assert audit.verify(node)["ok"]
        with opened(Path(told["abandoned"]), tmp_path / "abandoned") as abandoned:
            assert audit.verify(abandoned)["ok"]
            lost = set(accepted) - message_ids(abandoned) - message_ids(node)
        assert lost == set()


RESTORING = """
import sys
from interlock.verbs.credentials import Credentials
from interlock.node import Node, upkeep
with Node(sys.argv[1]) as node:
    print("ready", flush=True)
    while True:
        upkeep.restore(node, Credentials(owner=True), sys.argv[2])
"""


@pytest.mark.long
def test_process_killed_during_restore_leaves_the_old_log_or_the_new_epoch(
    sample: Sample, tmp_path: Path
) -> None:
    backup = str(tmp_path / "backup.db")
    with sample.open() as node:
        upkeep.backup(node, OWNER, backup)
    for number in range(12):
        restoring = subprocess.Popen(
            [sys.executable, "-c", RESTORING, str(sample.directory), backup],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert restoring.stdout is not None
        assert restoring.stdout.readline() == "ready\n"
        with suppress(subprocess.TimeoutExpired):
            restoring.wait(number * 0.013)
        restoring.kill()
        restoring.communicate()
        with sample.open() as node:
            assert audit.verify(node)["ok"]
            assert not upkeep.rebuild(node, OWNER)["changed"]
            node.call(OWNER, ReaffirmTokens())
            send_text(node, sample.otto, "@vera", f"after round {number}")


def test_late_checkpoint_of_an_abandoned_log_does_not_affect_the_new_log(
    workspace: Workspace, tmp_path: Path
) -> None:
    otto = workspace.join("otto")
    upkeep.backup(workspace.node, OWNER, str(tmp_path / "backup.db"))
    for _ in range(5):
        workspace.call(otto, SendMessage("@otto", {"text": "later"}, "send"))
    position = workspace.node._position
    assert position is not None
    frontier = Frontier.unpack(position.frontier.pack())
    late = position.workspace, position.epoch, frontier
    upkeep.restore(workspace.node, OWNER, str(tmp_path / "backup.db"))
    workspace.node.keys.checkpoint(*late)
    assert audit.verify(workspace.node)["ok"]


def test_restore_over_an_unreadable_log_raises_the_epoch(
    workspace: Workspace, tmp_path: Path
) -> None:
    backup = str(tmp_path / "backup.db")
    upkeep.backup(workspace.node, OWNER, backup)
    for _ in range(2):
        epoch = upkeep.restore(workspace.node, OWNER, backup)["epoch"]
    workspace.node.do(lambda turn: turn.db.execute("UPDATE log SET header = x'ff' WHERE seq = 1"))
    workspace.node.do(lambda turn: turn.db.execute("DROP TABLE mail_asks"))
    workspace.close()
    workspace.reopen()
    assert upkeep.restore(workspace.node, OWNER, backup)["epoch"] == epoch + 1


def test_restore_is_refused_while_paused(workspace: Workspace, tmp_path: Path) -> None:
    upkeep.backup(workspace.node, OWNER, str(tmp_path / "backup.db"))
    workspace.call(OWNER, Pause())
    with pytest.raises(Paused):
        upkeep.restore(workspace.node, OWNER, str(tmp_path / "backup.db"))
