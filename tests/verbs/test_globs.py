from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import cache
from itertools import product

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from interlock.errors import Usage
from interlock.verbs.globs import LONGEST, canonical, covering, matches, overlap

# --- spelling


@pytest.mark.parametrize(
    ("given_as", "spelled"),
    [
        ("src/a.py", "src/a.py"),
        ("./src/./a.py", "src/a.py"),
        ("src//a.py", "src/a.py"),
        ("src/.", "src"),
        ("src/", "src/**"),
        ("src/./", "src/**"),
        ("src//", "src/**"),
        ("**/", "**"),
        ("**/**/a/**/**/**", "**/a/**"),
        ("...", "..."),
        (".github/", ".github/**"),
        ("a/~b", "a/~b"),
        ("a b/ü/日本", "a b/ü/日本"),
        ("[**]", "[**]"),
        ("[]]", "[]]"),
        ("a]", "a]"),
    ],
)
def test_each_glob_has_one_canonical_spelling(given_as: str, spelled: str) -> None:
    assert canonical(given_as) == spelled
    assert canonical(spelled) == spelled


@pytest.mark.parametrize(
    "pattern",
    [
        *("", ".", "./", ".//.", "/", "/etc", "//a", "~", "~/a", "~otto/a", "./~a"),
        *("..", "../a", "a/..", "a/../b", "[.].", "a/[.]/b"),
        *("a\\b", "a\nb", "a\x00", "a\x1f", "a\x7f", "a\x85", "a\x9f", "\ud800", "a\udfffb"),
        *("[", "a[", "[]", "[!]", "[!", "[a/b]", "[b-a]", "[^a]"),
        *("a**b", "**a", "a**", "***", "a/b**/c"),
        *("a" * (LONGEST + 1), "a" * (LONGEST - 1) + "/"),
    ],
)
def test_an_invalid_glob_is_refused_with_the_pattern_and_advice(pattern: str) -> None:
    functions: list[Callable[[str], object]] = [
        canonical,
        lambda glob: matches(glob, "a"),
        lambda glob: overlap(glob, "a"),
    ]
    for function in functions:
        with pytest.raises(Usage) as refused:
            function(pattern)
        shown = refused.value.members["path"]
        assert len(shown) <= 200
        assert shown == pattern[:200].encode("utf-8", "replace").decode()
        assert refused.value.message.startswith(f"{shown[:80]!r} is not a path of a repository. ")
        assert refused.value.message.endswith((".", "…"))


def test_the_longest_glob_is_accepted() -> None:
    assert canonical("a" * LONGEST) == "a" * LONGEST


# --- matching


@pytest.mark.parametrize(
    ("pattern", "covered", "free"),
    [
        ("src", ["src", "src/a.py", "src/x/y"], ["src2", "sr", "a/src", "Src"]),
        ("src/**", ["src", "src/a.py", "src/x/y"], ["src2", "a/src/b"]),
        ("src/*", ["src/a.py", "src/.hidden"], ["src", "src/a/b.py"]),
        ("*", ["a", ".env"], ["a/b"]),
        ("**", ["a", "a/b/c", ".git/config"], []),
        ("**/a.py", ["a.py", "x/a.py", "x/y/a.py"], ["xa.py", "x/ba.py", "a.py/z"]),
        ("a/**/z", ["a/z", "a/b/z", "a/b/c/z", "a/z/y"], ["az", "a/bz", "z", "a"]),
        ("**/*.py", ["a.py", "x/y/a.py"], ["a.pyc", "a.py/x"]),
        ("a?c", ["abc", "a😀c", "a\nc", "a\udcffc"], ["ac", "a/c", "abbc"]),
        ("[a-c]x", ["ax", "bx", "cx"], ["dx", "x"]),
        ("[!b]x", ["ax", "cx", "éx"], ["bx", "x"]),
        ("a[+-9]b", ["a+b", "a0b"], ["a/b", "a:b"]),
        ("[]-]", ["]", "-"], ["["]),
        ("[a-]", ["a", "-"], ["b"]),
        ("app/[[]id]/page", ["app/[id]/page"], ["app/i/page"]),
        ("app/[[]id]", ["app/[id]", "app/[id]/page"], ["app/i"]),
        ("é", ["é"], ["e\u0301"]),
    ],
)
def test_a_glob_covers_these_and_not_those(
    pattern: str, covered: list[str], free: list[str]
) -> None:
    assert [path for path in covered if not matches(pattern, path)] == []
    assert [path for path in free if matches(pattern, path)] == []


