"""The log that nodes share: sealed entries on a database server.

A remote stores bytes in order and decides nothing. A holder of its password can add and remove
entries but forge none. Nodes seal each entry with the workspace's key, which they never send to the
server.
"""

import hashlib
import hmac
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from interlock.log.facts import GENESIS, header_hash
from interlock.stores import HeadMoved as HeadMoved

SLOT_MS = 250
READ_BYTES = 4 << 20


class Sealed(NamedTuple):
    """A fact as the remote stores it. `keeps` are the digests of its body's blobs. The seal covers
    them and the header. The header's commitment binds the body, which is stored separately."""

    seq: int
    hash: str
    header: bytes
    keeps: tuple[str, ...]
    mac: str
    salt: bytes | None
    body: bytes | None


class RemoteHead(NamedTuple):
    """The last entry on the engine, and the engine's clock in milliseconds."""

    seq: int = 0
    hash: str = GENESIS
    now: int = 0


class Blob(NamedTuple):
    """Uploaded bytes that an entry's body uses."""

    sha256: str
    upload: str
    size: int


class Appending(NamedTuple):
    """One batch: entries to store together or not at all, their blobs, the positions of bodies to
    delete, and the digests of blobs to delete."""

    entries: Sequence[Sealed] = ()
    blobs: Sequence[Blob] = ()
    erased: Sequence[int] = ()
    dropped: Sequence[str] = ()


class AnswerLost(Exception):
    """A node sent a batch and got no answer. It is unknown whether the engine stored the batch."""


class Remote(Protocol):
    """One workspace on a server that several nodes use.

    One thread at a time takes the turn, appends and leaves. Any thread may call the other methods.
    If the server does not answer, methods raise EngineUnavailable within about two seconds. They
    omit malformed data on the server from their answers, without an exception. They never retry.
    """

    name: str

    def begin(self, node: str) -> RemoteHead:
        """Take the turn, in the order of the requests. A node that dies or is suspended in its turn
        loses it after a timeout. Safety does not depend on the turn."""

    def append(self, after: RemoteHead, batch: Appending) -> None:
        """Store the batch durably if the last entry is still that of `after` (by seq and hash), and
        end the turn. Raise HeadMoved or AnswerLost."""

    def stay(self) -> None:
        """Renew the turn during long work."""

    def leave(self, after: RemoteHead | None = None) -> bool:
        """End the turn, but keep its uploads. Return whether the log still ends at `after`: only
        then are the answers of the turn current."""

    def remote_head(self) -> RemoteHead:
        """The last entry, without a turn."""

    def read(self, after: int, limit: int) -> list[Sealed]:
        """The entries after a position in order, with their bodies: at most `limit`, and about
        `READ_BYTES`. `seq` and `hash` are the engine's, and may be wrong."""

    def headers(self, after: int, limit: int) -> list[Sealed]:
        """The same entries without bodies, and without the limit of bytes."""

    def rewrite_entries(self, after: RemoteHead, entries: Sequence[Sealed]) -> None:
        """Restore entries at their positions in the log, if the last entry is still that of
        `after`, and end the turn. Set aside other entries at or between those positions. Raise
        HeadMoved or AnswerLost."""

    def wait(self, after: int, seconds: float) -> None:
        """Return when there is an entry after a position, or within `seconds` without one."""

    def set_aside(self, entry: Sealed) -> None:
        """Move exactly this entry, which has no valid seal, out of the log. `aside` counts it from
        then on. Do nothing if the position has another entry by now."""

    def aside(self) -> int:
        """The number of entries that were set aside."""

    def discard_aside(self) -> int:
        """Delete the entries that were set aside. Return their number."""

    def put_chunk(self, upload: str, number: int, data: bytes) -> None:
        """Store one chunk of an upload durably. Requires the turn."""

    def drop_upload(self, upload: str) -> None:
        """Delete the chunks of an upload. Requires the turn."""

    def drop_stale(self, before: str) -> None:
        """Delete uploads that never became blobs and whose names sort before `before`. Requires the
        turn."""

    def chunks(self, upload: str) -> Iterator[tuple[int, bytes]]:
        """The chunks of an upload with their numbers, in order."""

    def upload_of(self, sha256: str) -> str | None:
        """The upload with the bytes of a blob."""

    def beat(self, node: str, about: bytes) -> dict[str, bytes]:
        """Write the report of a node. Return the reports of all nodes by their names."""

    def hazards(self) -> list[str]:
        """Return the settings with which the server may lose acknowledged writes. Each text is the
        hazard, ". ", and the remedy, which `node/doctor.py` reads."""

    def close(self) -> None:
        """Close the connections. Later calls fail."""


def seal(
    key: bytes,
    seq: int,
    header: bytes,
    keeps: tuple[str, ...] = (),
    salt: bytes | None = None,
    body: bytes | None = None,
) -> Sealed:
    hash = header_hash(header)
    return Sealed(seq, hash, header, keeps, _mac(key, hash, keeps), salt, body)


def is_genuine(key: bytes, entry: Sealed) -> bool:
    """Return whether a holder of the workspace's key sealed the entry, and its hash is right."""
    hash = header_hash(entry.header)
    good = hmac.compare_digest(_mac(key, hash, entry.keeps).encode(), entry.mac.encode())
    return good and hash == entry.hash


def _mac(key: bytes, hash: str, keeps: tuple[str, ...]) -> str:
    """Return a MAC over the digests and the header's hash. The hash has a fixed length, so that no
    digest can pass for a part of the header."""
    return hmac.digest(key, "\n".join((hash, *keeps)).encode(), hashlib.sha256).hex()
