"""The parts of the Redis remote that other remotes lack. They are a soft turn, which a node that is
alone need not write, and the bell that hands the turn over."""

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


def test_a_node_that_is_alone_takes_the_turn_without_a_write(
    remotes: Remotes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ALONE_AFTER_S", 0.0)
    node, intruder = remotes(), remotes.intruder()
    append(node, "node")
    head = node.begin("node")
    assert intruder.is_turn_free()
    node.append(head, Appending([entry(2, b"again")]))
    assert texts(remotes()) == [b"node", b"again"]


def test_a_turn_without_a_write_appends_nothing_after_another_nodes_append(
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


def test_a_turn_without_a_write_does_not_block_other_nodes(
    remotes: Remotes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other node gets the turn, and the first node must take it again."""
    monkeypatch.setattr(module, "ALONE_AFTER_S", 0.0)
    node, other = remotes(), remotes()
    append(node, "node")
    node.begin("node")
    head = other.begin("other")
    assert not node.leave(RemoteHead(7, head.hash))
    assert not remotes.intruder().is_turn_free()
    other.append(head, Appending([entry(2, b"other")]))
    assert texts(node) == [b"node", b"other"]


def test_a_node_that_recently_noticed_another_writes_its_turns(remotes: Remotes) -> None:
    node, other = remotes(), remotes()
    append(other, "other")
    append(node, "node")
    node.begin("node")
    assert not remotes.intruder().is_turn_free()
    node.leave()


# --- scripts are not rolled back after an error


@pytest.mark.parametrize("key", ["queue", "bell:waiting", "uploads"])
def test_a_stored_batch_is_acknowledged_even_if_later_steps_fail(
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


def test_a_batch_that_cannot_be_stored_deletes_nothing(remotes: Remotes) -> None:
    node, intruder = remotes(), remotes.intruder()
    assert isinstance(intruder, RedisIntruder)
    append(node, "node")
    intruder.db.set(f"interlock:{{{remotes.name}}}:kept", "no set")
    batch = Appending([entry(2, b"no")], [Blob("0" * 64, "upload", 5)], erased=[1])
    with pytest.raises(EngineUnavailable, match="Nothing was done"):
        node.append(node.begin("node"), batch)
    assert texts(remotes()) == [b"node"]
    assert node.upload_of("0" * 64) is None


def test_full_memory_is_not_mistaken_for_a_used_id(remotes: Remotes) -> None:
    """Otherwise the script would copy the log, and exceed the limit by that."""
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


def renewed(holder: Remote) -> bool:
    """Renew the turn, so that it does not expire while other threads are slow."""
    holder.stay()
    return True


@pytest.mark.parametrize("rung", [b"1", b"", b"what \xff", b"9" * 5000 + b"-0 hash"])
def test_a_bell_with_malformed_content_is_ignored(
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
        until(lambda: renewed(holder) and intruder.db.llen(queue) and not intruder.db.exists(bell))
        holder.append(head, Appending([new := entry(1, b"holder")]))
        assert begun.result(LIMIT_S)[:2] == (1, new.hash)
    waiting.leave()


def test_begin_returns_the_head_and_the_engines_time_after_a_wait(
    remotes: Remotes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SLOT_MS", 1500)
    holder, waiting, intruder = remotes(), remotes(), remotes.intruder()
    assert isinstance(intruder, RedisIntruder)
    head = holder.begin("holder")
    with ThreadPoolExecutor(1) as thread:
        begun = thread.submit(waiting.begin, "waiting")
        until(lambda: renewed(holder) and intruder.db.llen(f"interlock:{{{remotes.name}}}:queue"))
        holder.append(head, Appending([new := entry(1, b"holder")]))
        found = begun.result(LIMIT_S)
    assert found[:2] == (1, new.hash)
    assert head.now <= found.now <= waiting.remote_head().now
    waiting.append(found, Appending([entry(2, b"waiting")]))
    assert texts(holder) == [b"holder", b"waiting"]
