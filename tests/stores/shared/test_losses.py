"""The engine comes back without its last entries. Every node notices and reports the loss, and
`interlock repair` restores the entries, or gives them up and records that in the log."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
import redis

from interlock.errors import EngineUnavailable, LogForked, NotAllowed, NotAvailable, StaleFence
from interlock.node import Node, audit, upkeep
from interlock.node import repair as repairing
from interlock.node.batch import Batch
from interlock.rooms.claims.verbs import AcquireClaim, RenewClaim
from interlock.rooms.mail.verbs import Redact, Search
from interlock.rooms.workspace.verbs import Whoami
from interlock.stores.shared.remote import seal
from interlock.verbs.credentials import Credentials
from world.commandline import Place, until
from world.databases import Server, ValkeyServer
from world.remotes import Remotes
from world.server import RunningServer
from world.teams import LARGE, Team, hashes, level, texts
from world.workspace import OWNER, Answer, facts, join, send_text

pytestmark = pytest.mark.long


@pytest.fixture
def team(tmp_path_factory: pytest.TempPathFactory, own_remote: Remotes) -> Iterator[Team]:
    """Nodes on the test's own server, which the test stops and replaces."""
    team = Team(tmp_path_factory.mktemp("team"), own_remote)
    yield team
    team.close()


class Replica:
    """A copy of a server's files at one time, like a backup or a replica."""

    def __init__(self, server: Server, path: Path) -> None:
        self._server, self._path = server, path
        server.stop()
        _copied(server.directory, path)
        server.start()

    def put_back(self) -> None:
        """Kill the server and start it with this copy, without everything later."""
        self._server.kill()
        shutil.rmtree(self._server.directory)
        _copied(self._path, self._server.directory)
        self._server.start()


def _copied(source: str | Path, target: str | Path) -> None:
    """Copy files with their owners and modes, which databases check."""
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


@pytest.fixture
def copying(team: Team, tmp_path: Path) -> "Copying":
    """Copies the server of the team."""
    return Copying(team, tmp_path / "copy")


class Copying:
    """Copies a server while its nodes are open."""

    def __init__(self, team: Team, path: Path) -> None:
        self._team, self._path = team, path

    def __call__(self) -> Replica:
        """Copy the server, and return when all nodes have reached it again."""
        copy = Replica(self._team.remotes.server, self._path)
        for node in self._team.nodes:
            until(lambda node=node: _is_well(node))  # type: ignore[misc]
        return copy


def _is_well(node: Node) -> bool:
    assert node.shared is not None
    try:
        node.catch_up()
    except EngineUnavailable:
        return False
    return node.shared.trouble is None


def _notices(node: Node) -> LogForked:
    """Wait until the node itself notices the divergence."""
    assert node.shared is not None
    shared = node.shared
    found = until(lambda: shared.trouble if isinstance(shared.trouble, LogForked) else None)
    assert isinstance(found, LogForked)
    return found


def _tells(node: Node) -> None:
    """Wait until the node has noticed, and then reported its position to the others."""
    _notices(node)
    assert node.shared is not None
    shared, heard = node.shared, node.shared.nodes
    until(lambda: shared.nodes is not heard)


def _writes(node: Node, who: Credentials) -> bool:
    """Return whether the node writes again."""
    try:
        send_text(node, who, "@otto", "again")
    except NotAvailable:
        return False
    return True


def _redact(node: Node, message: Answer) -> None:
    node.call(OWNER, Redact(message["id"], "a leak"))


def _grown(team: Team) -> tuple[Node, Node, Credentials]:
    ada, bert = team.open("ada"), team.open("bert")
    otto = join(ada, "otto")
    send_text(bert, otto, "@otto", "kept")
    level(ada, bert)
    return ada, bert, otto


# --- a lost tail


