"""The HTTP API: routes answer handwritten requests, and every refusal is the error object. The
server refuses other identities, other senders' mail and requests from foreign pages.

test_doors.py sends a request to every route."""

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from interlock.doors.http.api import (
    FORGET_EVERY,
    RateLimit,
    Route,
    decoder,
    request_of,
    routes_of,
)
from interlock.errors import RateLimited, by_code
from interlock.rooms import catalogue
from interlock.rooms.identity import token_format
from world.commandline import EXIT_OF, LIMIT_S, Place, check_answer, until
from world.fork_server import Servers
from world.rows import working
from world.server import ForkedServer, Reply, RunningServer, read_reply
from world.signed_in_people import Connected, let_in

MIB = 1 << 20
ALL = [route for verb in catalogue.verbs() for route in routes_of(verb)]
ROUTES = [route for route in ALL if not route.shorthand]


class Api(NamedTuple):
    """A server, and the tokens of an agent, of a person, and of an admin. `connection` is a client
    that rosa connected, and that acts as her."""

    served: RunningServer
    otto: str
    vera: str
    ada: str
    connection: Connected

    def ask(self, method: str, target: str, body: Any = None, **more: Any) -> Reply:
        return self.served.ask(method, target, body, **{"token": self.otto, **more})

    def message(self, **more: Any) -> str:
        """Send a new message from vera to otto, and return its id."""
        body = {"to": "@otto", "payload": {"text": "marmalade"}} | more
        sent = self.ask("POST", "/v1/messages", body, token=self.vera)
        assert sent.status == 200, sent
        return str(sent.json["message"]["id"])

    def claim(self) -> dict[str, Any]:
        """Acquire a new claim as otto."""
        found: dict[str, Any] = self.ask("POST", "/v1/claims", {"item": fresh("B")}).json["claim"]
        return found

    def session(self) -> str:
        started = self.ask("POST", "/v1/sessions", {"id": fresh("run")})
        return str(started.json["session"])

    def invitation(self) -> str:
        """Create an invitation, and return its code."""
        made = self.ask("POST", "/v1/invitations", {"name": fresh("guest")}, token=self.ada)
        return str(made.json["invitation"])

    def facts(self, kind: str) -> list[dict[str, Any]]:
        target = f"/v1/audit/log?limit=1000&kind={kind}"
        found: list[dict[str, Any]] = self.ask("GET", target, token=self.served.owner).json["facts"]
        return found

    def open(self, token: str) -> int:
        return int(self.ask("GET", "/v1/whoami", token=token).json["open"])


BINARY = {"Content-Type": "application/octet-stream"}
SEND = {"to": "@vera", "payload": {"text": "x"}}
_counted = iter(range(1_000_000))


def fresh(prefix: str) -> str:
    return f"{prefix}-{next(_counted)}"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory, servers: Servers) -> Iterator[Api]:
    place = Place(tmp_path_factory.mktemp("api"))
    _, connection = let_in(place.workspace, "rosa")
    with ForkedServer(place, servers) as served:
        join = served.place.join
        otto, vera = join("otto"), join("vera", None, "--kind", "human")
        yield Api(served, otto, vera, join("ada", None, "--scope", "admin"), connection)


def check_refused(reply: Reply, status: int, code: str) -> dict[str, Any]:
    """Check the status, headers and members of a refusal. Return the error object."""
    assert (reply.status, reply.code) == (status, code), reply
    assert reply.headers["content-type"] == "application/json"
    error: dict[str, Any] = reply.json
    assert error["error"] == by_code(code).title
    assert error["message"].strip()
    assert code in EXIT_OF or code == "FOREIGN_ORIGIN"
    check_answer(error)
    if status == 401:
        assert reply.headers["www-authenticate"].startswith("Bearer")
    return error


# --- every route


class Sample(NamedTuple):
    """A request that must succeed, and a member of its answer."""

    target: str
    member: str
    body: Any = None
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed


