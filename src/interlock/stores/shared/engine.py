"""The engine of several nodes: each has the whole log in a file of its own, and a server that all
of them reach keeps the order.

The algorithm is the embedded one. The turn levels the file with the server, what is decided is
written to the file's transaction, and before that commits, the server keeps it if nobody was
first. Whatever a crash leaves of that, the next turn levels again.
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
from interlock.stores.host import host_id
from interlock.stores.shared.remote import Appending, Remote, RemoteHead, Sealed
from interlock.stores.shared.replica import AT_ONCE, Divergence, Replica, is_known, steady_ms

_LOG = logging.getLogger("interlock.node")
ROUNDS = 8
NOBODY = 0
GiveUp = Callable[[apsw.Connection, Divergence], None]


class Heard(NamedTuple):
    """How far the furthest node said that it was."""

    epoch: int = 0
    seq: int = 0
    node: str = ""


class SharedEngine(Replica):
    """The `Engine` on a `LogFile` that follows a `Remote`. `heard` is what the others said."""

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
        self._turning = NOBODY
        self._erased: set[int] = set()
        self._dropped: set[str] = set()
        super().__init__(file, remote, key, node, clock)

    # --- the turn

    @contextmanager
    def turn(self, *, wait: bool = True, give_up: GiveUp | None = None) -> Iterator[None]:
        """Raises `HeadMoved` where another node was first: nothing was kept, and the same may be
        tried again. `give_up` is shown what the engine does not have, and that is let go of."""
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
                        self._leave(base)
                finally:
                    self._turning = NOBODY
                    if not left:
                        self.remote.leave()
        except Refusal as trouble:
            if not kept or trouble.members.get("outcome"):
                raise
            raise unknown_outcome() from None

    def _leave(self, base: Head) -> None:
        """Ends a turn that appended nothing. What was answered in it is true if the log still
        ends where it did; else it is what was true before we slept."""
        if not self.remote.leave(RemoteHead(base.seq, base.hash)):
            raise HeadMoved

    def follow(self, db: apsw.Connection, after: int) -> Facts:
        for place, row in enumerate(super().follow(db, after), 1):
            if place % AT_ONCE == 0:
                self._stay()
            yield row

    def _stay(self) -> None:
        """In the middle of something long: the turn is still in use."""
        if self._turning == threading.get_ident():
            self.remote.stay()

    @contextmanager
    def arriving(self) -> Iterator[bool]:
        """Takes over what others appended, without the turn, and so much at once; True while
        there is more of it."""
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
        """Brings the file up to the engine's last entry, however far that is or only so far, or
        says why that cannot be."""
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
        """Whether the file has what the engine has. Where the engine has less than another node
        said that it had, it has lost that; unless it was appended since we looked."""
        head = self.head(db)
        if (remote_head.seq, remote_head.hash) != (head.seq, head.hash):
            return False
        if not self._others_had_more(db, head):
            return True
        if self.noted(self.remote.remote_head()).seq <= head.seq:
            raise self._lost(head)
        return False

    def is_behind_others(self) -> bool:
        with self.file.reading() as db:
            return self.are_others_ahead(db)

    def are_others_ahead(self, db: apsw.Connection) -> bool:
        return self._others_had_more(db, self.head(db))

    def _others_had_more(self, db: apsw.Connection, head: Head) -> bool:
        return self.heard[:2] > (self.epoch(db, head.seq), head.seq)

    def _lost(self, head: Head) -> LogForked:
        """The engine has what we have, and another node said that it had more."""
        _, seq, node = self.heard
        return LogForked(
            f"The engine ends at #{head.seq}, and the node {node} has had #{seq}: the engine has "
            "lost what came between. Nothing is written until that is settled: run interlock "
            f"repair on {node}, which has it.",
            engine_seq=head.seq,
            node_seq=seq,
        )

    def _check_key(self) -> None:
        self._known = self._known or is_known(self.remote, self._key)

    # --- taking over

    def _take_over(self, db: apsw.Connection) -> None:
        """Writes down what others appended after our head; what nobody of us sealed is set
        aside. Where none of that explains the difference, the logs have parted."""
        self.identify(db)
        head = before = self.head(db)
        found = self.remote.read(head.seq, AT_ONCE)
        for place, entry in enumerate(found):
            fact = self.opened(entry)
            if fact is None:
                self._set_stranger_aside(entry, found[place + 1 :])
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

    def _set_stranger_aside(self, entry: Sealed, later: list[Sealed]) -> None:
        """Where ours follow it, it was not added but changed, and stays as it is."""
        if any(self.opened(other) for other in later):
            raise LogForked(
                f"Entry {entry.seq} was changed in the engine after it was written. Nodes that "
                "have it go on, and no new one can join until it is put back: interlock repair "
                "--restore, on a node that has it.",
                engine_seq=entry.seq,
            )
        self.set_aside(entry)

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
            self._stay()

    def _follow_suit(self, db: apsw.Connection) -> None:
        """Our log is not the engine's. Where its own says that what we have was given up, ours is
        kept beside, and we go on with the engine's; else that is for a person to settle."""
        loss = self.loss(db)
        if loss.ours == loss.common == loss.theirs:
            return  # what was in the way is set aside
        if not self.is_given_up(db, loss):
            if loss.is_tail:
                self._confirmed = steady_ms()  # it has nothing that we have not
            raise self.forked(loss)
        lost = {"first": loss.common + 1, "last": loss.ours}
        _LOG.warning("let go of entries that the log says were given up", extra=lost)
        self.let_go_of(db, loss)

    # --- giving

    def _publish(self, db: apsw.Connection, base: Head) -> bool:
        """Has the engine keep what this turn wrote. True where it did, which ended the turn."""
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
        """Where the bytes are a blob already, the upload is left for `drop_stale`: this turn may
        have to be taken again."""
        self._download(upload)
        return super().join(upload, sha256)

    # --- the other nodes

    @cached_property
    def machine(self) -> str:
        """Tells nodes on one machine from those on another, and says nothing else of it."""
        return hmac.digest(self._key, b"machine " + host_id().encode(), "sha256").hex()[:16]

    def age_s(self) -> float | None:
        """How long ago the engine confirmed that we have what it has; None if it never did."""
        return None if self._confirmed is None else (steady_ms() - self._confirmed) / 1000

    def beat(self, about: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Tells the others how far we are, and gives what they said, each by the node's name."""
        with self.file.reading() as db:
            head = self.head(db)
            epoch = self.epoch(db, head.seq)
        said = {"seq": head.seq, "epoch": epoch, "at": self._clock()} | about
        said["machine"] = self.machine
        text = json.dumps(said).encode()
        found = self.remote.beat(self.node, self._signature(self.node, text) + text)
        nodes = {name: self._heard_from(name, data) for name, data in found.items()}
        nodes = {name: other for name, other in nodes.items() if other}
        positions = [Heard(said["epoch"], said["seq"], name) for name, said in nodes.items()]
        self.heard = max([self.heard, *positions], key=lambda heard: heard[:2])
        return nodes

    def _signature(self, name: str, text: bytes) -> bytes:
        return hmac.digest(self._key, b"node %s\n%s" % (name.encode(), text), "sha256")

    def _heard_from(self, name: str, data: bytes) -> dict[str, Any]:
        """What a node said; nothing where somebody else wrote it."""
        signature, text = data[:32], data[32:]
        if not hmac.compare_digest(signature, self._signature(name, text)):
            return {}
        said: dict[str, Any] = json.loads(text)
        return said

    def close(self) -> None:
        self.remote.close()
