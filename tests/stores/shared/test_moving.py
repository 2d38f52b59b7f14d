"""Moving a workspace from its own file to an engine, and further needs of several nodes. These are
reading your own writes, warnings about possible losses, and a Redis cluster."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis
from redis.crc import key_slot

from interlock.errors import EngineUnavailable, NotFound
from interlock.local.link import open_node
from interlock.node import Node, upkeep
from interlock.node.doctor import examine
from interlock.rooms.mail.verbs import Redact
from interlock.rooms.workspace.verbs import Whoami
from interlock.stores.recognition import NEW, RECORD
from interlock.stores.shared.redis import RedisRemote
from interlock.stores.shared.remote import seal
from interlock.stores.sqlite import LogFile
from interlock.verbs.credentials import Credentials
from world.commandline import Place, until
from world.databases import PostgresServer, Server, ValkeyServer
from world.remotes import Remotes
from world.server import RunningServer, free_port
from world.tcp_proxy import OutageProxy, TcpProxy
from world.teams import LARGE, Team, level, texts
from world.workspace import OWNER, facts, join, send_text

pytestmark = pytest.mark.long

Teams = Callable[[Remotes], Team]


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """An embedded workspace with messages, a redaction and a claim."""
    place = Place(tmp_path_factory.mktemp("place")).but(**{NEW: None})
    place.join("otto")
    for text in ("hello", "a leak", LARGE):
        place.ok("send", "@otto", "-", "--from", "otto", stdin=text.encode())
    leak = place.ok("inbox", "--from", "otto")["messages"][1]
    place.ok("redact", leak["id"], "--reason", "a leak")
    place.ok("claim", "acquire", "--item", "B-1", "--from", "otto")
    return place


@pytest.fixture
def teams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Teams]:
    """Makes teams, and closes their nodes after the test."""
    made: list[Team] = []

    def team(remotes: Remotes) -> Team:
        made.append(Team(tmp_path_factory.mktemp("team"), remotes))
        return made[-1]

    yield team
    for team_of_the_test in made:
        team_of_the_test.close()


def _url(remote: Remotes, port: int | None = None) -> str:
    server = remote.server
    through = server.url.replace(f":{server.port}/", f":{port or server.port}/")
    return f"{through}?workspace={remote.name}"


def _exported(place: Place, name: str) -> list[Any]:
    place.ok("audit", "export", str(place.root / name))
    return [json.loads(line) for line in (place.root / name).read_text().splitlines()]


def _digest(place: Place) -> str:
    with open_node(str(place.workspace)) as node:
        return upkeep.state_digest(node)


# --- migrate


def test_a_moved_log_keeps_every_entry_and_every_proof(place: Place, remote: Remotes) -> None:
    digest, export = _digest(place), _exported(place, "before")
    checkpoint, proof = place.root / "checkpoint", place.root / "proof"
    checkpoint.write_text(place.ok("audit", "checkpoint")["checkpoint"])
    proof.write_text(json.dumps(place.ok("audit", "prove", "4")))
    moved = place.ok("migrate", "--to", _url(remote))
    assert (moved["entries"], moved["workspace"]) == (len(export) - 1, remote.name)
    assert _exported(place, "after") == export
    assert _digest(place) == digest
    assert place.ok("audit", "verify", "--checkpoint", str(checkpoint))["ok"]
    assert place.ok("audit", "check-proof", str(proof))["ok"]
    assert "already on the engine" in place.no("USAGE", "migrate", "--to", _url(remote))["message"]
    place.ok("send", "@otto", "moved", "--from", "otto")
    assert [fact["seq"] for fact in place.facts()] == list(range(1, len(export) + 1))
    _has_all(place, remote, export[1:])


def _has_all(place: Place, remote: Remotes, export: list[Any]) -> None:
    """Check that a new node gets the same log and state from the engine."""
    newcomer = str(place.root / "newcomer")
    key = (place.workspace / "keys" / "checkpoint.key").read_bytes()
    with open_node(newcomer, engine=_url(remote), key=key) as node:
        with open_node(str(place.workspace)) as first:
            level(first, node)
        assert [fact["seq"] for fact in facts(node)][: len(export)] == [
            entry["seq"] for entry in export
        ]


@pytest.mark.parametrize("arrives", [True, False])
def test_an_interrupted_move_can_be_repeated(
    place: Place, remote: Remotes, monkeypatch: pytest.MonkeyPatch, *, arrives: bool
) -> None:
    """Until the move is complete, the file remains the log and accepts writes."""
    place.ok("send", "@otto", "here", "--key", "broken-off-here", "--from", "otto")
    place.ok("send", "@otto", "and on", "--from", "otto")
    monkeypatch.setattr("interlock.stores.shared.engine.AT_ONCE", 2)
    proxy = OutageProxy(remote.server.port)
    with proxy:
        proxy.cut_at(b"broken-off-here", arrives=arrives)
        place.no("ENGINE_UNAVAILABLE", "migrate", "--to", _url(remote, proxy.port))
        assert proxy.was_cut
    half = remote().remote_head().seq
    assert 0 < half < place.entries()
    place.ok("send", "@otto", "meanwhile", "--from", "otto")
    leak = place.ok("inbox", "--from", "otto")["messages"][0]
    place.ok("redact", leak["id"], "--reason", "a leak")
    export = _exported(place, "before")
    assert place.ok("migrate", "--to", _url(remote))["entries"] == len(export) - 1
    assert _exported(place, "after") == export
    _has_all(place, remote, export[1:])
    bodies = {entry.seq: entry.body for entry in remote().read(0, 1000)}
    assert bodies[leak["seq"]] is None


def test_a_move_to_the_name_of_another_workspace_is_refused(
    place: Place, remote: Remotes, teams: Teams
) -> None:
    ada = teams(remote).open("ada")
    otto = join(ada, "otto")
    before = remote().read(0, 1000)
    refused = place.no("USAGE", "migrate", "--to", _url(remote))
    assert f"another workspace {remote.name}" in refused["message"]
    assert (remote().read(0, 1000), remote().aside()) == (before, 0)
    place.ok("send", "@otto", "still embedded", "--from", "otto")
    send_text(ada, otto, "@otto", "still shared")
    level(ada)


def test_a_process_with_the_embedded_log_open_is_refused_after_the_move(
    place: Place, remote: Remotes
) -> None:
    with open_node(str(place.workspace)) as before:
        otto = join(before, "vera")
        moved = place.process("migrate", "--to", _url(remote), "--json")
        assert moved.status == 0, moved
        with pytest.raises(EngineUnavailable, match="was moved to a shared engine"):
            send_text(before, otto, "@vera", "no")
    with open_node(str(place.workspace)) as node:
        send_text(node, otto, "@vera", "yes")
        assert texts(node, otto) == ["yes"]


def test_a_moved_workspace_without_its_record_refuses_writes_with_the_remedy(
    place: Place, remote: Remotes
) -> None:
    """A crash at the very end of a move leaves this state."""
    place.ok("migrate", "--to", _url(remote))
    (place.workspace / RECORD).unlink()
    refused = place.no("ENGINE_UNAVAILABLE", "send", "@otto", "hello", "--from", "otto")
    assert f"interlock up --engine URL?workspace={remote.name}" in refused["message"]
    up = ("up", "--engine", _url(remote), "--port", str(free_port()), "--detach", "--json")
    assert place.process(*up).json["up"]
    try:
        place.ok("send", "@otto", "hello", "--from", "otto")
    finally:
        place.ok("down")


def test_the_next_command_completes_a_move_that_was_interrupted_at_its_end(
    place: Place, remote: Remotes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(file: LogFile, workspace: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(LogFile, "note_copy", dies)
        assert place.run("migrate", "--to", _url(remote)).status == 130
    before = place.ok("send", "@otto", "moved", "--from", "otto")["message"]["seq"]
    assert remote().remote_head().seq == before
    (place.workspace / RECORD).unlink()
    place.no("ENGINE_UNAVAILABLE", "inbox", "--from", "otto")


def test_a_moved_workspace_without_its_record_refuses_reads_too(
    place: Place, remote: Remotes
) -> None:
    place.ok("migrate", "--to", _url(remote))
    (place.workspace / RECORD).unlink()
    for words in (("inbox", "--from", "otto"), ("status",), ("audit", "verify")):
        refused = place.no("ENGINE_UNAVAILABLE", *words)
        assert f"interlock up --engine URL?workspace={remote.name}" in refused["message"]


def test_a_node_whose_copy_was_deleted_copies_the_log_again(teams: Teams, remote: Remotes) -> None:
    team = teams(remote)
    place = team.place("ada")
    place.join("otto")
    place.ok("send", "@otto", "hello", "--from", "otto")
    for part in place.workspace.glob("log.db*"):
        part.unlink()
    (message,) = place.ok("inbox", "--from", "otto")["messages"]
    assert message["payload"]["text"] == "hello"
    place.ok("send", "@otto", "and on", "--from", "otto")


def test_a_mistyped_workspace_name_is_not_recorded(teams: Teams, remote: Remotes) -> None:
    team = teams(remote)
    team.open("ada")
    directory = team.root / "bert"
    wrong = team.url().replace(remote.name, remote.name + "-2")
    with pytest.raises(NotFound, match=f"no workspace {remote.name}-2 yet"):
        open_node(str(directory), engine=wrong, key=team.key)
    assert list(directory.iterdir()) == []
    with open_node(str(directory), engine=team.url(), key=team.key) as bert:
        assert bert.head() == 1


def test_bodies_are_copied_in_pieces_however_many_and_large_they_are(
    place: Place, remote: Remotes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One turn copies one piece. In this test, a piece has a thousand bytes."""
    for module in ("engine", "postgres", "redis"):
        monkeypatch.setattr(f"interlock.stores.shared.{module}.READ_BYTES", 1000)
    with open_node(str(place.workspace)) as node:
        vera = join(node, "vera")
        for number in range(40):
            send_text(node, vera, "@vera", f"{number:0600}")
    export = _exported(place, "before")
    place.ok("migrate", "--to", _url(remote))
    assert len(remote().read(0, 1000)) < len(export) - 1
    _has_all(place, remote, export[1:])
    with open_node(str(place.workspace)) as node:
        assert texts(node, vera) == [f"{number:0600}" for number in range(40)]


