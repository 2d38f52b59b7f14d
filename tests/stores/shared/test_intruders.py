"""An intruder has the engine's password but not the workspace's key. Entries that the intruder
writes with the engine's own client change nothing, are reported, and block no node."""

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from interlock.errors import EngineUnavailable, LogDamaged, LogForked, Usage
from interlock.local.link import open_node
from interlock.log.facts import parse_header
from interlock.node import Node, audit
from interlock.node.doctor import examine
from interlock.rooms.identity.verbs import ListAgents
from interlock.rooms.mail.verbs import ListInbox, PutChunk
from interlock.rooms.work.verbs import AddEvidence, ShowEvidence
from interlock.stores.shared.remote import Sealed, seal
from interlock.verbs.credentials import Credentials
from world.commandline import Place, until
from world.databases import ValkeyServer
from world.remotes import PostgresIntruder, RedisIntruder, Remotes
from world.server import RunningServer, free_port
from world.teams import LARGE, Team, hashes, level, texts
from world.workspace import OWNER, facts, join, send_text

pytestmark = pytest.mark.long


class Intruder:
    """Adds and changes entries with the engine's own commands."""

    def __init__(self, remotes: Remotes) -> None:
        self._client = remotes.intruder()
        self._remote = remotes()
        self._prefix = f"interlock:{{{remotes.name}}}:"
        self._workspace = remotes.name

    def log(self) -> list[Sealed]:
        return self._remote.read(0, 10_000)

    def put(self, entry: Sealed) -> None:
        self._client.put(entry)

    def replace(self, entries: list[Sealed]) -> None:
        self._client.replace(entries)

    def put_nonsense(self, seq: int) -> None:
        self._client.put_nonsense(seq)

    def put_part(self, seq: int, part: int, entry: Sealed) -> None:
        """Add an entry between two positions, which only Redis allows."""
        assert isinstance(self._client, RedisIntruder)
        self._client.db.xadd(self._prefix + "log", _fields(entry), f"{seq}-{part}")

    def change(self, entry: Sealed) -> None:
        """Replace the entry at a position."""
        if isinstance(self._client, PostgresIntruder):
            self._client.db.execute(
                "UPDATE interlock_log SET hash = %s, header = %s, keeps = %s, mac = %s "
                "WHERE workspace = %s AND seq = %s",
                (*self._row(entry), self._workspace, entry.seq),
            )
            return
        assert isinstance(self._client, RedisIntruder)
        changed = [entry if entry.seq == other.seq else other for other in self.log()]
        self._client.db.delete(self._prefix + "log")
        for other in changed:
            self._client.db.xadd(self._prefix + "log", _fields(other), f"{other.seq}-0")

    def change_body(self, seq: int, body: bytes) -> None:
        if isinstance(self._client, PostgresIntruder):
            self._client.db.execute(
                "UPDATE interlock_bodies SET body = %s WHERE workspace = %s AND seq = %s",
                (body, self._workspace, seq),
            )
            return
        assert isinstance(self._client, RedisIntruder)
        packed = cast(bytes, self._client.db.hget(self._prefix + "bodies", str(seq)))
        salted = packed[: 1 + packed[0]] + body
        self._client.db.hset(self._prefix + "bodies", str(seq), salted)

    def change_chunks(self, data: bytes) -> None:
        """Replace the bytes of every upload that has one chunk."""
        if isinstance(self._client, PostgresIntruder):
            self._client.db.execute(
                "UPDATE interlock_chunks SET data = %s WHERE workspace = %s",
                (data, self._workspace),
            )
            return
        assert isinstance(self._client, RedisIntruder)
        for key in self._client.db.scan_iter(self._prefix + "chunks:*"):
            self._client.db.hset(key, "0", data)

    def beats(self) -> dict[str, bytes]:
        if isinstance(self._client, PostgresIntruder):
            found = self._client.db.execute(
                "SELECT node, about FROM interlock_nodes WHERE workspace = %s", (self._workspace,)
            )
            return {str(name): bytes(about) for name, about in found}
        assert isinstance(self._client, RedisIntruder)
        reports = cast(dict[bytes, bytes], self._client.db.hgetall(self._prefix + "nodes"))
        return {name.decode(): about for name, about in reports.items()}

    def put_beat(self, node: str, about: bytes) -> None:
        self._remote.beat(node, about)

    def take_the_turn_for_ever(self) -> None:
        """Manipulate the row or key of the turn, so that no node would ever release it."""
        if isinstance(self._client, PostgresIntruder):
            self._client.db.execute(
                "DELETE FROM interlock_heads WHERE workspace = %s", (self._workspace,)
            )
            return
        assert isinstance(self._client, RedisIntruder)
        self._client.db.set(self._prefix + "turn", "mallory")
        self._client.db.rpush(self._prefix + "queue", "mallory", b"\xff\x00", "mallory")

    def _row(self, entry: Sealed) -> tuple[str, bytes, str, str]:
        return entry.hash, entry.header, "\n".join(entry.keeps), entry.mac


