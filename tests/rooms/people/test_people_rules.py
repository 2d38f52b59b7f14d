"""The rules of people: invitations, passwords, owned agents, connections, and their ends."""

import json
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.errors import (
    BadToken,
    IdentityMismatch,
    MissingScope,
    NameTaken,
    NotFound,
    Paused,
    TokenExpired,
    Usage,
)
from interlock.node import Node
from interlock.rooms.claims.verbs import AcquireClaim, TakeOverClaim
from interlock.rooms.identity.token_format import INVITATION, hashed, token_id
from interlock.rooms.identity.verbs import MintToken, RevokeToken
from interlock.rooms.people.verbs import (
    AcceptInvitation,
    CloseConnection,
    Enrol,
    GrantConnection,
    Invite,
    ListConnections,
    NameConnection,
    OpenConnection,
    RefreshConnection,
    RevokeConnection,
    ShowInvitation,
    ShowPerson,
    SignIn,
    SignOut,
)
from interlock.rooms.work.verbs import CreateGate, CreateTask, GiveVerdict, SubmitTask, TakeTask
from interlock.rooms.workspace.verbs import ListEvents, Pause, Resume, ShowLog, Whoami
from interlock.verbs.credentials import Credentials
from world.chosen import restores
from world.commandline import Place
from world.fork_server import Servers
from world.people_and_apps import Browser
from world.server import ForkedServer, RunningServer
from world.signed_in_people import (
    ANYBODY,
    BROWSER,
    CLIENT,
    OWNER,
    RESOURCE,
    VERIFIER,
    Connected,
    connected,
    granted,
    invited,
    refreshed,
    secret,
    signed_in,
)
from world.workspace import DAY, HOUR, MovedClock

pytestmark = pytest.mark.every_engine

AT = RESOURCE  # the tokens of connections are valid only at this address


@pytest.fixture
def clock() -> MovedClock:
    """The clock of the node, which a test moves."""
    return MovedClock()


@pytest.fixture
def node(joined: Place, clock: MovedClock) -> Iterator[Node]:
    """The node of a workspace where the agent otto-cli and the person vera have joined."""
    with Node(str(joined.workspace), clock=clock) as node:
        yield node


def joins(node: Node, code: str) -> str:
    """Accept an invitation as another machine does, and return the sender that joined."""
    return str(node.call(ANYBODY, AcceptInvitation(code))["sender"])


def who(node: Node, token: str) -> str:
    return str(node.call(Credentials(token=token, audience=AT), Whoami())["sender"])


def listed(node: Node, token: str | None) -> dict[str, list[Any]]:
    """The ids of connections, browsers, tokens and invitations that a caller sees. Without a token,
    the caller is the owner."""
    shown = Credentials(token=token, owner=token is None)
    answer = node.call(shown, ListConnections())
    return {kind: [found["id"] for found in group] for kind, group in answer.items()}


def opens(node: Node, made: Connected) -> dict[str, Any]:
    """Open a connection with its code, and return the answer to the client."""
    asked = OpenConnection(made.code, CLIENT, hashed(secret()), hashed(secret()))
    answer: dict[str, Any] = node.call(ANYBODY, asked)
    return answer


# --- making invitations


def test_only_the_owner_and_admins_can_invite(joined: Place) -> None:
    dora = joined.join("dora", None, "--kind", "human", "--scope", "admin")
    for sender in ("otto-cli", "vera"):
        error = joined.no("MISSING_SCOPE", "invite", "hugo", "--from", sender)
        assert error["scope"] == "admin"
    joined.ok("invite", "hugo")
    joined.ok("invite", "hanna", INTERLOCK_TOKEN=dora)
    assert [fact["sender"] for fact in joined.facts("person_invited")] == ["@owner", "@dora"]


def test_a_new_name_is_invited_as_a_person_by_default(joined: Place) -> None:
    kinds = {
        words: joined.ok("invite", *words.split())["kind"]
        for words in ("hugo", "robo --kind agent", "otto --surface laptop", "vera")
    }
    assert list(kinds.values()) == ["human", "agent", "agent", "human"]
    joined.no("NAME_TAKEN", "invite", "vera", "--kind", "agent")
    joined.no("NAME_TAKEN", "invite", "otto", "--kind", "human", "--own", "robo")


def test_an_invitation_for_a_group_or_a_surface_name_is_refused(joined: Place) -> None:
    joined.ok("group", "create", "crew", "--member", "@vera")
    for name in ("crew", "otto-cli"):
        joined.no("NAME_TAKEN", "invite", name)
    assert joined.facts("person_invited") == []


# --- using and withdrawing invitations