def test_a_workspace_with_a_running_server_is_not_moved(place: Place, remote: Remotes) -> None:
    with RunningServer(place):
        refused = place.no("USAGE", "migrate", "--to", _url(remote))
    assert "interlock down" in refused["message"]
    assert remote().remote_head().seq == 0


# --- several nodes


def test_a_client_that_sends_its_seq_reads_its_own_writes_on_another_node(
    teams: Teams, remote: Remotes
) -> None:
    team = teams(remote)
    with RunningServer(team.place("ada")) as ada, RunningServer(team.place("bert")) as bert:
        joined = ada.ask("POST", "/v1/agents", {"name": "otto"}, token=ada.owner)
        token, seen = joined.json["token"], joined.headers["interlock-seq"]
        for number in range(1, 11):
            here, there = (ada, bert) if number % 2 else (bert, ada)
            seen = here.send(token, "@otto", "hello", Interlock_Seq=seen).headers["interlock-seq"]
            headers = {"Interlock-Seq": seen}
            read = there.ask("GET", "/v1/whoami", token=token, headers=headers)
            assert read.json["open"] == number
            assert int(read.headers["interlock-seq"]) >= int(seen)
        strange = {"Interlock-Seq": "tomorrow"}
        assert ada.ask("GET", "/v1/whoami", token=token, headers=strange).code == "USAGE"


