"""The guard behind a proxy: the accepted names of the server, the trusted addresses of the proxy,
and tokens in addresses."""

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


async def answer_with_scheme(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse(scope["scheme"])(scope, receive, send)


def post(url: str, headers: Mapping[str, str], outside: str | None = OUTSIDE) -> httpx2.Response:
    guard = Guard(answer_with_scheme, Metrics(), loopback=True, outside=outside)

    async def ask() -> httpx2.Response:
        transport = httpx2.ASGITransport(guard)
        async with httpx2.AsyncClient(transport=transport) as client:
            return await client.post(url, headers=headers)

    return asyncio.run(ask())


def test_server_accepts_the_address_of_its_proxy() -> None:
    answer = post("http://interlock.example/", {"Origin": OUTSIDE})
    assert (answer.status_code, answer.text) == (200, "https")


def test_server_accepts_requests_from_its_own_machine() -> None:
    answer = post("http://127.0.0.1:7420/", {"Origin": "http://127.0.0.1:7420"})
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
def test_server_refuses_other_names(url: str, origin: str, outside: str | None) -> None:
    answer = post(url, {"Origin": origin}, outside)
    assert (answer.status_code, answer.json()["code"]) == (403, "FOREIGN_ORIGIN")


# --- trusted proxies


async def answer_with_origin(scope: Scope, receive: Receive, send: Send) -> None:
    base, peer = scope.get("interlock.base", "nowhere"), scope["client"][0]
    await PlainTextResponse(f"{scope['scheme']} {base} {peer}")(scope, receive, send)


def seen_by_server(peer: str, *proxies: str, **forwarded: str) -> str:
    """Return scheme, base and client of a request with the proxy's name, as the server sees it."""
    guard = Guard(answer_with_origin, Metrics(), loopback=False, outside=OUTSIDE, proxies=proxies)
    headers = {f"X-Forwarded-{name}": text for name, text in forwarded.items()}

    async def ask() -> str:
        transport = httpx2.ASGITransport(guard, client=(peer, 1))
        async with httpx2.AsyncClient(transport=transport) as client:
            return (await client.get("http://interlock.example/", headers=headers)).text

    return asyncio.run(ask())


@pytest.mark.parametrize(
    "forwarded", [{}, {"Proto": "https"}, {"Proto": "https", "For": "127.0.0.1"}]
)
@pytest.mark.parametrize("proxies", [(), ("192.0.2.8",), ("2001:db8::/32",)])
def test_caller_that_bypasses_the_proxy_is_not_trusted(
    forwarded: dict[str, str], proxies: tuple[str, ...]
) -> None:
    assert seen_by_server("192.0.2.9", *proxies, **forwarded) == "http nowhere 192.0.2.9"


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
def test_local_or_configured_proxy_is_trusted(peer: str, proxies: tuple[str, ...]) -> None:
    assert seen_by_server(peer, *proxies) == f"https {OUTSIDE} {peer}"
    forwarded = {"Proto": "https", "For": "198.51.100.1, 203.0.113.7"}
    assert seen_by_server(peer, *proxies, **forwarded) == f"https {OUTSIDE} 203.0.113.7"


@pytest.mark.parametrize("proto", ["http", "HTTP", "https, http", "http, https", "ws"])
def test_plain_http_to_a_configured_proxy_does_not_count_as_tls(proto: str) -> None:
    assert seen_by_server("192.0.2.9", "192.0.2.9", Proto=proto).split()[1] == "nowhere"


def own_address() -> str:
    """Return an address of this machine that is not loopback. Skip the test if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends no packet
        except OSError:
            pytest.skip("this machine has no other address than 127.0.0.1")
        return str(probe.getsockname()[0])


@pytest.mark.parametrize("path", ["/person", "/.well-known/oauth-authorization-server"])
def test_public_server_offers_sign_in_only_through_its_proxy(
    tmp_path_factory: pytest.TempPathFactory, servers: Servers, path: str
) -> None:
    address = own_address()
    words = ("--public-url", OUTSIDE)
    place = Place(tmp_path_factory.mktemp("open"))
    with ForkedServer(place, servers, host="0.0.0.0", words=words) as served:
        served.host = address
        bypassing = Caller(served, OUTSIDE)
        refused = bypassing.get(path, None, X_Forwarded_Proto="https")
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
def test_token_in_an_address_is_refused_and_recorded_but_not_repeated(target: str) -> None:
    kept = []

    async def keep(code: str, peer: str) -> None:
        kept.append(code)

    guard = Guard(answer_with_scheme, Metrics(), loopback=True, report=keep)

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
def test_address_with_similar_words_is_accepted(target: str) -> None:
    assert post(f"http://127.0.0.1{target}", {}).status_code == 200


def test_refusal_does_not_repeat_a_secret_in_the_path(
    tmp_path_factory: pytest.TempPathFactory, servers: Servers
) -> None:
    invitation = TOKEN.replace("ilk_", "ili_")
    with ForkedServer(Place(tmp_path_factory.mktemp("joined")), servers) as served:
        for method, target in (("PUT", f"/invite/{invitation}"), ("GET", f"/x/{invitation}")):
            answer = served.ask(method, target)
            assert answer.status in (404, 405)
            assert invitation[4:] not in answer.body.decode()