def test_an_invitation_is_valid_once(node: Node) -> None:
    code = invited(node, "hugo")
    assert joins(node, code) == "hugo"
    for use in (AcceptInvitation(code), Enrol(code, VERIFIER, hashed("t"))):
        with pytest.raises(BadToken, match="was used"):
            node.call(ANYBODY, use)


def test_a_new_invitation_replaces_the_earlier_one_of_the_name(node: Node) -> None:
    first, elsewhere, second = (
        invited(node, "hugo"),
        node.call(Credentials(owner=True), Invite("hugo", "desk"))["invitation"],
        invited(node, "hugo"),
    )
    with pytest.raises(BadToken, match="was replaced by a newer one"):
        joins(node, first)
    assert joins(node, second) == "hugo"
    assert joins(node, elsewhere) == "hugo-desk"


def test_an_invitation_expires_after_three_days_or_its_own_time(
    node: Node, clock: MovedClock
) -> None:
    short = node.call(Credentials(owner=True), Invite("hugo", ttl_s=60))["invitation"]
    long = invited(node, "hanna")
    clock.ahead = 60_000
    with pytest.raises(TokenExpired, match="expired"):
        joins(node, short)
    clock.ahead = 3 * DAY - HOUR
    assert joins(node, long) == "hanna"
    late = invited(node, "helga")
    clock.ahead += 3 * DAY
    with pytest.raises(TokenExpired):
        joins(node, late)


def test_an_invitation_can_be_withdrawn(joined: Place) -> None:
    made = joined.ok("invite", "hugo")
    (listed,) = joined.ok("connection", "list")["invitations"]
    assert (listed["id"], listed["name"], listed["invited_by"]) == (made["id"], "hugo", "@owner")
    assert "invitation" not in listed
    assert joined.ok("connection", "revoke", made["id"]) == {"revoked": [made["id"]]}
    with Node(str(joined.workspace)) as node, pytest.raises(BadToken):
        joins(node, made["invitation"])


def test_a_name_is_invited_as_one_kind_at_a_time(node: Node) -> None:
    code = invited(node, "hugo")
    with pytest.raises(NameTaken, match="invited as a person"):
        node.call(Credentials(owner=True), Invite("hugo", "cli", kind="agent"))
    assert joins(node, code) == "hugo"


def test_a_paused_workspace_refuses_sign_ins_and_keeps_invitations_valid(node: Node) -> None:
    code, browser = invited(node, "hugo"), signed_in(node, "rosa")
    node.call(Credentials(owner=True), Pause("a leak"))
    for asked in (
        AcceptInvitation(code),
        Enrol(code, VERIFIER, hashed("t")),
        SignIn("rosa", VERIFIER, hashed("t")),
    ):
        with pytest.raises(Paused):
            node.call(ANYBODY, asked)
    with pytest.raises(Paused):
        granted(node, browser, "rosa")
    node.call(Credentials(owner=True), Resume())
    assert joins(node, code) == "hugo"


def test_connections_and_sessions_can_be_ended_in_a_paused_workspace(node: Node) -> None:
    browser = signed_in(node, "rosa")
    connection, another = connected(node, browser, "rosa"), connected(node, browser, "rosa")
    node.call(Credentials(owner=True), Pause("a leak"))
    node.call(Credentials(token=browser), RevokeConnection(connection.id))
    node.call(ANYBODY, CloseConnection(another.refresh, CLIENT))
    node.call(Credentials(token=browser), SignOut())
    assert listed(node, None)["connections"] == listed(node, None)["sessions"] == []


def test_a_lock_out_ends_every_access_of_a_person(joined: Place, node: Node) -> None:
    browser = signed_in(node, "vera", "otto")
    opened, unopened = connected(node, browser, "otto"), granted(node, browser, "vera")
    link, kept = invited(node, "vera"), joined.token_of("vera")
    others = signed_in(node, "rosa")
    answer = node.call(Credentials(owner=True), RevokeConnection("@vera"))
    assert (answer["person"], answer["agents"]) == ("@vera", ["@otto"])
    ended = {opened.id, unopened.id, token_id(hashed(browser)), token_id(hashed(kept))}
    assert ended | {"inv_" + hashed(link)[:12]} == set(answer["revoked"])
    for token in (browser, kept, opened.token):
        with pytest.raises(BadToken):
            who(node, token)
    for asked in (
        SignIn("vera", VERIFIER, hashed(secret())),
        AcceptInvitation(link),
        Enrol(link, VERIFIER, hashed(secret())),
        OpenConnection(unopened.code, CLIENT, hashed(secret()), hashed(secret())),
        RefreshConnection(opened.refresh, CLIENT, hashed(secret()), hashed(secret())),
    ):
        with pytest.raises(BadToken):
            node.call(ANYBODY, asked)
    assert who(node, others) == "rosa"
    assert who(node, joined.token_of("otto-cli")) == "otto-cli"