def test_lost_entries_are_restored_from_a_node(team: Team, copying: Copying) -> None:
    ada, bert, otto = _grown(team)
    sent = [send_text(ada, otto, "@otto", text) for text in ("a leak", LARGE + "leak")]
    copy, common = copying(), ada.head()
    sent += [send_text(bert, otto, "@otto", text) for text in ("lost", LARGE + "lost", "brief")]
    for number in (0, 1, 4):
        _redact(ada, sent[number])
    texts(ada, otto)
    digest, log = level(ada, bert), hashes(ada)
    copy.put_back()
    for node in (ada, bert):
        trouble = _notices(node)
        assert f"has lost #{common + 1} to #{len(log)}, which this node has" in trouble.message
        assert trouble.members["engine_seq"] == trouble.members["common_seq"] == common
        assert trouble.members["node_seq"] == len(log)
        with pytest.raises(LogForked):
            send_text(node, otto, "@otto", "no")
        assert texts(node, otto)[:2] == ["kept", "lost"]
        assert (hashes(node), upkeep.state_digest(node)) == (log, digest)
    bert_place = Place(team.root / "bert")
    assert f"has lost #{common + 1} to" in bert_place.ok("status")["trouble"]
    (finding,) = bert_place.run("doctor", "--json").json["findings"]
    assert (finding["check"], finding["do"]) == ("engine-reachable", "interlock repair")
    shown = bert_place.run("repair", "--json")
    assert (shown.status, shown.json["is_tail"]) == (1, True)
    assert [(fact["seq"], fact["kind"]) for fact in shown.json["lost"]] == [
        (fact["seq"], fact["kind"]) for fact in facts(bert, after=common)
    ]
    assert bert_place.ok("repair", "--restore")["restored"] == len(log) - common
    for node in (ada, bert):
        until(lambda node=node: _writes(node, otto))  # type: ignore[misc]
    assert hashes(ada)[: len(log)] == log
    (repaired,) = facts(ada, "log_repaired")
    assert (repaired["seq"], repaired["outcome"]["first"]) == (len(log) + 1, common + 1)
    assert repaired["outcome"]["last"] == len(log)
    _is_whole(team, (ada, bert), [log[message["seq"] - 1] for message in sent], sent, otto)


def _is_whole(
    team: Team,
    nodes: tuple[Node, ...],
    headers: list[tuple[int, str]],
    messages: list[Answer],
    who: Credentials,
) -> None:
    """Check that a new node gets everything from the engine except redacted bodies."""
    newcomer = team.open("newcomer")
    level(*nodes, newcomer)
    remote = team.remotes()
    kept = {entry.seq: entry for entry in remote.read(0, 1000)}
    for (seq, hash), message in zip(headers, messages, strict=True):
        assert kept[seq].hash == hash
        is_redacted = message not in messages[2:4]
        assert (kept[seq].body is None) == is_redacted
        if is_redacted:
            assert not any(map(remote.upload_of, kept[seq].keeps))
    assert texts(newcomer, who).count("lost") == 1


def test_a_node_that_is_behind_the_lost_tail_does_not_write_either(
    team: Team, copying: Copying
) -> None:
    """It has the same entries as the engine, and another node reports that there were more."""
    ada, bert, otto = _grown(team)
    copy, common = copying(), ada.head()
    team.end(bert)
    send_text(ada, otto, "@otto", "lost")
    copy.put_back()
    _tells(ada)
    bert = team.open("bert")
    with pytest.raises(
        LogForked, match=f"ends at #{common}, but the node .* #{common + 1}"
    ) as caught:
        send_text(bert, otto, "@otto", "no")
    assert ada.shared is not None
    assert f"Run interlock repair on {ada.shared.engine.node}" in caught.value.message
    assert bert.call(otto, Whoami())["open"] == 1
    assert Place(team.root / "ada").ok("repair", "--restore")["restored"] == 1
    for node in (ada, bert):
        until(lambda node=node: _writes(node, otto))  # type: ignore[misc]
    level(ada, bert)
    assert texts(bert, otto)[:2] == ["kept", "lost"]


def test_several_nodes_restore_a_tail_that_no_single_node_has(team: Team, copying: Copying) -> None:
    """The node that is further behind does not write where another node has entries."""
    ada, bert, otto = _grown(team)
    copy, common = copying(), ada.head()
    send_text(bert, otto, "@otto", "lost 1")
    level(ada, bert)
    team.end(bert)
    send_text(ada, otto, "@otto", "lost 2")
    log = hashes(ada)
    copy.put_back()
    _tells(ada)
    place = Place(team.root / "bert")
    assert place.no("LOG_FORKED", "repair", "--restore")["engine_seq"] == common + 1
    until(lambda: _notices(ada).members["engine_seq"] == common + 1)
    assert Place(team.root / "ada").ok("repair", "--restore")["restored"] == 1
    bert = team.open("bert")
    for node in (ada, bert):
        until(lambda node=node: _writes(node, otto))  # type: ignore[misc]
    level(ada, bert)
    assert hashes(bert)[: len(log)] == log


