"""The engine of several nodes: each node has the whole log in its own file, and a server that all
nodes share orders it.

The algorithm is that of the embedded engine. A turn first brings the file level with the server.
The node writes the decided facts in the file's transaction. Before that commits, the server stores
the facts, unless another node appended first. After a crash, the next turn brings both level again.

Both logs should be equal. If the engine lost its last entries, the node's file still has them. If a
holder of the engine's password wrote entries into the engine, the file does not have them.
"""

import hmac
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, NamedTuple

import apsw

from interlock.errors import (
    DigestMismatch,
    EngineUnavailable,
    LogForked,
    Refusal,
    Usage,
    unknown_outcome,
)
from interlock.log.facts import GENESIS, Header, commitment, header_hash, parse_header
from interlock.stores import Facts, FarBehind, Head, HeadMoved
from interlock.stores.recognition import host_id
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
from interlock.stores.sqlite import LogFile, SqliteEngine

_LOG = logging.getLogger("interlock.node")
ROUNDS = 8
AT_ONCE = 500
LOOK_FOR_S = 3.0
POLL_INTERVAL_S = 0.1


class Heard(NamedTuple):
    """The highest position that any node has reported, and that node."""

    epoch: int = 0
    seq: int = 0
    node: str = ""


class Divergence(NamedTuple):
    """How a node's log and the engine's diverge: the last common entry, and the end of each."""

    common: int
    ours: int
    theirs: int

    @property
    def is_tail(self) -> bool:
        """Whether the engine only lost its last entries."""
        return self.theirs == self.common


