"""Compare the tree with published values, a naive tree, its own verifiers, and another library."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymerkle import InmemoryTree
from pymerkle.proof import ConsistencyProof, InclusionProof

from interlock.log.merkle import (
    EMPTY_ROOT,
    Frontier,
    consistency_path,
    inclusion_paths,
    leaf_hash,
    node_hash,
    verify_consistency,
    verify_inclusion,
)

MANY = 70
ENTRIES = [b"entry %d" % number for number in range(MANY)]
LEAVES = [leaf_hash(entry) for entry in ENTRIES]

# The example tree that implementations of Certificate Transparency share.
PUBLISHED_ENTRIES = [
    bytes.fromhex(entry)
    for entry in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
PUBLISHED_LEAVES = [leaf_hash(entry) for entry in PUBLISHED_ENTRIES]
PUBLISHED_ROOTS = (
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)
# The published nodes on the paths, named by the leaves that they cover.
AT_1 = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"
AT_4 = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"
AT_6 = "b08693ec2e721597130641e8211e7eedccb4c26413963eee6c1e2ed16ffb1a5f"
FROM_0_TO_1 = "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"
FROM_2_TO_3 = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e"
FROM_4_TO_5 = "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a"
FROM_6_TO_7 = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0"
FROM_0_TO_3 = "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"
FROM_4_TO_7 = "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"


def naive_root(leaves: list[bytes]) -> bytes:
    """Compute the root exactly as RFC 6962 defines it."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    split = left_half(len(leaves))
    halves = naive_root(leaves[:split]) + naive_root(leaves[split:])
    return sha256(b"\x01" + halves).digest()


def left_half(size: int) -> int:
    """The largest power of two below `size`."""
    return 1 << ((size - 1).bit_length() - 1)


def inclusion_sides(index: int, size: int) -> str:
    """Return the side of each sibling, from the leaf up: the shape of an inclusion path."""
    if size == 1:
        return ""
    split = left_half(size)
    if index < split:
        return inclusion_sides(index, split) + "R"
    return inclusion_sides(index - split, size - split) + "L"


def consistency_sides(old: int, new: int, whole: bool = True) -> str:
    """The same for a consistency path. "0" is the node that the path starts from, if it has one."""
    if old == new:
        return "" if whole else "0"
    split = left_half(new)
    if old <= split:
        return consistency_sides(old, split, whole) + "R"
    return consistency_sides(old - split, new - split, False) + "L"


def frontier_of(leaves: list[bytes]) -> Frontier:
    frontier = Frontier()
    for leaf in leaves:
        frontier.append(leaf)
    return frontier


ROOTS = [naive_root(LEAVES[:size]) for size in range(MANY + 1)]


def test_empty_tree_has_the_published_root() -> None:
    assert EMPTY_ROOT.hex() == PUBLISHED_ROOTS[0]
    assert Frontier().root() == EMPTY_ROOT


def test_every_prefix_of_the_published_tree_has_its_published_root() -> None:
    frontier = Frontier()
    for leaf, root in zip(PUBLISHED_LEAVES, PUBLISHED_ROOTS[1:], strict=True):
        frontier.append(leaf)
        assert frontier.root().hex() == root


@pytest.mark.parametrize(
    ("index", "size", "path"),
    [
        (0, 1, []),
        (0, 8, [AT_1, FROM_2_TO_3, FROM_4_TO_7]),
        (5, 8, [AT_4, FROM_6_TO_7, FROM_0_TO_3]),
        (2, 3, [FROM_0_TO_1]),
        (1, 5, [PUBLISHED_ROOTS[1], FROM_2_TO_3, AT_4]),
    ],
)
def test_inclusion_paths_are_the_published_ones(index: int, size: int, path: list[str]) -> None:
    assert [step.hex() for step in inclusion_paths(PUBLISHED_LEAVES, [index], size)[0]] == path


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        (1, 1, []),
        (1, 8, [AT_1, FROM_2_TO_3, FROM_4_TO_7]),
        (6, 8, [FROM_4_TO_5, FROM_6_TO_7, FROM_0_TO_3]),
        (2, 5, [FROM_2_TO_3, AT_4]),
        (6, 7, [FROM_4_TO_5, AT_6, FROM_0_TO_3]),
    ],
)
def test_consistency_paths_are_the_published_ones(old: int, new: int, path: list[str]) -> None:
    assert [step.hex() for step in consistency_path(PUBLISHED_LEAVES[:new], old)] == path


