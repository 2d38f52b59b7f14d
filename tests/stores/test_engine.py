"""The promises of `interlock.stores.Engine`, checked for each engine.

To add an engine, let `EngineFactory` open it. The tests use only the protocol. A server receives a
change together with the facts of its turn. So every turn in these tests that changes anything for
other engines appends a fact, as the turns of a node do.
"""

import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from interlock.errors import DigestMismatch, NotFound, Usage
from interlock.log.facts import (
    GENESIS,
    Entry,
    Header,
    commitment,
    header_hash,
    parse_header,
)
from interlock.stores import Engine, Head
from interlock.stores.shared.engine import SharedEngine
from interlock.stores.shared.locating import Located, reach
from interlock.stores.sqlite import CHUNK, LogFile, SqliteEngine
from world.databases import Server

LIMIT_S = 20.0
KEY = b"k" * 32
SALT = b"\x00salt\xff"


class EngineFactory:
    """Opens engines on one empty log, with a clock that the test sets.

    Without a server, all engines use one file. With a server, each engine has its own file."""

    def __init__(self, server: Server | None, directory: Path) -> None:
        self.server = server
        self.directory = directory
        self.clock = 1_000_000
        self._workspace = os.urandom(8).hex()
        self._nodes = 0
        self._files: list[LogFile] = []
        self._engines: list[Engine] = []

    def open(self) -> tuple[Engine, apsw.Connection]:
        """Open another engine on the log, and a connection to read it."""
        self._nodes += 1
        return self.open_again()

    def open_again(self) -> tuple[Engine, apsw.Connection]:
        """Open the last engine again, as a second process of the same node does."""
        name = "node" if self.server is None else f"node-{self._nodes}"
        directory = self.directory / name
        directory.mkdir(exist_ok=True)
        file = LogFile(str(directory), is_copy=self.server is not None)
        self._files.append(file)
        engine = self._engine(file, name)
        self._engines.append(engine)
        return engine, file.writer

    def _engine(self, file: LogFile, name: str) -> Engine:
        if self.server is None:
            return SqliteEngine(file, self._now)
        remote = reach(Located(self.server.url, self._workspace, name))
        return SharedEngine(file, remote, KEY, name, self._now)

    def _now(self) -> int:
        return self.clock

    def close(self) -> None:
        for engine in self._engines:
            engine.close()
        for file in self._files:
            file.close()


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def engines(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EngineFactory]:
    """An empty log of each kind of engine."""
    fixture = {"sqlite": None, "postgres": "postgres", "redis": "valkey"}[request.param]
    engines = EngineFactory(request.getfixturevalue(fixture) if fixture else None, tmp_path)
    yield engines
    engines.close()


class Log:
    """One engine, and the steps that tests repeat. A read outside a turn first copies the entries
    of the other engines."""

    def __init__(self, engines: EngineFactory, opened: tuple[Engine, apsw.Connection]) -> None:
        self.engines = engines
        self.engine, self.db = opened

    def _catch_up(self) -> None:
        if isinstance(self.engine, SharedEngine) and not self.db.in_transaction:
            with self.engine.arriving() as more:
                assert not more

    def head(self) -> Head:
        self._catch_up()
        return self.engine.head(self.db)

    def append(self, *bodies: bytes | None) -> list[int]:
        """Append a fact for each body, in one turn."""
        with self.engine.turn():
            return self.append_within(*bodies)

    def append_within(self, *bodies: bytes | None, **outcome: Any) -> list[int]:
        head = self.head()
        now = self.engine.now(head)
        first = head.seq + 1
        for body in bodies:
            salt = SALT if body is not None else None
            bound = commitment(SALT, body) if body is not None else None
            fact = Header("team", 0, head.seq + 1, now, "noted", "otto", outcome, head.hash, bound)
            header = fact.encode()
            self.engine.append(Entry(fact.seq, header, salt, body))
            head = Head(fact.seq, header_hash(header), now, head.raw)
        self.engine.advance(head)
        return list(range(first, head.seq + 1))

    def facts(self, after: int = 0) -> list[tuple[int, bytes]]:
        self._catch_up()
        return list(self.engine.follow(self.db, after))

    def seqs(self, after: int = 0) -> list[int]:
        return [seq for seq, _ in self.facts(after)]

    def body(self, seq: int) -> bytes | None:
        self._catch_up()
        found = self.engine.body(self.db, seq)
        return found[1] if found else None

    def forget(self, seq: int) -> None:
        """Delete a body, and append a fact about it."""
        with self.engine.turn():
            self.engine.forget(seq)
            self.append_within(None)

    def upload(self, name: str, *chunks: bytes) -> str:
        """Store the chunks, and return the digest of all of them."""
        with self.engine.turn():
            for number, chunk in enumerate(chunks):
                self.engine.put_chunk(name, number, chunk)
        return hashlib.sha256(b"".join(chunks)).hexdigest()

    def keep(self, name: str, sha256: str) -> int:
        """Join an upload, and append a fact that uses it."""
        with self.engine.turn():
            size = self.engine.join(name, sha256)
            (seq,) = self.append_within(b"see the blob")
            self.engine.use_blob(sha256, seq)
            return size

    def blob(self, sha256: str, start: int, stop: int) -> bytes:
        self._catch_up()
        return self.engine.blob(self.db, sha256, start, stop)


