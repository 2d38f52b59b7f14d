"""The Python client: every verb, synchronous and not, over a directory without a server, a server's
URL, and its socket. The same outcome each time, and the same error object.

The requests come from `world/rows`, and the method of a verb from its declaration. The tests
written by hand call methods by their names."""

import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import interlock
from interlock import errors
from interlock.client import AsyncClient, Client
from interlock.client.asking import Method
from interlock.rooms import catalogue
from interlock.rooms.identity.token_format import hashed, token_id
from interlock.rooms.identity.verbs import Mute
from interlock.rooms.work.verbs import CancelTask, ResolveBlocker
from interlock.rooms.workspace.verbs import Whoami
from interlock.verbs.verb import Verb, fields_of
from world import chosen
from world.client_workspace import MANNERS, Manner
from world.client_workspace import ClientWorkspace as Town
from world.client_workspace import opened_workspace as town_of
from world.commandline import LIMIT_S, Place
from world.doors import CLIENTS, is_offered, method_of
from world.fork_server import Servers
from world.furnished import Furnished
from world.playing import Stages, check_outcomes
from world.rows import ROUTED, example

pytestmark = pytest.mark.every_engine


def verbs() -> dict[str, Method[..., Any]]:
    members = {name: getattr(Client, name) for name in dir(Client) if not name.startswith("_")}
    return {name: member for name, member in members.items() if isinstance(member, Method)}


