"""Every remote keeps these promises (`stores.shared.remote.Remote`), on real servers."""

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
FALSE_KEY = b"somebody's else"
EVERY_BYTE = bytes(range(256))
NOWHERE = 9  # the discard port, where nobody listens


def sealed(
    seq: int,
    body: bytes | None = None,
    *,
    keeps: tuple[str, ...] = (),
    key: bytes = KEY,
    text: str = "",
) -> Sealed:
    """An entry whose header says where it is."""
    header = f'{{"seq":{seq},"text":"{text}"}}'.encode()
    return seal(key, seq, header, keeps, None if body is None else b"salt", body)


def append(remote: Remote, *bodies: bytes | None, **batch: Any) -> list[Sealed]:
    """Takes a turn and appends an entry for each body."""
    head = remote.begin("node")
    entries = [sealed(seq, body) for seq, body in enumerate(bodies, head.seq + 1)]
    remote.append(head, Appending(entries, **batch))
    return entries


def upload(remote: Remote, name: str, *chunks: bytes) -> Blob:
    """Keeps chunks in a turn that appends nothing."""
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
    """What each gives, done in a thread of its own."""
    listed = list(works)
    with ThreadPoolExecutor(len(listed)) as threads:
        return [done.result(LIMIT_S) for done in [threads.submit(work) for work in listed]]


