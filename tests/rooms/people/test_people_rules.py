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

AT = RESOURCE  # where the tokens of connections are good


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
    """Who joins by an invitation on another machine."""
    return str(node.call(ANYBODY, AcceptInvitation(code))["sender"])


def who(node: Node, token: str) -> str:
    return str(node.call(Credentials(token=token, audience=AT), Whoami())["sender"])


def listed(node: Node, token: str | None) -> dict[str, list[Any]]:
    """What somebody, or the owner, sees of connections, browsers, tokens and invitations: ids."""
    shown = Credentials(token=token, owner=token is None)
    answer = node.call(shown, ListConnections())
    return {kind: [found["id"] for found in group] for kind, group in answer.items()}


def opens(node: Node, made: Connected) -> dict[str, Any]:
    """The answer to a client that opens a connection with its code."""
    asked = OpenConnection(made.code, CLIENT, hashed(secret()), hashed(secret()))
    answer: dict[str, Any] = node.call(ANYBODY, asked)
    return answer


# --- who invites, and whom


def test_the_owner_and_admins_invite_and_nobody_else(joined: Place) -> None:
    dora = joined.join("dora", None, "--kind", "human", "--scope", "admin")
    for sender in ("otto-cli", "vera"):
        error = joined.no("MISSING_SCOPE", "invite", "hugo", "--from", sender)
        assert error["scope"] == "admin"
    joined.ok("invite", "hugo")
    joined.ok("invite", "hanna", INTERLOCK_TOKEN=dora)
    assert [fact["sender"] for fact in joined.facts("person_invited")] == ["@owner", "@dora"]


def test_whoever_is_not_known_is_invited_as_a_person_unless_it_is_said(joined: Place) -> None:
    kinds = {
        words: joined.ok("invite", *words.split())["kind"]
        for words in ("hugo", "robo --kind agent", "otto --surface laptop", "vera")
    }
    assert list(kinds.values()) == ["human", "agent", "agent", "human"]
    joined.no("NAME_TAKEN", "invite", "vera", "--kind", "agent")
    joined.no("NAME_TAKEN", "invite", "otto", "--kind", "human", "--own", "robo")


def test_an_invitation_names_nobody_who_is_something_else(joined: Place) -> None:
    joined.ok("group", "create", "crew", "--member", "@vera")
    for name in ("crew", "otto-cli"):
        joined.no("NAME_TAKEN", "invite", name)
    assert joined.facts("person_invited") == []


# --- what an invitation is good for


def test_an_invitation_is_good_once(node: Node) -> None:
    code = invited(node, "hugo")
    assert joins(node, code) == "hugo"
    for use in (AcceptInvitation(code), Enrol(code, VERIFIER, hashed("t"))):
        with pytest.raises(BadToken, match="was used"):
            node.call(ANYBODY, use)


def test_of_a_name_one_invitation_is_good_at_a_time(node: Node) -> None:
    first, elsewhere, second = (
        invited(node, "hugo"),
        node.call(Credentials(owner=True), Invite("hugo", "desk"))["invitation"],
        invited(node, "hugo"),
    )
    with pytest.raises(BadToken, match="a later one took its place"):
        joins(node, first)
    assert joins(node, second) == "hugo"
    assert joins(node, elsewhere) == "hugo-desk"