def test_a_lock_out_withdraws_invitations_for_and_by_the_person(joined: Place, node: Node) -> None:
    signed_in(node, "rosa", "robo")
    admin = node.call(Credentials(owner=True), MintToken("rosa", scopes=("admin",)))
    rosa = Credentials(token=admin["token"])
    spare = node.call(rosa, MintToken("otto-cli"))["id"]
    links = [invited(node, "robo"), invited(node, "hanna")]
    made = [secret(), secret()]
    for name, code in zip(("backdoor", "otto"), made, strict=True):
        surface = "laptop" if name == "otto" else None
        node.call(rosa, Invite(name, surface, code_hash=hashed(code)))
    answer = node.call(Credentials(owner=True), RevokeConnection("@rosa"))
    assert answer["minted"] == [spare]
    for code in (links[0], *made):
        with pytest.raises(BadToken):
            joins(node, code)
    assert joins(node, links[1]) == "hanna"


def test_an_invited_person_can_be_locked_out(joined: Place) -> None:
    made = joined.ok("invite", "hugo")
    assert joined.ok("connection", "revoke", "@hugo")["revoked"] == [made["id"]]
    assert joined.ok("connection", "list")["invitations"] == []
    joined.no("NOT_FOUND", "connection", "revoke", "@hugo")


def test_a_locked_out_person_can_join_again_and_owns_only_the_agents_of_the_invitation(
    node: Node,
) -> None:
    signed_in(node, "rosa", "robo")
    node.call(Credentials(owner=True), RevokeConnection("@rosa"))
    hanna = signed_in(node, "hanna", "robo")
    with pytest.raises(NameTaken, match="@hanna owns @robo"):
        invited(node, "rosa", "robo")
    rosa = signed_in(node, "rosa")
    assert who(node, rosa) == "rosa"
    with pytest.raises(IdentityMismatch):
        granted(node, rosa, "robo")
    granted(node, hanna, "robo")


# --- the owners of agents


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ("hugo --own vera", "USAGE", "people have no owner"),
        ("hugo --own hugo", "USAGE", "people have no owner"),
        ("hugo --own otto-cli", "USAGE", "--own otto"),
        ("otto --own robo", "USAGE", "an agent cannot own agents"),
        ("robo --kind agent --own otto", "USAGE", "an agent cannot own agents"),
        ("hugo --own crew", "NAME_TAKEN", "group"),
    ],
)
def test_a_person_can_own_only_agents(words: str, code: str, text: str, joined: Place) -> None:
    joined.ok("group", "create", "crew", "--member", "@vera")
    assert text in joined.no(code, "invite", *words.split())["message"]
    assert joined.facts("person_invited") == []


def test_an_agent_has_at_most_one_owner(node: Node) -> None:
    early = invited(node, "hugo", "otto", "robo")
    with pytest.raises(NameTaken, match="@hugo, who is invited, will own @otto"):
        invited(node, "hanna", "otto")
    for name in ("robo", "@robo"):
        with pytest.raises(NameTaken, match="@robo is an agent that @hugo, who is invited, will"):
            invited(node, name)
    with pytest.raises(NameTaken, match="@hugo is invited as a person"):
        invited(node, "hanna", "hugo")
    assert joins(node, early) == "hugo"
    with pytest.raises(NameTaken, match="@hugo owns @otto"):
        invited(node, "hanna", "otto")
    assert joins(node, invited(node, "hugo", "otto")) == "hugo", "the owner may be named again"


def test_a_person_owns_all_surfaces_of_an_agent(node: Node) -> None:
    browser = signed_in(node, "rosa", "otto")
    person = node.call(Credentials(token=browser), ShowPerson())
    assert person["agents"] == [
        {"agent": "rosa", "senders": ["@rosa"]},
        {"agent": "otto", "senders": ["@otto", "@otto-cli"]},
    ]
    phone = connected(node, browser, "otto", "phone")
    assert who(node, phone.token) == phone.sender == "otto-phone"


def test_a_client_can_act_only_as_a_sender_of_its_person(node: Node) -> None:
    browser = signed_in(node, "rosa", "robo")
    signed_in(node, "hugo", "otto")
    for another in ("otto", "hugo", "vera", "ghost", "robo-cli", "owner", "interlock"):
        with pytest.raises(IdentityMismatch, match="You do not own"):
            granted(node, browser, another)
    refusals = node.call(Credentials(owner=True), ShowLog(kind="request_refused"))["facts"]
    assert {fact["sender"] for fact in refusals} == {"@rosa"}
    assert listed(node, None)["connections"] == []