@pytest.fixture
def log(engines: EngineFactory) -> Log:
    """The first engine on the log."""
    return Log(engines, engines.open())


@pytest.fixture
def second_process(engines: EngineFactory, log: Log) -> Log:
    """A second engine of the same node."""
    return Log(engines, engines.open_again())


@pytest.fixture
def other(engines: EngineFactory, log: Log) -> Log:
    """A second engine on the same log. It belongs to another node, if the log has several."""
    return Log(engines, engines.open())


class Stop(Exception):
    """Raised by a test to leave a turn."""


# --- order


def test_an_empty_log_has_its_head_at_zero(log: Log) -> None:
    assert log.head() == Head(0, GENESIS, 0, 0)
    assert log.facts() == []


def test_facts_are_returned_in_order_and_byte_for_byte(log: Log) -> None:
    log.append(None, None)
    log.append(None)
    assert log.seqs() == [1, 2, 3]
    headers = [Header("team", 0, 1, log.engines.clock, "noted", "otto", {}, GENESIS)]
    for seq in (2, 3):
        before = header_hash(headers[-1].encode())
        headers.append(headers[-1]._replace(seq=seq, prev=before))
    assert [header for _, header in log.facts()] == [header.encode() for header in headers]


def test_follow_starts_after_the_given_position(log: Log) -> None:
    log.append(*[None] * 5)
    assert log.seqs(after=3) == [4, 5]
    assert log.facts(after=5) == []
    assert log.facts(after=99) == []


def test_advancing_moves_the_head(log: Log) -> None:
    log.append(None, None, None)
    last = header_hash(log.facts()[-1][1])
    assert log.head()[:3] == (3, last, log.engines.clock)


def test_a_position_cannot_be_appended_twice(log: Log) -> None:
    log.append(None)
    before = log.facts()
    with pytest.raises(Exception), log.engine.turn():  # noqa: B017 - each engine raises its own error
        log.engine.append(Entry(1, b"another", None, None))
    assert log.facts() == before


def test_a_header_may_contain_any_text(log: Log, other: Log) -> None:
    strange = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x20000)]))
    with log.engine.turn():
        log.append_within(None, text=strange)
    ((_, header),) = log.facts()
    assert parse_header(header).outcome == {"text": strange}
    assert other.facts() == [(1, header)]


# --- the turn


def test_an_exception_rolls_back_everything_that_a_turn_did(log: Log) -> None:
    (kept,) = log.append(b"kept")
    before = log.head(), log.facts()
    sha256 = log.upload("upload", b"chunk")

    def turn() -> None:
        with log.engine.turn():
            log.append_within(b"lost", b"lost too")
            log.engine.forget(kept)
            log.engine.join("upload", sha256)
            log.engine.use_blob(sha256, kept)
            log.engine.put_chunk("other", 1, b"more")
            raise Stop

    with pytest.raises(Stop):
        turn()
    assert (log.head(), log.facts()) == before
    assert log.body(kept) == b"kept"
    assert log.body(kept + 1) is None
    with pytest.raises(NotFound):
        log.blob(sha256, 0, 1)
    assert log.keep("upload", sha256) == len(b"chunk")


