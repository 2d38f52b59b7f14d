"""Whoever has the engine's password and not the workspace's key: what they write with the engine's
own client changes nothing, is reported, and stands in nobody's way."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commandline import until
from remotes import PostgresIntruder, RedisIntruder, Remotes
from serving import Served
from teams import LARGE, OWNER, Team, facts, hashes, join, level, send, texts

from interlock.contracts import acts
from interlock.contracts.facts import parse_header
from interlock.engines.remote import Sealed, seal
from interlock.errors import LogForked, Refusal, Usage
from interlock.link import open_node
from interlock.node import Node, audit
from interlock.node.doctor import examine


@pytest.fixture
def team(tmp_path: Path, remote: Remotes) -> Iterator[Team]:
    team = Team(tmp_path, remote)
    yield team
    team.close()


class Intruder:
    """Adds and changes what it likes, by the engine's own commands."""

    def __init__(self, remotes: Remotes) -> None:
        self._client = remotes.intruder()
        self._remote = remotes()
        self._prefix = f"interlock:{{{remotes.name}}}:"
        self._workspace = remotes.name

    def log(self) -> list[Sealed]:
        return self._remote.read(0, 10_000)

    def put(self, entry: Sealed) -> None:
        self._client.put(entry)

    def put_nonsense(self, seq: int) -> None:
        self._client.put_nonsense(seq)

    def put_part(self, seq: int, part: int, entry: Sealed) -> None:
        """Between two positions, where Redis has room."""
        assert isinstance(self._client, RedisIntruder)
        self._client.db.xadd(self._prefix + "log", _fields(entry), f"{seq}-{part}")

    def change(self, entry: Sealed) -> None:
        """Puts another entry in the place of one that is there."""
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
        packed = self._client.db.hget(self._prefix + "bodies", str(seq))
        assert isinstance(packed, bytes)
        salted = packed[: 1 + packed[0]] + body
        self._client.db.hset(self._prefix + "bodies", str(seq), salted)

    def beats(self) -> dict[str, bytes]:
        if isinstance(self._client, PostgresIntruder):
            found = self._client.db.execute(
                "SELECT node, about FROM interlock_nodes WHERE workspace = %s", (self._workspace,)
            )
            return {str(name): bytes(said) for name, said in found}
        assert isinstance(self._client, RedisIntruder)
        told = self._client.db.hgetall(self._prefix + "nodes")
        assert isinstance(told, dict)
        return {name.decode(): said for name, said in told.items()}

    def put_beat(self, node: str, said: bytes) -> None:
        self._remote.beat(node, said)

    def take_the_turn_for_ever(self) -> None:
        """By what the turn rests on: nobody else is there to end it."""
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


def _fields(entry: Sealed) -> dict[str | bytes, str | bytes]:
    keeps = "\n".join(entry.keeps)
    return {"hash": entry.hash, "header": entry.header, "keeps": keeps, "mac": entry.mac}


@pytest.fixture
def intruder(remote: Remotes) -> Intruder:
    return Intruder(remote)


# --- what is added to the log


def _joining(log: list[Sealed], name: str, seq: int) -> Sealed:
    """An entry that would register somebody with every right, right in all but its seal."""
    joined = next(
        fact for fact in map(lambda entry: parse_header(entry.header), log) if "otto" in fact.sender
        or fact.kind == "agent_joined"
    )
    text = joined._replace(seq=seq, prev=log[-1].hash).encode().replace(b'"otto"', b'"%s"' % name.encode())
    return seal(os.urandom(32), seq, text)


Forgery = Callable[[Intruder], None]


def _next(intruder: Intruder) -> None:
    log = intruder.log()
    intruder.put(_joining(log, "mallory", len(log) + 1))


def _far_ahead(intruder: Intruder) -> None:
    log = intruder.log()
    intruder.put(_joining(log, "mallory", 1 << 62))


def _copy(intruder: Intruder) -> None:
    log = intruder.log()
    intruder.put(log[2]._replace(seq=len(log) + 1))


def _without_a_seal(intruder: Intruder) -> None:
    log = intruder.log()
    intruder.put(_joining(log, "mallory", len(log) + 1)._replace(mac=""))


def _another_seal(intruder: Intruder) -> None:
    log = intruder.log()
    intruder.put(_joining(log, "mallory", len(log) + 1)._replace(mac=log[-1].mac))


def _nonsense(intruder: Intruder) -> None:
    intruder.put_nonsense(len(intruder.log()) + 1)


def _keeps_in_the_header(intruder: Intruder) -> None:
    """A seal that covers header and digests as one piece would fit this too."""
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
    """Two nodes, and a log with a blob in it."""
    ada, bert = team.open("ada"), team.open("bert")
    otto = join(ada, "otto")
    send(bert, otto, "@otto", "hello")
    send(ada, otto, "@otto", LARGE)
    level(ada, bert)
    return ada, bert


@pytest.mark.parametrize("what", FORGERIES)
def test_an_entry_that_nobody_sealed_changes_nothing_and_is_reported(
    team: Team, intruder: Intruder, what: str
) -> None:
    ada, bert = _grown(team)
    before, digest = hashes(ada), level(ada, bert)
    FORGERIES[what](intruder)
    until(lambda: not [e for e in intruder.log() if e.seq > len(before)])
    assert hashes(ada) == before
    assert level(ada, bert) == digest
    for node in (ada, bert):
        assert node.shared is not None
        until(lambda node=node: node.shared.standing()["set_aside"] == 1)  # type: ignore[misc]
        (found,) = [f for f in examine(node)["findings"] if f["check"] == "set-aside-entries"]
        assert found["message"].startswith("1 entries ")
    otto = join(bert, "vera")
    assert facts(bert)[len(before)]["seq"] == len(before) + 1
    send(ada, otto, "@vera", "still here")
    caro = team.open("caro")
    level(ada, bert, caro)
    assert "mallory" not in json.dumps(caro.call(OWNER, acts.ListAgents()))