def test_a_token_in_a_file_cannot_connect_a_client(node: Node, joined: Place) -> None:
    """Every program on that machine can read the file."""
    vera, otto = joined.token_of("vera"), joined.token_of("otto-cli")
    connection = connected(node, signed_in(node, "rosa"), "rosa")
    for token in (vera, otto, connection.token):
        for asked in (ShowPerson(), SignOut()):
            with pytest.raises(MissingScope):
                node.call(Credentials(token=token, audience=AT), asked)
    with pytest.raises(MissingScope):
        granted(node, vera, "vera")


def test_a_connection_cannot_have_more_than_the_basic_scopes(node: Node) -> None:
    browser = signed_in(node, "rosa")
    mail_only = connected(node, browser, "rosa", None, "mail")
    answer = node.call(Credentials(token=mail_only.token, audience=AT), Whoami())
    assert answer["scopes"] == ["mail"]
    for scopes in (("admin",), ("mail", "admin"), ("gate:athena",), ("",)):
        with pytest.raises(Usage):
            granted(node, browser, "rosa", None, *scopes)


def test_a_client_does_not_have_the_rights_of_its_person(node: Node, joined: Place) -> None:
    rosa = Credentials(token=signed_in(node, "rosa"))
    client = Credentials(token=connected(node, rosa.token or "", "rosa").token, audience=AT)
    otto = Credentials(token=joined.token_of("otto-cli"))
    node.call(otto, AcquireClaim(item="B-1"))
    with pytest.raises(MissingScope):
        node.call(client, TakeOverClaim("in a hurry", item="B-1"))
    assert node.call(rosa, TakeOverClaim("it is mine", item="B-1"))["acquired"]


def test_a_client_cannot_give_the_verdict_of_its_person(node: Node, joined: Place) -> None:
    browser = signed_in(node, "rosa")
    rosa = Credentials(token=browser)
    as_rosa = Credentials(token=connected(node, browser, "rosa", "web").token, audience=AT)
    otto = Credentials(token=joined.token_of("otto-cli"))
    owner = Credentials(owner=True)
    node.call(owner, CreateGate("athena", ("rosa",)))
    node.call(owner, CreateGate("robot", ("rosa-web",)))
    made = node.call(otto, CreateTask("Read twice", gates=("athena", "robot")))
    id = made["task"]["id"]
    fence = node.call(otto, TakeTask(id))["claim"]["fence"]
    node.call(otto, SubmitTask(id, "1" * 40, "2" * 40, fence=fence))
    with pytest.raises(MissingScope):
        node.call(as_rosa, GiveVerdict(id, "athena", "pass"))
    node.call(rosa, GiveVerdict(id, "athena", "pass"))
    # The client can give a verdict where the gate names the client's own sender as a holder.
    node.call(as_rosa, GiveVerdict(id, "robot", "pass"))


# --- listing, naming and revoking connections


def test_a_person_lists_their_own_connections_and_the_owner_lists_all(
    node: Node, joined: Place
) -> None:
    rosa, hugo = signed_in(node, "rosa", "otto"), signed_in(node, "hugo")
    hers, his = connected(node, rosa, "otto", "phone"), connected(node, hugo, "hugo")
    invited(node, "hanna")
    ottos = token_id(hashed(joined.token_of("otto-cli")))
    assert listed(node, rosa) == {
        "connections": [hers.id],
        "sessions": [token_id(hashed(rosa))],
        "tokens": [ottos],
        "invitations": [],
    }
    assert listed(node, hugo)["connections"] == [his.id]
    everything = listed(node, None)
    assert sorted(everything["connections"]) == sorted([hers.id, his.id])
    assert everything["sessions"] == [token_id(hashed(rosa)), token_id(hashed(hugo))]
    assert len(everything["invitations"]) == 1


def test_agents_and_clients_cannot_list_name_or_revoke_connections(
    node: Node, joined: Place
) -> None:
    rosa = signed_in(node, "rosa", "otto")
    connection, hers = connected(node, rosa, "otto", "phone"), connected(node, rosa, "rosa")
    for token in (joined.token_of("otto-cli"), connection.token, hers.token):
        for asked in (
            ListConnections(),
            NameConnection(connection.id, "mine"),
            RevokeConnection(connection.id),
        ):
            with pytest.raises(MissingScope):
                node.call(Credentials(token=token, audience=AT), asked)
    assert who(node, connection.token) == "otto-phone"


def test_a_connection_of_another_person_is_not_found_and_stays_valid(joined: Place) -> None:
    with Node(str(joined.workspace)) as node:
        rosa, hugo = signed_in(node, "rosa"), signed_in(node, "hugo")
        hers = connected(node, rosa, "rosa")
    session = token_id(hashed(rosa))
    for verb, id, *more in (("revoke", hers.id), ("name", hers.id, "his"), ("revoke", session)):
        absent = id[:4] + "0" * 12
        words = ("NOT_FOUND", "connection", verb)
        unknown = joined.no(*words, absent, *more, INTERLOCK_TOKEN=hugo)
        refused = joined.no(*words, id, *more, INTERLOCK_TOKEN=hugo)
        assert refused["message"] == unknown["message"].replace(absent, id)
        assert refused.keys() == unknown.keys() == {"error", "code", "message"}
    with Node(str(joined.workspace)) as node:
        assert who(node, hers.token) == who(node, rosa) == "rosa"