def test_the_turn_can_be_taken_again_after_an_exception(log: Log) -> None:
    with pytest.raises(Stop), log.engine.turn():
        raise Stop
    assert log.append(None) == [1]


def test_a_turn_that_does_nothing_does_not_change_the_log(log: Log) -> None:
    log.append(None)
    before = log.head()
    with log.engine.turn():
        pass
    assert log.head() == before


def test_a_turn_without_waiting_fails_while_another_process_has_it(
    log: Log, second_process: Log
) -> None:
    with log.engine.turn(), pytest.raises(BlockingIOError), second_process.engine.turn(wait=False):
        pass
    with second_process.engine.turn(wait=False):
        pass


def test_only_one_engine_at_a_time_has_the_turn(log: Log, engines: EngineFactory) -> None:
    ready, inside = threading.Event(), threading.Event()
    seen: list[int] = []

    def second() -> None:
        late = Log(engines, engines.open_again())
        ready.set()
        with late.engine.turn():
            inside.set()
            seen.append(late.head().seq)

    thread = threading.Thread(target=second)
    with log.engine.turn():
        thread.start()
        assert ready.wait(LIMIT_S)
        log.append_within(None, None)
        assert not inside.is_set()
    thread.join(LIMIT_S)
    assert seen == [2]


def test_engines_on_one_log_see_each_others_facts(log: Log, other: Log) -> None:
    assert log.append(b"one") == [1]
    assert other.append(b"two", b"three") == [2, 3]
    assert log.append(b"four") == [4]
    assert log.facts() == other.facts()
    assert log.head() == other.head()
    assert [log.body(seq) for seq in (1, 2, 3, 4)] == [b"one", b"two", b"three", b"four"]


def test_other_engines_do_not_see_an_unfinished_turn(log: Log, other: Log) -> None:
    with log.engine.turn():
        log.append_within(b"soon")
        assert other.head().seq == 0
        assert other.facts() == []
    assert other.seqs() == [1]


# --- bodies


def test_a_body_is_returned_with_its_salt(log: Log) -> None:
    whole = bytes(range(256)) * 5000
    log.append(whole)
    assert log.engine.body(log.db, 1) == (SALT, whole)


def test_an_empty_body_differs_from_a_missing_body(log: Log, other: Log) -> None:
    first, second = log.append(b"", None)
    for one in (log, other):
        assert one.body(first) == b""
        assert one.body(second) is None


def test_forgetting_deletes_the_body_and_keeps_the_fact(log: Log) -> None:
    log.append(b"one", b"two")
    before = log.facts()
    log.forget(1)
    assert log.body(1) is None
    assert log.body(2) == b"two"
    assert log.facts()[:2] == before


def test_an_engine_that_joins_later_does_not_get_a_forgotten_body(
    log: Log, engines: EngineFactory
) -> None:
    log.append(b"one", b"two")
    log.forget(1)
    late = Log(engines, engines.open())
    assert [late.body(seq) for seq in late.seqs()] == [None, b"two", None]


def test_forgetting_a_missing_body_changes_nothing(log: Log) -> None:
    log.append(None, b"two")
    with log.engine.turn():
        log.engine.forget(1)
        log.engine.forget(99)
    assert log.body(2) == b"two"


# --- time


def test_log_time_is_the_clock_while_the_clock_is_ahead(log: Log) -> None:
    log.append(None)
    log.engines.clock += 5_000
    assert log.engine.now(log.head()) == log.engines.clock


def test_log_time_never_goes_back_when_the_clock_is_set_back(log: Log) -> None:
    log.append(None)
    before = log.head()
    log.engines.clock -= 500_000
    assert log.engine.now(log.head()) >= before.at
    log.append(None)
    assert log.head().at >= before.at


def test_log_time_ahead_of_the_clock_advances_at_half_speed(log: Log) -> None:
    log.append(None)
    top = log.head().at
    log.engines.clock -= 500_000
    log.append(None)
    assert log.head().at == top
    log.engines.clock += 1_000
    assert log.engine.now(log.head()) == top + 500
    log.append(None)
    log.engines.clock += 1_000
    assert log.engine.now(log.head()) == top + 1_000


