"""Nodes of several versions on one engine: what a later one says besides is no trouble here."""

from typing import Any

from interlock.node import Node
from interlock.rooms.workspace.verbs import Whoami
from interlock.stores.presence import Seen, Use
from world.teams import Team
from world.workspace import join

SEEN = {"otto": (1, True, "idle", False)}
USES = [("tok_1", "s-1", None, 1, 2)]


def say(later: Node, **said: Any) -> None:
    """Says this as a node of a later version, which says nothing else."""
    assert later.shared is not None
    later.shared.end()
    later.shared.engine.beat(said)


def test_a_node_starts_beside_one_that_says_more(team: Team) -> None:
    later = team.open("later")
    otto = join(later, "otto")
    seen = {sender: [*members, {"more": 1}] for sender, members in SEEN.items()}
    said = {"seen": seen, "uses": [[*use, "more"] for use in USES], "more": ["more"]}
    say(later, **said)
    node = team.open("earlier")
    assert node.call(otto, Whoami())["sender"] == "otto"
    say(later, **said)  # what was said long ago is not heard
    assert node.shared is not None
    node.shared.hear(node)
    assert node.presence.elsewhere == {"otto": Seen(*SEEN["otto"])}
    assert node.shared.uses() == {None: [Use(*use) for use in USES]}, "it is on this machine"


NONSENSE: list[dict[str, Any]] = [
    {},
    {"seen": None, "uses": None},
    {"seen": 7, "uses": 7},
    {"seen": [["otto"]], "uses": {"otto": 1}},
    {"seen": {"otto": {"at": 1}}, "uses": [{"at": 1}]},
    {"seen": {"otto": 7}, "uses": [7]},
    {"seen": {"otto": ["now", True]}, "uses": [["tok_1"]]},
    {"seen": {"otto": [1, True, ["idle"]]}, "uses": [["tok_1", None, None, "then", 2]]},
    {"seen": {}, "uses": [["tok_1", None, None, 1, "now"]]},
]


def test_what_makes_no_sense_here_was_not_said(team: Team) -> None:
    later, node = team.open("later"), team.open("earlier")
    assert node.shared is not None
    for said in NONSENSE:
        say(later, **said)
        node.shared.hear(node)
        assert node.presence.elsewhere == {}, said
        assert node.shared.uses() == {None: []}, said
