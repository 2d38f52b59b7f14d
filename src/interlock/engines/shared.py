"""The engine of several nodes: each has the whole log in a file of its own, and a server that all
of them reach keeps the order.

The algorithm is the embedded one. The turn levels the file with the server, what is decided is
written to the file's transaction, and before that commits, the server keeps it if nobody was
first. Whatever a crash leaves of that, the next turn levels again.
"""

import hmac
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import apsw

from interlock.contracts.facts import Header, commitment, header_hash, parse_header
from interlock.engines import FarBehind, Head, HeadMoved
from interlock.engines.file import LogFile
from interlock.engines.remote import (
    AnswerLost,
    Appending,
    Blob,
    Glimpse,
    Remote,
    Sealed,
    is_genuine,
    seal,
)
from interlock.engines.sqlite import SqliteEngine
from interlock.errors import (
    DigestMismatch,
    EngineUnavailable,
    LogForked,
    Refusal,
    Usage,
    unknown_outcome,
)

AT_ONCE = 500
ROUNDS = 8
LOOK_FOR_S = 3.0
LOOK_EVERY_S = 0.1


class Loss(NamedTuple):
    """Where a node's log and the engine's part: the last entry they share, and both ends."""

    common: int
    ours: int
    theirs: int

    @property
    def is_tail(self) -> bool:
        """Whether the engine merely lost what it had."""
        return self.theirs == self.common


class EngineClock:
    """The engine's clock, read between visits with the help of ours, whose pace is right and
    whose hour does not matter. Before the first visit it says nothing."""

    def __init__(self) -> None:
        self._ahead: int | None = None

    def note(self, now: int) -> None:
        self._ahead = now - time.monotonic_ns() // 1_000_000

    def __call__(self) -> int:
        return 0 if self._ahead is None else time.monotonic_ns() // 1_000_000 + self._ahead