def _fields(entry: Sealed) -> dict[Any, Any]:
    keeps = "\n".join(entry.keeps)
    return {"hash": entry.hash, "header": entry.header, "keeps": keeps, "mac": entry.mac}


@pytest.fixture
def intruder(remote: Remotes) -> Intruder:
    """An intruder with access to the engine."""
    return Intruder(remote)


# --- entries added to the log


def _joining(log: list[Sealed], seq: int) -> Sealed:
    """Return an entry that would register an agent. Only its seal is wrong."""
    (joined,) = [entry for entry in log if b'"kind":"agent_joined"' in entry.header]
    fact = parse_header(joined.header)._replace(seq=seq, prev=log[-1].hash)
    return seal(os.urandom(32), seq, fact.encode().replace(b'"otto"', b'"mallory"'))


Forgery = Callable[[Intruder], None]


def _next(intruder: Intruder) -> None:
    log = intruder.log()
    intruder.put(_joining(log, len(log) + 1))


def _far_ahead(intruder: Intruder) -> None:
    log = intruder.log()
    intruder.put(_joining(log, 1 << 62))


def _copy(intruder: Intruder) -> None:
    log = intruder.log()
    intruder.put(log[2]._replace(seq=len(log) + 1))


def _without_a_seal(intruder: Intruder) -> None:
    log = intruder.log()
    intruder.put(_joining(log, len(log) + 1)._replace(mac=""))


def _another_seal(intruder: Intruder) -> None:
    log = intruder.log()
    intruder.put(_joining(log, len(log) + 1)._replace(mac=log[-1].mac))


def _nonsense(intruder: Intruder) -> None:
    intruder.put_nonsense(len(intruder.log()) + 1)


def _keeps_in_the_header(intruder: Intruder) -> None:
    """A seal over the concatenation of header and digests would be valid for this entry too."""
    log = intruder.log()
    entry = next(entry for entry in log if entry.keeps)
    header = entry.header + "\n".join(("", *entry.keeps)).encode()
    moved = seal(b"", len(log) + 1, header)
    intruder.put(moved._replace(mac=entry.mac))


FORGERIES: dict[str, Forgery] = {
    "the-next-position": _next,
    "far-ahead": _far_ahead,
    "a-copy-elsewhere": _copy,
    "no-seal": _without_a_seal,
    "the-seal-of-another": _another_seal,
    "nonsense": _nonsense,
    "digests-in-the-header": _keeps_in_the_header,
}


def _grown(team: Team) -> tuple[Node, Node]:
    """Open two nodes, and write a log with a blob."""
    ada, bert = team.open("ada"), team.open("bert")
    otto = join(ada, "otto")
    send_text(bert, otto, "@otto", "hello")
    send_text(ada, otto, "@otto", LARGE)
    level(ada, bert)
    return ada, bert


def _set_aside(node: Node) -> int:
    """Return how many entries were set aside, as the node reports it."""
    assert node.shared is not None
    return int(node.shared.standing(node)["set_aside"])


def _goes_on(team: Team, *nodes: Node) -> None:
    """Check that the log continues at the next position, on every node and on a new one."""
    before = nodes[0].head()
    vera = join(nodes[-1], "vera")
    assert [fact["seq"] for fact in facts(nodes[-1], after=before)] == [before + 1, before + 2]
    send_text(nodes[0], vera, "@vera", "still here")
    newcomer = team.open("newcomer")
    level(*nodes, newcomer)
    assert texts(newcomer, vera) == ["still here"]
    assert "mallory" not in json.dumps(newcomer.call(OWNER, ListAgents()))