# test_doors.py has a request for every verb. These handwritten requests check the shorthand routes,
# and one route of each form that a request can have.
SAMPLES: dict[str, Callable[[Api], Sample]] = {
    "POST /v1/messages/{messages}/ack": lambda api: Sample(
        f"/v1/messages/{api.message()}/ack", "declined", {"decline": True}
    ),
    "POST /v1/claims/{id}/renew": lambda api: Sample(
        f"/v1/claims/{api.claim()['id']}/renew", "claim"
    ),
    "POST /v1/claims/{id}/release": lambda api: Sample(
        f"/v1/claims/{api.claim()['id']}/release", "released"
    ),
    "GET /v1/claims/check": lambda api: Sample("/v1/claims/check?item=B-1", "claimed"),
    "GET /v1/audit/verify": lambda api: Sample("/v1/audit/verify", "ok"),
    "POST /v1/messages": lambda api: Sample("/v1/messages", "accepted", SEND),
    "GET /v1/inbox": lambda api: Sample("/v1/inbox?which=all&limit=5&after=0", "messages"),
    "GET /v1/claims": lambda api: Sample("/v1/claims?mine=true", "claims"),
    "GET /v1/messages/{message}/receipts": lambda api: Sample(
        f"/v1/messages/{api.message()}/receipts", "deliveries"
    ),
    "POST /v1/asks": lambda api: Sample(
        "/v1/asks", "answered", {"to": "@vera", "question": "Ready?", "wait": 1}
    ),
    "POST /v1/blobs": lambda api: Sample("/v1/blobs?size=3", "upload", b"abc", BINARY),
    "POST /v1/claims/release": lambda api: Sample(
        "/v1/claims/release", "released", {"id": api.claim()["id"]}
    ),
    "GET /v1/gates/{gate}/commits/{commit}": lambda api: Sample(
        f"/v1/gates/athena/commits/{'0' * 40}", "passed"
    ),
    "POST /v1/sessions/{id}/end": lambda api: Sample(
        f"/v1/sessions/{api.session()}/end", "released"
    ),
    "POST /v1/attend": lambda api: Sample(
        "/v1/attend", "unread", {"step": "tool", "adapter": "test", "window": {"client": "test"}}
    ),
    "POST /v1/audit/verify": lambda api: Sample("/v1/audit/verify", "ok"),
    "POST /v1/audit/proofs": lambda api: Sample("/v1/audit/proofs", "entries", {"seqs": [1, 3]}),
}


def named(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest.mark.parametrize("line", SAMPLES)
def test_route_answers_a_handwritten_request(api: Api, line: str) -> None:
    sample = SAMPLES[line](api)
    method = line.split()[0]
    reply = api.ask(method, sample.target, sample.body, headers=dict(sample.headers))
    assert reply.status == 200, reply
    assert reply.headers["content-type"] == "application/json"
    assert sample.member in reply.json, reply
    check_answer(reply.json)


@pytest.mark.parametrize("route", [route for route in ALL if route.shorthand], ids=named)
def test_shorthand_route_makes_the_same_request(route: Route) -> None:
    own, short = decoder(routes_of(route.verb)[0]), decoder(route)
    rows = [row for row in working(route.verb) if row.fields.keys() >= short.path.keys()]
    assert rows, f"no row of {route.verb.__name__} has the members of {route.path}"
    given = dict(rows[0].fields)
    path = {n: given[n][0] if isinstance(given[n], list) else given[n] for n in short.path}
    rest = {name: value for name, value in given.items() if name not in path}
    whole = {n: [v] if isinstance(given[n], list) else v for n, v in path.items()} | rest
    assert request_of(short, path, rest) == request_of(own, {}, whole)


@pytest.mark.parametrize("path", sorted({route.path for route in ALL}))
def test_other_methods_are_refused(api: Api, path: str) -> None:
    target = re.sub(r"\{\w+\}", "x", path)
    patterns = [(route.method, re.sub(r"\{\w+\}", "[^/]+", route.path)) for route in ALL]
    meant = {method for method, pattern in patterns if re.fullmatch(pattern, target)}
    taken = {route.method for route in ALL if route.path == path}
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - meant:
        reply = api.ask(method, target)
        check_refused(reply, 405, "USAGE")
        assert method in reply.json["message"]
        assert taken <= set(reply.headers["allow"].split(", "))


def test_openapi_lists_every_route_except_local_ones(api: Api) -> None:
    described = api.ask("GET", "/openapi.json").json["paths"]
    found = {(method.upper(), path) for path, methods in described.items() for method in methods}
    wanted = {(route.method, route.path) for route in ALL if not route.verb.declared.local}
    assert found == wanted | {("GET", "/v1/events")}


def test_openapi_marks_the_routes_that_need_no_token(api: Api) -> None:
    described = api.ask("GET", "/openapi.json").json
    assert described["security"] == [{"token": []}]
    free = {
        (method.upper(), path)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
        if operation.get("security") == []
    }
    assert free == {(route.method, route.path) for route in ROUTES if route.verb.declared.anyone}


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.verb.declared.local], ids=named
)
def test_local_routes_are_not_found_over_the_network(api: Api, route: Route) -> None:
    for token in (api.otto, api.ada, api.served.owner):
        reply = api.ask("POST", route.path, {"file": "/nowhere/x"}, token=token)
        check_refused(reply, 404, "NOT_FOUND")


def test_local_routes_serve_the_owners_commands(api: Api) -> None:
    copy = api.served.place.root / "copy"
    assert api.served.place.process("backup", str(copy), "--json").status == 0
    assert copy.exists()