def steady_ms() -> int:
    """Return the milliseconds of a clock that is never set, and runs while the machine sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1_000_000


GiveUp = Callable[[apsw.Connection, Divergence], None]


class SharedEngine(SqliteEngine):
    """The `Engine` on a `LogFile` that follows a `Remote`. `heard` is the highest report."""

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
        self.heard = Heard()
        self._key = key
        self._workspace: str | None = None
        # The last known end of the engine's log.
        self.end = 0
        # The engine's clock minus our steady clock, which has the right pace but no date.
        self._ahead_ms: int | None = None
        self._confirmed: int | None = None
        self._known = False
        self._turning: int | None = None  # the thread that holds the turn
        self._erased: set[int] = set()
        self._dropped: set[str] = set()
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

    # --- the turn

    @contextmanager
    def turn(self, *, wait: bool = True, give_up: GiveUp | None = None) -> Iterator[None]:
        """Raise HeadMoved if another node appended first. Nothing was stored, and the caller may
        try again. `give_up` receives the divergence, before the node removes its entries that the
        engine lacks."""
        kept = left = False
        try:
            with self.file.writing(wait=wait) as db:
                remote_head = self.noted(self.remote.begin(self.node))
                self._turning = threading.get_ident()
                try:
                    self._erased.clear()
                    self._dropped.clear()
                    if give_up is not None:
                        loss = self.loss(db)
                        give_up(db, loss)
                        self.let_go_of(db, loss)
                        self.heard = Heard()
                    self._level(db, remote_head, far=give_up is not None)
                    base = self.head(db)
                    yield
                    kept = left = self._publish(db, base)
                    if not kept:
                        left = True
                        # The answers of this turn are current if the log still ends at `base`.
                        # Otherwise this process was suspended, and other nodes have appended.
                        if not self.remote.leave(RemoteHead(base.seq, base.hash)):
                            raise HeadMoved
                finally:
                    self._turning = None
                    if not left:
                        self.remote.leave()
        except Refusal as trouble:
            if not kept or trouble.members.get("outcome"):
                raise
            raise unknown_outcome() from None

    def follow(self, db: apsw.Connection, after: int) -> Facts:
        for place, row in enumerate(super().follow(db, after), 1):
            if place % AT_ONCE == 0:
                self._stay()
            yield row

    def _stay(self) -> None:
        """Renew the turn during long work."""
        if self._turning == threading.get_ident():
            self.remote.stay()

    @contextmanager
    def arriving(self) -> Iterator[bool]:
        """Copy some of the entries that other nodes appended, without the turn. Yield True while
        there are more."""
        with self.file.writing() as db:
            looked = steady_ms()
            remote_head = self.noted(self.remote.remote_head())
            more = not self._is_level(db, remote_head)
            if more:
                self._check_key()
                self._take_over(db)
                more = self.head(db).seq < remote_head.seq
            if not more:
                self._confirmed = looked
            yield more

    def _level(self, db: apsw.Connection, remote_head: RemoteHead, *, far: bool = False) -> None:
        """Bring the file up to the engine's last entry. Raise FarBehind if one turn should not copy
        so many entries, unless `far`. Raise LogForked if the logs diverge."""
        looked = steady_ms()
        self._check_key()
        for _ in range(ROUNDS + (remote_head.seq if far else 0)):
            if self._is_level(db, remote_head):
                self._confirmed = looked
                return
            if remote_head.seq - self.head(db).seq > AT_ONCE and not far:
                raise FarBehind
            self._take_over(db)
            if self.head(db)[:2] != remote_head[:2]:
                looked = steady_ms()
                remote_head = self.noted(self.remote.remote_head())
        raise FarBehind if remote_head.seq > self.head(db).seq else HeadMoved

    def _is_level(self, db: apsw.Connection, remote_head: RemoteHead) -> bool:
        """Return whether the file has every entry of the engine. Raise LogForked if the engine has
        fewer entries than another node reported. Read its head again first: it may have grown."""
        head = self.head(db)
        if (remote_head.seq, remote_head.hash) != (head.seq, head.hash):
            return False
        if not self.are_others_ahead(db):
            return True
        if self.noted(self.remote.remote_head()).seq > head.seq:
            return False
        _, seq, node = self.heard
        raise LogForked(
            f"The engine's log ends at #{head.seq}, but the node {node} has entries up to #{seq}. "
            f"The engine lost #{head.seq + 1} to #{seq}. Interlock writes nothing until they are "
            f"restored. Run interlock repair on {node}, which has them.",
            engine_seq=head.seq,
            node_seq=seq,
        )

    def are_others_ahead(self, db: apsw.Connection) -> bool:
        head = self.head(db)
        return self.heard[:2] > (self.epoch(db, head.seq), head.seq)

    def _check_key(self) -> None:
        self._known = self._known or is_known(self.remote, self._key)

    # --- taking over

    def _take_over(self, db: apsw.Connection) -> None:
        """Write the entries that other nodes appended into the file, and set aside entries without
        a valid seal. If neither explains the difference, the logs have diverged."""
        self.read_workspace(db)
        head = before = self.head(db)
        found = self.remote.read(head.seq, AT_ONCE)
        for place, entry in enumerate(found):
            fact = self.opened(entry)
            if fact is None:
                # If genuine entries follow, this one was not added but changed. Leave it there.
                if any(self.opened(other) for other in found[place + 1 :]):
                    raise LogForked(
                        f"Entry {entry.seq} was changed in the engine after a node wrote it. Nodes "
                        "that have the original go on, but new nodes cannot join. Restore the "
                        "entry on a node that has the original: interlock repair --restore",
                        engine_seq=entry.seq,
                    )
                self.set_aside(entry)
            elif fact.seq != head.seq + 1 or fact.prev != head.hash:
                if head != before:
                    super().advance(head)
                self._follow_suit(db)
                return
            else:
                self._write_down(db, entry, fact)
                head = Head(fact.seq, entry.hash, fact.at, head.raw)
        if head != before:
            super().advance(head)
        elif not found:
            self._follow_suit(db)

    def _write_down(self, db: apsw.Connection, entry: Sealed, fact: Header) -> None:
        """Write one entry of another node into the file, with its body and blobs."""
        db.execute("INSERT INTO log VALUES (?, ?)", (entry.seq, entry.header))
        salt, body = entry.salt, entry.body
        if salt is None or body is None or fact.body != commitment(salt, body):
            return  # redacted since; the audit finds a body that is missing for another reason
        db.execute("INSERT INTO bodies VALUES (?, ?, ?)", (entry.seq, salt, body))
        for sha256 in entry.keeps:
            if not db.execute("SELECT 1 FROM blobs WHERE sha256 = ?", (sha256,)).fetchone():
                upload = self.remote.upload_of(sha256)
                if upload is None:
                    continue
                try:
                    self._download(upload)
                    super().join(upload, sha256)
                except DigestMismatch:  # a holder of the engine's password changed the bytes
                    super().drop_upload(upload)
                    continue
            super().use_blob(sha256, entry.seq)

    def _download(self, upload: str) -> None:
        for number, data in self.remote.chunks(upload):
            super().put_chunk(upload, number, data)
            self._stay()

    def _follow_suit(self, db: apsw.Connection) -> None:
        """Handle a divergence. If the engine's log says that our entries were given up, save them
        in a separate file, and continue with the engine's log. Otherwise raise LogForked: a person
        must decide."""
        loss = self.loss(db)
        if loss.ours == loss.common == loss.theirs:
            return  # only foreign entries differed, and `loss` set them aside
        if not self.is_given_up(db, loss):
            if loss.is_tail:
                self._confirmed = steady_ms()  # the engine has no entry that we lack
            raise self.forked(loss)
        lost = {"first": loss.common + 1, "last": loss.ours}
        _LOG.warning("removed entries that were given up on another node", extra=lost)
        self.let_go_of(db, loss)

    # --- giving

    def _publish(self, db: apsw.Connection, base: Head) -> bool:
        """Append the facts of this turn to the engine, and end the turn. Without facts, return
        False."""
        entries = self.sealed(db, base.seq, 1 << 30)
        if not entries:
            return False
        blobs = self.blobs(db, base.seq, entries[-1].seq)
        erased = [seq for seq in sorted(self._erased) if self.body(db, seq) is None]
        batch = Appending(entries, blobs, erased, self.without_blob(db, self._dropped))
        self.append_to(RemoteHead(base.seq, base.hash), batch)
        self._known = True
        self._confirmed = steady_ms()
        self.end = entries[-1].seq
        return True

    # --- transfer

    def sealed(
        self, db: apsw.Connection, after: int, limit: int, most: int = 1 << 62
    ) -> list[Sealed]:
        """Return our entries after a position: at most `limit`, and about `most` bytes of
        bodies."""
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
        """Return the fact of a genuine entry. Return None for an entry that is forged, at the wrong
        position, or of another workspace with the same key."""
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
        """Return the head that the engine would have if its log ended at this position."""
        row = db.execute("SELECT header FROM log WHERE seq = ?", (seq,)).fetchone()
        return (
            RemoteHead(seq, header_hash(row[0]), parse_header(row[0]).at) if row else RemoteHead()
        )

    # --- divergence

    def set_aside(self, entry: Sealed) -> None:
        """Move a foreign entry out of the engine's log. Raise Usage if the log now belongs to
        another workspace."""
        is_known(self.remote, self._key)
        self.remote.set_aside(entry)

    def loss(self, db: apsw.Connection) -> Divergence:
        """Compare this node's log with the engine's. If they share an entry, first set aside the
        foreign entries after the last shared one."""
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
        """Compare the logs from the end back to the last entry that both have."""
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
        """Return the positions up to `last` where the engine lacks our entry, because a holder of
        its password removed or changed it. If both logs have the same last entry, all other nodes
        have our entry there."""
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
        """Return the engine's genuine headers after a position, up to another one, and the
        positions of foreign entries."""
        found: dict[int, bytes] = {}
        strange: set[int] = set()
        while after < last and (page := self.remote.headers(after, last - after)):
            for entry in page:
                if self.opened(entry):
                    found[entry.seq] = entry.header
                else:
                    strange.add(entry.seq)
            if page[-1].seq == after:
                break  # a foreign entry between two positions
            after = page[-1].seq
        return found, strange

    def rewrite_entries(self, db: apsw.Connection, positions: list[int]) -> None:
        """Restore our entries in the engine at these positions. A call that failed may be
        repeated."""
        for start in range(0, len(positions), AT_ONCE):
            some = positions[start : start + AT_ONCE]
            entries = [entry for seq in some for entry in self.sealed(db, seq - 1, 1)]
            remote_head = self.remote.begin(self.node)
            try:
                if self._compared(db).common < some[-1]:
                    raise HeadMoved  # the engine lost its tail meanwhile
                self.remote.rewrite_entries(remote_head, entries)
            except BaseException as trouble:
                self.remote.leave()
                if isinstance(trouble, HeadMoved | AnswerLost):
                    raise _broken_off() from None
                raise

    def forked(self, loss: Divergence) -> Refusal:
        """Return the refusal of writes while the logs diverge."""
        if loss.theirs <= loss.common and loss.ours <= loss.common:
            return EngineUnavailable("The engine's log changed during the comparison. Try again.")
        first, last = loss.common + 1, loss.ours
        lost = f"#{first}" if first == last else f"#{first} to #{last}"
        if loss.is_tail:
            what = f"The engine has lost {lost}, which this node has"
            todo = "To list them: interlock repair. To restore them: interlock repair --restore"
        elif loss.ours <= loss.common:
            what = f"The engine's log has a missing or wrong entry after #{loss.common}"
            todo = "On a node that has the entry, run: interlock repair --restore"
        else:
            what = (
                f"The log forks after #{loss.common}: this node has {lost}, and the engine has "
                f"other entries up to #{loss.theirs}"
            )
            todo = (
                "To list this node's entries: interlock repair. To give them up and start a new "
                "epoch: interlock repair --give-up"
            )
        return LogForked(
            f"{what}. This node writes nothing until an operator repairs the log. {todo}",
            common_seq=loss.common,
            engine_seq=loss.theirs,
            node_seq=loss.ours,
        )

    # --- restoring

    def push_entries(self, db: apsw.Connection, after: int) -> None:
        """Append our entries after a position to the engine's log, which ends at that position.
        Also delete the bodies there that were redacted since. A call that failed may be
        repeated."""
        rows = db.execute(
            'SELECT header FROM log WHERE instr(header, \'"kind":"body_redacted"\') ORDER BY seq'
        )
        facts = (parse_header(header) for (header,) in rows if isinstance(header, bytes))
        targets = [fact.outcome["target"] for fact in facts if fact.kind == "body_redacted"]
        erased = [seq for seq in targets if seq <= after]
        # The blobs that the engine stores for deleted bodies only.
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
        """Append a batch to the engine's log. If the answer is lost, the entry at the batch's first
        position shows whether the engine stored the batch. Raise HeadMoved if that entry is another
        one, and an unknown outcome if there is none."""
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

    # --- giving up entries

    def let_go_of(self, db: apsw.Connection, loss: Divergence) -> None:
        """Truncate our log to the entries that the engine has too. First save a copy of all of
        it."""
        aside = f"abandoned-{self.epoch(db, loss.ours)}-{loss.ours}.db"
        path = os.path.join(self.file.directory, aside)
        if not os.path.exists(path):
            self.file.copy(self.file.path, path)
        for seq in range(loss.common + 1, loss.ours + 1):
            super().forget(seq)
        db.execute("DELETE FROM log WHERE seq > ?", (loss.common,))
        last = self.at(db, loss.common)
        db.execute(
            "UPDATE head SET seq = ?, hash = ?, at = ?, raw = ?",
            (last.seq, last.hash, last.now, last.now),
        )

    def is_given_up(self, db: apsw.Connection, loss: Divergence) -> bool:
        """Return whether the engine's log says that the entries only we have were given up."""
        first = self.at(db, loss.common + 1).hash
        after = loss.common
        while loss.ours > loss.common and (found := self.remote.read(after, AT_ONCE)):
            for entry in found:
                fact = self.opened(entry)
                given_up = fact.outcome.get("abandoned", {}) if fact is not None else {}
                follows = given_up.get("after") == loss.common
                if follows and given_up.get("first") in (first, GENESIS):
                    return bool(given_up["seq"] >= loss.ours)
            if found[-1].seq == after:
                break  # a foreign entry between two positions
            after = found[-1].seq
        return False

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
        self.remote.drop_upload(upload)

    def drop_stale(self, before: str) -> None:
        self.remote.drop_stale(before)

    def join(self, upload: str, sha256: str) -> int:
        """If the bytes are a blob already, leave the upload for `drop_stale`: a repeated turn needs
        it again."""
        self._download(upload)
        return super().join(upload, sha256)

    # --- the other nodes

    @cached_property
    def machine(self) -> str:
        """An id that nodes on one machine share, and that reveals nothing else about it."""
        return hmac.digest(self._key, b"machine " + host_id().encode(), "sha256").hex()[:16]

    def age_s(self) -> float | None:
        """Return the seconds since the engine confirmed the file's head; None if it never did."""
        return None if self._confirmed is None else (steady_ms() - self._confirmed) / 1000

    def beat(self, about: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Report this node's position to the others. Return the last report of each node by its
        name, without reports that have a bad signature."""

        def signature(name: str, text: bytes) -> bytes:
            return hmac.digest(self._key, b"node %s\n%s" % (name.encode(), text), "sha256")

        with self.file.reading() as db:
            head = self.head(db)
            epoch = self.epoch(db, head.seq)
        report = {"seq": head.seq, "epoch": epoch, "at": self._clock()} | about
        report["machine"] = self.machine
        text = json.dumps(report).encode()
        nodes: dict[str, dict[str, Any]] = {}
        for name, data in self.remote.beat(self.node, signature(self.node, text) + text).items():
            if hmac.compare_digest(data[:32], signature(name, data[32:])):
                other = nodes[name] = json.loads(data[32:])
                heard = Heard(other["epoch"], other["seq"], name)
                self.heard = max(self.heard, heard, key=lambda each: each[:2])
        return nodes

    def close(self) -> None:
        self.remote.close()


def is_known(remote: Remote, key: bytes) -> bool:
    """Return whether the engine has a log of this workspace. Raise Usage if that log is sealed with
    another key."""
    first = remote.read(0, 1)
    if first and not is_genuine(key, first[0]):
        raise Usage(
            "The engine has a workspace of this name, but it is sealed with another key. Copy "
            "keys/checkpoint.key from the directory of one of its nodes over a secure channel, and "
            "start this node with --key FILE."
        )
    return bool(first)


def _broken_off() -> EngineUnavailable:
    return EngineUnavailable(
        "The connection to the engine failed while the log was copied, or another node wrote to "
        "the engine. Run the command again. It copies only the entries that the engine lacks."
    )