@pytest.mark.parametrize("what", FORGERIES)
def test_an_entry_without_a_valid_seal_changes_nothing_and_is_reported(
    team: Team, intruder: Intruder, what: str
) -> None:
    ada, bert = _grown(team)
    before, digest = hashes(ada), level(ada, bert)
    FORGERIES[what](intruder)
    until(lambda: len(intruder.log()) == len(before))
    assert hashes(ada) == before
    assert level(ada, bert) == digest
    for node in (ada, bert):
        until(lambda node=node: _set_aside(node) == 1)  # type: ignore[misc]
        (found,) = [f for f in examine(node)["findings"] if f["check"] == "set-aside-entries"]
        assert " 1 entry " in found["message"]
    _goes_on(team, ada, bert)


@pytest.mark.parametrize("part", [1, 1 << 63])
def test_an_entry_between_two_positions_is_set_aside(
    tmp_path: Path, valkey: ValkeyServer, part: int
) -> None:
    """Redis accepts it, even if it is a copy of the entry before."""
    with closing(Remotes("redis", valkey)) as remotes, closing(Team(tmp_path, remotes)) as team:
        intruder = Intruder(remotes)
        ada, bert = _grown(team)
        before = hashes(ada)
        intruder.put_part(len(before), part, intruder.log()[-1])
        until(lambda: _set_aside(ada) == 1)
        assert hashes(ada) == before
        _goes_on(team, ada, bert)


def test_a_flood_of_forged_entries_is_set_aside(team: Team, intruder: Intruder) -> None:
    ada, bert = _grown(team)
    before, log = hashes(ada), intruder.log()
    for number in range(1, 41):
        intruder.put(_joining(log, len(log) + number * 100))
    until(lambda: _set_aside(ada) == 40)
    assert hashes(ada) == before
    _goes_on(team, ada, bert)


def test_status_metrics_and_doctor_report_entries_that_were_set_aside(
    team: Team, intruder: Intruder
) -> None:
    place = team.place("ada")
    with RunningServer(place) as served:
        place.join("otto")
        _next(intruder)
        until(lambda: served.metric("interlock_entries_set_aside") == 1)
        assert place.ok("status")["set_aside"] == 1
        done = place.run("doctor", "--json")
        assert done.status == 1
        assert [finding["check"] for finding in done.json["findings"]] == ["set-aside-entries"]
        assert "Change the engine's password" in place.run("doctor").text
        assert [agent["address"] for agent in place.ok("agents")["agents"]] == ["@otto"]


# --- entries changed in the log


def test_a_changed_body_is_never_shown_and_the_audit_reports_it(
    team: Team, intruder: Intruder
) -> None:
    ada = team.open("ada")
    otto = join(ada, "otto")
    first, second = (send_text(ada, otto, "@otto", text)["seq"] for text in ("pay vera", "hello"))
    body = next(entry.body for entry in intruder.log() if entry.seq == first)
    assert body is not None
    intruder.change_body(first, body.replace(b"vera", b"mall"))
    bert = team.open("bert")
    assert hashes(bert) == hashes(ada)
    assert "mall" not in json.dumps(bert.call(otto, ListInbox()))
    found = audit.verify(bert)
    assert (found["ok"], found["seq"]) == (False, first)
    assert "its body is missing, and the log has no redaction of it" in found["message"]
    assert audit.verify(ada)["ok"]
    assert texts(ada, otto) == ["pay vera", "hello"]
    assert second == first + 1


def test_changed_bytes_of_evidence_are_never_shown_and_the_audit_reports_them(
    team: Team, intruder: Intruder
) -> None:
    ada = team.open("ada")
    otto = join(ada, "otto")
    text = b"all 42 tests passed"
    upload = ada.call(otto, PutChunk(text, len(text)))["upload"]
    kept = {"sha256": hashlib.sha256(text).hexdigest(), "size": len(text)}
    made = ada.call(otto, AddEvidence({"kind": "file", "name": "log"} | kept, upload))
    seq, shown = made["evidence"]["seq"], ShowEvidence(made["evidence"]["id"])
    intruder.change_chunks(b"all 99 tests passed")
    bert = team.open("bert")
    found = audit.verify(bert)
    assert (found["ok"], found.get("seq")) == (False, seq)
    with pytest.raises(LogDamaged):
        bert.call(otto, shown)
    assert audit.verify(ada)["ok"]
    assert ada.call(otto, shown)["content"]["text"] == text.decode()