def test_only_the_workspaces_socket_admits_an_owner_without_a_token(api: Api) -> None:
    owner = {"Interlock-Owner": "yes"}
    check_refused(api.ask("GET", "/v1/tokens", token=None, headers=owner), 401, "NO_IDENTITY")
    reply = api.ask("GET", "/v1/tokens", headers=owner)
    check_refused(reply, 403, "MISSING_SCOPE")


# --- bad requests


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff\xfe",
        b"nonsense",
        b"[]",
        b"7",
        b"null",
        b'"text"',
        b"{}{}",
        b'{"to": NaN}',
        b"[" * 100_000,
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b'\xef\xbb\xbf{"to": "@vera"}',
        b'{"to": "\\ud800"}',
    ],
    ids=lambda body: repr(body[:12]),
)
def test_broken_json_is_refused(api: Api, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    reply = api.ask("POST", "/v1/messages", body, headers=headers)
    check_refused(reply, 400, "USAGE")


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/xml", "application/octet-stream"]
)
def test_a_body_of_another_type_is_refused(api: Api, kind: str | None) -> None:
    body = json.dumps({"to": "@vera", "payload": {"text": "x"}}).encode()
    headers = {"Content-Type": kind} if kind else {}
    check_refused(api.ask("POST", "/v1/messages", body, headers=headers), 415, "USAGE")
    check_refused(
        api.ask("POST", "/v1/blobs?size=1", b"x", headers={"Content-Type": "application/json"}),
        415,
        "USAGE",
    )


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON"])
def test_content_type_of_json_may_have_parameters_and_any_case(api: Api, kind: str) -> None:
    body = json.dumps({"to": "@vera", "payload": {"text": "x"}}).encode()
    assert api.ask("POST", "/v1/messages", body, headers={"Content-Type": kind}).status == 200


def test_refusal_of_an_oversized_body_names_the_upload_route(api: Api) -> None:
    body = json.dumps({"to": "@vera", "payload": {"text": "x" * (9 * MIB)}}).encode()
    headers = {"Content-Type": "application/json"}
    error = check_refused(api.ask("POST", "/v1/messages", body, headers=headers), 413, "TOO_LARGE")
    assert "/v1/blobs" in error["message"]
    assert error["limit"] == 8 * MIB


