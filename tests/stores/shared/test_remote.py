"""The promises of `stores.shared.remote.Remote`, checked for each remote on real servers."""

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from interlock.errors import EngineUnavailable
from interlock.log.facts import GENESIS
from interlock.stores.shared.postgres import PostgresRemote
from interlock.stores.shared.redis import RedisRemote
from interlock.stores.shared.remote import (
    AnswerLost,
    Appending,
    Blob,
    HeadMoved,
    Remote,
    RemoteHead,
    Sealed,
    is_genuine,
    seal,
)
from world.databases import PostgresServer, ValkeyServer
from world.remotes import Remotes
from world.tcp_proxy import TcpProxy

LIMIT_S = 60.0
KEY = b"the workspace's key"
FALSE_KEY = b"another key"
EVERY_BYTE = bytes(range(256))
NOWHERE = 9  # the discard port, where no server listens


def sealed(
    seq: int,
    body: bytes | None = None,
    *,
    keeps: tuple[str, ...] = (),
    key: bytes = KEY,
    text: str = "",
) -> Sealed:
    """Return an entry whose header contains its position."""
    header = f'{{"seq":{seq},"text":"{text}"}}'.encode()
    return seal(key, seq, header, keeps, None if body is None else b"salt", body)


def append(remote: Remote, *bodies: bytes | None, **batch: Any) -> list[Sealed]:
    """Take a turn and append an entry for each body."""
    head = remote.begin("node")
    entries = [sealed(seq, body) for seq, body in enumerate(bodies, head.seq + 1)]
    remote.append(head, Appending(entries, **batch))
    return entries


def upload(remote: Remote, name: str, *chunks: bytes) -> Blob:
    """Store chunks in a turn that appends nothing."""
    remote.begin("node")
    for number, chunk in enumerate(chunks):
        remote.put_chunk(name, number, chunk)
    remote.leave()
    whole = b"".join(chunks)
    return Blob(hashlib.sha256(whole).hexdigest(), name, len(whole))


def log(remote: Remote) -> list[Sealed]:
    return remote.read(0, 10_000)


def chunks(remote: Remote, upload: str) -> list[tuple[int, bytes]]:
    return list(remote.chunks(upload))


def at_once(works: Iterable[Callable[[], Any]]) -> list[Any]:
    """Run each work in its own thread, and return the results."""
    listed = list(works)
    with ThreadPoolExecutor(len(listed)) as threads:
        return [done.result(LIMIT_S) for done in [threads.submit(work) for work in listed]]


def until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + LIMIT_S
    while not (answer := condition()):
        assert time.monotonic() < deadline, "the condition did not become true in time"
        threading.Event().wait(0.01)
    return answer


def is_reached(call: Callable[[], Any]) -> bool:
    try:
        call()
    except EngineUnavailable:
        return False
    return True


# --- order


def test_an_empty_log_has_its_head_at_zero(remote: Remotes) -> None:
    found = remote().remote_head()
    assert (found.seq, found.hash) == (0, GENESIS)
    assert log(remote()) == []


def test_entries_are_returned_in_order_and_byte_for_byte(remote: Remotes) -> None:
    writer, reader = remote(), remote()
    first = [sealed(1, EVERY_BYTE), sealed(2), sealed(3, b"", keeps=("a" * 64, "b" * 64))]
    second = [sealed(4, b"\n" * 100_000, text="Schlüssel 鍵")]
    writer.append(writer.begin("node"), Appending(first))
    writer.append(writer.begin("node"), Appending(second))
    assert log(reader) == first + second
    assert all(is_genuine(KEY, entry) for entry in log(reader))


def test_read_starts_after_a_position_and_ends_at_a_limit(remote: Remotes) -> None:
    entries = append(remote(), *[b"body"] * 12)
    reader = remote()
    assert reader.read(3, 2) == entries[3:5]
    assert reader.read(11, 100) == entries[11:]
    assert reader.read(12, 100) == []