def test_matching_normalises_the_spelling_of_a_path() -> None:
    assert matches("src/*.py", "./src//a.py")
    assert matches("src", "src/")


@pytest.mark.parametrize("path", ["/src/a", "src/../other", "..", "", ".", "/"])
def test_a_path_that_may_be_outside_the_repository_is_refused(path: str) -> None:
    with pytest.raises(Usage):
        matches("src/**", path)


# --- overlap


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("src/**", "src/a.py"),
        ("src", "src/a.py"),
        ("src", "src/**"),
        ("src", "*"),
        ("src/**", "s*"),
        ("src", "src/*/deep?.py"),
        ("src/", "./src"),
        ("**", "a"),
        ("doc/*.md", "doc/a*.md"),
        ("[a-c]x", "[!b]x"),
        ("a/**/z", "a/b*/z"),
        ("a/**/z", "a/z"),
        ("a/**", "**/z"),
        ("**/*.md", "src"),  # src may be a directory that contains notes
        ("v1.2/", "v1.2/notes.md"),
        (".github", ".github/x"),
        ("**/a/**/b", "**/b/**/a/*/?"),
        ("*a", "a*"),
        ("?", "[!a]"),
        ("[a-m]", "[m-z]"),
        ("[*]", "?"),
    ],
)
def test_these_globs_overlap(a: str, b: str) -> None:
    assert overlap(a, b)
    assert overlap(b, a)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("src", "src2"),
        ("src", "src2/*"),
        ("src/a.py", "src/b.py"),
        ("doc/a*.md", "doc/b*.md"),
        ("*.py", "*.md"),
        ("**/*.md", "src/a.py"),  # a name with an extension is a file
        ("src/*.py", "src/*/*.py"),
        ("a/**/z*", "a/b*/y?"),
        ("a/*", "ab/*"),
        ("[a-c]", "[d-f]"),
        ("[!a-z]", "[b-y]"),
        ("a[+-9]b*", "a/b*"),
        ("?", "??"),
        ("a?b/*", "a/b/*"),
        ("A", "a"),
        ("é", "e\u0301"),
    ],
)
def test_these_globs_do_not_overlap(a: str, b: str) -> None:
    assert not overlap(a, b)
    assert not overlap(b, a)


# --- comparison with oracles


def oracle(names: Sequence[str], path: Sequence[str]) -> bool:
    """Whether the segments match the names of a path, by recursion and the standard library."""
    if not names:
        return not path
    if names[0] == "**":
        return oracle(names[1:], path) or (bool(path) and oracle(names, path[1:]))
    if not path or not fnmatchcase(path[0], names[0]):
        return False
    if len(names) == 1 and not set("*?[") & set(names[0]) and "." not in names[0][1:]:
        return True
    return oracle(names[1:], path[1:])


def glob_or_none(text: str) -> str | None:
    try:
        return canonical(text)
    except Usage:
        return None


@pytest.mark.parametrize(
    ("path", "glob"),
    [
        ("src/a.py", "src/a.py"),
        ("src/[id].tsx", "src/[[]id].tsx"),
        ("a*b?", "a[*]b[?]"),
        ("~a", "[~]a"),
        ("!a", "?a"),
        ("b/!a", "b/!a"),
        ("a\\b", None),
        ("a\nb", None),
    ],
)
def test_covering_returns_the_glob_of_one_file(path: str, glob: str | None) -> None:
    assert covering(path) == glob
    if glob is not None:
        assert matches(glob, path)


letters = st.text("ab]![-.é😀\n^", min_size=1, max_size=3).filter(
    lambda name: name != "." and name != ".."
)
pieces = st.sampled_from(
    ["*", "?", "a", "b", "]", "-", ".", "é", "[ab]", "[!a]", "[]b]", "[!]-]", "[+-9a]", "[-→😀]"]
)
wild_names = st.lists(pieces, min_size=1, max_size=4).map("".join)
wild_globs = (
    st.lists(wild_names | st.just("**"), min_size=1, max_size=4)
    .map(lambda names: glob_or_none("/".join(names)) or "")
    .filter(bool)
)


@settings(max_examples=500)
@given(wild_globs, st.lists(letters, min_size=1, max_size=4))
@example("**/a/**/b", ["a", "a", "b", "b"])
def test_matching_agrees_with_an_independent_implementation(pattern: str, path: list[str]) -> None:
    assert matches(pattern, "/".join(path)) == oracle(pattern.split("/"), path)


