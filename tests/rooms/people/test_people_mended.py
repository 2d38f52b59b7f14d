"""What a second reader found in the rules of people and connections, asked of the node itself. What
takes a server is in tests/doors/web/test_people_review.py."""

import contextlib
import json
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from interlock.errors import BadToken, NameTaken, NotFound, RateLimited
from interlock.node import Node
from interlock.node.passwords import (
    MAX_TRIED,
    MAX_WAITING,
    TRIES,
    TRIES_FROM_EVERYWHERE,
    TRIES_OF_ALL_NAMES,
    TRIES_UNDER_ATTACK,
    Attempts,
)
from interlock.rooms.identity.token_format import INVITATION, hashed
from interlock.rooms.identity.verbs import RevokeToken
from interlock.rooms.people.verbs import (
    AcceptInvitation,
    GrantConnection,
    Invite,
    ListConnections,
    OpenConnection,
    RevokeConnection,
    ShowInvitation,
    SignIn,
)
from interlock.rooms.workspace.verbs import Examine, Whoami
from interlock.verbs.credentials import Credentials
from world.chosen import restores
from world.commandline import Place
from world.fork_server import Servers
from world.people_and_apps import Browser
from world.server import ForkedServer
from world.signed_in_people import (
    ANYBODY,
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

pytestmark = pytest.mark.every_engine


@pytest.fixture
def node(town: Place) -> Iterator[Node]:
    with Node(str(town.workspace)) as node:
        yield node


def opens(node: Node, made: Connected) -> dict[str, Any]:
    asked = OpenConnection(made.code, CLIENT, hashed(secret()), hashed(secret()))
    answer: dict[str, Any] = node.call(ANYBODY, asked)
    return answer


def shows(node: Node, token: str) -> str:
    return str(node.call(Credentials(token=token, audience=RESOURCE), Whoami())["sender"])


# --- after a restore


@restores
def test_what_was_spent_after_the_backup_is_not_good_again(town: Place) -> None:
    with Node(str(town.workspace)) as node:
        browser, other = signed_in(node, "rosa"), signed_in(node, "hugo")
        made, unopened = connected(node, browser, "rosa"), granted(node, other, "hugo")
        unused = invited(node, "hanna")
    town.ok("backup", "../kept.db")
    with Node(str(town.workspace)) as node:
        after = refreshed(node, made)
        opens(node, unopened)
        node.call(ANYBODY, AcceptInvitation(unused, hashed(secret())))
        renewed = signed_in(node, "rosa")
    town.ok("restore", "../kept.db")
    town.ok("token", "reaffirm", "--all")
    with Node(str(town.workspace)) as node:
        refused: list[Callable[[], Any]] = [
            lambda: refreshed(node, made),
            lambda: refreshed(node, after),
            lambda: opens(node, unopened),
            lambda: node.call(ANYBODY, AcceptInvitation(unused, hashed(secret()))),
            lambda: node.call(ANYBODY, ShowInvitation(unused)),
            lambda: node.call(ANYBODY, SignIn("rosa", VERIFIER, hashed(secret()))),
            *(lambda token=token: shows(node, token) for token in (browser, other, renewed)),
            *(lambda token=made.token: shows(node, token) for made in (made, after)),
        ]
        for asked in refused:
            with pytest.raises(BadToken):
                asked()
        assert shows(node, kept_token(town, "otto-cli")) == "otto-cli", "this one was reaffirmed"
        listed = node.call(OWNER, ListConnections())
        assert listed == {kind: [] for kind in listed}


def kept_token(place: Place, sender: str) -> str:
    kept = place.workspace / "credentials" / f"{sender}.json"
    return str(json.loads(kept.read_text())["token"])


@restores
def test_who_cannot_sign_in_after_a_restore_is_told_to_ask_for_an_invitation(
    town: Place, servers: Servers
) -> None:
    with ForkedServer(town, servers) as served:
        rosa = Browser(served).join("rosa", "--own", "otto")
    town.ok("backup", "../kept.db")
    town.ok("restore", "../kept.db")
    town.ok("token", "reaffirm", "--all")
    with ForkedServer(town, servers) as served:
        rosa = rosa.at(served)
        assert "current-password" in rosa.get("/person").text
        refused = rosa.sign_in("rosa")
        assert refused.status_code == 403
        assert "Ask whoever runs this server for an invitation" in refused.text
        assert "otto" in rosa.join("rosa").get("/person").text, "what is hers stayed hers"


# --- what the log holds


def test_what_the_log_has_of_a_password_signs_nobody_in(town: Place, node: Node) -> None:
    signed_in(node, "rosa")
    (fact,) = town.facts("password_set")
    logged = [value for value in fact["outcome"].values() if value != "rosa"]
    (proof,) = logged
    assert len(proof) == len(VERIFIER) == 64, "it has the shape of what signs in"
    with pytest.raises(BadToken):
        node.call(ANYBODY, SignIn("rosa", proof, hashed(secret())))
    assert node.call(ANYBODY, SignIn("rosa", VERIFIER, hashed(secret())))["sender"] == "rosa"


# --- what is made twice


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


# --- whom an invitation can name


@pytest.mark.parametrize(
    "words",
    [
        *("owner", "interlock", "crew", "otto-cli", "otto --kind human"),
        *("otto --surface x", "vera --surface team", "hugo --own owner", "hugo --own crew"),
    ],
)
def test_nobody_is_invited_as_what_they_could_not_become(town: Place, words: str) -> None:
    town.join("otto-x")
    for group in ("crew", "vera-team"):
        town.ok("group", "create", group, "--member", "@vera")
    message = town.no("NAME_TAKEN", "invite", *words.split())["message"]
    assert message.startswith("@")
    assert town.facts("person_invited") == []


# --- what is ended


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
    town: Place, node: Node
) -> None:
    browser = signed_in(node, "rosa")
    unopened = granted(node, browser, "rosa")
    node.call(Credentials(token=browser), RevokeConnection(unopened.id))
    with pytest.raises(BadToken, match="unless the person ends it"):
        opens(node, unopened)
    assert town.facts("request_refused") == []
    made = connected(node, browser, "rosa")
    node.call(Credentials(token=browser), RevokeConnection(made.id))
    assert opens(node, made) == {"refused": "CODE_REPLAYED"}