def test_begin_and_remote_head_return_the_last_entry(remote: Remotes) -> None:
    entries = append(remote(), b"one", b"two")
    writer = remote()
    assert writer.begin("node")[:2] == (2, entries[1].hash)
    writer.leave()
    assert writer.remote_head()[:2] == (2, entries[1].hash)


def test_the_time_is_the_engines_clock(remote: Remotes) -> None:
    writer = remote()
    before = time.time_ns() // 1_000_000
    shown = [writer.remote_head().now, writer.begin("node").now, remote().remote_head().now]
    after = time.time_ns() // 1_000_000
    writer.leave()
    assert [before, *shown, after] == sorted([before, *shown, after])


def test_workspaces_on_one_server_are_separate(remote: Remotes) -> None:
    ours, theirs = remote(), remote(workspace=remote.name + "-2")
    entry = append(ours, b"ours")
    blob = upload(ours, "upload", b"bytes")
    append(ours, b"kept", blobs=[blob])
    ours.beat("node", b"here")
    assert theirs.remote_head().seq == 0
    assert log(theirs) == []
    assert theirs.upload_of(blob.sha256) is None
    assert theirs.beat("other", b"there") == {"other": b"there"}
    append(theirs, b"theirs", erased=[1], dropped=[blob.sha256])
    assert log(ours)[:1] == entry
    assert chunks(ours, "upload") == [(0, b"bytes")]


# --- compare and append


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(lambda e: RemoteHead(0, GENESIS), id="the beginning"),
        pytest.param(lambda e: RemoteHead(2, e[1].hash), id="an earlier entry"),
        pytest.param(lambda e: RemoteHead(2, e[2].hash), id="the last hash elsewhere"),
        pytest.param(lambda e: RemoteHead(3, e[1].hash), id="another hash"),
        pytest.param(lambda e: RemoteHead(3, ""), id="no hash"),
        pytest.param(lambda e: RemoteHead(4, e[2].hash), id="an entry to come"),
    ],
)
def test_a_batch_after_any_position_but_the_head_is_not_stored(
    remote: Remotes, after: Callable[[Sequence[Sealed]], RemoteHead]
) -> None:
    writer = remote()
    entries = append(writer, b"one", b"two")
    blob, other = upload(writer, "first", b"kept"), upload(writer, "second", b"not kept")
    entries += append(writer, b"three", blobs=[blob])
    kept = log(writer)
    stale = after(entries)
    writer.begin("node")
    late = Appending([sealed(stale.seq + 1, b"late")], [other], [1], [blob.sha256])
    with pytest.raises(HeadMoved):
        writer.append(stale, late)
    assert log(writer) == kept
    assert (writer.upload_of(blob.sha256), writer.upload_of(other.sha256)) == ("first", None)
    assert chunks(writer, "first") == [(0, b"kept")]
    assert remote.intruder().is_turn_free()
    assert append(writer, b"four")[0].seq == 4


def test_an_empty_log_accepts_no_batch_after_a_later_position(remote: Remotes) -> None:
    writer = remote()
    writer.begin("node")
    with pytest.raises(HeadMoved):
        writer.append(RemoteHead(1, "f" * 64), Appending([sealed(2)]))
    assert log(writer) == []


def test_a_batch_without_entries_is_also_compared_with_the_head(remote: Remotes) -> None:
    writer = remote()
    append(writer, b"secret", b"other")
    head = writer.begin("node")
    writer.append(head, Appending(erased=[1]))
    assert [entry.body for entry in log(writer)] == [None, b"other"]
    writer.begin("node")
    with pytest.raises(HeadMoved):
        writer.append(RemoteHead(1, head.hash), Appending(erased=[2]))
    assert [entry.body for entry in log(writer)] == [None, b"other"]