def test_an_invitation_ends_after_three_days_or_when_it_is_said(
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


def test_a_pause_keeps_everybody_out_and_uses_nothing_up(node: Node) -> None:
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


def test_in_a_pause_what_was_let_in_can_be_ended(node: Node) -> None:
    browser = signed_in(node, "rosa")
    connection, another = connected(node, browser, "rosa"), connected(node, browser, "rosa")
    node.call(Credentials(owner=True), Pause("a leak"))
    node.call(Credentials(token=browser), RevokeConnection(connection.id))
    node.call(ANYBODY, CloseConnection(another.refresh, CLIENT))
    node.call(Credentials(token=browser), SignOut())
    assert listed(node, None)["connections"] == listed(node, None)["sessions"] == []


def test_a_person_who_is_locked_out_has_no_way_in_left(joined: Place, node: Node) -> None:
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


def test_a_lock_out_withdraws_what_the_person_or_its_agents_could_come_back_by(
    joined: Place, node: Node
) -> None:
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


def test_who_is_invited_only_can_be_locked_out_too(joined: Place) -> None:
    made = joined.ok("invite", "hugo")
    assert joined.ok("connection", "revoke", "@hugo")["revoked"] == [made["id"]]
    assert joined.ok("connection", "list")["invitations"] == []
    joined.no("NOT_FOUND", "connection", "revoke", "@hugo")


def test_who_was_locked_out_comes_back_by_an_invitation_and_owns_what_it_says(node: Node) -> None:
    signed_in(node, "rosa", "robo")
    node.call(Credentials(owner=True), RevokeConnection("@rosa"))
    hanna = signed_in(node, "hanna", "robo")
    with pytest.raises(NameTaken, match="is @hanna's"):
        invited(node, "rosa", "robo")
    rosa = signed_in(node, "rosa")
    assert who(node, rosa) == "rosa"
    with pytest.raises(IdentityMismatch):
        granted(node, rosa, "robo")
    granted(node, hanna, "robo")


# --- whose an agent is


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("hugo --own vera", "USAGE", "people have no owner"),
        ("hugo --own hugo", "USAGE", "people have no owner"),
        ("hugo --own otto-cli", "USAGE", "--own otto"),
        ("otto --own robo", "USAGE", "agents own none"),
        ("robo --kind agent --own otto", "USAGE", "agents own none"),
        ("hugo --own crew", "NAME_TAKEN", "group"),
    ],
)
def test_a_person_owns_agents_and_nothing_else(
    words: str, code: str, said: str, joined: Place
) -> None:
    joined.ok("group", "create", "crew", "--member", "@vera")
    assert said in joined.no(code, "invite", *words.split())["message"]
    assert joined.facts("person_invited") == []


def test_an_agent_is_one_persons(node: Node) -> None:
    early = invited(node, "hugo", "otto", "robo")
    with pytest.raises(NameTaken, match="@otto will be @hugo's"):
        invited(node, "hanna", "otto")
    for name in ("robo", "@robo"):
        with pytest.raises(NameTaken, match="@robo will be an agent of @hugo's"):
            invited(node, name)
    with pytest.raises(NameTaken, match="@hugo is invited as a person"):
        invited(node, "hanna", "hugo")
    assert joins(node, early) == "hugo"
    with pytest.raises(NameTaken, match="@otto is @hugo's"):
        invited(node, "hanna", "otto")
    assert joins(node, invited(node, "hugo", "otto")) == "hugo", "it may be said again"


def test_surfaces_go_with_their_agent(node: Node) -> None:
    browser = signed_in(node, "rosa", "otto")
    person = node.call(Credentials(token=browser), ShowPerson())
    assert person["agents"] == [
        {"agent": "rosa", "senders": ["@rosa"]},
        {"agent": "otto", "senders": ["@otto", "@otto-cli"]},
    ]
    phone = connected(node, browser, "otto", "phone")
    assert who(node, phone.token) == phone.sender == "otto-phone"


def test_a_client_acts_only_as_what_is_its_persons(node: Node) -> None:
    browser = signed_in(node, "rosa", "robo")
    signed_in(node, "hugo", "otto")
    for another in ("otto", "hugo", "vera", "ghost", "robo-cli", "owner", "interlock"):
        with pytest.raises(IdentityMismatch, match="is not yours"):
            granted(node, browser, another)
    refusals = node.call(Credentials(owner=True), ShowLog(kind="request_refused"))["facts"]
    assert {fact["sender"] for fact in refusals} == {"@rosa"}
    assert listed(node, None)["connections"] == []