@pytest.mark.parametrize("what", ["keeps", "mac", "header"])
def test_no_node_folds_a_changed_entry(team: Team, intruder: Intruder, what: str) -> None:
    """Nodes that have the original continue. A new node stops at the entry and names it."""
    ada = team.open("ada")
    otto = join(ada, "otto")
    large = send_text(ada, otto, "@otto", LARGE)["seq"]
    send_text(ada, otto, "@otto", "hello")
    entry = next(entry for entry in intruder.log() if entry.seq == large)
    assert entry.keeps
    changes = {
        "keeps": entry._replace(keeps=("0" * 64,)),
        "mac": entry._replace(mac="0" * 64),
        "header": entry._replace(header=entry.header.replace(b"@otto", b"@ottO")),
    }
    intruder.change(changes[what])
    with pytest.raises(LogForked, match=f"Entry {large} was changed in the engine"):
        team.open("bert")
    send_text(ada, otto, "@otto", "still here")
    assert texts(ada, otto)[1:] == ["hello", "still here"]
    assert audit.verify(ada)["ok"]
    assert _set_aside(ada) == 0


@pytest.mark.parametrize("what", ["removed", "mac", "header"])
def test_removed_or_changed_entries_further_back_are_found_and_restored(
    team: Team, intruder: Intruder, what: str
) -> None:
    """Running nodes never read the entry again. A new node cannot join before it is restored."""
    ada, bert = _grown(team)
    before, log = hashes(ada), intruder.log()
    entry = log[2]
    changes = {
        "removed": [],
        "mac": [entry._replace(mac="0" * 64)],
        "header": [entry._replace(header=entry.header.replace(b"otto", b"ottO"))],
    }
    intruder.replace([*log[:2], *changes[what], *log[3:]])
    why = "a missing or wrong entry after #2" if what == "removed" else "Entry 3 was changed"
    with pytest.raises(LogForked, match=why) as caught:
        team.open("caro")
    assert "interlock repair --restore" in caught.value.message
    place = Place(team.root / "ada")
    shown = place.run("repair", "--json")
    assert (shown.status, [fact["seq"] for fact in shown.json["changed"]]) == (1, [3])
    assert "#3" in place.run("repair").text
    (found,) = [f for f in examine(bert)["findings"] if f["check"] == "engine-reachable"]
    assert "#3" in found["message"]
    assert place.ok("repair", "--restore")["mended"] == [3]
    (repaired,) = facts(ada, "log_repaired")
    assert repaired["outcome"]["first"] == repaired["outcome"]["last"] == 3
    assert place.ok("repair")["ok"]
    assert hashes(ada)[: len(before)] == before
    until(lambda: _set_aside(ada) == len(changes[what]))
    _goes_on(team, ada, bert)


def test_repair_deletes_entries_that_were_set_aside_on_request(
    team: Team, intruder: Intruder
) -> None:
    ada, _ = _grown(team)
    _next(intruder)
    until(lambda: _set_aside(ada) == 1)
    place = Place(team.root / "ada")
    assert "interlock repair --discard-aside" in place.run("doctor").text
    assert place.ok("repair", "--discard-aside")["discarded"] == 1
    assert [f for f in examine(ada)["findings"] if f["check"] == "set-aside-entries"] == []


# --- reports of nodes


def test_reports_of_nodes_without_a_valid_signature_are_ignored(
    team: Team, intruder: Intruder
) -> None:
    """Otherwise an intruder could report that the engine had lost a million entries."""
    ada, bert = team.open("ada"), team.open("bert")
    otto = join(ada, "otto")
    assert ada.shared is not None
    shared = ada.shared
    until(lambda: len(shared.standing(ada)["nodes"]) == 2)
    mine = intruder.beats()[shared.engine.node]
    report = json.dumps({"seq": 10**6, "epoch": 0, "at": 0, "seen": {}}).encode()
    intruder.put_beat("forged", b"0" * 32 + report)
    intruder.put_beat("short", b"")
    intruder.put_beat('copied"} 1\nother{', mine)
    assert len(intruder.beats()) == 5
    heard = shared.nodes
    until(lambda: shared.nodes is not heard)
    assert {node["node"] for node in shared.standing(ada)["nodes"]} == {
        node.shared.engine.node for node in (ada, bert) if node.shared
    }
    send_text(ada, otto, "@otto", "hello")
    send_text(bert, otto, "@otto", "hello")
    level(ada, bert)


