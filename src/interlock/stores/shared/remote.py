"""What nodes share: a log of sealed entries, kept by a database server that is reached by URL.

A remote keeps bytes in order and decides nothing. Whoever has only its password can add and
remove what it likes, and forge nothing: an entry is sealed under the workspace's key, which never
goes there.
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
    """A fact as it travels. `keeps` are the digests of the blobs its body points to; the seal
    covers them and the header. The body, stored apart, is bound by the header's commitment."""

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
    """One batch: entries to be kept together or not at all, and what goes with them."""

    entries: Sequence[Sealed] = ()
    blobs: Sequence[Blob] = ()
    erased: Sequence[int] = ()
    dropped: Sequence[str] = ()


class AnswerLost(Exception):
    """The batch was sent and no answer came: nobody can say yet whether it was kept."""


class Remote(Protocol):
    """One workspace on a server that several nodes use.

    One thread at a time takes the turn, appends and leaves; any thread may call the rest beside
    it. A server that cannot be reached is `EngineUnavailable`, within two seconds or so; what is
    there and makes no sense is never an exception but an answer without it. Nothing is retried.
    """

    name: str

    def begin(self, node: str) -> RemoteHead:
        """Takes the turn, in the order of asking; one who dies or sleeps in it loses it after
        `SLOT_MS`. Safety does not rest on it."""

    def append(self, after: RemoteHead, batch: Appending) -> None:
        """Keeps the batch durably if the last entry is still `after`'s (by seq and hash), and
        ends the turn. Raises `HeadMoved` or `AnswerLost`."""

    def stay(self) -> None:
        """Says that the turn is still in use, in the middle of what takes longer than usual."""

    def leave(self, after: RemoteHead | None = None) -> bool:
        """Ends the turn; what was uploaded in it stays. Given a position, says whether the log
        still ends there: what was answered in the turn is true then."""

    def remote_head(self) -> RemoteHead:
        """The last entry, without a turn."""

    def read(self, after: int, limit: int) -> list[Sealed]:
        """Entries after a position, in the order of their positions, with bodies where there are
        any: so many, or fewer where those come to `READ_BYTES`. `seq` and `hash` are what the
        engine says, which need not be so."""

    def headers(self, after: int, limit: int) -> list[Sealed]:
        """The same without bodies, of which there are so many whatever they come to."""

    def rewrite_entries(self, after: RemoteHead, entries: Sequence[Sealed]) -> None:
        """Puts entries back at their positions within the log, if the last entry is still
        `after`'s, and ends the turn. Whatever stood there, or between two positions, is set
        aside. Raises `HeadMoved` or `AnswerLost`."""

    def wait(self, after: int, seconds: float) -> None:
        """Returns when there is an entry after a position, or a while has passed."""

    def set_aside(self, entry: Sealed) -> None:
        """Takes exactly this entry, which is not one of ours, out of the way of the log, and
        keeps it where `aside` counts it. Does nothing where it is another by now."""

    def aside(self) -> int:
        """How many entries were set aside."""

    def discard_aside(self) -> int:
        """Deletes what was set aside, and gives how many entries that were."""

    def put_chunk(self, upload: str, number: int, data: bytes) -> None:
        """Keeps one chunk of an upload durably. Called with the turn held."""

    def drop_upload(self, upload: str) -> None:
        """Forgets the chunks of an upload. Called with the turn held."""

    def drop_stale(self, before: str) -> None:
        """Forgets uploads that became no blob and whose names sort before this one. Called with
        the turn held."""

    def chunks(self, upload: str) -> Iterator[tuple[int, bytes]]:
        """The chunks of an upload with their numbers, in order."""

    def upload_of(self, sha256: str) -> str | None:
        """Which upload holds a blob's bytes."""

    def beat(self, node: str, about: bytes) -> dict[str, bytes]:
        """Leaves word of a node, and gives what every node left there, by name."""

    def hazards(self) -> list[str]:
        """Settings by which the server may lose what it acknowledged, each with what to change."""

    def close(self) -> None:
        """Ends the connections. What is asked later fails."""


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
    """Whether somebody with the workspace's key sealed this, and it says what it is."""
    hash = header_hash(entry.header)
    good = hmac.compare_digest(_mac(key, hash, entry.keeps).encode(), entry.mac.encode())
    return good and hash == entry.hash


def _mac(key: bytes, hash: str, keeps: tuple[str, ...]) -> str:
    """Over the header's hash, whose length is fixed: else a digest might pass for a part of the
    header."""
    return hmac.digest(key, "\n".join((hash, *keeps)).encode(), hashlib.sha256).hex()
