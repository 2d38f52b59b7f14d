"""Proofs for readers without the workspace: signed checkpoints, and paths from an entry to them.

A checkpoint that is stored outside the workspace reveals any later change to history. A reader
with the verifier key can check a proof without the workspace.
"""

from typing import Any, NamedTuple

from interlock.errors import LogDamaged, NotFound, Remedy, Usage
from interlock.log.facts import header_hash, parse_header
from interlock.log.merkle import (
    Frontier,
    consistency_path,
    inclusion_paths,
    verify_consistency,
    verify_inclusion,
)
from interlock.log.notes import open_note, parse_verifier_key
from interlock.node import Node, state
from interlock.rooms.workspace.verbs import VerifyLog
from interlock.verbs.answers import Answer, without_none

TO_VERIFY = Remedy("interlock audit verify", VerifyLog())


class Tree(NamedTuple):
    """The leaves of the log at one position, and the members that every proof has about the whole
    tree."""

    leaves: list[bytes]
    signed: Answer

    def refuse_beyond(self, first: int, last: int) -> None:
        if first < 1 or last > len(self.leaves):
            given = first if first < 1 else last
            raise NotFound(f"{given} is not an entry. The log has entries 1 to {len(self.leaves)}.")


def _tree(node: Node) -> Tree:
    """Sign the log at its head. Raises LogDamaged if the log does not match the state, or if the
    key is not the log's key."""
    frontier = Frontier()
    leaves = []
    with node.file.reading() as db:
        for _, header in node.engine.follow(db, 0):
            leaf = bytes.fromhex(header_hash(header))
            frontier.append(leaf)
            leaves.append(leaf)
        row = db.execute("SELECT id, epoch, verifier FROM workspace_self").fetchone()
        if state.load(db).frontier.pack() != frontier.pack():
            raise LogDamaged("The log does not match the state. To check the log:", TO_VERIFY)
    assert row is not None
    workspace, epoch, verifier = str(row[0]), int(str(row[1])), str(row[2])
    if node.keys.verifier(workspace) != verifier:
        raise LogDamaged(
            "The key that signs this workspace's checkpoints was lost or replaced. Restore "
            "keys/checkpoint.key from a copy, or restore a backup, which starts a new key."
        )
    signed = {
        "tree_size": len(leaves),
        "root": frontier.root().hex(),
        "checkpoint": node.keys.checkpoint(workspace, epoch, frontier),
        "verifier": verifier,
    }
    return Tree(leaves, signed)


def checkpoint(node: Node) -> Answer:
    """Sign the log at its head."""
    signed = _tree(node).signed
    return {"entries": signed.pop("tree_size")} | signed


def prove(node: Node, seq: int) -> Answer:
    """Prove that the log has the entry, to a reader who has only the verifier key."""
    tree = _tree(node)
    (entry,) = _included(node, tree, [seq])
    return {"proof": "inclusion"} | entry | tree.signed


def prove_many(node: Node, seqs: tuple[int, ...]) -> Answer:
    """Prove several entries against one checkpoint, for a report."""
    tree = _tree(node)
    entries = _included(node, tree, sorted(set(seqs)))
    return {"proof": "inclusions", "entries": entries} | tree.signed


def _included(node: Node, tree: Tree, seqs: list[int]) -> list[Answer]:
    """The entries at these positions, each with its path to the root."""
    tree.refuse_beyond(seqs[0], seqs[-1])
    paths = inclusion_paths(tree.leaves, [seq - 1 for seq in seqs])
    entries = []
    with node.file.reading() as db:
        for seq, path in zip(seqs, paths, strict=True):
            header = db.execute("SELECT header FROM log WHERE seq = ?", (seq,)).get
            assert isinstance(header, bytes)
            entries.append(
                {
                    "seq": seq,
                    "header": header.decode(),
                    "leaf_index": seq - 1,
                    "path": [step.hex() for step in path],
                }
            )
    return entries


def prove_growth(node: Node, size: int) -> Answer:
    """Prove that the log of `size` entries is the beginning of the log at its head."""
    tree = _tree(node)
    tree.refuse_beyond(size, size)
    old = Frontier()
    for leaf in tree.leaves[:size]:
        old.append(leaf)
    return {
        "proof": "consistency",
        "old_size": size,
        "old_root": old.root().hex(),
        "path": [step.hex() for step in consistency_path(tree.leaves, size)],
    } | tree.signed


def check_proof(proof: Any, verifier: str | None = None) -> Answer:
    """Check a proof without the workspace. If the reader gives no verifier key, the check shows
    only that the proof is consistent in itself, and the answer says so. Raises Usage."""
    try:
        name, key = parse_verifier_key(verifier or proof["verifier"])
        signed = open_note(proof["checkpoint"], name, key)
        root, size = bytes.fromhex(proof["root"]), proof["tree_size"]
        holds = (signed.root, signed.size) == (root, size) and _holds(proof, size, root)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Usage(
            "The file is not a proof. To make one: interlock audit prove SEQ --json"
        ) from None
    if not holds:
        return {"ok": False} | LogDamaged("The proof is not valid.").as_dict()
    return without_none(
        ok=True,
        proof=proof["proof"],
        seq=proof.get("seq"),
        seqs=[entry["seq"] for entry in proof["entries"]] if "entries" in proof else None,
        old_size=proof.get("old_size"),
        tree_size=size,
        root=proof["root"],
        signed_by=name,
        verifier="given" if verifier else "taken from the proof itself",
    )


def _holds(proof: Any, size: int, root: bytes) -> bool:
    def path(of: Any) -> list[bytes]:
        return [bytes.fromhex(step) for step in of["path"]]

    if proof["proof"] == "consistency":
        old = bytes.fromhex(proof["old_root"])
        return verify_consistency(proof["old_size"], size, path(proof), old, root)
    if proof["proof"] not in ("inclusion", "inclusions"):
        raise ValueError("it proves neither inclusion nor consistency")
    entries = [proof] if proof["proof"] == "inclusion" else proof["entries"]
    if not entries:
        return False
    for entry in entries:
        header, index = entry["header"].encode(), entry["leaf_index"]
        leaf = bytes.fromhex(header_hash(header))
        if not parse_header(header).seq == entry["seq"] == index + 1:
            return False
        if not verify_inclusion(leaf, index, size, path(entry), root):
            return False
    return True
