"""A node's copy of the log beside the engine's: transfer entries, and find where the two diverge.

Both should be the same. If the engine lost its last entries, the copy still has them. If a holder
of the engine's password wrote into the engine, the copy does not have those entries.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import apsw

from interlock.errors import EngineUnavailable, LogForked, Refusal, Usage, unknown_outcome
from interlock.log.facts import GENESIS, Header, header_hash, parse_header
from interlock.stores import HeadMoved
from interlock.stores.file import LogFile
from interlock.stores.shared.remote import (
    READ_BYTES,
    AnswerLost,
    Appending,
    Blob,
    Remote,
    RemoteHead,
    Sealed,
    is_genuine,
    seal,
)
from interlock.stores.sqlite import SqliteEngine

AT_ONCE = 500
LOOK_FOR_S = 3.0
POLL_INTERVAL_S = 0.1


class Divergence(NamedTuple):
    """The divergence of a node's log and the engine's: the last common entry, and both ends."""

    common: int
    ours: int
    theirs: int

    @property
    def is_tail(self) -> bool:
        """Whether the engine only lost its last entries."""
        return self.theirs == self.common


def steady_ms() -> int:
    """Milliseconds on a clock that is never set, and that goes on while the machine sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1_000_000


class Replica(SqliteEngine):
    """The log in a node's file, and the `Remote` that it is a copy of."""

    def __init__(
        self,
        file: LogFile,
        remote: Remote,
        key: bytes,
        node: str,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.remote = remote
        self.node = node
        self._key = key
        self._workspace: str | None = None
        # The last known end of the engine's log.
        self.end = 0
        # The engine's clock ahead of ours, whose pace is right and whose hour does not matter.
        self._ahead_ms: int | None = None
        super().__init__(file, clock or self._engine_ms)

    def _engine_ms(self) -> int:
        """The engine's clock; 0 before the engine was first reached."""
        return 0 if self._ahead_ms is None else steady_ms() + self._ahead_ms

    @property
    def clock(self) -> Callable[[], int]:
        """The clock of all nodes, independent of this machine's clock."""
        return self._clock

    def noted(self, remote_head: RemoteHead) -> RemoteHead:
        self._ahead_ms = remote_head.now - steady_ms()
        self.end = remote_head.seq
        return remote_head

    # --- transfer

    def sealed(
        self, db: apsw.Connection, after: int, limit: int, most: int = 1 << 62
    ) -> list[Sealed]:
        """Our entries after a position: at most `limit`, and about `most` bytes of bodies."""
        keeps: dict[int, tuple[str, ...]] = {}
        for seq, sha256 in db.execute(
            "SELECT seq, sha256 FROM blob_uses WHERE seq > ? AND seq <= ? ORDER BY seq, sha256",
            (after, after + limit),
        ):
            keeps[seq] = (*keeps.get(seq, ()), sha256)
        rows = db.execute(
            "SELECT l.seq, l.header, b.salt, b.body FROM log l LEFT JOIN bodies b USING (seq) "
            "WHERE l.seq > ? ORDER BY l.seq LIMIT ?",
            (after, limit),
        )
        entries: list[Sealed] = []
        for seq, header, salt, body in rows:
            entries.append(seal(self._key, seq, header, keeps.get(seq, ()), salt, body))
            most -= len(body or b"")
            if most <= 0:
                rows.close()
                break
        return entries

    def opened(self, entry: Sealed) -> Header | None:
        """The fact of a genuine entry. None for a forged entry, for one at another position than
        its own, and for one of another workspace with the same key."""
        if not is_genuine(self._key, entry):
            return None
        fact = parse_header(entry.header)
        ours = fact.seq == entry.seq and self._workspace in (None, fact.workspace)
        return fact if ours else None

    def read_workspace(self, db: apsw.Connection) -> None:
        """Read the id of the workspace from the first entry, once the file has it."""
        if self._workspace is None:
            row = db.execute("SELECT header FROM log WHERE seq = 1").fetchone()
            with suppress(ValueError):  # other checks refuse a damaged log
                self._workspace = parse_header(row[0]).workspace if row else None

    def blobs(self, db: apsw.Connection, after: int, last: int) -> list[Blob]:
        rows = db.execute(
            "SELECT DISTINCT b.sha256, b.upload, b.size FROM blobs b JOIN blob_uses u "
            "USING (sha256) WHERE u.seq > ? AND u.seq <= ?",
            (after, last),
        )
        return [Blob(*row) for row in rows]

    def without_blob(self, db: apsw.Connection, digests: set[str]) -> list[str]:
        held = "SELECT 1 FROM blobs WHERE sha256 = ?"
        return [d for d in sorted(digests) if not db.execute(held, (d,)).fetchone()]

    def epoch(self, db: apsw.Connection, seq: int) -> int:
        row = db.execute("SELECT header FROM log WHERE seq = ?", (seq,)).fetchone()
        return parse_header(row[0]).epoch if row else 0

    def at(self, db: apsw.Connection, seq: int) -> RemoteHead:
        """The head that the engine would have, if its log ended there."""
        row = db.execute("SELECT header FROM log WHERE seq = ?", (seq,)).fetchone()
        return (
            RemoteHead(seq, header_hash(row[0]), parse_header(row[0]).at) if row else RemoteHead()
        )

    # --- divergence

    def set_aside(self, entry: Sealed) -> None:
        """Move a foreign entry out of the engine's log, unless the log is another workspace's by
        now."""
        is_known(self.remote, self._key)
        self.remote.set_aside(entry)

    def loss(self, db: apsw.Connection) -> Divergence:
        """Compare this node's log with the engine's. Where the two share any entry, foreign entries
        that follow it are set aside first."""
        while True:
            loss = self._compared(db)
            if not loss.theirs > loss.common > 0:
                return loss
            found = self.remote.read(loss.common, AT_ONCE)
            if not found or any(self.opened(entry) for entry in found):
                return loss
            for entry in found:
                self.set_aside(entry)

    def _compared(self, db: apsw.Connection) -> Divergence:
        """Search from the end back to the last entry that both have."""
        self.read_workspace(db)
        remote_head = self.noted(self.remote.remote_head())
        head = self.head(db)
        common = min(head.seq, remote_head.seq)
        while common > 0:
            start = max(0, common - AT_ONCE)
            theirs, _ = self._headers(start, common)
            for seq, header in reversed(self._own_headers(db, start, common).items()):
                if theirs.get(seq) == header:
                    return Divergence(seq, head.seq, remote_head.seq)
            common = start
        return Divergence(0, head.seq, remote_head.seq)

    def unlike(self, db: apsw.Connection, last: int) -> list[int]:
        """The positions up to `last` at which the engine lacks our entry: a holder of its password
        removed or changed it. If both have the same last entry, no other node differs there."""
        self.read_workspace(db)
        found: list[int] = []
        for start in range(0, last, AT_ONCE):
            stop = min(last, start + AT_ONCE)
            theirs, strange = self._headers(start, stop)
            for seq, header in self._own_headers(db, start, stop).items():
                if theirs.get(seq) != header or seq in strange:
                    found.append(seq)
        return found

    def _own_headers(self, db: apsw.Connection, after: int, last: int) -> dict[int, Any]:
        rows = db.execute(
            "SELECT seq, header FROM log WHERE seq > ? AND seq <= ? ORDER BY seq", (after, last)
        )
        return {int(str(seq)): header for seq, header in rows}

    def _headers(self, after: int, last: int) -> tuple[dict[int, bytes], set[int]]:
        """The engine's genuine headers after a position, up to another, and the positions of
        foreign entries."""
        found: dict[int, bytes] = {}
        strange: set[int] = set()
        while after < last and (page := self.remote.headers(after, last - after)):
            for entry in page:
                if self.opened(entry):
                    found[entry.seq] = entry.header
                else:
                    strange.add(entry.seq)
            if page[-1].seq == after:
                break  # a foreign entry between this position and the next
            after = page[-1].seq
        return found, strange

    def rewrite_entries(self, db: apsw.Connection, positions: list[int]) -> None:
        """Put our entries back into the engine at those positions. A call that failed may be
        repeated."""
        for start in range(0, len(positions), AT_ONCE):
            some = positions[start : start + AT_ONCE]
            entries = [entry for seq in some for entry in self.sealed(db, seq - 1, 1)]
            remote_head = self.remote.begin(self.node)
            try:
                if self._compared(db).common < some[-1]:
                    raise HeadMoved  # it lost its tail meanwhile
                self.remote.rewrite_entries(remote_head, entries)
            except BaseException as trouble:
                self.remote.leave()
                if isinstance(trouble, HeadMoved | AnswerLost):
                    raise _broken_off() from None
                raise

    def forked(self, loss: Divergence) -> Refusal:
        """The refusal of a write while the logs diverge."""
        if loss.theirs <= loss.common and loss.ours <= loss.common:
            return EngineUnavailable("The engine's log changed while it was read. Try again.")
        first, last = loss.common + 1, loss.ours
        lost = f"#{first}" if first == last else f"#{first} to #{last}"
        if loss.is_tail:
            what = f"The engine has lost {lost}, which this node has"
            todo = "interlock repair shows them; interlock repair --restore puts them back"
        elif loss.ours <= loss.common:
            what = f"The engine's log has a gap or a false turn after #{loss.common}"
            todo = "interlock repair --restore puts back what is missing, on a node that has it"
        else:
            what = (
                f"The log forks after #{loss.common}: this node has {lost}, and the engine has "
                f"others up to #{loss.theirs}"
            )
            todo = "interlock repair shows them; interlock repair --give-up begins a new epoch"
        return LogForked(
            f"{what}. Nothing is written until that is settled. {todo}.",
            common_seq=loss.common,
            engine_seq=loss.theirs,
            node_seq=loss.ours,
        )

    # --- putting back

    def push_entries(self, db: apsw.Connection, after: int) -> None:
        """Append our entries after a position to the engine's log, which ends there. Bodies that
        were redacted since are erased there too. A call that failed may be repeated."""
        rows = db.execute(
            'SELECT header FROM log WHERE instr(header, \'"kind":"body_redacted"\') ORDER BY seq'
        )
        facts = (parse_header(header) for (header,) in rows if isinstance(header, bytes))
        targets = [fact.outcome["target"] for fact in facts if fact.kind == "body_redacted"]
        erased = [seq for seq in targets if seq <= after]
        # The blobs that the engine keeps for erased bodies only.
        found = [entry for seq in erased for entry in self.remote.read(seq - 1, 1)]
        dropped = self.without_blob(db, {sha256 for entry in found for sha256 in entry.keeps})
        while entries := self.sealed(db, after, AT_ONCE, READ_BYTES):
            blobs = self.blobs(db, after, entries[-1].seq)
            for blob in blobs:
                if self.remote.upload_of(blob.sha256) is None:
                    for number, data in db.execute(
                        "SELECT number, data FROM blob_chunks WHERE upload = ?", (blob.upload,)
                    ):
                        self.remote.put_chunk(blob.upload, number, data)
            self.remote.begin(self.node)
            try:
                self.append_to(self.at(db, after), Appending(entries, blobs, erased, dropped))
            except HeadMoved:
                raise _broken_off() from None
            except EngineUnavailable as trouble:
                raise _broken_off() if trouble.members.get("outcome") else trouble from None
            after, erased, dropped = entries[-1].seq, [], []

    def append_to(self, after: RemoteHead, batch: Appending) -> None:
        """Append a batch to the engine's log. If the answer is lost, the entry at the position in
        question shows whether the batch was kept. Raises HeadMoved where it was not, and an unknown
        outcome while there is no entry."""
        try:
            self.remote.append(after, batch)
            return
        except AnswerLost:
            entry, deadline = batch.entries[0], time.monotonic() + LOOK_FOR_S
        while time.monotonic() < deadline:
            try:
                found = self.remote.read(entry.seq - 1, 1)
            except EngineUnavailable:
                time.sleep(POLL_INTERVAL_S)
                continue
            if found and found[0].hash == entry.hash and is_genuine(self._key, found[0]):
                return
            if found and self.opened(found[0]) is not None:
                raise HeadMoved
            break
        raise unknown_outcome()

    # --- letting go

    def let_go_of(self, db: apsw.Connection, loss: Divergence) -> None:
        """Cut our log back to the entries that the engine shares, and keep a copy of the whole."""
        aside = f"abandoned-{self.epoch(db, loss.ours)}-{loss.ours}.db"
        path = os.path.join(self.file.directory, aside)
        if not os.path.exists(path):
            self.file.copy(self.file.path, path)
        for seq in range(loss.common + 1, loss.ours + 1):
            SqliteEngine.forget(self, seq)
        db.execute("DELETE FROM log WHERE seq > ?", (loss.common,))
        last = self.at(db, loss.common)
        db.execute(
            "UPDATE head SET seq = ?, hash = ?, at = ?, raw = ?",
            (last.seq, last.hash, last.now, last.now),
        )

    def is_given_up(self, db: apsw.Connection, loss: Divergence) -> bool:
        """Whether the engine's log says that the entries which only we have were given up."""
        first = self.at(db, loss.common + 1).hash
        after = loss.common
        while loss.ours > loss.common and (found := self.remote.read(after, AT_ONCE)):
            for entry in found:
                fact = self.opened(entry)
                said = fact.outcome.get("abandoned", {}) if fact is not None else {}
                if said.get("after") == loss.common and said.get("first") in (first, GENESIS):
                    return bool(said["seq"] >= loss.ours)
            if found[-1].seq == after:
                break  # a foreign entry between this position and the next
            after = found[-1].seq
        return False


def is_known(remote: Remote, key: bytes) -> bool:
    """Whether the engine has a log of this workspace. Raises Usage for one that is sealed under
    another key."""
    first = remote.read(0, 1)
    if first and not is_genuine(key, first[0]):
        raise Usage(
            "The engine has a workspace of that name, and it was sealed under another key. Take "
            "keys/checkpoint.key from the directory of one of its nodes, by a way that you trust, "
            "and start this one with --key FILE."
        )
    return bool(first)


def _broken_off() -> EngineUnavailable:
    return EngineUnavailable(
        "The engine went away while it was given the log, or another node wrote there. Begin "
        "again: what the engine has is not given twice."
    )
