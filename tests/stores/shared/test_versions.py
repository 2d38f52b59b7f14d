"""Nodes of several versions on one engine: an earlier one ignores the additions of a later one."""

from typing import Any

from interlock.node import Node
from interlock.rooms.workspace.verbs import Whoami
from interlock.stores.presence import Seen, Use
from world.teams import Team
from world.workspace import join

SEEN = {"otto": (1, True, "idle", False)}
USES = [("tok_1", "s-1", None, 1, 2)]


def report(later: Node, **about: Any) -> None:
    """Write exactly this report, as a node of a later version."""
    assert later.shared is not None
    later.shared.end()
    later.shared.engine.beat(about)


def test_a_node_ignores_unknown_members_in_reports_of_later_versions(team: Team) -> None:
    later = team.open("later")
    otto = join(later, "otto")
    seen = {sender: [*members, {"more": 1}] for sender, members in SEEN.items()}
    about = {"seen": seen, "uses": [[*use, "more"] for use in USES], "more": ["more"]}
    report(later, **about)
    node = team.open("earlier")
    assert node.call(otto, Whoami())["sender"] == "otto"
    report(later, **about)  # a new report, because nodes ignore old ones
    assert node.shared is not None
    node.shared.hear(node)
    assert node.presence.elsewhere == {"otto": Seen(*SEEN["otto"])}
    assert node.shared.uses() == {None: [Use(*use) for use in USES]}, (
        "the later node is on this machine"
    )


MALFORMED: list[dict[str, Any]] = [
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


def test_malformed_reports_are_ignored(team: Team) -> None:
    later, node = team.open("later"), team.open("earlier")
    assert node.shared is not None
    for about in MALFORMED:
        report(later, **about)
        node.shared.hear(node)
        assert node.presence.elsewhere == {}, about
        assert node.shared.uses() == {None: []}, about