class SharedEngine(SqliteEngine):
    """The `Engine` on a `LogFile` that follows a `Remote`."""

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
        self._engine_clock = EngineClock()
        self._confirmed: float | None = None
        self._heard = (0, 0, "")
        self._known = False
        self._erased: set[int] = set()
        self._dropped: set[str] = set()
        super().__init__(file, clock or self._engine_clock)

    @property
    def clock(self) -> Callable[[], int]:
        """The time of all nodes, whatever this machine's clock says."""
        return self._clock

    # --- the turn

    @contextmanager
    def turn(self, *, wait: bool = True, give_up: bool = False) -> Iterator[None]:
        """Raises `HeadMoved` where another node was first: nothing was kept, and the same may be
        tried again. `give_up` lets go of what the engine does not have."""
        kept = False
        try:
            with self.file.writing(wait=wait) as db:
                glimpse = self._noted(self.remote.begin(self.node))
                try:
                    self._erased.clear()
                    self._dropped.clear()
                    if give_up:
                        self.let_go_of(db, self.loss(db))
                        self._heard = (0, 0, "")
                    self._level(db, glimpse, far=give_up)
                    base = self.head(db)
                    yield
                    kept = self._publish(db, base)
                finally:
                    if not kept:
                        self.remote.leave()
        except Refusal as trouble:
            if not kept or trouble.members.get("outcome"):
                raise
            raise unknown_outcome() from None

    def heard_of(self) -> int:
        """How far any node said that it was."""
        return self._heard[0]

    def is_behind_others(self) -> bool:
        with self.file.reading() as db:
            return self._others_had_more(db, self.head(db))

    @contextmanager
    def arriving(self) -> Iterator[bool]:
        """Takes over what others appended, without the turn; True while there is more of it."""
        with self.file.writing() as db:
            before = self.head(db)
            glimpse = self._noted(self.remote.glimpse())
            more = glimpse.seq - before.seq > AT_ONCE
            if more:
                self._check_key()
                if not self._take_over(db):
                    raise self._forked(db)
            else:
                try:
                    self._level(db, glimpse)
                except (HeadMoved, FarBehind):
                    more = True
                    if self.head(db) == before:
                        raise _changing() from None
            yield more

    def _noted(self, glimpse: Glimpse) -> Glimpse:
        self._engine_clock.note(glimpse.now)
        return glimpse

    def _level(self, db: apsw.Connection, glimpse: Glimpse, *, far: bool = False) -> None:
        """Brings the file up to the engine's last entry, however far that is or only so far, or
        says why that cannot be."""
        self._check_key()
        for _ in range(ROUNDS + (glimpse.seq if far else 0)):
            head = self.head(db)
            if (glimpse.seq, glimpse.hash) == (head.seq, head.hash):
                if not self._others_had_more(db, head):
                    self._confirmed = time.monotonic()
                    return
                # It may have been appended since we looked, and lost is what is not there now.
                glimpse = self._noted(self.remote.glimpse())
                if glimpse.seq <= head.seq:
                    raise self._lost(head)
            if glimpse.seq - head.seq > AT_ONCE and not far:
                raise FarBehind
            if not self._take_over(db):
                self._follow_suit(db)
            glimpse = self._noted(self.remote.glimpse())
        raise HeadMoved

    def _others_had_more(self, db: apsw.Connection, head: Head) -> bool:
        seq, epoch, _ = self._heard
        return seq > head.seq and epoch == self._epoch(db, head.seq)

    def _lost(self, head: Head) -> LogForked:
        """The engine has what we have, and another node said that it had more."""
        seq, _, node = self._heard
        return LogForked(
            f"The engine ends at #{head.seq}, and the node {node} has had #{seq}: the engine has "
            f"lost #{head.seq + 1} to #{seq}. Nothing is written until that is settled: run "
            f"interlock repair on {node}, which has them.",
            engine_seq=head.seq,
            node_seq=seq,
        )

    def _epoch(self, db: apsw.Connection, seq: int) -> int:
        row = db.execute("SELECT header FROM log WHERE seq = ?", (seq,)).fetchone()
        return parse_header(row[0]).epoch if row else 0

    def _check_key(self) -> None:
        self._known = self._known or is_known(self.remote, self._key)

    # --- taking over

    def _take_over(self, db: apsw.Connection) -> bool:
        """Writes down what others appended after our head; what nobody of us sealed is set aside.
        False where there was nothing."""
        head = before = self.head(db)
        found = self.remote.read(head.seq, AT_ONCE)
        for place, entry in enumerate(found):
            fact = self._opened(entry)
            if fact is None:
                self._set_aside(entry, found[place + 1 :])
                continue
            if fact.seq != head.seq + 1 or fact.prev != head.hash:
                return self._follow_suit(db)
            self._write_down(db, entry, fact)
            head = Head(fact.seq, entry.hash, fact.at, head.raw)
        if head != before:
            super().advance(head)
        return bool(found)

    def _set_aside(self, entry: Sealed, later: list[Sealed]) -> None:
        """Takes what none of us wrote out of the log. Where ours follow it, it was not added but
        changed, and stays as it is."""
        if any(self._opened(other) for other in later):
            raise LogForked(
                f"Entry {entry.seq} was changed in the engine after it was written. Nodes that "
                "have it go on; for a new one, interlock migrate the copy of such a node to an "
                "empty engine.",
                engine_seq=entry.seq,
            )
        self.remote.set_aside(entry)

    def _opened(self, entry: Sealed) -> Header | None:
        """The fact in an entry of ours; None for anything else, an entry elsewhere than it says
        among it."""
        if not is_genuine(self._key, entry):
            return None
        fact = parse_header(entry.header)
        return fact if fact.seq == entry.seq else None

    def _write_down(self, db: apsw.Connection, entry: Sealed, fact: Header) -> None:
        db.execute("INSERT INTO log VALUES (?, ?)", (entry.seq, entry.header))
        salt, body = entry.salt, entry.body
        if salt is None or body is None or fact.body != commitment(salt, body):
            return  # redacted since; where it was not, the audit finds it missing
        db.execute("INSERT INTO bodies VALUES (?, ?, ?)", (entry.seq, salt, body))
        for sha256 in entry.keeps:
            if self._fetch(db, sha256):
                super().use_blob(sha256, entry.seq)

    def _fetch(self, db: apsw.Connection, sha256: str) -> bool:
        if db.execute("SELECT 1 FROM blobs WHERE sha256 = ?", (sha256,)).fetchone():
            return True
        upload = self.remote.upload_of(sha256)
        if upload is None:
            return False
        try:
            self._download(upload)
            super().join(upload, sha256)
        except DigestMismatch:  # whoever has only the engine's password changed the bytes
            super().drop_upload(upload)
            return False
        return True

    def _download(self, upload: str) -> None:
        for number, data in self.remote.chunks(upload):
            super().put_chunk(upload, number, data)

    def _follow_suit(self, db: apsw.Connection) -> bool:
        """Our log is not the engine's. Where its own says that what we have was given up, ours is
        kept beside, and we go on with the engine's; else that is for a person to settle."""
        loss = self.loss(db)
        if loss.ours == loss.common == loss.theirs:
            return True  # what was in the way is set aside
        for entry in self.remote.read(loss.common, AT_ONCE) if loss.ours > loss.common else ():
            fact = self._opened(entry)
            if fact is not None and fact.kind == "epoch_started":
                if fact.outcome.get("abandoned", {}).get("seq", 0) < loss.ours:
                    break
                self.let_go_of(db, loss)
                return True
        raise self._forked(db)

    # --- giving

    def _publish(self, db: apsw.Connection, base: Head) -> bool:
        """Has the engine keep what this turn wrote. True where it did, which ended the turn."""
        entries = self._sealed(db, base.seq, 1 << 30)
        if not entries:
            return False
        batch = Appending(entries, self._blobs(db, base.seq, entries[-1].seq), *self._gone(db))
        try:
            self.remote.append(Glimpse(base.seq, base.hash), batch)
        except AnswerLost:
            self._look_for(entries[0])
        self._known = True
        self._confirmed = time.monotonic()
        return True

    def _sealed(self, db: apsw.Connection, after: int, limit: int) -> list[Sealed]:
        keeps: dict[int, tuple[str, ...]] = {}
        for seq, sha256 in db.execute(
            "SELECT seq, sha256 FROM blob_uses WHERE seq > ? ORDER BY seq, sha256", (after,)
        ):
            keeps[seq] = (*keeps.get(seq, ()), sha256)
        rows = db.execute(
            "SELECT l.seq, l.header, b.salt, b.body FROM log l LEFT JOIN bodies b USING (seq) "
            "WHERE l.seq > ? ORDER BY l.seq LIMIT ?",
            (after, limit),
        )
        return [
            seal(self._key, seq, header, keeps.get(seq, ()), salt, body)
            for seq, header, salt, body in rows
        ]

    def _blobs(self, db: apsw.Connection, after: int, last: int) -> list[Blob]:
        rows = db.execute(
            "SELECT DISTINCT b.sha256, b.upload, b.size FROM blobs b JOIN blob_uses u "
            "USING (sha256) WHERE u.seq > ? AND u.seq <= ?",
            (after, last),
        )
        return [Blob(*row) for row in rows]

    def _gone(self, db: apsw.Connection) -> tuple[list[int], list[str]]:
        """What was forgotten in this turn and not by an act that was undone."""
        erased = [seq for seq in sorted(self._erased) if self.body(db, seq) is None]
        dropped = self._without_blob(db, self._dropped)
        return erased, dropped

    def _look_for(self, entry: Sealed) -> None:
        """After a lost answer: looks at the position in question. What stands there says whether
        we were kept; while nothing does, nobody knows."""
        deadline = time.monotonic() + LOOK_FOR_S
        while time.monotonic() < deadline:
            try:
                found = self.remote.read(entry.seq - 1, 1)
            except EngineUnavailable:
                time.sleep(LOOK_EVERY_S)
                continue
            if found and found[0].hash == entry.hash and is_genuine(self._key, found[0]):
                return
            if found and self._opened(found[0]) is not None:
                raise HeadMoved
            break
        raise unknown_outcome()

    # --- trouble

    def _forked(self, db: apsw.Connection) -> Refusal:
        loss = self.loss(db)
        if loss.theirs <= loss.common and loss.ours <= loss.common:
            return _changing()
        lost = f"#{loss.common + 1} to #{loss.ours}"
        if loss.is_tail:
            self._confirmed = time.monotonic()  # it has nothing that we have not
            what = f"The engine has lost {lost}, which this node has"
            todo = "interlock repair shows them; interlock repair --restore puts them back"
        elif loss.ours <= loss.common:
            what = f"The engine's log has a gap or a false turn after #{loss.common}"
            todo = "See interlock audit verify on every node, and keep the engine as it is"
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

    def loss(self, db: apsw.Connection) -> Loss:
        """Compares this node's log with the engine's. Where the two share anything, what nobody
        of us sealed is taken out of the way first."""
        loss = self._compared(db)
        while loss.theirs > loss.common > 0 and self._cleared(loss.common):
            loss = self._compared(db)
        return loss

    def _cleared(self, after: int) -> bool:
        """Sets aside what follows a position in the engine; False where any of it is ours."""
        found = self.remote.read(after, AT_ONCE)
        if any(self._opened(entry) for entry in found):
            return False
        for entry in found:
            self.remote.set_aside(entry)
        return bool(found)

    def _compared(self, db: apsw.Connection) -> Loss:
        """From the end, back to the last entry that both have."""
        glimpse = self._noted(self.remote.glimpse())
        head = self.head(db)
        common = min(head.seq, glimpse.seq)
        while common > 0:
            start = max(0, common - AT_ONCE)
            theirs = {entry.seq: entry.header for entry in self.remote.read(start, common - start)}
            rows = db.execute(
                "SELECT seq, header FROM log WHERE seq > ? AND seq <= ? ORDER BY seq DESC",
                (start, common),
            )
            ours = {int(str(seq)): header for seq, header in rows}
            for seq, header in ours.items():
                if theirs.get(seq) == header:
                    return Loss(seq, head.seq, glimpse.seq)
            common = start
        return Loss(0, head.seq, glimpse.seq)

    def put_back(self, db: apsw.Connection) -> Loss:
        """Gives the engine what it lost, from this node's copy: the same entries under the same
        seals. Only where it has nothing else in their place."""
        loss = self.loss(db)
        if not loss.is_tail:
            raise self._forked(db)
        self.pour(db, loss.common)
        return loss

    def pour(self, db: apsw.Connection, after: int) -> None:
        """Appends our entries after a position to the engine's log, which ends there. What was
        redacted since is erased there too. One that was broken off may be begun again."""
        erased = self._redacted(db, after)
        dropped = self._unkept(db, erased)
        while entries := self._sealed(db, after, AT_ONCE):
            self.remote.begin(self.node)
            blobs = self._blobs(db, after, entries[-1].seq)
            for blob in blobs:
                if self.remote.upload_of(blob.sha256) is None:
                    self._upload(db, blob)
            try:
                self.remote.append(self._at(db, after), Appending(entries, blobs, erased, dropped))
            except AnswerLost:
                raise EngineUnavailable(
                    "The engine went away while it was given the log. Begin again when it is "
                    "back: what it has is not given twice."
                ) from None
            after, erased, dropped = entries[-1].seq, [], []

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
        return self._without_blob(db, {sha256 for entry in found for sha256 in entry.keeps})

    def _without_blob(self, db: apsw.Connection, digests: set[str]) -> list[str]:
        held = "SELECT 1 FROM blobs WHERE sha256 = ?"
        return [d for d in sorted(digests) if not db.execute(held, (d,)).fetchone()]

    def _upload(self, db: apsw.Connection, blob: Blob) -> None:
        rows = db.execute("SELECT number, data FROM blob_chunks WHERE upload = ?", (blob.upload,))
        for number, data in rows:
            self.remote.put_chunk(blob.upload, number, data)

    def _at(self, db: apsw.Connection, seq: int) -> Glimpse:
        row = db.execute("SELECT header FROM log WHERE seq = ?", (seq,)).fetchone()
        return Glimpse(seq, header_hash(row[0]), parse_header(row[0]).at) if row else Glimpse()

    def let_go_of(self, db: apsw.Connection, loss: Loss) -> None:
        """Cuts our log back to what it shares with the engine's, and keeps the whole beside."""
        aside = f"abandoned-{self._epoch(db, loss.ours)}-{loss.ours}.db"
        path = os.path.join(self.file.directory, aside)
        if not os.path.exists(path):
            self.file.copy(self.file.path, path)
        for seq in range(loss.common + 1, loss.ours + 1):
            super().forget(seq)
        db.execute("DELETE FROM log WHERE seq > ?", (loss.common,))
        last = self._at(db, loss.common)
        db.execute(
            "UPDATE head SET seq = ?, hash = ?, at = ?, raw = ?",
            (last.seq, last.hash, last.now, last.now),
        )

    # --- bodies and blobs

    def forget(self, seq: int) -> None:
        used = self.file.writer.execute("SELECT sha256 FROM blob_uses WHERE seq = ?", (seq,))
        self._dropped.update(str(sha256) for (sha256,) in used.fetchall())
        self._erased.add(seq)
        super().forget(seq)

    def put_chunk(self, upload: str, number: int, data: bytes) -> None:
        self.check_chunk(upload, data)
        self.remote.put_chunk(upload, number, data)

    def drop_upload(self, upload: str) -> None:
        if not self.is_blob(upload):
            self.remote.drop_upload(upload)

    def drop_stale(self, before: str) -> None:
        self.remote.drop_stale(before)

    def join(self, upload: str, sha256: str) -> int:
        self._download(upload)
        size = super().join(upload, sha256)
        if not self.is_blob(upload):
            self.remote.drop_upload(upload)
        return size

    # --- the other nodes

    def age_s(self) -> float | None:
        """How long ago the engine confirmed that we have what it has; None if it never did."""
        return None if self._confirmed is None else time.monotonic() - self._confirmed

    def beat(self, about: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Tells the others how far we are, and gives what they said, each by the node's name."""
        with self.file.reading() as db:
            head = self.head(db)
            epoch = self._epoch(db, head.seq)
        said = {"seq": head.seq, "epoch": epoch, "at": self._clock()} | about
        text = json.dumps(said).encode()
        found = self.remote.beat(self.node, self._signature(self.node, text) + text)
        nodes = {name: self._heard_of(name, data) for name, data in found.items()}
        nodes = {name: other for name, other in nodes.items() if other}
        for name, other in nodes.items():
            if (other["epoch"], other["seq"]) > (self._heard[1], self._heard[0]):
                self._heard = (other["seq"], other["epoch"], name)
        return nodes

    def _signature(self, name: str, text: bytes) -> bytes:
        return hmac.digest(self._key, b"node %s\n%s" % (name.encode(), text), "sha256")

    def _heard_of(self, name: str, data: bytes) -> dict[str, Any]:
        """What a node said; nothing where somebody else wrote it."""
        signature, text = data[:32], data[32:]
        if not hmac.compare_digest(signature, self._signature(name, text)):
            return {}
        said: dict[str, Any] = json.loads(text)
        return said

    def close(self) -> None:
        self.remote.close()


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


def _changing() -> EngineUnavailable:
    return EngineUnavailable("The engine's log changed while it was read. Try again.")