def until(what: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + LIMIT_S
    while not (answer := what()):
        assert time.monotonic() < deadline, "it did not happen in time"
        threading.Event().wait(0.01)
    return answer


def reached(what: Callable[[], Any]) -> bool:
    try:
        what()
    except EngineUnavailable:
        return False
    return True


# --- order


def test_an_empty_log_ends_before_its_first_entry(remote: Remotes) -> None:
    found = remote().remote_head()
    assert (found.seq, found.hash) == (0, GENESIS)
    assert log(remote()) == []


def test_entries_come_back_in_order_and_byte_for_byte(remote: Remotes) -> None:
    writer, reader = remote(), remote()
    first = [sealed(1, EVERY_BYTE), sealed(2), sealed(3, b"", keeps=("a" * 64, "b" * 64))]
    second = [sealed(4, b"\n" * 100_000, text="Schlüssel 鍵")]
    writer.append(writer.begin("node"), Appending(first))
    writer.append(writer.begin("node"), Appending(second))
    assert log(reader) == first + second
    assert all(is_genuine(KEY, entry) for entry in log(reader))


def test_reading_begins_after_a_position_and_ends_at_a_limit(remote: Remotes) -> None:
    entries = append(remote(), *[b"body"] * 12)
    reader = remote()
    assert reader.read(3, 2) == entries[3:5]
    assert reader.read(11, 100) == entries[11:]
    assert reader.read(12, 100) == []


def test_the_turn_and_a_glimpse_show_the_last_entry(remote: Remotes) -> None:
    entries = append(remote(), b"one", b"two")
    writer = remote()
    assert writer.begin("node")[:2] == (2, entries[1].hash)
    writer.leave()
    assert writer.remote_head()[:2] == (2, entries[1].hash)


def test_the_time_is_the_engines(remote: Remotes) -> None:
    writer = remote()
    before = time.time_ns() // 1_000_000
    shown = [writer.remote_head().now, writer.begin("node").now, remote().remote_head().now]
    after = time.time_ns() // 1_000_000
    writer.leave()
    assert [before, *shown, after] == sorted([before, *shown, after])


def test_workspaces_on_one_server_are_apart(remote: Remotes) -> None:
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
def test_what_follows_anything_but_the_head_is_not_kept(
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


def test_an_empty_log_has_nothing_but_a_beginning(remote: Remotes) -> None:
    writer = remote()
    writer.begin("node")
    with pytest.raises(HeadMoved):
        writer.append(RemoteHead(1, "f" * 64), Appending([sealed(2)]))
    assert log(writer) == []


def test_a_batch_without_entries_is_compared_too(remote: Remotes) -> None:
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
def test_appenders_leave_no_gap_and_nothing_twice(remote: Remotes, count: int) -> None:
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


def test_a_turn_that_appended_nothing_says_whether_its_answers_are_still_true(
    remote: Remotes,
) -> None:
    ours, other = remote(), remote()
    head = ours.begin("ours")
    assert ours.leave(head)
    head = ours.begin("ours")
    other.append(other.begin("other"), Appending([sealed(head.seq + 1)]))  # ours slept too long
    assert not ours.leave(head)


def test_nobody_starves(remote: Remotes) -> None:
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


def test_leaving_gives_the_turn_back(remote: Remotes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*LONG_SLOT)
    writer, intruder = remote(), remote.intruder()
    writer.begin("node")
    assert not intruder.is_turn_free()
    writer.leave()
    assert intruder.is_turn_free()
    writer.leave()
    assert append(remote(), b"another")[0].seq == 1


def test_appending_gives_the_turn_back(remote: Remotes) -> None:
    append(remote(), b"one")
    assert remote.intruder().is_turn_free()


def test_who_sleeps_in_the_turn_loses_it(remote: Remotes) -> None:
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


# --- trouble on the way


def cut(remote: Remotes, proxy: TcpProxy, entry: Sealed, *, arrives: bool) -> None:
    """Cut the connection at the instant after which the outcome is unknown."""
    needle = b"COMMIT" if remote.kind == "postgres" else entry.mac.encode()
    proxy.cut_at(needle, arrives=arrives)


@pytest.mark.parametrize("arrives", [True, False], ids=["kept", "not kept"])
def test_an_answer_that_is_lost_is_called_lost(remote: Remotes, arrives: bool) -> None:
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
        seq = until(lambda: reached(writer.remote_head)) and append(writer, b"next")[0].seq
        assert seq == (3 if arrives else 2)


def test_a_connection_that_ended_in_the_turn_leaves_no_doubt(remote: Remotes) -> None:
    """The turn ended with it, or was not bound to it: nothing was under way."""
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
        "glimpse": remote.remote_head,
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


def test_a_server_that_is_not_there_is_unavailable_and_named(remote: Remotes) -> None:
    secret = getattr(remote.server, "password", "no password")
    for verb in verbs(remote(port=NOWHERE)).values():
        with pytest.raises(EngineUnavailable) as refused:
            verb()
        assert f"127.0.0.1:{NOWHERE}" in refused.value.message
        assert secret not in refused.value.message
        assert "\n" not in refused.value.message
    remote(port=NOWHERE).leave()


@pytest.mark.parametrize("verb", ["begin", "glimpse", "read", "wait", "put_chunk"])
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
    assert until(lambda: reached(node.remote_head))
    assert append(node, b"two")[0].seq == 2


def test_a_server_that_stops_answering_in_the_turn_keeps_what_it_may(remote: Remotes) -> None:
    """Nothing at all, unless the answer is said to be lost."""
    writer = remote()
    append(writer, b"one")
    head = writer.begin("node")
    remote.server.pause()
    try:
        with pytest.raises((AnswerLost, HeadMoved, EngineUnavailable)) as trouble:
            writer.append(head, Appending([sealed(2, b"two")]))
    finally:
        remote.server.resume()
    until(lambda: reached(writer.remote_head))
    append(writer, b"next")
    bodies = [entry.body for entry in log(remote())]
    assert bodies in ([b"one", b"next"], [b"one", b"two", b"next"])
    assert b"two" not in bodies or trouble.type is AnswerLost


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_server_that_comes_back_has_everything(own_remote: Remotes, end: str) -> None:
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
        assert until(lambda node=node: reached(node.remote_head))  # type: ignore[misc]
        assert log(node) == kept
        assert node.upload_of(blob.sha256) == "upload"
        assert chunks(node, "upload") == [(0, b"some "), (1, b"bytes")]
    assert append(writer, b"four")[0].seq == 4
    assert until(lambda: reached(lambda: reader.wait(3, 0.01)))


def test_what_is_asked_after_the_end_fails(remote: Remotes) -> None:
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


# --- what is none of ours


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
def test_nonsense_is_read_and_set_aside(remote: Remotes, length: int) -> None:
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
def test_an_entry_with_anything_in_it_is_set_aside(remote: Remotes, change: dict[str, Any]) -> None:
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


def test_an_entry_that_is_another_by_now_stays(remote: Remotes) -> None:
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


def test_what_was_removed_or_changed_is_put_back_in_its_place(remote: Remotes) -> None:
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


def test_nothing_is_put_back_under_another_head(remote: Remotes) -> None:
    writer = remote()
    entries = append(writer, b"one", b"two", b"three")
    remote.intruder().replace([entries[0], entries[2]])
    writer.begin("node")
    with pytest.raises(HeadMoved):
        writer.rewrite_entries(RemoteHead(2, entries[1].hash), [entries[1]])
    assert [entry.seq for entry in log(writer)] == [1, 3]


def test_what_was_set_aside_can_be_discarded(remote: Remotes) -> None:
    writer, intruder = remote(), remote.intruder()
    append(writer, b"one")
    intruder.put(sealed(2, key=FALSE_KEY))
    writer.set_aside(log(writer)[1])
    assert (writer.aside(), writer.discard_aside()) == (1, 1)
    assert (writer.aside(), writer.discard_aside()) == (0, 0)
    assert len(log(writer)) == 1


def test_who_only_has_the_password_cannot_seal(remote: Remotes) -> None:
    """Not even by moving what was sealed: to another header, or with other blobs."""
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


def test_an_erased_body_is_gone_and_its_entry_stays(remote: Remotes) -> None:
    writer = remote()
    entries = append(writer, b"one", b"two", b"three")
    entries += append(writer, b"four", erased=[1, 3])
    gone = [entry._replace(salt=None, body=None) for entry in entries]
    assert log(remote()) == [gone[0], entries[1], gone[2], entries[3]]
    assert all(is_genuine(KEY, entry) for entry in log(remote()))


def test_chunks_are_kept_whatever_becomes_of_the_turn(remote: Remotes) -> None:
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


def test_a_blob_is_known_once_an_entry_keeps_it(remote: Remotes) -> None:
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


def test_of_two_uploads_of_the_same_bytes_the_first_stays(remote: Remotes) -> None:
    writer = remote()
    first, second = upload(writer, "first", b"bytes"), upload(writer, "second", b"bytes")
    append(writer, b"one", blobs=[first])
    append(writer, b"two", blobs=[second])
    assert writer.upload_of(first.sha256) == "first"
    assert (chunks(writer, "first"), chunks(writer, "second")) == ([(0, b"bytes")], [])
    append(writer, b"three", blobs=[first])
    assert chunks(writer, "first") == [(0, b"bytes")]


def test_of_two_uploads_in_one_batch_one_stays(remote: Remotes) -> None:
    writer = remote()
    blobs = [upload(writer, name, b"bytes") for name in ("first", "second")]
    append(writer, b"one", b"two", blobs=blobs)
    assert writer.upload_of(blobs[0].sha256) == "first"
    assert (chunks(writer, "first"), chunks(writer, "second")) == ([(0, b"bytes")], [])


def test_a_dropped_blob_is_gone_with_its_bytes(remote: Remotes) -> None:
    writer = remote()
    gone, stays = upload(writer, "gone", b"secret"), upload(writer, "stays", b"other")
    append(writer, b"one", blobs=[gone, stays])
    append(writer, b"two", erased=[1], dropped=[gone.sha256])
    assert (writer.upload_of(gone.sha256), writer.upload_of(stays.sha256)) == (None, "stays")
    assert (chunks(writer, "gone"), chunks(writer, "stays")) == ([], [(0, b"other")])


def test_a_dropped_upload_is_gone(remote: Remotes) -> None:
    writer = remote()
    upload(writer, "gone", b"some", b"bytes")
    upload(writer, "stays", b"other")
    writer.begin("node")
    writer.drop_upload("gone")
    writer.leave()
    assert (chunks(remote(), "gone"), chunks(remote(), "stays")) == ([], [(0, b"other")])


def test_stale_uploads_are_those_that_sort_before_and_became_nothing(remote: Remotes) -> None:
    writer = remote()
    names = ["0-blob", "0-stale", "Z-stale", "a", "a-fresh"]
    blobs = [upload(writer, name, name.encode()) for name in names]
    append(writer, b"one", blobs=blobs[:1])
    writer.begin("node")
    writer.drop_stale("a")
    writer.leave()
    left = [name for name in names if chunks(remote(), name)]
    assert left == ["0-blob", "a", "a-fresh"]


# --- the others


def test_nodes_hear_of_each_other(remote: Remotes) -> None:
    one, other = remote(), remote()
    assert one.beat("one", EVERY_BYTE) == {"one": EVERY_BYTE}
    assert other.beat("other", b"") == {"one": EVERY_BYTE, "other": b""}
    assert one.beat("one", b"later") == {"one": b"later", "other": b""}


def test_waiting_ends_at_once_where_there_is_more(remote: Remotes) -> None:
    append(remote(), b"one")
    remote().wait(0, LIMIT_S * 10)


def test_waiting_ends_without_anything_to_wait_for(remote: Remotes) -> None:
    remote().wait(0, 0.01)


def test_a_waiting_node_sees_what_another_appends(remote: Remotes) -> None:
    waiting = threading.Event()

    def wait() -> int:
        node = remote()
        deadline = time.monotonic() + LIMIT_S / 2
        while (found := node.remote_head().seq) == 0 and time.monotonic() < deadline:
            waiting.set()
            node.wait(0, LIMIT_S)
        return found

    def tell() -> None:
        assert waiting.wait(LIMIT_S)
        append(remote(), b"one")

    assert at_once([wait, tell])[0] == 1


def test_a_node_waits_and_writes_at_once(remote: Remotes) -> None:
    """The turn, looks and waiting do not hold each other up."""
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


def test_a_server_that_keeps_what_it_acknowledges_has_no_hazards(remote: Remotes) -> None:
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
def test_settings_that_lose_writes_are_named_in_redis(
    tmp_path: Path, settings: dict[str, str], named: list[str]
) -> None:
    with ValkeyServer(tmp_path, settings) as server:
        remote = RedisRemote(server.url, "team")
        found = remote.hazards()
        remote.close()
    assert len(found) == len(named)
    assert all(name in hazard for name, hazard in zip(named, found, strict=True))


def test_settings_that_lose_writes_are_named_in_postgres(tmp_path: Path) -> None:
    """But for the one that each session of ours has right, whatever the default is."""
    settings = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
    with PostgresServer(tmp_path, settings) as server:
        remote = PostgresRemote(server.url, "team")
        found = remote.hazards()
        remote.close()
    assert [hazard.partition(" ")[0] for hazard in found] == ["fsync", "full_page_writes"]
