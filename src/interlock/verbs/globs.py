"""Path globs of claims: their canonical spelling, the paths they cover, and their overlap.

A glob is relative to the root of a repository. It is compared code point by code point, with case,
and hidden files are like any other:

    *               any run of characters within one name, also none
    ?               one character
    [abc] [a-z]     one character of these; a ] that is meant itself comes first
    [!abc]          one character but these
    **              as a whole segment: any number of names, also none

Where two readings are possible, the one that finds a conflict applies. A last segment without
wildcard and without extension may be a directory, and covers itself and everything beneath it:
`src` and `src/**` both cover `src` and `src/x/y`. A segment with an extension is a file, so that
`src/a.py` does not conflict with `**/*.md`; a directory of such a name is written `v1.2/`. A class
of one character is that character quoted (`[[]id]`), and no wildcard. Wildcards cover every
character that a file name can have, including those that no glob may spell.

No function reads the disk: two globs overlap if some path could match both, whether it exists or
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

# A glob is compiled to a row of elements over the characters of the whole path, slashes included:
# a str is that character, ranges are one character of a class, and an int is one of the marks.
# `**` becomes three elements, an optional group, so that it takes whole names only: before a name
# it is SKIP DEEP "/", at the end it is SKIP "/" DEEP.
Ranges: TypeAlias = tuple[tuple[int, int], ...]
Element: TypeAlias = str | Ranges | int
STAR: Final = 0  # any run of characters but "/"
DEEP: Final = 1  # any run of characters
SKIP: Final = 2  # go on with the next element, or with the one after the group of three

_BEFORE: Final[tuple[Element, ...]] = (SKIP, DEEP, "/")
_BENEATH: Final[tuple[Element, ...]] = (SKIP, "/", DEEP)
_SLASH: Final = (ord("/"), ord("/"))


class _Glob(NamedTuple):
    elements: tuple[Element, ...]
    prefix: str  # every path it covers starts with this
    plain: bool  # it covers the prefix, what is beneath it, and nothing else


def canonical(pattern: str) -> str:
    """The one spelling of a glob; applying it twice changes nothing.

    Raises Usage, with the pattern as member `path`, for what is not a glob within a repository.
    """
    if len(pattern) > LONGEST:
        raise _refusal(pattern, f"A path may have {LONGEST} characters. Claim a directory above.")
    # The control characters of C0, DEL and C1, and the surrogates.
    if re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", pattern):
        raise _refusal(pattern, "A path has no control characters and no half of a character.")
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
        raise _refusal(pattern, "Homes lie outside the repository. For a name with ~, write [~].")
    if pattern.endswith("/"):
        names.append("**")
    kept = [name for at, name in enumerate(names) if name != "**" or names[at - 1 : at] != ["**"]]
    for name in kept:
        if name != "**" and _elements(name, pattern) in ([".", "."], ["."]):
            raise _refusal(pattern, "Neither . nor .. is a name, quoted or not.")
    spelled = "/".join(kept)
    if len(spelled) > LONGEST:
        raise _refusal(pattern, f"With ** at its end the path has more than {LONGEST} characters.")
    return spelled


def covering(path: str) -> str | None:
    """The glob of one file, taken by its name as it is; None where no glob can spell it."""
    pattern = "".join(f"[{character}]" if character in "[*?" else character for character in path)
    if pattern.startswith("~"):
        pattern = f"[~]{pattern[1:]}"
    elif pattern.startswith("!"):
        pattern = f"?{pattern[1:]}"  # which no class can quote, and a claim does not begin with
    try:
        return canonical(pattern)
    except Usage:
        return None


def matches(pattern: str, path: str) -> bool:
    """Whether the glob covers this path, which is taken as it is: `[` in it is a plain character.

    Raises Usage where the glob is none, and where the path may lie outside the repository
    (absolute, or with `..`), so that a guard never takes such a path for a free one.
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
    """Whether some path matches both globs. Exact, and the same whichever comes first.

    Exact but for one corner: within wildcards, `.` and `..` count as names like others, so that
    globs such as `.?` and `?.` conflict although no file can have the name they share.

    Raises Usage where one is no glob; equal texts are not looked into.
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
    # A door has to be able to encode the refusal, and half a surrogate pair has no UTF-8.
    return Usage(message, path=pattern[:_SHOWN].encode("utf-8", "replace").decode())


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
                raise _refusal(pattern, "** is a whole segment, as in src/**/a. Within one, use *.")
            elements.append(STAR)
        elif character == "?":
            elements.append(_NAMES)
        elif character == "[":
            close = name.find("]", at + (2 if name.startswith("!", at) else 1))
            if close < 0:
                raise _refusal(pattern, "A [ is not closed in its segment. Write [[] to mean it.")
            elements.append(_class(name[at:close], pattern))
            at = close + 1
        else:
            elements.append(character)
    return elements


def _class(body: str, pattern: str) -> Element:
    """The element of a class, from the text between its brackets."""
    if body.startswith("^"):
        # Some tools negate with it and some do not, and a lock must not guess.
        raise _refusal(pattern, "Write [!…] for characters but these; ^ itself goes last.")
    listed: list[tuple[int, int]] = []
    at = negated = int(body.startswith("!"))
    while at < len(body):
        width = 3 if body[at + 1 : at + 2] == "-" and at + 2 < len(body) else 1
        low, high = ord(body[at]), ord(body[at + width - 1])
        if low > high:
            raise _refusal(pattern, f"The range {body[at : at + 3]} is backwards.")
        listed.append((low, high))
        at += width
    ranges = _others([*(listed if negated else _others(listed)), _SLASH])
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return chr(ranges[0][0])
    return ranges


def _others(ranges: Sequence[tuple[int, int]]) -> Ranges:
    """Every code point outside these ranges but NUL, in order."""
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
    """The positions in a row of elements, and sets of them: an int with one bit for each.

    Sets of positions move all at once, a machine word at a time; pairs of positions taken one by
    one would need a million steps for two globs of full length.
    """

    def __init__(self, elements: Sequence[Element]) -> None:
        marks = [0, 0, 0]
        slashes = 0
        edges = {0: 0}  # a code point, and the positions that begin or cease to take it there
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
        # Level n holds, for each edge, the positions taking anything up to 2**n edges on.
        self._levels = [list(accumulate((edges[edge] for edge in self._edges), xor))]

    def taking(self, element: str | Ranges) -> int:
        """The positions of one character that have one in common with this element."""
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
        """These positions, and those reached from them by steps over positions in `through`."""
        while True:
            # The carry of the addition runs from each position to the end of its run of steps.
            grown = found | (((found & through) + through) ^ through)
            skips = grown & self.skips
            grown |= skips << 1 | skips << 3
            if grown == found:
                return found
            found = grown


def _ranges(element: str | Ranges) -> Ranges:
    return ((ord(element), ord(element)),) if isinstance(element, str) else element


def _meet(row: Sequence[Element], other: Sequence[Element]) -> bool:
    """Whether some string fits both rows: a walk over the pairs of positions that one can reach.

    The string may hold an empty name, which no path has. That finds nothing false: only `*` and
    `**` take an empty name, and where both rows take it they take any other name as well.
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