def test_an_entry_and_an_inner_node_have_different_hashes() -> None:
    left, right = PUBLISHED_LEAVES[:2]
    assert leaf_hash(left + right) != node_hash(left, right)


def test_frontier_has_the_naive_root_at_every_size_also_after_packing() -> None:
    frontier = Frontier()
    for size in range(MANY + 1):
        assert frontier.size == size
        assert frontier.root() == ROOTS[size]
        packed = frontier.pack()
        assert len(packed) == 8 + 32 * size.bit_count()
        frontier = Frontier.unpack(packed)
        assert frontier.pack() == packed
        if size < MANY:
            frontier.append(LEAVES[size])


@given(st.lists(st.binary(max_size=40), max_size=200))
def test_frontier_of_any_entries_has_their_naive_root(entries: list[bytes]) -> None:
    leaves = [leaf_hash(entry) for entry in entries]
    assert frontier_of(leaves).root() == naive_root(leaves)


@given(st.binary(max_size=8 + 32 * 4))
def test_unpacking_accepts_exactly_the_output_of_packing(packed: bytes) -> None:
    try:
        frontier = Frontier.unpack(packed)
    except ValueError:
        assert len(packed) != 8 + 32 * int.from_bytes(packed[:8], "big").bit_count()
    else:
        assert frontier.pack() == packed


@pytest.mark.parametrize("size", range(MANY + 1))
def test_a_cut_or_padded_frontier_is_refused(size: int) -> None:
    packed = frontier_of(LEAVES[:size]).pack()
    for damaged in (packed[:-1], packed + b"\0", packed + bytes(32), packed[:7]):
        with pytest.raises(ValueError, match="frontier"):
            Frontier.unpack(damaged)


def test_every_leaf_of_every_tree_can_be_proved() -> None:
    for size in range(1, MANY + 1):
        for index in range(size):
            path = inclusion_paths(LEAVES, [index], size)[0]
            assert len(path) == len(inclusion_sides(index, size))
            assert verify_inclusion(LEAVES[index], index, size, path, ROOTS[size])
            assert not verify_inclusion(LEAVES[index - 1], index, size, path, ROOTS[size])


def test_consistency_with_every_smaller_tree_can_be_proved() -> None:
    for new in range(MANY + 1):
        for old in range(new + 1):
            path = consistency_path(LEAVES[:new], old)
            assert verify_consistency(old, new, path, ROOTS[old], ROOTS[new])
            assert not verify_consistency(old, new, path, ROOTS[old - 1], ROOTS[new])


def test_a_tree_with_a_changed_leaf_is_not_consistent() -> None:
    for new in range(2, 20):
        for old in range(1, new):
            rewritten = [leaf_hash(b"another"), *LEAVES[1:new]]
            path = consistency_path(rewritten, old)
            assert not verify_consistency(old, new, path, ROOTS[old], naive_root(rewritten))


def test_an_independent_library_has_the_same_roots_and_inclusion_paths() -> None:
    tree = InmemoryTree("sha256")
    for size, entry in enumerate(ENTRIES, start=1):
        tree.append_entry(entry)
        assert tree.get_root() == ROOTS[size]
        for index in range(size):
            path = inclusion_paths(LEAVES, [index], size)[0]
            theirs = tree.prove_inclusion(index + 1, size)
            # The library's paths start with the leaf itself.
            assert theirs.path == [LEAVES[index], *path]
            assert verify_inclusion(LEAVES[index], index, size, theirs.path[1:], ROOTS[size])


def test_an_independent_verifier_accepts_our_inclusion_paths() -> None:
    for size in range(1, MANY + 1):
        for index in range(size):
            # The library's rule tells for every node on the way up whether it is a right child. The
            # root is neither, and counts as left.
            path = [LEAVES[index], *inclusion_paths(LEAVES, [index], size)[0]]
            rule = [int(side == "L") for side in inclusion_sides(index, size)] + [0]
            proof = InclusionProof("sha256", True, size, index + 1, rule, path)
            proof.verify(LEAVES[index], ROOTS[size], index=index + 1, size=size)