@pytest.fixture(autouse=True, scope="module")
def nobody_around(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An environment that names no workspace, no token and no session."""
    with pytest.MonkeyPatch.context() as patch:
        for name in chosen.others(os.environ):
            patch.delenv(name)
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module", params=MANNERS, ids=str)
def town(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, servers: Servers
) -> Iterator[Town]:
    manner: Manner = request.param
    with town_of(tmp_path_factory.mktemp("town"), manner, servers) as found:
        yield found


# --- every verb


@pytest.mark.parametrize(
    "verb",
    [
        pytest.param(verb, marks=chosen.restores if example(verb).restores else ())
        for verb in ROUTED
    ],
    ids=lambda verb: method_of(verb),
)
def test_a_verb_has_one_outcome_through_every_client(
    verb: type[Verb], furnished: Furnished, tmp_path: Path, servers: Servers
) -> None:
    row = example(verb)
    with Stages(row, furnished, tmp_path, servers) as stages:
        clients = [client for client in CLIENTS if is_offered(row, client)]
        outcomes = {client.name: stages.play(client) for client in clients}
    assert len(outcomes) == (4 if verb.declared.local else 6)
    check_outcomes(row, furnished, outcomes)


def test_files_of_the_server_are_for_clients_on_its_machine(town: Town) -> None:
    if town.way != "url":
        assert town.owner.backup(town.root / "backup.db")["entries"] > 0
        assert (town.root / "backup.db").exists()
        return
    for verb in (verb for verb in ROUTED if verb.declared.local):
        given = {"file": town.root / "file"} if "file" in verb._fields else {}
        with pytest.raises(errors.NotFound):
            getattr(town.owner, method_of(verb))(**given)


# --- methods that do more than to pass fields on, and those whose effect another call shows


def test_send_takes_text_as_the_main_member_of_a_type_and_a_key(town: Town) -> None:
    sent = town.otto.send("@vera", "hello", subject="a line", priority="high", key="k-1", ttl_s=60)
    assert sent["accepted"]
    assert sent["message"]["from"] == "@otto"
    assert (sent["message"]["subject"], sent["message"]["priority"]) == ("a line", "high")
    again = town.otto.send("@vera", "hello", subject="a line", priority="high", key="k-1", ttl_s=60)
    assert again["message"]["id"] == sent["message"]["id"]
    reply = town.vera.send("@otto", "and you", reply_to=sent["message"]["id"], wake=False)
    assert reply["message"]["thread"] == sent["message"]["thread"]
    wanted = town.vera.send("@otto", "make test", type="command", payload={"why": "to know"})
    read = town.otto.read(wanted["message"]["id"])
    assert read["payload"] == {"command": "make test", "why": "to know"}
    (notice,) = town.otto.send("@vara", "hello")["notices"]
    assert notice["did_you_mean"] == ["@vera"]


def test_ack_takes_several_messages(town: Town) -> None:
    one, two = (town.otto.send("@vera", text)["message"]["id"] for text in ("one", "two"))
    assert town.vera.ack(one, two, note="both done") == {"acked": [one, two]}
    three = town.otto.send("@vera", "three")["message"]["id"]
    assert town.vera.ack(three, decline=True) == {"declined": [three]}


def test_an_inbox_shows_mail_through_the_adapter_python(town: Town) -> None:
    first = town.otto.send("@vera", "one")["message"]
    second = town.otto.send("@vera", "two")["message"]
    found = town.vera.inbox(after=first["seq"] - 1, limit=1)
    assert ([m["id"] for m in found["messages"]], found["next"]) == ([first["id"]], first["seq"])
    (step,) = town.otto.receipts(first["id"])["deliveries"][0]["history"][1:]
    assert (step["state"], step["adapter"]) == ("shown", "python")
    town.vera.ack(first["id"])
    seen = town.vera.inbox(after=first["seq"] - 1)["messages"]
    assert [m["id"] for m in seen] == [second["id"]]
    assert town.vera.inbox("all", after=first["seq"] - 1)["messages"][0]["id"] == first["id"]
    (sent,) = town.otto.inbox("sent", after=second["seq"] - 1)["messages"]
    assert sent["deliveries"][0]["state"] == "shown"
    assert town.vera.inbox(after=second["seq"], wait_s=1)["messages"] == []


def test_a_claim_is_on_an_item_or_on_one_path_or_several(town: Town) -> None:
    got = town.otto.acquire("A-1", branch="main", worktree="/w", note="mine", ttl_s=60)
    assert got["acquired"]
    assert (got["claim"]["holder"], got["claim"]["branch"]) == ("@otto", "main")
    no = town.vera.acquire("A-1")
    assert (no["acquired"], no["code"]) == (False, "CLAIM_HELD")
    assert no["held_by"] == [got["claim"]]
    assert not town.vera.acquire("A-1", wait_s=1)["acquired"]
    assert town.vera.take_over("A-1", reason="it is urgent")["taken_from"] == ["@otto"]
    paths = town.otto.acquire(paths="src/**", repo="github.com/o/acquire")["claim"]["paths"]
    assert paths == ["src/**"]
    assert not town.vera.acquire(paths=["src/a.py"], repo="https://github.com/o/acquire.git")[
        "acquired"
    ]


def test_import_tokens_hashes_clear_text_secrets(town: Town) -> None:
    rows = [{"token": "an old token", "agent": "vera", "label": "Vera, old"}]
    found = town.owner.import_tokens(rows)
    assert (found["importable"], found["imported"]) == (1, 0)
    assert [row["verdict"] for row in found["rows"]] == ["clear-text secret"]
    moved = town.owner.import_tokens(rows, map={"Vera, old": "otto"}, apply=True)
    assert [row["verdict"] for row in moved["rows"]] == ["contradiction"]
    assert town.hand("an old token").whoami()["sender"] == "otto"


def test_identify_token_hashes_the_token(town: Town) -> None:
    found = town.owner.identify_token(town.tokens["vera"])
    assert (found["known"], found["active"], found["sender"]) == (True, True, "vera")
    assert town.otto.identify_token("some other token") == {"known": False}


def test_attend_acts_through_the_adapter_python_unless_told_otherwise(town: Town) -> None:
    sent = town.otto.send("@vera", "are you there?")["message"]["id"]
    told = town.vera.attend("prompt")
    assert sent in [message["id"] for message in told["news"]]
    assert "news" not in town.vera.attend("tool")
    (step,) = town.otto.receipts(sent)["deliveries"][0]["history"][1:]
    assert (step["state"], step["adapter"]) == ("woken", "python")
    town.otto.acquire(paths=["src/**"], repo="github.com/o/attend")
    edit = town.vera.attend("edit", "mine", paths=["src/a.py"], repo="github.com/o/attend")
    assert edit["allowed"] is False
    assert town.vera.attend("idle", wait_s=1)["address"] == "@vera"


def test_an_invitation_makes_a_token_that_works(town: Town) -> None:
    code = town.owner.invite("hanna")["invitation"]
    made = town.hand(None).accept_invitation(code)
    assert town.hand(made["token"]).whoami()["sender"] == made["sender"] == "hanna"


def test_join_makes_a_token_that_works(town: Town) -> None:
    made = town.owner.join("mira", surface="cli", label="for a test", scopes=["mail"])
    assert (made["sender"], made["scopes"]) == ("mira-cli", ["mail"])
    assert town.hand(made["token"]).whoami()["address"] == "@mira-cli"


def test_a_new_token_replaces_the_old_one(town: Town) -> None:
    old = town.owner.mint_token("vera")
    new = town.owner.rotate_token(old["id"])
    assert new["replaced"] == [old["id"]]
    assert town.hand(new["token"]).whoami()["sender"] == "vera"
    with pytest.raises(errors.BadToken):
        town.hand(old["token"]).whoami()


def test_a_browser_that_was_signed_out_is_told_so(town: Town) -> None:
    browser = token_id(hashed(town.tokens["rosa"]))
    assert town.owner.revoke_connection(browser) == {"revoked": [browser]}
    with pytest.raises(errors.BadToken, match="was revoked"):
        town.rosa.whoami()


@chosen.restores
def test_restored_tokens_are_refused_until_they_are_reaffirmed(town: Town) -> None:
    if town.way == "url":
        return
    town.owner.backup(town.root / "to-restore.db")
    assert town.owner.restore(town.root / "to-restore.db")["restored"]
    with pytest.raises(errors.BadToken):
        town.otto.whoami()
    assert town.owner.reaffirm_tokens()["reaffirmed"]
    assert town.otto.whoami()["sender"] == "otto"


# --- what the verbs are


def asked(verb: Method[..., Any]) -> Any:
    """The act of a verb with nothing said but what must be."""
    needed = {
        name: {"data": b"x", "size": 1, "rows": ()}.get(name, "x")
        for name, parameter in inspect.signature(verb.describe).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind is not parameter.VAR_POSITIONAL
        and name != "self"
    }
    return verb.describe(None, **needed).request


def test_every_act_that_can_be_asked_for_has_one_verb() -> None:
    found = [type(asked(verb)) for verb in verbs().values()]
    assert sorted(map(str, found)) == sorted(map(str, ROUTED))


@pytest.mark.parametrize("name", verbs())
def test_a_verb_promises_what_its_act_is_answered_with(name: str) -> None:
    verb = verbs()[name]
    (promised,) = get_args(get_type_hints(verb.describe)["return"])
    assert promised == catalogue.answer_type(type(asked(verb)))


@pytest.mark.parametrize("name", verbs())
def test_a_verb_shows_its_parameters_and_says_what_it_does(name: str) -> None:
    client = interlock.connect("nowhere")
    method = getattr(client, name)
    assert "self" not in inspect.signature(method).parameters
    assert method.__doc__
    assert method.__name__ == name


def test_both_clients_have_the_same_verbs() -> None:
    shared = set(verbs()) | {"listen", "claimed", "call"}
    assert shared <= set(dir(AsyncClient))


def test_the_client_acts_as_the_owner_where_the_verb_allows_it() -> None:
    personal = {verb for verb in ROUTED if asked_by_sender(verb)}
    owners = {v for v in ROUTED if v.declared.owner or v.declared.open or v.declared.maintenance}
    # The owner may make these requests too, and names itself to do so.
    assert personal & owners == {CancelTask, ResolveBlocker, Mute}
    anyone = {verb for verb in ROUTED if verb.declared.anyone}
    assert personal | owners | anyone == {*ROUTED}


def asked_by_sender(verb: type[Verb]) -> bool:
    required = dict.fromkeys((f.name for f in fields_of(verb).values() if f.required), "x")
    return verb(**required).needs_sender()


# --- refusals


REFUSED: dict[str, tuple[type[errors.Refusal], Callable[[Town], Any]]] = {
    "a recipient of no shape": (
        errors.InvalidRecipientShape,
        lambda town: town.otto.send("AGENT:vera", "hello"),
    ),
    "no such message": (errors.NotFound, lambda town: town.otto.read("#999999")),
    "no such type": (errors.UnknownType, lambda town: town.otto.send("@vera", "x", type="sned")),
    "a verb's own type": (
        errors.UseVerb,
        lambda town: town.otto.send("@vera", type="agent_joined", payload={}),
    ),
    "no payload": (errors.InvalidMessage, lambda town: town.otto.send("@vera")),
    "a scope that is missing": (errors.MissingScope, lambda town: town.otto.pause()),
    "a fence that is stale": (errors.StaleFence, lambda town: town.otto.release("F-1", fence=1)),
    "another body": (
        errors.IdempotencyConflict,
        lambda town: [town.otto.send("@vera", text, key="k-9") for text in ("one", "two")],
    ),
    "nobody's token": (errors.BadToken, lambda town: town.hand("ilk_nobody").whoami()),
    "an item and paths": (errors.Usage, lambda town: town.otto.check("C-9", paths=["a"], repo="r")),
    "no such task": (
        errors.NotFound,
        lambda town: town.vera.judge("W-99", "athena", "pass"),
    ),
    "half a character": (errors.InvalidMessage, lambda town: town.otto.send("@vera", "\ud800")),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_refusal_is_the_same_exception_wherever_it_comes_from(why: str, town: Town) -> None:
    kind, call = REFUSED[why]
    with pytest.raises(errors.Refusal) as caught:
        call(town)
    assert type(caught.value) is kind
    told = caught.value.as_dict()
    assert told["message"]
    if kind is errors.InvalidRecipientShape:
        assert (told["to"], told["did_you_mean"]) == ("AGENT:vera", ["@vera"])
        assert len(told["valid_shapes"]) == 2


def test_text_is_given_once(town: Town) -> None:
    with pytest.raises(errors.Usage):
        town.otto.send("@vera", "here", payload={"text": "and there"})


# --- the parts that are no verbs


def test_any_act_can_be_asked_for_as_it_is(town: Town) -> None:
    assert town.otto.call(Whoami())["sender"] == "otto"


def test_a_large_body_comes_back_as_it_was(town: Town) -> None:
    text = "ein Satz ohne Ende, über 9 MiB\n" * 300_000
    sent = town.otto.send("@vera", text, key="large")
    assert town.vera.read(sent["message"]["id"])["payload"]["text"] == text
    again = town.otto.send("@vera", text, key="large")
    assert again["message"]["id"] == sent["message"]["id"]


def test_a_large_body_that_is_refused_leaves_no_upload(town: Town) -> None:
    unused = "SELECT DISTINCT upload FROM blob_chunks EXCEPT SELECT upload FROM blobs"
    before = Place(town.root).query(unused)
    with pytest.raises(errors.InvalidRecipientShape):
        town.otto.send("vera", "x" * (3 << 20))
    with pytest.raises(errors.InvalidMessage):
        town.otto.send("@vera", "x" * (3 << 20), payload={"colour": "red"})
    assert Place(town.root).query(unused) == before


def test_where_a_server_runs_it_is_the_one_that_is_asked(town: Town) -> None:
    if town.way == "directory":
        assert not (town.directory / "server.json").exists()
        return
    done = 'interlock_http_responses_total{status="200"}'
    before = town.served.metric(done)
    town.otto.whoami()
    assert town.served.metric(done) == before + 2  # looking at it is one of them


def test_paths_are_of_the_repository_that_one_stands_in(
    town: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, timeout=LIMIT_S, env=environ)
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")
    claim = town.otto.acquire(paths=["./a.py"])["claim"]
    assert (claim["paths"], claim["repo"]) == (["src/a.py"], str(tmp_path / ".git"))
    assert town.vera.check(paths=["src/**"])["claimed"]


# --- who acts


def test_a_token_in_the_environment_acts(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_TOKEN", town.tokens["vera"])
    monkeypatch.setenv("INTERLOCK_SESSION", "s-env")
    me = town.hand(None).whoami()
    assert (me["sender"], me["session"]) == ("vera", "s-env")


def test_a_token_that_is_given_comes_before_the_environment(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_TOKEN", town.tokens["vera"])
    town.vera.start_session("s-veras")
    monkeypatch.setenv("INTERLOCK_SESSION", "s-veras")
    me = town.hand(town.tokens["otto"]).whoami()
    assert me["sender"] == "otto"
    assert "session" not in me
    assert town.hand(town.tokens["vera"]).whoami()["session"] == "s-veras"
    assert town.hand(town.tokens["vera"], "s-other").whoami()["session"] == "s-other"


def test_nobody_acts_where_nobody_is_said_to(town: Town) -> None:
    with pytest.raises(errors.NoIdentity):
        town.hand(None).whoami()


def test_the_only_credential_kept_acts_and_goes_on_acting(place: Place) -> None:
    place.join("otto")
    with interlock.connect(place.workspace) as client:
        assert client.whoami()["sender"] == "otto"
        got = client.acquire("B-1")
        assert got["acquired"]
        assert client.claims(mine=True)["claims"] == [got["claim"]]
        place.join("vera")
        assert client.whoami()["sender"] == "otto"
    with interlock.connect(place.workspace) as client, pytest.raises(errors.NoIdentity):
        client.whoami()


def test_without_a_place_it_is_the_one_that_the_command_finds(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = place.ok("init", "--here", INTERLOCK_WORKSPACE=None)["directory"]
    below = place.cwd / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    assert interlock.connect().place == made
    monkeypatch.setenv("INTERLOCK_WORKSPACE", str(place.root / "named"))
    assert interlock.connect().place == str(place.root / "named")
    assert interlock.connect("here").place == str(below / "here")


def test_connecting_opens_nothing(tmp_path: Path) -> None:
    interlock.connect(tmp_path / "workspace").close()
    assert list(tmp_path.iterdir()) == []


def test_an_address_of_no_server_is_refused_at_once() -> None:
    with pytest.raises(errors.Usage):
        interlock.connect("ftp://example.com")


# --- the package


def test_the_package_is_imported_without_the_client() -> None:
    script = "import interlock, sys; print(sorted(m for m in sys.modules if 'interlock' in m))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    assert done.stdout == "['interlock']\n"


def test_the_package_has_nothing_that_it_does_not_have() -> None:
    with pytest.raises(AttributeError):
        interlock.disconnect  # type: ignore[attr-defined] # noqa: B018
