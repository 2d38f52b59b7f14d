"""The log's Merkle tree, as RFC 6962 defines it. The frontier grows with every append. Paths prove
to a reader that an entry is in the log, or that the log only grew.

This module stores no tree. An append needs only the frontier. A path is computed from the leaf
hashes on request.
"""

from collections.abc import Sequence
from hashlib import sha256

HASH_BYTES = 32
EMPTY_ROOT = sha256(b"").digest()

_SIZE_BYTES = 8
_MAX_SIZE = 2 ** (8 * _SIZE_BYTES) - 1


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of an entry. The prefix distinguishes entries from inner nodes."""
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node over its two children."""
    return sha256(b"\x01" + left + right).digest()


class Frontier:
    """The right edge of a tree: the root of each complete subtree, the largest (leftmost) first.

    It has one hash for each set bit of `size`, so at most 64 hashes for any log.
    """

    __slots__ = ("_roots", "size")

    def __init__(self) -> None:
        self.size = 0
        self._roots: list[bytes] = []

    def append(self, leaf_hash: bytes) -> None:
        """Add one leaf hash of 32 bytes. The length is not checked, to keep appends fast."""
        roots, carry, node = self._roots, self.size, leaf_hash
        # This adds one to a binary counter: each set low bit is a subtree that becomes the left
        # half of a larger one.
        while carry & 1:
            node = node_hash(roots.pop(), node)
            carry >>= 1
        roots.append(node)
        self.size += 1

    def root(self) -> bytes:
        """The root of the whole tree; at most one hash for each set bit of `size`."""
        if not self._roots:
            return EMPTY_ROOT
        node = self._roots[-1]
        for left in self._roots[-2::-1]:
            node = node_hash(left, node)
        return node

    def pack(self) -> bytes:
        """The stored form: the size in eight bytes, big end first, then the hashes in order."""
        return self.size.to_bytes(_SIZE_BYTES, "big") + b"".join(self._roots)

    @classmethod
    def unpack(cls, packed: bytes) -> "Frontier":
        """Read the stored form. Raise ValueError if its length contradicts the size."""
        size = int.from_bytes(packed[:_SIZE_BYTES], "big")
        if len(packed) != _SIZE_BYTES + HASH_BYTES * size.bit_count():
            raise ValueError(f"a frontier of {size} leaves cannot be {len(packed)} bytes long")
        frontier = cls()
        frontier.size = size
        frontier._roots = [
            packed[start : start + HASH_BYTES]
            for start in range(_SIZE_BYTES, len(packed), HASH_BYTES)
        ]
        return frontier


def inclusion_paths(
    leaves: Sequence[bytes], indices: Sequence[int], size: int | None = None
) -> list[list[bytes]]:
    """Return the paths that prove leaves in the tree of the first `size` leaves (default: all).

    `leaves` are leaf hashes, and the work is one hash for each. Raise ValueError if the tree or a
    leaf does not exist.
    """
    size = len(leaves) if size is None else size
    for index in indices:
        if not 0 <= index < size <= len(leaves):
            raise ValueError(f"no leaf {index} in a tree of {size}, of {len(leaves)} leaves")
    return _siblings(leaves[:size], indices)


def consistency_path(leaves: Sequence[bytes], old_size: int) -> list[bytes]:
    """Return the path that proves that the tree starts with its first `old_size` leaves.

    The path is empty if `old_size` is zero or all leaves: no proof is needed then. Raise ValueError
    if the old tree is larger than the new one.
    """
    if not 0 <= old_size <= len(leaves):
        raise ValueError(f"a tree of {len(leaves)} never had {old_size} leaves")
    if old_size in (0, len(leaves)):
        return []
    # Both trees contain the largest complete subtree that ends where the old tree ends. From it and
    # its siblings on the way up, a verifier can compute both roots.
    level, position = leaves, old_size - 1
    while position & 1:
        level, position = _parents(level), position >> 1
    # At position 0 that subtree is the old tree, whose root the verifier has.
    start = [level[position]] if position else []
    return start + _siblings(level, [position])[0]


def verify_inclusion(
    leaf_hash: bytes, index: int, size: int, path: Sequence[bytes], root: bytes
) -> bool:
    """Return whether `path` proves `leaf_hash` at `index` of the `size` leaves under `root`.

    Implements RFC 9162, 2.1.3.2, and never raises. `size` and `root` must come from one trusted
    checkpoint. A path fixes the position of a leaf, but trees of several sizes can share its shape.
    Only the checkpoint tells which of them has this root.
    """
    if not (_are_sizes(index, size) and index < size and _are_hashes(leaf_hash, root, *path)):
        return False
    node, last, computed = index, size - 1, leaf_hash
    for sibling in path:
        if last == 0:
            return False
        if node & 1 or node == last:
            computed = node_hash(sibling, computed)
            node, last = _skip_promotions(node, last)
        else:
            computed = node_hash(computed, sibling)
        node, last = node >> 1, last >> 1
    return last == 0 and computed == root


def verify_consistency(
    old_size: int, new_size: int, path: Sequence[bytes], old_root: bytes, new_root: bytes
) -> bool:
    """Return whether `path` proves that the tree of `new_root` starts with that of `old_root`.

    Implements RFC 9162, 2.1.4.2, and never raises. Each size and root must come from one trusted
    checkpoint, as for `verify_inclusion`. Every tree starts with the empty tree.
    """
    if not (_are_sizes(old_size, new_size) and _are_hashes(old_root, new_root, *path)):
        return False
    if old_size == new_size:
        return not path and old_root == new_root and (old_size > 0 or old_root == EMPTY_ROOT)
    if old_size == 0:
        return not path and old_root == EMPTY_ROOT
    if old_size > new_size or not path:
        return False
    if old_size.bit_count() == 1:
        path = [old_root, *path]
    node, last = old_size - 1, new_size - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    old_computed = new_computed = path[0]
    for sibling in path[1:]:
        if last == 0:
            return False
        if node & 1 or node == last:
            old_computed = node_hash(sibling, old_computed)
            new_computed = node_hash(sibling, new_computed)
            node, last = _skip_promotions(node, last)
        else:
            new_computed = node_hash(new_computed, sibling)
        node, last = node >> 1, last >> 1
    return last == 0 and old_computed == old_root and new_computed == new_root


def _parents(level: Sequence[bytes]) -> list[bytes]:
    """Return the level above. A last node without a sibling moves up unchanged."""
    pairs = range(0, len(level) - 1, 2)
    above = [node_hash(level[left], level[left + 1]) for left in pairs]
    if len(level) & 1:
        above.append(level[-1])
    return above


def _siblings(level: Sequence[bytes], positions: Sequence[int]) -> list[list[bytes]]:
    """Return for each node its sibling and the siblings of its ancestors, from this level up."""
    paths: list[list[bytes]] = [[] for _ in positions]
    while len(level) > 1:
        for path, position in zip(paths, positions, strict=True):
            if position ^ 1 < len(level):
                path.append(level[position ^ 1])
        level, positions = _parents(level), [position >> 1 for position in positions]
    return paths


def _skip_promotions(node: int, last: int) -> tuple[int, int]:
    """Skip the levels where the node is the last and has no sibling."""
    while node and not node & 1:
        node, last = node >> 1, last >> 1
    return node, last


def _are_sizes(*numbers: object) -> bool:
    # The bound prevents slow arithmetic on a hostile number.
    return all(type(number) is int and 0 <= number <= _MAX_SIZE for number in numbers)


def _are_hashes(*values: object) -> bool:
    return all(type(value) is bytes and len(value) == HASH_BYTES for value in values)