def test_revoking_one_connection_ends_only_that_one(joined: Place) -> None:
    with Node(str(joined.workspace)) as node:
        rosa = signed_in(node, "rosa")
        one, other = connected(node, rosa, "rosa", "phone"), connected(node, rosa, "rosa", "laptop")
    joined.ok("connection", "revoke", one.id, INTERLOCK_TOKEN=rosa)
    with Node(str(joined.workspace)) as node:
        with pytest.raises(BadToken, match="was revoked"):
            who(node, one.token)
        with pytest.raises(BadToken):
            refreshed(node, one)
        assert who(node, refreshed(node, other).token) == "rosa-laptop"


def test_a_person_can_revoke_a_token_of_an_agent_they_own(joined: Place) -> None:
    otto = joined.token_of("otto-cli")
    with Node(str(joined.workspace)) as node:
        rosa = signed_in(node, "rosa", "otto")
    joined.ok("connection", "revoke", token_id(hashed(otto)), INTERLOCK_TOKEN=rosa)
    joined.no("BAD_TOKEN", "whoami", INTERLOCK_TOKEN=otto)


def test_a_connection_has_the_name_of_its_client_until_it_is_renamed(joined: Place) -> None:
    with Node(str(joined.workspace)) as node:
        rosa = signed_in(node, "rosa")
        made = connected(node, rosa, "rosa")
    hers = joined.but(INTERLOCK_TOKEN=rosa)
    (found,) = hers.ok("connection", "list")["connections"]
    assert (found["name"], found["client"], found["client_id"]) == ("A client", "A client", CLIENT)
    hers.ok("connection", "name", made.id, "vera")
    (found,) = hers.ok("connection", "list")["connections"]
    assert (found["name"], found["client"], found["address"]) == ("vera", "A client", "@rosa")
    with Node(str(joined.workspace)) as node:
        assert who(node, made.token) == "rosa", "a name decides nothing"
    for name in ("", " ", "two\nlines", "x" * 81):
        hers.no("USAGE", "connection", "name", made.id, name)


# --- how long codes and tokens are valid


def test_a_code_opens_a_connection_once_within_a_minute(node: Node, clock: MovedClock) -> None:
    browser = signed_in(node, "rosa")
    late = granted(node, browser, "rosa")
    clock.ahead = 60_000
    with pytest.raises(BadToken, match="expires after a minute"):
        node.call(ANYBODY, _opening(late))
    made = connected(node, browser, "rosa")
    assert node.call(ANYBODY, _opening(made)) == {"refused": "CODE_REPLAYED"}
    with pytest.raises(BadToken):
        who(node, made.token)


def _opening(made: Connected) -> OpenConnection:
    return OpenConnection(made.code, CLIENT, hashed(secret()), hashed(secret()))


def test_an_access_token_expires_after_an_hour_and_a_refresh_token_after_30_days(
    node: Node, clock: MovedClock
) -> None:
    made = connected(node, signed_in(node, "rosa"), "rosa")
    clock.ahead = HOUR
    with pytest.raises(TokenExpired):
        who(node, made.token)
    after = refreshed(node, made)
    assert who(node, after.token) == "rosa"
    clock.ahead += 30 * DAY
    with pytest.raises(BadToken, match="must connect again"):
        refreshed(node, after)


def test_a_reused_refresh_token_ends_the_connection(node: Node) -> None:
    before = connected(node, signed_in(node, "rosa"), "rosa")
    after = refreshed(node, before)
    again = RefreshConnection(before.refresh, CLIENT, hashed(secret()), hashed(secret()))
    assert node.call(ANYBODY, again) == {"refused": "REFRESH_REUSED"}
    for dead in (before, after):
        with pytest.raises(BadToken):
            who(node, dead.token)
    with pytest.raises(BadToken):
        refreshed(node, after)


def test_a_new_password_ends_earlier_sessions_and_connections(node: Node) -> None:
    old = signed_in(node, "rosa")
    made = connected(node, old, "rosa")
    new = signed_in(node, "rosa")
    for token in (old, made.token):
        with pytest.raises(BadToken):
            who(node, token)
    assert who(node, new) == "rosa"


