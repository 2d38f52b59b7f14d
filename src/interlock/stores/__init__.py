"""The engine orders and stores the log. It handles headers and bytes, and knows no rules.

turn      exclusive right to append, held for one transaction
head      the last position: seq, hash, and the log's time
append    the decided facts, only if the head has not moved
follow    the facts after a position, in order
bodies    stored apart from headers, erasable
blobs     large bodies in chunks, joined only when the digest is right
"""

from collections.abc import Generator
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from apsw import Connection

from interlock.log.facts import Entry

Facts = Generator[tuple[int, bytes], None, None]


class HeadMoved(Exception):
    """Another node appended first, or this node lost the turn. Nothing was stored, nor will be. The
    caller may decide the writes again."""


class FarBehind(Exception):
    """The engine's log has more new entries than one turn should copy."""


class Head(NamedTuple):
    """The end of the log. `at` is the last fact's time, and `raw` the clock's reading then."""

    seq: int
    hash: str
    at: int
    raw: int


class Engine(Protocol):
    """The storage of one workspace's log.

    Methods that change the log require the turn. Their changes become durable when the turn ends
    without an exception, and an exception rolls them back. Each node has the log and the state in
    its own SQLite file, and readers pass their connection to that file. All methods raise
    EngineUnavailable if they cannot reach the engine. None retries.
    """

    def turn(self, *, wait: bool = True) -> AbstractContextManager[None]:
        """Take the exclusive right to append. A process that dies loses it. With `wait=False`,
        raise BlockingIOError if another process has it."""

    def head(self, db: Connection) -> Head:
        """The last position."""

    def now(self, head: Head) -> int:
        """The log's time: never before `head.at`, even after the clock was set back."""

    def note_clock(self, head: Head) -> None:
        """Record a clock that was set back, for a turn that appends nothing."""

    def append(self, entry: Entry) -> None:
        """Append one fact with its body."""

    def advance(self, head: Head) -> None:
        """Move the head to the last appended fact."""

    def follow(self, db: Connection, after: int) -> Facts:
        """Sequence and header of the facts after a position, in order."""

    def body(self, db: Connection, seq: int) -> tuple[bytes, bytes] | None:
        """Salt and body of a fact; None for a fact without a body or with a redacted one."""

    def forget(self, seq: int) -> None:
        """Delete a body, and its blob if no other body uses it."""

    def put_chunk(self, upload: str, number: int, data: bytes) -> None:
        """Store one chunk of an upload."""

    def drop_upload(self, upload: str) -> None:
        """Delete an upload, unless it became a blob."""

    def drop_stale(self, before: str) -> None:
        """Delete uploads that never became blobs and whose names sort before `before`. Their
        senders died."""

    def join(self, upload: str, sha256: str) -> int:
        """Make an upload a blob, and return its size. Raise DigestMismatch."""

    def use_blob(self, sha256: str, seq: int) -> None:
        """Record that the body of `seq` uses a blob, so that the blob is not deleted."""

    def blob(self, db: Connection, sha256: str, start: int, stop: int) -> bytes:
        """A range of a blob's bytes."""

    def age_s(self) -> float | None:
        """The seconds since the engine confirmed the end of the log; None if it never did."""

    def close(self) -> None:
        """Close the engine's own connections."""
