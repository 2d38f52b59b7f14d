"""Connections of apps to several nodes that serve one workspace under one address, as behind a load
balancer. A sign-in can continue at another node, and a revocation applies at every node."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from world.commandline import Place, until
from world.databases import ValkeyServer
from world.event_streams import Stream
from world.fork_server import Servers
from world.people_and_apps import App, Browser, ConnectedApp, answered, fields_of
from world.server import ForkedServer, RunningServer

HOST = "localhost:7420"
URL = f"http://{HOST}"
HOUR_S = 3600


class Pair:
    """Two nodes. Vera, who owns otto, joined at the first node. Her client registered there too."""

    def __init__(self, first: RunningServer, second: RunningServer) -> None:
        self.first, self.second = first, second
        self.vera = Browser(first, URL).join("vera", "--own", "otto")
        self.app = App(first, url=URL)

    def connected(self, at: RunningServer) -> ConnectedApp:
        """Connect a client that may use the whole server, as otto."""
        return self.app.at(at).connect(self.vera.at(at), "own otto", resource=URL)


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory, valkey: ValkeyServer, servers: Servers
) -> Iterator[Pair]:
    first, second = (Place(tmp_path_factory.mktemp(name)) for name in ("first", "second"))
    engine = f"{valkey.url}?workspace=t-{os.urandom(8).hex()}"
    words = ("--public-url", URL, "--engine", engine)
    with ForkedServer(first, servers, words=words) as one:
        key = str(first.workspace / "keys" / "checkpoint.key")
        with ForkedServer(second, servers, words=(*words, "--key", key)) as two:
            yield Pair(one, two)


def listening(served: RunningServer, token: str) -> Stream:
    """Open a stream of events."""
    stream = Stream(served, token, "/v1/events", {"Host": HOST})
    assert stream.response.status == 200, stream.response.read()
    return stream


def end_of(stream: Stream) -> str:
    """Return the code with which a stream ended."""
    refused = stream.until("refused")[-1]
    assert stream.next() is None
    return str(refused.data["code"])


def waiting(served: RunningServer, token: str) -> httpx2.Response:
    """Wait for mail, longer than any test runs."""
    with httpx2.Client(base_url=served.url, timeout=60, trust_env=False) as client:
        headers = {"Host": HOST, "Authorization": f"Bearer {token}"}
        return client.get("/v1/inbox", params={"wait": HOUR_S}, headers=headers)


def reach(served: RunningServer, name: str) -> str:
    found = served.ask("GET", f"/v1/agents?name={name}", token=served.owner).json
    return str(found["agents"][0]["reach"])


def id_of(served: RunningServer, connected: ConnectedApp) -> str:
    whose = connected.app.id
    found: list[dict[str, Any]] = served.place.ok("connection", "list")["connections"]
    return next(str(c["id"]) for c in reversed(found) if c["client_id"] == whose)


def test_a_sign_in_can_move_between_nodes_at_every_step(pair: Pair) -> None:
    """The client registers at the first node and starts the sign-in at the second. Vera consents at
    the first node, on a page of the second. The client exchanges the code at the second."""
    app, vera = pair.app.at(pair.second), pair.vera.at(pair.second)
    target = app.asks()
    page = vera.get(target)
    fields = fields_of(page) | {"sender": "own otto", "answer": "allow"}
    back = pair.vera.submit("/consent", fields)
    assert back.status_code == 303, back.text
    given = app.exchange(answered(back)["code"])
    assert given.status_code == 200, given.text
    for served in (pair.first, pair.second):
        who = ConnectedApp(pair.app.at(served), given.json()).tool()
        assert who.json()["result"]["structuredContent"]["sender"] == "otto"


def test_a_client_secret_is_valid_at_every_node(pair: Pair) -> None:
    app = App(pair.first, url=URL, token_endpoint_auth_method="client_secret_post")
    connected = app.at(pair.second).connect(pair.vera)
    connected.refresh()
    assert connected.tool().status_code == 200


def test_a_revocation_at_one_node_ends_streams_and_waits_at_the_other(pair: Pair) -> None:
    connected = pair.connected(pair.second)
    with ThreadPoolExecutor() as pool, listening(pair.second, connected.token) as stream:
        assert reach(pair.second, "vera") != "wakes"
        waits = pool.submit(waiting, pair.second, connected.token)
        until(lambda: reach(pair.second, "otto") == "wakes")
        pair.first.place.ok("connection", "revoke", id_of(pair.first, connected))
        assert end_of(stream) == "BAD_TOKEN"
        refused = waits.result()
    assert (refused.status_code, refused.json()["code"]) == (401, "BAD_TOKEN")


def test_a_revocation_by_the_client_itself_applies_at_the_other_node(pair: Pair) -> None:
    connected = pair.connected(pair.first)
    with listening(pair.first, connected.token) as stream:
        assert connected.app.at(pair.second).revoke(connected.refresh_token).status_code == 200
        assert end_of(stream) == "BAD_TOKEN"


def test_reuse_of_a_refresh_token_at_another_node_revokes_its_family(
    pair: Pair,
) -> None:
    connected = pair.connected(pair.first)
    spent = connected.refresh_token
    connected.refresh()
    with listening(pair.first, connected.token) as stream:
        again = connected.app.at(pair.second).refresh(spent)
        assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")
        assert end_of(stream) == "BAD_TOKEN"
    until(lambda: connected.whoami().status_code == 401)
    assert connected.app.refresh(connected.refresh_token).json()["error"] == "invalid_grant"
    kept = pair.first.place.facts("request_refused")
    assert kept[-1]["outcome"]["code"] == "REFRESH_REUSED"


def test_a_code_used_at_one_node_is_refused_at_the_other(pair: Pair) -> None:
    code = pair.app.code(pair.vera, resource=URL)
    connected = ConnectedApp(pair.app, pair.app.exchange(code).json())
    again = pair.app.at(pair.second).exchange(code)
    assert again.json()["error"] == "invalid_grant"
    until(lambda: connected.whoami().status_code == 401)


def test_a_refresh_at_one_node_ends_streams_with_the_old_token(pair: Pair) -> None:
    connected = pair.connected(pair.second)
    with listening(pair.second, connected.token) as stream:
        connected.app = connected.app.at(pair.first)
        connected.refresh()
        assert end_of(stream) == "BAD_TOKEN"
    assert connected.whoami().status_code == 200


def test_rotating_a_token_ends_its_streams_at_every_node(pair: Pair) -> None:
    token = pair.first.place.join("ada")
    (id,) = (
        found["id"]
        for found in pair.first.place.ok("token", "list")["tokens"]
        if found["sender"] == "ada"
    )
    with listening(pair.first, token) as here, listening(pair.second, token) as there:
        new = pair.first.place.ok("token", "rotate", id)["token"]
        assert end_of(here) == end_of(there) == "BAD_TOKEN"
    with listening(pair.second, new) as again:
        assert again.response.status == 200


def test_signing_out_at_one_node_signs_out_at_the_other(pair: Pair) -> None:
    browser = Browser(pair.first, URL).join("rita")
    there = browser.at(pair.second)
    there.http.cookies = httpx2.Cookies(browser.http.cookies)
    assert "@rita" in there.get("/person").text
    assert browser.sign_out().status_code == 303
    until(lambda: "@rita" not in there.get("/person").text)
