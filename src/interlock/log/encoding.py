"""Canonical bytes: the one encoding that is hashed, signed, stored and compared.

The first call imports orjson and hashlib: the imports are slow, and many commands do not need them.
"""

from typing import Any


def canonical(value: Any) -> bytes:
    """Return compact JSON in UTF-8 with sorted keys. Without floats, the bytes are reproducible."""
    import orjson

    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def decode(data: bytes | str) -> Any:
    """Return the value of strict JSON in UTF-8. Raise ValueError for any other input."""
    import orjson

    return orjson.loads(data)


def digest(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()
