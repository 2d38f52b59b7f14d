"""The audit: verify the whole log, show its facts, export it.

Verification trusts only the chain of header hashes, the commitments of bodies, and signed
checkpoints. The caller can give a checkpoint, and the workspace's directory has the latest ones.
"""

import errno
import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from interlock.errors import LogDamaged, Usage
from interlock.log.encoding import canonical, decode
from interlock.log.facts import (
    GENESIS,
    Entry,
    Header,
    commitment,
    header_hash,
    parse_header,
)
from interlock.log.merkle import Frontier
from interlock.log.notes import open_note, parse_verifier_key
from interlock.log.times import rfc3339
from interlock.node import Node, proofs, state
from interlock.node.keys import signer
from interlock.rooms.transaction import FoldedState
from interlock.rooms.work.evidence import blob_of
from interlock.rooms.workspace.events import SCANNED_AT_ONCE, event
from interlock.rooms.workspace.verbs import Maintain, ShowLog
from interlock.verbs.addresses import address
from interlock.verbs.answers import Answer, without_none
from interlock.verbs.credentials import Credentials

_ENTRIES = (
    "SELECT l.seq, l.header, b.salt, b.body FROM log l LEFT JOIN bodies b USING (seq) "
    "WHERE l.seq > ? ORDER BY l.seq"
)


class Damage(Exception):
    """The first damaged entry of the log, and the reason why it is damaged."""

    def __init__(self, seq: int, what: str) -> None:
        super().__init__(what)
        self.seq = seq


class Walk:
    """Checks the log entry by entry, and collects the findings that only the end of the log can
    confirm."""

    def __init__(self) -> None:
        self.frontier = Frontier()
        self.hash = GENESIS
        self.workspace = ""
        self.verifiers: list[str] = []
        self.roots: dict[int, bytes] = {}
        self.blobs: dict[str, int] = {}
        self._before: Header | None = None
        self._missing: set[int] = set()
        self._redacted: set[int] = set()
        self._torn: str | None = None

    def step(self, entry: Entry) -> None:
        """Check the next entry: its position in the chain, its body, and the blob of its body."""
        expected = self.frontier.size + 1
        if entry.seq != expected:
            raise Damage(expected, "it is missing")
        try:
            fact = parse_header(entry.header)
        except ValueError:
            raise Damage(expected, "its header cannot be read") from None
        if self._torn is not None:
            raise self._settled(fact.prev)
        if fact.seq == expected and fact.prev != self.hash and expected > 1:
            # This entry's link was changed, or the entry before it. The next entry shows which.
            self._torn = header_hash(entry.header)
            self.frontier.append(bytes.fromhex(self._torn))
            return
        if fact.seq != expected:
            raise Damage(expected, f"its header has the position {fact.seq}")
        if fact.prev != self.hash:
            raise Damage(expected, "its link to the entry before it does not match")
        before = self._before
        if before is None:
            self.workspace = fact.workspace
        elif fact.at < before.at or fact.epoch < before.epoch:
            raise Damage(expected, "its time or epoch is lower than in the entry before it")
        if fact.workspace != self.workspace:
            raise Damage(expected, "it belongs to another workspace")

        if entry.body is None or entry.salt is None:
            if fact.body is not None:
                self._missing.add(entry.seq)
        elif fact.body != commitment(entry.salt, entry.body):
            raise Damage(entry.seq, "its body does not match the commitment in its header")
        else:
            try:
                if fact.kind == "message_sent" and b'"blob":' in entry.body:
                    self.blobs.setdefault(decode(entry.body)["blob"], entry.seq)
                elif fact.kind == "evidence_added":
                    blob = blob_of(decode(entry.body))
                    if blob is not None and blob["size"] > 0:
                        self.blobs.setdefault(blob["sha256"], entry.seq)
            except (ValueError, KeyError, TypeError):
                raise Damage(entry.seq, "its body cannot be read") from None

        self.hash = header_hash(entry.header)
        self.frontier.append(bytes.fromhex(self.hash))
        self._before = fact
        if isinstance(verifier := fact.outcome.get("verifier"), str):
            self.verifiers.append(verifier)
        if fact.kind == "body_redacted" and isinstance(fact.outcome.get("target"), int):
            self._redacted.add(fact.outcome["target"])

    def _settled(self, vouched: str | None) -> Damage:
        """Return which of two entries that do not link was changed. `vouched` is the second entry's
        hash according to the next entry or the head, or None if neither exists."""
        second = self.frontier.size
        if vouched is None or vouched == self._torn:
            return Damage(second - 1, "the link of the entry after it does not match")
        return Damage(second, "its link to the entry before it does not match")

    def finish(self, end: str | None) -> None:
        if self._torn is not None:
            raise self._settled(end)
        if lost := sorted(self._missing - self._redacted):
            raise Damage(lost[0], "its body is missing, and the log has no redaction of it")