def test_nobody_lets_a_client_in_with_a_token_that_lies_in_a_file(
    node: Node, joined: Place
) -> None:
    """Whatever runs on that machine could."""
    vera, otto = joined.token_of("vera"), joined.token_of("otto-cli")
    connection = connected(node, signed_in(node, "rosa"), "rosa")
    for token in (vera, otto, connection.token):
        for asked in (ShowPerson(), SignOut()):
            with pytest.raises(MissingScope):
                node.call(Credentials(token=token, audience=AT), asked)
    with pytest.raises(MissingScope):
        granted(node, vera, "vera")


def test_a_connection_has_no_scope_beyond_an_agents(node: Node) -> None:
    browser = signed_in(node, "rosa")
    mail_only = connected(node, browser, "rosa", None, "mail")
    answer = node.call(Credentials(token=mail_only.token, audience=AT), Whoami())
    assert answer["scopes"] == ["mail"]
    for scopes in (("admin",), ("mail", "admin"), ("gate:athena",), ("",)):
        with pytest.raises(Usage):
            granted(node, browser, "rosa", None, *scopes)


def test_a_client_that_acts_for_a_person_is_not_that_person(node: Node, joined: Place) -> None:
    rosa = Credentials(token=signed_in(node, "rosa"))
    client = Credentials(token=connected(node, rosa.token or "", "rosa").token, audience=AT)
    otto = Credentials(token=joined.token_of("otto-cli"))
    node.call(otto, AcquireClaim(item="B-1"))
    with pytest.raises(MissingScope):
        node.call(client, TakeOverClaim("in a hurry", item="B-1"))
    assert node.call(rosa, TakeOverClaim("it is mine", item="B-1"))["acquired"]


def test_a_client_is_no_second_reader_in_its_persons_place(node: Node, joined: Place) -> None:
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
    # Whoever makes the gate may want just this client: then it is named.
    node.call(as_rosa, GiveVerdict(id, "robot", "pass"))


# --- what a person sees, names and ends


def test_a_person_sees_their_own_and_the_owner_all(node: Node, joined: Place) -> None:
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


