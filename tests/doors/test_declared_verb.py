"""Every door offers a verb that a test declares at run time, with its kind of fact."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from mcp import Client

import interlock
from interlock import generate
from interlock.client.asking import Method
from interlock.doors.cli import main
from interlock.doors.http.openapi import document
from interlock.doors.mcp.service import ELSEWHERE, server, tool_flow
from interlock.doors.mcp.tools import derived, offered_tools
from interlock.errors import MissingScope, Usage
from interlock.node import Node
from interlock.node.live import LiveNode
from interlock.rooms import catalogue, folding
from interlock.rooms.identity.verbs import Join
from interlock.rooms.mail.answers import Unanswered
from interlock.rooms.transaction import FactKind, admins, everyone, sql_fold
from interlock.rooms.workspace.verbs import ListEvents
from interlock.server.records import Owner
from interlock.server.serving import application
from interlock.verbs import DECLARED
from interlock.verbs.credentials import Credentials
from interlock.verbs.types import Item, Limit, Line
from interlock.verbs.verb import Tool, Verb

pytestmark = pytest.mark.every_engine

if TYPE_CHECKING:
    from interlock.rooms.transaction import Audience, Transaction

OWNER = Credentials(owner=True)
GOOD = {"item": "B-4", "note": "first", "colour": "red", "limit": 2}


@pytest.fixture
def paint(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Verb]]:
    """Declare the verb `paint` for one test."""
    catalogue.verbs()
    before = list(DECLARED)

    class PaintItem(
        Verb,
        http="POST /v1/paint",
        cli="paint ITEM [--note TEXT] [--colour red|blue] [--limit N]",
        mcp=Tool("paint"),
        method="paint",
        scope="work",
        help={"colour": "the colour of the paint"},
    ):
        """Paint an item in a colour."""

        item: Item
        note: Line | None = None
        colour: Literal["red", "blue"] = "red"
        limit: Limit = 10

        def decide(self, tx: Transaction) -> dict[str, Any]:
            tx.append("item_painted", {"item": self.item})
            return {"painted": self.item, "colour": self.colour, "limit": self.limit}

    # The generated client imports the verb from the module that declares it.
    monkeypatch.setattr(sys.modules[__name__], "PaintItem", PaintItem, raising=False)
    painted = FactKind("An item was painted.", everyone, sql_fold())
    monkeypatch.setitem(folding.FACTS, "item_painted", painted)
    yield PaintItem
    DECLARED[:] = before


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INTERLOCK_WORKSPACE", str(tmp_path))
    with Node(str(tmp_path)) as node:
        otto = node.call(OWNER, Join("otto"))["token"]
    monkeypatch.setenv("INTERLOCK_TOKEN", otto)
    return str(otto)


def command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    status = main([*words, "--json"])
    return status, json.loads(capsys.readouterr().out)


def post(directory: Path, token: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Send one request to the application of a server, without its sockets."""
    content = json.dumps(body).encode()
    headers = {
        "authorization": f"Bearer {token}",
        "content-type": "application/json",
        "content-length": str(len(content)),
        "host": "127.0.0.1:7420",
    }
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/paint",
        "raw_path": b"/v1/paint",
        "query_string": b"",
        "http_version": "1.1",
        "scheme": "http",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 7420),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    async def run() -> None:
        with Node(str(directory)) as node:
            async with LiveNode(node) as live:
                app = application(live, Owner(str(directory)), loopback=True)
                await app.guard(scope, receive, send)

    asyncio.run(run())
    return sent[0]["status"], json.loads(b"".join(part.get("body", b"") for part in sent[1:]))