def test_in_a_pause_a_token_can_be_revoked_and_none_can_be_minted(town: Place) -> None:
    minted = town.ok("token", "mint", "--sender", "vera")
    town.ok("pause", "--reason", "a leak")
    town.ok("token", "revoke", minted["id"])
    town.no("PAUSED", "token", "mint", "--sender", "vera")
    town.no("PAUSED", "token", "rotate", "--sender", "otto-cli")
    town.no("BAD_TOKEN", "whoami", INTERLOCK_TOKEN=minted["token"])


# --- what a person may know of others


def test_the_doctor_tells_people_nothing_of_others_tokens(town: Place, node: Node) -> None:
    admin = town.join("dora", None, "--kind", "human", "--scope", "admin")
    label = ("--label", "the laptop of Nina")
    minted = town.ok("token", "mint", "--sender", "otto-cli", *label)
    browser = signed_in(node, "rosa")

    def told(**shown: Any) -> str:
        return json.dumps(node.call(Credentials(**shown), Examine()))

    for shown in ({"owner": True}, {"token": admin}):
        assert minted["id"] in told(**shown)
        assert "the laptop of Nina" in told(**shown)
    for token in (browser, kept_token(town, "vera"), kept_token(town, "otto-cli")):
        assert minted["id"] not in told(token=token)
        assert "Nina" not in told(token=token)


# --- what strangers can fill


class Text(str):
    """Text of which one can know whether anybody keeps it."""


@pytest.mark.parametrize("prefix", ["", "ilk_", "ilr_"])
def test_a_huge_secret_is_not_remembered(prefix: str) -> None:
    shown = Text(prefix + "a" * 60_000)
    kept = weakref.ref(shown)
    with contextlib.suppress(BadToken):
        hashed(shown)
    del shown
    assert kept() is None