def test_half_speed_starts_at_a_set_back_that_note_clock_recorded(log: Log) -> None:
    log.append(None)
    before = log.head()
    log.engines.clock -= 500_000
    with log.engine.turn():
        log.engine.note_clock(log.head())
    assert log.head()[:3] == before[:3]
    log.engines.clock += 10_000
    assert log.engine.now(log.head()) == before.at + 5_000


def test_note_clock_changes_nothing_if_the_clock_was_not_set_back(log: Log) -> None:
    log.append(None)
    before = log.head()
    log.engines.clock += 10_000
    with log.engine.turn():
        log.engine.note_clock(log.head())
    assert log.head() == before


def test_log_time_is_the_clock_again_once_the_clock_has_caught_up(log: Log) -> None:
    log.append(None)
    log.engines.clock -= 10_000
    log.append(None)
    log.engines.clock += 100_000
    assert log.engine.now(log.head()) == log.engines.clock


def test_log_time_never_goes_back_however_the_clock_jumps(log: Log, other: Log) -> None:
    jumps = [0, 7, -900_000, 3, 400, -1, 10**12, 5, -(10**12), 60_000, 60_000, 0, -5, 2_000_000]
    last = 0
    for number, jump in enumerate(jumps):
        log.engines.clock += jump
        writer = (log, other)[number % 2]
        with writer.engine.turn():
            now = writer.engine.now(writer.head())
            assert now >= last, f"jump {number}"
            writer.append_within(None)
        assert writer.head().at == now
        last = now


# --- blobs


CHUNKS = (b"a" * CHUNK, b"b" * CHUNK, b"the end")
WHOLE = b"".join(CHUNKS)


def test_joined_chunks_are_one_blob(log: Log) -> None:
    sha256 = log.upload("upload", *CHUNKS)
    assert log.keep("upload", sha256) == len(WHOLE)
    assert log.blob(sha256, 0, len(WHOLE)) == WHOLE


@pytest.mark.parametrize(
    ("start", "stop"),
    [
        (0, 0),
        (0, 1),
        (5, 5),
        (CHUNK - 1, CHUNK),
        (CHUNK, CHUNK + 1),
        (CHUNK - 1, CHUNK + 1),
        (CHUNK - 3, 2 * CHUNK + 3),
        (2 * CHUNK - 1, 2 * CHUNK),
        (2 * CHUNK, len(WHOLE)),
        (len(WHOLE) - 1, len(WHOLE)),
        (len(WHOLE), len(WHOLE)),
        (0, len(WHOLE) + 100),
        (len(WHOLE) - 2, len(WHOLE) + CHUNK),
        (len(WHOLE) + 5, len(WHOLE) + 9),
    ],
)
def test_a_range_of_a_blob_equals_a_slice_of_its_bytes(log: Log, start: int, stop: int) -> None:
    sha256 = log.upload("upload", *CHUNKS)
    log.keep("upload", sha256)
    assert log.blob(sha256, start, stop) == WHOLE[start:stop]


def test_chunks_may_arrive_in_any_order_and_repeatedly(log: Log) -> None:
    with log.engine.turn():
        for number in (2, 0, 1):
            log.engine.put_chunk("upload", number, b"wrong at first")
        for number in (1, 2, 0):
            log.engine.put_chunk("upload", number, CHUNKS[number])
    sha256 = hashlib.sha256(WHOLE).hexdigest()
    assert log.keep("upload", sha256) == len(WHOLE)


def test_an_upload_that_became_a_blob_cannot_change(log: Log) -> None:
    sha256 = log.upload("upload", b"x")
    log.keep("upload", sha256)
    with pytest.raises(Usage), log.engine.turn():
        log.engine.put_chunk("upload", 0, b"y")
    assert log.blob(sha256, 0, 1) == b"x"


def test_a_blob_may_have_one_small_chunk(log: Log) -> None:
    sha256 = log.upload("upload", b"x")
    assert log.keep("upload", sha256) == 1
    assert log.blob(sha256, 0, 1) == b"x"