def test_reads_of_a_node_ahead_of_the_engine_stay_current(
    team: Team, copying: Copying, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine keeps confirming that it has no entry that the node lacks."""
    ada, _, otto = _grown(team)
    copy = copying()
    send_text(ada, otto, "@otto", "lost")
    assert texts(ada, otto) == ["kept", "lost"]
    copy.put_back()
    _notices(ada)
    monkeypatch.setattr("interlock.node.MAX_AGE_S", 3.0)
    later = time.monotonic() + 4.0
    until(lambda: time.monotonic() > later)
    assert texts(ada, otto) == ["kept", "lost"]


def test_an_intruders_entry_in_place_of_the_lost_tail_is_set_aside(
    team: Team, copying: Copying
) -> None:
    ada, bert, otto = _grown(team)
    copy, common = copying(), ada.head()
    for number in range(3):
        send_text(bert, otto, "@otto", f"lost {number}")
    level(ada, bert)
    log = hashes(ada)
    copy.put_back()
    _notices(ada)
    header = team.remotes().read(common - 1, 1)[0].header
    team.remotes.intruder().put(seal(os.urandom(32), common + 1, header))
    assert Place(team.root / "ada").ok("repair", "--restore")["restored"] == 3
    for node in (ada, bert):
        until(lambda node=node: _writes(node, otto))  # type: ignore[misc]
    level(ada, bert)
    assert hashes(ada)[: len(log)] == log
    assert team.remotes().aside() == 1


def test_a_server_that_starts_on_a_lost_tail_warns_about_it(team: Team, copying: Copying) -> None:
    ada, _, otto = _grown(team)
    copy, common = copying(), ada.head()
    send_text(ada, otto, "@otto", "lost")
    for node in list(team.nodes):
        team.end(node)
    copy.put_back()
    with RunningServer(Place(team.root / "ada")) as served:
        (warning,) = served.told["hazards"]
        assert f"The engine has lost #{common + 1}, which this node has" in warning


@pytest.mark.parametrize("is_recorded", [True, False])
def test_the_next_repair_records_an_interrupted_repair(
    team: Team, copying: Copying, monkeypatch: pytest.MonkeyPatch, *, is_recorded: bool
) -> None:
    """The entries are restored. The log records the repair once, whether or not the interrupted
    repair had already recorded it."""
    ada, _, otto = _grown(team)
    copy, common = copying(), ada.head()
    send_text(ada, otto, "@otto", "lost")
    for node in list(team.nodes):
        team.end(node)
    copy.put_back()
    place, say = Place(team.root / "ada"), repairing._record

    def breaks_off(turn: Batch, outcome: dict[str, Any], *, is_new: bool) -> None:
        if is_recorded:
            turn.system().append("log_repaired", outcome)
        else:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(repairing, "_record", breaks_off)
        place.run("repair", "--restore")
    assert repairing._record is say
    shown = place.run("repair", "--json")
    assert (shown.status, shown.json["unsaid"]) == (1, True)
    assert place.ok("repair", "--restore")["restored"] == 0
    assert place.ok("repair")["ok"]
    assert place.no("USAGE", "repair", "--restore")
    (repaired,) = facts(team.open("bert"), "log_repaired")
    assert repaired["outcome"]["first"] == repaired["outcome"]["last"] == common + 1


# --- giving up


def test_giving_up_a_lost_tail_starts_a_new_epoch(team: Team, copying: Copying) -> None:
    ada, bert, otto = _grown(team)
    before = ada.call(otto, AcquireClaim(item="B-1"))["claim"]["fence"]
    copy, common = copying(), ada.head()
    send_text(bert, otto, "@otto", "abandoned words")
    level(ada, bert)
    assert _found(ada, otto, "abandoned") == _found(bert, otto, "abandoned") == 1
    root, length, log = audit.verify(ada)["root"], ada.head(), hashes(ada)
    copy.put_back()
    for node in (ada, bert):
        _notices(node)
    done = Place(team.root / "ada").ok("repair", "--give-up")
    assert (done["given_up"], done["epoch"]) == (length - common, 1)
    for node in (ada, bert):
        until(lambda node=node: facts(node, "epoch_started"))  # type: ignore[misc]
    level(ada, bert)
    (begun,) = facts(bert, "epoch_started")
    assert (begun["seq"], begun["epoch"]) == (common + 1, 1)
    abandoned = begun["outcome"]["abandoned"]
    assert (abandoned["epoch"], abandoned["seq"], abandoned["root"]) == (0, length, root)
    assert (abandoned["after"], abandoned["first"]) == (common, log[common][1])
    for name in ("ada", "bert"):
        _has_kept(team.root / name / "workspace" / f"abandoned-0-{length}.db", length)
    with pytest.raises(NotAllowed, match="interlock token reaffirm"):
        send_text(bert, otto, "@otto", "no")
    Place(team.root / "bert").ok("token", "reaffirm", "--all")
    until(lambda: _writes(ada, otto))
    assert texts(ada, otto) == texts(bert, otto) == ["kept", "again"]
    assert _found(ada, otto, "abandoned") == _found(bert, otto, "abandoned") == 0
    assert _found(ada, otto, "again") == _found(bert, otto, "again") == 1
    after = bert.call(otto, AcquireClaim(item="B-2"))["claim"]["fence"]
    assert after > before + (1 << 32)


def _found(node: Node, who: Credentials, word: str) -> int:
    return len(node.call(who, Search(word))["messages"])


def _has_kept(path: Path, length: int) -> None:
    """Check that the file has the whole earlier log."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    assert connection.execute("SELECT max(seq) FROM log").fetchone() == (length,)
    connection.close()


def test_a_fork_is_noticed_and_repaired_by_giving_up_one_side(team: Team, copying: Copying) -> None:
    """A node that did not know of the loss continued to write, while the others were down."""
    ada, bert, otto = _grown(team)
    copy, common = copying(), ada.head()
    send_text(ada, otto, "@otto", "abandoned")
    level(ada, bert)
    length = ada.head()
    for node in (ada, bert):
        team.end(node)
    copy.put_back()
    caro = team.open("caro")
    for number in range(3):
        send_text(caro, otto, "@otto", f"written on {number}")
    ada, bert = team.open("ada"), team.open("bert")
    for node in (ada, bert):
        trouble = _notices(node)
        assert f"The log forks after #{common}" in trouble.message
        assert trouble.members["engine_seq"] == common + 3
        with pytest.raises(LogForked):
            send_text(node, otto, "@otto", "no")
    place = Place(team.root / "ada")
    with RunningServer(place):
        refused = place.no("LOG_FORKED", "repair", "--restore")
        assert refused["message"].endswith("start a new epoch: interlock repair --give-up")
        assert place.run("repair", "--json").json["lost"][0]["seq"] == common + 1
        place.ok("repair", "--give-up")
        for node in (bert, caro):
            until(lambda node=node: facts(node, "epoch_started"))  # type: ignore[misc]
        place.ok("token", "reaffirm", "--all")
        until(lambda: len(place.ok("inbox", INTERLOCK_TOKEN=otto.token)["messages"]) == 4)
    level(ada, bert, caro)
    (begun,) = facts(caro, "epoch_started")
    assert (begun["seq"], begun["outcome"]["abandoned"]["seq"]) == (common + 4, length)
    for node in (ada, bert, caro):
        until(lambda node=node: _writes(node, otto))  # type: ignore[misc]
    expected = ["kept", *(f"written on {number}" for number in range(3)), *["again"] * 3]
    level(ada, bert, caro)
    assert texts(bert, otto) == expected
    assert not (team.root / "caro" / "workspace" / f"abandoned-0-{length}.db").exists()


def test_claims_granted_after_a_fork_do_not_keep_their_fence(team: Team, copying: Copying) -> None:
    ada, bert, otto = _grown(team)
    vera = join(ada, "vera")
    kept = ada.call(vera, AcquireClaim(item="B-0"))["claim"]
    copy = copying()
    lost = ada.call(otto, AcquireClaim(item="B-1"))["claim"]
    for node in (ada, bert):
        team.end(node)
    copy.put_back()
    caro = team.open("caro")
    held = caro.call(vera, AcquireClaim(item="B-1"))["claim"]
    assert held["fence"] == lost["fence"]
    place = Place(team.root / "ada")
    place.ok("repair", "--give-up")
    place.ok("token", "reaffirm", "--all")
    until(lambda: _writes(caro, otto))
    with pytest.raises(StaleFence):
        caro.call(vera, RenewClaim(item="B-1", fence=held["fence"]))
    again = caro.call(vera, AcquireClaim(item="B-1"))["claim"]
    assert again["fence"] > (1 << 40)
    renewed = caro.call(vera, RenewClaim(item="B-0", fence=kept["fence"]))["claim"]
    assert renewed["fence"] == kept["fence"]


def test_a_foreign_entry_after_a_fork_blocks_no_repair(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Redis accepts an entry between two positions, where each read finds it again."""
    with (
        ValkeyServer(tmp_path_factory.mktemp("own")) as server,
        closing(Remotes("redis", server)) as remotes,
        closing(Team(tmp_path_factory.mktemp("team"), remotes)) as team,
    ):
        ada, _, otto = _grown(team)
        copy, common = Copying(team, tmp_path_factory.mktemp("copy") / "it")(), ada.head()
        send_text(ada, otto, "@otto", "abandoned")
        for node in list(team.nodes):
            team.end(node)
        copy.put_back()
        caro = team.open("caro")
        for number in range(3):
            send_text(caro, otto, "@otto", f"written on {number}")
        team.end(caro)
        with redis.Redis.from_url(server.url) as client:
            log = f"interlock:{{{remotes.name}}}:log"
            client.xadd(log, {"header": "none"}, f"{common + 3}-1")
        ada = team.open("ada")
        assert _notices(ada).members["engine_seq"] == common + 3
        place = Place(team.root / "ada")
        assert place.run("repair", "--json").json["common_seq"] == common
        place.ok("repair", "--give-up")
        until(lambda: facts(ada, "epoch_started"))
        assert remotes().aside() == 1