def test_a_node_suggests_no_command_that_needs_credentials_of_another_machine(
    teams: Teams, remote: Remotes
) -> None:
    team = teams(remote)
    team.place("ada").join("otto")
    place = team.place("bert")
    up = place.process("up", "--port", str(free_port()), "--detach")
    place.ok("down")
    assert "Agents     @otto" in up.text
    assert "--from otto" not in up.text
    assert "run otto" not in up.text
    assert "join NAME" in up.text


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [(ValkeyServer, "appendfsync", "everysec"), (PostgresServer, "fsync", "off")],
)
def test_up_and_doctor_warn_of_an_engine_that_may_lose_acknowledged_writes(
    tmp_path_factory: pytest.TempPathFactory, kind: type[Server], name: str, value: str
) -> None:
    place = Place(tmp_path_factory.mktemp("place"))
    with kind(tmp_path_factory.mktemp("server"), {name: value}) as server:
        up = ("up", "--engine", server.url, "--port", str(free_port()), "--detach")
        done = place.process(*up)
        try:
            (warning,) = [line for line in done.text.splitlines() if "Warning" in line]
            assert f"{name} is {value}" in warning
            (found,) = place.run("doctor", "--json").json["findings"]
            assert found["check"] == "engine-durable"
            assert f"{name} is {value}" in found["message"]
            program = found["do"].split()[0]
            assert program == ("psql" if "postgres" in server.url else "redis-cli")
            assert name in found["do"]
            assert "PASSWORD" not in found["do"]
            assert (urlsplit(server.url).password or "no password") not in found["do"]
        finally:
            place.ok("down")