def verify(node: Node, checkpoint: str | None = None) -> Answer:
    """Check everything: chain, bodies, blobs, head, the given checkpoint and the stored ones."""
    # Read the notes first. A note signed later would cover a longer log than the one read here.
    kept = node.keys.kept()
    with node.file.reading() as db:
        row = db.execute("SELECT hash FROM head").fetchone()
        entries = (Entry(*row) for row in db.execute(_ENTRIES, (0,)))
        # A note of an earlier epoch may belong to a log that a restore has abandoned.
        epoch = state.last_readable(db).epoch
        notes = [note for signed, note in kept if signed >= epoch]
        return _report(entries, notes, checkpoint, str(row[0]) if row else None, db)


def verify_export(lines: Iterable[bytes], checkpoint: str | None = None) -> Answer:
    """Check an exported file, without the workspace. Raises Usage for a file of another kind."""
    reader = iter(lines)
    try:
        kept = decode(next(reader, b""))["checkpoint"]
        if not isinstance(kept, str):
            raise TypeError
    except (ValueError, KeyError, TypeError):
        raise Usage(
            "This file is not an exported log. To export a log: interlock audit export FILE"
        ) from None
    return _report(map(_imported, reader), [kept], checkpoint, None, None)


def _imported(line: bytes) -> Entry:
    try:
        row = decode(line)
        body = row["body"].encode() if "body" in row else None
        salt = bytes.fromhex(row["salt"]) if "salt" in row else None
        return Entry(int(row["seq"]), row["header"].encode(), salt, body)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Damage(0, "its line in the export cannot be read") from None


def _report(
    entries: Iterator[Entry],
    kept: list[str],
    given: str | None,
    end: str | None,
    db: FoldedState | None,
) -> Answer:
    """Return the answer of a verification. `end` is the hash of the head, and `db` is the
    workspace's database."""
    walk = Walk()
    notes = [*kept, given] if given is not None else kept
    sizes = {size for note in notes if (size := _size(note)) is not None}
    try:
        for entry in entries:
            walk.step(entry)
            if walk.frontier.size in sizes:
                walk.roots[walk.frontier.size] = walk.frontier.root()
        walk.finish(end)
        for note in notes:
            _check_note(walk, note, own=note is not given)
        if db is not None:
            _check_ends(db, walk)
            _check_blobs(db, walk)
    except Damage as damage:
        seq = damage.seq or walk.frontier.size + 1
        refusal = LogDamaged(
            f"Entry {seq} is damaged: {damage}. Stop writing, keep the file, and restore a backup "
            "that verifies."
        )
        return {"ok": False} | refusal.as_dict() | {"seq": seq, "entries": walk.frontier.size}
    return {
        "ok": True,
        "entries": walk.frontier.size,
        "root": walk.frontier.root().hex(),
        "checkpoints": len(notes),
    }


def _size(note: str) -> int | None:
    lines = note.split("\n")
    digits = lines[1] if len(lines) > 1 else ""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None


def _check_note(walk: Walk, note: str, *, own: bool) -> None:
    """Check that the log's key signed a checkpoint, and that the log still matches it. Raises Usage
    for a given checkpoint of another workspace, and Damage for any other mismatch."""
    checkpoint = None
    for verifier in walk.verifiers:
        with suppress(ValueError):
            checkpoint = open_note(note, *parse_verifier_key(verifier))
            break
    if checkpoint is None:
        if not own and not note.startswith(signer(walk.workspace) + "\n"):
            raise Usage(
                "The given checkpoint is not of this workspace. Give a file that this workspace "
                "wrote: interlock audit checkpoint > FILE"
            )
        size = min(_size(note) or walk.frontier.size, walk.frontier.size)
        raise Damage(size, "a checkpoint that covers it is not signed by the log's key")
    if checkpoint.size > walk.frontier.size:
        raise Damage(
            walk.frontier.size + 1,
            f"a checkpoint covers {checkpoint.size} entries, but the log has only "
            f"{walk.frontier.size}",
        )
    if checkpoint.size and walk.roots.get(checkpoint.size) != checkpoint.root:
        raise Damage(
            checkpoint.size,
            f"the first {checkpoint.size} entries do not match the checkpoint that covers them",
        )


