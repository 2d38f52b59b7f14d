"""The audit of a log that nobody damaged: verifying, proving to strangers, carrying it away, and
redacting without breaking a proof. What damage looks like is in tests/node/test_damage.py."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
from pymerkle import InmemoryTree
from pymerkle.proof import InclusionProof

from interlock.errors import (
    IdempotencyConflict,
    MissingScope,
    NoIdentity,
    NotFound,
    Refusal,
    Usage,
)
from interlock.log.encoding import canonical
from interlock.log.facts import header_hash, parse_header
from interlock.log.merkle import leaf_hash, node_hash
from interlock.log.notes import open_note, parse_verifier_key
from interlock.node import Node, audit, proofs, upkeep
from interlock.node.keys import EVERY, KEPT
from interlock.rooms.claims.verbs import AcquireClaim
from interlock.rooms.identity import token_format
from interlock.rooms.identity.verbs import Join
from interlock.rooms.mail.verbs import (
    AckMessages,
    Explain,
    ListInbox,
    ReadMessage,
    Redact,
    Search,
    SendMessage,
    ShowReceipts,
    ShowThread,
)
from interlock.rooms.workspace.verbs import ShowLog
from interlock.verbs.credentials import Credentials

OWNER = Credentials(owner=True)
LIMIT_S = 60.0
# Far more than anything here takes, and less than SQLite waits for a reader to leave.
PROMPT_S = 5.0
Answer = dict[str, Any]


class Scene:
    """A workspace in which otto, at a terminal and a desktop, and vera write to each other."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.closed = False
        self.node = Node(str(directory))
        self.otto = self.join("otto", "cli")
        self.desktop = self.join("otto", "desktop")
        self.vera = self.join("vera", kind="human")
        self.neo = self.join("neo")

    def join(self, name: str, surface: str | None = None, **more: Any) -> Credentials:
        token = token_format.compose(os.urandom(token_format.SECRET_BYTES))
        act = Join(name, surface, token_hash=token_format.hashed(token), **more)
        self.node.call(OWNER, act)
        return Credentials(token=token)

    def tell(self, text: str, to: str = "@vera", **more: Any) -> Answer:
        sent = self.node.call(self.otto, SendMessage(to, {"text": text}, "send", **more))
        message: Answer = sent["message"]
        return message

    def close(self) -> None:
        """Closes the node, which no test needs twice."""
        if not self.closed:
            self.closed = True
            self.node.close()

    def chat(self, count: int) -> None:
        for number in range(count):
            self.tell(f"message {number}: grün, 緑, 🟢")

    def query(self, sql: str, *bindings: Any) -> list[Any]:
        with self.node.file.reading() as db:
            return db.execute(sql, bindings).fetchall()

    def entries(self) -> int:
        return int(self.query("SELECT count(*) FROM log")[0][0])

    def headers(self) -> list[bytes]:
        return [bytes(row[0]) for row in self.query("SELECT header FROM log ORDER BY seq")]

    def export(self) -> list[bytes]:
        """The lines of an export, made and read back."""
        path = self.directory / "export.jsonl"
        path.unlink(missing_ok=True)
        audit.export(self.node, Credentials(owner=True), str(path))
        return path.read_bytes().splitlines(keepends=True)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.close()


# --- verify


def test_a_new_workspace_verifies(tmp_path: Path) -> None:
    with Node(str(tmp_path)) as node:
        found = audit.verify(node)
    assert found["ok"]
    assert found["entries"] == 1


def test_an_untouched_log_verifies_with_every_checkpoint_that_was_signed(scene: Scene) -> None:
    scene.chat(5)
    signed = proofs.checkpoint(scene.node)
    scene.chat(5)
    found = audit.verify(scene.node, signed["checkpoint"])
    assert found["ok"], found
    assert (found["entries"], found["checkpoints"]) == (scene.entries(), 2)


def test_the_root_is_the_one_that_an_independent_library_computes(scene: Scene) -> None:
    scene.chat(30)
    tree = InmemoryTree("sha256")
    tree.append_entries(scene.headers())
    root = tree.get_root().hex()
    assert audit.verify(scene.node)["root"] == root
    assert proofs.checkpoint(scene.node)["root"] == root


def test_a_checkpoint_is_a_signed_note_over_size_and_root(scene: Scene) -> None:
    scene.chat(3)
    signed = proofs.checkpoint(scene.node)
    opened = open_note(signed["checkpoint"], *parse_verifier_key(signed["verifier"]))
    assert opened.size == signed["entries"] == scene.entries()
    assert opened.root.hex() == signed["root"]