@restores
def test_after_a_restore_people_need_new_invitations(joined: Place) -> None:
    with Node(str(joined.workspace)) as node:
        browser, unused = signed_in(node, "rosa"), invited(node, "hugo")
        made = connected(node, browser, "rosa")
    joined.ok("backup", "../kept.db")
    joined.ok("restore", "../kept.db")
    reaffirmed = joined.ok("token", "reaffirm", "--all")["reaffirmed"]
    assert made.id not in reaffirmed
    with Node(str(joined.workspace)) as node:
        for refused in (
            lambda: who(node, browser),
            lambda: who(node, made.token),
            lambda: refreshed(node, made),
            lambda: joins(node, unused),
            lambda: node.call(ANYBODY, SignIn("rosa", VERIFIER, hashed("t"))),
        ):
            _refused(refused)
        assert listed(node, None) == {kind: [] for kind in listed(node, None)}
        assert who(node, signed_in(node, "rosa")) == "rosa"


def _refused(call: Callable[[], Any]) -> None:
    with pytest.raises(BadToken):
        call()


# --- tokens of browsers and connections


def test_the_list_of_tokens_names_browsers_and_clients(joined: Place) -> None:
    with Node(str(joined.workspace)) as node:
        browser = signed_in(node, "rosa")
        made = connected(node, browser, "rosa")
    found = {token["id"]: token for token in joined.ok("token", "list")["tokens"]}
    session = found[token_id(hashed(browser))]
    assert (session["use"], session["client"]) == ("browser", BROWSER)
    assert {"use": "connection", "client": "A client", "resource": RESOURCE}.items() <= found[
        made.id
    ].items()
    assert [token["id"] for token in found.values() if "use" in token] == [session["id"], made.id]


def test_tokens_of_browsers_and_connections_cannot_be_rotated(joined: Place) -> None:
    with Node(str(joined.workspace)) as node:
        browser = signed_in(node, "rosa")
        made = connected(node, browser, "rosa")
    for words in ((made.id,), (token_id(hashed(browser)),), ("--sender", "rosa")):
        message = joined.no("USAGE", "token", "rotate", *words)["message"]
        assert "interlock connection revoke" in message
        assert ("gets new tokens by itself" in message) is ("browser" not in message)
    minted = joined.ok("token", "mint", "--sender", "rosa")
    assert joined.ok("token", "rotate", "--sender", "rosa")["replaced"] == [minted["id"]]
    with Node(str(joined.workspace)) as node:
        assert who(node, made.token) == who(node, browser) == "rosa"


# --- another machine


@pytest.fixture
def server(joined: Place, servers: Servers) -> Iterator[RunningServer]:
    """A server for the workspace."""
    with ForkedServer(joined, servers) as server:
        yield server


@pytest.fixture
def elsewhere(tmp_path: Path) -> Place:
    """A machine that has no credentials of the workspace."""
    root = tmp_path / "elsewhere"
    root.mkdir()
    return Place(root).but(INTERLOCK_WORKSPACE=None)


def test_another_machine_joins_by_a_link(server: RunningServer, elsewhere: Place) -> None:
    made = server.place.ok("invite", "otto", "--surface", "laptop")
    assert made["link"] == f"{server.url}/invite/{made['invitation']}"
    joined = elsewhere.ok("join", made["link"])
    assert (joined["sender"], joined["workspace"]) == ("otto-laptop", server.url)
    kept = Path(joined["kept"])
    assert kept.is_relative_to(elsewhere.home)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    there = elsewhere.but(INTERLOCK_WORKSPACE=server.url)
    assert there.ok("whoami")["sender"] == "otto-laptop"
    assert there.ok("send", "@vera", "from my laptop")["accepted"] is True
    assert json.loads(kept.read_text())["token"] == joined["token"], "--json prints it once"
    assert (joined["agent"], joined["surface"], joined["kind"]) == ("otto", "laptop", "agent")


def test_a_link_is_valid_only_for_its_first_use(server: RunningServer, elsewhere: Place) -> None:
    link = server.place.ok("invite", "hugo")["link"]
    elsewhere.ok("join", link)
    second = server.place.but(INTERLOCK_WORKSPACE=None)
    assert "valid only once" in second.no("BAD_TOKEN", "join", link)["message"]
    assert not list(second.home.rglob("hugo.json")), "a refused join stores no credential"


def test_flags_cannot_change_the_identity_of_a_link(
    server: RunningServer, elsewhere: Place
) -> None:
    link = server.place.ok("invite", "hugo")["link"]
    for flags in ("--surface desk", "--kind agent", "--label Hugo", "--scope admin"):
        elsewhere.no("USAGE", "join", link, *flags.split())
    assert elsewhere.ok("join", link)["sender"] == "hugo", "the link is still valid"


