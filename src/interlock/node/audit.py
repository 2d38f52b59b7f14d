"""The audit: verifying the whole log, proving one entry to a stranger, and carrying it away.

Verification trusts nothing but the bytes: the chain of header hashes, the commitments of bodies,
and the signed checkpoints it is given or finds beside the log.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from interlock.contracts.acts import ShowLog
from interlock.contracts.addresses import address
from interlock.contracts.encoding import canonical, decode
from interlock.contracts.facts import (
    GENESIS,
    Entry,
    Header,
    commitment,
    header_hash,
    parse_header,
)
from interlock.contracts.merkle import (
    Frontier,
    consistency_path,
    inclusion_path,
    verify_consistency,
    verify_inclusion,
)
from interlock.contracts.notes import Checkpoint, open_note
from interlock.contracts.times import rfc3339
from interlock.errors import LogDamaged, NotFound, Usage
from interlock.kernel.moment import Answer, State, absent_dropped
from interlock.node import Node
from interlock.node.keys import parsed

_ENTRIES = (
    "SELECT l.seq, l.header, b.salt, b.body FROM log l LEFT JOIN bodies b USING (seq) "
    "WHERE l.seq > ? ORDER BY l.seq"
)


class Damage(Exception):
    """What is wrong, and the first entry that shows it."""

    def __init__(self, seq: int, what: str) -> None:
        super().__init__(what)
        self.seq = seq


class Walk:
    """Follows the log entry by entry, and remembers what only the end can settle."""

    def __init__(self) -> None:
        self.frontier = Frontier()
        self.hash = GENESIS
        self.workspace = ""
        self.verifiers: list[str] = []
        self.roots: dict[int, bytes] = {}
        self._before: Header | None = None
        self._missing: set[int] = set()
        self._redacted: set[int] = set()

    def step(self, entry: Entry) -> None:
        expected = self.frontier.size + 1
        if entry.seq != expected:
            raise Damage(expected, f"entry {expected} is missing")
        try:
            fact = parse_header(entry.header)
        except ValueError:
            raise Damage(expected, "its header cannot be read") from None
        self._check_chain(fact, expected)
        self._check_body(fact, entry)
        self.hash = header_hash(entry.header)
        self.frontier.append(bytes.fromhex(self.hash))
        self._before = fact
        if "verifier" in fact.outcome:
            self.verifiers.append(fact.outcome["verifier"])
        if fact.kind == "body_redacted":
            self._redacted.add(fact.outcome["target"])

    def _check_chain(self, fact: Header, expected: int) -> None:
        if fact.seq != expected:
            raise Damage(expected, f"it says that it is entry {fact.seq}")
        if fact.prev != self.hash:
            raise Damage(expected, "it does not follow the entry before it")
        before = self._before
        if before is None:
            self.workspace = fact.workspace
        elif fact.at < before.at or fact.epoch < before.epoch:
            raise Damage(expected, "its time or epoch goes back")
        if fact.workspace != self.workspace:
            raise Damage(expected, "it belongs to another workspace")

    def _check_body(self, fact: Header, entry: Entry) -> None:
        if entry.body is None or entry.salt is None:
            if fact.body is not None:
                self._missing.add(entry.seq)
        elif fact.body != commitment(entry.salt, entry.body):
            raise Damage(entry.seq, "its body is not the one that was committed to")

    def finish(self) -> None:
        if lost := sorted(self._missing - self._redacted):
            raise Damage(lost[0], "its body is missing, and no redaction says so")


def verify(node: Node, checkpoint: str | None = None) -> Answer:
    """Checks everything: chain, bodies, blobs, head, and every checkpoint given or kept."""
    with node.file.reading() as db:
        entries = (Entry(*row) for row in db.execute(_ENTRIES, (0,)))
        notes = node.keys.kept() + ([checkpoint] if checkpoint is not None else [])
        return _report(entries, notes, lambda walk: _check_ends(db, walk))


def verify_export(lines: Iterable[bytes], checkpoint: str | None = None) -> Answer:
    """The same from an exported file, with no workspace at hand."""
    reader = iter(lines)
    try:
        first = decode(next(reader, b""))
        notes = [first["checkpoint"]]
    except (ValueError, KeyError, TypeError):
        raise Usage("That is not a log that interlock audit export wrote.") from None
    if checkpoint is not None:
        notes.append(checkpoint)
    return _report(map(_imported, reader), notes, lambda walk: None)


def _imported(line: bytes) -> Entry:
    try:
        row = decode(line)
        body = row["body"].encode() if "body" in row else None
        salt = bytes.fromhex(row["salt"]) if "salt" in row else None
        return Entry(row["seq"], row["header"].encode(), salt, body)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Damage(0, "a line of the export cannot be read") from None


def _report(entries: Iterator[Entry], notes: list[str], ends: Any) -> Answer:
    walk = Walk()
    sizes = {size for note in notes if (size := _size(note)) is not None}
    try:
        for entry in entries:
            walk.step(entry)
            if walk.frontier.size in sizes:
                walk.roots[walk.frontier.size] = walk.frontier.root()
        walk.finish()
        for note in notes:
            _check_note(walk, note)
        ends(walk)
    except Damage as damage:
        seq = damage.seq or walk.frontier.size + 1
        refusal = LogDamaged(
            f"Entry {seq} is damaged: {damage}. Stop writing, keep the file, and restore a backup "
            "that verifies."
        )
        return {"ok": False} | refusal.as_dict() | {"seq": seq, "entries": walk.frontier.size}
    return {
        "ok": True,
        "entries": walk.frontier.size,
        "root": walk.frontier.root().hex(),
        "checkpoints": len(notes),
    }


def _size(note: str) -> int | None:
    lines = note.split("\n")
    digits = lines[1] if len(lines) > 1 else ""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None


def _check_note(walk: Walk, note: str) -> None:
    checkpoint = _opened(note, walk.verifiers)
    if checkpoint is None:
        raise Usage("The checkpoint is not signed by this workspace's key.")
    if checkpoint.size > walk.frontier.size:
        raise Damage(
            walk.frontier.size + 1,
            f"a checkpoint was signed over {checkpoint.size} entries, and the log ends before",
        )
    if checkpoint.size and walk.roots.get(checkpoint.size) != checkpoint.root:
        raise Damage(
            checkpoint.size,
            f"the first {checkpoint.size} entries are not those that a checkpoint was signed over",
        )


def _opened(note: str, verifiers: list[str]) -> Checkpoint | None:
    for verifier in verifiers:
        try:
            return open_note(note, *parsed(verifier))
        except ValueError:
            continue
    return None


def _check_ends(db: State, walk: Walk) -> None:
    """What the database itself says of the end, and the blobs that bodies point to."""
    for table in ("head", "state_position"):
        seq, hash = db.execute(f"SELECT seq, hash FROM {table}").fetchone()
        if (seq, hash) != (walk.frontier.size, walk.hash):
            raise Damage(
                min(seq, walk.frontier.size) + 1, f"the log was {seq} entries long, and ends here"
            )
    for sha256, upload, seq in db.execute(
        "SELECT u.sha256, b.upload, min(u.seq) FROM blob_uses u LEFT JOIN blobs b USING (sha256) "
        "GROUP BY u.sha256 ORDER BY 3"
    ).fetchall():
        whole = hashlib.sha256()
        for (data,) in db.execute(
            "SELECT data FROM blob_chunks WHERE upload = ? ORDER BY number", (upload,)
        ):
            whole.update(data)
        if whole.hexdigest() != sha256:
            raise Damage(seq, "the blob that holds its body was changed")


class Tree(NamedTuple):
    """All leaves at one moment, with the checkpoint that was signed over them."""

    leaves: list[bytes]
    note: str
    verifier: str
    root: str


def _tree(node: Node) -> Tree:
    frontier = Frontier()
    leaves = []
    with node.file.reading() as db:
        for _, header in node.engine.follow(db, 0):
            leaf = bytes.fromhex(header_hash(header))
            frontier.append(leaf)
            leaves.append(leaf)
        workspace, verifier = _identity(db)
    note = node.keys.checkpoint(workspace, frontier)
    return Tree(leaves, note, verifier, frontier.root().hex())


def _identity(db: State) -> tuple[str, str]:
    id, verifier = db.execute("SELECT id, verifier FROM workspace_self").fetchone()
    return id, verifier


def checkpoint(node: Node) -> Answer:
    """Signs the log as it stands. Kept elsewhere, the note shows any later change to history."""
    tree = _tree(node)
    return {
        "entries": len(tree.leaves),
        "root": tree.root,
        "checkpoint": tree.note,
        "verifier": tree.verifier,
    }


def prove(node: Node, seq: int) -> Answer:
    """A proof that the entry is in the log, for somebody who has only the verifier key."""
    tree = _tree(node)
    if not 0 < seq <= len(tree.leaves):
        raise NotFound(f"The log has entries 1 to {len(tree.leaves)}.")
    with node.file.reading() as db:
        header = _header(db, seq)
    path = inclusion_path(tree.leaves, seq - 1)
    return {
        "proof": "inclusion",
        "seq": seq,
        "header": header.decode(),
        "leaf_index": seq - 1,
        "tree_size": len(tree.leaves),
        "root": tree.root,
        "path": [step.hex() for step in path],
        "checkpoint": tree.note,
        "verifier": tree.verifier,
    }


def _header(db: State, seq: int) -> bytes:
    (header,) = db.execute("SELECT header FROM log WHERE seq = ?", (seq,)).fetchone()
    return bytes(header)


def prove_growth(node: Node, size: int) -> Answer:
    """A proof that the log of `size` entries is the beginning of the log as it stands."""
    tree = _tree(node)
    if not 0 < size <= len(tree.leaves):
        raise NotFound(f"The log has entries 1 to {len(tree.leaves)}.")
    old = Frontier()
    for leaf in tree.leaves[:size]:
        old.append(leaf)
    return {
        "proof": "consistency",
        "old_size": size,
        "old_root": old.root().hex(),
        "tree_size": len(tree.leaves),
        "root": tree.root,
        "path": [step.hex() for step in consistency_path(tree.leaves, size)],
        "checkpoint": tree.note,
        "verifier": tree.verifier,
    }


def check_proof(proof: Any, verifier: str | None = None) -> Answer:
    """Whether a proof holds, offline. Without a verifier key of the checker's own it only shows
    that the proof agrees with itself, which the answer says."""
    try:
        name, key = parsed(verifier or proof["verifier"])
        signed = open_note(proof["checkpoint"], name, key)
        path = [bytes.fromhex(step) for step in proof["path"]]
        root, size = bytes.fromhex(proof["root"]), proof["tree_size"]
        holds = (signed.root, signed.size) == (root, size) and _holds(proof, path, size, root)
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise Usage(f"That is not a proof that interlock audit prove wrote: {wrong}.") from None
    if not holds:
        return {"ok": False} | LogDamaged("The proof does not hold.").as_dict()
    return absent_dropped(
        ok=True,
        proof=proof["proof"],
        seq=proof.get("seq"),
        old_size=proof.get("old_size"),
        tree_size=size,
        root=proof["root"],
        signed_by=name,
        verifier="given" if verifier else "taken from the proof itself",
    )


def _holds(proof: Any, path: list[bytes], size: int, root: bytes) -> bool:
    if proof["proof"] == "consistency":
        old = bytes.fromhex(proof["old_root"])
        return verify_consistency(proof["old_size"], size, path, old, root)
    leaf = bytes.fromhex(header_hash(proof["header"].encode()))
    named = parse_header(proof["header"].encode()).seq == proof["seq"] == proof["leaf_index"] + 1
    return named and verify_inclusion(leaf, proof["leaf_index"], size, path, root)


def export(node: Node, target: str) -> Answer:
    """Writes the whole log as JSON Lines into a new file: a first line about it, then one entry a
    line. Blobs are named by their digest and not copied."""
    signed = checkpoint(node)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with open(os.open(target, flags, 0o600), "wb") as file, node.file.reading() as db:
        about = {"export": "interlock", "version": 1} | signed
        file.write(canonical(about) + b"\n")
        count = 0
        for row in db.execute(_ENTRIES, (0,)):
            file.write(_exported(Entry(*row)) + b"\n")
            count += 1
    return {"file": target, "entries": count, "root": signed["root"]}


def _exported(entry: Entry) -> bytes:
    return canonical(
        absent_dropped(
            seq=entry.seq,
            header=entry.header.decode(),
            salt=entry.salt.hex() if entry.salt is not None else None,
            body=entry.body.decode() if entry.body is not None else None,
        )
    )


def show(node: Node, act: ShowLog) -> Answer:
    """The facts after a position, as they stand in the log; bodies are left out."""
    facts: list[Answer] = []
    with node.file.reading() as db:
        for _, header in node.engine.follow(db, act.after):
            fact = parse_header(header)
            if act.kind is not None and fact.kind != act.kind:
                continue
            if len(facts) == act.limit:
                return {"facts": facts, "next": facts[-1]["seq"]}
            facts.append(_fact(fact, header))
    return {"facts": facts}


def _fact(fact: Header, header: bytes) -> Answer:
    return absent_dropped(
        seq=fact.seq,
        at=rfc3339(fact.at),
        kind=fact.kind,
        sender=address(fact.sender),
        session=fact.session,
        token=fact.token,
        epoch=fact.epoch or None,
        outcome=fact.outcome,
        hash=header_hash(header),
        body=fact.body,
    )
