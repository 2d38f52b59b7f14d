"""The rules of names: which names a sender, an agent or a group can have."""

import pytest

from interlock.rooms.claims.verbs import AcquireClaim, CheckClaim
from interlock.rooms.identity.verbs import CreateGroup, Join, ListAgents
from interlock.rooms.mail.verbs import ListInbox
from interlock.rooms.workspace.verbs import ChangeSetting, Whoami
from world.workspace import OWNER, Workspace, text_to


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("otto", "cli"), ("otto-cli", None)),
        (("otto-cli", None), ("otto", "cli")),
        (("otto", "a-b"), ("otto-a", "b")),
        (("otto-a", "b"), ("otto", "a-b")),
        (("otto", "cli"), ("otto-cli", "x")),
        (("otto-cli", "x"), ("otto", "cli")),
        (("otto", None), ("otto", None)),
        (("otto", "cli"), ("otto", "cli")),
    ],
)
def test_a_name_cannot_be_registered_twice_in_either_order(
    workspace: Workspace, first: tuple[str, str | None], second: tuple[str, str | None]
) -> None:
    workspace.join(*first)
    before = workspace.head()
    error = workspace.refused("NAME_TAKEN", OWNER, Join(*second))
    assert error["name"] in (second[0], "-".join(part for part in second if part))
    assert "None" not in error["message"]
    assert workspace.head() == before


def test_an_agent_may_have_surfaces_and_a_plain_sender_in_any_order(workspace: Workspace) -> None:
    workspace.join("otto", "cli")
    workspace.join("otto")
    workspace.join("otto", "desktop")
    workspace.join("otto-a")
    found = workspace.call(OWNER, ListAgents())["agents"]
    assert [(row["address"], row["agent"], row.get("surface")) for row in found] == [
        ("@otto", "otto", None),
        ("@otto-a", "otto-a", None),
        ("@otto-cli", "otto", "cli"),
        ("@otto-desktop", "otto", "desktop"),
    ]


@pytest.mark.parametrize("name", ["owner", "interlock"])
def test_a_reserved_name_cannot_be_registered(workspace: Workspace, name: str) -> None:
    for surface in (None, "cli"):
        error = workspace.refused("NAME_TAKEN", OWNER, Join(name, surface))
        assert error["name"] == name
    workspace.join("otto")
    workspace.refused("NAME_TAKEN", OWNER, CreateGroup(name, ("otto",)))


def test_groups_and_agents_share_one_namespace(workspace: Workspace) -> None:
    workspace.join("otto", "cli")
    for name in ("otto", "otto-cli"):
        workspace.refused("NAME_TAKEN", OWNER, CreateGroup(name, ("otto",)))
    workspace.call(OWNER, CreateGroup("devs", ("otto",)))
    workspace.call(OWNER, CreateGroup("vera-cli", ("otto",)))
    assert workspace.refused("NAME_TAKEN", OWNER, Join("devs"))["name"] == "devs"
    assert workspace.refused("NAME_TAKEN", OWNER, Join("vera", "cli"))["name"] == "vera-cli"


def test_a_person_and_an_agent_cannot_share_a_name(workspace: Workspace) -> None:
    workspace.join("mira", kind="human")
    workspace.join("mira", "phone")
    workspace.refused("NAME_TAKEN", OWNER, Join("mira", "cli", kind="agent"))
    kinds = {row["kind"] for row in workspace.call(OWNER, ListAgents())["agents"]}
    assert kinds == {"human"}


@pytest.mark.parametrize("name", ["Otto", "1otto", "otto_cli", "ötto", "", "a" * 65, "../x", "a b"])
def test_a_name_outside_the_pattern_is_refused(workspace: Workspace, name: str) -> None:
    before = workspace.head()
    workspace.refused("USAGE", OWNER, Join(name))
    workspace.refused("USAGE", OWNER, Join("otto", name))
    assert workspace.head() == before


def test_a_workspace_pattern_can_allow_e_mail_addresses(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    workspace.refused("INVALID_RECIPIENT_SHAPE", otto, text_to("@ada@example.org"))
    workspace.set("names.pattern", r"[a-z.]+@[a-z]+(\.[a-z]+)+(-[a-z]+)?")
    ada = workspace.join("ada@example.org")
    phone = workspace.join("ada@example.org", "phone")
    workspace.send(otto, "@ada@example.org", "to you")
    workspace.send(ada, "@otto", "to otto")
    assert workspace.texts(ada) == workspace.texts(phone) == ["to you"]
    message = workspace.call(otto, ListInbox())["messages"][0]
    assert (message["source"], message["from"]) == ("agent:ada@example.org", "@ada@example.org")
    assert workspace.call(ada, Whoami())["agent"] == "ada@example.org"
    workspace.call(phone, AcquireClaim(item="B-1"))
    holder = workspace.call(OWNER, CheckClaim(item="B-1"))["claims"][0]["holder"]
    assert holder == "@ada@example.org-phone"


def test_no_pattern_allows_blanks_or_control_characters(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    workspace.set("names.pattern", r"(?s).*")
    for name in ("a b", "a\nb", "a\x00", "a\u2028b", " "):
        workspace.refused("USAGE", OWNER, Join(name))
        workspace.refused("INVALID_RECIPIENT_SHAPE", otto, text_to("@" + name))
    workspace.refused("USAGE", OWNER, ChangeSetting("names.pattern", "["))
