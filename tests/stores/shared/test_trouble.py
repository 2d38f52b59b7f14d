"""Nodes whose engine is down or stopped, nodes that lose the engine's answers, and nodes whose
clocks disagree. Every answer is true, and no request is executed twice."""

import calendar
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from interlock.errors import EngineUnavailable
from interlock.node import Node
from interlock.rooms.mail.verbs import Search
from interlock.rooms.workspace.verbs import ShowLog, VerifyLog, Whoami
from interlock.verbs.credentials import Credentials
from world.commandline import Place, until
from world.remotes import PostgresIntruder, RedisIntruder, Remotes
from world.server import Reply, RunningServer
from world.tcp_proxy import OutageProxy, TcpProxy
from world.teams import Team, level, texts
from world.workspace import OWNER, facts, join, send_text

pytestmark = pytest.mark.long


@pytest.fixture
def own_team(tmp_path_factory: pytest.TempPathFactory, own_remote: Remotes) -> Iterator[Team]:
    """Nodes on a server that the test may stop."""
    team = Team(tmp_path_factory.mktemp("team"), own_remote)
    yield team
    team.close()


# --- the engine cannot be reached


def _whoami(served: RunningServer, token: str) -> Reply:
    return served.ask("GET", "/v1/whoami", token=token)


def _inbox(served: RunningServer, token: str) -> list[Any]:
    messages: list[Any] = served.ask("GET", "/v1/inbox", token=token).json["messages"]
    return messages


def _is_refused(reply: Reply) -> bool:
    """Return whether the node refused the request because of its engine."""
    if reply.status == 200:
        return False
    assert (reply.status, reply.code) == (503, "ENGINE_UNAVAILABLE")
    return True


def test_without_the_engine_writes_are_refused_and_reads_report_their_age(
    own_team: Team,
) -> None:
    server, place = own_team.remotes.server, own_team.place("ada")
    token = place.join("otto")
    with RunningServer(place, constants={"interlock.node.SURE_FOR_S": 0.5}) as served:
        assert served.send(token, "@otto", "before").status == 200
        server.kill()
        refused = served.send(token, "@otto", "meanwhile")
        assert _is_refused(refused)
        assert "Nothing was done" in refused.json["message"]
        assert [m["payload"]["text"] for m in _inbox(served, token)] == ["before"]
        assert until(lambda: _whoami(served, token).json.get("age_s")) >= 1
        assert served.metric("interlock_engine_up") == 0
        assert _is_refused(served.ask("GET", "/readyz"))
        assert "Interlock cannot use" in place.ok("status")["trouble"]
        server.start()
        until(lambda: not _is_refused(served.send(token, "@otto", "after")))
        assert "age_s" not in _whoami(served, token).json
        until(lambda: served.metric("interlock_engine_up") == 1)
        assert served.ask("GET", "/readyz").json["ready"] is True
        assert [m["payload"]["text"] for m in _inbox(served, token)] == ["before", "after"]