@pytest.mark.parametrize(
    "link",
    [
        "https://interlock.example",
        "https://interlock.example/invite/",
        "ftp://interlock.example/invite/ili_x",
        "http:///invite/ili_x",
        "://",
    ],
)
def test_a_malformed_link_is_refused_without_a_request(link: str, elsewhere: Place) -> None:
    assert "not the link of an invitation" in elsewhere.no("USAGE", "join", link)["message"]


def test_a_mistyped_link_is_reported_as_mistyped(server: RunningServer, elsewhere: Place) -> None:
    link = server.place.ok("invite", "hugo")["link"]
    assert "mistyped or cut off" in elsewhere.no("BAD_TOKEN", "join", link[:-1])["message"]
    elsewhere.ok("join", link)


# --- stored data


def test_events_lists_and_the_log_contain_no_secret(joined: Place) -> None:
    with Node(str(joined.workspace)) as node:
        code = invited(node, "hugo")
        joins(node, code)
        browser = signed_in(node, "rosa")
        before = connected(node, browser, "rosa")
        after = refreshed(node, before)
        secrets = {code, browser, before.code, VERIFIER}
        secrets |= {before.token, before.refresh, after.token, after.refresh}
        events = json.dumps(node.call(Credentials(owner=True), ListEvents(limit=1000)))
        listed = json.dumps(node.call(Credentials(owner=True), ListConnections()))
    assert "connection_refreshed" in events
    for found in secrets:
        assert found not in events + listed
        assert hashed(found) not in events + listed
    assert "c" * 43 not in events, "events do not show the client's challenge"
    log = json.dumps(
        [[str(part) for part in row] for row in joined.query("SELECT header FROM log")]
    )
    assert made_of(log) & secrets == set()


def made_of(log: str) -> set[str]:
    """The words of the log that could be secrets."""
    return {word for word in log.replace('"', " ").replace("\\", " ").split() if len(word) > 20}


def test_the_facts_of_joining_name_the_new_sender(joined: Place) -> None:
    with Node(str(joined.workspace)) as node:
        joins(node, invited(node, "hugo", "robo"))
        signed_in(node, "rosa")
    senders = {
        kind: [fact["sender"] for fact in joined.facts(kind)]
        for kind in ("invitation_accepted", "agent_owned", "password_set")
    }
    assert senders == {
        "invitation_accepted": ["@hugo", "@rosa"],
        "agent_owned": ["@hugo"],
        "password_set": ["@rosa"],
    }


# --- after a restore


@restores
def test_secrets_used_after_a_backup_are_invalid_after_its_restore(joined: Place) -> None:
    with Node(str(joined.workspace)) as node:
        browser, other = signed_in(node, "rosa"), signed_in(node, "hugo")
        made, unopened = connected(node, browser, "rosa"), granted(node, other, "hugo")
        unused = invited(node, "hanna")
    joined.ok("backup", "../kept.db")
    with Node(str(joined.workspace)) as node:
        after = refreshed(node, made)
        opens(node, unopened)
        node.call(ANYBODY, AcceptInvitation(unused, hashed(secret())))
        renewed = signed_in(node, "rosa")
    joined.ok("restore", "../kept.db")
    joined.ok("token", "reaffirm", "--all")
    with Node(str(joined.workspace)) as node:
        refused: list[Callable[[], Any]] = [
            lambda: refreshed(node, made),
            lambda: refreshed(node, after),
            lambda: opens(node, unopened),
            lambda: node.call(ANYBODY, AcceptInvitation(unused, hashed(secret()))),
            lambda: node.call(ANYBODY, ShowInvitation(unused)),
            lambda: node.call(ANYBODY, SignIn("rosa", VERIFIER, hashed(secret()))),
            *(lambda token=token: who(node, token) for token in (browser, other, renewed)),
            *(lambda token=made.token: who(node, token) for made in (made, after)),
        ]
        for asked in refused:
            with pytest.raises(BadToken):
                asked()
        assert who(node, joined.token_of("otto-cli")) == "otto-cli", "this token was reaffirmed"
        listed = node.call(OWNER, ListConnections())
        assert listed == {kind: [] for kind in listed}


@restores
def test_after_a_restore_a_person_is_told_to_ask_for_an_invitation(
    joined: Place, servers: Servers
) -> None:
    with ForkedServer(joined, servers) as served:
        rosa = Browser(served).join("rosa", "--own", "otto")
    joined.ok("backup", "../kept.db")
    joined.ok("restore", "../kept.db")
    joined.ok("token", "reaffirm", "--all")
    with ForkedServer(joined, servers) as served:
        rosa = rosa.at(served)
        assert "current-password" in rosa.get("/person").text
        refused = rosa.sign_in("rosa")
        assert refused.status_code == 403
        assert "Ask the owner of this server for an invitation" in refused.text
        assert "otto" in rosa.join("rosa").get("/person").text, "rosa still owns otto"