def test_an_independent_library_has_the_same_consistency_paths() -> None:
    tree = InmemoryTree("sha256")
    tree.append_entries(ENTRIES)
    for new in range(1, MANY + 1):
        for old in range(1, new):
            proof = tree.prove_consistency(old, new)
            proof.verify(ROOTS[old], ROOTS[new], prior_size=old, later_size=new)
            theirs = as_rfc_path(proof)
            assert consistency_path(LEAVES[:new], old) == theirs
            assert verify_consistency(old, new, theirs, ROOTS[old], ROOTS[new])


def as_rfc_path(proof: ConsistencyProof) -> list[bytes]:
    """Convert the library's proof, which starts from the first new leaf. RFC 6962 starts from the
    last old subtree, and combines the new nodes next to it into one."""
    first_old = proof.subset.index(1)
    sibling = proof.path[0]
    for right in proof.path[1:first_old]:
        sibling = node_hash(sibling, right)
    start = [proof.path[first_old]] if sum(proof.subset) > 1 else []
    return [*start, sibling, *proof.path[first_old + 1 :]]


hashes = st.binary(min_size=32, max_size=32)
sizes = st.integers(1, MANY)
leaf_places = sizes.flatmap(lambda size: st.tuples(st.integers(0, size - 1), st.just(size)))
growths = st.integers(2, MANY).flatmap(lambda new: st.tuples(st.integers(1, new - 1), st.just(new)))


@st.composite
def changed(draw: st.DrawFn, path: list[bytes]) -> list[bytes]:
    """Return a changed path: a step is flipped, dropped, doubled, swapped, shortened or added."""
    ways = ["grow"] if not path else ["grow", "flip", "drop", "double", "swap", "shorten"]
    way, at = draw(st.sampled_from(ways)), draw(st.integers(0, max(0, len(path) - 1)))
    other = list(path)
    if way == "grow":
        other.insert(draw(st.integers(0, len(path))), draw(hashes))
    elif way == "flip":
        other[at] = flipped(path[at], draw(st.integers(0, 255)))
    elif way == "drop":
        del other[at]
    elif way == "double":
        other.insert(at, path[at])
    elif way == "swap":
        other[at], other[-1] = other[-1], other[at]
    else:
        other[at] = path[at][:-1]
    return other


def flipped(value: bytes, bit: int) -> bytes:
    return (int.from_bytes(value, "big") ^ (1 << bit)).to_bytes(32, "big")


@given(leaf_places, st.integers(0, 255), st.data())
def test_a_changed_inclusion_proof_is_refused(
    place: tuple[int, int], bit: int, data: st.DataObject
) -> None:
    index, size = place
    leaf, path, root = LEAVES[index], inclusion_paths(LEAVES, [index], size)[0], ROOTS[size]
    other = data.draw(changed(path))
    assert verify_inclusion(leaf, index, size, other, root) == (other == path)
    assert not verify_inclusion(flipped(leaf, bit), index, size, path, root)
    assert not verify_inclusion(leaf, index, size, path, flipped(root, bit))
    elsewhere = data.draw(st.integers(-3, MANY + 3))
    assert verify_inclusion(leaf, elsewhere, size, path, root) == (elsewhere == index)
    # A path alone cannot distinguish trees in which it has the same shape.
    resized = data.draw(st.integers(-3, MANY + 3))
    same_shape = index < resized and inclusion_sides(index, resized) == inclusion_sides(index, size)
    assert verify_inclusion(leaf, index, resized, path, root) == same_shape


@given(growths, st.integers(0, 255), st.data())
def test_a_changed_consistency_proof_is_refused(
    growth: tuple[int, int], bit: int, data: st.DataObject
) -> None:
    old, new = growth
    path, old_root, new_root = consistency_path(LEAVES[:new], old), ROOTS[old], ROOTS[new]
    other = data.draw(changed(path))
    assert verify_consistency(old, new, other, old_root, new_root) == (other == path)
    assert not verify_consistency(old, new, path, flipped(old_root, bit), new_root)
    assert not verify_consistency(old, new, path, old_root, flipped(new_root, bit))
    older = data.draw(st.integers(-3, MANY + 3))
    assert verify_consistency(older, new, path, old_root, new_root) == (older == old)
    resized = data.draw(st.integers(-3, MANY + 3))
    same_shape = old < resized and consistency_sides(old, resized) == consistency_sides(old, new)
    assert verify_consistency(old, resized, path, old_root, new_root) == same_shape


