"""The audit of an intact log: verification, proofs, exports, and redaction that breaks no proof.

tests/node/test_damage.py has the audit of damaged logs."""

import json
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
from interlock.rooms.mail.verbs import (
    AckMessages,
    Explain,
    ListInbox,
    ReadMessage,
    Redact,
    Search,
    ShowReceipts,
    ShowThread,
)
from interlock.rooms.workspace.verbs import ShowLog
from interlock.stores.sqlite import clock_ms
from interlock.verbs.credentials import Credentials
from world.commandline import owner_command
from world.workspace import OWNER, Answer, Workspace, send_text

LIMIT_S = 60.0
# Much longer than a redaction takes, and shorter than SQLite waits for a reader to finish.
PROMPT_S = 5.0


class MailWorkspace(Workspace):
    """A workspace in which otto, on two surfaces, and vera write to each other, on a real clock."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, clock=clock_ms)
        self.otto = self.join("otto", "cli")
        self.desktop = self.join("otto", "desktop")
        self.vera = self.join("vera", kind="human")
        self.neo = self.join("neo")

    def tell(self, text: str, to: str = "@vera", **more: Any) -> Answer:
        """Send a text from otto, and return the message."""
        return send_text(self.node, self.otto, to, text, **more)

    def chat(self, count: int) -> None:
        for number in range(count):
            self.tell(f"message {number}: grün, 緑, 🟢")

    def headers(self) -> list[bytes]:
        return [bytes(row[0]) for row in self.query("SELECT header FROM log ORDER BY seq")]

    def export(self) -> list[bytes]:
        """Export the log, and return the lines of the file."""
        path = self.directory / "export.jsonl"
        path.unlink(missing_ok=True)
        audit.export(self.node, Credentials(owner=True), str(path))
        return path.read_bytes().splitlines(keepends=True)


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[MailWorkspace]:
    """A workspace with mail, open until the test ends."""
    with MailWorkspace(tmp_path) as workspace:
        yield workspace


# --- verify


def test_a_new_workspace_verifies(tmp_path: Path) -> None:
    with Node(str(tmp_path)) as node:
        found = audit.verify(node)
    assert found["ok"]
    assert found["entries"] == 1


def test_intact_log_verifies_with_an_earlier_checkpoint(
    workspace: MailWorkspace,
) -> None:
    workspace.chat(5)
    signed = proofs.checkpoint(workspace.node)
    workspace.chat(5)
    found = audit.verify(workspace.node, signed["checkpoint"])
    assert found["ok"], found
    assert (found["entries"], found["checkpoints"]) == (workspace.head(), 2)


def test_root_matches_the_root_of_an_independent_library(workspace: MailWorkspace) -> None:
    workspace.chat(30)
    tree = InmemoryTree("sha256")
    tree.append_entries(workspace.headers())
    root = tree.get_root().hex()
    assert audit.verify(workspace.node)["root"] == root
    assert proofs.checkpoint(workspace.node)["root"] == root


def test_a_checkpoint_is_a_signed_note_over_size_and_root(workspace: MailWorkspace) -> None:
    workspace.chat(3)
    signed = proofs.checkpoint(workspace.node)
    opened = open_note(signed["checkpoint"], *parse_verifier_key(signed["verifier"]))
    assert opened.size == signed["entries"] == workspace.head()
    assert opened.root.hex() == signed["root"]


def test_workspace_stores_the_latest_checkpoints_by_itself(
    workspace: MailWorkspace,
) -> None:
    workspace.chat(EVERY)
    kept = [note for _, note in workspace.node.keys.kept()]
    assert len(kept) == 1
    assert audit.verify(workspace.node)["checkpoints"] == 1
    for _ in range(KEPT + 2):
        workspace.chat(1)
        last = proofs.checkpoint(workspace.node)["checkpoint"]
    kept = [note for _, note in workspace.node.keys.kept()]
    assert len(kept) == KEPT
    assert kept[-1] == last
    assert audit.verify(workspace.node)["ok"]


@pytest.mark.parametrize("note", ["", "junk", "a\nb\nc\n", "x" * 200_000, "\n1\n\n", "\x00\ud800"])
def test_malformed_checkpoint_is_bad_usage(workspace: MailWorkspace, note: str) -> None:
    with pytest.raises(Usage):
        audit.verify(workspace.node, note)


def test_checkpoint_of_another_workspace_is_bad_usage(
    workspace: MailWorkspace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with closing(MailWorkspace(tmp_path_factory.mktemp("other")).node) as other:
        foreign = proofs.checkpoint(other)["checkpoint"]
    with pytest.raises(Usage):
        audit.verify(workspace.node, foreign)


def test_writes_succeed_while_checkpoints_cannot_be_stored(workspace: MailWorkspace) -> None:
    (workspace.directory / "checkpoints").write_text("not a directory")
    before = workspace.head()
    workspace.chat(2 * EVERY)
    assert workspace.head() == before + 2 * EVERY


def test_log_verifies_after_its_key_was_lost(workspace: MailWorkspace) -> None:
    """A checkpoint that an unknown key signed is worthless. So either the node refuses to sign, or
    the log records the new key."""
    (workspace.directory / "keys" / "checkpoint.key").unlink()
    try:
        note = proofs.checkpoint(workspace.node)["checkpoint"]
    except Refusal:
        note = None
    workspace.chat(EVERY)
    assert audit.verify(workspace.node, note)["ok"]


def test_show_lists_facts_without_bodies(workspace: MailWorkspace) -> None:
    workspace.chat(5)
    found = audit.show(workspace.node, ShowLog(limit=4))
    assert [fact["seq"] for fact in found["facts"]] == [1, 2, 3, 4]
    assert found["next"] == 4
    assert [fact["hash"] for fact in found["facts"]] == [
        header_hash(header) for header in workspace.headers()[:4]
    ]
    sent = audit.show(workspace.node, ShowLog(kind="message_sent"))["facts"]
    assert len(sent) == 5
    assert {fact["sender"] for fact in sent} == {"@otto-cli"}
    assert "grün" not in json.dumps(sent, ensure_ascii=False)


# --- concurrently with writers


def while_sending(workspace: MailWorkspace, work: Callable[[], None]) -> int:
    """Run the work while two threads send. Return the number of accepted messages."""
    stop = threading.Event()
    sent = [0, 0]
    troubles: list[BaseException] = []

    def chat(number: int) -> None:
        while not stop.is_set():
            try:
                workspace.tell("busy")
            except BaseException as trouble:  # noqa: BLE001 - asserted below
                troubles.append(trouble)
                return
            sent[number] += 1

    threads = [threading.Thread(target=chat, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        work()
    finally:
        stop.set()
        for thread in threads:
            thread.join(LIMIT_S)
    assert troubles == []
    return sum(sent)


def test_audit_works_while_threads_send(workspace: MailWorkspace) -> None:
    before = workspace.head()

    def work() -> None:
        for number in range(10):
            assert audit.verify(workspace.node)["ok"]
            signed = proofs.checkpoint(workspace.node)
            assert proofs.check_proof(proofs.prove(workspace.node, number + 1))["ok"]
            assert proofs.check_proof(proofs.prove_growth(workspace.node, signed["entries"]))["ok"]
            assert audit.verify_export(workspace.export())["ok"]

    sent = while_sending(workspace, work)
    assert workspace.head() == before + sent
    assert audit.verify(workspace.node)["ok"]


def test_rebuild_works_while_threads_send(workspace: MailWorkspace) -> None:
    before = workspace.head()

    def work() -> None:
        for _ in range(10):
            assert not upkeep.rebuild(workspace.node, OWNER)["changed"]

    sent = while_sending(workspace, work)
    assert workspace.head() == before + sent
    assert audit.verify(workspace.node)["ok"]


# --- proofs


def test_independent_library_accepts_the_proof_of_every_entry(workspace: MailWorkspace) -> None:
    workspace.chat(8)
    headers = workspace.headers()
    for size in (len(headers), len(headers) + 1, len(headers) + 2):
        headers = workspace.headers()
        assert len(headers) == size
        tree = InmemoryTree("sha256")
        tree.append_entries(headers)
        for seq, header in enumerate(headers, 1):
            proof = proofs.prove(workspace.node, seq)
            assert proofs.check_proof(proof)["ok"]
            path = [bytes.fromhex(step) for step in proof["path"]]
            root = bytes.fromhex(proof["root"])
            # The library's path is the leaf and our path. Its verifier accepts our path.
            assert tree.prove_inclusion(seq, size).path == [leaf_hash(header), *path]
            rule = [int(side == "L") for side in sides(seq - 1, size)] + [0]
            theirs = InclusionProof("sha256", True, size, seq, rule, [leaf_hash(header), *path])
            theirs.verify(leaf_hash(header), root, index=seq, size=size)
            assert proof["header"].encode() == header
        workspace.chat(1)


def sides(index: int, size: int) -> str:
    """Return the side of each sibling on an inclusion path, from the leaf up."""
    if size == 1:
        return ""
    split = 1 << ((size - 1).bit_length() - 1)
    if index < split:
        return sides(index, split) + "R"
    return sides(index - split, size - split) + "L"


def test_independent_library_accepts_the_proofs_of_growth(workspace: MailWorkspace) -> None:
    workspace.chat(8)
    headers = workspace.headers()
    tree = InmemoryTree("sha256")
    tree.append_entries(headers)
    for old in range(1, len(headers)):
        proof = proofs.prove_growth(workspace.node, old)
        assert proofs.check_proof(proof)["ok"]
        old_root, root = bytes.fromhex(proof["old_root"]), bytes.fromhex(proof["root"])
        theirs = tree.prove_consistency(old, len(headers))
        theirs.verify(old_root, root, prior_size=old, later_size=len(headers))
        assert [bytes.fromhex(step) for step in proof["path"]] == as_rfc_path(theirs)
    whole = proofs.prove_growth(workspace.node, len(headers))
    assert whole["path"] == []
    assert proofs.check_proof(whole)["ok"]


def as_rfc_path(proof: Any) -> list[bytes]:
    """Convert the library's path to RFC 6962. The library starts at the first new leaf. RFC 6962
    starts at the last old subtree, and combines the new nodes next to it into one."""
    first_old = proof.subset.index(1)
    combined = proof.path[0]
    for right in proof.path[1:first_old]:
        combined = node_hash(combined, right)
    start = [proof.path[first_old]] if sum(proof.subset) > 1 else []
    return [*start, combined, *proof.path[first_old + 1 :]]


@pytest.mark.parametrize("seq", [0, -1, 10_000, 1 << 70])
def test_proof_of_a_missing_entry_is_refused(workspace: MailWorkspace, seq: int) -> None:
    with pytest.raises(NotFound):
        proofs.prove(workspace.node, seq)
    with pytest.raises(NotFound):
        proofs.prove_growth(workspace.node, seq)


@pytest.mark.parametrize("entries", [[], None, 0])
def test_proof_of_no_entries_is_not_valid(workspace: MailWorkspace, entries: Any) -> None:
    proof = proofs.prove_many(workspace.node, (2, 3)) | {"entries": entries}
    found = proofs.check_proof(proof)
    assert (found["ok"], found["code"]) == (False, "LOG_DAMAGED")


def test_check_proof_reports_the_origin_of_the_verifier_key(workspace: MailWorkspace) -> None:
    proof = proofs.prove(workspace.node, 3)
    assert proofs.check_proof(proof)["verifier"] == "taken from the proof itself"
    assert proofs.check_proof(proof, proof["verifier"])["verifier"] == "given"


def test_proof_signed_by_another_key_fails_with_a_given_key(
    workspace: MailWorkspace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with closing(MailWorkspace(tmp_path_factory.mktemp("other")).node) as other:
        forged = proofs.prove(other, 3)
    trusted = proofs.prove(workspace.node, 3)["verifier"]
    assert proofs.check_proof(forged)["ok"]
    with pytest.raises(Refusal):
        proofs.check_proof(forged, trusted)


def is_rejected(proof: Any, verifier: str | None = None) -> bool:
    """Whether the check of a bad proof gives one of the two expected codes."""
    try:
        found = proofs.check_proof(proof, verifier)
    except Refusal as refusal:
        return refusal.code == "USAGE"
    return not found["ok"] and found["code"] == "LOG_DAMAGED"


def flipped(text: str, at: int) -> str:
    """Return a hexadecimal number with one digit changed."""
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


def test_tampered_proof_of_an_entry_is_rejected(workspace: MailWorkspace) -> None:
    workspace.chat(8)
    proof = proofs.prove(workspace.node, 6)
    assert len(proof["path"]) > 2
    for number, other in enumerate(tampered_inclusion(proof)):
        assert is_rejected(other), number
        assert is_rejected(other, proof["verifier"]), number


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


def test_tampered_proof_of_growth_is_rejected(workspace: MailWorkspace) -> None:
    workspace.chat(8)
    proof = proofs.prove_growth(workspace.node, 7)
    for number, other in enumerate(tampered_growth(proof)):
        assert is_rejected(other), number
        assert is_rejected(other, proof["verifier"]), number


@pytest.mark.parametrize("junk", [None, 5, "x", [], {}, [[]], {"verifier": 5}, True, {"proof": {}}])
def test_malformed_proof_is_bad_usage(junk: Any) -> None:
    with pytest.raises(Usage):
        proofs.check_proof(junk)


def test_proof_with_a_wrong_or_missing_member_is_rejected(
    workspace: MailWorkspace,
) -> None:
    for proof in (proofs.prove(workspace.node, 3), proofs.prove_growth(workspace.node, 3)):
        for name in proof:
            without = {member: value for member, value in proof.items() if member != name}
            assert is_rejected(without), name
            for wrong in (None, 5, -1, 1 << 80, 0.5, True, "", "x", [], [5], [None], {}, {"a": 1}):
                if name == "proof" and proof["proof"] == "inclusion":
                    continue  # every other value of `proof` counts as an inclusion
                if wrong != proof[name]:
                    assert is_rejected(proof | {name: wrong}), (name, wrong)


@pytest.mark.parametrize(
    "verifier", ["x", "a+b+c", "interlock/x+00000000+AAAA", "\ud800", "+" * 99]
)
def test_malformed_verifier_key_is_bad_usage(workspace: MailWorkspace, verifier: str) -> None:
    with pytest.raises(Usage):
        proofs.check_proof(proofs.prove(workspace.node, 1), verifier)


def test_proof_stays_valid_while_the_log_grows(workspace: MailWorkspace) -> None:
    early = proofs.prove(workspace.node, 2)
    workspace.chat(20)
    assert proofs.check_proof(early, early["verifier"])["ok"]
    late = proofs.prove(workspace.node, 2)
    assert late["tree_size"] > early["tree_size"]
    assert proofs.check_proof(late, early["verifier"])["ok"]


# --- exports


def test_an_export_verifies_offline(workspace: MailWorkspace) -> None:
    workspace.chat(4)
    earlier = proofs.checkpoint(workspace.node)["checkpoint"]
    workspace.chat(4)
    lines = workspace.export()
    here = audit.verify(workspace.node)
    found = audit.verify_export(lines)
    assert found["ok"]
    assert (found["entries"], found["root"]) == (here["entries"], here["root"])
    assert audit.verify_export(lines, earlier)["ok"]


def test_export_has_mode_600_and_never_overwrites_a_file(workspace: MailWorkspace) -> None:
    path = workspace.directory / "export.jsonl"
    told = audit.export(workspace.node, Credentials(owner=True), str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    assert told["entries"] == len(path.read_bytes().splitlines()) - 1
    with pytest.raises(FileExistsError):
        audit.export(workspace.node, Credentials(owner=True), str(path))


def answer_to(lines: list[bytes]) -> Answer:
    """Verify an export. Return the answer, or the refusal as an answer."""
    try:
        return audit.verify_export(lines)
    except Refusal as refusal:
        return {"ok": False} | refusal.as_dict()


def same_entries(one: list[bytes], other: list[bytes]) -> bool:
    """Whether two exports have the same entries. Hexadecimal digits can differ in case."""
    return [audit._imported(line) for line in one] == [audit._imported(line) for line in other]


def test_a_changed_byte_of_an_export_is_found_in_its_entry(workspace: MailWorkspace) -> None:
    workspace.chat(2)
    workspace.call(workspace.vera, AckMessages((f"#{workspace.head()}",), note="thanks"))
    lines = workspace.export()
    for seq, line in enumerate(lines[1:], 1):
        for at in range(0, len(line) - 1, 3):
            other = lines.copy()
            other[seq] = line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :]
            found = answer_to(other)
            if found["ok"]:
                assert same_entries(lines[1:], other[1:]), (seq, at)
                continue
            assert found["code"] == "LOG_DAMAGED", (seq, at, found)
            # Without a head, the last two entries do not show which of them was changed.
            assert abs(found["seq"] - seq) <= 1, (seq, at, found)


def test_the_checkpoint_of_an_export_cannot_be_changed(workspace: MailWorkspace) -> None:
    lines = workspace.export()
    about = json.loads(lines[0])
    note = about["checkpoint"]
    for at in range(len(note)):
        other = note[:at] + chr(ord(note[at]) ^ 1) + note[at + 1 :]
        first = canonical(about | {"checkpoint": other}) + b"\n"
        assert not answer_to([first, *lines[1:]])["ok"], at


def test_truncated_export_is_found(workspace: MailWorkspace) -> None:
    workspace.chat(2)
    lines = workspace.export()
    for length in range(2, len(lines)):
        found = answer_to(lines[:length])
        assert (found["ok"], found["code"], found["seq"]) == (False, "LOG_DAMAGED", length)
    assert not answer_to(lines[:1])["ok"]
    half = [*lines[:-1], lines[-1][:50]]
    assert answer_to(half)["seq"] == len(lines) - 1


def test_lines_of_an_export_that_are_missing_doubled_or_swapped_are_found(
    workspace: MailWorkspace,
) -> None:
    workspace.chat(4)
    lines = workspace.export()
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
def test_a_junk_line_in_an_export_is_answered_with_a_code(
    workspace: MailWorkspace, junk: bytes
) -> None:
    lines = workspace.export()
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
    workspace: MailWorkspace, note: Any
) -> None:
    lines = workspace.export()
    first = canonical({"export": "interlock", "version": 1, "checkpoint": note}) + b"\n"
    assert not answer_to([first, *lines[1:]])["ok"]


WRONG_MEMBERS: list[dict[str, Any]] = [
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


@pytest.mark.parametrize(
    "strange", WRONG_MEMBERS, ids=[canonical(s).decode() for s in WRONG_MEMBERS]
)
def test_a_header_with_members_of_the_wrong_type_is_answered_with_a_code(
    workspace: MailWorkspace, strange: dict[str, Any]
) -> None:
    """The forged entry links correctly to the one before it. The first export ends with it."""
    lines = workspace.export()
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
    """Return the content of all files, after every connection was closed."""
    return {
        str(path.relative_to(directory)): path.read_bytes().lower()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def found_on_disk(directory: Path, *words: bytes) -> list[tuple[str, bytes]]:
    files = bytes_on_disk(directory)
    assert files["log.db"]
    return [(name, word) for name, data in files.items() for word in words if word in data]


def test_a_body_that_was_not_redacted_is_on_disk(workspace: MailWorkspace) -> None:
    workspace.tell(SECRET)
    workspace.close()
    assert {word for _, word in found_on_disk(workspace.directory, *WORDS)} == set(WORDS)


def test_a_redacted_body_is_in_no_table(workspace: MailWorkspace) -> None:
    message = workspace.tell(SECRET, subject="the quartz matter")
    workspace.call(workspace.otto, Redact(message["id"], "a leak"))
    tables = workspace.query("SELECT name FROM sqlite_schema WHERE type = 'table'")
    for (table,) in tables:
        for row in workspace.query(f"SELECT * FROM {table}"):
            for value in row:
                data = value if isinstance(value, bytes) else str(value).encode()
                assert not any(word in data.lower() for word in WORDS), (table, row)


def test_a_redacted_body_is_nowhere_on_disk(workspace: MailWorkspace) -> None:
    before = workspace.tell("zebra before")
    message = workspace.tell(SECRET, subject="the quartz matter")
    after = workspace.tell("zebra after")
    workspace.call(workspace.otto, Redact(message["id"], "a leak"))
    for kept in (before, after):
        assert "zebra" in workspace.call(workspace.vera, ReadMessage(kept["id"]))["payload"]["text"]
    workspace.close()
    assert found_on_disk(workspace.directory, *WORDS) == []


def test_a_redacted_body_that_was_searched_and_read_is_nowhere_on_disk(
    workspace: MailWorkspace,
) -> None:
    workspace.tell("zebra before")
    message = workspace.tell(SECRET, subject="the quartz matter")
    found = workspace.call(workspace.vera, Search("xylographer7731"))
    assert [m["id"] for m in found["messages"]] == [message["id"]]
    workspace.call(workspace.vera, ListInbox())
    workspace.call(workspace.vera, ReadMessage(message["id"]))
    workspace.tell("zebra after")
    workspace.call(workspace.otto, Redact(message["id"], "a leak"))
    assert workspace.call(workspace.vera, Search("xylographer7731"))["messages"] == []
    assert workspace.call(workspace.otto, Search("quartz"))["messages"] == []
    assert len(workspace.call(workspace.vera, Search("zebra"))["messages"]) == 2
    workspace.close()
    assert found_on_disk(workspace.directory, *WORDS) == []


@contextmanager
def reader(workspace: MailWorkspace) -> Iterator[None]:
    """Hold a read transaction open, as an audit of a long log does."""
    with closing(apsw.Connection(str(workspace.directory / "log.db"))) as db:
        db.execute("BEGIN")
        db.execute("SELECT * FROM log").fetchall()
        yield


def test_redaction_does_not_wait_for_a_reader_and_completes_after_it(
    workspace: MailWorkspace,
) -> None:
    redact = Redact(workspace.tell(SECRET)["id"], "a leak")
    redaction = threading.Thread(target=lambda: workspace.call(workspace.otto, redact))
    with reader(workspace):
        redaction.start()
        redaction.join(PROMPT_S)
        prompt = not redaction.is_alive()
        redaction.join(LIMIT_S)
    workspace.close()
    assert found_on_disk(workspace.directory, *WORDS) == []
    assert prompt


LARGE = "the quartz vault opens at xylographer7731\n" * 40_000


def test_a_redacted_blob_is_nowhere_on_disk(workspace: MailWorkspace) -> None:
    message = workspace.tell(LARGE)
    assert len(workspace.query("SELECT 1 FROM blob_chunks")) > 1
    proof = proofs.prove(workspace.node, message["seq"])
    workspace.call(workspace.otto, Redact(message["id"], "a leak"))
    for table in ("blobs", "blob_chunks", "blob_uses"):
        assert workspace.query(f"SELECT * FROM {table}") == []
    assert audit.verify(workspace.node)["ok"]
    assert proofs.check_proof(proof)["ok"]
    workspace.close()
    assert found_on_disk(workspace.directory, *WORDS) == []


def test_a_blob_of_two_messages_stays_until_both_are_redacted(workspace: MailWorkspace) -> None:
    first, second = workspace.tell(LARGE), workspace.tell(LARGE)
    workspace.call(workspace.otto, Redact(first["id"], "a leak"))
    read = workspace.call(workspace.vera, ReadMessage(second["id"]))
    assert read["payload"]["text"] == LARGE
    assert "payload" not in workspace.call(workspace.vera, ReadMessage(first["id"]))
    assert audit.verify(workspace.node)["ok"]
    workspace.call(workspace.otto, Redact(second["id"], "a leak"))
    assert workspace.query("SELECT 1 FROM blob_chunks") == []
    assert audit.verify(workspace.node)["ok"]


def test_every_proof_stays_valid_when_a_body_is_redacted(workspace: MailWorkspace) -> None:
    workspace.chat(3)
    message = workspace.tell(SECRET)
    workspace.chat(3)
    before = [proofs.prove(workspace.node, seq) for seq in range(1, workspace.head() + 1)]
    note = proofs.checkpoint(workspace.node)["checkpoint"]
    workspace.call(workspace.otto, Redact(message["id"], "a leak"))
    for proof in before:
        assert proofs.check_proof(proof, before[0]["verifier"])["ok"]
    for proof in before:
        again = proofs.prove(workspace.node, proof["seq"])
        assert again["header"] == proof["header"]
        assert proofs.check_proof(again)["ok"]
    assert proofs.check_proof(proofs.prove_growth(workspace.node, len(before)))["ok"]
    assert audit.verify(workspace.node, note)["ok"]
    assert audit.verify_export(workspace.export(), note)["ok"]


def test_a_redaction_is_a_fact_and_done_once(workspace: MailWorkspace) -> None:
    message = workspace.tell(SECRET)
    first = workspace.call(workspace.otto, Redact(message["id"], "a leak"))
    entries = workspace.head()
    assert workspace.call(workspace.otto, Redact(message["id"], "again")) == first
    assert workspace.head() == entries
    facts = audit.show(workspace.node, ShowLog(kind="body_redacted"))["facts"]
    assert [fact["outcome"] for fact in facts] == [{"target": message["seq"]}]


def test_a_redaction_leaves_the_state_that_a_rebuild_gives(workspace: MailWorkspace) -> None:
    message = workspace.tell(SECRET)
    workspace.call(workspace.vera, ReadMessage(message["id"]))
    workspace.call(workspace.otto, Redact(message["id"], "a leak"))
    digest = upkeep.state_digest(workspace.node)
    rebuilt = upkeep.rebuild(workspace.node, OWNER)
    assert (rebuilt["digest"], rebuilt["changed"]) == (digest, False)


def test_a_redacted_message_is_shown_as_such_everywhere(workspace: MailWorkspace) -> None:
    message = workspace.tell(SECRET, subject="the quartz matter")
    workspace.call(workspace.otto, Redact(message["id"], "a leak"))
    vera, id = workspace.vera, message["id"]
    shown = [
        workspace.call(vera, ReadMessage(id)),
        workspace.call(vera, ListInbox())["messages"][0],
        workspace.call(vera, ShowThread(id))["messages"][0],
        workspace.call(workspace.otto, ListInbox("sent"))["messages"][0],
        workspace.call(OWNER, Explain(id))["message"],
    ]
    for answer in shown:
        assert answer["redacted"] is True
        assert answer["id"] == id
        assert not {"payload", "subject", "sha256", "size"} & set(answer)
    workspace.call(workspace.otto, ShowReceipts(id))
    workspace.call(vera, AckMessages((id,)))


def test_only_the_sender_and_the_owner_may_redact(workspace: MailWorkspace) -> None:
    message = workspace.tell(SECRET)
    with pytest.raises(MissingScope):
        workspace.call(workspace.vera, Redact(message["id"], "I do not like it"))
    with pytest.raises(NotFound):
        workspace.call(workspace.neo, Redact(message["id"], "I do not like it"))
    with pytest.raises(NoIdentity):
        workspace.call(Credentials(), Redact(message["id"], "I do not like it"))
    read = workspace.call(workspace.vera, ReadMessage(message["id"]))
    assert read["payload"]["text"] == SECRET
    # The agent's other surface may redact it, and so may the owner.
    workspace.call(workspace.desktop, Redact(message["id"], "a leak"))
    workspace.call(OWNER, Redact(workspace.tell(SECRET)["id"], "a leak"))


def test_key_of_a_redacted_message_conflicts_with_the_same_request(
    workspace: MailWorkspace,
) -> None:
    message = workspace.tell(SECRET, key="once")
    assert workspace.tell(SECRET, key="once")["id"] == message["id"]
    workspace.call(workspace.otto, Redact(message["id"], "a leak"))
    with pytest.raises(IdempotencyConflict):
        workspace.tell(SECRET, key="once")


def test_only_a_redaction_explains_a_missing_body(workspace: MailWorkspace) -> None:
    message = workspace.tell(SECRET)
    other = workspace.tell("not redacted")
    workspace.call(workspace.otto, Redact(message["id"], "a leak"))
    lines = workspace.export()
    row = json.loads(lines[other["seq"]])
    lines[other["seq"]] = canonical({"seq": row["seq"], "header": row["header"]}) + b"\n"
    found = answer_to(lines)
    assert (found["ok"], found["seq"]) == (False, other["seq"])


# --- the command


def test_audit_commands_work_from_end_to_end(tmp_path: Path) -> None:
    directory, away = tmp_path / "workspace", tmp_path / "elsewhere"
    with MailWorkspace(directory) as workspace:
        message = workspace.tell("hello")
        workspace.call(workspace.otto, AcquireClaim(item="B-1"))
    status, verified = owner_command(directory, "audit", "verify")
    assert (status, verified["ok"]) == (0, True)
    _, signed = owner_command(directory, "audit", "checkpoint")
    (tmp_path / "note.json").write_text(json.dumps(signed))
    (tmp_path / "note.txt").write_text(signed["checkpoint"])
    for name in ("note.json", "note.txt"):
        status, _ = owner_command(
            directory, "audit", "verify", "--checkpoint", str(tmp_path / name)
        )
        assert status == 0
    _, proof = owner_command(directory, "audit", "prove", str(message["seq"]))
    (tmp_path / "proof.json").write_text(json.dumps(proof))
    _, growth = owner_command(directory, "audit", "prove", "--since", "3")
    (tmp_path / "growth.json").write_text(json.dumps(growth))
    status, _ = owner_command(directory, "audit", "export", str(tmp_path / "log.jsonl"))
    assert status == 0
    # The following commands use only the files, as a reader without the workspace does.
    for name in ("proof.json", "growth.json"):
        words = ("audit", "check-proof", str(tmp_path / name), "--verifier", signed["verifier"])
        status, checked = owner_command(away, *words)
        assert (status, checked["ok"], checked["verifier"]) == (0, True, "given")
    exported = str(tmp_path / "log.jsonl")
    note = str(tmp_path / "note.txt")
    status, offline = owner_command(away, "audit", "verify", exported, "--checkpoint", note)
    assert (status, offline["root"]) == (0, verified["root"])
    assert not away.exists()
    (tmp_path / "proof.json").write_text(json.dumps(proof | {"seq": 1}))
    status, refused = owner_command(away, "audit", "check-proof", str(tmp_path / "proof.json"))
    assert (status, refused["code"]) == (1, "LOG_DAMAGED")
    data = (tmp_path / "log.jsonl").read_bytes()
    (tmp_path / "log.jsonl").write_bytes(data[: data.rindex(b"\n", 0, -1) + 1])
    status, damaged = owner_command(away, "audit", "verify", exported)
    assert (status, damaged["code"], damaged["seq"]) == (1, "LOG_DAMAGED", verified["entries"])
