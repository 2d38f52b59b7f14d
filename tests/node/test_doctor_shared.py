"""The doctor where several nodes share an engine: what it finds of the others, and of the engine's
clock. What it finds of the engine's settings and of intruders is in the tests of those."""

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


def test_a_node_that_fell_silent_is_found(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    ada, bert = team.open("ada"), team.open("bert")
    level(ada, bert)
    assert found(ada) == []
    assert bert.shared is not None
    name = bert.shared.engine.node
    team.end(bert)
    monkeypatch.setattr(doctor, "SILENT_S", 1)
    ((check, message),) = until(lambda: found(ada))
    assert check == "nodes-level"
    assert f"The node {name} was last heard of" in message


@pytest.mark.parametrize(("ms", "side"), [(60_000, "ahead of"), (-60_000, "behind")])
def test_a_machine_whose_clock_differs_from_the_engines_is_found(
    team: Team, monkeypatch: pytest.MonkeyPatch, ms: int, side: str
) -> None:
    """Whoever runs the tests may not set the machine's clock: it is read as if it were set."""
    ada = team.open("ada")
    assert found(ada) == []
    monkeypatch.setattr(doctor, "clock_ms", lambda: clock_ms() + ms)
    ((check, message),) = found(ada)
    assert check == "clock-level"
    assert f"s {side} the engine's." in message


@pytest.mark.parametrize("apart", [True, False])
def test_a_token_that_is_used_on_two_machines_at_once_is_found(
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
    assert found(ada) == [], "it has moved from one to the other"
    team.end(ada)
    ada = team.open("ada")  # which notes anew from where it is asked
    used_at(ada, otto)
    if not apart:
        heard_twice(ada)
        assert found(ada) == [], "two nodes on one machine are one place"
        return
    ((check, message),) = until(lambda: found(ada))
    assert check == "tokens-apart"
    assert "used from 2 places at once" in message
    assert bert.shared.engine.node in message


def heard_twice(node: Node) -> None:
    """Waits until the node has heard from the others again, and once more."""
    assert node.shared is not None
    shared = node.shared
    for _ in range(2):
        heard = shared.nodes
        until(lambda heard=heard: shared.nodes is not heard)  # type: ignore[misc]


def used_at(node: Node, who: Credentials) -> None:
    """Uses a token, and lets the clock go on by more than nodes may differ."""
    node.call(who, Whoami())
    at = node.clock()
    until(lambda: node.clock() > at + 100)