@pytest.mark.parametrize("count", [2, 8])
def test_concurrent_appends_leave_no_gaps_and_no_duplicates(remote: Remotes, count: int) -> None:
    def work(name: str) -> list[bytes]:
        writer, kept = remote(), list[bytes]()
        while len(kept) < 30:
            bodies = [f"{name} {len(kept) + more}".encode() for more in range(3)]
            head = writer.begin(name)
            entries = [sealed(seq, body) for seq, body in enumerate(bodies, head.seq + 1)]
            try:
                writer.append(head, Appending(entries))
            except HeadMoved:
                continue
            kept += bodies
        return kept

    names = [f"node-{number}" for number in range(count)]
    kept = at_once([lambda name=name: work(name) for name in names])  # type: ignore[misc]
    found = log(remote())
    assert [entry.seq for entry in found] == list(range(1, 30 * count + 1))
    assert found == [sealed(entry.seq, entry.body) for entry in found]
    for name, bodies in zip(names, kept, strict=True):
        mine = [entry.body for entry in found if (entry.body or b"").startswith(name.encode())]
        assert mine == bodies


# --- the turn


def test_leaving_a_turn_reports_whether_the_head_has_moved(
    remote: Remotes,
) -> None:
    ours, other = remote(), remote()
    head = ours.begin("ours")
    assert ours.leave(head)
    head = ours.begin("ours")
    other.append(
        other.begin("other"), Appending([sealed(head.seq + 1)])
    )  # ours was suspended too long
    assert not ours.leave(head)


def test_no_node_starves(remote: Remotes) -> None:
    turns, together = 200, threading.Barrier(4)

    def work(name: str) -> None:
        writer = remote()
        writer.remote_head()
        together.wait(LIMIT_S)
        while True:
            head = writer.begin(name)
            if head.seq >= turns:
                writer.leave()
                return
            try:
                writer.append(head, Appending([sealed(head.seq + 1, name.encode())]))
            except HeadMoved:
                continue

    names = [f"node-{number}" for number in range(4)]
    at_once([lambda name=name: work(name) for name in names])  # type: ignore[misc]
    shares = Counter(entry.body for entry in log(remote()))
    assert sum(shares.values()) == turns
    assert {name: shares[name.encode()] >= turns / 16 for name in names} == dict.fromkeys(
        names, True
    ), shares


# On a busy machine a test may take longer than the slot of a turn on Redis.
LONG_SLOT = ("interlock.stores.shared.redis.SLOT_MS", 60_000)


def test_leaving_releases_the_turn(remote: Remotes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*LONG_SLOT)
    writer, intruder = remote(), remote.intruder()
    writer.begin("node")
    assert not intruder.is_turn_free()
    writer.leave()
    assert intruder.is_turn_free()
    writer.leave()
    assert append(remote(), b"another")[0].seq == 1


def test_appending_releases_the_turn(remote: Remotes) -> None:
    append(remote(), b"one")
    assert remote.intruder().is_turn_free()


def test_a_node_that_is_suspended_in_its_turn_loses_it(remote: Remotes) -> None:
    sleeper, other = remote(), remote()
    head = sleeper.begin("sleeper")
    entries = append(other, b"other")
    with pytest.raises(HeadMoved):
        sleeper.append(head, Appending([sealed(1, b"sleeper")]))
    assert log(other) == entries
    assert append(sleeper, b"awake")[0].seq == 2