def test_checkpoints_are_kept_beside_the_log_by_themselves_and_only_the_latest(
    scene: Scene,
) -> None:
    scene.chat(EVERY)
    kept = [note for _, note in scene.node.keys.kept()]
    assert len(kept) == 1
    assert audit.verify(scene.node)["checkpoints"] == 1
    for _ in range(KEPT + 2):
        scene.chat(1)
        last = proofs.checkpoint(scene.node)["checkpoint"]
    kept = [note for _, note in scene.node.keys.kept()]
    assert len(kept) == KEPT
    assert kept[-1] == last
    assert audit.verify(scene.node)["ok"]


@pytest.mark.parametrize("note", ["", "junk", "a\nb\nc\n", "x" * 200_000, "\n1\n\n", "\x00\ud800"])
def test_a_checkpoint_that_is_none_is_bad_usage(scene: Scene, note: str) -> None:
    with pytest.raises(Usage):
        audit.verify(scene.node, note)


def test_a_checkpoint_of_another_workspace_is_not_taken_for_ours(
    scene: Scene, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with closing(Scene(tmp_path_factory.mktemp("other")).node) as other:
        foreign = proofs.checkpoint(other)["checkpoint"]
    with pytest.raises(Usage):
        audit.verify(scene.node, foreign)


def test_a_checkpoint_is_no_reason_to_refuse_an_act(scene: Scene) -> None:
    (scene.directory / "checkpoints").write_text("not a directory")
    before = scene.entries()
    scene.chat(2 * EVERY)
    assert scene.entries() == before + 2 * EVERY


def test_a_key_that_was_lost_does_not_make_the_log_fail(scene: Scene) -> None:
    """Signed with a key that the log does not know, a checkpoint would be worth nothing: either
    it is refused, or the log learns the key."""
    (scene.directory / "keys" / "checkpoint.key").unlink()
    try:
        note = proofs.checkpoint(scene.node)["checkpoint"]
    except Refusal:
        note = None
    scene.chat(EVERY)
    assert audit.verify(scene.node, note)["ok"]


def test_show_lists_the_facts_as_they_stand(scene: Scene) -> None:
    scene.chat(5)
    found = audit.show(scene.node, ShowLog(limit=4))
    assert [fact["seq"] for fact in found["facts"]] == [1, 2, 3, 4]
    assert found["next"] == 4
    assert [fact["hash"] for fact in found["facts"]] == [
        header_hash(header) for header in scene.headers()[:4]
    ]
    sent = audit.show(scene.node, ShowLog(kind="message_sent"))["facts"]
    assert len(sent) == 5
    assert {fact["sender"] for fact in sent} == {"@otto-cli"}
    assert "grün" not in json.dumps(sent, ensure_ascii=False)


# --- beside others


def busy(scene: Scene, beside: Callable[[], None]) -> int:
    """Does something while two threads send; gives how many were answered."""
    stop = threading.Event()
    sent = [0, 0]
    troubles: list[BaseException] = []

    def chat(number: int) -> None:
        while not stop.is_set():
            try:
                scene.tell("busy")
            except BaseException as trouble:  # noqa: BLE001 - told below
                troubles.append(trouble)
                return
            sent[number] += 1

    threads = [threading.Thread(target=chat, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        beside()
    finally:
        stop.set()
        for thread in threads:
            thread.join(LIMIT_S)
    assert troubles == []
    return sum(sent)


def test_auditing_goes_on_beside_threads_that_send(scene: Scene) -> None:
    before = scene.entries()

    def beside() -> None:
        for number in range(10):
            assert audit.verify(scene.node)["ok"]
            signed = proofs.checkpoint(scene.node)
            assert proofs.check_proof(proofs.prove(scene.node, number + 1))["ok"]
            assert proofs.check_proof(proofs.prove_growth(scene.node, signed["entries"]))["ok"]
            assert audit.verify_export(scene.export())["ok"]

    sent = busy(scene, beside)
    assert scene.entries() == before + sent
    assert audit.verify(scene.node)["ok"]


def test_rebuilding_goes_on_beside_threads_that_send(scene: Scene) -> None:
    before = scene.entries()

    def beside() -> None:
        for _ in range(10):
            assert not upkeep.rebuild(scene.node, OWNER)["changed"]

    sent = busy(scene, beside)
    assert scene.entries() == before + sent
    assert audit.verify(scene.node)["ok"]


# --- proofs


def test_every_entry_is_proved_and_an_independent_library_agrees(scene: Scene) -> None:
    scene.chat(8)
    headers = scene.headers()
    for size in (len(headers), len(headers) + 1, len(headers) + 2):
        headers = scene.headers()
        assert len(headers) == size
        tree = InmemoryTree("sha256")
        tree.append_entries(headers)
        for seq, header in enumerate(headers, 1):
            proof = proofs.prove(scene.node, seq)
            assert proofs.check_proof(proof)["ok"]
            path = [bytes.fromhex(step) for step in proof["path"]]
            root = bytes.fromhex(proof["root"])
            # Its own path begins with the leaf, and is ours; its verifier takes ours.
            assert tree.prove_inclusion(seq, size).path == [leaf_hash(header), *path]
            rule = [int(side == "L") for side in sides(seq - 1, size)] + [0]
            theirs = InclusionProof("sha256", True, size, seq, rule, [leaf_hash(header), *path])
            theirs.verify(leaf_hash(header), root, index=seq, size=size)
            assert proof["header"].encode() == header
        scene.chat(1)


def sides(index: int, size: int) -> str:
    """On which side each sibling of an inclusion path stands, from the leaf up."""
    if size == 1:
        return ""
    split = 1 << ((size - 1).bit_length() - 1)
    if index < split:
        return sides(index, split) + "R"
    return sides(index - split, size - split) + "L"


def test_growth_is_proved_and_an_independent_library_agrees(scene: Scene) -> None:
    scene.chat(8)
    headers = scene.headers()
    tree = InmemoryTree("sha256")
    tree.append_entries(headers)
    for old in range(1, len(headers)):
        proof = proofs.prove_growth(scene.node, old)
        assert proofs.check_proof(proof)["ok"]
        old_root, root = bytes.fromhex(proof["old_root"]), bytes.fromhex(proof["root"])
        theirs = tree.prove_consistency(old, len(headers))
        theirs.verify(old_root, root, prior_size=old, later_size=len(headers))
        assert [bytes.fromhex(step) for step in proof["path"]] == as_rfc_path(theirs)
    whole = proofs.prove_growth(scene.node, len(headers))
    assert whole["path"] == []
    assert proofs.check_proof(whole)["ok"]


def as_rfc_path(proof: Any) -> list[bytes]:
    """The library starts from the first new leaf, where RFC 6962 starts from the last old
    subtree and has the new nodes beside that folded into one."""
    first_old = proof.subset.index(1)
    beside = proof.path[0]
    for right in proof.path[1:first_old]:
        beside = node_hash(beside, right)
    start = [proof.path[first_old]] if sum(proof.subset) > 1 else []
    return [*start, beside, *proof.path[first_old + 1 :]]


@pytest.mark.parametrize("seq", [0, -1, 10_000, 1 << 70])
def test_what_is_not_in_the_log_cannot_be_proved(scene: Scene, seq: int) -> None:
    with pytest.raises(NotFound):
        proofs.prove(scene.node, seq)
    with pytest.raises(NotFound):
        proofs.prove_growth(scene.node, seq)


@pytest.mark.parametrize("entries", [[], None, 0])
def test_a_proof_of_no_entries_does_not_hold(scene: Scene, entries: Any) -> None:
    proof = proofs.prove_many(scene.node, (2, 3)) | {"entries": entries}
    found = proofs.check_proof(proof)
    assert (found["ok"], found["code"]) == (False, "LOG_DAMAGED")


def test_a_proof_says_whether_its_key_was_the_checkers_own(scene: Scene) -> None:
    proof = proofs.prove(scene.node, 3)
    assert proofs.check_proof(proof)["verifier"] == "taken from the proof itself"
    assert proofs.check_proof(proof, proof["verifier"])["verifier"] == "given"


def test_a_proof_by_another_key_fails_against_the_checkers_own(
    scene: Scene, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with closing(Scene(tmp_path_factory.mktemp("other")).node) as other:
        forged = proofs.prove(other, 3)
    trusted = proofs.prove(scene.node, 3)["verifier"]
    assert proofs.check_proof(forged)["ok"]
    with pytest.raises(Refusal):
        proofs.check_proof(forged, trusted)


def never_ok(proof: Any, verifier: str | None = None) -> bool:
    """Whether a proof is answered with a code, whatever it is."""
    try:
        found = proofs.check_proof(proof, verifier)
    except Refusal as refusal:
        return refusal.code == "USAGE"
    return not found["ok"] and found["code"] == "LOG_DAMAGED"


def flipped(text: str, at: int) -> str:
    """A digit of a hexadecimal number, changed."""
    other = "0" if text[at] != "0" else "1"
    return text[:at] + other + text[at + 1 :]


def tampered_inclusion(proof: Answer) -> Iterator[Answer]:
    header = parse_header(proof["header"].encode())
    forged = header._replace(sender="mallory").encode().decode()
    path, root = proof["path"], proof["root"]
    yield proof | {"header": forged}
    yield proof | {"header": proof["header"] + " "}
    yield proof | {"header": "{}"}
    yield proof | {"seq": proof["seq"] + 1}
    yield proof | {"leaf_index": proof["leaf_index"] + 1}
    yield proof | {"seq": proof["seq"] + 1, "leaf_index": proof["leaf_index"] + 1}
    yield proof | {"tree_size": proof["tree_size"] + 1}
    yield proof | {"tree_size": str(proof["tree_size"])}
    yield proof | {"root": flipped(root, 5)}
    yield proof | {"path": path[1:]}
    yield proof | {"path": [*path, root]}
    yield proof | {"path": path[::-1]}
    yield proof | {"path": [flipped(path[0], 7), *path[1:]]}
    yield proof | {"path": [path[0][:-2], *path[1:]]}
    yield proof | {"checkpoint": proof["checkpoint"].replace("\n", "\n\n", 1)}
    yield proof | {"checkpoint": proof["checkpoint"].replace(str(proof["tree_size"]), "1", 1)}
    yield proof | {"proof": "consistency"}


def test_a_proof_of_an_entry_that_was_tampered_with_is_refused(scene: Scene) -> None:
    scene.chat(8)
    proof = proofs.prove(scene.node, 6)
    assert len(proof["path"]) > 2
    for number, other in enumerate(tampered_inclusion(proof)):
        assert never_ok(other), number
        assert never_ok(other, proof["verifier"]), number


def tampered_growth(proof: Answer) -> Iterator[Answer]:
    path = proof["path"]
    yield proof | {"old_size": proof["old_size"] + 1}
    yield proof | {"old_size": 0}
    yield proof | {"old_size": -1}
    yield proof | {"old_root": flipped(proof["old_root"], 9)}
    yield proof | {"old_root": proof["root"]}
    yield proof | {"root": flipped(proof["root"], 9)}
    yield proof | {"tree_size": proof["tree_size"] - 1}
    yield proof | {"path": []}
    yield proof | {"path": path[:-1]}
    yield proof | {"path": [*path, path[0]]}
    yield proof | {"path": [flipped(path[0], 1), *path[1:]]}
    yield proof | {"proof": "inclusion"}


def test_a_proof_of_growth_that_was_tampered_with_is_refused(scene: Scene) -> None:
    scene.chat(8)
    proof = proofs.prove_growth(scene.node, 7)
    for number, other in enumerate(tampered_growth(proof)):
        assert never_ok(other), number
        assert never_ok(other, proof["verifier"]), number


@pytest.mark.parametrize("junk", [None, 5, "x", [], {}, [[]], {"verifier": 5}, True, {"proof": {}}])
def test_what_is_no_proof_is_bad_usage(junk: Any) -> None:
    with pytest.raises(Usage):
        proofs.check_proof(junk)


def test_a_member_of_the_wrong_type_or_missing_is_answered_with_a_code(scene: Scene) -> None:
    for proof in (proofs.prove(scene.node, 3), proofs.prove_growth(scene.node, 3)):
        for name in proof:
            without = {member: value for member, value in proof.items() if member != name}
            assert never_ok(without), name
            for wrong in (None, 5, -1, 1 << 80, 0.5, True, "", "x", [], [5], [None], {}, {"a": 1}):
                if name == "proof" and proof["proof"] == "inclusion":
                    continue  # any other word is taken for an inclusion, and holds or does not
                if wrong != proof[name]:
                    assert never_ok(proof | {name: wrong}), (name, wrong)


@pytest.mark.parametrize(
    "verifier", ["x", "a+b+c", "interlock/x+00000000+AAAA", "\ud800", "+" * 99]
)
def test_a_verifier_key_that_is_none_is_bad_usage(scene: Scene, verifier: str) -> None:
    with pytest.raises(Usage):
        proofs.check_proof(proofs.prove(scene.node, 1), verifier)


def test_a_proof_stays_good_while_the_log_grows(scene: Scene) -> None:
    early = proofs.prove(scene.node, 2)
    scene.chat(20)
    assert proofs.check_proof(early, early["verifier"])["ok"]
    late = proofs.prove(scene.node, 2)
    assert late["tree_size"] > early["tree_size"]
    assert proofs.check_proof(late, early["verifier"])["ok"]


# --- exports


def test_an_export_verifies_offline(scene: Scene) -> None:
    scene.chat(4)
    earlier = proofs.checkpoint(scene.node)["checkpoint"]
    scene.chat(4)
    lines = scene.export()
    here = audit.verify(scene.node)
    found = audit.verify_export(lines)
    assert found["ok"]
    assert (found["entries"], found["root"]) == (here["entries"], here["root"])
    assert audit.verify_export(lines, earlier)["ok"]


def test_an_export_is_for_its_owners_eyes_and_never_overwrites(scene: Scene) -> None:
    path = scene.directory / "export.jsonl"
    told = audit.export(scene.node, Credentials(owner=True), str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    assert told["entries"] == len(path.read_bytes().splitlines()) - 1
    with pytest.raises(FileExistsError):
        audit.export(scene.node, Credentials(owner=True), str(path))


def answer_to(lines: list[bytes]) -> Answer:
    """The answer about an export, or the refusal as one; anything else is a defect."""
    try:
        return audit.verify_export(lines)
    except Refusal as refusal:
        return {"ok": False} | refusal.as_dict()


def same_entries(one: list[bytes], other: list[bytes]) -> bool:
    """Whether two exports say the same, in other words perhaps (hexadecimal has two cases)."""
    return [audit._imported(line) for line in one] == [audit._imported(line) for line in other]


def test_a_changed_byte_of_an_export_is_found_in_its_entry(scene: Scene) -> None:
    scene.chat(2)
    scene.node.call(scene.vera, AckMessages((f"#{scene.entries()}",), note="thanks"))
    lines = scene.export()
    for seq, line in enumerate(lines[1:], 1):
        for at in range(0, len(line) - 1, 3):
            other = lines.copy()
            other[seq] = line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :]
            found = answer_to(other)
            if found["ok"]:
                assert same_entries(lines[1:], other[1:]), (seq, at)
                continue
            assert found["code"] == "LOG_DAMAGED", (seq, at, found)
            # Offline no head tells a changed entry from a changed link to it, in the last pair.
            assert abs(found["seq"] - seq) <= 1, (seq, at, found)


def test_the_checkpoint_of_an_export_cannot_be_changed(scene: Scene) -> None:
    lines = scene.export()
    about = json.loads(lines[0])
    note = about["checkpoint"]
    for at in range(len(note)):
        other = note[:at] + chr(ord(note[at]) ^ 1) + note[at + 1 :]
        first = canonical(about | {"checkpoint": other}) + b"\n"
        assert not answer_to([first, *lines[1:]])["ok"], at


def test_an_export_that_was_cut_off_is_found(scene: Scene) -> None:
    scene.chat(2)
    lines = scene.export()
    for length in range(2, len(lines)):
        found = answer_to(lines[:length])
        assert (found["ok"], found["code"], found["seq"]) == (False, "LOG_DAMAGED", length)
    assert not answer_to(lines[:1])["ok"]
    half = [*lines[:-1], lines[-1][:50]]
    assert answer_to(half)["seq"] == len(lines) - 1


def test_lines_of_an_export_that_are_missing_doubled_or_swapped_are_found(scene: Scene) -> None:
    scene.chat(4)
    lines = scene.export()
    for seq in range(1, len(lines) - 1):
        missing = lines[:seq] + lines[seq + 1 :]
        assert answer_to(missing).get("seq") == seq
        doubled = lines[: seq + 1] + lines[seq:]
        assert answer_to(doubled).get("seq") == seq + 1
        swapped = [*lines[:seq], lines[seq + 1], lines[seq], *lines[seq + 2 :]]
        assert answer_to(swapped).get("seq") == seq


JUNK = [
    b"",
    b"\n",
    b"null\n",
    b"5\n",
    b"[]\n",
    b'"text"\n',
    b"{}\n",
    b'{"seq": 3}\n',
    b'{"seq": 3, "header": 5}\n',
    b'{"seq": 3, "header": null}\n',
    b'{"seq": 3, "header": ""}\n',
    b'{"seq": 3, "header": "[]"}\n',
    b'{"seq": 3, "header": "{\\"seq\\": 3}"}\n',
    b'{"seq": "3", "header": "{}"}\n',
    b'{"seq": 3, "header": "{}", "salt": "zz", "body": "x"}\n',
    b'{"seq": 3, "header": "{}", "salt": 5, "body": 5}\n',
    b'{"seq": 1e400, "header": "{}"}\n',
    b"\xff\xfe\x00\n",
    b"\xef\xbb\xbf{}\n",
    b"[" * 100_000 + b"\n",
    b"{" * 5,
    b"x" * 3_000_000 + b"\n",
]


@pytest.mark.parametrize("junk", JUNK, ids=range(len(JUNK)))
def test_a_junk_line_in_an_export_is_answered_with_a_code(scene: Scene, junk: bytes) -> None:
    lines = scene.export()
    found = answer_to([*lines[:3], junk, *lines[4:]])
    assert (found["ok"], found["code"], found["seq"]) == (False, "LOG_DAMAGED", 3)
    found = answer_to([*lines, junk])
    assert (found["ok"], found["seq"]) == (False, len(lines))
    found = answer_to([junk, *lines[1:]])
    assert (found["ok"], found["code"]) == (False, "USAGE")


def test_an_empty_export_is_bad_usage() -> None:
    with pytest.raises(Usage):
        audit.verify_export([])


@pytest.mark.parametrize("note", [None, 5, [], {}, True, "", "text", [None]])
def test_a_checkpoint_of_the_wrong_type_in_an_export_is_answered_with_a_code(
    scene: Scene, note: Any
) -> None:
    lines = scene.export()
    first = canonical({"export": "interlock", "version": 1, "checkpoint": note}) + b"\n"
    assert not answer_to([first, *lines[1:]])["ok"]


STRANGE: list[dict[str, Any]] = [
    {"at": "noon"},
    {"at": None},
    {"at": []},
    {"at": 0.5},
    {"epoch": "0"},
    {"epoch": None},
    {"epoch": {}},
    {"workspace": 5},
    {"kind": 5},
    {"kind": []},
    {"outcome": 5},
    {"outcome": None},
    {"outcome": "verifier"},
    {"outcome": ["verifier"]},
    {"outcome": {"verifier": 5}},
    {"outcome": {"verifier": None}},
    {"outcome": {"verifier": ["x"]}},
    {"kind": "body_redacted", "outcome": {}},
    {"kind": "body_redacted", "outcome": {"target": []}},
    {"kind": "body_redacted", "outcome": {"target": {}}},
    {"body": 5},
    {"body": []},
    {"seq": "2"},
    {"seq": 2.0},
]


@pytest.mark.parametrize("strange", STRANGE, ids=[canonical(s).decode() for s in STRANGE])
def test_a_header_with_members_of_the_wrong_type_is_answered_with_a_code(
    scene: Scene, strange: dict[str, Any]
) -> None:
    """Forged so that it follows the entry before it, and alone: the log ends with it."""
    lines = scene.export()
    header = json.loads(json.loads(lines[2])["header"]) | strange
    forged = canonical({"seq": 2, "header": canonical(header).decode()}) + b"\n"
    found = answer_to([*lines[:2], forged])
    assert not found["ok"]
    found = answer_to([*lines[:2], forged, *lines[3:]])
    assert not found["ok"]


# --- redaction


SECRET = "xylographer7731 keeps the key of the quartz vault"
WORDS = (b"xylographer7731", b"quartz", b"vault")


def bytes_on_disk(directory: Path) -> dict[str, bytes]:
    """What a person with the disk in hand reads, after every connection was closed."""
    return {
        str(path.relative_to(directory)): path.read_bytes().lower()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def found_on_disk(directory: Path, *words: bytes) -> list[tuple[str, bytes]]:
    files = bytes_on_disk(directory)
    assert files["log.db"]
    return [(name, word) for name, data in files.items() for word in words if word in data]


def test_a_body_that_was_not_redacted_is_on_disk(scene: Scene) -> None:
    scene.tell(SECRET)
    scene.close()
    assert {word for _, word in found_on_disk(scene.directory, *WORDS)} == set(WORDS)


def test_a_redacted_body_is_in_no_table(scene: Scene) -> None:
    message = scene.tell(SECRET, subject="the quartz matter")
    scene.node.call(scene.otto, Redact(message["id"], "a leak"))
    tables = scene.query("SELECT name FROM sqlite_schema WHERE type = 'table'")
    for (table,) in tables:
        for row in scene.query(f"SELECT * FROM {table}"):
            for value in row:
                data = value if isinstance(value, bytes) else str(value).encode()
                assert not any(word in data.lower() for word in WORDS), (table, row)


def test_a_redacted_body_is_nowhere_on_disk(scene: Scene) -> None:
    before = scene.tell("zebra before")
    message = scene.tell(SECRET, subject="the quartz matter")
    after = scene.tell("zebra after")
    scene.node.call(scene.otto, Redact(message["id"], "a leak"))
    for kept in (before, after):
        assert "zebra" in scene.node.call(scene.vera, ReadMessage(kept["id"]))["payload"]["text"]
    scene.close()
    assert found_on_disk(scene.directory, *WORDS) == []


def test_a_redacted_body_that_was_searched_and_read_is_nowhere_on_disk(scene: Scene) -> None:
    scene.tell("zebra before")
    message = scene.tell(SECRET, subject="the quartz matter")
    found = scene.node.call(scene.vera, Search("xylographer7731"))
    assert [m["id"] for m in found["messages"]] == [message["id"]]
    scene.node.call(scene.vera, ListInbox())
    scene.node.call(scene.vera, ReadMessage(message["id"]))
    scene.tell("zebra after")
    scene.node.call(scene.otto, Redact(message["id"], "a leak"))
    assert scene.node.call(scene.vera, Search("xylographer7731"))["messages"] == []
    assert scene.node.call(scene.otto, Search("quartz"))["messages"] == []
    assert len(scene.node.call(scene.vera, Search("zebra"))["messages"]) == 2
    scene.close()
    assert found_on_disk(scene.directory, *WORDS) == []


@contextmanager
def reader(scene: Scene) -> Iterator[None]:
    """Somebody who looks at the log for a long time, as an audit of a large one does."""
    with closing(apsw.Connection(str(scene.directory / "log.db"))) as db:
        db.execute("BEGIN")
        db.execute("SELECT * FROM log").fetchall()
        yield


def test_a_redaction_beside_a_reader_holds_nobody_up_and_is_done_when_both_have_left(
    scene: Scene,
) -> None:
    redact = Redact(scene.tell(SECRET)["id"], "a leak")
    redaction = threading.Thread(target=lambda: scene.node.call(scene.otto, redact))
    with reader(scene):
        redaction.start()
        redaction.join(PROMPT_S)
        prompt = not redaction.is_alive()
        redaction.join(LIMIT_S)
    scene.close()
    assert found_on_disk(scene.directory, *WORDS) == []
    assert prompt


LARGE = "the quartz vault opens at xylographer7731\n" * 40_000


def test_a_redacted_blob_is_nowhere_on_disk(scene: Scene) -> None:
    message = scene.tell(LARGE)
    assert len(scene.query("SELECT 1 FROM blob_chunks")) > 1
    proof = proofs.prove(scene.node, message["seq"])
    scene.node.call(scene.otto, Redact(message["id"], "a leak"))
    for table in ("blobs", "blob_chunks", "blob_uses"):
        assert scene.query(f"SELECT * FROM {table}") == []
    assert audit.verify(scene.node)["ok"]
    assert proofs.check_proof(proof)["ok"]
    scene.close()
    assert found_on_disk(scene.directory, *WORDS) == []


def test_a_blob_of_two_messages_stays_until_both_are_redacted(scene: Scene) -> None:
    first, second = scene.tell(LARGE), scene.tell(LARGE)
    scene.node.call(scene.otto, Redact(first["id"], "a leak"))
    read = scene.node.call(scene.vera, ReadMessage(second["id"]))
    assert read["payload"]["text"] == LARGE
    assert "payload" not in scene.node.call(scene.vera, ReadMessage(first["id"]))
    assert audit.verify(scene.node)["ok"]
    scene.node.call(scene.otto, Redact(second["id"], "a leak"))
    assert scene.query("SELECT 1 FROM blob_chunks") == []
    assert audit.verify(scene.node)["ok"]


def test_every_proof_stays_valid_when_a_body_is_redacted(scene: Scene) -> None:
    scene.chat(3)
    message = scene.tell(SECRET)
    scene.chat(3)
    before = [proofs.prove(scene.node, seq) for seq in range(1, scene.entries() + 1)]
    note = proofs.checkpoint(scene.node)["checkpoint"]
    scene.node.call(scene.otto, Redact(message["id"], "a leak"))
    for proof in before:
        assert proofs.check_proof(proof, before[0]["verifier"])["ok"]
    for proof in before:
        again = proofs.prove(scene.node, proof["seq"])
        assert again["header"] == proof["header"]
        assert proofs.check_proof(again)["ok"]
    assert proofs.check_proof(proofs.prove_growth(scene.node, len(before)))["ok"]
    assert audit.verify(scene.node, note)["ok"]
    assert audit.verify_export(scene.export(), note)["ok"]


def test_a_redaction_is_a_fact_and_done_once(scene: Scene) -> None:
    message = scene.tell(SECRET)
    first = scene.node.call(scene.otto, Redact(message["id"], "a leak"))
    entries = scene.entries()
    assert scene.node.call(scene.otto, Redact(message["id"], "again")) == first
    assert scene.entries() == entries
    facts = audit.show(scene.node, ShowLog(kind="body_redacted"))["facts"]
    assert [fact["outcome"] for fact in facts] == [{"target": message["seq"]}]


def test_a_redaction_leaves_the_state_that_a_rebuild_gives(scene: Scene) -> None:
    message = scene.tell(SECRET)
    scene.node.call(scene.vera, ReadMessage(message["id"]))
    scene.node.call(scene.otto, Redact(message["id"], "a leak"))
    digest = upkeep.state_digest(scene.node)
    rebuilt = upkeep.rebuild(scene.node, OWNER)
    assert (rebuilt["digest"], rebuilt["changed"]) == (digest, False)


def test_a_redacted_message_is_shown_as_such_everywhere(scene: Scene) -> None:
    message = scene.tell(SECRET, subject="the quartz matter")
    scene.node.call(scene.otto, Redact(message["id"], "a leak"))
    vera, id = scene.vera, message["id"]
    shown = [
        scene.node.call(vera, ReadMessage(id)),
        scene.node.call(vera, ListInbox())["messages"][0],
        scene.node.call(vera, ShowThread(id))["messages"][0],
        scene.node.call(scene.otto, ListInbox("sent"))["messages"][0],
        scene.node.call(OWNER, Explain(id))["message"],
    ]
    for answer in shown:
        assert answer["redacted"] is True
        assert answer["id"] == id
        assert not {"payload", "subject", "sha256", "size"} & set(answer)
    scene.node.call(scene.otto, ShowReceipts(id))
    scene.node.call(vera, AckMessages((id,)))


def test_only_its_sender_or_an_admin_who_may_see_it_redacts(scene: Scene) -> None:
    message = scene.tell(SECRET)
    with pytest.raises(MissingScope):
        scene.node.call(scene.vera, Redact(message["id"], "I do not like it"))
    with pytest.raises(NotFound):
        scene.node.call(scene.neo, Redact(message["id"], "I do not like it"))
    with pytest.raises(NoIdentity):
        scene.node.call(Credentials(), Redact(message["id"], "I do not like it"))
    read = scene.node.call(scene.vera, ReadMessage(message["id"]))
    assert read["payload"]["text"] == SECRET
    # The other surface of the same agent may, and so may the owner.
    scene.node.call(scene.desktop, Redact(message["id"], "a leak"))
    scene.node.call(OWNER, Redact(scene.tell(SECRET)["id"], "a leak"))


def test_a_key_whose_body_was_redacted_is_not_taken_for_the_same_request(scene: Scene) -> None:
    message = scene.tell(SECRET, key="once")
    assert scene.tell(SECRET, key="once")["id"] == message["id"]
    scene.node.call(scene.otto, Redact(message["id"], "a leak"))
    with pytest.raises(IdempotencyConflict):
        scene.tell(SECRET, key="once")


def test_a_redaction_alone_excuses_a_missing_body(scene: Scene) -> None:
    message = scene.tell(SECRET)
    other = scene.tell("not redacted")
    scene.node.call(scene.otto, Redact(message["id"], "a leak"))
    lines = scene.export()
    row = json.loads(lines[other["seq"]])
    lines[other["seq"]] = canonical({"seq": row["seq"], "header": row["header"]}) + b"\n"
    found = answer_to(lines)
    assert (found["ok"], found["seq"]) == (False, other["seq"])


# --- the command


def interlock(workspace: Path, *words: str) -> tuple[int, Answer]:
    """Runs a command as its owner would, and gives its exit status and JSON document."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(workspace.parent / "home"),
        "INTERLOCK_WORKSPACE": str(workspace),
    }
    command = [sys.executable, "-m", "interlock", *words, "--json"]
    done = subprocess.run(
        command, env=environment, capture_output=True, timeout=LIMIT_S, check=False
    )
    assert done.stderr == b"", done.stderr
    document: Answer = json.loads(done.stdout)
    return done.returncode, document


def test_the_audit_commands_work_from_end_to_end(tmp_path: Path) -> None:
    workspace, away = tmp_path / "workspace", tmp_path / "elsewhere"
    workspace.mkdir()
    scene = Scene(workspace)
    message = scene.tell("hello")
    scene.node.call(scene.otto, AcquireClaim(item="B-1"))
    scene.node.close()
    status, verified = interlock(workspace, "audit", "verify")
    assert (status, verified["ok"]) == (0, True)
    _, signed = interlock(workspace, "audit", "checkpoint")
    (tmp_path / "note.json").write_text(json.dumps(signed))
    (tmp_path / "note.txt").write_text(signed["checkpoint"])
    for name in ("note.json", "note.txt"):
        status, _ = interlock(workspace, "audit", "verify", "--checkpoint", str(tmp_path / name))
        assert status == 0
    _, proof = interlock(workspace, "audit", "prove", str(message["seq"]))
    (tmp_path / "proof.json").write_text(json.dumps(proof))
    _, growth = interlock(workspace, "audit", "prove", "--since", "3")
    (tmp_path / "growth.json").write_text(json.dumps(growth))
    status, _ = interlock(workspace, "audit", "export", str(tmp_path / "log.jsonl"))
    assert status == 0
    # From here on nothing but the files, as a stranger has them.
    for name in ("proof.json", "growth.json"):
        words = ("audit", "check-proof", str(tmp_path / name), "--verifier", signed["verifier"])
        status, checked = interlock(away, *words)
        assert (status, checked["ok"], checked["verifier"]) == (0, True, "given")
    exported = str(tmp_path / "log.jsonl")
    note = str(tmp_path / "note.txt")
    status, offline = interlock(away, "audit", "verify", exported, "--checkpoint", note)
    assert (status, offline["root"]) == (0, verified["root"])
    assert not away.exists()
    (tmp_path / "proof.json").write_text(json.dumps(proof | {"seq": 1}))
    status, refused = interlock(away, "audit", "check-proof", str(tmp_path / "proof.json"))
    assert (status, refused["code"]) == (1, "LOG_DAMAGED")
    data = (tmp_path / "log.jsonl").read_bytes()
    (tmp_path / "log.jsonl").write_bytes(data[: data.rindex(b"\n", 0, -1) + 1])
    status, damaged = interlock(away, "audit", "verify", exported)
    assert (status, damaged["code"], damaged["seq"]) == (1, "LOG_DAMAGED", verified["entries"])