@pytest.mark.parametrize(
    "path",
    ["/v1", "/v1/", "/v1/inbox/", "/v2/inbox", "/nothing", "//v1/inbox", "/v1/messages/a/b/c"],
)
def test_an_unknown_route_is_not_found(api: Api, path: str) -> None:
    check_refused(api.ask("GET", path), 404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("body", "member"),
    [
        (SEND | {"colour": "red"}, "colour"),
        (SEND | {"key": "k"}, "key"),
        ({"payload": {"text": "x"}}, "to"),
        ({"to": "@vera"}, "payload"),
        (SEND | {"to": 5}, "to"),
        (SEND | {"to": ["@vera"]}, "to"),
        (SEND | {"payload": "x"}, "payload"),
        (SEND | {"payload": None}, "payload"),
        (SEND | {"ttl_s": "60"}, "ttl_s"),
        (SEND | {"ttl_s": 60.5}, "ttl_s"),
        (SEND | {"ttl_s": True}, "ttl_s"),
        (SEND | {"wake": 1}, "wake"),
        (SEND | {"wake": "true"}, "wake"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_members_are_named(api: Api, body: dict[str, Any], member: str) -> None:
    error = check_refused(api.ask("POST", "/v1/messages", body), 400, "USAGE")
    assert error["member"].split(".")[0] == member


@pytest.mark.parametrize(
    ("path", "body", "beginning"),
    [
        ("/v1/messages", SEND | {"type": "command"}, "payload.command is missing"),
        ("/v1/messages", SEND | {"payload": {"text": ""}}, "payload.text must not be empty"),
        ("/v1/claims", {"item": "B-1", "wait": 0}, "wait is 0. Give whole seconds"),
        ("/v1/asks", {"to": "@vera", "question": "Now?", "wait": 0}, "wait is 0"),
        ("/v1/asks", {"to": "@vera", "question": ""}, "question must not be empty"),
        ("/v1/claims", {}, "Give item or paths."),
        ("/v1/claims/release", {}, "Give id, item or paths."),
        ("/v1/tokens/rotate", {}, "Give id or sender."),
        ("/v1/verdicts", {"task": "a b", "gate": "g", "verdict": "pass"}, "task must be a task id"),
        ("/v1/tasks", {"title": "x", "gates": ["A b"]}, "gates[0] must be"),
        ("/v1/evidence", {"payload": {"kind": "url", "url": "zzz"}}, "payload.url must be"),
    ],
)
def test_refusal_begins_with_the_name_of_the_member(
    api: Api, path: str, body: dict[str, Any], beginning: str
) -> None:
    error = api.ask("POST", path, body).json
    assert error["message"].startswith(beginning)
    assert "interlock" not in error["message"]


def test_owner_token_is_told_apart_from_no_token(api: Api) -> None:
    """The owner belongs to no sender, so a route that needs one names another token."""
    for token, remedy in (
        (None, "Send the header `Authorization: Bearer TOKEN`."),
        (api.served.owner, "Send the token of a sender instead."),
    ):
        error = check_refused(api.ask("GET", "/v1/whoami", token=token), 401, "NO_IDENTITY")
        assert error["message"].endswith(remedy)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (SEND | {"to": "AGENT:gpt"}, "INVALID_RECIPIENT_SHAPE"),
        (SEND | {"type": "song"}, "UNKNOWN_TYPE"),
        (SEND | {"type": "evidence"}, "USE_VERB"),
        (SEND | {"payload": {"text": 7}}, "INVALID_MESSAGE"),
        (SEND | {"payload": {"text": "x", "more": 1}}, "INVALID_MESSAGE"),
        (SEND | {"ttl_s": 0}, "USAGE"),
        (SEND | {"ttl_s": 10**18}, "USAGE"),
        (SEND | {"priority": "frantic"}, "USAGE"),
        (SEND | {"upload": "nothing", "payload": {}}, "NOT_FOUND"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_requests_that_a_contract_refuses_get_its_code(
    api: Api, body: dict[str, Any], code: str
) -> None:
    check_refused(api.ask("POST", "/v1/messages", body), by_code(code).http, code)


@pytest.mark.parametrize(
    "query",
    [
        "limit=many",
        "limit=-1",
        "limit=0",
        "limit=1001",
        "limit=1.5",
        "limit=",
        "limit=%D9%A1",
        "limit=99999999999999999999",
        "limit=1&limit=2",
        "after=-1",
        "wait=0",
        "wait=-5",
        "wait=soon",
        "wait_s=1",
        "which=mine",
        "colour=red",
        "which=%00",
        "adapter=a%0Ab",
    ],
)
def test_bad_values_in_a_query_are_refused(api: Api, query: str) -> None:
    check_refused(api.ask("GET", f"/v1/inbox?{query}"), 400, "USAGE")


@pytest.mark.parametrize("query", ["", "%20", "%00", "a%00b", "x" * 1001])
def test_search_needs_words(api: Api, query: str) -> None:
    check_refused(api.ask("GET", f"/v1/search?query={query}"), 400, "USAGE")


@pytest.mark.parametrize("query", ['"', "a AND", "(", "NEAR(a b)", "words:x", "*", "^a", "-"])
def test_search_for_punctuation_finds_nothing(api: Api, query: str) -> None:
    assert api.ask("GET", f"/v1/search?query={quote(query)}").json["messages"] == []


@pytest.mark.parametrize("query", ["mine=1", "mine=True", "mine=", "mine=true&mine=true"])
def test_a_flag_in_a_query_is_true_or_false(api: Api, query: str) -> None:
    check_refused(api.ask("GET", f"/v1/claims?{query}"), 400, "USAGE")


# --- identity


def expired(api: Api) -> str:
    body = {"sender": "otto", "ttl_s": 1}
    token = str(api.ask("POST", "/v1/tokens", body, token=api.ada).json["token"])
    until(lambda: api.ask("GET", "/v1/whoami", token=token).status == 401)
    return f"Bearer {token}"


def revoked(api: Api) -> str:
    minted = api.ask("POST", "/v1/tokens", {"sender": "otto"}, token=api.ada).json
    api.ask("POST", "/v1/tokens/revoke", {"id": minted["id"]}, token=api.ada)
    return f"Bearer {minted['token']}"


@pytest.mark.parametrize(
    ("shown", "code"),
    [
        (lambda api: None, "NO_IDENTITY"),
        (lambda api: "Bearer", "NO_IDENTITY"),
        (lambda api: "Bearer    ", "NO_IDENTITY"),
        (lambda api: f"Basic {api.otto}", "NO_IDENTITY"),
        (lambda api: api.otto, "NO_IDENTITY"),
        (lambda api: f"Bearer {api.otto[:-1]}", "BAD_TOKEN"),
        (lambda api: f"Bearer {token_format.compose(bytes(25))}", "BAD_TOKEN"),
        (lambda api: "Bearer %00%ff", "BAD_TOKEN"),
        (lambda api: "Bearer " + "x" * 10_000, "BAD_TOKEN"),
        (expired, "TOKEN_EXPIRED"),
        (revoked, "BAD_TOKEN"),
    ],
)
def test_invalid_token_is_refused(api: Api, shown: Callable[[Api], str | None], code: str) -> None:
    header = shown(api)
    headers = {"Authorization": header} if header is not None else {}
    for method, target, body in (
        ("GET", "/v1/whoami", None),
        ("GET", "/v1/agents", None),
        ("GET", "/v1/events", None),
        ("POST", "/v1/messages", SEND),
    ):
        check_refused(api.ask(method, target, body, token=None, headers=headers), 401, code)


def test_a_missing_scope_is_refused_and_recorded(api: Api) -> None:
    before = len(api.facts("request_refused"))
    for target, body in (
        ("/v1/agents", {"name": "mallory"}),
        ("/v1/tokens", {"sender": "vera"}),
        ("/v1/settings", {"name": "limits.message_bytes", "value": "1"}),
        ("/v1/pause", {}),
    ):
        error = check_refused(api.ask("POST", target, body), 403, "MISSING_SCOPE")
        assert error["scope"] == "admin"
    refused = api.facts("request_refused")[before:]
    assert sum(fact["outcome"].get("count", 1) for fact in refused) >= 1
    agents = api.ask("GET", "/v1/agents").json["agents"]
    assert "@mallory" not in [agent["address"] for agent in agents]


@pytest.mark.parametrize("member", ["from", "source", "sender"])
@pytest.mark.parametrize("name", ["vera", "@vera", "agent:vera", "", "otto and vera", "OTTO"])
def test_request_that_names_another_sender_is_refused_and_stores_nothing(
    api: Api, member: str, name: str
) -> None:
    entries = api.ask("GET", "/readyz").json["entries"]
    open_before = api.open(api.vera)
    error = check_refused(
        api.ask("POST", "/v1/messages", SEND | {member: name}), 403, "IDENTITY_MISMATCH"
    )
    assert error["sender"] == "@otto"
    assert api.open(api.vera) == open_before
    added = api.ask("GET", f"/v1/audit/log?after={entries}", token=api.ada).json["facts"]
    assert [fact["kind"] for fact in added] in ([], ["request_refused"])
    last = api.facts("request_refused")[-1]
    assert last["outcome"]["code"] == "IDENTITY_MISMATCH"
    assert "vera" not in json.dumps(last["outcome"])


@pytest.mark.parametrize("name", ["otto", "@otto", "agent:otto"])
def test_request_may_name_the_tokens_own_sender(api: Api, name: str) -> None:
    for member in ("from", "source", "sender"):
        sent = api.ask("POST", "/v1/messages", SEND | {member: name})
        assert sent.json["message"]["from"] == "@otto"


def test_every_named_sender_must_match_the_token(api: Api) -> None:
    vera, otto = {"Interlock-Sender": "vera"}, {"Interlock-Sender": "otto"}
    for method, target, body, headers in (
        ("POST", "/v1/messages", SEND, vera),
        ("POST", "/v1/messages", SEND | {"from": "@vera"}, otto),
        ("POST", "/v1/messages", SEND | {"from": "@otto"}, vera),
        ("POST", "/v1/messages", SEND | {"from": "@otto", "sender": "@vera"}, {}),
        ("GET", "/v1/inbox?from=@vera", None, {}),
        ("GET", "/v1/whoami", None, vera),
        ("POST", "/v1/blobs?size=1&source=agent:vera", b"x", BINARY),
    ):
        reply = api.ask(method, target, body, headers=headers)
        check_refused(reply, 403, "IDENTITY_MISMATCH")
    check_refused(api.ask("POST", "/v1/messages", SEND | {"from": 7}), 400, "USAGE")


def test_a_session_of_another_sender_is_refused(api: Api) -> None:
    session = {"Interlock-Session": api.session()}
    assert api.ask("GET", "/v1/whoami", headers=session).json["session"]
    reply = api.ask("GET", "/v1/whoami", token=api.vera, headers=session)
    check_refused(reply, 403, "IDENTITY_MISMATCH")
    reply = api.ask("GET", "/v1/whoami", headers={"Interlock-Session": quote("no session")})
    check_refused(reply, 400, "USAGE")


def test_mail_of_others_is_not_found(api: Api) -> None:
    sent = api.ask("POST", "/v1/messages", SEND).json["message"]["id"]
    for target in ("", "/receipts", "/thread", "/explain"):
        reply = api.ask("GET", f"/v1/messages/{sent}{target}", token=api.ada)
        check_refused(reply, 404, "NOT_FOUND")


# --- new tokens


def test_join_without_a_hash_returns_a_valid_token(api: Api) -> None:
    name = fresh("newcomer")
    joined = api.ask("POST", "/v1/agents", {"name": name}, token=api.ada).json
    assert api.ask("GET", "/v1/whoami", token=joined["token"]).json["sender"] == name
    rotated = api.ask("POST", "/v1/tokens/rotate", {"sender": name}, token=api.ada).json
    check_refused(api.ask("GET", "/v1/whoami", token=joined["token"]), 401, "BAD_TOKEN")
    assert api.ask("GET", "/v1/whoami", token=rotated["token"]).json["sender"] == name


def test_join_with_a_hash_returns_no_token(api: Api) -> None:
    token = token_format.compose(fresh("mine").encode().ljust(token_format.SECRET_BYTES))
    body = {"name": fresh("careful"), "token_hash": token_format.hashed(token)}
    joined = api.ask("POST", "/v1/agents", body, token=api.ada)
    assert "token" not in joined.json
    assert api.ask("GET", "/v1/whoami", token=token).json["sender"] == body["name"]


# --- invitations and idempotency keys


@pytest.mark.parametrize("header", [None, "Bearer", "Bearer nonsense", "Basic eDp5"])
def test_accepting_an_invitation_needs_no_token(api: Api, header: str | None) -> None:
    headers = {"Authorization": header} if header is not None else {}
    body = {"code": api.invitation()}
    first, again = (
        api.ask("POST", "/v1/invitations/accept", body, token=None, headers=headers)
        for _ in range(2)
    )
    sender = api.ask("GET", "/v1/whoami", token=first.json["token"]).json["sender"]
    assert sender == first.json["sender"]
    check_refused(again, 401, "BAD_TOKEN")


def test_accepting_an_invitation_with_a_hash_returns_no_token(api: Api) -> None:
    token = token_format.compose(fresh("kept").encode().ljust(token_format.SECRET_BYTES))
    body = {"code": api.invitation(), "token_hash": token_format.hashed(token)}
    joined = api.ask("POST", "/v1/invitations/accept", body, token=None)
    assert "token" not in joined.json
    assert api.ask("GET", "/v1/whoami", token=token).json["sender"] == joined.json["sender"]


def test_long_body_on_a_route_without_token_is_refused_unread(api: Api) -> None:
    with api.served.connect() as connection:
        connection.sendall(
            b"POST /v1/invitations/accept HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: 5000000\r\n\r\n{"
        )
        reply = read_reply(connection.makefile("rb"))
    assert (reply.status, reply.json["code"]) == (413, "TOO_LARGE")


def chunked(api: Api, body: bytes) -> Reply:
    """Send a body without a Content-Length, and return the reply."""
    with api.served.connect() as connection:
        connection.sendall(
            b"POST /v1/invitations/accept HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            + b"%x\r\n%s\r\n0\r\n\r\n"
            % (len(body), body)
        )
        return read_reply(connection.makefile("rb"))


def test_chunked_body_on_a_route_without_token_must_be_short(api: Api) -> None:
    joined = chunked(api, json.dumps({"code": api.invitation()}).encode())
    assert (joined.status, "token" in joined.json) == (200, True)
    refused = chunked(api, json.dumps({"code": "x" * 5_000_000}).encode())
    assert (refused.status, refused.json["code"]) == (413, "TOO_LARGE")


def test_connections_token_for_another_audience_is_refused_and_recorded(
    api: Api,
) -> None:
    before = len(api.facts("request_refused"))
    reply = api.ask("GET", "/v1/whoami", token=api.connection.token)
    assert "https://interlock.example/mcp" in check_refused(reply, 401, "WRONG_AUDIENCE")["message"]
    fact = api.facts("request_refused")[before]
    assert (fact["sender"], fact["outcome"]["code"]) == ("@rosa", "WRONG_AUDIENCE")


def test_same_key_and_body_return_the_first_answer(api: Api) -> None:
    key = {"Idempotency-Key": quote(fresh("schlüssel"))}
    before = api.open(api.vera)
    first = api.ask("POST", "/v1/messages", SEND, headers=key)
    again = api.ask("POST", "/v1/messages", SEND, headers=key)
    assert (again.status, again.json["message"]) == (200, first.json["message"])
    assert api.open(api.vera) == before + 1


def test_the_same_key_with_another_body_is_a_conflict(api: Api) -> None:
    key = {"Idempotency-Key": fresh("key")}
    assert api.ask("POST", "/v1/messages", SEND, headers=key).status == 200
    other = SEND | {"payload": {"text": "y"}}
    reply = api.ask("POST", "/v1/messages", other, headers=key)
    check_refused(reply, 409, "IDEMPOTENCY_CONFLICT")


def test_two_senders_can_use_the_same_key(api: Api) -> None:
    key = {"Idempotency-Key": fresh("key")}
    to_all = SEND | {"to": "@ada"}
    first = api.ask("POST", "/v1/messages", to_all, headers=key)
    other = api.ask("POST", "/v1/messages", to_all, token=api.vera, headers=key)
    assert other.status == 200
    assert other.json["message"]["id"] != first.json["message"]["id"]


def test_evidence_with_a_repeated_key_is_stored_once(api: Api) -> None:
    key = {"Idempotency-Key": fresh("key")}
    note = {"payload": {"kind": "note", "text": "It works."}}
    first = api.ask("POST", "/v1/evidence", note, headers=key)
    again = api.ask("POST", "/v1/evidence", note, headers=key)
    assert (again.status, again.json) == (200, first.json)
    other = {"payload": {"kind": "note", "text": "It does not."}}
    reply = api.ask("POST", "/v1/evidence", other, headers=key)
    check_refused(reply, 409, "IDEMPOTENCY_CONFLICT")


def test_routes_that_send_nothing_take_no_key(api: Api) -> None:
    key = {"Idempotency-Key": "k"}
    check_refused(api.ask("POST", "/v1/claims", {"item": "B-7"}, headers=key), 400, "USAGE")
    check_refused(api.ask("GET", "/v1/whoami", headers=key), 400, "USAGE")


def test_concurrent_requests_with_one_key_send_one_message(api: Api) -> None:
    key = {"Idempotency-Key": fresh("key")}
    before = api.open(api.vera)
    with ThreadPoolExecutor(8) as clients:
        sent = list(
            clients.map(lambda _: api.ask("POST", "/v1/messages", SEND, headers=key), range(24))
        )
    assert {reply.status for reply in sent} == {200}
    assert len({reply.json["message"]["id"] for reply in sent}) == 1
    assert api.open(api.vera) == before + 1


# --- waiting


def reach(api: Api, agent: str) -> str:
    agents = api.ask("GET", f"/v1/agents?name={agent}").json["agents"]
    return str(agents[0]["reach"])


def newcomer(api: Api) -> tuple[str, str]:
    name = fresh("waiter")
    return name, api.ask("POST", "/v1/agents", {"name": name}, token=api.ada).json["token"]


def test_a_wait_for_mail_ends_when_mail_arrives(api: Api) -> None:
    name, token = newcomer(api)
    polled: list[Reply] = []
    poll = threading.Thread(
        target=lambda: polled.append(api.ask("GET", "/v1/inbox?wait=600", token=token))
    )
    poll.start()
    until(lambda: reach(api, name) == "wakes")
    api.message(to=f"@{name}")
    poll.join(LIMIT_S)
    assert [message["to"] for message in polled[0].json["messages"]] == [f"@{name}"]


def test_wait_without_mail_ends_with_an_empty_list(api: Api) -> None:
    _, token = newcomer(api)
    assert api.ask("GET", "/v1/inbox?wait=1", token=token).json["messages"] == []


def test_disconnected_caller_stops_waiting_and_gets_no_mail_shown(api: Api) -> None:
    name, token = newcomer(api)
    with api.served.connect() as connection:
        connection.sendall(raw_request("GET", "/v1/inbox?wait=600", token))
        until(lambda: reach(api, name) == "wakes")
    until(lambda: reach(api, name) != "wakes")
    sent = api.message(to=f"@{name}")
    receipts = api.ask("GET", f"/v1/messages/{sent}/receipts", token=api.vera).json
    assert [delivery["state"] for delivery in receipts["deliveries"]] == ["accepted"]


def test_disconnected_caller_leaves_the_queue_for_a_claim(api: Api) -> None:
    held = api.claim()
    wanted = json.dumps({"item": held["item"], "wait": 600}).encode()
    with api.served.connect() as connection:
        connection.sendall(raw_request("POST", "/v1/claims", api.vera, wanted))
        until(lambda: waiting(api, held["item"]))
    until(lambda: not waiting(api, held["item"]))
    assert api.ask("POST", f"/v1/claims/{held['id']}/release").json["released"] is True
    check = api.ask("GET", f"/v1/claims/check?item={held['item']}").json
    assert check["claimed"] is False


def waiting(api: Api, item: str) -> bool:
    """Whether a caller waits in the queue for an item."""
    joined = {
        f["outcome"]["id"] for f in api.facts("claim_awaited") if item in f["outcome"].values()
    }
    return bool(joined - {fact["outcome"]["id"] for fact in api.facts("claim_wait_ended")})


def raw_request(method: str, target: str, token: str, body: bytes = b"") -> bytes:
    lines = [
        f"{method} {target} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {token}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


# --- large bodies


def test_large_body_is_uploaded_in_chunks_and_read_whole(api: Api) -> None:
    text = "".join(f"{number:07}é\n" for number in range(260_000))
    data = text.encode()
    assert len(data) > 2 * MIB
    upload = ""
    for number, start in enumerate(range(0, len(data), MIB)):
        named = f"&upload={quote(upload)}" if upload else ""
        target = f"/v1/blobs?size={len(data)}&number={number}{named}"
        put = api.ask("POST", target, data[start : start + MIB], headers=BINARY)
        upload = put.json["upload"]
    body = {"to": "@vera", "payload": {}, "upload": upload, "size": len(data)}
    wrong = api.ask("POST", "/v1/messages", body | {"sha256": hashlib.sha256().hexdigest()})
    check_refused(wrong, 400, "DIGEST_MISMATCH")
    sha256 = hashlib.sha256(data).hexdigest()
    stolen = api.ask("POST", "/v1/messages", body | {"sha256": sha256}, token=api.ada)
    check_refused(stolen, 404, "NOT_FOUND")
    sent = api.ask("POST", "/v1/messages", body | {"sha256": sha256})
    assert sent.status == 200, sent
    read = api.ask("GET", f"/v1/messages/{sent.json['message']['id']}", token=api.vera)
    assert read.json["payload"]["text"] == text
    assert read.json["sha256"] == sha256


def test_body_of_a_few_mib_needs_no_upload(api: Api) -> None:
    text = "ü" * MIB
    sent = api.ask("POST", "/v1/messages", {"to": "@vera", "payload": {"text": text}})
    read = api.ask("GET", f"/v1/messages/{sent.json['message']['id']}", token=api.vera)
    assert read.json["payload"]["text"] == text


# --- browsers


PATHS = ("/v1/agents", "/v1/events", "/openapi.json", "/healthz", "/metrics", "/", "/docs/")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://localhost.evil.example"},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "localhost.evil.example:80"},
        {"Host": "0.0.0.0"},
        {"Host": "192.168.1.1"},
        {"Host": ""},
        {"Host": "evil.example", "Origin": "http://evil.example"},
    ],
    ids=str,
)
def test_requests_from_foreign_pages_are_refused(api: Api, headers: dict[str, str]) -> None:
    for path in PATHS:
        check_refused(api.ask("GET", path, headers=headers), 403, "FOREIGN_ORIGIN")
    before = api.open(api.vera)
    reply = api.ask("POST", "/v1/messages", SEND, headers=headers)
    check_refused(reply, 403, "FOREIGN_ORIGIN")
    assert api.open(api.vera) == before


def test_answers_have_no_cors_headers(api: Api) -> None:
    for reply in (api.ask("GET", "/v1/agents"), api.ask("OPTIONS", "/v1/messages")):
        assert not [name for name in reply.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:{port}", "localhost:{port}", "LOCALHOST", "[::1]:{port}"]
)
def test_server_answers_by_its_own_names(api: Api, host: str) -> None:
    named = host.format(port=api.served.port)
    for headers in (
        {"Host": named},
        {"Host": named, "Origin": f"http://{named}"},
        {"Host": named, "Sec-Fetch-Site": "same-origin"},
        {"Host": named, "Sec-Fetch-Site": "none"},
    ):
        assert api.ask("GET", "/v1/agents", headers=headers).status == 200, headers


# --- limits


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_rate_limit_allows_a_burst_and_then_a_steady_rate() -> None:
    clock = Clock()
    limit = RateLimit(per_s=2, burst=5, clock=clock)
    for _ in range(5):
        limit.take("otto")
    with pytest.raises(RateLimited) as refused:
        limit.take("otto")
    assert refused.value.members["retry_after_s"] == 1
    limit.take("vera")
    clock.now += 0.5
    limit.take("otto")
    with pytest.raises(RateLimited):
        limit.take("otto")
    clock.now += 3600
    for _ in range(5):
        limit.take("otto")
    with pytest.raises(RateLimited):
        limit.take("otto")


def test_rate_limit_drops_full_buckets() -> None:
    clock = Clock()
    limit = RateLimit(per_s=1, burst=5, clock=clock)
    for number in range(FORGET_EVERY + 1):
        limit.take(f"unknown-{number}")
    clock.now += 10
    limit.take("otto")
    limit.take("vera")
    assert len(limit._buckets) == 2


def test_refusal_by_the_rate_limit_says_when_to_retry(api: Api) -> None:
    _, token = newcomer(api)
    requests = raw_request("GET", "/v1/whoami?colour=red", token) * 100
    with api.served.connect() as connection:
        answers = connection.makefile("rb")

        def a_hundred_more() -> Reply | None:
            connection.sendall(requests)
            replies = [read_reply(answers) for _ in range(100)]
            return next((reply for reply in replies if reply.status == 429), None)

        limited = until(a_hundred_more)
    error = check_refused(limited, 429, "RATE_LIMITED")
    assert limited.headers["retry-after"] == str(error["retry_after_s"])
    assert api.ask("GET", "/v1/whoami").status == 200, "other tokens are not limited"


def test_head_is_refused_on_routes_of_verbs(api: Api) -> None:
    for path in ("/v1/inbox", "/v1/whoami"):
        assert api.ask("HEAD", path).status == 405


def test_long_body_with_an_invalid_token_is_refused_unread(api: Api) -> None:
    with api.served.connect() as connection:
        connection.sendall(
            b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer nonsense\r\n"
            b"Content-Type: application/json\r\nContent-Length: 5000000\r\n\r\n{"
        )
        reply = read_reply(connection.makefile("rb"))
    assert (reply.status, reply.json["code"]) == (401, "BAD_TOKEN")
