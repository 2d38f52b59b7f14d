"""Proofs for strangers: checkpoints signed over the log, and paths from an entry to them.

Whoever keeps a checkpoint elsewhere can show any later change to history; whoever has the
verifier key can check a proof with no workspace at hand.
"""

from typing import Any, NamedTuple

from interlock.errors import LogDamaged, NotFound, Usage
from interlock.log.facts import header_hash, parse_header
from interlock.log.merkle import (
    Frontier,
    consistency_path,
    inclusion_path,
    inclusion_paths,
    verify_consistency,
    verify_inclusion,
)
from interlock.log.notes import open_note, parse_verifier_key
from interlock.node import Node
from interlock.node import position as state
from interlock.rooms.transaction import State
from interlock.verbs.answers import Answer, without_none


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
        workspace, epoch, verifier = _identity(db)
        if state.load(db).frontier.pack() != frontier.pack():
            raise LogDamaged("The log is not what was folded. See interlock audit verify.")
    if node.keys.verifier(workspace) != verifier:
        raise LogDamaged(
            "The key that signs this workspace's checkpoints was lost or replaced. Put "
            "keys/checkpoint.key back from a copy, or restore a backup, which begins a new key."
        )
    note = node.keys.checkpoint(workspace, epoch, frontier)
    return Tree(leaves, note, verifier, frontier.root().hex())


def _identity(db: State) -> tuple[str, int, str]:
    id, epoch, verifier = db.execute("SELECT id, epoch, verifier FROM workspace_self").fetchone()
    return id, epoch, verifier


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


def prove_many(node: Node, seqs: tuple[int, ...]) -> Answer:
    """Proofs of several entries against one checkpoint, as a report carries them."""
    tree = _tree(node)
    wanted = sorted(set(seqs))
    if wanted[0] < 1 or wanted[-1] > len(tree.leaves):
        raise NotFound(f"The log has entries 1 to {len(tree.leaves)}.")
    paths = inclusion_paths(tree.leaves, [seq - 1 for seq in wanted])
    with node.file.reading() as db:
        entries = [
            {
                "seq": seq,
                "header": _header(db, seq).decode(),
                "leaf_index": seq - 1,
                "path": [step.hex() for step in path],
            }
            for seq, path in zip(wanted, paths, strict=True)
        ]
    return {
        "proof": "inclusions",
        "tree_size": len(tree.leaves),
        "root": tree.root,
        "entries": entries,
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
        name, key = parse_verifier_key(verifier or proof["verifier"])
        signed = open_note(proof["checkpoint"], name, key)
        root, size = bytes.fromhex(proof["root"]), proof["tree_size"]
        holds = (signed.root, signed.size) == (root, size) and _holds(proof, size, root)
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise Usage(f"That is not a proof that interlock audit prove wrote: {wrong}.") from None
    if not holds:
        return {"ok": False} | LogDamaged("The proof does not hold.").as_dict()
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
    if proof["proof"] == "consistency":
        old = bytes.fromhex(proof["old_root"])
        return verify_consistency(proof["old_size"], size, _path(proof), old, root)
    if proof["proof"] not in ("inclusion", "inclusions"):
        raise ValueError("it proves neither inclusion nor consistency")
    entries = [proof] if proof["proof"] == "inclusion" else proof["entries"]
    return bool(entries) and all(_is_included(entry, size, root) for entry in entries)


def _is_included(entry: Any, size: int, root: bytes) -> bool:
    header, index = entry["header"].encode(), entry["leaf_index"]
    named = parse_header(header).seq == entry["seq"] == index + 1
    leaf = bytes.fromhex(header_hash(header))
    return named and verify_inclusion(leaf, index, size, _path(entry), root)


def _path(proof: Any) -> list[bytes]:
    return [bytes.fromhex(step) for step in proof["path"]]
