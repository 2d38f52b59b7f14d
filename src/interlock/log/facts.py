"""Facts, the entries of the log. The header is hashed and chained, and the body is stored
separately.

The header has the outcome, and folding reads nothing else. A salted commitment in the header binds
the body (the text of a message). So the body can be deleted later without a change of the chain,
and a reader of the header cannot guess the body.
"""

import hashlib
from typing import Any, NamedTuple

from interlock.log.encoding import canonical, decode
from interlock.log.merkle import leaf_hash

GENESIS = "0" * 64


class Header(NamedTuple):
    """One decided fact. `prev` is the hash of the header before. If the caller gave an idempotency
    key, `act` has the key and the salted digest of the request."""

    workspace: str
    epoch: int
    seq: int
    at: int
    kind: str
    sender: str
    outcome: dict[str, Any]
    prev: str
    body: str | None = None
    token: str | None = None
    session: str | None = None
    act: dict[str, str] | None = None

    def encode(self) -> bytes:
        return canonical({k: v for k, v in zip(self._fields, self, strict=True) if v is not None})


class Entry(NamedTuple):
    """A fact as engines store it: bytes that they do not interpret."""

    seq: int
    header: bytes
    salt: bytes | None
    body: bytes | None


_TYPES: dict[str, type] = {
    **dict.fromkeys(("workspace", "kind", "sender", "prev", "body", "token", "session"), str),
    **dict.fromkeys(("epoch", "seq", "at"), int),
    **dict.fromkeys(("outcome", "act"), dict),
}
_REQUIRED = {"workspace", "epoch", "seq", "at", "kind", "sender", "outcome", "prev"}


def parse_header(data: bytes) -> Header:
    """Return the header that the bytes encode. Raise ValueError if they encode none."""
    members = decode(data)
    if not isinstance(members, dict) or not _TYPES.keys() >= members.keys() >= _REQUIRED:
        raise ValueError("not a header: members are missing or unknown")
    if any(type(value) is not _TYPES[name] for name, value in members.items()):
        raise ValueError("not a header: a member has the wrong type")
    return Header(**members)


def header_hash(header: bytes) -> str:
    """Return a header's leaf in the Merkle tree, so that chain and tree bind the same bytes."""
    return leaf_hash(header).hex()


def commitment(salt: bytes, body: bytes) -> str:
    return hashlib.sha256(salt + body).hexdigest()
