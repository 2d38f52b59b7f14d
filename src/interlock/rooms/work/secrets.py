"""The catalogue of secret shapes, and the masking of secrets in stored text. Issuers give their
secrets a recognisable shape. A password in a sentence has none, so it is not found. The scrub finds
the same shapes (`interlock.scrub.scanner`).

The masker works on a stream of bytes. It buffers little, each rule looks ahead a bounded number of
bytes, and no input makes it slow.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from interlock.rooms.identity.token_format import PREFIX

MASK: Final = b"[masked]"
# No rule looks farther ahead than this.
HELD: Final = 2048
MAX_KEY_LENGTH: Final = 1 << 16


class Rule(NamedTuple):
    """A shape of secrets that begins with one of the bytes `first`. The secret is the pattern's
    group, or else the whole match, and the characters of `more` that follow."""

    first: bytes
    pattern: re.Pattern[bytes]
    more: re.Pattern[bytes]


def _rule(first: bytes, pattern: bytes, more: bytes = rb"[A-Za-z0-9_-]") -> Rule:
    return Rule(first, re.compile(pattern), re.compile(more + b"*"))


_ALONE = rb"(?<![A-Za-z0-9_-])"
_ASSIGNED = rb"\\?[\"']?[ \t]{0,8}[:=][ \t]{0,8}\\?[\"']?"
_BASE64 = rb"[A-Za-z0-9+/=]"

# Each shape begins with a match of _SIGNS. None crosses the end of a line.
RULES: Final = (
    _rule(PREFIX[:1].encode(), re.escape(PREFIX.encode()) + rb"[a-z2-7]{40,}"),
    _rule(b"g", rb"gh[pousr]_[A-Za-z0-9]{36,}"),
    _rule(b"g", rb"github_pat_[A-Za-z0-9_]{22,}"),
    _rule(b"g", rb"gl(?:pat|ptt|rt|dt|cbt|ft|soat)-[A-Za-z0-9_-]{20,}"),
    _rule(b"A", rb"(?<![A-Za-z0-9])A(?:KIA|SIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _rule(
        b"sS",
        rb"(?i:secret[_-]?(?:access[_-]?)?key)" + _ASSIGNED + rb"([A-Za-z0-9+/]{40,})",
        _BASE64,
    ),
    _rule(b"sS", rb"(?i:session[_-]?token)" + _ASSIGNED + rb"([A-Za-z0-9+/]{80,}={0,2})", _BASE64),
    _rule(b"sr", _ALONE + rb"[sr]k-(?=[A-Za-z_-]{0,200}[0-9])[A-Za-z0-9_-]{20,}"),
    _rule(b"sr", _ALONE + rb"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    _rule(b"x", _ALONE + rb"xox[abceoprs]-(?=[A-Za-z-]{0,100}[0-9])[A-Za-z0-9-]{10,}"),
    _rule(b"x", rb"xapp-[0-9]-[A-Za-z0-9-]{20,}"),
    _rule(b"A", rb"AIza[A-Za-z0-9_-]{35,}"),
    _rule(b"n", _ALONE + rb"npm_[A-Za-z0-9]{36,}"),
    _rule(b"p", _ALONE + rb"pypi-AgEI[A-Za-z0-9_-]{40,}"),
    _rule(b"e", _ALONE + rb"eyJ[A-Za-z0-9_-]{8,1024}\.eyJ[A-Za-z0-9_-]{8,}", rb"[A-Za-z0-9_.-]"),
    _rule(
        b"aA",
        rb"(?i:authorization)" + _ASSIGNED + rb"(?i:bearer|basic|token) {1,8}([^\s\"'\\,;]{8,})",
        rb"[^\s\"'\\,;]",
    ),
    _rule(
        b"bB",
        rb"(?i:bearer) {1,8}((?=[A-Za-z._~+/=-]{0,200}[0-9])[A-Za-z0-9._~+/=-]{16,})",
        rb"[A-Za-z0-9._~+/=-]",
    ),
    _rule(b":", rb"://[^\s/:@\"'<>]{0,256}:([^\s/@\"'<>]{1,1024})(?=@)"),
)
_BY_FIRST: Final = {
    byte: [rule for rule in RULES if byte in rule.first] for rule in RULES for byte in rule.first
}
_SIGNS = re.compile(
    re.escape(PREFIX.encode())
    + rb"|gh[pousr]_|github_pat_|gl[a-z]{2,4}-|AKIA|ASIA|sk[-_]|rk[-_]|xox[abceoprs]-|xapp-|AIza"
    rb"|npm_|pypi-|eyJ|://|-----BEGIN|Bearer|bearer|BEARER|Authorization|authorization"
    rb"|AUTHORIZATION|Secret|secret|SECRET|Session|session|SESSION"
)
_KEY = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_ENDS = re.compile(
    rb"[A-Za-z0-9+/=\\ \t\r>|\"',]*-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
)
# A key within a string literal has \n for its line ends.
_KEY_TEXT = re.compile(rb"[A-Za-z0-9+/=\\]*")
_KEY_HEADER = re.compile(rb"(?:Proc-Type|DEK-Info|Version|Comment|Hash):")


class Piece(NamedTuple):
    """A number of input bytes, and the bytes that are stored in their place."""

    taken: int
    stored: bytes


class Masker:
    """Masks one stream. It buffers at most `HELD` bytes."""

    def __init__(self) -> None:
        self.count = 0
        self._held = b""
        self._before = b""  # the byte before the held ones, for rules that look back
        self._more: re.Pattern[bytes] | None = None  # a secret continues while this matches
        self._key_left = 0  # the number of bytes of a private key that may still follow

    def feed(self, data: bytes, *, last: bool = False) -> list[Piece]:
        """Return the pieces that these bytes complete. The pieces cover all input, in its order."""
        text = self._before + self._held + data
        at = len(self._before)
        # After this position a secret may have begun whose shape is not complete yet.
        sure = len(text) if last else max(text.rfind(b"\n") + 1, len(text) - HELD)
        pieces: list[Piece] = []
        while at < len(text):
            if self._more is not None:
                end = _end(self._more, text, at)
                found = [Piece(end - at, b"")]
                if end < len(text):
                    self._more = None
            elif self._key_left > 0:
                found = self._key(text, at, sure, last=last)
            else:
                found = self._plain(text, at, sure, last=last)
            if not found:
                break
            pieces += found
            at += sum(piece.taken for piece in found)
        self._held, self._before = text[at:], text[max(0, at - 1) : at]
        return pieces

    def _plain(self, text: bytes, at: int, sure: int, *, last: bool) -> list[Piece]:
        """The text up to the next secret, and its mask."""
        look = at
        while (sign := _SIGNS.search(text, look)) and sign.start() < sure:
            look = sign.start()
            if key := _KEY.match(text, look):
                self._key_left = MAX_KEY_LENGTH
                return self._masked(text, at, look, key.end())
            for rule in _BY_FIRST.get(text[look], ()):
                if secret := rule.pattern.match(text, look):
                    start = secret.start(rule.pattern.groups)
                    stop = _end(rule.more, text, secret.end())
                    self._more = None if last or stop < len(text) else rule.more
                    return self._masked(text, at, start, stop)
            look += 1
        return [Piece(sure - at, text[at:sure])] if sure > at else []

    def _masked(self, text: bytes, at: int, start: int, end: int) -> list[Piece]:
        self.count += 1
        before = [Piece(start - at, text[at:start])] if start > at else []
        return [*before, Piece(end - start, MASK)]

    def _key(self, text: bytes, at: int, sure: int, *, last: bool) -> list[Piece]:
        """Mask a line of a private key, or a part of it. Any other text ends the masking, so that a
        mere mention of a key does not hide the text after it."""
        newline = text.find(b"\n", at)
        stop = newline + 1 or len(text)
        if ends := _KEY_ENDS.match(text, at, stop):
            self._key_left = 0
            return [Piece(ends.end() - at, b"")]
        end = at
        if newline < 0 and not last:
            if len(text) - at < HELD:
                return []
            end = _end(_KEY_TEXT, text, at)
        line = text[at:stop].strip(b" \t\r\n>|+\"',\\")
        if end == at and (_KEY_TEXT.fullmatch(line) or _KEY_HEADER.match(line)):
            end = stop
        if end > at:
            self._key_left -= end - at
            return [Piece(end - at, b"")]
        self._key_left = 0
        return self._plain(text, at, sure, last=last)


def _end(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def masked(data: bytes) -> tuple[bytes, int]:
    """The masked data, and the number of secrets in it."""
    masker = Masker()
    pieces = masker.feed(data, last=True)
    return b"".join(piece.stored for piece in pieces), masker.count


def masked_text(text: str) -> tuple[str, int]:
    stored, count = masked(text.encode("utf-8", "surrogateescape"))
    return stored.decode("utf-8", "replace"), count


def masked_words(words: Sequence[str]) -> tuple[list[str], int]:
    """The masked words of a command, as text that JSON can hold, and the number of secrets."""
    done = [masked_text(word) for word in words]
    return [text for text, _ in done], sum(count for _, count in done)
