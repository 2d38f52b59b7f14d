"""Three nodes and sixteen writers, while processes are killed, stopped, deleted and restarted:
every answer must be true."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import interlock.local.link
from interlock.node import Node, upkeep
from world.commandline import until
from world.linear import Call, Held, unexplained
from world.remotes import Remotes
from world.storm import Member, Record, Storm, Writer, is_short, writing
from world.teams import Team, level
from world.workspace import OWNER, facts

STORM_S = float(os.environ.get("INTERLOCK_STORM_S", "60"))
ITEMS = [f"item-{number}" for number in range(30)] + [f"short-{number}" for number in range(10)]
WRITERS = 16
# How long a caller waits for an answer. A node may be stopped for longer.
PATIENCE_S = 2.5


@pytest.fixture
def team(tmp_path: Path, own_remote: Remotes) -> Iterator[Team]:
    """A workspace on the test's own server."""
    team = Team(tmp_path, own_remote)
    yield team
    team.close()


@pytest.fixture
def members(tmp_path: Path, team: Team) -> Iterator[list[Member]]:
    """Three running servers of the team."""
    key = tmp_path / "the.key"
    members = [Member(tmp_path / name, team.url(), key) for name in ("ada", "bert", "cleo")]
    try:
        for member in members:
            member.start()
        yield members
    finally:
        for member in members:
            member.close()


@pytest.mark.long
def test_every_answer_is_true_despite_random_failures(
    team: Team,
    members: list[Member],
    own_remote: Remotes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interlock.local.link, "PATIENCE_S", PATIENCE_S)
    record = Record(ITEMS)
    writers = joined(members, record)
    storm = Storm(members, own_remote.server)
    with writing(writers):
        storm.blow(STORM_S)
    look_at_all(members, writers[0])
    nodes = ended(team, members)

    print(record.summary(), storm.done)  # pytest shows it if the test fails
    assert record.strange == []
    assert record.every("take", "unknown"), "no outcome was unknown: the failures were too few"
    assert not upkeep.rebuild(nodes[0], OWNER)["changed"]
    level(*nodes)
    each_message_is_there_once(record, nodes[0])
    each_grant_is_there_once(record, nodes[0])
    each_release_is_there_once(record, nodes[0])
    one_at_a_time_explains_it(record)
    nothing_explains_a_copied_grant(record)


def joined(members: list[Member], record: Record) -> list[Writer]:
    urls = [member.url for member in members]
    owner = members[0].owner
    owner.join("reader")
    tokens = [owner.join(f"writer-{number}")["token"] for number in range(WRITERS)]
    return [Writer(number, tokens[number], urls, record) for number in range(WRITERS)]


def look_at_all(members: list[Member], writer: Writer) -> None:
    """After the failures, take every item once. Then wait until the short leases have ended, and
    every node has all entries."""
    for item in ITEMS:
        until(lambda item=item: writer.take_one(item))  # type: ignore[misc]
    owners = [member.owner for member in members]
    until(lambda: not any(is_short(claim["item"]) for claim in owners[0].claims()["claims"]))
    until(lambda: len({owner.storage()["entries"] for owner in owners}) == 1)


def ended(team: Team, members: list[Member]) -> list[Node]:
    """Stop the servers, and open their nodes and a new one in this process."""
    for member in members:
        member.end()
    return [team.open(name) for name in ("ada", "bert", "cleo", "dora")]


# --- the log agrees with the answers


def each_message_is_there_once(record: Record, node: Node) -> None:
    """In the end every key was acknowledged, always with the same id."""
    answered = set(record.sent)
    assert len(answered) == len({sent.key for sent in answered})
    logged = Counter(fact["outcome"]["id"] for fact in facts(node, "message_sent"))
    assert logged == Counter(sent.id for sent in answered)


def each_grant_is_there_once(record: Record, node: Node) -> None:
    """At most as many grants lack an answer as there are takes with an unknown outcome."""
    grants = [fact["outcome"] for fact in facts(node, "claim_granted")]
    fences = [grant["fence"] for grant in grants]
    assert fences == sorted(set(fences))
    logged = {(grant["item"], grant["sender"], grant["fence"]) for grant in grants}
    heard = {(item, *take.held) for item, take in record.every("take", "granted") if take.held}
    assert heard - logged == set()
    unheard = Counter((item, sender) for item, sender, _ in logged - heard)
    unsure = Counter((item, take.caller) for item, take in record.every("take", "unknown"))
    assert unheard <= unsure


def each_release_is_there_once(record: Record, node: Node) -> None:
    grants = [fact["outcome"] for fact in facts(node, "claim_granted")]
    fences = {grant["id"]: grant["fence"] for grant in grants}
    logged = Counter(fences[fact["outcome"]["id"]] for fact in facts(node, "claim_released"))
    heard = Counter(call.fence for _, call in record.every("release", "released"))
    unsure = Counter(call.fence for _, call in record.every("release", "unknown"))
    assert max(logged.values()) == 1
    assert heard <= logged
    assert logged <= heard + unsure


# --- the answers agree with each other


def one_at_a_time_explains_it(record: Record) -> None:
    for item in ITEMS:
        history = record.history(item)
        wrong = unexplained(history)
        assert wrong is None, f"{item}: {wrong}\n" + story(history, wrong)


def nothing_explains_a_copied_grant(record: Record) -> None:
    """Forge the recorded history: one grant also appears for another caller."""
    for item, take in record.every("take", "granted")[::50]:
        assert take.held is not None
        copy = take._replace(caller="mallory", held=Held("mallory", take.held.fence))
        assert unexplained([*record.history(item), copy]) is not None


def story(history: list[Call], wrong: Call) -> str:
    """Return the calls up to the end of the wrong one, for a person to read."""
    assert wrong.end is not None
    before = [call for call in history if call.start <= (wrong.end or 0)]
    return "\n".join(str(call) for call in sorted(before, key=lambda call: call.start)[-40:])