def test_reads_are_refused_when_a_token_may_have_been_revoked_meanwhile(
    own_team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = own_team.open("ada")
    otto = join(ada, "otto")
    monkeypatch.setattr("interlock.node.MAX_AGE_S", 2.0)
    own_team.remotes.server.kill()
    found = until(lambda: _trouble(ada, otto))
    assert "a token may have been revoked meanwhile" in found.message
    own_team.remotes.server.start()
    until(lambda: _trouble(ada, otto) is None)


def _trouble(node: Node, who: Credentials) -> EngineUnavailable | None:
    """Return the error of a read, or None."""
    try:
        node.call(who, Whoami())
    except EngineUnavailable as trouble:
        return trouble
    return None


def test_writes_refused_by_a_stopped_engine_are_not_executed_later(
    own_team: Team,
) -> None:
    server = own_team.remotes.server
    ada = own_team.open("ada")
    otto = join(ada, "otto")
    send_text(ada, otto, "@otto", "before")
    server.pause()
    try:
        for number in range(2):
            with pytest.raises(EngineUnavailable) as caught:
                send_text(ada, otto, "@otto", f"meanwhile {number}")
            assert "outcome" not in caught.value.members
    finally:
        server.resume()
    until(lambda: _is_sent(ada, otto, "after"))
    assert texts(ada, otto) == ["before", "after"]
    level(ada, own_team.open("bert"))


def _is_sent(node: Node, who: Credentials, text: str) -> bool:
    try:
        send_text(node, who, "@otto", text)
    except EngineUnavailable:
        return False
    return True


def test_a_node_restarted_without_its_engine_works_when_the_engine_is_back(
    own_team: Team,
) -> None:
    server, place = own_team.remotes.server, own_team.place("ada")
    token = place.join("otto")
    server.kill()
    assert place.no("ENGINE_UNAVAILABLE", "whoami", INTERLOCK_TOKEN=token)
    with RunningServer(place) as served:
        (warning,) = served.told["hazards"]
        assert "Interlock cannot use" in warning
        assert _is_refused(_whoami(served, token))
        assert _is_refused(served.send(token, "@otto", "no"))
        server.start()
        until(lambda: not _is_refused(_whoami(served, token)))
        assert served.send(token, "@otto", "hello").status == 200


def test_status_and_audit_answer_the_owner_while_other_reads_are_refused(own_team: Team) -> None:
    place = own_team.place("ada")
    place.join("otto")
    own_team.remotes.server.kill()
    found = place.ok("status")
    assert own_team.remotes.name in found["url"]
    assert "PASSWORD" in found["url"] or own_team.remotes.kind == "redis"
    assert found["trouble"].endswith(".")
    assert "Nothing was done" not in found["trouble"]
    assert found["trouble"] in place.run("status").text
    assert "Interlock cannot use" in place.ok("audit", "verify")["trouble"]
    assert b"has not confirmed that this answer" in place.run("audit", "show").err


def test_search_finds_unindexed_messages_without_the_engine(own_team: Team) -> None:
    """A search updates the index, which it cannot write without the engine."""
    ada = own_team.open("ada")
    otto, vera = join(ada, "otto"), join(ada, "vera")
    send_text(ada, otto, "@otto", "an early word")
    assert _searched(ada, otto, "word") == ["an early word"]
    send_text(ada, otto, "@otto", "a later word")
    send_text(ada, vera, "@vera", "word for vera")
    own_team.remotes.server.kill()
    until(lambda: ada.shared and ada.shared.trouble)
    assert _searched(ada, otto, "word") == ["a later word", "an early word"]
    assert _searched(ada, vera, "word") == ["word for vera"]
    assert _searched(ada, vera, "later") == []


def _searched(node: Node, who: Credentials, query: str) -> list[str]:
    found = node.call(who, Search(query))["messages"]
    return [message["payload"]["text"] for message in found]


def test_an_audit_reports_the_age_of_the_log_that_it_read(
    own_team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = own_team.open("ada")
    assert "age_s" not in ada.call(OWNER, VerifyLog())
    monkeypatch.setattr("interlock.node.upkeep.SURE_FOR_S", 1.0)
    own_team.remotes.server.kill()
    for act in (VerifyLog(), ShowLog()):
        found = until(lambda act=act: _with_age(ada, act))  # type: ignore[misc]
        assert found["age_s"] >= 1
        assert "Interlock cannot use" in found["trouble"]


def _with_age(node: Node, act: Any) -> Any:
    answer = node.call(OWNER, act)
    return answer if "age_s" in answer else None


def test_nodes_follow_an_engine_that_accepts_no_reports(own_team: Team) -> None:
    """An engine that is full or read-only can still be read."""
    ada, bert = own_team.open("ada"), own_team.open("bert")
    otto = join(ada, "otto")
    intruder = own_team.remotes.intruder()
    if isinstance(intruder, RedisIntruder):
        intruder.db.set(f"interlock:{{{own_team.remotes.name}}}:nodes", "full")
    else:
        assert isinstance(intruder, PostgresIntruder)
        intruder.db.execute("ALTER TABLE interlock_nodes RENAME COLUMN about TO full_now")
    for node in (ada, bert):
        until(lambda node=node: node.shared and node.shared.trouble)  # type: ignore[misc]
    send_text(bert, otto, "@otto", "hello")
    until(lambda: ada.head() == bert.head())
    assert ada.shared is not None
    assert ada.shared.trouble is not None
    assert ada.engine.age_s() is not None


def test_a_node_shows_its_own_current_position(team: Team) -> None:
    ada = team.open("ada")
    otto = join(ada, "otto")
    assert ada.shared is not None
    for _ in range(5):
        send_text(ada, otto, "@otto", "hello")
        (here,) = ada.shared.standing(ada)["nodes"]
        assert (here["seq"], here["lag"]) == (ada.head(), 0)


def test_metrics_contain_the_last_report_time_of_each_node(team: Team) -> None:
    with RunningServer(team.place("ada")) as served:
        found = until(
            lambda: [
                line
                for line in served.ask("GET", "/metrics").body.decode().splitlines()
                if line.startswith("interlock_node_heard_seconds{")
            ]
        )
        assert len(found) == 1


def test_a_new_node_does_not_start_while_the_engine_is_down(own_team: Team) -> None:
    own_team.place("ada")
    own_team.remotes.server.kill()
    with pytest.raises(EngineUnavailable):
        own_team.open("bert")
    own_team.remotes.server.start()
    assert own_team.open("bert").head() == 1


def test_a_node_whose_directory_was_deleted_joins_again(team: Team) -> None:
    ada, bert = team.open("ada"), team.open("bert")
    otto = join(bert, "otto")
    team.end(bert)
    shutil.rmtree(team.root / "bert")
    send_text(ada, otto, "@otto", "meanwhile")
    bert = team.open("bert")
    level(ada, bert)
    assert texts(bert, otto) == ["meanwhile"]
    send_text(bert, otto, "@otto", "here again")
    level(ada, bert)


# --- the answer is lost

# Bytes that a node sends to each engine only when the engine should store the facts.
STORES = {"postgres": b"COMMIT", "redis": b"hello there"}


def test_after_a_lost_answer_the_node_finds_and_acknowledges_the_stored_message(
    team: Team, remote: Remotes
) -> None:
    proxy = TcpProxy(remote.server.port)
    with proxy:
        ada, bert = team.open("ada", port=proxy.port), team.open("bert")
        otto = join(ada, "otto")
        proxy.cut_at(STORES[remote.kind], arrives=True)
        send_text(ada, otto, "@otto", "hello there")
        assert proxy.was_cut
        level(ada, bert)
        assert texts(bert, otto) == ["hello there"]
        team.end(ada)


def test_a_retry_with_the_same_key_after_an_unknown_outcome_sends_once(
    team: Team, remote: Remotes
) -> None:
    proxy = TcpProxy(remote.server.port)
    with proxy:
        ada, bert = team.open("ada", port=proxy.port), team.open("bert")
        otto = join(ada, "otto")
        proxy.cut_at(STORES[remote.kind], arrives=False)
        with pytest.raises(EngineUnavailable) as caught:
            send_text(ada, otto, "@otto", "hello there", key="the-key")
        assert caught.value.members["outcome"] == "unknown"
        assert "with the same --key" in caught.value.message
        send_text(ada, otto, "@otto", "hello there", key="the-key")
        level(ada, bert)
        assert texts(bert, otto) == ["hello there"]
        team.end(ada)


def test_a_node_that_cannot_read_the_engine_reports_an_unknown_outcome(
    team: Team, remote: Remotes
) -> None:
    """The caller's retry with the same key gets the first outcome, on every node."""
    proxy = OutageProxy(remote.server.port)
    with proxy:
        ada, bert = team.open("ada", port=proxy.port), team.open("bert")
        otto = join(ada, "otto")
        proxy.cut_at(STORES[remote.kind], arrives=True)
        with pytest.raises(EngineUnavailable) as caught:
            send_text(ada, otto, "@otto", "hello there", key="the-key")
        assert caught.value.members["outcome"] == "unknown"
        with pytest.raises(EngineUnavailable):
            send_text(ada, otto, "@otto", "hello there", key="the-key")
        (first,) = until(lambda: facts(bert, "message_sent"))
        proxy.recover()
        until(lambda: _is_sent(ada, otto, "something else"))
        for node in (ada, bert):
            again = send_text(node, otto, "@otto", "hello there", key="the-key")
            assert (again["seq"], again["id"]) == (first["seq"], first["outcome"]["id"])
        assert texts(bert, otto) == ["hello there", "something else"]
        level(ada, bert)
        team.end(ada)


def test_a_retry_over_http_after_an_unknown_outcome_sends_once(team: Team, remote: Remotes) -> None:
    proxy = OutageProxy(remote.server.port)
    with proxy:
        place = team.place("ada", port=proxy.port)
        token = place.join("otto")
        with RunningServer(place) as served:
            proxy.cut_at(STORES[remote.kind], arrives=True)
            lost = served.send(token, "@otto", "hello there", Idempotency_Key="the-key")
            assert (lost.status, lost.json["outcome"]) == (503, "unknown")
            proxy.recover()

            def sent() -> Any:
                reply = served.send(token, "@otto", "hello there", Idempotency_Key="the-key")
                return reply.json["message"] if reply.status == 200 else None

            assert until(sent) == sent()
            assert served.ask("GET", "/v1/inbox", token=token).json["open"] == 1


# --- clocks

SHIFTED = """
import sys, time
shift, real, real_ns = int(sys.argv.pop(1)), time.time, time.time_ns
time.time = lambda: real() + shift
time.time_ns = lambda: real_ns() + shift * 10**9
from interlock.server.__main__ import main
sys.exit(main())
"""


class Shifted(RunningServer):
    """A server whose wall clock is `shift_s` seconds ahead."""

    def __init__(self, place: Place, shift_s: int) -> None:
        super().__init__(place, constants={})
        self._shift_s = shift_s

    def _altered(self, where: list[str]) -> subprocess.Popen[bytes]:
        place = self.place
        words = [str(self._shift_s), "--workspace", str(place.workspace), *where]
        return subprocess.Popen(
            [sys.executable, "-c", SHIFTED, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=place.environ,
            cwd=place.cwd,
        )

    def now(self) -> str:
        """Return the time by which the server decides."""
        return str(self.ask("GET", "/v1/status", token=self.owner).json["now"])

    def claims(self, token: str, seen: str) -> list[Any]:
        """Return the claims on the item at this node, once it has the entry `seen`."""
        headers = {"Interlock-Seq": seen}
        found = self.ask("POST", "/v1/claims/check", {"item": "B-1"}, token=token, headers=headers)
        claims: list[Any] = found.json["claims"]
        return claims


@pytest.fixture
def hours_apart(team: Team) -> Iterator[tuple[Shifted, Shifted]]:
    """Two nodes: one clock is an hour ahead, the other an hour behind."""
    ada, bert = Shifted(team.place("ada"), 3600), Shifted(team.place("bert"), -3600)
    with ada, bert:
        yield ada, bert


def test_a_lease_ends_at_the_same_time_on_nodes_whose_clocks_are_hours_apart(
    hours_apart: tuple[Shifted, Shifted],
) -> None:
    ada, bert = hours_apart
    otto, vera = ada.place.join("otto"), bert.place.join("vera")
    reply = ada.ask("POST", "/v1/claims", {"item": "B-1", "ttl_s": 4}, token=otto)
    claim, seen = reply.json["claim"], reply.headers["interlock-seq"]
    ends = claim["expires_at"]
    held, ended = 0, 0
    while ended < 2:
        ended = 0
        for node, token in ((ada, otto), (bert, vera)):
            before, claims, after = node.now(), node.claims(token, seen), node.now()
            if claims:
                assert claims[0]["expires_at"] == ends
                assert before < ends
            else:
                assert after >= ends
            held, ended = held + len(claims), ended + (not claims)
    assert held
    took = bert.ask("POST", "/v1/claims", {"item": "B-1"}, token=vera).json
    assert took["acquired"]
    assert took["claim"]["fence"] > claim["fence"]


def test_presence_and_log_use_one_time_on_nodes_whose_clocks_are_hours_apart(
    hours_apart: tuple[Shifted, Shifted],
) -> None:
    ada, bert = hours_apart
    otto, vera = ada.place.join("otto"), bert.place.join("vera")
    start = ada.now()
    for _ in range(5):
        assert ada.send(otto, "@vera", "hello").status == 200
        assert bert.send(vera, "@otto", "hello").status == 200

    def agents() -> Any:
        found = [
            node.ask("GET", "/v1/agents", token=node.owner).json["agents"] for node in hours_apart
        ]
        seen = [[agent.get("last_seen", "") for agent in agents] for agents in found]
        return found if seen[0] == seen[1] and all(seen[0]) else None

    here, there = until(agents)
    assert here == there
    assert {agent["reach"] for agent in here} == {"waits"}
    assert all(start <= agent["last_seen"] <= bert.now() for agent in here)
    times = [fact["at"] for fact in ada.place.facts()]
    assert times == sorted(times)
    assert (
        abs(time.time() - calendar.timegm(time.strptime(times[-1][:19], "%Y-%m-%dT%H:%M:%S"))) < 900
    )
