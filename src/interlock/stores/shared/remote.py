"""The log that nodes share: sealed entries on a database server that is reached by URL.

A remote keeps bytes in order and decides nothing. A holder of its password can add and remove
entries but forge none: an entry is sealed with the workspace's key, which is never sent there.
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
    """A fact as the remote keeps it. `keeps` are the digests of the blobs of its body; the seal
    covers them and the header. The header's commitment binds the body, which is stored apart."""

    seq: int
    hash: str
    header: bytes
    keeps: tuple[str, ...]
    mac: str
    salt: bytes | None
    body: bytes | None


class RemoteHead(NamedTuple):
    """The last entry there, and the engine's clock in milliseconds."""

    seq: int = 0
    hash: str = GENESIS
    now: int = 0


class Blob(NamedTuple):
    """Uploaded bytes that an entry keeps."""

    sha256: str
    upload: str
    size: int


class Appending(NamedTuple):
    """One batch: entries to be kept together or not at all, with their blobs and erasures."""

    entries: Sequence[Sealed] = ()
    blobs: Sequence[Blob] = ()
    erased: Sequence[int] = ()
    dropped: Sequence[str] = ()


class AnswerLost(Exception):
    """The batch was sent and no answer came: it is unknown whether it was kept."""


class Remote(Protocol):
    """One workspace on a server that several nodes use.

    One thread at a time takes the turn, appends and leaves. Any thread may call the other methods.
    A server that cannot be reached raises EngineUnavailable within about two seconds. Malformed
    data on the server is left out of the answers, without an exception. Nothing is retried.
    """

    name: str

    def begin(self, node: str) -> RemoteHead:
        """Take the turn, in the order of the requests. A node that dies or sleeps in its turn loses
        it after `SLOT_MS`. Safety does not depend on the turn."""

    def append(self, after: RemoteHead, batch: Appending) -> None:
        """Keep the batch durably if the last entry is still that of `after` (by seq and hash), and
        end the turn. Raises HeadMoved or AnswerLost."""

    def stay(self) -> None:
        """Renew the turn, in the middle of long work."""

    def leave(self, after: RemoteHead | None = None) -> bool:
        """End the turn; uploads made in it stay. Returns whether the log still ends at `after`:
        then the answers given in the turn are true."""

    def remote_head(self) -> RemoteHead:
        """The last entry, without a turn."""

    def read(self, after: int, limit: int) -> list[Sealed]:
        """The entries after a position in order, with their bodies: at most `limit`, and about
        `READ_BYTES`. `seq` and `hash` are the engine's, and may be wrong."""

    def headers(self, after: int, limit: int) -> list[Sealed]:
        """The same without bodies, and without the limit of bytes."""

    def rewrite_entries(self, after: RemoteHead, entries: Sequence[Sealed]) -> None:
        """Put entries back at their positions in the log, if the last entry is still that of
        `after`, and end the turn. Entries at or between those positions are set aside. Raises
        HeadMoved or AnswerLost."""

    def wait(self, after: int, seconds: float) -> None:
        """Return when there is an entry after a position, or the time is over."""

    def set_aside(self, entry: Sealed) -> None:
        """Move exactly this entry, which has no valid seal, out of the log to where `aside` counts
        it. Does nothing where the position has another entry by now."""

    def aside(self) -> int:
        """The number of entries that were set aside."""

    def discard_aside(self) -> int:
        """Delete the entries that were set aside. Returns their number."""

    def put_chunk(self, upload: str, number: int, data: bytes) -> None:
        """Keep one chunk of an upload durably. Called with the turn held."""

    def drop_upload(self, upload: str) -> None:
        """Delete the chunks of an upload. Called with the turn held."""

    def drop_stale(self, before: str) -> None:
        """Delete uploads that became no blob and whose names sort before this one. Called with the
        turn held."""

    def chunks(self, upload: str) -> Iterator[tuple[int, bytes]]:
        """The chunks of an upload with their numbers, in order."""

    def upload_of(self, sha256: str) -> str | None:
        """The upload with the bytes of a blob."""

    def beat(self, node: str, about: bytes) -> dict[str, bytes]:
        """Write the report of a node. Returns the reports of all nodes by their names."""

    def hazards(self) -> list[str]:
        """The settings by which the server may lose acknowledged writes, each with the remedy."""

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
    """Whether a holder of the workspace's key sealed the entry, and its hash is right."""
    hash = header_hash(entry.header)
    good = hmac.compare_digest(_mac(key, hash, entry.keeps).encode(), entry.mac.encode())
    return good and hash == entry.hash


def _mac(key: bytes, hash: str, keeps: tuple[str, ...]) -> str:
    """A MAC over the header's hash, whose length is fixed: else a digest might pass for a part of
    the header."""
    return hmac.digest(key, "\n".join((hash, *keeps)).encode(), hashlib.sha256).hex()
