"""The doctor on a shared engine: its findings about other nodes and about the engine's clock.
tests/stores/shared has the findings about the engine's settings and about intruders."""

import pytest

from interlock.node import Node, doctor
from interlock.node.doctor import examine
from interlock.rooms.workspace.verbs import Whoami
from interlock.stores.sqlite import clock_ms
from interlock.verbs.credentials import Credentials
from world.commandline import until
from world.teams import Team, level
from world.workspace import join


def found(node: Node) -> list[tuple[str, str]]:
    return [(each["check"], each["message"]) for each in examine(node)["findings"]]


def test_doctor_finds_a_silent_node(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    ada, bert = team.open("ada"), team.open("bert")
    level(ada, bert)
    assert found(ada) == []
    assert bert.shared is not None
    name = bert.shared.engine.node
    team.end(bert)
    monkeypatch.setattr(doctor, "SILENT_S", 1)
    ((check, message),) = until(lambda: found(ada))
    assert check == "nodes-level"
    assert f"The node {name} sent its last report" in message


@pytest.mark.parametrize(("ms", "side"), [(60_000, "ahead of"), (-60_000, "behind")])
def test_doctor_finds_a_clock_that_differs_from_the_engines(
    team: Team, monkeypatch: pytest.MonkeyPatch, ms: int, side: str
) -> None:
    """The test cannot set the machine's clock, so it replaces the function that reads it."""
    ada = team.open("ada")
    assert found(ada) == []
    monkeypatch.setattr(doctor, "clock_ms", lambda: clock_ms() + ms)
    ((check, message),) = found(ada)
    assert check == "clock-level"
    assert f"s {side} the engine's clock." in message


@pytest.mark.parametrize("apart", [True, False])
def test_doctor_finds_a_token_in_use_on_two_machines(
    team: Team, monkeypatch: pytest.MonkeyPatch, *, apart: bool
) -> None:
    ada, bert = team.open("ada"), team.open("bert")
    otto = join(ada, "otto")
    level(ada, bert)
    assert bert.shared is not None
    if apart:
        monkeypatch.setattr(bert.shared.engine, "machine", "another")
    for node in (ada, bert):
        used_at(node, otto)
    assert found(ada) == [], "the token moved from one node to the other"
    team.end(ada)
    ada = team.open("ada")  # a new node records the next use at once
    used_at(ada, otto)
    if not apart:
        heard_twice(ada)
        assert found(ada) == [], "two nodes on one machine are one host"
        return
    ((check, message),) = until(lambda: found(ada))
    assert check == "tokens-apart"
    assert "in use on 2 hosts at once" in message
    assert bert.shared.engine.node in message


def heard_twice(node: Node) -> None:
    """Wait until the node has received two further reports of the others."""
    assert node.shared is not None
    shared = node.shared
    for _ in range(2):
        heard = shared.nodes
        until(lambda heard=heard: shared.nodes is not heard)  # type: ignore[misc]


def used_at(node: Node, who: Credentials) -> None:
    """Use a token, then wait longer than the clocks of nodes may differ."""
    node.call(who, Whoami())
    at = node.clock()
    until(lambda: node.clock() > at + 100)