def test_join_refuses_a_changed_chunk(log: Log) -> None:
    sha256 = log.upload("upload", *CHUNKS)
    with log.engine.turn():
        log.engine.put_chunk("upload", 1, b"c" * CHUNK)
    with pytest.raises(DigestMismatch):
        log.keep("upload", sha256)
    with pytest.raises(NotFound):
        log.blob(sha256, 0, 1)


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_join_refuses_a_missing_chunk(log: Log, missing: int) -> None:
    with log.engine.turn():
        for number, chunk in enumerate(CHUNKS):
            if number != missing:
                log.engine.put_chunk("upload", number, chunk)
    # `join` accepts neither the digest of all chunks nor that of the chunks that arrived.
    arrived = b"".join(chunk for number, chunk in enumerate(CHUNKS) if number != missing)
    with pytest.raises(DigestMismatch):
        log.keep("upload", hashlib.sha256(WHOLE).hexdigest())
    if missing != 2:
        with pytest.raises(DigestMismatch):
            log.keep("upload", hashlib.sha256(arrived).hexdigest())


def test_only_the_last_chunk_may_be_short(log: Log) -> None:
    sha256 = log.upload("upload", b"short", b"a" * CHUNK)
    with pytest.raises(DigestMismatch):
        log.keep("upload", sha256)


@pytest.mark.parametrize(
    "chunks", [{0: b"a" * CHUNK, 2: b"stray"}, {0: b"short", 1: b"stray"}], ids=["gap", "short"]
)
def test_the_digest_must_cover_every_chunk_that_arrived(log: Log, chunks: dict[int, bytes]) -> None:
    with log.engine.turn():
        for number, chunk in chunks.items():
            log.engine.put_chunk("upload", number, chunk)
    with pytest.raises(DigestMismatch):
        log.keep("upload", hashlib.sha256(chunks[0]).hexdigest())


@pytest.mark.parametrize("size", [0, CHUNK + 1])
def test_a_chunk_that_is_empty_or_too_large_is_refused(log: Log, size: int) -> None:
    with pytest.raises(Usage), log.engine.turn():
        log.engine.put_chunk("upload", 0, b"x" * size)


def test_an_unknown_upload_or_blob_is_refused(log: Log) -> None:
    with pytest.raises(DigestMismatch):
        log.keep("nothing", hashlib.sha256(b"something").hexdigest())
    with pytest.raises(NotFound):
        log.blob("0" * 64, 0, 1)


def test_a_dropped_upload_cannot_be_joined(log: Log) -> None:
    sha256 = log.upload("upload", b"x")
    log.upload("another", b"y")
    with log.engine.turn():
        log.engine.drop_upload("upload")
    with pytest.raises(DigestMismatch):
        log.keep("upload", sha256)
    assert log.keep("another", hashlib.sha256(b"y").hexdigest()) == 1


def test_stale_uploads_are_dropped_and_blobs_and_newer_uploads_stay(log: Log) -> None:
    joined = log.upload("1-joined", b"joined")
    log.keep("1-joined", joined)
    stale, newer = log.upload("2-stale", b"stale"), log.upload("3-newer", b"newer")
    with log.engine.turn():
        log.engine.drop_stale("3")
    assert log.blob(joined, 0, 6) == b"joined"
    with pytest.raises(DigestMismatch):
        log.keep("2-stale", stale)
    assert log.keep("3-newer", newer) == 5


def test_equal_blobs_are_stored_once_until_the_last_use_is_forgotten(log: Log) -> None:
    sha256 = log.upload("first", b"shared")
    assert log.upload("second", b"shared") == sha256
    assert log.keep("first", sha256) == log.keep("second", sha256) == 6
    log.forget(1)
    assert log.blob(sha256, 0, 6) == b"shared"
    log.forget(2)
    with pytest.raises(NotFound):
        log.blob(sha256, 0, 6)


def test_a_forgotten_blob_can_be_uploaded_again(log: Log) -> None:
    sha256 = log.upload("first", b"again")
    log.keep("first", sha256)
    log.forget(1)
    log.upload("second", b"again")
    log.keep("second", sha256)
    assert log.blob(sha256, 0, 5) == b"again"


def test_another_engine_can_read_a_blob(log: Log, other: Log) -> None:
    sha256 = log.upload("upload", *CHUNKS)
    assert other.keep("upload", sha256) == len(WHOLE)
    assert log.blob(sha256, CHUNK - 1, CHUNK + 1) == b"ab"
