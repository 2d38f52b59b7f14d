"""The format of tokens: a prefix that scanners can find, 200 random bits, and a checksum.

Invitations, codes and refresh tokens have the same format with prefixes of their own. Interlock
stores only the SHA-256 of a token.
"""

import base64
import hashlib
import zlib
from functools import lru_cache

from interlock.errors import BadToken

PREFIX = "ilk_"
INVITATION = "ili_"
CODE = "ilc_"
REFRESH = "ilr_"
PREFIXES = (PREFIX, INVITATION, CODE, REFRESH)
SECRET_BYTES = 25


def compose(secret: bytes, prefix: str = PREFIX) -> str:
    """Return the token of `SECRET_BYTES` random bytes."""
    text = base64.b32encode(secret).decode().lower()
    return prefix + text + _checksum(text)


def code(secret: bytes, *, redirected: bool) -> str:
    """Return a code for a client. Its last bit says whether the client gave a redirect URI, which
    it must then give again. The hash of the code protects that bit."""
    return compose(secret[:-1] + bytes([secret[-1] & ~1 | redirected]), CODE)


def is_redirected(code: str) -> bool:
    """Whether the client of a code gave a redirect URI."""
    text = code[len(CODE) : -7].upper()
    try:
        return bool(base64.b32decode(text)[-1] & 1)
    except (ValueError, IndexError):
        return False


MAX_KEPT_LENGTH = 200


def hashed(token: str) -> str:
    """Return the SHA-256 of a token. Raises BadToken for a token of Interlock with a wrong
    checksum."""
    return _remembered(token) if len(token) <= MAX_KEPT_LENGTH else _hashed(token)


def _hashed(token: str) -> str:
    if token.startswith(PREFIXES):
        text, checksum = token[len(PREFIX) : -7], token[-7:]
        if checksum != _checksum(text):
            raise BadToken(
                "This token is mistyped or cut off: its checksum is wrong. Copy all of it, from "
                f"{token[: len(PREFIX)]} to the end."
            )
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


_remembered = lru_cache(maxsize=1024)(_hashed)


def token_id(token_hash: str) -> str:
    """The public id of a token, which grants nothing."""
    return "tok_" + token_hash[:12]


def _checksum(text: str) -> str:
    crc = zlib.crc32(text.encode("utf-8", "surrogatepass"))
    return base64.b32encode(crc.to_bytes(4, "big")).decode().lower().rstrip("=")
