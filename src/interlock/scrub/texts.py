"""Find secrets, private words and private paths, with their lines, in any text of a repository:
files, messages and names. Files are read in pieces, so that they can have any size."""

import codecs
import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, NamedTuple

from interlock.scrub.rules import Rules
from interlock.scrub.scanner import ScannedLine, Scanner

# The number of bytes that are read again with the next piece, for text across the boundary.
OVERLAP: Final = 8192
# Some detectors take quadratic time in the length of a line.
_ROW: Final = 2048
_ROW_OVERLAP: Final = 256
_MARK: Final = 200
_MIN_NULS: Final = 0.05
_SEPARATOR: Final = r"[\\/]+"
# An underscore ends a word: `falcon_key` contains the word falcon.
_NO_LETTER_BEFORE: Final = r"(?<![^\W_])"
_NO_LETTER_AFTER: Final = r"(?![^\W_])"


class Hit(NamedTuple):
    check: str
    what: str
    mark: str  # distinguishes hits of one kind in a file; the same in all versions of the file
    line: int


class HitFinder:
    """Finds secrets, and the private words and paths of the rules."""

    def __init__(self, rules: Rules, scanner: Scanner) -> None:
        self._scanner = scanner
        self._private = (
            ("word", "The private word", rules.words, _any_of(map(_word, rules.words))),
            ("path", "The private path", rules.paths, _any_of(map(_path, rules.paths))),
        )

    def hits(self, pieces: Iterable[bytes], *, settings: bool = False) -> Iterator[Hit]:
        """Yield the hits in the order of the pieces. A hit near the boundary of two pieces may
        occur twice. In a file of `settings`, values are unquoted."""
        for first, data in _sections(iter(pieces)):
            for text in _decoded(data):
                yield from self._private_hits(text, first)
                rows = [
                    ScannedLine(line, content[start : start + _ROW])
                    for line, content in enumerate(text.split("\n"), first)
                    for start in range(0, max(1, len(content) - _ROW_OVERLAP), _ROW - _ROW_OVERLAP)
                ]
                for secret in self._scanner.secrets(rows, settings=settings):
                    yield Hit("secret", secret.described, secret.value, secret.line)

    def _private_hits(self, text: str, first: int) -> Iterator[Hit]:
        for check, title, spelled, pattern in self._private:
            for match in pattern.finditer(text) if pattern else ():
                which = spelled[int(match.lastgroup[1:])] if match.lastgroup else ""
                start = text.rfind("\n", 0, match.start()) + 1
                end = text.find("\n", match.start())
                mark = text[start : end if end >= 0 else None].strip()[:_MARK]
                line = first + text.count("\n", 0, match.start())
                yield Hit(check, f"{title} {which!r}", mark, line)


def _any_of(patterns: Iterable[str]) -> re.Pattern[str] | None:
    named = [f"(?P<n{number}>{pattern})" for number, pattern in enumerate(patterns)]
    return re.compile("|".join(named), re.IGNORECASE) if named else None


def _word(word: str) -> str:
    """Return a pattern for the word in both normal forms of Unicode, because file systems differ. A
    space matches any blanks."""
    forms = {unicodedata.normalize(form, word.strip("*")) for form in ("NFC", "NFD")}
    bodies = (r"\s+".join(map(re.escape, form.split())) for form in sorted(forms))
    before = "" if word.startswith("*") else _NO_LETTER_BEFORE
    after = "" if word.endswith("*") else _NO_LETTER_AFTER
    return f"{before}(?:{'|'.join(bodies)}){after}"


def _path(path: str) -> str:
    """Return a pattern for the path with either slash, single or doubled as in quoted text."""
    names = re.split(_SEPARATOR, path)
    after = "" if names[-1] == "" else _NO_LETTER_AFTER
    return _SEPARATOR.join(map(re.escape, names)) + after


def _sections(pieces: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the pieces with the number of their first line. Each starts with the end of the
    previous piece. Text in UTF-16 with a byte order mark becomes UTF-8."""
    first = next(pieces, b"")
    pieces = chain((first,), pieces)
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
        pieces = (decoder.decode(piece).encode("utf-8", "replace") for piece in pieces)
    line, kept = 1, b""
    for piece in pieces:
        data = kept + piece
        yield line, data
        tail = max(0, len(data) - OVERLAP)
        cut = data.find(b"\n", tail) + 1 or tail
        line += data.count(b"\n", 0, cut)
        kept = data[cut:]


def _decoded(data: bytes) -> Iterator[str]:
    """Yield the data decoded as UTF-8; for text that is not valid UTF-8, also as Latin-1; and as
    UTF-16 if that is likely."""
    text = data.decode("utf-8", "replace")
    yield text
    if b"\0" not in data:
        if "\ufffd" in text:
            yield data.decode("latin-1")
        return
    # In UTF-16, the NUL byte of each Latin letter is on the same side. If a section starts in the
    # middle of a letter, the other byte order fits.
    high, low = data[::2].count(0), data[1::2].count(0)
    if max(high, low) >= len(data) * _MIN_NULS and min(high, low) * 10 <= max(high, low):
        yield data.decode("utf-16-be" if high > low else "utf-16-le", "replace")
