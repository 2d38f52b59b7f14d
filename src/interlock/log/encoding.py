"""Canonical bytes: the one encoding that is hashed, signed, stored and compared.

orjson and hashlib are imported by the first call, because they take long to import, and many
commands encode and hash nothing.
"""

from typing import Any


def canonical(value: Any) -> bytes:
    """Compact JSON in UTF-8 with sorted keys. Values hold no floats, so bytes are reproducible."""
    import orjson

    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def decode(data: bytes | str) -> Any:
    """The value behind JSON bytes; `ValueError` for anything that is not strict JSON in UTF-8."""
    import orjson

    return orjson.loads(data)


def digest(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()