# --- manipulation of the turn


def test_manipulating_the_turn_does_not_stop_the_log(team: Team, intruder: Intruder) -> None:
    ada, bert = team.open("ada"), team.open("bert")
    otto = join(ada, "otto")
    intruder.take_the_turn_for_ever()
    for node in (ada, bert):
        until(lambda node=node: _sent(node, otto))  # type: ignore[misc]
    level(ada, bert)
    assert len(texts(ada, otto)) == 2


def _sent(node: Node, who: Credentials) -> bool:
    try:
        send_text(node, who, "@otto", "hello")
    except EngineUnavailable:
        return False
    return True


# --- other workspaces, and other keys


def test_entries_replayed_into_another_workspace_are_set_aside(
    tmp_path: Path, team: Team, intruder: Intruder, remote: Remotes
) -> None:
    ada, _ = _grown(team)
    log = intruder.log()
    others = Remotes(remote.kind, remote.server)
    with closing(others), closing(Team(tmp_path / "others", others)) as other:
        node, copies = other.open("caro"), Intruder(others)
        digest = level(node)
        for entry in log[node.head() :]:
            copies.put(entry)
        until(lambda: _set_aside(node) == len(log) - 1)
        assert level(node) == digest
        _goes_on(other, node)
    assert hashes(ada) == [(entry.seq, entry.hash) for entry in log]


def test_an_entry_of_another_workspace_under_the_same_key_is_set_aside(
    tmp_path: Path, team: Team, intruder: Intruder, remote: Remotes
) -> None:
    """A copy of a directory with only the key, started on its own, makes such a workspace."""
    ada, bert = _grown(team)
    with closing(Remotes(remote.kind, remote.server)) as others:
        url = team.url().replace(remote.name, others.name)
        (tmp_path / "caro" / "keys").mkdir(parents=True)
        (tmp_path / "caro" / "keys" / "checkpoint.key").write_bytes(team.key)
        with open_node(str(tmp_path / "caro"), engine=url) as caro:
            while caro.head() <= ada.head():
                join(caro, f"mallory-{caro.head()}")
        intruder.put(Intruder(others).log()[ada.head()])
    until(lambda: _set_aside(ada) == 1)
    _goes_on(team, ada, bert)


def test_a_log_under_an_unused_name_needs_its_own_key(
    tmp_path: Path, team: Team, intruder: Intruder, remote: Remotes
) -> None:
    """A node does not treat it as a new workspace, and sets none of its entries aside."""
    _grown(team)
    with closing(Remotes(remote.kind, remote.server)) as others:
        copies = Intruder(others)
        others().begin("makes the tables")
        for entry in intruder.log():
            copies.put(entry)
        url = team.url().replace(remote.name, others.name)
        for name, key in (("without", None), ("another", os.urandom(32))):
            with pytest.raises(Usage, match="key"):
                open_node(str(tmp_path / name), engine=url, key=key)
        assert copies.log() == intruder.log()
        assert others().aside() == 0


def test_a_wrong_key_is_refused_and_sets_nothing_aside(
    tmp_path: Path, team: Team, intruder: Intruder, remote: Remotes
) -> None:
    ada, bert = _grown(team)
    log, place = intruder.log(), Place(tmp_path)
    key = tmp_path / "their.key"
    up = ("up", "--engine", team.url(), "--key", str(key), "--port", str(free_port()), "--detach")
    key.write_bytes(os.urandom(32))
    done = place.process(*up, "--json")
    assert (done.status, done.json["code"]) == (2, "USAGE")
    assert "sealed with another key" in done.json["message"]
    assert (intruder.log(), remote().aside()) == (log, 0)
    key.write_bytes(team.key)
    assert place.process(*up, "--json").json["agents"] == ["@otto"]
    assert place.ok("down")["stopped"]
    _goes_on(team, ada, bert)
