"""The HTTP API: every route of the table answers, every refusal is the one error object, and nobody
acts as another, reads what is another's, or comes from a foreign page."""

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from interlock.doors.http.decoding import Route, routes_of
from interlock.doors.http.limits import FORGET_EVERY, RateLimit
from interlock.errors import RateLimited, by_code
from interlock.rooms import catalogue
from interlock.rooms.identity import token_format
from world.commandline import EXIT_OF, LIMIT_S, Place, check_answer, until
from world.fork_server import Servers
from world.server import ForkedServer, Reply, RunningServer, read_reply
from world.signed_in_people import Connected, let_in

MIB = 1 << 20
ALL = [route for verb in catalogue.verbs() for route in routes_of(verb)]
ROUTES = [route for route in ALL if not route.shorthand]


class Town(NamedTuple):
    """A server, and the tokens of an agent, of a person, and of an admin; of rosa's browser, and
    the client that she let act as her."""

    served: RunningServer
    otto: str
    vera: str
    ada: str
    rosa: str
    connection: Connected

    def ask(self, method: str, target: str, body: Any = None, **more: Any) -> Reply:
        return self.served.ask(method, target, body, **{"token": self.otto, **more})

    def message(self, **more: Any) -> str:
        """The id of a fresh message from vera to otto."""
        body = {"to": "@otto", "payload": {"text": "marmalade"}} | more
        sent = self.ask("POST", "/v1/messages", body, token=self.vera)
        assert sent.status == 200, sent
        return str(sent.json["message"]["id"])

    def sent(self) -> str:
        """The id of a fresh message from otto to vera."""
        return str(self.ask("POST", "/v1/messages", SEND).json["message"]["id"])

    def ask_otto(self) -> str:
        return self.message(type="ask", payload={"question": "Ready?"})

    def claim(self) -> dict[str, Any]:
        """A fresh claim of otto's."""
        found: dict[str, Any] = self.ask("POST", "/v1/claims", {"item": fresh("B")}).json["claim"]
        return found

    def session(self) -> str:
        started = self.ask("POST", "/v1/sessions", {"id": fresh("run")})
        return str(started.json["session"])

    def task(self, **more: Any) -> str:
        """The id of a fresh task of ada's, with a gate that she holds."""
        body = {"title": "Sort the list", "id": fresh("T"), "gates": [self.gate()]} | more
        made = self.ask("POST", "/v1/tasks", body, token=self.ada)
        assert made.status == 200, made
        return str(made.json["task"]["id"])

    def gate(self) -> str:
        made = self.ask(
            "POST", "/v1/gates", {"name": "athena", "holders": ["@ada"]}, token=self.ada
        )
        return str(made.json["gate"]["name"])

    def taken(self) -> str:
        """The id of a fresh task that otto works on."""
        id = self.task()
        assert self.ask("POST", f"/v1/tasks/{id}/take").json["taken"]
        return id

    def submitted(self) -> str:
        """The id of a fresh task that otto has submitted."""
        id = self.taken()
        assert self.ask("POST", f"/v1/tasks/{id}/submit", ARTIFACT).json["submitted"]
        return id

    def note(self) -> str:
        """The id of fresh evidence."""
        body = {"payload": {"kind": "note", "text": "it works", "task_id": self.task()}}
        return str(self.ask("POST", "/v1/evidence", body).json["evidence"]["id"])

    def blocker(self) -> str:
        """The id of a fresh blocker of otto's."""
        body = {"what": "it is slow", "task": self.task()}
        return str(self.ask("POST", "/v1/blockers", body).json["blocker"]["id"])

    def upload(self) -> str:
        return str(self.ask("POST", "/v1/blobs?size=3", b"abc", headers=BINARY).json["upload"])

    def invitation(self) -> str:
        """The code of a fresh invitation."""
        made = self.ask("POST", "/v1/invitations", {"name": fresh("guest")}, token=self.ada)
        return str(made.json["invitation"])

    def facts(self, kind: str) -> list[dict[str, Any]]:
        target = f"/v1/audit/log?limit=1000&kind={kind}"
        found: list[dict[str, Any]] = self.ask("GET", target, token=self.served.owner).json["facts"]
        return found

    def open(self, token: str) -> int:
        return int(self.ask("GET", "/v1/whoami", token=token).json["open"])


BINARY = {"Content-Type": "application/octet-stream"}
ARTIFACT = {"commit": "a" * 40, "tree": "b" * 40}
_counted = iter(range(1_000_000))


def fresh(prefix: str) -> str:
    return f"{prefix}-{next(_counted)}"


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory, servers: Servers) -> Iterator[Town]:
    place = Place(tmp_path_factory.mktemp("town"))
    rosa = let_in(place.workspace, "rosa")
    with ForkedServer(place, servers) as served:
        join = served.place.join
        otto, vera = join("otto"), join("vera", None, "--kind", "human")
        yield Town(served, otto, vera, join("ada", None, "--scope", "admin"), *rosa)


def check_refused(reply: Reply, status: int, code: str) -> dict[str, Any]:
    """The one error object, with its status and its headers."""
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
    """A request that must work, and a member of its answer."""

    target: str
    member: str
    body: Any = None
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed


def hash_of_a_token() -> str:
    return token_format.hashed(
        token_format.compose(fresh("secret").encode().ljust(token_format.SECRET_BYTES))
    )


