"""The audit finds each change that an intruder makes to the log, and names the damaged entry.

The tests change the file through SQLite while the workspace is closed, as an intruder would."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from interlock.errors import LogDamaged, Refusal
from interlock.log.encoding import canonical, decode
from interlock.log.facts import GENESIS, header_hash
from interlock.log.notes import public_key, verifier_key
from interlock.node import Node, audit, proofs, upkeep
from interlock.node.keys import EVERY, signer
from interlock.rooms.mail.verbs import ListInbox, PutChunk, ReadMessage, Redact, Search, ShowThread
from interlock.rooms.work.verbs import AddEvidence, ShowEvidence
from interlock.rooms.workspace.verbs import ExportLog, ShowLog
from interlock.verbs.credentials import Credentials
from world.commandline import owner_command
from world.sample_log import (
    Sample,
    cut,
    damaged_entry,
    drop_state,
    flip,
    header_at,
    rewind_head,
    rewind_position,
    rows,
    sqlite,
    verified,
)
from world.workspace import OWNER, Answer, send_text


def test_unchanged_sample_verifies(sample: Sample) -> None:
    found = verified(sample, sample.note)
    assert found["ok"], found
    assert found["entries"] == sample.entries
    status, told = owner_command(sample.directory, "audit", "verify")
    assert (status, told["ok"], told["root"]) == (0, True, found["root"])


# --- one byte


def test_a_changed_byte_of_a_header_is_found_in_its_entry(sample: Sample) -> None:
    last = sample.entries
    wrong = []
    for seq in (1, 2, sample.message, sample.blob, last - 1, last):
        with sqlite(sample) as db:
            header = header_at(db, seq)
        for at in range(0, len(header), 7):
            store(sample, seq, flip(header, at))
            found = verified(sample)
            if found["ok"] or found["seq"] != seq:
                wrong.append((seq, header[max(0, at - 12) : at + 1], found.get("seq")))
        store(sample, seq, header)
    assert verified(sample)["ok"]
    assert wrong == [], f"the audit did not name the entry of {len(wrong)} changes"


def store(sample: Sample, seq: int, header: bytes) -> None:
    with sqlite(sample) as db:
        db.execute("UPDATE log SET header = ? WHERE seq = ?", (header, seq))


def test_audit_notices_every_changed_byte_of_a_header(sample: Sample) -> None:
    for seq in range(1, sample.entries + 1):
        with sqlite(sample) as db:
            header = header_at(db, seq)
        for at in (0, len(header) // 3, len(header) // 2, len(header) - 1):
            store(sample, seq, flip(header, at))
            assert not verified(sample)["ok"], (seq, at)
        store(sample, seq, header)
    assert verified(sample)["ok"]


@pytest.mark.parametrize("column", ["body", "salt"])
def test_a_changed_byte_of_a_body_or_salt_is_found_in_its_entry(
    sample: Sample, column: str
) -> None:
    with sqlite(sample) as db:
        found = rows(db, f"SELECT seq, {column} FROM bodies ORDER BY seq")
    assert len(found) > 5
    for seq, data in found:
        for at in {0, len(data) // 2, len(data) - 1}:
            with sqlite(sample) as db:
                change = f"UPDATE bodies SET {column} = ? WHERE seq = ?"
                db.execute(change, (flip(data, at), seq))
            assert damaged_entry(verified(sample)) == seq
        with sqlite(sample) as db:
            db.execute(f"UPDATE bodies SET {column} = ? WHERE seq = ?", (data, seq))
    assert verified(sample)["ok"]


def test_a_body_that_was_deleted_without_a_redaction_is_found(sample: Sample) -> None:
    with sqlite(sample) as db:
        db.execute("DELETE FROM bodies WHERE seq = ?", (sample.message,))
    assert damaged_entry(verified(sample)) == sample.message


def test_body_added_to_a_fact_without_one_is_found(sample: Sample) -> None:
    with sqlite(sample) as db:
        db.execute("INSERT INTO bodies VALUES (2, x'00', x'7b7d')")
    assert damaged_entry(verified(sample)) == 2


def test_verify_command_names_the_entry_and_exits_with_1(sample: Sample) -> None:
    with sqlite(sample) as db:
        ((body,),) = rows(db, "SELECT body FROM bodies WHERE seq = ?", sample.message)
        change = "UPDATE bodies SET body = ? WHERE seq = ?"
        db.execute(change, (flip(body, 20), sample.message))
    status, found = owner_command(sample.directory, "audit", "verify")
    assert (status, damaged_entry(found)) == (1, sample.message)


# --- whole entries


def entry_places(sample: Sample) -> tuple[int, int, int]:
    return 1, sample.message, sample.entries


@pytest.mark.parametrize("which", [0, 1, 2], ids=["first", "middle", "last"])
def test_a_deleted_entry_is_found(sample: Sample, which: int) -> None:
    seq = entry_places(sample)[which]
    with sqlite(sample) as db:
        db.execute("DELETE FROM log WHERE seq = ?", (seq,))
        db.execute("DELETE FROM bodies WHERE seq = ?", (seq,))
    assert damaged_entry(verified(sample)) == seq


@pytest.mark.parametrize("which", [0, 1], ids=["first", "middle"])
def test_deleted_entry_is_found_after_renumbering_the_others(sample: Sample, which: int) -> None:
    seq = entry_places(sample)[which]
    with sqlite(sample) as db:
        for table in ("log", "bodies"):
            db.execute(f"DELETE FROM {table} WHERE seq = ?", (seq,))
            db.execute(f"UPDATE {table} SET seq = -seq + 1 WHERE seq > ?", (seq,))
            db.execute(f"UPDATE {table} SET seq = -seq WHERE seq < 0")
    assert damaged_entry(verified(sample)) == seq


@pytest.mark.parametrize("distance", [1, 5])
def test_swapped_entries_are_found(sample: Sample, distance: int) -> None:
    one, other = sample.message - distance, sample.message
    with sqlite(sample) as db:
        for table in ("log", "bodies"):
            db.execute(f"UPDATE {table} SET seq = 0 WHERE seq = ?", (one,))
            db.execute(f"UPDATE {table} SET seq = ? WHERE seq = ?", (one, other))
            db.execute(f"UPDATE {table} SET seq = ? WHERE seq = 0", (other,))
    assert damaged_entry(verified(sample)) == one


def test_swapped_bodies_are_found(sample: Sample) -> None:
    one, other = sample.message - 1, sample.message
    with sqlite(sample) as db:
        db.execute("UPDATE bodies SET seq = 0 WHERE seq = ?", (one,))
        db.execute("UPDATE bodies SET seq = ? WHERE seq = ?", (one, other))
        db.execute("UPDATE bodies SET seq = ? WHERE seq = 0", (other,))
    assert damaged_entry(verified(sample)) == one


def test_inserted_entry_is_found(sample: Sample) -> None:
    seq = sample.message
    with sqlite(sample) as db:
        header = header_at(db, seq)
        for table in ("log", "bodies"):
            db.execute(f"UPDATE {table} SET seq = -seq - 1 WHERE seq > ?", (seq,))
            db.execute(f"UPDATE {table} SET seq = -seq WHERE seq < 0")
        db.execute("INSERT INTO log VALUES (?, ?)", (seq + 1, header))
    assert damaged_entry(verified(sample)) == seq + 1


def test_appended_entry_is_found(sample: Sample) -> None:
    """The forged entry links correctly to the last one, but the head has the end of the log."""
    with sqlite(sample) as db:
        last = header_at(db, sample.entries)
        forged = decode(last) | {"seq": sample.entries + 1, "prev": header_hash(last)}
        forged.pop("body", None)
        db.execute("INSERT INTO log VALUES (?, ?)", (sample.entries + 1, canonical(forged)))
    assert damaged_entry(verified(sample)) == sample.entries + 1


# --- a cut tail


def test_a_cut_tail_is_found_by_the_head(sample: Sample) -> None:
    with sqlite(sample) as db:
        cut(db, sample.entries - 3)
    assert damaged_entry(verified(sample)) == sample.entries - 2


def test_a_cut_tail_with_its_head_is_found_by_the_state(sample: Sample) -> None:
    with sqlite(sample) as db:
        cut(db, sample.entries - 3)
        rewind_head(db)
    assert damaged_entry(verified(sample)) == sample.entries - 2


@pytest.mark.parametrize("state", [rewind_position, drop_state], ids=["rewound", "rebuilt"])
def test_a_cut_tail_with_head_and_state_is_found_by_an_earlier_checkpoint(
    sample: Sample, state: Callable[[apsw.Connection], None], tmp_path: Path
) -> None:
    with sqlite(sample) as db:
        cut(db, sample.entries - 3)
        rewind_head(db)
        state(db)
    # Without a checkpoint, a cut log looks the same as a log that never grew.
    assert verified(sample)["ok"]
    assert damaged_entry(verified(sample, sample.note)) == sample.entries - 2
    (tmp_path / "note").write_text(sample.note)
    status, found = owner_command(
        sample.directory, "audit", "verify", "--checkpoint", str(tmp_path / "note")
    )
    assert (status, damaged_entry(found)) == (1, sample.entries - 2)


def keep(sample: Sample, note: str | bytes) -> Path:
    """Store a checkpoint in the directory where the workspace stores its own."""
    path = sample.directory / "checkpoints" / f"{sample.entries:020}-0.note"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(note if isinstance(note, bytes) else note.encode())
    return path


def test_cut_tail_is_found_by_a_stored_checkpoint(sample: Sample) -> None:
    keep(sample, sample.note)
    with sqlite(sample) as db:
        cut(db, sample.entries - 3)
        rewind_head(db)
        drop_state(db)
    assert damaged_entry(verified(sample)) == sample.entries - 2
    status, found = owner_command(sample.directory, "audit", "verify")
    assert (status, damaged_entry(found)) == (1, sample.entries - 2)


def test_cut_tail_is_found_by_an_automatic_checkpoint(
    sample: Sample,
) -> None:
    with sample.open() as node:
        for number in range(EVERY):
            send_text(node, sample.otto, "@vera", f"another {number}")
        assert len(node.keys.kept()) == 1
    with sqlite(sample) as db:
        cut(db, EVERY - 2)
        rewind_head(db)
        drop_state(db)
    assert damaged_entry(verified(sample)) == EVERY - 1


def test_a_log_that_grew_again_after_it_was_cut_is_found_by_an_earlier_checkpoint(
    sample: Sample,
) -> None:
    with sqlite(sample) as db:
        cut(db, sample.entries - 3)
        rewind_head(db)
        drop_state(db)
    with sample.open() as node:
        for number in range(5):
            send_text(node, sample.otto, "@vera", f"instead {number}")
    assert damaged_entry(verified(sample, sample.note)) == sample.entries


# --- a rewritten history


def rewrite(sample: Sample, change: Callable[[Answer], None]) -> None:
    """Change facts as a capable attacker does: recompute all hashes, so that everything matches."""
    with sqlite(sample) as db:
        last = GENESIS
        for seq, header in rows(db, "SELECT seq, header FROM log ORDER BY seq"):
            fact = decode(bytes(header))
            change(fact)
            data = canonical(fact | {"prev": last})
            db.execute("UPDATE log SET header = ? WHERE seq = ?", (data, seq))
            last = header_hash(data)
        rewind_head(db)
        drop_state(db)


def blame_vera(fact: Answer) -> None:
    if fact["kind"] == "message_sent" and fact["sender"] == "otto-cli":
        fact["sender"] = "vera"


def test_a_rewritten_history_is_found_by_any_earlier_checkpoint(sample: Sample) -> None:
    rewrite(sample, blame_vera)
    assert verified(sample)["ok"], "without a checkpoint, the forgery should verify"
    assert damaged_entry(verified(sample, sample.note)) <= sample.entries
    keep(sample, sample.note)
    assert damaged_entry(verified(sample)) <= sample.entries
    status, found = owner_command(sample.directory, "audit", "verify")
    assert (status, found["code"]) == (1, "LOG_DAMAGED")


def test_a_rewritten_history_is_found_by_a_checkpoint_of_its_first_entries(
    sample: Sample,
) -> None:
    with sample.open() as node:
        early = proofs.checkpoint(node)["checkpoint"]
    shutil.rmtree(sample.directory / "checkpoints")
    with sample.open() as node:
        for number in range(10):
            send_text(node, sample.otto, "@vera", f"later {number}")

    def change_late(fact: Answer) -> None:
        if fact["seq"] > sample.entries:
            fact["sender"] = "vera"

    rewrite(sample, change_late)
    # The change is after the entries that the checkpoint covers, so it proves nothing about it.
    assert verified(sample, early)["ok"]
    rewrite(sample, blame_vera)
    assert damaged_entry(verified(sample, early)) == sample.entries


def test_a_rewritten_history_is_found_by_an_export_made_before(sample: Sample) -> None:
    export = sample.directory / "before.jsonl"
    with sample.open() as node:
        audit.export(node, OWNER, str(export))
    about = json.loads(export.read_bytes().splitlines()[0])
    rewrite(sample, blame_vera)
    assert not verified(sample, about["checkpoint"])["ok"]


def own_key(sample: Sample) -> Callable[[Answer], None]:
    """Replace the key as an attacker does, so that later checkpoints look right."""
    seed = os.urandom(32)
    (sample.directory / "keys" / "checkpoint.key").write_bytes(seed)

    def change(fact: Answer) -> None:
        blame_vera(fact)
        if "verifier" in fact["outcome"]:
            name = signer(fact["workspace"])
            fact["outcome"]["verifier"] = verifier_key(name, public_key(seed))

    return change


def test_a_rewritten_history_with_another_key_is_found_by_an_earlier_checkpoint(
    sample: Sample, tmp_path: Path
) -> None:
    rewrite(sample, own_key(sample))
    assert verified(sample)["ok"], "without a checkpoint, the forgery should verify"
    (tmp_path / "note").write_text(sample.note)
    status, found = owner_command(
        sample.directory, "audit", "verify", "--checkpoint", str(tmp_path / "note")
    )
    assert (status, found["code"]) == (1, "LOG_DAMAGED")


def test_rewritten_history_with_another_key_is_found_by_stored_checkpoints(
    sample: Sample,
) -> None:
    keep(sample, sample.note)
    rewrite(sample, own_key(sample))
    status, found = owner_command(sample.directory, "audit", "verify")
    assert (status, found["code"]) == (1, "LOG_DAMAGED")


# --- checkpoints and blobs


def other_root(note: str) -> bytes:
    lines = note.split("\n")
    lines[2] = ("A" if lines[2][0] != "A" else "B") + lines[2][1:]
    return "\n".join(lines).encode()


def other_size(note: str) -> bytes:
    lines = note.split("\n")
    lines[1] = str(int(lines[1]) + 1)
    return "\n".join(lines).encode()


def other_signature(note: str) -> bytes:
    return (note[:-8] + ("A" if note[-8] != "A" else "B") + note[-7:]).encode()


@pytest.mark.parametrize(
    "change",
    [
        other_root,
        other_size,
        other_signature,
        lambda note: b"",
        lambda note: b"junk",
        lambda note: note.encode()[:-1],
        lambda note: b"\xff\xfe" + note.encode(),
        lambda note: note.encode() * 2,
    ],
    ids=["root", "size", "signature", "empty", "junk", "cut", "binary", "doubled"],
)
def test_changed_stored_checkpoint_is_found(sample: Sample, change: Callable[[str], bytes]) -> None:
    keep(sample, sample.note)
    assert verified(sample)["ok"]
    keep(sample, change(sample.note))
    status, found = owner_command(sample.directory, "audit", "verify")
    assert (status, found["code"]) == (1, "LOG_DAMAGED")


def test_a_changed_chunk_of_a_blob_is_found_in_its_entry(sample: Sample) -> None:
    with sqlite(sample) as db:
        chunks = rows(db, "SELECT number, data FROM blob_chunks ORDER BY number")
    assert len(chunks) == 2
    for number, data in chunks:
        for at in (0, len(data) // 2, len(data) - 1):
            change = "UPDATE blob_chunks SET data = ? WHERE number = ?"
            with sqlite(sample) as db:
                db.execute(change, (flip(data, at), number))
            assert damaged_entry(verified(sample)) == sample.blob
        with sqlite(sample) as db:
            db.execute(change, (data, number))
    assert verified(sample)["ok"]


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM blob_chunks WHERE number = 1",
        "DELETE FROM blob_chunks",
        "DELETE FROM blobs",
        "UPDATE blob_chunks SET number = 9 WHERE number = 0",
        "DELETE FROM blob_uses",
        "DELETE FROM blob_uses; DELETE FROM blobs; DELETE FROM blob_chunks",
    ],
)
def test_a_blob_that_lost_a_part_is_found_in_its_entry(sample: Sample, change: str) -> None:
    with sqlite(sample) as db:
        db.execute(change)
    assert damaged_entry(verified(sample)) == sample.blob


def prove(node: Node, who: Credentials, text: bytes, kind: str) -> int:
    """Add evidence of a run with this output, or of this file. Return its position in the log."""
    kept = {"sha256": hashlib.sha256(text).hexdigest(), "size": len(text)}
    upload = node.call(who, PutChunk(text, len(text)))["upload"] if text else None
    run = {"command": "make", "cwd": ".", "exit_code": 0, "duration_ms": 5, "output": kept}
    said = run if kind == "run" else {"name": "log.txt"} | kept
    made = node.call(who, AddEvidence({"kind": kind} | said, upload))
    seq: int = made["evidence"]["seq"]
    return seq


@pytest.mark.parametrize("kind", ["run", "file"])
def test_evidence_whose_bytes_were_changed_is_found_in_its_entry(sample: Sample, kind: str) -> None:
    with sample.open() as node:
        prove(node, sample.otto, b"", kind)
        seq = prove(node, sample.otto, b"all 42 tests passed", kind)
        assert audit.verify(node)["ok"]
    with sqlite(sample) as db:
        change = "UPDATE blob_chunks SET data = ? WHERE data = ?"
        db.execute(change, (b"all 99 tests passed", b"all 42 tests passed"))
    assert damaged_entry(verified(sample)) == seq


_OF_EVIDENCE = "(SELECT upload FROM blobs WHERE size = 19)"


@pytest.mark.parametrize(
    "change",
    [
        f"DELETE FROM blob_chunks WHERE upload = {_OF_EVIDENCE}",
        f"UPDATE blob_chunks SET data = x'616c6c' WHERE upload = {_OF_EVIDENCE}",
        "DELETE FROM blobs WHERE size = 19",
        "DELETE FROM bodies WHERE seq = (SELECT seq FROM work_evidence)",
    ],
)
def test_evidence_without_its_bytes_is_found_and_not_shown(sample: Sample, change: str) -> None:
    with sample.open() as node:
        seq = prove(node, sample.otto, b"all 42 tests passed", "run")
        assert node.call(sample.vera, ShowEvidence(f"#{seq}"))["content"]["size"] == 19
    with sqlite(sample) as db:
        db.execute(change)
    assert damaged_entry(verified(sample)) == seq
    with sample.open() as node, pytest.raises(LogDamaged) as caught:
        node.call(sample.vera, ShowEvidence(f"#{seq}"))
    assert caught.value.members["seq"] == seq


def test_evidence_whose_bytes_were_redacted_is_no_damage(sample: Sample) -> None:
    with sample.open() as node:
        seq = prove(node, sample.otto, b"all 42 tests passed", "run")
        node.call(sample.otto, Redact(f"#{seq}", "a slip"))
        assert audit.verify(node)["ok"]
        shown = node.call(sample.vera, ShowEvidence(f"#{seq}"))
    assert shown["evidence"]["redacted"] is True
    assert "content" not in shown


def test_read_refuses_a_message_whose_blob_lost_bytes(sample: Sample) -> None:
    with sqlite(sample) as db:
        db.execute("DELETE FROM blob_chunks WHERE number = 1")
    with sample.open() as node, pytest.raises(LogDamaged) as caught:
        node.call(sample.vera, ReadMessage(f"#{sample.blob}"))
    assert caught.value.members["seq"] == sample.blob


def test_export_of_a_damaged_log_leaves_no_file(sample: Sample) -> None:
    target = sample.directory.parent / "exports" / "log.jsonl"
    target.parent.mkdir()
    with sqlite(sample) as db:
        db.execute("UPDATE bodies SET body = x'fffe' WHERE seq = ?", (sample.message,))
    with sample.open() as node:
        for _ in range(2):
            with pytest.raises(LogDamaged):
                node.call(OWNER, ExportLog(str(target)))
            assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM head",
        "DELETE FROM state_position",
        "UPDATE head SET seq = 0",
        "UPDATE head SET hash = 'x'",
        "UPDATE state_position SET hash = 'x'",
        "UPDATE state_position SET frontier = x'00'",
    ],
)
def test_tampered_head_or_position_is_answered_with_a_code(sample: Sample, change: str) -> None:
    with sqlite(sample) as db:
        db.execute(change)
    status, found = owner_command(sample.directory, "audit", "verify")
    if status == 0:
        assert change == "DELETE FROM state_position", "only the state can be rebuilt"
    else:
        assert (status, found["code"]) == (1, "LOG_DAMAGED")


def test_a_damaged_log_is_not_signed(sample: Sample) -> None:
    """A checkpoint over a damaged log would confirm it, and could replace a good stored one."""
    keep(sample, sample.note)
    with sqlite(sample) as db:
        header = header_at(db, sample.message)
        forged = canonical(decode(header) | {"sender": "vera"})
        db.execute("UPDATE log SET header = ? WHERE seq = ?", (forged, sample.message))
    signs: list[Callable[[Node], object]] = [
        lambda node: proofs.checkpoint(node),
        lambda node: proofs.prove(node, sample.message),
        lambda node: proofs.prove_growth(node, 3),
    ]
    with sample.open() as node:
        for sign in signs:
            with pytest.raises(LogDamaged):
                sign(node)
        assert [note for _, note in node.keys.kept()] == [sample.note]


READS: list[Callable[[Node, Sample], object]] = [
    lambda node, sample: audit.verify(node),
    lambda node, sample: audit.show(node, ShowLog(limit=1000)),
    lambda node, sample: proofs.prove(node, sample.message),
    lambda node, sample: audit.export(node, OWNER, str(sample.directory / "out.jsonl")),
    lambda node, sample: upkeep.rebuild(node, OWNER),
    lambda node, sample: node.call(sample.vera, ListInbox("all")),
    lambda node, sample: node.call(sample.otto, ListInbox("sent")),
    lambda node, sample: node.call(sample.vera, ReadMessage(f"#{sample.message}")),
    lambda node, sample: node.call(sample.vera, ShowThread(f"#{sample.message}")),
    lambda node, sample: node.call(sample.vera, Search("thanks")),
    lambda node, sample: node.call(sample.otto, Redact(f"#{sample.message}", "damaged")),
]
DAMAGE = {
    "header, not text": "UPDATE log SET header = x'fffe' WHERE seq = ?",
    "header, not JSON": "UPDATE log SET header = CAST('{' AS BLOB) WHERE seq = ?",
    "header, no member": "UPDATE log SET header = CAST('{}' AS BLOB) WHERE seq = ?",
    "body, not text": "UPDATE bodies SET body = x'fffe' WHERE seq = ?",
    "body, not JSON": "UPDATE bodies SET body = CAST('{' AS BLOB) WHERE seq = ?",
    "body, no member": "UPDATE bodies SET body = CAST('{}' AS BLOB) WHERE seq = ?",
    "no body": "DELETE FROM bodies WHERE seq = ?",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_reads_of_a_damaged_log_are_answered_or_refused_with_a_code(
    sample: Sample, damage: str
) -> None:
    with sqlite(sample) as db:
        db.execute("DROP TABLE search_words; DROP TABLE search_position")
        db.execute(DAMAGE[damage], (sample.message,))
        db.execute(DAMAGE[damage], (sample.ack,))
    defects = []
    with sample.open() as node:
        for number, read_damage in enumerate(READS):
            try:
                read_damage(node, sample)
            except Refusal:
                continue
            except Exception as defect:  # noqa: BLE001 - listed below
                defects.append((number, repr(defect)))
    assert defects == []
