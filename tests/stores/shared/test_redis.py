"""What is Redis' own: a soft turn, which a node that is alone need not write down, and the bell by
which it is handed over."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from interlock.errors import EngineUnavailable
from interlock.stores.shared import redis as module
from interlock.stores.shared.remote import (
    Appending,
    Blob,
    HeadMoved,
    Remote,
    RemoteHead,
    Sealed,
    seal,
)
from world.commandline import until
from world.databases import ValkeyServer
from world.remotes import RedisIntruder, Remotes

LIMIT_S = 60.0


@pytest.fixture
def remotes(valkey: ValkeyServer) -> Iterator[Remotes]:
    remotes = Remotes("redis", valkey)
    yield remotes
    remotes.close()


def entry(seq: int, text: bytes) -> Sealed:
    return seal(b"key", seq, b'{"seq":%d}' % seq, (), b"salt", text)


def append(remote: Remote, name: str) -> Sealed:
    head = remote.begin(name)
    new = entry(head.seq + 1, name.encode())
    remote.append(head, Appending([new]))
    return new


def texts(remote: Remote) -> list[bytes | None]:
    return [found.body for found in remote.read(0, 100)]


# --- alone


def test_who_is_alone_begins_without_a_write(
    remotes: Remotes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ALONE_AFTER_S", 0.0)
    node, intruder = remotes(), remotes.intruder()
    append(node, "node")
    head = node.begin("node")
    assert intruder.is_turn_free()
    node.append(head, Appending([entry(2, b"again")]))
    assert texts(remotes()) == [b"node", b"again"]


def test_who_began_without_a_write_and_was_not_alone_appends_nothing(
    remotes: Remotes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ALONE_AFTER_S", 0.0)
    node, other = remotes(), remotes()
    append(node, "node")
    head = node.begin("node")
    append(other, "other")
    with pytest.raises(HeadMoved):
        node.append(head, Appending([entry(2, b"late")]))
    assert not node.leave(head)
    assert texts(node) == [b"node", b"other"]
    node.begin("node")
    assert not remotes.intruder().is_turn_free()
    node.leave()


def test_a_turn_that_was_not_written_down_is_in_nobodys_way(
    remotes: Remotes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one has it, and whoever was first has to ask again."""
    monkeypatch.setattr(module, "ALONE_AFTER_S", 0.0)
    node, other = remotes(), remotes()
    append(node, "node")
    node.begin("node")
    head = other.begin("other")
    assert not node.leave(RemoteHead(7, head.hash))
    assert not remotes.intruder().is_turn_free()
    other.append(head, Appending([entry(2, b"other")]))
    assert texts(node) == [b"node", b"other"]


def test_who_met_another_lately_writes_its_turns_down(remotes: Remotes) -> None:
    node, other = remotes(), remotes()
    append(other, "other")
    append(node, "node")
    node.begin("node")
    assert not remotes.intruder().is_turn_free()
    node.leave()


# --- what a script did before an error stays done


@pytest.mark.parametrize("key", ["queue", "bell:waiting", "uploads"])
def test_what_was_kept_is_acknowledged_whatever_is_wrong_behind_it(
    remotes: Remotes, key: str
) -> None:
    node, intruder = remotes(), remotes.intruder()
    assert isinstance(intruder, RedisIntruder)
    head = node.begin("node")
    node.put_chunk("upload", 0, b"bytes")
    prefix = f"interlock:{{{remotes.name}}}:"
    intruder.db.rpush(prefix + "queue", "waiting")
    intruder.db.set(prefix + key, "no list")
    node.append(head, Appending([entry(1, b"kept")], [Blob("0" * 64, "upload", 5)]))
    assert texts(remotes()) == [b"kept"]
    assert node.upload_of("0" * 64) == "upload"


def test_what_could_not_be_kept_has_taken_nothing_away(remotes: Remotes) -> None:
    node, intruder = remotes(), remotes.intruder()
    assert isinstance(intruder, RedisIntruder)
    append(node, "node")
    intruder.db.set(f"interlock:{{{remotes.name}}}:kept", "no set")
    batch = Appending([entry(2, b"no")], [Blob("0" * 64, "upload", 5)], erased=[1])
    with pytest.raises(EngineUnavailable, match="Nothing was done"):
        node.append(node.begin("node"), batch)
    assert texts(remotes()) == [b"node"]
    assert node.upload_of("0" * 64) is None


def test_a_full_memory_is_not_taken_for_an_id_that_was_used(remotes: Remotes) -> None:
    """The log would be copied, and by that the limit passed."""
    node, intruder = remotes(), remotes.intruder()
    assert isinstance(intruder, RedisIntruder)
    append(node, "node")
    head = node.begin("node")
    intruder.db.config_set("maxmemory", "1")
    try:
        with pytest.raises(EngineUnavailable, match="maxmemory"):
            node.append(head, Appending([seal(b"key", 2, b'{"seq":2}')]))
    finally:
        intruder.db.config_set("maxmemory", "0")
    assert texts(remotes()) == [b"node"]


# --- the bell


def kept(holder: Remote) -> bool:
    """Keeps the turn from ending while others are slow."""
    holder.stay()
    return True


@pytest.mark.parametrize("rung", [b"1", b"", b"what \xff", b"9" * 5000 + b"-0 hash"])
def test_a_bell_that_says_nothing_is_not_heard(
    remotes: Remotes, monkeypatch: pytest.MonkeyPatch, rung: bytes
) -> None:
    monkeypatch.setattr(module, "SLOT_MS", 1500)
    holder, waiting, intruder = remotes(), remotes(), remotes.intruder()
    assert isinstance(intruder, RedisIntruder)
    queue, bell = (f"interlock:{{{remotes.name}}}:{key}" for key in ("queue", "bell:waiting"))
    head = holder.begin("holder")
    intruder.db.rpush(bell, rung)
    with ThreadPoolExecutor(1) as thread:
        begun = thread.submit(waiting.begin, "waiting")
        until(lambda: kept(holder) and intruder.db.llen(queue) and not intruder.db.exists(bell))
        holder.append(head, Appending([new := entry(1, b"holder")]))
        assert begun.result(LIMIT_S)[:2] == (1, new.hash)
    waiting.leave()


def test_the_turn_comes_with_the_end_of_the_log_and_the_engines_time(
    remotes: Remotes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SLOT_MS", 1500)
    holder, waiting, intruder = remotes(), remotes(), remotes.intruder()
    assert isinstance(intruder, RedisIntruder)
    head = holder.begin("holder")
    with ThreadPoolExecutor(1) as thread:
        begun = thread.submit(waiting.begin, "waiting")
        until(lambda: kept(holder) and intruder.db.llen(f"interlock:{{{remotes.name}}}:queue"))
        holder.append(head, Appending([new := entry(1, b"holder")]))
        found = begun.result(LIMIT_S)
    assert found[:2] == (1, new.hash)
    assert head.now <= found.now <= waiting.remote_head().now
    waiting.append(found, Appending([entry(2, b"waiting")]))
    assert texts(holder) == [b"holder", b"waiting"]
