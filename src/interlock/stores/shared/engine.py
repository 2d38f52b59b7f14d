"""The engine of several nodes: each has the whole log in its own file, and a server that all of
them reach keeps the order.

The algorithm is the embedded one. The turn levels the file with the server. The decided facts are
written to the file's transaction; before it commits, the server keeps them if no other node was
first. After a crash the next turn levels the two again.
"""

import hmac
import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

import apsw

from interlock.errors import DigestMismatch, LogForked, Refusal, unknown_outcome
from interlock.log.facts import Header, commitment
from interlock.stores import Facts, FarBehind, Head, HeadMoved
from interlock.stores.file import LogFile
from interlock.stores.recognition import host_id
from interlock.stores.shared.remote import Appending, Remote, RemoteHead, Sealed
from interlock.stores.shared.replica import AT_ONCE, Divergence, Replica, is_known, steady_ms

_LOG = logging.getLogger("interlock.node")
ROUNDS = 8
GiveUp = Callable[[apsw.Connection, Divergence], None]


class Heard(NamedTuple):
    """The position of the furthest node, by its own report."""

    epoch: int = 0
    seq: int = 0
    node: str = ""


class SharedEngine(Replica):
    """The `Engine` on a `LogFile` that follows a `Remote`. `heard` is the furthest report."""

    def __init__(
        self,
        file: LogFile,
        remote: Remote,
        key: bytes,
        node: str,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.heard = Heard()
        self._confirmed: int | None = None
        self._known = False
        self._turning: int | None = None  # the thread that holds the turn
        self._erased: set[int] = set()
        self._dropped: set[str] = set()
        super().__init__(file, remote, key, node, clock)

    # --- the turn

    @contextmanager
    def turn(self, *, wait: bool = True, give_up: GiveUp | None = None) -> Iterator[None]:
        """Raises HeadMoved where another node was first: nothing was kept, and the caller may try
        again. `give_up` is called with the entries that the engine does not have; they are then
        cut off."""
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
                        # Answers of this turn are true if the log still ends where it did. Else
                        # this process slept, and they were true before.
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
        """Renew the turn, in the middle of long work."""
        if self._turning == threading.get_ident():
            self.remote.stay()

    @contextmanager
    def arriving(self) -> Iterator[bool]:
        """Copy some of the entries that other nodes appended, without the turn; True while there
        are more."""
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
        """Bring the file up to the engine's last entry. Raises FarBehind where that takes more than
        one turn should, unless `far`, and LogForked where it is impossible."""
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
        """Whether the file has every entry of the engine. An engine that has less than another node
        reported has lost entries, unless they were appended since we looked."""
        head = self.head(db)
        if (remote_head.seq, remote_head.hash) != (head.seq, head.hash):
            return False
        if not self.are_others_ahead(db):
            return True
        if self.noted(self.remote.remote_head()).seq > head.seq:
            return False
        _, seq, node = self.heard
        raise LogForked(
            f"The engine ends at #{head.seq}, and the node {node} has had #{seq}: the engine has "
            "lost what came between. Nothing is written until that is settled: run interlock "
            f"repair on {node}, which has it.",
            engine_seq=head.seq,
            node_seq=seq,
        )

    def is_behind_others(self) -> bool:
        with self.file.reading() as db:
            return self.are_others_ahead(db)

    def are_others_ahead(self, db: apsw.Connection) -> bool:
        head = self.head(db)
        return self.heard[:2] > (self.epoch(db, head.seq), head.seq)

    def _check_key(self) -> None:
        self._known = self._known or is_known(self.remote, self._key)

    # --- taking over

    def _take_over(self, db: apsw.Connection) -> None:
        """Write the entries that other nodes appended into the file. Entries without a valid seal
        are set aside. Where neither explains the difference, the logs have diverged."""
        self.read_workspace(db)
        head = before = self.head(db)
        found = self.remote.read(head.seq, AT_ONCE)
        for place, entry in enumerate(found):
            fact = self.opened(entry)
            if fact is None:
                # With genuine entries after it, it was not added but changed, and stays as it is.
                if any(self.opened(other) for other in found[place + 1 :]):
                    raise LogForked(
                        f"Entry {entry.seq} was changed in the engine after it was written. Nodes "
                        "that have it go on, and no new one can join until it is put back: "
                        "interlock repair --restore, on a node that has it.",
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
            return  # redacted since; a body that is missing otherwise is found by the audit
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
        """Settle a divergence. If the engine's log says that our entries were given up, keep them
        in a file of their own and go on with the engine's log; else a person must decide."""
        loss = self.loss(db)
        if loss.ours == loss.common == loss.theirs:
            return  # the foreign entries were set aside
        if not self.is_given_up(db, loss):
            if loss.is_tail:
                self._confirmed = steady_ms()  # the engine has no entry that we lack
            raise self.forked(loss)
        lost = {"first": loss.common + 1, "last": loss.ours}
        _LOG.warning("let go of entries that the log says were given up", extra=lost)
        self.let_go_of(db, loss)

    # --- giving

    def _publish(self, db: apsw.Connection, base: Head) -> bool:
        """Append the facts of this turn to the engine, which ends the turn. False without facts."""
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
        """Leaves an upload of bytes that are a blob already for `drop_stale`: the turn may have to
        be repeated."""
        self._download(upload)
        return super().join(upload, sha256)

    # --- the other nodes

    @cached_property
    def machine(self) -> str:
        """An id that nodes on one machine share, and that says nothing else of the machine."""
        return hmac.digest(self._key, b"machine " + host_id().encode(), "sha256").hex()[:16]

    def age_s(self) -> float | None:
        """The seconds since the engine confirmed the head of the file; None if it never did."""
        return None if self._confirmed is None else (steady_ms() - self._confirmed) / 1000

    def beat(self, about: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Report this node's position to the others. Returns the last report of each node by its
        name; a report with a bad signature is left out."""

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
