"""A node's copy of the log beside the engine's: what travels between the two, and where they part.

Both ought to be the same. Where the engine came back without its last entries, the copy has them
still; where somebody wrote into the engine who has only its password, the copy does not.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

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
    """Where a node's log and the engine's part: the last entry they share, and both ends."""

    common: int
    ours: int
    theirs: int

    @property
    def is_tail(self) -> bool:
        """Whether the engine merely lost what it had."""
        return self.theirs == self.common


def steady_ms() -> int:
    """Milliseconds on a clock that nobody sets, and that goes on while the machine sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1_000_000


class EngineClock:
    """The engine's clock, read between visits with the help of ours, whose pace is right and
    whose hour does not matter. Before the first visit it says nothing."""

    def __init__(self) -> None:
        self._ahead: int | None = None

    def note(self, now: int) -> None:
        self._ahead = now - steady_ms()

    def __call__(self) -> int:
        return 0 if self._ahead is None else steady_ms() + self._ahead


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
        # Where the engine's log ended when somebody looked last.
        self.end = 0
        self._engine_clock = EngineClock()
        super().__init__(file, clock or self._engine_clock)

    @property
    def clock(self) -> Callable[[], int]:
        """The time of all nodes, whatever this machine's clock says."""
        return self._clock

    def noted(self, remote_head: RemoteHead) -> RemoteHead:
        self._engine_clock.note(remote_head.now)
        self.end = remote_head.seq
        return remote_head

    # --- what travels

    def sealed(
        self, db: apsw.Connection, after: int, limit: int, most: int = 1 << 62
    ) -> list[Sealed]:
        """Our entries after a position: so many, or fewer where those come to so many bytes."""
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
        """The fact in an entry of ours; None for anything else, an entry elsewhere than it says
        among it, and one of another workspace that has the same key."""
        if not is_genuine(self._key, entry):
            return None
        fact = parse_header(entry.header)
        ours = fact.seq == entry.seq and self._workspace in (None, fact.workspace)
        return fact if ours else None

    def identify(self, db: apsw.Connection) -> None:
        """Learns which workspace this is, once there is anything of it here."""
        if self._workspace is None:
            row = db.execute("SELECT header FROM log WHERE seq = 1").fetchone()
            with suppress(ValueError):  # a damaged log, which others refuse
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
        """What the engine's last entry would be, if the log ended there."""
        row = db.execute("SELECT header FROM log WHERE seq = ?", (seq,)).fetchone()
        return (
            RemoteHead(seq, header_hash(row[0]), parse_header(row[0]).at) if row else RemoteHead()
        )

    # --- strangers

    def set_aside(self, entry: Sealed) -> None:
        """Takes what none of us wrote out of the log; not from one that is another's by now."""
        is_known(self.remote, self._key)
        self.remote.set_aside(entry)

    # --- where they part

    def loss(self, db: apsw.Connection) -> Divergence:
        """Compares this node's log with the engine's. Where the two share anything, what nobody
        of us sealed is taken out of the way first."""
        loss = self._compared(db)
        while loss.theirs > loss.common > 0 and self._cleared(loss.common):
            loss = self._compared(db)
        return loss

    def _cleared(self, after: int) -> bool:
        """Sets aside what follows a position in the engine; False where any of it is ours."""
        found = self.remote.read(after, AT_ONCE)
        if any(self.opened(entry) for entry in found):
            return False
        for entry in found:
            self.set_aside(entry)
        return bool(found)

    def _compared(self, db: apsw.Connection) -> Divergence:
        """From the end, back to the last entry that both have."""
        self.identify(db)
        remote_head = self.noted(self.remote.remote_head())
        head = self.head(db)
        common = min(head.seq, remote_head.seq)
        while common > 0:
            start = max(0, common - AT_ONCE)
            theirs, _ = self._headers(start, common)
            rows = db.execute(
                "SELECT seq, header FROM log WHERE seq > ? AND seq <= ? ORDER BY seq DESC",
                (start, common),
            )
            ours = {int(str(seq)): header for seq, header in rows}
            for seq, header in ours.items():
                if theirs.get(seq) == header:
                    return Divergence(seq, head.seq, remote_head.seq)
            common = start
        return Divergence(0, head.seq, remote_head.seq)

    def _headers(self, after: int, last: int) -> tuple[dict[int, bytes], set[int]]:
        """The engine's headers after a position, up to another, and where anything stands that is
        none of ours."""
        found: dict[int, bytes] = {}
        strange: set[int] = set()
        while after < last and (page := self.remote.headers(after, last - after)):
            for entry in page:
                if self.opened(entry):
                    found[entry.seq] = entry.header
                else:
                    strange.add(entry.seq)
            if page[-1].seq == after:
                break  # a stranger's, between this position and the next
            after = page[-1].seq
        return found, strange

    def unlike(self, db: apsw.Connection, last: int) -> list[int]:
        """Positions up to one where the engine has not what we have: somebody removed it there, or
        changed it. Nobody else has anything there, if both have the same at the last."""
        self.identify(db)
        found: list[int] = []
        for start in range(0, last, AT_ONCE):
            stop = min(last, start + AT_ONCE)
            theirs, strange = self._headers(start, stop)
            rows = db.execute(
                "SELECT seq, header FROM log WHERE seq > ? AND seq <= ? ORDER BY seq", (start, stop)
            )
            ours = {int(str(seq)): header for seq, header in rows}
            found += [s for s, header in ours.items() if theirs.get(s) != header or s in strange]
        return found

    def rewrite_entries(self, db: apsw.Connection, positions: list[int]) -> None:
        """Gives the engine back what it has not at those positions. One that was broken off may
        be begun again."""
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
        """What to tell whoever wants to write."""
        if loss.theirs <= loss.common and loss.ours <= loss.common:
            return changing()
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
        """Appends our entries after a position to the engine's log, which ends there. What was
        redacted since is erased there too. One that was broken off may be begun again."""
        erased = self._redacted(db, after)
        dropped = self._unkept(db, erased)
        while entries := self.sealed(db, after, AT_ONCE, READ_BYTES):
            blobs = self.blobs(db, after, entries[-1].seq)
            for blob in blobs:
                if self.remote.upload_of(blob.sha256) is None:
                    self._upload(db, blob)
            self.remote.begin(self.node)
            try:
                self.append_to(self.at(db, after), Appending(entries, blobs, erased, dropped))
            except HeadMoved:
                raise _broken_off() from None
            except EngineUnavailable as trouble:
                raise _broken_off() if trouble.members.get("outcome") else trouble from None
            after, erased, dropped = entries[-1].seq, [], []

    def append_to(self, after: RemoteHead, batch: Appending) -> None:
        """Has the engine keep a batch. After a lost answer we look at the position in question:
        what stands there says whether we were kept; while nothing does, nobody knows."""
        try:
            self.remote.append(after, batch)
        except AnswerLost:
            self._look_for(batch.entries[0])

    def _look_for(self, entry: Sealed) -> None:
        deadline = time.monotonic() + LOOK_FOR_S
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

    def _redacted(self, db: apsw.Connection, last: int) -> list[int]:
        """Those up to a position whose bodies the log says are erased."""
        rows = db.execute(
            'SELECT header FROM log WHERE instr(header, \'"kind":"body_redacted"\') ORDER BY seq'
        )
        facts = (parse_header(header) for (header,) in rows if isinstance(header, bytes))
        targets = [fact.outcome["target"] for fact in facts if fact.kind == "body_redacted"]
        return [seq for seq in targets if seq <= last]

    def _unkept(self, db: apsw.Connection, erased: list[int]) -> list[str]:
        """The blobs that the engine has for erased bodies and for nothing else."""
        found = [entry for seq in erased for entry in self.remote.read(seq - 1, 1)]
        return self.without_blob(db, {sha256 for entry in found for sha256 in entry.keeps})

    def _upload(self, db: apsw.Connection, blob: Blob) -> None:
        rows = db.execute("SELECT number, data FROM blob_chunks WHERE upload = ?", (blob.upload,))
        for number, data in rows:
            self.remote.put_chunk(blob.upload, number, data)

    # --- letting go

    def let_go_of(self, db: apsw.Connection, loss: Divergence) -> None:
        """Cuts our log back to what it shares with the engine's, and keeps the whole beside."""
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
        """Whether the engine's log says of what we have and it has not that it was given up."""
        first = self.at(db, loss.common + 1).hash
        after = loss.common
        while loss.ours > loss.common and (found := self.remote.read(after, AT_ONCE)):
            for entry in found:
                fact = self.opened(entry)
                said = fact.outcome.get("abandoned", {}) if fact is not None else {}
                if said.get("after") == loss.common and said.get("first") in (first, GENESIS):
                    return bool(said["seq"] >= loss.ours)
            if found[-1].seq == after:
                break  # a stranger's, between this position and the next
            after = found[-1].seq
        return False


def is_known(remote: Remote, key: bytes) -> bool:
    """Whether there is a log yet. What is sealed under another key is not ours to set aside, and
    is refused."""
    first = remote.read(0, 1)
    if first and not is_genuine(key, first[0]):
        raise Usage(
            "The engine has a workspace of that name, and it was sealed under another key. Take "
            "keys/checkpoint.key from the directory of one of its nodes, by a way that you trust, "
            "and start this one with --key FILE."
        )
    return bool(first)


def changing() -> EngineUnavailable:
    return EngineUnavailable("The engine's log changed while it was read. Try again.")


def _broken_off() -> EngineUnavailable:
    return EngineUnavailable(
        "The engine went away while it was given the log, or another node wrote there. Begin "
        "again: what the engine has is not given twice."
    )