def _check_ends(db: FoldedState, walk: Walk) -> None:
    """Check the end of the log against the head and the position of the state."""
    for table, name in (("head", "head"), ("state_position", "state")):
        row = db.execute(f"SELECT seq, hash FROM {table}").fetchone()
        seq, hash = row or (0, "")
        if seq != walk.frontier.size:
            first = min(seq, walk.frontier.size) + 1
            found = f"the log has {walk.frontier.size} entries, but its {name} is at entry {seq}"
            raise Damage(first, found)
        if hash != walk.hash:
            raise Damage(seq, f"its hash does not match the hash in the log's {name}")
    (frontier,) = db.execute("SELECT frontier FROM state_position").fetchone()
    if frontier != walk.frontier.pack():
        raise Damage(walk.frontier.size, "the Merkle tree in the state does not match the log")


def _check_blobs(db: FoldedState, walk: Walk) -> None:
    """Check the bytes of every blob that a body points to."""
    for sha256, seq in walk.blobs.items():
        whole = hashlib.sha256()
        for (data,) in db.execute(
            "SELECT data FROM blob_chunks WHERE upload = "
            "(SELECT upload FROM blobs WHERE sha256 = ?) ORDER BY number",
            (sha256,),
        ):
            whole.update(data)
        if whole.hexdigest() != sha256:
            raise Damage(seq, "its blob was changed or is missing")
        if not db.execute("SELECT 1 FROM blob_uses WHERE sha256 = ?", (sha256,)).fetchone():
            raise Damage(seq, "the record that its blob is in use is missing")


def export(node: Node, credentials: Credentials, target: str) -> Answer:
    """Write the whole log as JSON Lines into a new file: one line about the log, then one line for
    each entry. The file has the digests of blobs, not their content. It has all mail, so only the
    owner and admins may export. A failed export leaves no file. Raises OSError."""
    if not credentials.owner:
        node.call(credentials, Maintain())
    signed = proofs.checkpoint(node)
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    draft = f"{target}.{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    count = 0
    try:
        with open(os.open(draft, flags, 0o600), "wb") as file, node.file.reading() as db:
            about = {"export": "interlock", "version": 1} | signed
            file.write(canonical(about) + b"\n")
            for seq, header, salt, body in db.execute(_ENTRIES, (0,)):
                try:
                    row = without_none(
                        seq=seq,
                        header=header.decode(),
                        salt=salt.hex() if salt is not None else None,
                        body=body.decode() if body is not None else None,
                    )
                except UnicodeDecodeError:
                    raise _unreadable(seq) from None
                file.write(canonical(row) + b"\n")
                count += 1
        os.rename(draft, target)
    finally:
        with suppress(OSError):
            os.unlink(draft)
    return {"file": target, "entries": count, "root": signed["root"]}


def show(node: Node, request: ShowLog, names: frozenset[str] | None = None) -> Answer:
    """Return the facts after a position, without their bodies. With `names`, return only the facts
    that concern these names. One call reads a part of the log and may return fewer facts than the
    limit. `next` is the position to continue from."""
    facts: list[Answer] = []
    reached = request.after
    with node.file.reading() as db:
        for scanned, (seq, header) in enumerate(node.engine.follow(db, request.after)):
            if scanned == SCANNED_AT_ONCE:
                return {"facts": facts, "next": reached}
            try:
                fact = parse_header(header)
            except ValueError:
                raise _unreadable(seq) from None
            is_kind = request.kind is None or fact.kind == request.kind
            if is_kind and (names is None or event(db, fact).concerns(names)):
                if len(facts) == request.limit:
                    return {"facts": facts, "next": reached}
                facts.append(
                    without_none(
                        seq=fact.seq,
                        at=rfc3339(fact.at),
                        kind=fact.kind,
                        sender=address(fact.sender),
                        session=fact.session,
                        token=fact.token,
                        epoch=fact.epoch or None,
                        outcome=fact.outcome,
                        hash=header_hash(header),
                        body=fact.body,
                    )
                )
            reached = seq
    return {"facts": facts}


def _unreadable(seq: int) -> LogDamaged:
    return LogDamaged(f"Entry {seq} cannot be read. To check the log:", proofs.TO_VERIFY, seq=seq)