anything = st.one_of(
    st.integers(), st.integers(0, 2**70), st.booleans(), st.floats(), st.none(), st.text()
)
any_hash = st.one_of(hashes, st.binary(max_size=70), anything)


@given(anything, anything, st.lists(any_hash, max_size=12), any_hash, any_hash)
def test_verifying_arbitrary_values_returns_false_and_never_raises(
    first: object, second: object, path: object, one: object, other: object
) -> None:
    assert verify_inclusion(one, first, second, path, other) is False  # type: ignore[arg-type]
    found = verify_consistency(first, second, path, one, other)  # type: ignore[arg-type]
    # By chance, both trees can be the same one.
    assert found is False or (first == second and one == other)


def test_a_path_that_is_too_long_is_refused_even_if_its_hashes_match() -> None:
    leaf, extra = LEAVES[:2]
    assert not verify_inclusion(leaf, 0, 1, [extra], node_hash(extra, leaf))
    assert not verify_inclusion(leaf, 0, 1, [extra], node_hash(leaf, extra))
    start, new, before, extra = LEAVES[:4]
    old_root, new_root = node_hash(before, start), node_hash(before, node_hash(start, new))
    assert verify_consistency(3, 4, [start, new, before], old_root, new_root)
    old_root, new_root = node_hash(extra, old_root), node_hash(extra, new_root)
    assert not verify_consistency(3, 4, [start, new, before, extra], old_root, new_root)


def test_a_shrunken_tree_is_refused_even_if_its_hashes_match() -> None:
    first, second = LEAVES[:2]
    assert not verify_consistency(3, 2, [first, second], first, node_hash(first, second))


def test_growth_without_a_path_is_refused() -> None:
    for new in range(1, MANY + 1):
        for old in range(1, new):
            assert not verify_consistency(old, new, [], ROOTS[old], ROOTS[new])
            assert not verify_consistency(old, new, [], ROOTS[new], ROOTS[new])


def test_hashes_of_wrong_lengths_are_refused_even_if_their_bytes_match() -> None:
    first, second = LEAVES[:2]
    root = node_hash(first, second)
    assert verify_inclusion(first, 0, 2, [second], root)
    assert not verify_inclusion(first[:-1], 0, 2, [first[-1:] + second], root)
    assert not verify_consistency(1, 2, [first[-1:] + second], first[:-1], root)
    assert not verify_consistency(5, 5, [], b"", b"")


def test_huge_numbers_are_refused_at_once() -> None:
    huge = 1 << 10_000_000
    assert not verify_inclusion(LEAVES[0], huge, huge + 1, LEAVES, ROOTS[1])
    assert not verify_consistency(huge, huge + 1, LEAVES, ROOTS[1], ROOTS[2])


def test_only_the_empty_tree_is_consistent_with_every_tree() -> None:
    assert verify_consistency(0, 5, [], EMPTY_ROOT, ROOTS[5])
    assert verify_consistency(0, 0, [], EMPTY_ROOT, EMPTY_ROOT)
    assert not verify_consistency(0, 0, [], ROOTS[5], ROOTS[5])
    assert not verify_consistency(0, 5, [], ROOTS[5], ROOTS[5])
    assert not verify_consistency(0, 5, [ROOTS[5]], EMPTY_ROOT, ROOTS[5])


@pytest.mark.parametrize(("index", "size"), [(-1, 5), (5, 5), (0, 0), (0, MANY + 1), (0, -1)])
def test_a_path_for_a_missing_leaf_or_tree_is_refused(index: int, size: int) -> None:
    with pytest.raises(ValueError, match="no leaf"):
        inclusion_paths(LEAVES, [index], size)[0]


@pytest.mark.parametrize("old", [-1, MANY + 1])
def test_a_path_from_a_size_that_never_existed_is_refused(old: int) -> None:
    with pytest.raises(ValueError, match="never had"):
        consistency_path(LEAVES, old)


def test_a_large_tree_is_proved_without_recursion() -> None:
    leaves = [leaf_hash(number.to_bytes(4, "big")) for number in range(100_003)]
    frontier = frontier_of(leaves)
    path = inclusion_paths(leaves, [77_777])[0]
    assert verify_inclusion(leaves[77_777], 77_777, len(leaves), path, frontier.root())
    old_root = frontier_of(leaves[:65_537]).root()
    path = consistency_path(leaves, 65_537)
    assert verify_consistency(65_537, len(leaves), path, old_root, frontier.root())
