"""The Python client: every verb, synchronous and asynchronous, over a directory without a server, a
server's URL, and its socket. The outcome and the error object must always be the same.

The requests come from `world/rows`, and the method of a verb from its declaration. The other tests
call methods by their names."""

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
from world.client_workspace import MANNERS, ClientWorkspace, Manner, opened_workspace
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
def clean_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An environment that names no workspace, no token and no session."""
    with pytest.MonkeyPatch.context() as patch:
        for name in chosen.others(os.environ):
            patch.delenv(name)
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module", params=MANNERS, ids=str)
def workspace(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, servers: Servers
) -> Iterator[ClientWorkspace]:
    manner: Manner = request.param
    with opened_workspace(tmp_path_factory.mktemp("workspace"), manner, servers) as found:
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
def test_verb_has_the_same_outcome_through_every_client(
    verb: type[Verb], furnished: Furnished, tmp_path: Path, servers: Servers
) -> None:
    row = example(verb)
    with Stages(row, furnished, tmp_path, servers) as stages:
        clients = [client for client in CLIENTS if is_offered(row, client)]
        outcomes = {client.name: stages.play(client) for client in clients}
    assert len(outcomes) == (4 if verb.declared.local else 6)
    check_outcomes(row, furnished, outcomes)


def test_verbs_with_server_files_work_only_on_the_servers_machine(
    workspace: ClientWorkspace,
) -> None:
    if workspace.way != "url":
        assert workspace.owner.backup(workspace.root / "backup.db")["entries"] > 0
        assert (workspace.root / "backup.db").exists()
        return
    for verb in (verb for verb in ROUTED if verb.declared.local):
        given = {"file": workspace.root / "file"} if "file" in verb._fields else {}
        with pytest.raises(errors.NotFound):
            getattr(workspace.owner, method_of(verb))(**given)


# --- methods that transform their arguments, and methods whose effect another call shows


def test_send_takes_text_as_the_main_member_of_a_type_and_a_key(workspace: ClientWorkspace) -> None:
    sent = workspace.otto.send(
        "@vera", "hello", subject="a line", priority="high", key="k-1", ttl_s=60
    )
    assert sent["accepted"]
    assert sent["message"]["from"] == "@otto"
    assert (sent["message"]["subject"], sent["message"]["priority"]) == ("a line", "high")
    again = workspace.otto.send(
        "@vera", "hello", subject="a line", priority="high", key="k-1", ttl_s=60
    )
    assert again["message"]["id"] == sent["message"]["id"]
    reply = workspace.vera.send("@otto", "and you", reply_to=sent["message"]["id"], wake=False)
    assert reply["message"]["thread"] == sent["message"]["thread"]
    wanted = workspace.vera.send("@otto", "make test", type="command", payload={"why": "to know"})
    read = workspace.otto.read(wanted["message"]["id"])
    assert read["payload"] == {"command": "make test", "why": "to know"}
    (notice,) = workspace.otto.send("@vara", "hello")["notices"]
    assert notice["did_you_mean"] == ["@vera"]


def test_ack_takes_several_messages(workspace: ClientWorkspace) -> None:
    one, two = (workspace.otto.send("@vera", text)["message"]["id"] for text in ("one", "two"))
    assert workspace.vera.ack(one, two, note="both done") == {"acked": [one, two]}
    three = workspace.otto.send("@vera", "three")["message"]["id"]
    assert workspace.vera.ack(three, decline=True) == {"declined": [three]}


def test_inbox_records_receipts_with_the_adapter_python(workspace: ClientWorkspace) -> None:
    first = workspace.otto.send("@vera", "one")["message"]
    second = workspace.otto.send("@vera", "two")["message"]
    found = workspace.vera.inbox(after=first["seq"] - 1, limit=1)
    assert ([m["id"] for m in found["messages"]], found["next"]) == ([first["id"]], first["seq"])
    (step,) = workspace.otto.receipts(first["id"])["deliveries"][0]["history"][1:]
    assert (step["state"], step["adapter"]) == ("shown", "python")
    workspace.vera.ack(first["id"])
    seen = workspace.vera.inbox(after=first["seq"] - 1)["messages"]
    assert [m["id"] for m in seen] == [second["id"]]
    assert workspace.vera.inbox("all", after=first["seq"] - 1)["messages"][0]["id"] == first["id"]
    (sent,) = workspace.otto.inbox("sent", after=second["seq"] - 1)["messages"]
    assert sent["deliveries"][0]["state"] == "shown"
    assert workspace.vera.inbox(after=second["seq"], wait_s=1)["messages"] == []


def test_claim_covers_an_item_one_path_or_several_paths(workspace: ClientWorkspace) -> None:
    got = workspace.otto.acquire("A-1", branch="main", worktree="/w", note="mine", ttl_s=60)
    assert got["acquired"]
    assert (got["claim"]["holder"], got["claim"]["branch"]) == ("@otto", "main")
    no = workspace.vera.acquire("A-1")
    assert (no["acquired"], no["code"]) == (False, "CLAIM_HELD")
    assert no["held_by"] == [got["claim"]]
    assert not workspace.vera.acquire("A-1", wait_s=1)["acquired"]
    assert workspace.vera.take_over("A-1", reason="it is urgent")["taken_from"] == ["@otto"]
    paths = workspace.otto.acquire(paths="src/**", repo="github.com/o/acquire")["claim"]["paths"]
    assert paths == ["src/**"]
    assert not workspace.vera.acquire(paths=["src/a.py"], repo="https://github.com/o/acquire.git")[
        "acquired"
    ]


def test_import_tokens_hashes_clear_text_secrets(workspace: ClientWorkspace) -> None:
    rows = [{"token": "an old token", "agent": "vera", "label": "Vera, old"}]
    found = workspace.owner.import_tokens(rows)
    assert (found["importable"], found["imported"]) == (1, 0)
    assert [row["verdict"] for row in found["rows"]] == ["clear-text secret"]
    moved = workspace.owner.import_tokens(rows, map={"Vera, old": "otto"}, apply=True)
    assert [row["verdict"] for row in moved["rows"]] == ["contradiction"]
    assert workspace.hand("an old token").whoami()["sender"] == "otto"


def test_identify_token_hashes_the_token(workspace: ClientWorkspace) -> None:
    found = workspace.owner.identify_token(workspace.tokens["vera"])
    assert (found["known"], found["active"], found["sender"]) == (True, True, "vera")
    assert workspace.otto.identify_token("some other token") == {"known": False}


def test_attend_uses_the_adapter_python_by_default(
    workspace: ClientWorkspace,
) -> None:
    sent = workspace.otto.send("@vera", "are you there?")["message"]["id"]
    answer = workspace.vera.attend("prompt")
    assert sent in [message["id"] for message in answer["news"]]
    assert "news" not in workspace.vera.attend("tool")
    (step,) = workspace.otto.receipts(sent)["deliveries"][0]["history"][1:]
    assert (step["state"], step["adapter"]) == ("woken", "python")
    workspace.otto.acquire(paths=["src/**"], repo="github.com/o/attend")
    edit = workspace.vera.attend("edit", "mine", paths=["src/a.py"], repo="github.com/o/attend")
    assert edit["allowed"] is False
    assert workspace.vera.attend("idle", wait_s=1)["address"] == "@vera"


def test_accepted_invitation_returns_a_working_token(workspace: ClientWorkspace) -> None:
    code = workspace.owner.invite("hanna")["invitation"]
    made = workspace.hand(None).accept_invitation(code)
    assert workspace.hand(made["token"]).whoami()["sender"] == made["sender"] == "hanna"


def test_join_returns_a_working_token(workspace: ClientWorkspace) -> None:
    made = workspace.owner.join("mira", surface="cli", label="for a test", scopes=["mail"])
    assert (made["sender"], made["scopes"]) == ("mira-cli", ["mail"])
    assert workspace.hand(made["token"]).whoami()["address"] == "@mira-cli"


def test_rotated_token_replaces_the_old_one(workspace: ClientWorkspace) -> None:
    old = workspace.owner.mint_token("vera")
    new = workspace.owner.rotate_token(old["id"])
    assert new["replaced"] == [old["id"]]
    assert workspace.hand(new["token"]).whoami()["sender"] == "vera"
    with pytest.raises(errors.BadToken):
        workspace.hand(old["token"]).whoami()


def test_revoked_browser_session_is_refused_as_revoked(workspace: ClientWorkspace) -> None:
    browser = token_id(hashed(workspace.tokens["rosa"]))
    assert workspace.owner.revoke_connection(browser) == {"revoked": [browser]}
    with pytest.raises(errors.BadToken, match="was revoked"):
        workspace.rosa.whoami()


@chosen.restores
def test_restored_tokens_are_refused_until_they_are_reaffirmed(workspace: ClientWorkspace) -> None:
    if workspace.way == "url":
        return
    workspace.owner.backup(workspace.root / "to-restore.db")
    assert workspace.owner.restore(workspace.root / "to-restore.db")["restored"]
    with pytest.raises(errors.BadToken):
        workspace.otto.whoami()
    assert workspace.owner.reaffirm_tokens()["reaffirmed"]
    assert workspace.otto.whoami()["sender"] == "otto"


# --- the set of methods


def minimal_request(verb: Method[..., Any]) -> Any:
    """Return the request of a method with only its required parameters."""
    needed = {
        name: {"data": b"x", "size": 1, "rows": ()}.get(name, "x")
        for name, parameter in inspect.signature(verb.describe).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind is not parameter.VAR_POSITIONAL
        and name != "self"
    }
    return verb.describe(None, **needed).request


def test_every_routed_verb_has_one_method() -> None:
    found = [type(minimal_request(verb)) for verb in verbs().values()]
    assert sorted(map(str, found)) == sorted(map(str, ROUTED))


@pytest.mark.parametrize("name", verbs())
def test_method_returns_the_answer_type_of_its_verb(name: str) -> None:
    verb = verbs()[name]
    (promised,) = get_args(get_type_hints(verb.describe)["return"])
    assert promised == catalogue.answer_type(type(minimal_request(verb)))


@pytest.mark.parametrize("name", verbs())
def test_method_has_its_own_signature_name_and_docstring(name: str) -> None:
    client = interlock.connect("nowhere")
    method = getattr(client, name)
    assert "self" not in inspect.signature(method).parameters
    assert method.__doc__
    assert method.__name__ == name


def test_both_clients_have_the_same_methods() -> None:
    shared = set(verbs()) | {"listen", "claimed", "call"}
    assert shared <= set(dir(AsyncClient))


def test_the_client_acts_as_the_owner_where_the_verb_allows_it() -> None:
    personal = {verb for verb in ROUTED if needs_sender(verb)}
    owners = {v for v in ROUTED if v.declared.owner or v.declared.open or v.declared.maintenance}
    # The owner may also call these verbs, but only by an explicit choice.
    assert personal & owners == {CancelTask, ResolveBlocker, Mute}
    anyone = {verb for verb in ROUTED if verb.declared.anyone}
    assert personal | owners | anyone == {*ROUTED}


def needs_sender(verb: type[Verb]) -> bool:
    required = dict.fromkeys((f.name for f in fields_of(verb).values() if f.required), "x")
    return verb(**required).needs_sender()


# --- refusals


REFUSED: dict[str, tuple[type[errors.Refusal], Callable[[ClientWorkspace], Any]]] = {
    "invalid recipient shape": (
        errors.InvalidRecipientShape,
        lambda workspace: workspace.otto.send("AGENT:vera", "hello"),
    ),
    "unknown message": (errors.NotFound, lambda workspace: workspace.otto.read("#999999")),
    "unknown type": (
        errors.UnknownType,
        lambda workspace: workspace.otto.send("@vera", "x", type="sned"),
    ),
    "type with its own verb": (
        errors.UseVerb,
        lambda workspace: workspace.otto.send("@vera", type="agent_joined", payload={}),
    ),
    "no payload": (errors.InvalidMessage, lambda workspace: workspace.otto.send("@vera")),
    "missing scope": (errors.MissingScope, lambda workspace: workspace.otto.pause()),
    "stale fence": (
        errors.StaleFence,
        lambda workspace: workspace.otto.release("F-1", fence=1),
    ),
    "same key, another body": (
        errors.IdempotencyConflict,
        lambda workspace: [
            workspace.otto.send("@vera", text, key="k-9") for text in ("one", "two")
        ],
    ),
    "unknown token": (errors.BadToken, lambda workspace: workspace.hand("ilk_unknown").whoami()),
    "item and paths": (
        errors.Usage,
        lambda workspace: workspace.otto.check("C-9", paths=["a"], repo="r"),
    ),
    "unknown task": (
        errors.NotFound,
        lambda workspace: workspace.vera.judge("W-99", "athena", "pass"),
    ),
    "half a character": (
        errors.InvalidMessage,
        lambda workspace: workspace.otto.send("@vera", "\ud800"),
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_refusal_is_the_same_exception_through_every_client(
    why: str, workspace: ClientWorkspace
) -> None:
    kind, call = REFUSED[why]
    with pytest.raises(errors.Refusal) as caught:
        call(workspace)
    assert type(caught.value) is kind
    error = caught.value.as_dict()
    assert error["message"]
    if kind is errors.InvalidRecipientShape:
        assert (error["to"], error["did_you_mean"]) == ("AGENT:vera", ["@vera"])
        assert len(error["valid_shapes"]) == 2


def test_send_refuses_text_that_is_also_in_the_payload(workspace: ClientWorkspace) -> None:
    with pytest.raises(errors.Usage):
        workspace.otto.send("@vera", "here", payload={"text": "and there"})


# --- call, large bodies, the server, the repository


def test_call_takes_any_request(workspace: ClientWorkspace) -> None:
    assert workspace.otto.call(Whoami())["sender"] == "otto"


def test_large_body_comes_back_unchanged(workspace: ClientWorkspace) -> None:
    text = "ein Satz ohne Ende, über 9 MiB\n" * 300_000
    sent = workspace.otto.send("@vera", text, key="large")
    assert workspace.vera.read(sent["message"]["id"])["payload"]["text"] == text
    again = workspace.otto.send("@vera", text, key="large")
    assert again["message"]["id"] == sent["message"]["id"]


def test_refused_large_body_leaves_no_upload(workspace: ClientWorkspace) -> None:
    unused = "SELECT DISTINCT upload FROM blob_chunks EXCEPT SELECT upload FROM blobs"
    before = Place(workspace.root).query(unused)
    with pytest.raises(errors.InvalidRecipientShape):
        workspace.otto.send("vera", "x" * (3 << 20))
    with pytest.raises(errors.InvalidMessage):
        workspace.otto.send("@vera", "x" * (3 << 20), payload={"colour": "red"})
    assert Place(workspace.root).query(unused) == before


def test_client_calls_the_running_server(workspace: ClientWorkspace) -> None:
    if workspace.way == "directory":
        assert not (workspace.directory / "server.json").exists()
        return
    done = 'interlock_http_responses_total{status="200"}'
    before = workspace.served.metric(done)
    workspace.otto.whoami()
    assert workspace.served.metric(done) == before + 2  # reading the metric is one of them


def test_paths_are_relative_to_the_current_repository(
    workspace: ClientWorkspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, timeout=LIMIT_S, env=environ)
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")
    claim = workspace.otto.acquire(paths=["./a.py"])["claim"]
    assert (claim["paths"], claim["repo"]) == (["src/a.py"], str(tmp_path / ".git"))
    assert workspace.vera.check(paths=["src/**"])["claimed"]


# --- identity and workspace


def test_token_in_the_environment_is_used(
    workspace: ClientWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_TOKEN", workspace.tokens["vera"])
    monkeypatch.setenv("INTERLOCK_SESSION", "s-env")
    me = workspace.hand(None).whoami()
    assert (me["sender"], me["session"]) == ("vera", "s-env")


def test_given_token_overrides_the_environment(
    workspace: ClientWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_TOKEN", workspace.tokens["vera"])
    workspace.vera.start_session("s-veras")
    monkeypatch.setenv("INTERLOCK_SESSION", "s-veras")
    me = workspace.hand(workspace.tokens["otto"]).whoami()
    assert me["sender"] == "otto"
    assert "session" not in me
    assert workspace.hand(workspace.tokens["vera"]).whoami()["session"] == "s-veras"
    assert workspace.hand(workspace.tokens["vera"], "s-other").whoami()["session"] == "s-other"


def test_client_without_an_identity_is_refused(workspace: ClientWorkspace) -> None:
    with pytest.raises(errors.NoIdentity):
        workspace.hand(None).whoami()


def test_only_credential_is_used_until_the_client_closes(place: Place) -> None:
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


def test_default_workspace_is_the_one_that_the_command_line_finds(
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


def test_url_with_an_unsupported_scheme_is_refused_at_once() -> None:
    with pytest.raises(errors.Usage):
        interlock.connect("ftp://example.com")


# --- the package


def test_importing_the_package_does_not_import_the_client() -> None:
    script = "import interlock, sys; print(sorted(m for m in sys.modules if 'interlock' in m))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    assert done.stdout == "['interlock']\n"


def test_unknown_attribute_of_the_package_raises_attribute_error() -> None:
    with pytest.raises(AttributeError):
        interlock.disconnect  # type: ignore[attr-defined] # noqa: B018