SAMPLES: dict[tuple[str, str], Callable[[Town], Sample]] = {
    ("POST", "/v1/messages"): lambda town: Sample(
        "/v1/messages", "accepted", {"to": "@vera", "payload": {"text": "Hello."}}
    ),
    ("GET", "/v1/inbox"): lambda town: Sample("/v1/inbox?which=all&limit=5&after=0", "messages"),
    ("GET", "/v1/messages/{message}"): lambda town: Sample(
        f"/v1/messages/{town.message()}", "payload"
    ),
    ("POST", "/v1/acks"): lambda town: Sample(
        "/v1/acks", "acked", {"messages": [town.message(), town.message()], "note": "done"}
    ),
    ("GET", "/v1/messages/{message}/receipts"): lambda town: Sample(
        f"/v1/messages/{town.message()}/receipts", "deliveries"
    ),
    ("GET", "/v1/messages/{message}/thread"): lambda town: Sample(
        f"/v1/messages/{town.message()}/thread", "messages"
    ),
    ("POST", "/v1/messages/{message}/answer"): lambda town: Sample(
        f"/v1/messages/{town.ask_otto()}/answer", "accepted", {"text": "Yes."}
    ),
    ("GET", "/v1/messages/{message}/explain"): lambda town: Sample(
        f"/v1/messages/{town.message()}/explain", "message"
    ),
    ("POST", "/v1/messages/{message}/redact"): lambda town: Sample(
        f"/v1/messages/{town.sent()}/redact", "redacted", {"reason": "a secret"}
    ),
    ("POST", "/v1/asks"): lambda town: Sample(
        "/v1/asks", "answered", {"to": "@vera", "question": "Ready?", "wait": 1}
    ),
    ("GET", "/v1/asks/{message}"): lambda town: Sample(
        "/v1/asks/"
        + town.ask(
            "POST",
            "/v1/messages",
            {"to": "@vera", "type": "ask", "payload": {"question": "Ready?"}},
        ).json["message"]["id"],
        "answered",
    ),
    ("GET", "/v1/search"): lambda town: Sample("/v1/search?query=marmalade", "messages"),
    ("GET", "/v1/mail"): lambda town: Sample("/v1/mail?limit=3", "messages"),
    ("POST", "/v1/blobs"): lambda town: Sample("/v1/blobs?size=3", "upload", b"abc", BINARY),
    ("POST", "/v1/blobs/drop"): lambda town: Sample(
        "/v1/blobs/drop", "dropped", {"upload": town.upload()}
    ),
    ("POST", "/v1/claims"): lambda town: Sample(
        "/v1/claims", "acquired", {"paths": [f"{fresh('src')}/**"], "repo": "here"}
    ),
    ("GET", "/v1/claims"): lambda town: Sample("/v1/claims?mine=true", "claims"),
    ("POST", "/v1/claims/check"): lambda town: Sample(
        "/v1/claims/check", "claimed", {"item": "B-1"}
    ),
    ("POST", "/v1/claims/renew"): lambda town: Sample(
        "/v1/claims/renew", "renewed", {"item": town.claim()["item"], "ttl_s": 60}
    ),
    ("POST", "/v1/claims/release"): lambda town: Sample(
        "/v1/claims/release", "released", {"id": town.claim()["id"]}
    ),
    ("POST", "/v1/claims/guard"): lambda town: Sample(
        "/v1/claims/guard", "allowed", {"paths": ["src/a.py"], "repo": "r", "worktree": "/w"}
    ),
    ("POST", "/v1/claims/commits"): lambda town: Sample(
        "/v1/claims/commits", "crossed", {"commit": "5" * 40, "paths": ["src/a.py"], "repo": "r"}
    ),
    ("POST", "/v1/claims/take-over"): lambda town: Sample(
        "/v1/claims/take-over", "claim", {"item": town.claim()["item"], "reason": "gone home"}
    ),
    ("POST", "/v1/claims/stop-waiting"): lambda town: Sample(
        "/v1/claims/stop-waiting", "waiting", {"item": "B-1"}
    ),
    ("POST", "/v1/tasks"): lambda town: Sample(
        "/v1/tasks",
        "task",
        {"title": "Sort it", "criteria": ["it sorts"], "gates": [town.gate()], "labels": ["ui"]},
    ),
    ("GET", "/v1/tasks"): lambda town: Sample("/v1/tasks?state=live&mine=true&limit=5", "tasks"),
    ("GET", "/v1/tasks/{id}"): lambda town: Sample(f"/v1/tasks/{town.task()}", "story"),
    ("POST", "/v1/tasks/{id}/take"): lambda town: Sample(
        f"/v1/tasks/{town.task()}/take", "claim", {"ttl_s": 60, "note": "mine"}
    ),
    ("POST", "/v1/tasks/{id}/submit"): lambda town: Sample(
        f"/v1/tasks/{town.taken()}/submit", "submitted", ARTIFACT
    ),
    ("POST", "/v1/tasks/{id}/complete"): lambda town: Sample(
        f"/v1/tasks/{town.submitted()}/complete", "missing"
    ),
    ("POST", "/v1/tasks/{id}/fail"): lambda town: Sample(
        f"/v1/tasks/{town.taken()}/fail", "task", {"note": "it cannot be"}
    ),
    ("POST", "/v1/tasks/{id}/cancel"): lambda town: Sample(
        f"/v1/tasks/{town.task()}/cancel", "task", {"note": "not now"}
    ),
    ("GET", "/v1/tasks/{task}/prepare"): lambda town: Sample(
        f"/v1/tasks/{town.taken()}/prepare", "fence"
    ),
    ("POST", "/v1/evidence"): lambda town: Sample(
        "/v1/evidence",
        "counts",
        {"payload": {"kind": "url", "url": "https://example.com/7", "task_id": town.task()}},
    ),
    ("GET", "/v1/evidence/{id}"): lambda town: Sample(f"/v1/evidence/{town.note()}", "evidence"),
    ("POST", "/v1/gates"): lambda town: Sample(
        "/v1/gates", "gate", {"name": fresh("gate"), "holders": ["@vera", "otto"]}
    ),
    ("GET", "/v1/gates"): lambda town: Sample("/v1/gates", "gates"),
    ("GET", "/v1/gates/{gate}/commits/{commit}"): lambda town: Sample(
        f"/v1/gates/{town.gate()}/commits/{'0' * 40}", "passed"
    ),
    ("GET", "/v1/tasks/{task}/gates/{gate}"): lambda town: Sample(
        f"/v1/tasks/{town.submitted()}/gates/athena", "artifact"
    ),
    ("POST", "/v1/verdicts"): lambda town: Sample(
        "/v1/verdicts",
        "blocker",
        {"task": town.submitted(), "gate": "athena", "verdict": "fail", "fix": ["make fix"]},
    ),
    ("POST", "/v1/blockers"): lambda town: Sample(
        "/v1/blockers", "deliveries", {"what": "it is slow", "task": town.task(), "fix": ["wait"]}
    ),
    ("GET", "/v1/blockers"): lambda town: Sample("/v1/blockers?all=true", "blockers"),
    ("POST", "/v1/blockers/{id}/resolve"): lambda town: Sample(
        f"/v1/blockers/{town.blocker()}/resolve", "blocker", {"note": "it is quick"}
    ),
    ("GET", "/v1/whoami"): lambda town: Sample("/v1/whoami", "sender"),
    ("GET", "/v1/agents"): lambda town: Sample("/v1/agents?name=otto", "agents"),
    ("POST", "/v1/agents"): lambda town: Sample(
        "/v1/agents", "token", {"name": fresh("agent"), "surface": "cli", "scopes": ["mail"]}
    ),
    ("GET", "/v1/groups"): lambda town: Sample("/v1/groups", "groups"),
    ("POST", "/v1/groups"): lambda town: Sample(
        "/v1/groups", "members", {"name": fresh("crew"), "members": ["@otto"]}
    ),
    ("GET", "/v1/tokens"): lambda town: Sample("/v1/tokens", "tokens"),
    ("GET", "/v1/tokens/{id}"): lambda town: Sample(f"/v1/tokens/{token_id(town)}", "sender"),
    ("POST", "/v1/tokens"): lambda town: Sample("/v1/tokens", "token", {"sender": "@vera"}),
    ("POST", "/v1/tokens/rotate"): lambda town: Sample(
        "/v1/tokens/rotate", "token", {"id": token_id(town)}
    ),
    ("POST", "/v1/tokens/revoke"): lambda town: Sample(
        "/v1/tokens/revoke", "revoked", {"id": token_id(town)}
    ),
    ("POST", "/v1/tokens/reaffirm"): lambda town: Sample("/v1/tokens/reaffirm", "reaffirmed", {}),
    ("POST", "/v1/tokens/{id}/label"): lambda town: Sample(
        f"/v1/tokens/{token_id(town)}/label", "label", {"label": "Vera, at home"}
    ),
    ("POST", "/v1/tokens/import"): lambda town: Sample(
        "/v1/tokens/import", "rows", {"rows": [{"token_hash": "d" * 64, "agent": "vera"}]}
    ),
    ("POST", "/v1/tokens/identify"): lambda town: Sample(
        "/v1/tokens/identify", "known", {"token_hash": hash_of_a_token()}
    ),
    ("POST", "/v1/invitations"): lambda town: Sample(
        "/v1/invitations", "path", {"name": fresh("guest"), "own": [fresh("robot")], "ttl_s": 60}
    ),
    ("POST", "/v1/invitations/accept"): lambda town: Sample(
        "/v1/invitations/accept", "token", {"code": town.invitation()}
    ),
    ("GET", "/v1/connections"): lambda town: Sample("/v1/connections", "sessions"),
    ("POST", "/v1/connections/{id}/name"): lambda town: Sample(
        f"/v1/connections/{town.connection.id}/name", "client", {"name": "her phone"}
    ),
    ("POST", "/v1/connections/{id}/revoke"): lambda town: Sample(
        f"/v1/connections/{token_format.token_id(token_format.hashed(town.rosa))}/revoke", "revoked"
    ),
    ("POST", "/v1/sessions"): lambda town: Sample("/v1/sessions", "session", {"id": fresh("run")}),
    ("GET", "/v1/sessions/{id}"): lambda town: Sample(f"/v1/sessions/{town.session()}", "sender"),
    ("POST", "/v1/attend"): lambda town: Sample(
        "/v1/attend", "unread", {"step": "tool", "adapter": "test", "window": {"client": "test"}}
    ),
    ("POST", "/v1/mute"): lambda town: Sample("/v1/mute", "muted", {"ttl_s": 60}),
    ("GET", "/v1/doctor"): lambda town: Sample("/v1/doctor", "findings"),
    ("POST", "/v1/sessions/{id}/keep"): lambda town: Sample(
        f"/v1/sessions/{town.session()}/keep", "claims"
    ),
    ("POST", "/v1/sessions/{id}/end"): lambda town: Sample(
        f"/v1/sessions/{town.session()}/end", "released"
    ),
    ("GET", "/v1/status"): lambda town: Sample("/v1/status", "agents"),
    ("GET", "/v1/storage"): lambda town: Sample("/v1/storage", "entries"),
    ("GET", "/v1/review"): lambda town: Sample("/v1/review?since_s=60", "refusals"),
    ("GET", "/v1/settings"): lambda town: Sample("/v1/settings", "settings"),
    ("POST", "/v1/settings"): lambda town: Sample(
        "/v1/settings", "value", {"name": "limits.message_bytes", "value": "100000000"}
    ),
    ("POST", "/v1/pause"): lambda town: Sample("/v1/pause", "paused", {"reason": "a fire"}),
    ("POST", "/v1/resume"): lambda town: Sample("/v1/resume", "paused"),
    ("GET", "/v1/audit/events"): lambda town: Sample("/v1/audit/events?after=1", "events"),
    ("GET", "/v1/audit/log"): lambda town: Sample("/v1/audit/log?limit=2", "facts"),
    ("POST", "/v1/audit/verify"): lambda town: Sample("/v1/audit/verify", "ok"),
    ("GET", "/v1/audit/checkpoint"): lambda town: Sample("/v1/audit/checkpoint", "checkpoint"),
    ("GET", "/v1/audit/proof"): lambda town: Sample("/v1/audit/proof?seq=1", "checkpoint"),
    ("POST", "/v1/audit/proofs"): lambda town: Sample(
        "/v1/audit/proofs", "entries", {"seqs": [1, 3]}
    ),
    ("POST", "/v1/messages/{messages}/ack"): lambda town: Sample(
        f"/v1/messages/{town.message()}/ack", "declined", {"decline": True}
    ),
    ("POST", "/v1/claims/{id}/renew"): lambda town: Sample(
        f"/v1/claims/{town.claim()['id']}/renew", "claim"
    ),
    ("POST", "/v1/claims/{id}/release"): lambda town: Sample(
        f"/v1/claims/{town.claim()['id']}/release", "released"
    ),
    ("GET", "/v1/claims/check"): lambda town: Sample("/v1/claims/check?item=B-1", "claimed"),
    ("GET", "/v1/audit/verify"): lambda town: Sample("/v1/audit/verify", "ok"),
}
AS_ADMIN = re.compile(
    "/v1/(agents|groups|mail|pause|resume|review|settings|tokens.*|claims/take-over|gates|verdicts"
    "|tasks/.*/(cancel|gates/.*)|invitations|connections.*)"
)


