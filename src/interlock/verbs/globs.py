"""Path globs of claims: their canonical spelling, the paths they cover, and their overlap.

A glob is relative to the root of a repository. It is compared code point by code point, with case,
and hidden files are like any other:

    *               any number of characters within one name, or none
    ?               one character
    [abc] [a-z]     one character of these; to include ], put it first
    [!abc]          one character except these
    **              as a whole segment: any number of names, or none

If a glob has two possible readings, the one that finds a conflict applies. A last segment without
wildcard and without extension may be a directory. It covers itself and everything beneath it, so
`src` and `src/**` both cover `src` and `src/x/y`. A segment with an extension is a file, so that
`src/a.py` does not conflict with `**/*.md`. A directory of such a name is written `v1.2/`. A class
of one character is that character quoted (`[[]id]`), not a wildcard. Wildcards cover every
character that a file name can have, including those that no glob may spell.

No function reads the disk. Two globs overlap if some path could match both, whether it exists or
not.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from operator import xor
from typing import Final, NamedTuple, TypeAlias

from interlock.errors import Usage

LONGEST: Final = 1024
_SHOWN: Final = 200

# A glob is compiled to a row of elements over the characters of the whole path, slashes included.
# A str is that character, ranges are one character of a class, and an int is one of the marks.
# `**` becomes three elements, an optional group, so that it takes whole names only. Before a name
# it is SKIP DEEP "/", at the end it is SKIP "/" DEEP.
Ranges: TypeAlias = tuple[tuple[int, int], ...]
Element: TypeAlias = str | Ranges | int
STAR: Final = 0  # any number of characters except "/"
DEEP: Final = 1  # any number of characters
SKIP: Final = 2  # continue with the next element, or with the one after the group of three

_BEFORE: Final[tuple[Element, ...]] = (SKIP, DEEP, "/")
_BENEATH: Final[tuple[Element, ...]] = (SKIP, "/", DEEP)
_SLASH: Final = (ord("/"), ord("/"))


class _Glob(NamedTuple):
    elements: tuple[Element, ...]
    prefix: str  # every path that the glob covers starts with this
    plain: bool  # the glob covers only the prefix and everything beneath it


def canonical(pattern: str) -> str:
    """Return the canonical spelling of a glob. The canonical spelling is its own canonical form.

    Raises Usage, with the pattern as member `path`, for an invalid glob, or one that leaves the
    repository.
    """
    if len(pattern) > LONGEST:
        length = f"It has {len(pattern)} characters, and at most {LONGEST} are allowed."
        raise _refusal(pattern, f"{length} Claim a directory above it.")
    # The control characters of C0, DEL and C1, and the surrogates.
    if re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", pattern):
        raise _refusal(pattern, "A path has no control characters and no lone surrogates.")
    if "\\" in pattern:
        raise _refusal(pattern, "Write / between names. To quote a wildcard, write [*], [?], [[].")
    if pattern.startswith("/"):
        raise _refusal(pattern, "Give the path from the repository's root: src/a.py, not /…")
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    if not names:
        raise _refusal(pattern, "Name a file or a directory. ** is the whole repository.")
    if ".." in names:
        raise _refusal(pattern, "Give the path from the repository's root, without .. in it.")
    if names[0].startswith("~"):
        raise _refusal(
            pattern,
            "A home directory is outside the repository. For a name that begins with ~, write [~].",
        )
    if pattern.endswith("/"):
        names.append("**")
    kept = [name for at, name in enumerate(names) if name != "**" or names[at - 1 : at] != ["**"]]
    for name in kept:
        if name != "**" and _elements(name, pattern) in ([".", "."], ["."]):
            raise _refusal(pattern, "A name cannot be . or .., quoted or not.")
    spelled = "/".join(kept)
    if len(spelled) > LONGEST:
        raise _refusal(pattern, f"With ** at its end the path has more than {LONGEST} characters.")
    return spelled


def covering(path: str) -> str | None:
    """The glob that covers only the file with this name, or None if no glob can spell it."""
    pattern = "".join(f"[{character}]" if character in "[*?" else character for character in path)
    if pattern.startswith("~"):
        pattern = f"[~]{pattern[1:]}"
    elif pattern.startswith("!"):
        pattern = f"?{pattern[1:]}"  # no class can quote a !, and no claim may begin with it
    try:
        return canonical(pattern)
    except Usage:
        return None


def matches(pattern: str, path: str) -> bool:
    """Whether the glob covers this path, which is a name and not a pattern.

    Raises Usage for an invalid glob. Raises it also for a path that may be outside the repository,
    because it is absolute or has `..`. So a guard never reports such a path as free.
    """
    glob = _parsed(pattern)
    path = _inside(path)
    if not path.startswith(glob.prefix):
        return False
    shared = len(glob.prefix)
    if glob.plain:
        return path[shared : shared + 1] in ("", "/")
    return _meet(path[shared:], glob.elements[shared:])


def overlap(a: str, b: str) -> bool:
    """Whether some path matches both globs. The result is exact and symmetric, with one exception.

    Wildcards match the names `.` and `..` like any other name. So globs such as `.?` and `?.`
    conflict, although no file can have the name that both match.

    Raises Usage for an invalid glob. Two equal texts are not checked.
    """
    if a == b:
        return True
    short, long = _parsed(a), _parsed(b)
    if len(short.prefix) > len(long.prefix):
        short, long = long, short
    if not long.prefix.startswith(short.prefix):
        return False
    shared = len(short.prefix)
    if short.plain:
        if len(long.prefix) > shared:
            return long.prefix[shared] == "/"
        if long.plain:
            return True
    return _meet(short.elements[shared:], long.elements[shared:])


def _refusal(pattern: str, message: str) -> Usage:
    # UTF-8 cannot encode a lone surrogate, so a ? takes its place.
    path = pattern[:_SHOWN].encode("utf-8", "replace").decode()
    return Usage(f"{path[:80]!r} is not a path of a repository. {message}", path=path)


def _inside(path: str) -> str:
    names = path.split("/")
    if path.startswith("/") or ".." in names:
        raise _refusal(path, "Give the path from the repository's root, without .. in it.")
    if "" not in names and "." not in names:
        return path
    names = [name for name in names if name not in ("", ".")]
    if not names:
        raise _refusal(path, "Name a file or a directory within the repository.")
    return "/".join(names)


@lru_cache(maxsize=1024)
def _parsed(pattern: str) -> _Glob:
    names = canonical(pattern).split("/")
    if names == ["**"]:
        return _Glob((DEEP,), "", False)
    elements: list[Element] = []
    for at, name in enumerate(names):
        last = at == len(names) - 1
        if name != "**":
            own = _elements(name, pattern)
            elements += own if last else [*own, "/"]
            # A literal name with an extension is a file's; any other may be a directory's.
            if last and all(isinstance(element, str) for element in own) and "." not in own[1:]:
                elements += _BENEATH
        elif not last:
            elements += _BEFORE
        else:
            elements.pop()  # the slash before it is part of the optional group
            elements += _BENEATH
    wild = next((at for at, element in enumerate(elements) if not isinstance(element, str)), None)
    prefix = "".join(str(element) for element in elements[:wild])
    return _Glob(tuple(elements), prefix, tuple(elements[wild:]) == _BENEATH)


def _elements(name: str, pattern: str) -> list[Element]:
    """The elements of one segment other than `**`."""
    elements: list[Element] = []
    at = 0
    while at < len(name):
        character = name[at]
        at += 1
        if character == "*":
            if elements and elements[-1] == STAR:
                raise _refusal(
                    pattern, "** must be a whole segment, as in src/**/a. Within a segment, use *."
                )
            elements.append(STAR)
        elif character == "?":
            elements.append(_NAMES)
        elif character == "[":
            close = name.find("]", at + (2 if name.startswith("!", at) else 1))
            if close < 0:
                raise _refusal(
                    pattern, "A [ has no ] in its segment. For the character [, write [[]."
                )
            elements.append(_class(name[at:close], pattern))
            at = close + 1
        else:
            elements.append(character)
    return elements


def _class(body: str, pattern: str) -> Element:
    """The element of a class, from the text between its brackets."""
    if body.startswith("^"):
        # Some tools negate with ^ and some do not, and a lock must not guess.
        raise _refusal(
            pattern, "To exclude characters, write [!…]. For the character ^, put it last."
        )
    listed: list[tuple[int, int]] = []
    at = negated = int(body.startswith("!"))
    while at < len(body):
        width = 3 if body[at + 1 : at + 2] == "-" and at + 2 < len(body) else 1
        low, high = ord(body[at]), ord(body[at + width - 1])
        if low > high:
            wrong = body[at : at + 3]
            raise _refusal(pattern, f"The range {wrong} is backwards. Write {wrong[::-1]}.")
        listed.append((low, high))
        at += width
    ranges = _others([*(listed if negated else _others(listed)), _SLASH])
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return chr(ranges[0][0])
    return ranges


def _others(ranges: Sequence[tuple[int, int]]) -> Ranges:
    """Every code point outside these ranges except NUL, in order."""
    gaps = []
    start = 1
    for low, high in sorted(ranges):
        if start < low:
            gaps.append((start, low - 1))
        start = max(start, high + 1)
    if start <= 0x10FFFF:
        gaps.append((start, 0x10FFFF))
    return tuple(gaps)


_NAMES: Final = _others([_SLASH])


class _Positions:
    """The positions in a row of elements. A set of positions is an int with one bit for each.

    An operation moves a whole set, a machine word at a time. One pair of positions at a time would
    take a million steps for two globs of full length.
    """

    def __init__(self, elements: Sequence[Element]) -> None:
        marks = [0, 0, 0]
        slashes = 0
        edges = {0: 0}  # a code point, and the positions that start or stop to accept it there
        bit = 1
        for element in elements:
            if isinstance(element, int):
                marks[element] |= bit
            else:
                if element == "/":
                    slashes |= bit
                for low, high in _ranges(element):
                    edges[low] = edges.get(low, 0) ^ bit
                    edges[high + 1] = edges.get(high + 1, 0) ^ bit
            bit <<= 1
        self.end = bit
        self.stars, self.deeps, self.skips = marks
        self.free = self.stars | self.deeps | self.skips
        self.all = bit - 1
        self.names = self.all & ~slashes
        self._edges = sorted(edges)
        # Level n has, for each edge, the positions that accept a character up to 2**n edges on.
        self._levels = [list(accumulate((edges[edge] for edge in self._edges), xor))]

    def taking(self, element: str | Ranges) -> int:
        """The positions whose element has a character in common with this element."""
        found = 0
        for low, high in _ranges(element):
            first, beyond = bisect_right(self._edges, low) - 1, bisect_right(self._edges, high)
            level = (beyond - first).bit_length() - 1
            while level >= len(self._levels):
                below, reach = self._levels[-1], 1 << (len(self._levels) - 1)
                self._levels.append([x | y for x, y in zip(below, below[reach:], strict=False)])
            masks = self._levels[level]
            found |= masks[first] | masks[beyond - (1 << level)]
        return found

    def spread(self, found: int, through: int) -> int:
        """These positions, and those that steps over positions in `through` reach from them."""
        while True:
            # The carry of the addition moves each position to the end of its sequence of steps.
            grown = found | (((found & through) + through) ^ through)
            skips = grown & self.skips
            grown |= skips << 1 | skips << 3
            if grown == found:
                return found
            found = grown


def _ranges(element: str | Ranges) -> Ranges:
    return ((ord(element), ord(element)),) if isinstance(element, str) else element


def _meet(row: Sequence[Element], other: Sequence[Element]) -> bool:
    """Whether some string matches both rows. This walks over the reachable pairs of positions.

    The string may contain an empty name, although no path does. The result is still right, because
    only `*` and `**` match an empty name. Where both rows match it, they also match any other name.
    """
    positions = _Positions(other)
    reached = [0] * (len(row) + 1)
    reached[0] = 1
    for at, element in enumerate(row):
        if element == DEEP:
            reached[at + 1] |= positions.spread(reached[at], positions.all)
        elif element == STAR:
            reached[at + 1] |= positions.spread(reached[at], positions.names)
        elif isinstance(element, int):
            reached[at + 1] |= reached[at]
            reached[at + 3] |= reached[at]
        elif reached[at]:
            here = positions.spread(reached[at], positions.free)
            staying = positions.deeps if element == "/" else positions.deeps | positions.stars
            reached[at + 1] |= here & staying | (here & positions.taking(element)) << 1
    return bool(positions.spread(reached[-1], positions.free) & positions.end)