def test_so_many_sign_in_at_once_and_the_next_is_not_kept_waiting() -> None:
    attempts = Attempts()
    with contextlib.ExitStack() as crowd:
        for number in range(MAX_WAITING):
            crowd.enter_context(attempts.trying(f"nobody-{number}", f"192.0.2.{number}"))
        with pytest.raises(RateLimited, match="Many are signing in") as refused:
            crowd.enter_context(attempts.trying("vera", "203.0.113.1"))
        assert refused.value.members["retry_after_s"] < 10
    with attempts.trying("vera", "203.0.113.1"):
        pass


def fails(attempts: Attempts, name: str, peer: str) -> bool:
    with contextlib.suppress(BadToken), attempts.trying(name, peer):
        is_last = attempts.failed(name, peer)
        raise BadToken
    return is_last


def test_wrong_passwords_count_for_a_name_and_for_an_address_and_for_nobody_else() -> None:
    attempts = Attempts()
    assert [fails(attempts, "vera", "a") for _ in range(TRIES)] == [False] * (TRIES - 1) + [True]
    for number in range(TRIES_OF_ALL_NAMES - TRIES):
        fails(attempts, f"nobody-{number}", "a")
    for name in ("vera", "hugo"):
        with pytest.raises(RateLimited, match="failed too often"), attempts.trying(name, "a"):
            raise AssertionError("it may not be tried")
        with attempts.trying(name, "b"):
            pass


def test_the_addresses_of_one_ipv6_network_are_one_that_tries() -> None:
    attempts = Attempts()
    tried = [fails(attempts, "vera", f"2001:db8::{number:x}") for number in range(TRIES)]
    assert tried == [False] * (TRIES - 1) + [True]
    with pytest.raises(RateLimited), attempts.trying("vera", "2001:db8::ffff:1"):
        raise AssertionError("it may not be tried")
    for peer in ("2001:db8:0:1::1", "::ffff:192.0.2.1", "192.0.2.1"):
        with attempts.trying("vera", peer):
            pass


def test_a_name_that_is_tried_from_everywhere_is_tried_less_often_and_never_shut_out() -> None:
    attempts = Attempts()
    crowd = [f"198.51.100.{number}" for number in range(TRIES_FROM_EVERYWHERE)]
    tried = [fails(attempts, "vera", peer) for peer in crowd]
    assert tried == [False] * (TRIES_FROM_EVERYWHERE - 1) + [True]
    for _ in range(TRIES_UNDER_ATTACK):
        assert fails(attempts, "vera", "203.0.113.1")
    with pytest.raises(RateLimited) as refused, attempts.trying("vera", "203.0.113.1"):
        raise AssertionError("it may not be tried")
    assert 590 < refused.value.members["retry_after_s"] <= 600
    with attempts.trying("vera", "203.0.113.2"):
        pass
    assert not fails(attempts, "mia", "203.0.113.1"), "it is about another name"


def test_who_tries_very_many_names_makes_nothing_forgotten_that_is_tried_still() -> None:
    attempts = Attempts()
    for number in range(MAX_TRIED):
        fails(attempts, f"nobody-{number}", f"10.{number >> 8 & 255}.{number & 255}.1")
        if number % 2000 == 0:
            fails(attempts, "vera", "203.0.113.1")
    assert [fails(attempts, "vera", "203.0.113.1") for _ in range(TRIES - 5)][-1]


def test_of_a_huge_name_only_its_beginning_is_remembered() -> None:
    attempts = Attempts()
    names = [Text(f"{'a' * 30_000}{number}") for number in range(TRIES)]
    kept = [weakref.ref(name) for name in names]
    while names:
        fails(attempts, names.pop(), "a")
    assert [name() for name in kept] == [None] * TRIES
    with pytest.raises(RateLimited), attempts.trying("a" * 40_000, "a"):
        raise AssertionError("it may not be tried")