def token_id(town: Town) -> str:
    """The id of a fresh token of vera's."""
    minted = town.ask("POST", "/v1/tokens", {"sender": "vera"}, token=town.ada)
    return str(minted.json["id"])


def named(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest.mark.parametrize(
    "route", [route for route in ALL if not route.verb.declared.local], ids=named
)
def test_every_route_answers(town: Town, route: Route) -> None:
    sample = SAMPLES[route.method, route.path](town)
    token = town.ada if AS_ADMIN.fullmatch(route.path) else town.otto
    reply = town.ask(
        route.method, sample.target, sample.body, token=token, headers=dict(sample.headers)
    )
    town.ask("POST", "/v1/resume", token=town.ada)
    assert reply.status == 200, reply
    assert reply.headers["content-type"] == "application/json"
    assert sample.member in reply.json, reply
    if route.path != "/v1/audit/events":  # these have members as they stand in the log
        check_answer(reply.json)


@pytest.mark.parametrize("path", sorted({route.path for route in ALL}))
def test_other_methods_are_refused(town: Town, path: str) -> None:
    target = re.sub(r"\{\w+\}", "x", path)
    patterns = [(route.method, re.sub(r"\{\w+\}", "[^/]+", route.path)) for route in ALL]
    meant = {method for method, pattern in patterns if re.fullmatch(pattern, target)}
    taken = {route.method for route in ALL if route.path == path}
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - meant:
        reply = town.ask(method, target)
        check_refused(reply, 405, "USAGE")
        assert method in reply.json["message"]
        assert taken <= set(reply.headers["allow"].split(", "))


def test_the_description_lists_every_route_but_the_local_ones(town: Town) -> None:
    described = town.ask("GET", "/openapi.json").json["paths"]
    found = {(method.upper(), path) for path, methods in described.items() for method in methods}
    wanted = {(route.method, route.path) for route in ALL if not route.verb.declared.local}
    assert found == wanted | {("GET", "/v1/events")}


def test_the_description_says_what_needs_no_token(town: Town) -> None:
    described = town.ask("GET", "/openapi.json").json
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
def test_local_routes_are_not_there_for_the_network(town: Town, route: Route) -> None:
    for token in (town.otto, town.ada, town.served.owner):
        reply = town.ask("POST", route.path, {"file": "/nowhere/x"}, token=token)
        check_refused(reply, 404, "NOT_FOUND")


def test_local_routes_serve_the_owners_own_commands(town: Town) -> None:
    copy = town.served.place.root / "copy"
    assert town.served.place.process("backup", str(copy), "--json").status == 0
    assert copy.exists()


def test_only_the_workspaces_own_socket_makes_an_owner_without_a_token(town: Town) -> None:
    owner = {"Interlock-Owner": "yes"}
    check_refused(town.ask("GET", "/v1/tokens", token=None, headers=owner), 401, "NO_IDENTITY")
    reply = town.ask("GET", "/v1/tokens", headers=owner)
    check_refused(reply, 403, "MISSING_SCOPE")


# --- what is wrong with a request


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
def test_broken_json_is_refused(town: Town, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    reply = town.ask("POST", "/v1/messages", body, headers=headers)
    check_refused(reply, 400, "USAGE")


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/xml", "application/octet-stream"]
)
def test_a_body_of_another_type_is_refused(town: Town, kind: str | None) -> None:
    body = json.dumps({"to": "@vera", "payload": {"text": "x"}}).encode()
    headers = {"Content-Type": kind} if kind else {}
    check_refused(town.ask("POST", "/v1/messages", body, headers=headers), 415, "USAGE")
    check_refused(
        town.ask("POST", "/v1/blobs?size=1", b"x", headers={"Content-Type": "application/json"}),
        415,
        "USAGE",
    )


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON"])
def test_json_may_be_spelled_as_anywhere(town: Town, kind: str) -> None:
    body = json.dumps({"to": "@vera", "payload": {"text": "x"}}).encode()
    assert town.ask("POST", "/v1/messages", body, headers={"Content-Type": kind}).status == 200


def test_an_oversized_body_is_refused_and_the_way_out_is_named(town: Town) -> None:
    body = json.dumps({"to": "@vera", "payload": {"text": "x" * (9 * MIB)}}).encode()
    headers = {"Content-Type": "application/json"}
    error = check_refused(town.ask("POST", "/v1/messages", body, headers=headers), 413, "TOO_LARGE")
    assert "/v1/blobs" in error["message"]
    assert error["limit"] == 8 * MIB


@pytest.mark.parametrize(
    "path",
    ["/v1", "/v1/", "/v1/inbox/", "/v2/inbox", "/nothing", "//v1/inbox", "/v1/messages/a/b/c"],
)
def test_an_unknown_route_is_not_found(town: Town, path: str) -> None:
    check_refused(town.ask("GET", path), 404, "NOT_FOUND")


SEND = {"to": "@vera", "payload": {"text": "x"}}


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
def test_wrong_members_are_named(town: Town, body: dict[str, Any], member: str) -> None:
    error = check_refused(town.ask("POST", "/v1/messages", body), 400, "USAGE")
    assert error["member"].split(".")[0] == member


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
def test_what_the_contracts_refuse_is_refused_here_too(
    town: Town, body: dict[str, Any], code: str
) -> None:
    check_refused(town.ask("POST", "/v1/messages", body), by_code(code).http, code)


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
def test_bad_values_in_a_query_are_refused(town: Town, query: str) -> None:
    check_refused(town.ask("GET", f"/v1/inbox?{query}"), 400, "USAGE")


@pytest.mark.parametrize("query", ["", "%20", "%00", "a%00b", "x" * 1001])
def test_a_search_is_for_words(town: Town, query: str) -> None:
    check_refused(town.ask("GET", f"/v1/search?query={query}"), 400, "USAGE")


@pytest.mark.parametrize("query", ['"', "a AND", "(", "NEAR(a b)", "words:x", "*", "^a", "-"])
def test_a_search_for_signs_finds_nothing_and_breaks_nothing(town: Town, query: str) -> None:
    assert town.ask("GET", f"/v1/search?query={quote(query)}").json["messages"] == []


@pytest.mark.parametrize("query", ["mine=1", "mine=True", "mine=", "mine=true&mine=true"])
def test_a_flag_in_a_query_is_true_or_false(town: Town, query: str) -> None:
    check_refused(town.ask("GET", f"/v1/claims?{query}"), 400, "USAGE")


# --- who asks


def expired(town: Town) -> str:
    body = {"sender": "otto", "ttl_s": 1}
    token = str(town.ask("POST", "/v1/tokens", body, token=town.ada).json["token"])
    until(lambda: town.ask("GET", "/v1/whoami", token=token).status == 401)
    return f"Bearer {token}"


def revoked(town: Town) -> str:
    minted = town.ask("POST", "/v1/tokens", {"sender": "otto"}, token=town.ada).json
    town.ask("POST", "/v1/tokens/revoke", {"id": minted["id"]}, token=town.ada)
    return f"Bearer {minted['token']}"


@pytest.mark.parametrize(
    ("shown", "code"),
    [
        (lambda town: None, "NO_IDENTITY"),
        (lambda town: "Bearer", "NO_IDENTITY"),
        (lambda town: "Bearer    ", "NO_IDENTITY"),
        (lambda town: f"Basic {town.otto}", "NO_IDENTITY"),
        (lambda town: town.otto, "NO_IDENTITY"),
        (lambda town: f"Bearer {town.otto[:-1]}", "BAD_TOKEN"),
        (lambda town: f"Bearer {token_format.compose(bytes(25))}", "BAD_TOKEN"),
        (lambda town: "Bearer %00%ff", "BAD_TOKEN"),
        (lambda town: "Bearer " + "x" * 10_000, "BAD_TOKEN"),
        (expired, "TOKEN_EXPIRED"),
        (revoked, "BAD_TOKEN"),
    ],
)
def test_a_bad_token_opens_nothing(
    town: Town, shown: Callable[[Town], str | None], code: str
) -> None:
    header = shown(town)
    headers = {"Authorization": header} if header is not None else {}
    for method, target, body in (
        ("GET", "/v1/whoami", None),
        ("GET", "/v1/agents", None),
        ("GET", "/v1/events", None),
        ("POST", "/v1/messages", SEND),
    ):
        check_refused(town.ask(method, target, body, token=None, headers=headers), 401, code)


def test_a_missing_scope_is_refused_and_recorded(town: Town) -> None:
    before = len(town.facts("request_refused"))
    for target, body in (
        ("/v1/agents", {"name": "mallory"}),
        ("/v1/tokens", {"sender": "vera"}),
        ("/v1/settings", {"name": "limits.message_bytes", "value": "1"}),
        ("/v1/pause", {}),
    ):
        error = check_refused(town.ask("POST", target, body), 403, "MISSING_SCOPE")
        assert error["scope"] == "admin"
    refused = town.facts("request_refused")[before:]
    assert sum(fact["outcome"].get("count", 1) for fact in refused) >= 1
    agents = town.ask("GET", "/v1/agents").json["agents"]
    assert "@mallory" not in [agent["address"] for agent in agents]


@pytest.mark.parametrize("member", ["from", "source", "sender"])
@pytest.mark.parametrize("name", ["vera", "@vera", "agent:vera", "", "otto and vera", "OTTO"])
def test_a_sender_that_is_not_the_tokens_is_refused_and_nothing_is_stored(
    town: Town, member: str, name: str
) -> None:
    entries = town.ask("GET", "/readyz").json["entries"]
    open_before = town.open(town.vera)
    error = check_refused(
        town.ask("POST", "/v1/messages", SEND | {member: name}), 403, "IDENTITY_MISMATCH"
    )
    assert error["sender"] == "@otto"
    assert town.open(town.vera) == open_before
    added = town.ask("GET", f"/v1/audit/log?after={entries}", token=town.ada).json["facts"]
    assert [fact["kind"] for fact in added] in ([], ["request_refused"])
    last = town.facts("request_refused")[-1]
    assert last["outcome"]["code"] == "IDENTITY_MISMATCH"
    assert "vera" not in json.dumps(last["outcome"])


@pytest.mark.parametrize("name", ["otto", "@otto", "agent:otto"])
def test_a_sender_that_is_the_tokens_changes_nothing(town: Town, name: str) -> None:
    for member in ("from", "source", "sender"):
        sent = town.ask("POST", "/v1/messages", SEND | {member: name})
        assert sent.json["message"]["from"] == "@otto"


def test_every_way_to_name_a_sender_is_held_against_the_token(town: Town) -> None:
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
        reply = town.ask(method, target, body, headers=headers)
        check_refused(reply, 403, "IDENTITY_MISMATCH")
    check_refused(town.ask("POST", "/v1/messages", SEND | {"from": 7}), 400, "USAGE")


def test_a_session_of_another_sender_is_refused(town: Town) -> None:
    session = {"Interlock-Session": town.session()}
    assert town.ask("GET", "/v1/whoami", headers=session).json["session"]
    reply = town.ask("GET", "/v1/whoami", token=town.vera, headers=session)
    check_refused(reply, 403, "IDENTITY_MISMATCH")
    reply = town.ask("GET", "/v1/whoami", headers={"Interlock-Session": quote("no session")})
    check_refused(reply, 400, "USAGE")


def test_mail_of_others_is_not_found(town: Town) -> None:
    sent = town.ask("POST", "/v1/messages", SEND).json["message"]["id"]
    for target in ("", "/receipts", "/thread", "/explain"):
        reply = town.ask("GET", f"/v1/messages/{sent}{target}", token=town.ada)
        check_refused(reply, 404, "NOT_FOUND")


# --- tokens made by the server


def test_whoever_joins_without_a_hash_gets_a_token_that_works(town: Town) -> None:
    name = fresh("newcomer")
    joined = town.ask("POST", "/v1/agents", {"name": name}, token=town.ada).json
    assert town.ask("GET", "/v1/whoami", token=joined["token"]).json["sender"] == name
    rotated = town.ask("POST", "/v1/tokens/rotate", {"sender": name}, token=town.ada).json
    check_refused(town.ask("GET", "/v1/whoami", token=joined["token"]), 401, "BAD_TOKEN")
    assert town.ask("GET", "/v1/whoami", token=rotated["token"]).json["sender"] == name


def test_whoever_joins_with_a_hash_keeps_the_token(town: Town) -> None:
    token = token_format.compose(fresh("mine").encode().ljust(token_format.SECRET_BYTES))
    body = {"name": fresh("careful"), "token_hash": token_format.hashed(token)}
    joined = town.ask("POST", "/v1/agents", body, token=town.ada)
    assert "token" not in joined.json
    assert town.ask("GET", "/v1/whoami", token=token).json["sender"] == body["name"]


# --- once, and only once


@pytest.mark.parametrize("header", [None, "Bearer", "Bearer nonsense", "Basic eDp5"])
def test_an_invitation_is_all_that_one_must_show(town: Town, header: str | None) -> None:
    headers = {"Authorization": header} if header is not None else {}
    body = {"code": town.invitation()}
    first, again = (
        town.ask("POST", "/v1/invitations/accept", body, token=None, headers=headers)
        for _ in range(2)
    )
    sender = town.ask("GET", "/v1/whoami", token=first.json["token"]).json["sender"]
    assert sender == first.json["sender"]
    check_refused(again, 401, "BAD_TOKEN")


def test_whoever_joins_by_an_invitation_may_keep_the_token(town: Town) -> None:
    token = token_format.compose(fresh("kept").encode().ljust(token_format.SECRET_BYTES))
    body = {"code": town.invitation(), "token_hash": token_format.hashed(token)}
    joined = town.ask("POST", "/v1/invitations/accept", body, token=None)
    assert "token" not in joined.json
    assert town.ask("GET", "/v1/whoami", token=token).json["sender"] == joined.json["sender"]


def test_a_long_body_from_whoever_needs_no_token_is_refused_unread(town: Town) -> None:
    with town.served.connect() as connection:
        connection.sendall(
            b"POST /v1/invitations/accept HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: 5000000\r\n\r\n{"
        )
        reply = read_reply(connection.makefile("rb"))
    assert (reply.status, reply.json["code"]) == (413, "TOO_LARGE")


def chunked(town: Town, body: bytes) -> Reply:
    """What is answered to a body whose length is not said before."""
    with town.served.connect() as connection:
        connection.sendall(
            b"POST /v1/invitations/accept HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            + b"%x\r\n%s\r\n0\r\n\r\n"
            % (len(body), body)
        )
        return read_reply(connection.makefile("rb"))


def test_an_invitation_can_be_accepted_in_chunks_that_are_no_long_ones(town: Town) -> None:
    joined = chunked(town, json.dumps({"code": town.invitation()}).encode())
    assert (joined.status, "token" in joined.json) == (200, True)
    refused = chunked(town, json.dumps({"code": "x" * 5_000_000}).encode())
    assert (refused.status, refused.json["code"]) == (413, "TOO_LARGE")


def test_a_connections_token_is_refused_where_it_is_not_for_and_that_is_recorded(
    town: Town,
) -> None:
    before = len(town.facts("request_refused"))
    reply = town.ask("GET", "/v1/whoami", token=town.connection.token)
    assert "https://interlock.example/mcp" in check_refused(reply, 401, "WRONG_AUDIENCE")["message"]
    fact = town.facts("request_refused")[before]
    assert (fact["sender"], fact["outcome"]["code"]) == ("@rosa", "WRONG_AUDIENCE")


def test_the_same_key_and_body_give_the_first_answer(town: Town) -> None:
    key = {"Idempotency-Key": quote(fresh("schlüssel"))}
    before = town.open(town.vera)
    first = town.ask("POST", "/v1/messages", SEND, headers=key)
    again = town.ask("POST", "/v1/messages", SEND, headers=key)
    assert (again.status, again.json["message"]) == (200, first.json["message"])
    assert town.open(town.vera) == before + 1


def test_the_same_key_with_another_body_is_a_conflict(town: Town) -> None:
    key = {"Idempotency-Key": fresh("key")}
    assert town.ask("POST", "/v1/messages", SEND, headers=key).status == 200
    other = SEND | {"payload": {"text": "y"}}
    reply = town.ask("POST", "/v1/messages", other, headers=key)
    check_refused(reply, 409, "IDEMPOTENCY_CONFLICT")


def test_a_key_is_its_senders_own(town: Town) -> None:
    key = {"Idempotency-Key": fresh("key")}
    to_all = SEND | {"to": "@ada"}
    first = town.ask("POST", "/v1/messages", to_all, headers=key)
    other = town.ask("POST", "/v1/messages", to_all, token=town.vera, headers=key)
    assert other.status == 200
    assert other.json["message"]["id"] != first.json["message"]["id"]


def test_evidence_is_kept_once_under_a_key(town: Town) -> None:
    key = {"Idempotency-Key": fresh("key")}
    note = {"payload": {"kind": "note", "text": "It works."}}
    first = town.ask("POST", "/v1/evidence", note, headers=key)
    again = town.ask("POST", "/v1/evidence", note, headers=key)
    assert (again.status, again.json) == (200, first.json)
    other = {"payload": {"kind": "note", "text": "It does not."}}
    reply = town.ask("POST", "/v1/evidence", other, headers=key)
    check_refused(reply, 409, "IDEMPOTENCY_CONFLICT")


def test_what_sends_nothing_takes_no_key(town: Town) -> None:
    key = {"Idempotency-Key": "k"}
    check_refused(town.ask("POST", "/v1/claims", {"item": "B-7"}, headers=key), 400, "USAGE")
    check_refused(town.ask("GET", "/v1/whoami", headers=key), 400, "USAGE")


def test_many_at_once_with_one_key_send_one_message(town: Town) -> None:
    key = {"Idempotency-Key": fresh("key")}
    before = town.open(town.vera)
    with ThreadPoolExecutor(8) as clients:
        sent = list(
            clients.map(lambda _: town.ask("POST", "/v1/messages", SEND, headers=key), range(24))
        )
    assert {reply.status for reply in sent} == {200}
    assert len({reply.json["message"]["id"] for reply in sent}) == 1
    assert town.open(town.vera) == before + 1


# --- waiting


def reach(town: Town, agent: str) -> str:
    agents = town.ask("GET", f"/v1/agents?name={agent}").json["agents"]
    return str(agents[0]["reach"])


def newcomer(town: Town) -> tuple[str, str]:
    name = fresh("waiter")
    return name, town.ask("POST", "/v1/agents", {"name": name}, token=town.ada).json["token"]


def test_a_wait_for_mail_ends_when_mail_arrives(town: Town) -> None:
    name, token = newcomer(town)
    polled: list[Reply] = []
    poll = threading.Thread(
        target=lambda: polled.append(town.ask("GET", "/v1/inbox?wait=600", token=token))
    )
    poll.start()
    until(lambda: reach(town, name) == "wakes")
    town.message(to=f"@{name}")
    poll.join(LIMIT_S)
    assert [message["to"] for message in polled[0].json["messages"]] == [f"@{name}"]


def test_a_wait_for_mail_that_does_not_come_ends_empty(town: Town) -> None:
    _, token = newcomer(town)
    assert town.ask("GET", "/v1/inbox?wait=1", token=token).json["messages"] == []


def test_whoever_hangs_up_waits_no_longer_and_is_shown_nothing(town: Town) -> None:
    name, token = newcomer(town)
    with town.served.connect() as connection:
        connection.sendall(raw_request("GET", "/v1/inbox?wait=600", token))
        until(lambda: reach(town, name) == "wakes")
    until(lambda: reach(town, name) != "wakes")
    sent = town.message(to=f"@{name}")
    receipts = town.ask("GET", f"/v1/messages/{sent}/receipts", token=town.vera).json
    assert [delivery["state"] for delivery in receipts["deliveries"]] == ["accepted"]


def test_whoever_hangs_up_leaves_the_queue_for_a_claim(town: Town) -> None:
    held = town.claim()
    wanted = json.dumps({"item": held["item"], "wait": 600}).encode()
    with town.served.connect() as connection:
        connection.sendall(raw_request("POST", "/v1/claims", town.vera, wanted))
        until(lambda: waiting(town, held["item"]))
    until(lambda: not waiting(town, held["item"]))
    assert town.ask("POST", f"/v1/claims/{held['id']}/release").json["released"] is True
    check = town.ask("GET", f"/v1/claims/check?item={held['item']}").json
    assert check["claimed"] is False


def waiting(town: Town, item: str) -> bool:
    """Whether somebody stands in the queue for an item."""
    came = {
        f["outcome"]["id"] for f in town.facts("claim_awaited") if item in f["outcome"].values()
    }
    return bool(came - {fact["outcome"]["id"] for fact in town.facts("claim_wait_ended")})


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


def test_a_large_body_goes_up_in_chunks_and_comes_back_whole(town: Town) -> None:
    text = "".join(f"{number:07}é\n" for number in range(260_000))
    data = text.encode()
    assert len(data) > 2 * MIB
    upload = ""
    for number, start in enumerate(range(0, len(data), MIB)):
        named = f"&upload={quote(upload)}" if upload else ""
        target = f"/v1/blobs?size={len(data)}&number={number}{named}"
        put = town.ask("POST", target, data[start : start + MIB], headers=BINARY)
        upload = put.json["upload"]
    body = {"to": "@vera", "payload": {}, "upload": upload, "size": len(data)}
    wrong = town.ask("POST", "/v1/messages", body | {"sha256": hashlib.sha256().hexdigest()})
    check_refused(wrong, 400, "DIGEST_MISMATCH")
    sha256 = hashlib.sha256(data).hexdigest()
    stolen = town.ask("POST", "/v1/messages", body | {"sha256": sha256}, token=town.ada)
    check_refused(stolen, 404, "NOT_FOUND")
    sent = town.ask("POST", "/v1/messages", body | {"sha256": sha256})
    assert sent.status == 200, sent
    read = town.ask("GET", f"/v1/messages/{sent.json['message']['id']}", token=town.vera)
    assert read.json["payload"]["text"] == text
    assert read.json["sha256"] == sha256


def test_a_body_of_a_few_mib_may_come_as_it_is(town: Town) -> None:
    text = "ü" * MIB
    sent = town.ask("POST", "/v1/messages", {"to": "@vera", "payload": {"text": text}})
    read = town.ask("GET", f"/v1/messages/{sent.json['message']['id']}", token=town.vera)
    assert read.json["payload"]["text"] == text


# --- browsers


PATHS = ("/v1/agents", "/v1/events", "/openapi.json", "/healthz", "/metrics", "/")


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
def test_a_foreign_page_gets_nothing(town: Town, headers: dict[str, str]) -> None:
    for path in PATHS:
        check_refused(town.ask("GET", path, headers=headers), 403, "FOREIGN_ORIGIN")
    before = town.open(town.vera)
    reply = town.ask("POST", "/v1/messages", SEND, headers=headers)
    check_refused(reply, 403, "FOREIGN_ORIGIN")
    assert town.open(town.vera) == before


def test_no_answer_invites_foreign_pages(town: Town) -> None:
    for reply in (town.ask("GET", "/v1/agents"), town.ask("OPTIONS", "/v1/messages")):
        assert not [name for name in reply.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:{port}", "localhost:{port}", "LOCALHOST", "[::1]:{port}"]
)
def test_its_own_names_are_answered(town: Town, host: str) -> None:
    named = host.format(port=town.served.port)
    for headers in (
        {"Host": named},
        {"Host": named, "Origin": f"http://{named}"},
        {"Host": named, "Sec-Fetch-Site": "same-origin"},
        {"Host": named, "Sec-Fetch-Site": "none"},
    ):
        assert town.ask("GET", "/v1/agents", headers=headers).status == 200, headers


# --- limits


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_token_may_ask_in_a_burst_and_then_at_a_steady_rate() -> None:
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


def test_buckets_that_are_full_again_are_forgotten() -> None:
    clock = Clock()
    limit = RateLimit(per_s=1, burst=5, clock=clock)
    for number in range(FORGET_EVERY + 1):
        limit.take(f"nobody-{number}")
    clock.now += 10
    limit.take("otto")
    limit.take("vera")
    assert len(limit._buckets) == 2


def test_a_token_that_asks_too_often_is_told_when_to_come_back(town: Town) -> None:
    _, token = newcomer(town)
    asking = raw_request("GET", "/v1/whoami?colour=red", token) * 100
    with town.served.connect() as connection:
        answers = connection.makefile("rb")

        def a_hundred_more() -> Reply | None:
            connection.sendall(asking)
            replies = [read_reply(answers) for _ in range(100)]
            return next((reply for reply in replies if reply.status == 429), None)

        limited = until(a_hundred_more)
    error = check_refused(limited, 429, "RATE_LIMITED")
    assert limited.headers["retry-after"] == str(error["retry_after_s"])
    assert town.ask("GET", "/v1/whoami").status == 200, "others are not held up"


def test_head_is_no_way_to_read_mail(town: Town) -> None:
    for path in ("/v1/inbox", "/v1/whoami"):
        assert town.ask("HEAD", path).status == 405


def test_a_long_body_is_not_waited_for_from_whoever_may_not_ask(town: Town) -> None:
    with town.served.connect() as connection:
        connection.sendall(
            b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer nonsense\r\n"
            b"Content-Type: application/json\r\nContent-Length: 5000000\r\n\r\n{"
        )
        reply = read_reply(connection.makefile("rb"))
    assert (reply.status, reply.json["code"]) == (401, "BAD_TOKEN")
