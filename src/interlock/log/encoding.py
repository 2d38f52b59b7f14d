"""Canonical bytes: the one encoding that is hashed, signed, stored and compared.

The first call imports orjson, which imports half of the standard library. Commands that encode
nothing do not pay for that.
"""

import hashlib
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
    return hashlib.sha256(data).hexdigest()
