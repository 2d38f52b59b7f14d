"""The guard behind a proxy: under which names the server is asked for."""

import asyncio
from collections.abc import Mapping

import httpx2
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from interlock.doors.http import Guard
from interlock.doors.http.metrics import Metrics

OUTSIDE = "https://interlock.example"


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