# --- Redis as a cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """A cluster of one server, which has all slots."""
    with _cluster(tmp_path_factory) as server:
        yield server


@contextmanager
def _cluster(
    tmp_path_factory: pytest.TempPathFactory, first: int = 0, last: int = 16383
) -> Iterator[ValkeyServer]:
    settings = {"cluster-enabled": "yes", "cluster-port": str(free_port())}
    with ValkeyServer(tmp_path_factory.mktemp("cluster"), settings) as server:
        with redis.Redis.from_url(server.url) as client:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
        if (first, last) == (0, 16383):
            _is_whole(server)
        yield server


def _is_whole(server: ValkeyServer) -> None:
    with redis.Redis.from_url(server.url) as client:
        until(lambda: b"cluster_state:ok" in client.execute_command("CLUSTER", "INFO"))


@pytest.fixture
def clustered(cluster: ValkeyServer) -> Iterator[Remotes]:
    """Workspaces on a Redis cluster."""
    remotes = Remotes("redis", cluster)
    yield remotes
    remotes.close()


def test_everything_works_on_a_cluster(teams: Teams, clustered: Remotes) -> None:
    team = teams(clustered)
    ada, bert = team.open("ada"), team.open("bert")
    otto = join(ada, "otto")
    message = send_text(ada, otto, "@otto", LARGE)
    send_text(bert, otto, "@otto", "hello", key="once")
    ada.call(OWNER, Redact(message["id"], "a leak"))
    level(ada, bert)
    header = clustered().read(0, 1)[0].header
    clustered.intruder().put(seal(os.urandom(32), ada.head() + 1, header))
    until(lambda: clustered().aside() == 1)
    assert send_text(bert, otto, "@otto", "hello", key="once")["seq"] == message["seq"] + 1
    assert texts(bert, otto) == ["hello"]
    assert examine(ada)["findings"][0]["check"] == "set-aside-entries"
    place = team.place("caro")
    with RunningServer(place) as served:
        assert served.told["hazards"] == []
        until(lambda: len(place.ok("status")["nodes"]) == 3)
    level(ada, bert, team.open("caro"))