def test_a_node_that_leaves_late_does_not_end_the_turn_of_another(
    remote: Remotes, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeper, other = remote(), remote()
    sleeper.begin("sleeper")
    monkeypatch.setattr(*LONG_SLOT)
    head = other.begin("other")
    sleeper.leave()
    assert not remote.intruder().is_turn_free()
    other.append(head, Appending([sealed(1, b"other")]))


# --- failures of the connection and the server


def cut(remote: Remotes, proxy: TcpProxy, entry: Sealed, *, arrives: bool) -> None:
    """Cut the connection at the point after which the outcome is unknown."""
    needle = b"COMMIT" if remote.kind == "postgres" else entry.mac.encode()
    proxy.cut_at(needle, arrives=arrives)


@pytest.mark.parametrize("arrives", [True, False], ids=["kept", "not kept"])
def test_a_lost_answer_raises_answer_lost(remote: Remotes, arrives: bool) -> None:
    with TcpProxy(remote.server.port) as proxy:
        writer = remote(port=proxy.port)
        append(writer, b"one")
        head = writer.begin("node")
        entry = sealed(2, b"two")
        cut(remote, proxy, entry, arrives=arrives)
        with pytest.raises(AnswerLost):
            writer.append(head, Appending([entry]))
        until(remote.intruder().is_turn_free)
        assert (entry in log(remote())) is arrives
        seq = until(lambda: is_reached(writer.remote_head)) and append(writer, b"next")[0].seq
        assert seq == (3 if arrives else 2)


def test_a_connection_that_ended_in_the_turn_leaves_a_known_outcome(remote: Remotes) -> None:
    """Either the turn ended with the connection, or it did not depend on it."""
    writer = remote()
    append(writer, b"one")
    head = writer.begin("node")
    remote.intruder().cut()
    expected = [b"one", b"two"]
    try:
        writer.append(head, Appending([sealed(2, b"two")]))
    except HeadMoved:
        expected.remove(b"two")
    assert [entry.body for entry in log(remote())] == expected
    assert append(writer, b"next")[0].seq == len(expected) + 1


def verbs(remote: Remote) -> dict[str, Callable[[], Any]]:
    return {
        "begin": lambda: remote.begin("node"),
        "remote_head": remote.remote_head,
        "read": lambda: remote.read(0, 1),
        "wait": lambda: remote.wait(0, 0.01),
        "set_aside": lambda: remote.set_aside(sealed(1, key=FALSE_KEY)),
        "aside": remote.aside,
        "put_chunk": lambda: remote.put_chunk("upload", 0, b"data"),
        "drop_upload": lambda: remote.drop_upload("upload"),
        "drop_stale": lambda: remote.drop_stale("upload"),
        "chunks": lambda: list(remote.chunks("upload")),
        "upload_of": lambda: remote.upload_of("a" * 64),
        "beat": lambda: remote.beat("node", b"about"),
        "hazards": remote.hazards,
    }


def test_the_error_for_an_unreachable_server_names_the_server(remote: Remotes) -> None:
    secret = getattr(remote.server, "password", "no password")
    for verb in verbs(remote(port=NOWHERE)).values():
        with pytest.raises(EngineUnavailable) as refused:
            verb()
        assert f"127.0.0.1:{NOWHERE}" in refused.value.message
        assert secret not in refused.value.message
        assert "\n" not in refused.value.message
    remote(port=NOWHERE).leave()


@pytest.mark.parametrize("verb", ["begin", "remote_head", "read", "wait", "put_chunk"])
def test_a_server_that_does_not_answer_is_unavailable(remote: Remotes, verb: str) -> None:
    node = remote()
    append(node, b"one")
    verbs(node)["wait"]()
    remote.server.pause()
    try:
        with pytest.raises(EngineUnavailable):
            verbs(node)[verb]()
    finally:
        remote.server.resume()
    assert until(lambda: is_reached(node.remote_head))
    assert append(node, b"two")[0].seq == 2


def test_a_server_that_stops_answering_in_the_turn_stores_only_in_doubt(remote: Remotes) -> None:
    """The server may store the entry only if `append` raises AnswerLost."""
    writer = remote()
    append(writer, b"one")
    head = writer.begin("node")
    remote.server.pause()
    try:
        with pytest.raises((AnswerLost, HeadMoved, EngineUnavailable)) as trouble:
            writer.append(head, Appending([sealed(2, b"two")]))
    finally:
        remote.server.resume()
    until(lambda: is_reached(writer.remote_head))
    append(writer, b"next")
    bodies = [entry.body for entry in log(remote())]
    assert bodies in ([b"one", b"next"], [b"one", b"two", b"next"])
    assert b"two" not in bodies or trouble.type is AnswerLost


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_restarted_server_has_everything(own_remote: Remotes, end: str) -> None:
    writer, reader = own_remote(), own_remote()
    append(writer, b"one", None, erased=[])
    blob = upload(writer, "upload", b"some ", b"bytes")
    append(writer, b"three", blobs=[blob])
    kept = log(reader)
    reader.wait(0, 0.01)
    getattr(own_remote.server, end)()
    with pytest.raises(EngineUnavailable):
        writer.begin("node")
    own_remote.server.start()
    for node in (writer, reader, own_remote()):
        assert until(lambda node=node: is_reached(node.remote_head))  # type: ignore[misc]
        assert log(node) == kept
        assert node.upload_of(blob.sha256) == "upload"
        assert chunks(node, "upload") == [(0, b"some "), (1, b"bytes")]
    assert append(writer, b"four")[0].seq == 4
    assert until(lambda: is_reached(lambda: reader.wait(3, 0.01)))


def test_calls_after_close_fail(remote: Remotes) -> None:
    node = remote()
    append(node, b"one")
    node.wait(0, 0.01)
    node.close()
    for verb in verbs(node).values():
        with pytest.raises(EngineUnavailable):
            verb()
    node.leave()
    node.close()
    assert [entry.body for entry in log(remote())] == [b"one"]


# --- entries of intruders


@pytest.mark.parametrize("place", [3, 4, 1_000_000], ids=["next", "one too far", "far ahead"])
def test_a_forged_entry_is_set_aside_and_the_log_goes_on(remote: Remotes, place: int) -> None:
    writer = remote()
    kept = append(writer, b"one", b"two")
    forged = sealed(place, b"forged", key=FALSE_KEY, text="forged")
    remote.intruder().put(forged)
    head = writer.begin("node")
    assert (head.seq, head.hash) == (place, forged.hash)
    with pytest.raises(HeadMoved):
        writer.append(RemoteHead(2, kept[1].hash), Appending([sealed(3, b"three")]))
    (found,) = writer.read(2, 10)
    assert found == forged
    assert not is_genuine(KEY, found)
    writer.set_aside(found)
    assert (remote().aside(), log(remote())) == (1, kept)
    assert append(writer, b"three", b"four") == log(writer)[2:]
    assert [entry.seq for entry in log(writer)] == [1, 2, 3, 4]


@pytest.mark.parametrize("length", [0, 2])
def test_a_malformed_entry_is_read_and_set_aside(remote: Remotes, length: int) -> None:
    writer = remote()
    kept = append(writer, *[b"body"] * length) if length else []
    writer.remote_head()
    remote.intruder().put_nonsense(length + 1)
    assert writer.remote_head()[:2] != (length, kept[-1].hash if kept else GENESIS)
    (found,) = writer.read(length, 10)
    assert not is_genuine(KEY, found)
    writer.set_aside(found)
    assert (writer.aside(), log(writer)) == (1, kept)
    assert append(writer, b"next")[0].seq == length + 1
    assert all(is_genuine(KEY, entry) for entry in log(writer))


@pytest.mark.parametrize(
    "change",
    [
        {"hash": "id 9-9"},
        {"hash": "id id 9-9"},
        {"hash": ""},
        {"hash": "Schlüssel 鍵"},
        {"mac": ""},
        {"mac": "Schlüssel 鍵"},
        {"keeps": ("", "", "x")},
        {"header": b""},
        {"header": EVERY_BYTE},
    ],
    ids=str,
)
def test_an_entry_with_invalid_fields_is_set_aside(remote: Remotes, change: dict[str, Any]) -> None:
    writer = remote()
    kept = append(writer, b"one")
    remote.intruder().put(sealed(2, key=FALSE_KEY)._replace(**change))
    (found,) = writer.read(1, 10)
    assert not is_genuine(KEY, found)
    writer.set_aside(found)
    assert (writer.aside(), log(writer)) == (1, kept)
    assert append(writer, b"two")[0].seq == 2


def test_several_forged_entries_are_all_set_aside(remote: Remotes) -> None:
    writer, intruder = remote(), remote.intruder()
    kept = append(writer, b"one")
    for seq in (2, 3, 7):
        intruder.put(sealed(seq, key=FALSE_KEY))
    for entry in reversed(writer.read(1, 10)):
        writer.set_aside(entry)
    assert (writer.aside(), log(writer)) == (3, kept)
    assert append(writer, b"two")[0].seq == 2


def test_an_entry_that_was_replaced_meanwhile_is_not_set_aside(remote: Remotes) -> None:
    writer = remote()
    append(writer, b"one")
    forged = sealed(2, b"forged", key=FALSE_KEY)
    remote.intruder().put(forged)
    at_once([lambda: remote().set_aside(forged)] * 3)
    genuine = append(writer, b"genuine")
    writer.set_aside(forged)
    writer.set_aside(genuine[0]._replace(mac=forged.mac))
    writer.set_aside(genuine[0]._replace(header=b"{}"))
    writer.set_aside(sealed(5, key=FALSE_KEY))
    assert writer.aside() == 1
    assert log(writer)[1:] == genuine


def test_headers_are_entries_without_their_bodies(remote: Remotes) -> None:
    entries = append(remote(), *[b"body"] * 5)
    assert remote().headers(1, 3) == [
        entry._replace(salt=None, body=None) for entry in entries[1:4]
    ]


def test_removed_and_changed_entries_are_restored_at_their_positions(remote: Remotes) -> None:
    writer, reader = remote(), remote()
    entries = append(writer, *[b"body %d" % number for number in range(6)])
    intruder = remote.intruder()
    rest = [entries[0], sealed(3, b"forged", key=FALSE_KEY), *entries[3:]]
    intruder.replace(rest)
    assert [entry.seq for entry in reader.headers(0, 10)] == [1, 3, 4, 5, 6]
    head = writer.begin("node")
    writer.rewrite_entries(head, [entries[1], entries[2]])
    assert log(reader) == entries
    assert (reader.remote_head()[:2], reader.aside()) == (head[:2], 1)
    assert intruder.is_turn_free()
    assert append(writer, b"goes on")[0].seq == 7


def test_nothing_is_restored_if_the_head_has_moved(remote: Remotes) -> None:
    writer = remote()
    entries = append(writer, b"one", b"two", b"three")
    remote.intruder().replace([entries[0], entries[2]])
    writer.begin("node")
    with pytest.raises(HeadMoved):
        writer.rewrite_entries(RemoteHead(2, entries[1].hash), [entries[1]])
    assert [entry.seq for entry in log(writer)] == [1, 3]


def test_entries_that_were_set_aside_can_be_deleted(remote: Remotes) -> None:
    writer, intruder = remote(), remote.intruder()
    append(writer, b"one")
    intruder.put(sealed(2, key=FALSE_KEY))
    writer.set_aside(log(writer)[1])
    assert (writer.aside(), writer.discard_aside()) == (1, 1)
    assert (writer.aside(), writer.discard_aside()) == (0, 0)
    assert len(log(writer)) == 1


def test_a_holder_of_the_password_alone_cannot_seal_entries(remote: Remotes) -> None:
    """Not even with the seal of a genuine entry, for another header or other blobs."""
    writer = remote()
    kept = append(writer, b"one")
    mac = kept[0].mac
    intruder = remote.intruder()
    intruder.put(sealed(2, text="changed")._replace(mac=mac))
    intruder.put(sealed(3, keeps=("a" * 64,))._replace(keeps=("b" * 64,)))
    intruder.put(sealed(4)._replace(hash="f" * 64))
    found = writer.read(1, 10)
    assert [entry.seq for entry in found] == [2, 3, 4]
    assert not any(is_genuine(KEY, entry) for entry in found)


# --- bodies and blobs


def test_an_erased_body_is_deleted_and_its_entry_stays(remote: Remotes) -> None:
    writer = remote()
    entries = append(writer, b"one", b"two", b"three")
    entries += append(writer, b"four", erased=[1, 3])
    gone = [entry._replace(salt=None, body=None) for entry in entries]
    assert log(remote()) == [gone[0], entries[1], gone[2], entries[3]]
    assert all(is_genuine(KEY, entry) for entry in log(remote()))


def test_chunks_stay_stored_even_if_the_turn_fails(remote: Remotes) -> None:
    writer = remote()
    head = writer.begin("node")
    writer.put_chunk("upload", 1, EVERY_BYTE * 4096)
    writer.put_chunk("upload", 0, b"first")
    writer.put_chunk("upload", 10, b"last")
    writer.put_chunk("upload", 0, b"first, again")
    with pytest.raises(HeadMoved):
        writer.append(RemoteHead(head.seq + 1, "f" * 64), Appending([sealed(head.seq + 2)]))
    expected = [(0, b"first, again"), (1, EVERY_BYTE * 4096), (10, b"last")]
    assert chunks(remote(), "upload") == expected
    assert chunks(remote(), "another") == []


def test_a_blob_exists_once_an_entry_uses_it(remote: Remotes) -> None:
    writer = remote()
    blob = upload(writer, "upload", b"some ", b"bytes")
    assert remote().upload_of(blob.sha256) is None
    append(writer, b"one", blobs=[blob])
    assert remote().upload_of(blob.sha256) == "upload"
    assert chunks(remote(), "upload") == [(0, b"some "), (1, b"bytes")]


def test_the_bytes_of_a_blob_do_not_change(remote: Remotes) -> None:
    writer = remote()
    blob = upload(writer, "upload", b"some ", b"bytes")
    append(writer, b"one", blobs=[blob])
    upload(writer, "upload", b"other")
    assert chunks(remote(), "upload") == [(0, b"some "), (1, b"bytes")]


def test_the_first_of_two_uploads_of_the_same_bytes_stays(remote: Remotes) -> None:
    writer = remote()
    first, second = upload(writer, "first", b"bytes"), upload(writer, "second", b"bytes")
    append(writer, b"one", blobs=[first])
    append(writer, b"two", blobs=[second])
    assert writer.upload_of(first.sha256) == "first"
    assert (chunks(writer, "first"), chunks(writer, "second")) == ([(0, b"bytes")], [])
    append(writer, b"three", blobs=[first])
    assert chunks(writer, "first") == [(0, b"bytes")]


def test_the_first_of_two_uploads_in_one_batch_stays(remote: Remotes) -> None:
    writer = remote()
    blobs = [upload(writer, name, b"bytes") for name in ("first", "second")]
    append(writer, b"one", b"two", blobs=blobs)
    assert writer.upload_of(blobs[0].sha256) == "first"
    assert (chunks(writer, "first"), chunks(writer, "second")) == ([(0, b"bytes")], [])


def test_a_dropped_blob_is_deleted_with_its_bytes(remote: Remotes) -> None:
    writer = remote()
    gone, stays = upload(writer, "gone", b"secret"), upload(writer, "stays", b"other")
    append(writer, b"one", blobs=[gone, stays])
    append(writer, b"two", erased=[1], dropped=[gone.sha256])
    assert (writer.upload_of(gone.sha256), writer.upload_of(stays.sha256)) == (None, "stays")
    assert (chunks(writer, "gone"), chunks(writer, "stays")) == ([], [(0, b"other")])


def test_a_dropped_upload_is_deleted(remote: Remotes) -> None:
    writer = remote()
    upload(writer, "gone", b"some", b"bytes")
    upload(writer, "stays", b"other")
    writer.begin("node")
    writer.drop_upload("gone")
    writer.leave()
    assert (chunks(remote(), "gone"), chunks(remote(), "stays")) == ([], [(0, b"other")])


def test_drop_stale_deletes_earlier_uploads_that_are_not_blobs(remote: Remotes) -> None:
    writer = remote()
    names = ["0-blob", "0-stale", "Z-stale", "a", "a-fresh"]
    blobs = [upload(writer, name, name.encode()) for name in names]
    append(writer, b"one", blobs=blobs[:1])
    writer.begin("node")
    writer.drop_stale("a")
    writer.leave()
    left = [name for name in names if chunks(remote(), name)]
    assert left == ["0-blob", "a", "a-fresh"]


# --- the other nodes


def test_each_node_gets_the_reports_of_all_nodes(remote: Remotes) -> None:
    one, other = remote(), remote()
    assert one.beat("one", EVERY_BYTE) == {"one": EVERY_BYTE}
    assert other.beat("other", b"") == {"one": EVERY_BYTE, "other": b""}
    assert one.beat("one", b"later") == {"one": b"later", "other": b""}


def test_wait_returns_at_once_if_there_is_a_new_entry(remote: Remotes) -> None:
    append(remote(), b"one")
    remote().wait(0, LIMIT_S * 10)


def test_wait_returns_after_its_time_without_a_new_entry(remote: Remotes) -> None:
    remote().wait(0, 0.01)


def test_a_waiting_node_notices_the_append_of_another(remote: Remotes) -> None:
    waiting = threading.Event()

    def wait() -> int:
        node = remote()
        deadline = time.monotonic() + LIMIT_S / 2
        while (found := node.remote_head().seq) == 0 and time.monotonic() < deadline:
            waiting.set()
            node.wait(0, LIMIT_S)
        return found

    def write() -> None:
        assert waiting.wait(LIMIT_S)
        append(remote(), b"one")

    assert at_once([wait, write])[0] == 1


def test_a_node_can_wait_and_write_at_the_same_time(remote: Remotes) -> None:
    """The turn, reads and waiting do not block each other."""
    node = remote()
    waiting = threading.Event()

    def wait() -> None:
        waiting.set()
        while node.remote_head().seq < 20:
            node.wait(20, 0.05)

    def write() -> None:
        assert waiting.wait(LIMIT_S)
        for _ in range(20):
            append(node, b"body")

    at_once([wait, write, wait])
    assert node.remote_head().seq == 20


# --- settings


def test_a_server_that_loses_no_acknowledged_writes_has_no_hazards(remote: Remotes) -> None:
    assert remote().hazards() == []


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"appendonly": "no"}, ["appendonly"]),
        ({"appendfsync": "everysec"}, ["appendfsync"]),
        ({"appendonly": "no", "appendfsync": "everysec"}, ["appendonly", "appendfsync"]),
        ({"maxmemory-policy": "allkeys-lru"}, ["maxmemory-policy"]),
        ({"appendfsync": "no", "maxmemory-policy": "volatile-ttl"}, ["appendfsync", "maxmemory"]),
    ],
    ids=str,
)
def test_hazards_name_the_redis_settings_that_may_lose_writes(
    tmp_path: Path, settings: dict[str, str], named: list[str]
) -> None:
    with ValkeyServer(tmp_path, settings) as server:
        remote = RedisRemote(server.url, "team")
        found = remote.hazards()
        remote.close()
    assert len(found) == len(named)
    assert all(name in hazard for name, hazard in zip(named, found, strict=True))


def test_hazards_name_the_postgres_settings_that_may_lose_writes(tmp_path: Path) -> None:
    """Except synchronous_commit, which each session of Interlock sets for itself."""
    settings = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
    with PostgresServer(tmp_path, settings) as server:
        remote = PostgresRemote(server.url, "team")
        found = remote.hazards()
        remote.close()
    assert [hazard.partition(" ")[0] for hazard in found] == ["fsync", "full_page_writes"]