def test_agents_and_clients_see_name_and_end_none_not_even_their_own_persons(
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


def test_what_is_anothers_is_not_found_and_goes_on(joined: Place) -> None:
    with Node(str(joined.workspace)) as node:
        rosa, hugo = signed_in(node, "rosa"), signed_in(node, "hugo")
        hers = connected(node, rosa, "rosa")
    session = token_id(hashed(rosa))
    absent = joined.no(
        "NOT_FOUND", "connection", "revoke", "con_000000000000", INTERLOCK_TOKEN=hugo
    )
    for words in (("revoke", hers.id), ("name", hers.id, "his"), ("revoke", session)):
        assert joined.no("NOT_FOUND", "connection", *words, INTERLOCK_TOKEN=hugo) == absent
    with Node(str(joined.workspace)) as node:
        assert who(node, hers.token) == who(node, rosa) == "rosa"


def test_ending_one_connection_ends_that_one_at_once(joined: Place) -> None:
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


def test_a_person_ends_a_token_on_a_machine_of_their_agents(joined: Place) -> None:
    otto = joined.token_of("otto-cli")
    with Node(str(joined.workspace)) as node:
        rosa = signed_in(node, "rosa", "otto")
    joined.ok("connection", "revoke", token_id(hashed(otto)), INTERLOCK_TOKEN=rosa)
    joined.no("BAD_TOKEN", "whoami", INTERLOCK_TOKEN=otto)


def test_a_connection_is_called_what_its_client_is_until_it_is_named(joined: Place) -> None:
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


# --- how long


def test_a_code_opens_a_connection_once_within_a_minute(node: Node, clock: MovedClock) -> None:
    browser = signed_in(node, "rosa")
    late = granted(node, browser, "rosa")
    clock.ahead = 60_000
    with pytest.raises(BadToken, match="lasts a minute"):
        node.call(ANYBODY, _opening(late))
    made = connected(node, browser, "rosa")
    assert node.call(ANYBODY, _opening(made)) == {"refused": "CODE_REPLAYED"}
    with pytest.raises(BadToken):
        who(node, made.token)


def _opening(made: Connected) -> OpenConnection:
    return OpenConnection(made.code, CLIENT, hashed(secret()), hashed(secret()))


def test_a_token_lives_an_hour_and_is_refreshed_for_a_month(node: Node, clock: MovedClock) -> None:
    made = connected(node, signed_in(node, "rosa"), "rosa")
    clock.ahead = HOUR
    with pytest.raises(TokenExpired):
        who(node, made.token)
    after = refreshed(node, made)
    assert who(node, after.token) == "rosa"
    clock.ahead += 30 * DAY
    with pytest.raises(BadToken, match="must connect again"):
        refreshed(node, after)


def test_a_refresh_token_that_comes_back_ends_the_connection(node: Node) -> None:
    before = connected(node, signed_in(node, "rosa"), "rosa")
    after = refreshed(node, before)
    again = RefreshConnection(before.refresh, CLIENT, hashed(secret()), hashed(secret()))
    assert node.call(ANYBODY, again) == {"refused": "REFRESH_REUSED"}
    for dead in (before, after):
        with pytest.raises(BadToken):
            who(node, dead.token)
    with pytest.raises(BadToken):
        refreshed(node, after)


def test_a_new_password_ends_what_the_old_one_let_in(node: Node) -> None:
    old = signed_in(node, "rosa")
    made = connected(node, old, "rosa")
    new = signed_in(node, "rosa")
    for token in (old, made.token):
        with pytest.raises(BadToken):
            who(node, token)
    assert who(node, new) == "rosa"


@restores
def test_after_a_restore_people_begin_anew(joined: Place) -> None:
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


# --- tokens that are a browser's or a connection's


def test_the_list_of_tokens_says_whose_hands_they_are_in(joined: Place) -> None:
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


def test_what_renews_itself_is_not_rotated(joined: Place) -> None:
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
    """A machine that knows nothing of the workspace."""
    root = tmp_path / "elsewhere"
    root.mkdir()
    return Place(root).but(INTERLOCK_WORKSPACE=None)


def test_a_link_makes_another_machine_join(server: RunningServer, elsewhere: Place) -> None:
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


def test_a_link_is_used_up_by_whoever_comes_first(server: RunningServer, elsewhere: Place) -> None:
    link = server.place.ok("invite", "hugo")["link"]
    elsewhere.ok("join", link)
    second = server.place.but(INTERLOCK_WORKSPACE=None)
    assert "good once" in second.no("BAD_TOKEN", "join", link)["message"]
    assert not list(second.home.rglob("hugo.json")), "nothing is kept of a refusal"


def test_a_link_says_who_joins_and_flags_do_not(server: RunningServer, elsewhere: Place) -> None:
    link = server.place.ok("invite", "hugo")["link"]
    for flags in ("--surface desk", "--kind agent", "--label Hugo", "--scope admin"):
        elsewhere.no("USAGE", "join", link, *flags.split())
    assert elsewhere.ok("join", link)["sender"] == "hugo", "and the link is as good as before"


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
def test_what_is_no_invitation_is_said_before_anybody_is_asked(link: str, elsewhere: Place) -> None:
    assert "not the link of an invitation" in elsewhere.no("USAGE", "join", link)["message"]


def test_a_mistyped_link_is_refused_as_such(server: RunningServer, elsewhere: Place) -> None:
    link = server.place.ok("invite", "hugo")["link"]
    assert "mistyped or cut off" in elsewhere.no("BAD_TOKEN", "join", link[:-1])["message"]
    elsewhere.ok("join", link)


# --- what is kept


def test_no_secret_and_nothing_that_proves_one_is_shown_to_anybody(joined: Place) -> None:
    with Node(str(joined.workspace)) as node:
        code = invited(node, "hugo")
        joins(node, code)
        browser = signed_in(node, "rosa")
        before = connected(node, browser, "rosa")
        after = refreshed(node, before)
        secrets = {code, browser, before.code, VERIFIER}
        secrets |= {before.token, before.refresh, after.token, after.refresh}
        told = json.dumps(node.call(Credentials(owner=True), ListEvents(limit=1000)))
        listed = json.dumps(node.call(Credentials(owner=True), ListConnections()))
    assert "connection_refreshed" in told
    for found in secrets:
        assert found not in told + listed
        assert hashed(found) not in told + listed
    assert "c" * 43 not in told, "the challenge is its client's business"
    log = json.dumps(
        [[str(part) for part in row] for row in joined.query("SELECT header FROM log")]
    )
    assert made_of(log) & secrets == set()


def made_of(log: str) -> set[str]:
    """The words of the log that could be secrets."""
    return {word for word in log.replace('"', " ").replace("\\", " ").split() if len(word) > 20}


def test_the_facts_name_who_joined_and_not_who_carried_it(joined: Place) -> None:
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
        assert who(node, joined.token_of("otto-cli")) == "otto-cli", "this one was reaffirmed"
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
        assert "otto" in rosa.join("rosa").get("/person").text, "what is hers stayed hers"


# --- passwords in the log


def test_the_proof_of_a_password_in_the_log_does_not_sign_in(joined: Place, node: Node) -> None:
    signed_in(node, "rosa")
    (fact,) = joined.facts("password_set")
    logged = [value for value in fact["outcome"].values() if value != "rosa"]
    (proof,) = logged
    assert len(proof) == len(VERIFIER) == 64, "it has the shape of what signs in"
    with pytest.raises(BadToken):
        node.call(ANYBODY, SignIn("rosa", proof, hashed(secret())))
    assert node.call(ANYBODY, SignIn("rosa", VERIFIER, hashed(secret())))["sender"] == "rosa"


# --- invitations and codes are made once


def invite_by(node: Node, name: str, code_hash: str, surface: str | None = None) -> None:
    node.call(OWNER, Invite(name, surface, code_hash=code_hash))


def test_an_invitation_is_made_once_whatever_became_of_the_first(node: Node) -> None:
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
    assert node.head() == before + 3, "only what accepting it takes"


def test_a_code_is_made_once_whatever_became_of_the_first(node: Node) -> None:
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


# --- ending tokens and codes


def test_ending_the_tokens_of_a_sender_ends_the_codes_that_would_give_another(
    node: Node,
) -> None:
    browser = signed_in(node, "rosa", "otto")
    live, unopened = connected(node, browser, "otto"), granted(node, browser, "otto")
    elsewhere = granted(node, browser, "otto", "phone")
    revoked = node.call(OWNER, RevokeToken(sender="otto"))["revoked"]
    assert revoked == [live.id, unopened.id]
    with pytest.raises(BadToken):
        opens(node, unopened)
    assert "refused" not in opens(node, elsewhere), "that is another sender"


def test_a_sender_who_has_nothing_but_a_code_loses_that(node: Node) -> None:
    unopened = granted(node, signed_in(node, "rosa", "robo"), "robo")
    assert node.call(OWNER, RevokeToken(sender="robo"))["revoked"] == [unopened.id]
    with pytest.raises(BadToken):
        opens(node, unopened)
    with pytest.raises(NotFound):
        node.call(OWNER, RevokeToken(sender="robo"))


def test_a_code_that_was_ended_unopened_is_refused_and_accuses_nobody(
    joined: Place, node: Node
) -> None:
    browser = signed_in(node, "rosa")
    unopened = granted(node, browser, "rosa")
    node.call(Credentials(token=browser), RevokeConnection(unopened.id))
    with pytest.raises(BadToken, match="unless the person ends it"):
        opens(node, unopened)
    assert joined.facts("request_refused") == []
    made = connected(node, browser, "rosa")
    node.call(Credentials(token=browser), RevokeConnection(made.id))
    assert opens(node, made) == {"refused": "CODE_REPLAYED"}
