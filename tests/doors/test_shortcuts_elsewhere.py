"""The main shortcuts to "done" over HTTP and MCP: the same codes as commands get, and nothing is
written. tests/doors/cli/test_shortcuts.py has the commands."""

import asyncio
import functools
import http.client
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from interlock.errors import by_code
from world.commandline import LIMIT_S
from world.fork_server import Running, Servers
from world.tooling import Clients
from world.working import GATE, HOLDER, TASK, WORKER, Workshop

pytestmark = pytest.mark.every_engine

Answer = dict[str, Any]


class Row(NamedTuple):
    """The preparation with commands, and the request that the test then makes at each door."""

    prepare: Callable[[Workshop], None]
    who: str
    verb: str
    code: str
    lacking: tuple[str, ...] = ()
    is_recorded: bool = False


def _unproven(shop: Workshop) -> None:
    shop.taken()
    shop.place.ok("task", "submit", TASK, *WORKER)
    shop.place.ok("gate", "pass", TASK, GATE, *HOLDER)


def _passed(shop: Workshop) -> None:
    shop.submitted()
    shop.place.ok("gate", "pass", TASK, GATE, *HOLDER)


def _passed_before(shop: Workshop) -> None:
    _passed(shop)
    shop.commit()
    shop.place.ok("task", "submit", TASK, *WORKER)


def _failed(shop: Workshop) -> None:
    shop.taken()
    shop.place.ok("task", "fail", TASK, *WORKER)


def _lost(shop: Workshop) -> None:
    _passed(shop)
    shop.place.ok("claim", "take-over", "--item", TASK, "--reason", "It is mine.", *HOLDER)


def _dependent(shop: Workshop) -> None:
    shop.create(id="A-1")
    shop.create("--depends-on", "A-1")


ROWS = {
    "without evidence": Row(_unproven, "otto-cli", "complete", "GATES_NOT_PASSED", ("criterion",)),
    "without a pass": Row(
        Workshop.submitted, "otto-cli", "complete", "GATES_NOT_PASSED", ("gate",)
    ),
    "with a pass of an older artifact": Row(
        _passed_before, "otto-cli", "complete", "GATES_NOT_PASSED", ("gate",)
    ),
    "own work": Row(Workshop.submitted, "otto-desktop", "verdict", "OWN_WORK", is_recorded=True),
    "without the scope": Row(
        Workshop.submitted, "nova", "verdict", "MISSING_SCOPE", is_recorded=True
    ),
    "another worker's task": Row(_passed, "nova", "complete", "NOT_HOLDER"),
    "twice": Row(Workshop.completed, "otto-cli", "complete", "ALREADY_DONE"),
    "after failing": Row(_failed, "otto-cli", "complete", "ALREADY_DONE"),
    "on a lost claim": Row(_lost, "otto-cli", "complete", "STALE_FENCE", is_recorded=True),
    "before its dependency": Row(
        _dependent, "otto-cli", "take", "GATES_NOT_PASSED", ("dependency",)
    ),
}


def _over_http(shop: Workshop, running: Running, row: Row) -> Answer:
    target, body = f"/v1/tasks/{TASK}/{row.verb}", {}
    if row.verb == "verdict":
        target, body = "/v1/verdicts", {"task": TASK, "gate": GATE, "verdict": "pass"}
    headers = {
        "Authorization": f"Bearer {shop.place.token_of(row.who)}",
        "Content-Type": "application/json",
    }
    host = running.url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=LIMIT_S)
    try:
        connection.request("POST", target, json.dumps(body), headers)
        reply = connection.getresponse()
        answer: Answer = json.loads(reply.read())
    finally:
        connection.close()
    # A plain "no" may be an answer with status 200. Other codes have their own status.
    assert reply.status == by_code(row.code).http or row.code == "GATES_NOT_PASSED"
    return answer


def _with_tools(shop: Workshop, running: Running, row: Row, *, over_http: bool) -> Answer:
    async def told() -> Answer:
        clients = Clients(shop.place, over_http=over_http, running=running)
        async with asyncio.timeout(LIMIT_S), clients.client(row.who) as caller:
            if row.verb == "verdict":
                given = {"task_id": TASK, "gate": GATE, "verdict": "pass", "commit": shop.head}
                said = await caller("verdict", **given)
            else:
                said = await caller("task", action=row.verb, id=TASK)
            assert said.error == (row.code != "GATES_NOT_PASSED")
            return said.answer

    return asyncio.run(told())


DOORS: dict[str, Callable[[Workshop, Running, Row], Answer]] = {
    "http": _over_http,
    "tools over http": functools.partial(_with_tools, over_http=True),
    "tools over stdio": functools.partial(_with_tools, over_http=False),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_every_door_refuses_the_shortcut(
    row: Row, first_shop: Workshop, tmp_path: Path, servers: Servers
) -> None:
    """The doors share one workspace, because a refused request changes nothing."""
    shop = first_shop.copied(tmp_path)
    shop.place.join("otto", "desktop")
    shop.place.join("nova")
    row.prepare(shop)
    place = shop.place
    running = servers.start(str(place.workspace), place.environ, str(place.cwd))
    try:
        for door, ask in DOORS.items():
            with shop.nothing_written(*(row.code,) * row.is_recorded):
                answer = ask(shop, running, row)
            assert answer["code"] == row.code, (door, answer)
            assert tuple(need["what"] for need in answer.get("missing", ())) == row.lacking, door
    finally:
        running.end()