@settings(max_examples=500)
@given(st.text("ab*?[]!-^./~é\n\\", max_size=12))
def test_a_text_is_refused_or_its_canonical_spelling_is_stable(text: str) -> None:
    spelled = glob_or_none(text)
    if spelled is not None:
        assert canonical(spelled) == spelled
        assert overlap(text, spelled)
        assert overlap(spelled, "**")


# The shortest name that matches two segments has at most as many characters as both have
# single-character elements together. Four suffice for segments of three elements with at least one
# star among them, and three for those without. The letter d stands for every character that no
# class mentions.
NAMES = [("".join(name),) for size in range(1, 5) for name in product("abcd", repeat=size)]
name_globs = (
    st.lists(
        st.sampled_from(["a", "b", "*", "?", "[ab]", "[bc]", "[!a]", "[!b-c]", "[a-c]"]),
        min_size=1,
        max_size=3,
    )
    .map("".join)
    .filter(lambda name: "**" not in name)
)

# Likewise the shortest path that matches two globs of two names each, with any number of **, has
# four names. No name needs more than two characters, the length of the longest segment here.
SHORT = ["a", "b", "aa", "ab", "ba", "bb"]
PATHS = [path for size in range(1, 5) for path in product(SHORT, repeat=size)]
path_globs = (
    st.lists(
        st.sampled_from(["**", "a", "b", "ab", "*", "a*", "*b", "?", "[!a]"]),
        min_size=1,
        max_size=5,
    )
    .filter(lambda names: sum(name != "**" for name in names) <= 2)
    .map(lambda names: canonical("/".join(names)))
)


@cache
def covered_names(pattern: str) -> frozenset[tuple[str, ...]]:
    return frozenset(name for name in NAMES if matches(pattern, "/".join(name)))


@cache
def covered_paths(pattern: str) -> frozenset[tuple[str, ...]]:
    return frozenset(path for path in PATHS if oracle(pattern.split("/"), path))


@settings(max_examples=300)
@given(name_globs, name_globs)
@example("aa*", "*bb")
def test_name_globs_overlap_exactly_when_some_name_matches_both(a: str, b: str) -> None:
    both = not covered_names(a).isdisjoint(covered_names(b))
    assert overlap(a, b) == overlap(b, a) == both


@settings(max_examples=300)
@given(path_globs, path_globs)
@example("a/b/**", "**/b/a")
@example("**/a/**/b", "**/b/**/a")
def test_globs_overlap_exactly_when_some_path_matches_both(a: str, b: str) -> None:
    both = not covered_paths(a).isdisjoint(covered_paths(b))
    assert overlap(a, b) == overlap(b, a) == both


@given(wild_globs, wild_globs)
def test_the_order_of_two_globs_does_not_matter(a: str, b: str) -> None:
    assert overlap(a, b) == overlap(b, a)


@given(wild_globs, st.lists(letters, min_size=1, max_size=4))
def test_a_glob_overlaps_the_name_of_every_path_it_covers(pattern: str, path: list[str]) -> None:
    assume("\n" not in "".join(path))
    quoted = "/".join(path).replace("[", "[[]")
    if matches(pattern, "/".join(path)):
        assert overlap(pattern, quoted)


# --- speed


def filled(piece: str, tail: str = "") -> str:
    return piece * ((LONGEST - len(tail)) // len(piece)) + tail


def spaced(start: int) -> str:
    return "".join(chr(start + 2 * at) for at in range(LONGEST))


# Backtracking would never finish a pair, and a walk over single pairs of positions would take most
# of a second.
@pytest.mark.parametrize(
    ("a", "b", "meet"),
    [
        (filled("*a", "b"), filled("a*", "c"), False),
        (filled("*a", "b"), filled("*a", "*b"), True),
        (filled("*a", "*"), filled("*b", "*"), True),
        (filled("?*", "x"), filled("[!x]*", "y"), False),
        (filled("**/a/", "b?"), filled("a/**/", "c*"), False),
        (filled("**/*/", "b"), filled("*/**/", "b"), True),
        (filled("*/", "b"), filled("?/", "b?"), False),
        (filled("[!x]", "x*"), spaced(0x4E00), False),
        (filled("[!x]", "*"), "*" + spaced(0x4E00)[1:], True),
    ],
)
def test_hostile_globs_of_full_length_are_compared_quickly(a: str, b: str, meet: bool) -> None:
    assert overlap(a, b) is meet
    assert overlap(b, a) is meet


def test_a_hostile_glob_is_matched_against_a_long_path() -> None:
    assert not matches(filled("*a", "b"), "a" * 4096)
    assert matches(filled("*a", "*"), "a" * 4096)