# --- passwords in the log


def test_the_proof_of_a_password_in_the_log_does_not_sign_in(joined: Place, node: Node) -> None:
    signed_in(node, "rosa")
    (fact,) = joined.facts("password_set")
    logged = [value for value in fact["outcome"].values() if value != "rosa"]
    (proof,) = logged
    assert len(proof) == len(VERIFIER) == 64, "the proof has the shape of a verifier"
    with pytest.raises(BadToken):
        node.call(ANYBODY, SignIn("rosa", proof, hashed(secret())))
    assert node.call(ANYBODY, SignIn("rosa", VERIFIER, hashed(secret())))["sender"] == "rosa"


# --- repeated codes


def invite_by(node: Node, name: str, code_hash: str, surface: str | None = None) -> None:
    node.call(OWNER, Invite(name, surface, code_hash=code_hash))


def test_an_invitation_code_cannot_be_used_for_two_invitations(node: Node) -> None:
    code = secret(INVITATION)
    invite_by(node, "hugo", hashed(code))
    alike = hashed(code)[:12] + "0" * 52
    before = node.head()
    for hash, name in ((hashed(code), "hugo"), (hashed(code), "hanna"), (alike, "hanna")):
        with pytest.raises(NameTaken, match="made before"):
            invite_by(node, name, hash)
    node.call(ANYBODY, AcceptInvitation(code, hashed(secret())))
    for hash in (hashed(code), alike):
        with pytest.raises(NameTaken, match="made before"):
            invite_by(node, "hanna", hash)
    assert node.head() == before + 3, "only the accepted invitation appends facts"


def test_a_code_cannot_be_used_for_two_connections(node: Node) -> None:
    browser = signed_in(node, "rosa")
    made = granted(node, browser, "rosa")
    asked = GrantConnection(
        *("rosa", None, ("mail",), CLIENT, "A client", RESOURCE),
        *("https://client.example/back", "c" * 43, hashed(made.code)),
    )
    alike = asked._replace(code_hash=hashed(made.code)[:12] + "0" * 52)
    for again in (asked, alike):
        with pytest.raises(NameTaken, match="made before"):
            node.call(Credentials(token=browser), again)
    node.call(Credentials(token=browser), RevokeConnection(made.id))
    for again in (asked, alike):
        with pytest.raises(NameTaken, match="made before"):
            node.call(Credentials(token=browser), again)


# --- the names of an invitation


@pytest.mark.parametrize(
    "words",
    [
        *("owner", "interlock", "crew", "otto-cli", "otto --kind human"),
        *("otto --surface x", "vera --surface team", "hugo --own owner", "hugo --own crew"),
    ],
)
def test_an_invitation_refuses_a_name_that_cannot_join(joined: Place, words: str) -> None:
    joined.join("otto-x")
    for group in ("crew", "vera-team"):
        joined.ok("group", "create", group, "--member", "@vera")
    message = joined.no("NAME_TAKEN", "invite", *words.split())["message"]
    assert message.startswith("@")
    assert joined.facts("person_invited") == []


# --- revoking tokens and codes


def test_revoking_the_tokens_of_a_sender_ends_its_unused_codes(
    node: Node,
) -> None:
    browser = signed_in(node, "rosa", "otto")
    live, unopened = connected(node, browser, "otto"), granted(node, browser, "otto")
    elsewhere = granted(node, browser, "otto", "phone")
    revoked = node.call(OWNER, RevokeToken(sender="otto"))["revoked"]
    assert revoked == [live.id, unopened.id]
    with pytest.raises(BadToken):
        opens(node, unopened)
    assert "refused" not in opens(node, elsewhere), "this code belongs to another sender"


def test_revoking_a_sender_without_tokens_ends_its_unused_code(node: Node) -> None:
    unopened = granted(node, signed_in(node, "rosa", "robo"), "robo")
    assert node.call(OWNER, RevokeToken(sender="robo"))["revoked"] == [unopened.id]
    with pytest.raises(BadToken):
        opens(node, unopened)
    with pytest.raises(NotFound):
        node.call(OWNER, RevokeToken(sender="robo"))


def test_a_revoked_unused_code_is_refused_without_a_record_of_intrusion(
    joined: Place, node: Node
) -> None:
    browser = signed_in(node, "rosa")
    unopened = granted(node, browser, "rosa")
    node.call(Credentials(token=browser), RevokeConnection(unopened.id))
    with pytest.raises(BadToken, match="when the person revokes it"):
        opens(node, unopened)
    assert joined.facts("request_refused") == []
    made = connected(node, browser, "rosa")
    node.call(Credentials(token=browser), RevokeConnection(made.id))
    assert opens(node, made) == {"refused": "CODE_REPLAYED"}
