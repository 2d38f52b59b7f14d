"""The guard behind a proxy: under which names the server is asked for, who is believed to be the
proxy, and what no address may hold."""

import asyncio
import socket
from collections.abc import Mapping

import httpx2
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from interlock.doors.http import Guard
from interlock.doors.http.metrics import Metrics
from world.commandline import Place
from world.fork_server import Servers
from world.people_and_apps import Caller
from world.server import ForkedServer

OUTSIDE = "https://interlock.example"
TOKEN = "ilk_" + "a2" * 20 + "b3c4d5e"


async def shows_its_scheme(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse(scope["scheme"])(scope, receive, send)


def asked(url: str, headers: Mapping[str, str], outside: str | None = OUTSIDE) -> httpx2.Response:
    guard = Guard(shows_its_scheme, Metrics(), loopback=True, outside=outside)

    async def ask() -> httpx2.Response:
        transport = httpx2.ASGITransport(guard)
        async with httpx2.AsyncClient(transport=transport) as client:
            return await client.post(url, headers=headers)

    return asyncio.run(ask())


def test_the_address_of_its_proxy_is_the_servers_own() -> None:
    answer = asked("http://interlock.example/", {"Origin": OUTSIDE})
    assert (answer.status_code, answer.text) == (200, "https")


def test_its_own_machine_reaches_it_as_before() -> None:
    answer = asked("http://127.0.0.1:7420/", {"Origin": "http://127.0.0.1:7420"})
    assert (answer.status_code, answer.text) == (200, "http")


@pytest.mark.parametrize(
    ("url", "origin", "outside"),
    [
        ("http://elsewhere.example/", "https://elsewhere.example", OUTSIDE),
        ("http://interlock.example/", "https://elsewhere.example", OUTSIDE),
        ("http://interlock.example/", OUTSIDE, None),
        ("http://interlock.example:81/", "https://interlock.example:81", OUTSIDE),
    ],
)
def test_any_other_name_gets_nothing(url: str, origin: str, outside: str | None) -> None:
    answer = asked(url, {"Origin": origin}, outside)
    assert (answer.status_code, answer.json()["code"]) == (403, "FOREIGN_ORIGIN")


# --- who is the proxy


async def shows_how_it_came(scope: Scope, receive: Receive, send: Send) -> None:
    base, peer = scope.get("interlock.base", "nowhere"), scope["client"][0]
    await PlainTextResponse(f"{scope['scheme']} {base} {peer}")(scope, receive, send)


def came(peer: str, *proxies: str, **said: str) -> str:
    """How a request by the proxy's name is taken, at a server that others can reach."""
    guard = Guard(shows_how_it_came, Metrics(), loopback=False, outside=OUTSIDE, proxies=proxies)
    headers = {f"X-Forwarded-{name}": text for name, text in said.items()}

    async def ask() -> str:
        transport = httpx2.ASGITransport(guard, client=(peer, 1))
        async with httpx2.AsyncClient(transport=transport) as client:
            return (await client.get("http://interlock.example/", headers=headers)).text

    return asyncio.run(ask())


@pytest.mark.parametrize("said", [{}, {"Proto": "https"}, {"Proto": "https", "For": "127.0.0.1"}])
@pytest.mark.parametrize("proxies", [(), ("192.0.2.8",), ("2001:db8::/32",)])
def test_who_comes_past_the_proxy_is_not_taken_for_it(
    said: dict[str, str], proxies: tuple[str, ...]
) -> None:
    assert came("192.0.2.9", *proxies, **said) == "http nowhere 192.0.2.9"


@pytest.mark.parametrize(
    ("peer", "proxies"),
    [
        ("127.0.0.1", ()),
        ("::1", ()),
        ("::ffff:127.0.0.1", ()),
        ("192.0.2.9", ("192.0.2.9",)),
        ("::ffff:192.0.2.9", ("192.0.2.9",)),
        ("192.0.2.9", ("198.51.100.1", "192.0.2.0/28")),
        ("2001:db8::9", ("2001:db8::/64",)),
    ],
)
def test_a_proxy_here_or_one_that_was_named_is_believed(
    peer: str, proxies: tuple[str, ...]
) -> None:
    assert came(peer, *proxies) == f"https {OUTSIDE} {peer}"
    said = {"Proto": "https", "For": "198.51.100.1, 203.0.113.7"}
    assert came(peer, *proxies, **said) == f"https {OUTSIDE} 203.0.113.7"


@pytest.mark.parametrize("proto", ["http", "HTTP", "https, http", "http, https", "ws"])
def test_what_came_to_a_named_proxy_over_plain_http_is_not_taken_for_tls(proto: str) -> None:
    assert came("192.0.2.9", "192.0.2.9", Proto=proto).split()[1] == "nowhere"


def own_address() -> str:
    """An address of this machine's that is not loopback, if it has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            pytest.skip("this machine has no other address than 127.0.0.1")
        return str(probe.getsockname()[0])


@pytest.mark.parametrize("path", ["/person", "/.well-known/oauth-authorization-server"])
def test_a_server_that_others_reach_gives_no_tokens_to_who_comes_past_its_proxy(
    tmp_path_factory: pytest.TempPathFactory, servers: Servers, path: str
) -> None:
    address = own_address()
    words = ("--public-url", OUTSIDE)
    place = Place(tmp_path_factory.mktemp("open"))
    with ForkedServer(place, servers, host="0.0.0.0", words=words) as served:
        served.host = address
        past = Caller(served, OUTSIDE)
        refused = past.get(path, None, X_Forwarded_Proto="https")
        assert refused.status_code == 404
        assert "--proxy ADDRESS" in refused.text
        served.host = "127.0.0.1"
        assert Caller(served, OUTSIDE).get(path).status_code == 200
    with ForkedServer(place, servers, host="0.0.0.0", words=(*words, "--proxy", address)) as served:
        served.host = address
        assert Caller(served, OUTSIDE).get(path).status_code == 200
        assert Caller(served, OUTSIDE).get(path, None, X_Forwarded_Proto="http").status_code == 404


# --- tokens in addresses


@pytest.mark.parametrize(
    "target",
    [
        f"/v1/whoami?q={TOKEN}",
        f"/v1/whoami?{TOKEN}",
        f"/v1/whoami?q=x%20{TOKEN}",
        f"/v1/whoami?q=Bearer+{TOKEN}",
        f"/v1/whoami?q=x{TOKEN}",
        f"/v1/whoami?q=%69lk_{TOKEN[4:]}",
        f"/v1/whoami?q={TOKEN.replace('ilk_', 'ilr_')}",
        f"/v1/messages/{TOKEN}",
        f"/v1/messages/%69lk_{TOKEN[4:]}",
        f"/{TOKEN}/mcp",
        "/v1/whoami?token=whatever",
        "/v1/whoami?Access_Token=whatever",
        "/v1/whoami?refresh_token=whatever",
        "/v1/whoami?authorization=whatever",
        "/v1/whoami?bearer=whatever",
        "/v1/whoami?api%5Fkey=whatever",
        f"/authorize?state={TOKEN}",
    ],
)
def test_a_token_anywhere_in_an_address_is_refused_recorded_and_not_said_again(target: str) -> None:
    kept = []

    async def keep(code: str, peer: str) -> None:
        kept.append(code)

    guard = Guard(shows_its_scheme, Metrics(), loopback=True, report=keep)

    async def ask() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(guard)) as client:
            headers = {"Origin": "https://elsewhere.example"}
            return await client.get(f"http://127.0.0.1{target}", headers=headers)

    refused = asyncio.run(ask())
    assert (refused.status_code, refused.json()["code"]) == (400, "USAGE")
    assert kept == ["TOKEN_IN_URL"]
    assert TOKEN[4:] not in refused.text


@pytest.mark.parametrize(
    "target",
    ["/v1/search?q=silk_road", "/v1/search?q=what+is+ilk_", "/authorize?token=x", "/?tokens=1"],
)
def test_what_only_looks_a_little_like_a_token_is_let_in(target: str) -> None:
    assert asked(f"http://127.0.0.1{target}", {}).status_code == 200


def test_a_path_that_holds_a_secret_is_not_said_again(
    tmp_path_factory: pytest.TempPathFactory, servers: Servers
) -> None:
    invitation = TOKEN.replace("ilk_", "ili_")
    with ForkedServer(Place(tmp_path_factory.mktemp("joined")), servers) as served:
        for method, target in (("PUT", f"/invite/{invitation}"), ("GET", f"/x/{invitation}")):
            answer = served.ask(method, target)
            assert answer.status in (404, 405)
            assert invitation[4:] not in answer.body.decode()