def test_the_command_line_has_the_verb(
    paint: type[Verb], token: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(capsys, "paint", "B-4", "--note", "first", "--limit", "2") == (
        0,
        {"painted": "B-4", "colour": "red", "limit": 2},
    )
    assert main(["paint", "B-4"]) == 0
    assert "painted" in capsys.readouterr().out
    for words in (
        ("paint",),
        ("paint", "!"),
        ("paint", "B-4", "--colour", "green"),
        ("paint", "B-4", "x"),
    ):
        status, error = command(capsys, *words)
        assert (status, error["code"]) == (2, "USAGE"), words


def test_new_verb_under_an_existing_command_group_is_found(
    token: str, capsys: pytest.CaptureFixture[str]
) -> None:
    catalogue.verbs()
    before = list(DECLARED)

    class PingClaim(Verb, cli="claim ping ITEM", read_only=True, open=True):
        """Ping a claim."""

        item: Item

        def decide(self, tx: Transaction) -> dict[str, Any]:
            return {"pinged": self.item}

    try:
        assert command(capsys, "claim", "ping", "claim") == (0, {"pinged": "claim"})
        assert main(["help", "claim", "ping"]) == 0
    finally:
        DECLARED[:] = before
        capsys.readouterr()


def test_two_verbs_with_one_route_or_tool_are_refused(paint: type[Verb]) -> None:
    class PaintAgain(Verb, name="paint again", http="POST /v1/paint"):
        """Paint an item again."""

    with pytest.raises(ValueError, match="the route POST /v1/paint"):
        catalogue.refuse_duplicates([paint, PaintAgain])

    class PaintThere(Verb, name="paint there", mcp=Tool("paint")):
        """Paint an item elsewhere."""

    with pytest.raises(ValueError, match="the tool paint"):
        catalogue.refuse_duplicates([paint, PaintThere])


def test_help_and_completion_have_the_verb(
    paint: type[Verb], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["help", "paint"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("Paint an item in a colour.\n")
    assert "interlock paint ITEM [--note TEXT] [--colour red|blue] [--limit N]" in page
    assert "the colour of the paint (default: red)" in page
    assert main(["help"]) == 0
    assert "Paint an item in a colour" in capsys.readouterr().out
    assert main(["__complete", "paint", "B-1", "--"]) == 0
    assert "--colour\tthe colour of the paint" in capsys.readouterr().out


def test_new_command_is_the_last_under_the_heading_of_its_room() -> None:
    found = generate.headings(
        {
            "interlock.rooms.work.verbs": {"task list": "", "paint": ""},
            "interlock.doors.cli.mail": {"fold": "", "send": ""},
            "interlock.doors.cli.walls": {"plaster": "", "paint wall": ""},
        }
    )
    for heading, word in {"Work": "paint", "Mail": "fold", "Administration": "plaster"}.items():
        assert found[heading] == f"{generate.HEADINGS[heading]} {word}"


def test_http_has_the_verb(paint: type[Verb], token: str, tmp_path: Path) -> None:
    assert post(tmp_path, token, GOOD) == (
        200,
        {"painted": "B-4", "colour": "red", "limit": 2},
    )
    for body in ({}, GOOD | {"item": "!"}, GOOD | {"colour": "green"}, GOOD | {"more": 1}):
        status, error = post(tmp_path, token, body)
        assert (status, error["code"]) == (400, "USAGE"), body
    assert post(tmp_path, "ilk_x", GOOD)[1]["code"] == "BAD_TOKEN"


def test_openapi_has_the_verb_with_its_choices_and_bounds(paint: type[Verb]) -> None:
    operation = document()["paths"]["/v1/paint"]["post"]
    assert operation["summary"] == "Paint an item in a colour"
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    assert schema["required"] == ["item"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["colour"]["enum"] == ["red", "blue"]
    assert schema["properties"]["limit"]["maximum"] == 1000
    assert schema["properties"]["item"]["pattern"].startswith("^(?:[A-Za-z0-9]")


def test_the_list_of_tools_has_the_verb_with_its_choices_and_bounds(paint: type[Verb]) -> None:
    (*_, (name, tool)) = offered_tools().items()
    assert (name, tool.verb) == ("paint", paint)
    assert tool.listed == {
        "name": "paint",
        "description": "Paint an item in a colour.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "item": {"type": "string", "description": "a work item, such as B-0444"},
                "note": {"type": "string"},
                "colour": {
                    "type": "string",
                    "enum": ["red", "blue"],
                    "description": "the colour of the paint",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "the maximum number of results, default 10",
                },
            },
            "required": ["item"],
            "additionalProperties": False,
        },
        "outputSchema": {"type": "object", "properties": {}},
        "annotations": {
            "readOnlyHint": False,
            "destructiveHint": False,
            "idempotentHint": False,
            "openWorldHint": False,
        },
    }


def test_mcp_has_the_verb(paint: type[Verb], token: str, tmp_path: Path) -> None:
    async def called(shown: str, *calls: dict[str, Any]) -> list[Any]:
        with Node(str(tmp_path)) as node:
            async with LiveNode(node) as live:
                app = server(live, lambda _: Credentials(shown))
                async with Client(app) as client:
                    assert "paint" in [tool.name for tool in (await client.list_tools()).tools]
                    return [await client.call_tool("paint", arguments) for arguments in calls]

    (result,) = asyncio.run(called(token, GOOD))
    assert not result.is_error
    assert result.structured_content == {"painted": "B-4", "colour": "red", "limit": 2}
    bad: tuple[dict[str, Any], ...] = (
        {},
        GOOD | {"item": "!"},
        GOOD | {"colour": "green"},
        GOOD | {"limit": 0},
        {"more": 1},
    )
    for result in asyncio.run(called(token, *bad)):
        assert result.is_error
        assert result.structured_content["code"] == "USAGE", result
    (result,) = asyncio.run(called("ilk_x", GOOD))
    assert (result.is_error, result.structured_content["code"]) == (True, "BAD_TOKEN")


def test_a_tool_shows_the_declared_parameters_and_members(paint: type[Verb]) -> None:
    class PaintSome(
        Verb,
        name="paint some",
        mcp=Tool(
            "paint_some ids note [numbers]",
            "Paint items.",
            help={"ids": "items", "note": ""},
            answer="code answered",
            idempotent=True,
        ),
        bind={"ids": "items"},
        read_only=True,
    ):
        """Paint several items."""

        items: tuple[str, ...]
        note: Line | None = None
        numbers: tuple[int, ...] = ()
        hidden: bool = False

        def decide(self, tx: Transaction) -> Unanswered:
            raise NotImplementedError

    listed = derived(PaintSome)
    schema = listed["inputSchema"]
    assert listed["description"] == "Paint items."
    assert schema["required"] == ["ids", "note"]
    assert schema["properties"] == {
        "ids": {"type": "array", "items": {"type": "string"}, "description": "items"},
        "note": {"type": "string"},
        "numbers": {"type": "array", "items": {"type": "integer"}},
    }
    assert listed["outputSchema"]["properties"] == {
        "code": {"type": "string"},
        "answered": {"type": "boolean"},
    }
    assert listed["annotations"]["readOnlyHint"] is listed["annotations"]["idempotentHint"] is True
    (*_, tool) = offered_tools().values()
    assert tool.verb is PaintSome
    flow = tool_flow(tool, {"ids": ["B-4"], "note": "first", "numbers": [1]}, ELSEWHERE)
    assert next(flow) == PaintSome(items=("B-4",), note="first", numbers=(1,))
    for wrong, expected in {
        "numbers": "an array of integers",
        "ids": "an array of strings",
    }.items():
        arguments: dict[str, Any] = {"ids": ["B-4"], "note": "first"} | {wrong: [True]}
        with pytest.raises(Usage, match=f"{wrong} contains a boolean. It must be {expected}."):
            tool_flow(tool, arguments, ELSEWHERE)


def test_the_client_has_the_verb(paint: type[Verb], token: str, tmp_path: Path) -> None:
    source = generate.client_methods([paint])
    assert "def paint(" in source
    assert 'colour: Literal["red", "blue"] = "red"' in source
    names: dict[str, Any] = {}
    exec(source, names)
    assert isinstance(vars(names["Methods"])["paint"], Method)

    client_type: Any = type("Client", (interlock.client.Client, names["Methods"]), {})
    with client_type(str(tmp_path), token) as client:
        assert client.paint("B-4", limit=2) == {"painted": "B-4", "colour": "red", "limit": 2}
        with pytest.raises(Usage):
            client.paint("!")


def test_the_node_refuses_a_caller_without_the_scope(
    paint: type[Verb], token: str, tmp_path: Path
) -> None:
    with Node(str(tmp_path)) as node:
        mail = node.call(OWNER, Join("vera", scopes=("mail",)))["token"]
        with pytest.raises(MissingScope, match="This request needs the scope work"):
            node.call(Credentials(mail), paint(item="B-4"))
        assert node.call(Credentials(token), paint(item="B-4"))["painted"] == "B-4"


@pytest.mark.parametrize("audience", [everyone, admins])
def test_events_show_the_kind_of_fact_to_its_audience(
    paint: type[Verb],
    token: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    audience: Audience,
) -> None:
    declared = folding.FACTS["item_painted"]._replace(audience=audience)
    monkeypatch.setitem(folding.FACTS, "item_painted", declared)
    with Node(str(tmp_path)) as node:
        node.call(Credentials(token), paint(item="B-4"))
        for caller, is_shown in ((OWNER, True), (Credentials(token), audience is everyone)):
            events = node.call(caller, ListEvents())["events"]
            painted = [event["item"] for event in events if event["kind"] == "item_painted"]
            assert painted == ["B-4"] * is_shown


def test_a_kind_of_fact_must_declare_its_audience() -> None:
    with pytest.raises(TypeError, match="audience"):
        FactKind("An item was painted.", fold=sql_fold())  # type: ignore[call-arg]


def test_the_type_of_events_and_the_audit_page_have_the_kind_of_fact(paint: type[Verb]) -> None:
    assert '"item_painted",' in generate.event_kinds()
    assert "\n| `item_painted` | An item was painted. |\n" in generate.audit_page()
