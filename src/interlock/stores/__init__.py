"""Who keeps the order. An engine knows headers and bytes, never rules.

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
    """Another node was first, or the turn was lost: nothing was kept, and nothing will be. What
    was to be done may be decided again."""


class FarBehind(Exception):
    """The engine's log is further ahead of this node's than one turn should take over."""


class Head(NamedTuple):
    """The end of the log. `at` is the last fact's time; `raw` what the clock said then."""

    seq: int
    hash: str
    at: int
    raw: int


class Engine(Protocol):
    """The order of one workspace's log.

    What changes the log is called with the turn held; it is durable when the turn ends without
    an exception, and gone when it ends with one. Every node has the log in a SQLite file of its
    own, beside the state; readers are given the connection to look through, the turn's or one
    beside it. All raise `EngineUnavailable` where the engine
    cannot be reached; none retries.
    """

    def turn(self, *, wait: bool = True) -> AbstractContextManager[None]:
        """The exclusive right to append. Whoever dies holding it loses it. `BlockingIOError`
        where another has it and the caller will not wait."""

    def head(self, db: Connection) -> Head:
        """The last position."""

    def now(self, head: Head) -> int:
        """The log's time: never before `head.at`, whatever the clock does."""

    def note_clock(self, head: Head) -> None:
        """Remembers a clock that was set back, for a turn that appends nothing."""

    def append(self, entry: Entry) -> None:
        """Keeps one fact, with its body, after those before it."""

    def advance(self, head: Head) -> None:
        """Moves the head to the last appended fact."""

    def follow(self, db: Connection, after: int) -> Facts:
        """Sequence and header of the facts after a position, in order."""

    def body(self, db: Connection, seq: int) -> tuple[bytes, bytes] | None:
        """Salt and body of a fact, or None where it has none or was redacted."""

    def forget(self, seq: int) -> None:
        """Erases a body, and the blob it used if nothing else uses it."""

    def put_chunk(self, upload: str, number: int, data: bytes) -> None:
        """Keeps one chunk of an upload."""

    def drop_upload(self, upload: str) -> None:
        """Forgets an upload, unless it became a blob."""

    def drop_stale(self, before: str) -> None:
        """Forgets unused uploads whose names sort before this one: their senders died."""

    def join(self, upload: str, sha256: str) -> int:
        """Makes an upload a blob and gives its size, or refuses with `DigestMismatch`."""

    def use_blob(self, sha256: str, seq: int) -> None:
        """Notes that the body of `seq` points to a blob, which keeps it."""

    def blob(self, db: Connection, sha256: str, start: int, stop: int) -> bytes:
        """A range of a blob's bytes."""

    def age_s(self) -> float | None:
        """How long ago it was certain that what is read here is the end of the log; None where
        it never was."""

    def close(self) -> None:
        """Ends the connections that are the engine's own."""