@pytest.mark.parametrize("arrives", [True, False])
def test_a_cluster_is_not_sent_the_same_facts_twice(
    teams: Teams, clustered: Remotes, *, arrives: bool
) -> None:
    """Its driver would retry by default, and the second append would look like another node's."""
    proxy = TcpProxy(clustered.server.port)
    with proxy, redis.Redis.from_url(clustered.server.url) as client:
        client.config_set("cluster-announce-port", proxy.port)
        ada = teams(clustered).open("ada", port=proxy.port)
        otto = join(ada, "otto")
        proxy.cut_at(b"hello there", arrives=arrives)
        with nullcontext() if arrives else pytest.raises(EngineUnavailable):
            send_text(ada, otto, "@otto", "hello there")
        assert proxy.was_cut
        until(lambda: _is_sent(ada, otto))
        assert texts(ada, otto) == (["hello there", "hello"] if arrives else ["hello"])
        client.config_set("cluster-announce-port", 0)


def test_the_loss_of_a_cluster_after_the_append_leaves_the_outcome_unknown(
    teams: Teams, clustered: Remotes
) -> None:
    """Its driver searches for the cluster again, and reports that error instead of the lost
    answer."""
    proxy = OutageProxy(clustered.server.port)
    with proxy, redis.Redis.from_url(clustered.server.url) as client:
        client.config_set("cluster-announce-port", proxy.port)
        ada = teams(clustered).open("ada", port=proxy.port)
        otto = join(ada, "otto")
        proxy.cut_at(b"hello there", arrives=True)
        with pytest.raises(EngineUnavailable) as caught:
            send_text(ada, otto, "@otto", "hello there", key="lost")
        assert caught.value.members["outcome"] == "unknown"
        proxy.recover()
        until(lambda: _is_sent(ada, otto))
        send_text(ada, otto, "@otto", "hello there", key="lost")
        assert texts(ada, otto) == ["hello there", "hello"]
        client.config_set("cluster-announce-port", 0)


def _is_sent(node: Node, who: Credentials) -> bool:
    try:
        send_text(node, who, "@otto", "hello", key="the-key")
    except EngineUnavailable:
        return False
    return True


def test_hazards_are_those_of_the_cluster_server_that_has_the_workspace(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with _cluster(tmp_path_factory, 0, 8191) as safe, _cluster(tmp_path_factory, 8192) as unsafe:
        with redis.Redis.from_url(safe.url) as one, redis.Redis.from_url(unsafe.url) as two:
            two.config_set("appendfsync", "everysec")
            bus = unsafe.settings["cluster-port"]
            one.execute_command("CLUSTER", "MEET", "127.0.0.1", unsafe.port, bus)
        for server in (safe, unsafe):
            _is_whole(server)
        names = {key_slot(name.encode()) < 8192: name for name in map(str, range(20))}
        found = {}
        for is_safe, name in names.items():
            with closing(RedisRemote(safe.url, name)) as remote:
                found[is_safe] = remote.hazards()
        assert found[True] == []
        assert "appendfsync is everysec" in found[False][0]


def test_writes_are_refused_while_a_cluster_is_down(
    tmp_path_factory: pytest.TempPathFactory, teams: Teams
) -> None:
    with _cluster(tmp_path_factory) as server, closing(Remotes("redis", server)) as remotes:
        ada = teams(remotes).open("ada")
        otto = join(ada, "otto")
        server.kill()
        with pytest.raises(EngineUnavailable):
            send_text(ada, otto, "@otto", "hello", key="the-key")
        assert ada.call(otto, Whoami())["open"] == 0
        server.start()
        until(lambda: _is_sent(ada, otto))
        server.pause()
        with pytest.raises(EngineUnavailable):
            send_text(ada, otto, "@otto", "no")
        server.resume()
        until(lambda: _is_sent(ada, otto))
        assert texts(ada, otto) == ["hello"]
