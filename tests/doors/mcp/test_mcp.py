"""MCP as agents use it: the official client over every transport."""

import asyncio
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from mcp.shared.exceptions import MCPError

from interlock.doors.mcp.service import FLOWS
from interlock.doors.mcp.tools import INSTRUCTIONS, offered_tools
from interlock.node.live import LiveNode
from interlock.rooms.claims import DEFAULT_LEASE_S
from interlock.rooms.claims.verbs import AcquireClaim
from interlock.rooms.mail.verbs import SendMessage, ShowReceipts
from interlock.rooms.workspace.verbs import Review, ShowStatus
from interlock.verbs.addresses import VALID_SHAPES
from world.mcp_clients import (
    ENTRANCES,
    MODES,
    Entrance,
    McpWorkspace,
    awaited,
    http_client,
    line,
    until,
)
from world.prepared import Prepared
from world.workspace import OWNER

pytestmark = pytest.mark.every_engine

TOOLS = offered_tools()
NAMES = list(TOOLS)
EVERY = [(entrance, mode) for entrance in ENTRANCES for mode in MODES]


@pytest.fixture
def workspace(tmp_path: Path, prepared: Prepared) -> McpWorkspace:
    """A workspace for MCP clients."""
    return McpWorkspace(tmp_path, prepared)


# --- the list


@pytest.mark.parametrize(("kind", "mode"), EVERY)
@awaited
async def test_client_lists_every_tool_in_order(
    kind: str, mode: str, workspace: McpWorkspace
) -> None:
    async with (
        workspace.live() as live,
        workspace.entrance(kind, live) as door,
        door.client("otto-cli", mode) as otto,
    ):
        listed = (await otto.client.list_tools()).tools
    names = "whoami agents send inbox read ack ask claim release task evidence verdict"
    assert [tool.name for tool in listed] == NAMES
    assert NAMES[:12] == names.split(), "a new tool must be the last one"
    for tool in listed:
        ours = TOOLS[tool.name].listed
        assert tool.description == ours["description"]
        assert tool.input_schema == ours["inputSchema"]
        assert tool.output_schema == ours["outputSchema"]
        shown = tool.annotations
        assert shown is not None
        hints = [shown.read_only_hint, shown.destructive_hint]
        hints += [shown.idempotent_hint, shown.open_world_hint]
        assert None not in hints, tool.name


@pytest.mark.parametrize("mode", MODES)
@awaited
async def test_tools_list_answer_is_under_12000_bytes(mode: str, workspace: McpWorkspace) -> None:
    async with workspace.live() as live, workspace.entrance("stream", live) as door:
        opened = await line(door.place, "otto-cli ")
        async with Entrance.over(opened, mode) as otto:
            await otto.client.list_tools()
            answers = [data for data in opened.heard if b'"tools":[' in data]
        await opened.close()
    (answer,) = answers
    assert len(answer) < 12_000
    assert len(json.loads(answer)["result"]["tools"]) == len(NAMES)


@pytest.mark.parametrize("mode", [*MODES, "auto"])
@awaited
async def test_instructions_are_short_and_have_the_required_content(
    mode: str, workspace: McpWorkspace
) -> None:
    async with (
        workspace.live() as live,
        workspace.entrance("http", live) as door,
        door.client("otto-cli", mode) as otto,
    ):
        told = otto.client.instructions
    assert len(INSTRUCTIONS.split()) <= 120
    assert told == (
        INSTRUCTIONS if mode != "2026-07-28" else None
    )  # a pinned client does not request them
    for word in ("token", "whoami", "compaction", "agents", "Claim", "Accepted", "data", "refusal"):
        assert word in INSTRUCTIONS


def test_every_tool_is_one_verb_or_has_a_flow() -> None:
    assert list(FLOWS) == [name for name, tool in TOOLS.items() if tool.verb is None]
    for name, tool in TOOLS.items():
        assert tool.listed["name"] == name
        assert tool.listed["inputSchema"]["additionalProperties"] is False, name


# The names that agents use. The tests of all doors read the names from the declarations, so only
# this table detects a changed name.
PARAMETERS = {
    "whoami": "",
    "agents": "name",
    "send": "to text type why cwd expects fix severity task_id subject reply_to priority wake key",
    "inbox": "done limit after wait_s thread query",
    "read": "id offset limit",
    "ack": "ids decline note",
    "ask": "to question options wait_s key",
    "claim": "item paths repo ttl_s branch worktree note wait_s check",
    "release": "item paths repo all",
    "task": "action id title brief criteria gates depends_on commit note fence",
    "evidence": "task_id criterion kind value title",
    "verdict": "task_id gate verdict commit note fix evidence",
}
TASK_ACTIONS = "list show create take submit complete fail cancel resolve_blocker"


@pytest.mark.parametrize("name", PARAMETERS)
def test_tool_has_the_expected_parameters(name: str) -> None:
    assert [*TOOLS[name].listed["inputSchema"]["properties"]] == PARAMETERS[name].split()


def test_task_tool_has_the_expected_actions() -> None:
    action = TOOLS["task"].listed["inputSchema"]["properties"]["action"]
    assert action["enum"] == TASK_ACTIONS.split()


def test_tools_of_one_verb_derive_from_their_declarations() -> None:
    derived = {name for name, tool in TOOLS.items() if tool.verb is not None}
    assert derived >= {"whoami", "agents", "ack", "ask", "verdict"}


# --- every tool


@pytest.mark.parametrize("kind", ["process", "stream", "http"])
@pytest.mark.parametrize("mode", MODES)
@awaited
async def test_every_tool_is_called(kind: str, mode: str, workspace: McpWorkspace) -> None:
    async with (
        workspace.live() as live,
        workspace.entrance(kind, live) as door,
        door.client("otto-cli", mode) as otto,
        door.client("vera", mode) as vera,
    ):
        who = await otto.ok("whoami")
        assert (who["sender"], who["address"]) == ("otto-cli", "@otto-cli")
        listed = await otto.ok("agents")
        assert {"@otto-cli", "@nova", "@vera"} <= {a["address"] for a in listed["agents"]}

        sent = await otto.ok("send", to="@vera", text="see #4", subject="the index")
        id = sent["message"]["id"]
        assert sent["accepted"]
        assert sent["deliveries"][0]["recipient"] == "@vera"
        (message,) = (await vera.ok("inbox"))["messages"]
        assert (message["id"], message["from"]) == (id, "@otto-cli")
        assert message["payload"] == {"text": "see #4"}
        assert (await vera.ok("read", id=id))["subject"] == "the index"
        assert (await vera.ok("ack", ids=[id]))["acked"] == [id]
        states = [d["state"] for d in (await otto.ok("read", id=id))["deliveries"]]
        assert states == ["acked"]

        unanswered = await otto.ok("ask", to="@vera", question="now?", wait_s=1)
        assert (unanswered["answered"], unanswered["code"]) == (False, "NO_ANSWER")

        assert (await otto.ok("claim", item="B-1", note="mine"))["acquired"]
        held = await vera.ok("claim", item="B-1")
        assert (held["acquired"], held["code"]) == (False, "CLAIM_HELD")
        assert held["held_by"][0]["holder"] == "@otto-cli"
        assert (await vera.ok("claim", item="B-1", check=True))["claimed"]
        assert (await otto.ok("release", item="B-1"))["released"]
        assert not (await otto.ok("release", item="B-1"))["released"]

        made = await otto.ok("task", action="create", title="Sort it", criteria=["it sorts"])
        id = made["task"]["id"]
        assert [t["id"] for t in (await vera.ok("task", action="list"))["tasks"]] == [id]
        taken = await vera.ok("task", action="take", id=id, note="mine")
        assert taken["claim"]["holder"] == "@vera"
        said = await vera.ok("evidence", task_id=id, criterion=1, kind="note", value="it works")
        assert (said["evidence"]["kind"], said["counts"]) == ("note", False)
        missing = await vera.ok("task", action="complete", id=id)
        assert (missing["completed"], missing["code"]) == (False, "GATES_NOT_PASSED")
        assert [need["what"] for need in missing["missing"]] == ["submission", "criterion"]
        refused = await otto("verdict", task_id=id, gate="athena", verdict="pass", commit="a" * 40)
        assert refused.code == "NOT_FOUND"
        assert json.loads(refused.text) == refused.answer
        ended = await vera.ok("task", action="fail", id=id, note="it cannot be")
        assert ended["task"]["state"] == "failed"


@pytest.mark.parametrize(("kind", "mode"), EVERY)
@awaited
async def test_invalid_recipient_is_a_tool_error_that_names_both_shapes(
    kind: str, mode: str, workspace: McpWorkspace
) -> None:
    async with workspace.live() as live, workspace.entrance(kind, live) as door:
        async with door.client("otto-cli", mode) as otto:
            refused = await otto("send", to="AGENT:vera", text="hello")
        status = await live.call(OWNER, ShowStatus())
    assert refused.code == "INVALID_RECIPIENT_SHAPE"
    assert refused.answer["valid_shapes"] == VALID_SHAPES
    assert refused.answer["did_you_mean"] == ["@vera"]
    assert json.loads(refused.text) == refused.answer
    assert status["messages"] == 0


@pytest.mark.parametrize(("kind", "mode"), EVERY)
@awaited
async def test_caller_cannot_name_another_sender(
    kind: str, mode: str, workspace: McpWorkspace
) -> None:
    async with workspace.live() as live, workspace.entrance(kind, live) as door:
        async with door.client("otto-cli", mode) as otto:
            for number, (member, name) in enumerate(
                [("from", "@vera"), ("source", "agent:vera"), ("sender", "vera"), ("from", "otto")]
            ):
                refused = await otto("send", to="@nova", text="pay him", **{member: name})
                assert refused.code == "IDENTITY_MISMATCH", (member, name)
                assert refused.answer["sender"] == "@otto-cli"
                assert await refusals(live) == number + 1
            for member, name in [("from", "@otto-cli"), ("source", "agent:otto-cli")]:
                assert (await otto.ok("send", to="@nova", text="hello", **{member: name}))[
                    "accepted"
                ]
            both = await otto("send", to="@nova", text="hello", sender="otto-cli", source="vera")
            assert both.code == "IDENTITY_MISMATCH"
        status = await live.call(OWNER, ShowStatus())
    assert status["messages"] == 2


async def refusals(live: LiveNode) -> int:
    found = (await live.call(OWNER, Review()))["refusals"]
    return sum(entry.get("count", 1) for entry in found)


@awaited
async def test_every_tool_checks_the_named_sender_first(
    workspace: McpWorkspace,
) -> None:
    async with (
        workspace.live() as live,
        workspace.entrance("stream", live) as door,
        door.client("otto-cli") as otto,
    ):
        for tool in NAMES:
            refused = await otto(tool, **{"from": "@vera", "no such member": 1})
            assert refused.code == "IDENTITY_MISMATCH", tool
        refused = await otto("whoami", sender=3)
    assert (refused.code, refused.answer["member"]) == ("USAGE", "sender")


# --- arguments


class Bad(NamedTuple):
    """A call with a bad argument, the name of that argument, and its expected type."""

    tool: str
    arguments: dict[str, Any]
    member: str
    expected: str | None = None


TEXT, NUMBER, FLAG, TEXTS = "a string", "a whole number", "a boolean", "an array of strings"
BAD = [
    *(Bad(tool, {"surprise": 1}, "surprise") for tool in NAMES),
    Bad("agents", {"name": 7}, "name", TEXT),
    Bad("send", {}, "text", TEXT),
    Bad("send", {"to": "@vera"}, "text", TEXT),
    Bad("send", {"to": "@vera", "text": None}, "text", TEXT),
    Bad("send", {"to": "@vera", "text": ["hello"]}, "text", TEXT),
    Bad("send", {"to": ["@vera"], "text": "hello"}, "to", TEXT),
    Bad("send", {"text": "hello"}, "to"),
    Bad("send", {"to": "@vera", "text": "x", "type": "task_created"}, "type", "one of send, "),
    Bad("send", {"to": "@vera", "text": "x", "priority": "urgent"}, "priority", "one of low, "),
    Bad("send", {"to": "@vera", "text": "x", "wake": "yes"}, "wake", FLAG),
    Bad("send", {"to": "@vera", "text": "x", "wake": 1}, "wake", FLAG),
    Bad("send", {"to": "@vera", "text": "x", "type": "blocker", "fix": "make"}, "fix", TEXTS),
    Bad("send", {"to": "@vera", "text": "x", "type": "blocker", "fix": [1]}, "fix", TEXTS),
    Bad("send", {"to": "@vera", "text": "x", "severity": "stop"}, "severity"),
    Bad("send", {"to": "@vera", "text": "x", "type": "blocker", "why": "y"}, "why"),
    Bad("inbox", {"done": "id"}, "done", TEXTS),
    Bad("inbox", {"limit": 0}, "limit", "a whole number from 1 to 100"),
    Bad("inbox", {"limit": 101}, "limit", "a whole number from 1 to 100"),
    Bad("inbox", {"limit": 5.0}, "limit", NUMBER),
    Bad("inbox", {"limit": True}, "limit", NUMBER),
    Bad("inbox", {"limit": "5"}, "limit", NUMBER),
    Bad("inbox", {"after": -1}, "after", "a whole number from 0"),
    Bad("inbox", {"after": 1 << 70}, "after", NUMBER),
    Bad("inbox", {"wait_s": 46}, "wait_s", "a whole number from 1 to 45"),
    Bad("inbox", {"wait_s": 0}, "wait_s", "a whole number from 1 to 45"),
    Bad("inbox", {"thread": "abcdef", "query": "x"}, "query"),
    Bad("inbox", {"thread": "abcdef", "wait_s": 1}, "wait_s"),
    Bad("inbox", {"query": "x", "after": 1}, "after"),
    Bad("read", {}, "id", TEXT),
    Bad("read", {"id": 5}, "id", TEXT),
    Bad("read", {"id": "#1", "offset": -1}, "offset", NUMBER),
    Bad("read", {"id": "#1", "limit": 0}, "limit", NUMBER),
    Bad("ack", {}, "ids", TEXTS),
    Bad("ack", {"ids": {"a": 1}}, "ids", TEXTS),
    Bad("ack", {"ids": ["#1"], "decline": "no"}, "decline", FLAG),
    Bad("ask", {"to": "@vera"}, "question", TEXT),
    Bad("ask", {"question": "now?"}, "to", TEXT),
    Bad("ask", {"to": "@vera", "question": "now?", "wait_s": 100}, "wait_s", NUMBER),
    Bad("ask", {"to": "@vera", "question": "now?", "options": "yes"}, "options", TEXTS),
    Bad("claim", {"item": 4}, "item", TEXT),
    Bad("claim", {"paths": "src/**"}, "paths", TEXTS),
    Bad("claim", {"item": "B-1", "ttl_s": 0}, "ttl_s", NUMBER),
    Bad("claim", {"item": "B-1", "wait_s": 3600}, "wait_s", NUMBER),
    Bad("claim", {"item": "B-1", "check": "true"}, "check", FLAG),
    Bad("release", {"all": "yes"}, "all", FLAG),
    Bad("release", {"all": True, "item": "B-1"}, "item"),
    Bad("task", {}, "action", "one of list, "),
    Bad("task", {"action": "destroy"}, "action", "one of list, "),
    Bad("task", {"action": "list", "id": "T-1"}, "id"),
    Bad("task", {"action": "show"}, "id"),
    Bad("task", {"action": "take", "id": "T-1", "commit": "c"}, "commit"),
    Bad("task", {"action": "create"}, "title"),
    Bad("task", {"action": "create", "title": "x", "criteria": "it works"}, "criteria", TEXTS),
    Bad("task", {"action": "submit", "id": "T-1"}, "commit"),
    Bad("task", {"action": "complete", "id": "T-1", "fence": "7"}, "fence", NUMBER),
    Bad("task", {"action": "resolve_blocker"}, "id"),
    Bad("evidence", {"task_id": "T-1", "kind": "note"}, "value", TEXT),
    Bad("evidence", {"task_id": "T-1", "kind": "rumour", "value": "x"}, "kind", "one of spool, "),
    Bad("evidence", {"task_id": "T-1", "kind": "note", "value": "x", "criterion": 0}, "criterion"),
    Bad("verdict", {"task_id": "T-1", "gate": "g", "verdict": "pass"}, "commit", TEXT),
    Bad(
        "verdict",
        {"task_id": "T-1", "gate": "g", "verdict": "maybe", "commit": "c"},
        "verdict",
        "one of pass, fail",
    ),
]


@awaited
async def test_bad_arguments_are_refused_by_name_and_change_nothing(
    workspace: McpWorkspace,
) -> None:
    async with (
        workspace.live() as live,
        workspace.entrance("stream", live) as door,
        door.client("otto-cli") as otto,
    ):
        before = await live.entries()
        for bad in BAD:
            refused = await otto(bad.tool, **bad.arguments)
            assert refused.code == "USAGE", bad
            assert refused.answer["member"] == bad.member, bad
            assert bad.member in refused.answer["message"], bad
            if bad.expected is not None:
                assert refused.answer["expected"].startswith(bad.expected), bad
                assert bad.expected in refused.answer["message"], bad
        assert await live.entries() == before
    assert {bad.tool for bad in BAD} == set(NAMES)


VERDICT = {"task_id": "T-1", "gate": "athena", "verdict": "pass", "commit": "a" * 40}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("send", {"to": "@vera", "text": ""}, "INVALID_MESSAGE"),
    ("send", {"to": "@vera", "text": "rm -rf build", "type": "command"}, "INVALID_MESSAGE"),
    ("send", {"to": "vera", "text": "hello"}, "INVALID_RECIPIENT_SHAPE"),
    ("send", {"to": "@vera", "text": "hello", "subject": "two\nlines"}, "USAGE"),
    ("send", {"text": "hello", "reply_to": "00000000"}, "NOT_FOUND"),
    ("inbox", {"done": ["00000000"]}, "NOT_FOUND"),
    ("inbox", {"thread": "00000000"}, "NOT_FOUND"),
    ("inbox", {"query": " "}, "USAGE"),
    ("read", {"id": "00000000"}, "NOT_FOUND"),
    ("read", {"id": "abc"}, "USAGE"),
    ("ack", {"ids": []}, "USAGE"),
    ("ask", {"to": "everyone", "question": "now?"}, "INVALID_RECIPIENT_SHAPE"),
    ("claim", {}, "USAGE"),
    ("claim", {"item": "B-1", "paths": ["a"], "repo": "example"}, "USAGE"),
    ("claim", {"item": "B-1", "repo": "example"}, "USAGE"),
    ("claim", {"paths": ["../outside"]}, "USAGE"),
    ("claim", {"paths": ["src"], "repo": "."}, "USAGE"),
    ("claim", {"item": "no spaces"}, "USAGE"),
    ("release", {}, "USAGE"),
    ("task", {"action": "show", "id": "T-1"}, "NOT_FOUND"),
    ("task", {"action": "take", "id": "no spaces"}, "USAGE"),
    ("task", {"action": "create", "title": "x", "gates": ["hera"]}, "GATE_HAS_NO_HOLDER"),
    ("task", {"action": "create", "title": "x", "depends_on": ["T-9"]}, "NOT_FOUND"),
    ("task", {"action": "submit", "id": "T-1", "commit": "HEAD"}, "USAGE"),
    ("task", {"action": "resolve_blocker", "id": "00000000"}, "NOT_FOUND"),
    ("evidence", {"task_id": "T-1", "kind": "note", "value": "x"}, "NOT_FOUND"),
    ("evidence", {"task_id": "T-1", "kind": "note", "value": ""}, "INVALID_MESSAGE"),
    ("evidence", {"task_id": "T-1", "kind": "file", "value": "elsewhere"}, "USAGE"),
    ("evidence", {"task_id": "T-1", "kind": "spool", "value": "elsewhere"}, "USAGE"),
    ("verdict", VERDICT, "NOT_FOUND"),
    ("verdict", VERDICT | {"verdict": "fail"}, "NOT_FOUND"),
    ("verdict", VERDICT | {"commit": "main"}, "USAGE"),
]


@awaited
async def test_refusal_of_the_node_is_a_tool_error_with_the_error_object(
    workspace: McpWorkspace,
) -> None:
    async with workspace.live() as live, workspace.entrance("stream", live) as door:
        async with door.client("otto-cli") as otto:
            for tool, arguments, code in REFUSED:
                refused = await otto(tool, **arguments)
                assert refused.code == code, (tool, arguments)
                assert refused.answer["message"], (tool, arguments)
        status = await live.call(OWNER, ShowStatus())
    assert (status["messages"], status["claims"]) == (0, 0)


NAMED: list[tuple[str, dict[str, Any], str]] = [
    ("send", {"to": "@vera", "text": ""}, "text must not be empty"),
    ("send", {"to": "@vera", "text": "", "type": "blocker"}, "text must not be empty"),
    ("send", {"to": "@vera", "text": "make", "type": "command"}, "why is missing"),
    ("ask", {"to": "@vera", "question": ""}, "question must not be empty"),
    ("ack", {"ids": []}, "ids has 0 values"),
    ("read", {"id": "abc def"}, "id is 'abc def'"),
    ("inbox", {"thread": "abc def"}, "thread is 'abc def'"),
    ("claim", {}, "Give item or paths."),
    ("release", {}, "Give item, paths or all."),
    ("task", {"action": "create", "title": "x", "id": "a b"}, "id must be a task id"),
    ("evidence", {"task_id": "T-1", "kind": "note", "value": ""}, "value must not be empty"),
    ("evidence", {"task_id": "T-1", "kind": "url", "value": "zzz"}, "value must be"),
    ("verdict", VERDICT | {"task_id": "a b"}, "task_id must be a task id"),
]


@awaited
async def test_refusal_begins_with_the_name_of_the_argument(workspace: McpWorkspace) -> None:
    async with (
        workspace.live() as live,
        workspace.entrance("stream", live) as door,
        door.client("otto-cli") as otto,
    ):
        for tool, arguments, beginning in NAMED:
            refused = await otto(tool, **arguments)
            assert refused.answer["message"].startswith(beginning), (tool, arguments, refused)
            if " or " not in beginning:
                assert refused.answer["member"] == beginning.split()[0], (tool, arguments)


@pytest.mark.parametrize(("kind", "mode"), EVERY)
@awaited
async def test_unknown_tool_is_a_protocol_error(
    kind: str, mode: str, workspace: McpWorkspace
) -> None:
    async with (
        workspace.live() as live,
        workspace.entrance(kind, live) as door,
        door.client("otto-cli", mode) as otto,
    ):
        with pytest.raises(MCPError, match="Unknown tool: destroy"):
            await otto.client.call_tool("destroy", {})
        assert (await otto.ok("whoami"))["sender"] == "otto-cli"


# --- mail


@awaited
async def test_reply_without_recipient_goes_to_the_sender_of_the_message(
    workspace: McpWorkspace,
) -> None:
    async with (
        workspace.live() as live,
        workspace.entrance("stream", live) as door,
        door.client("otto-cli") as otto,
        door.client("vera") as vera,
    ):
        sent = await otto.ok("send", to="@vera", text="is it you?")
        id = sent["message"]["id"]
        reply = await vera.ok("send", text="it is", reply_to=id)
        (received,) = (await otto.ok("inbox"))["messages"]
        assert (reply["message"]["to"], received["reply_to"]) == ("@otto-cli", id)
        assert received["thread"] == sent["message"]["thread"]
        shown = await otto.ok("inbox", thread=id)
        assert [m["payload"]["text"] for m in shown["messages"]] == ["is it you?", "it is"]
        found = await otto.ok("inbox", query="you")
        assert [m["id"] for m in found["messages"]] == [id]


@pytest.mark.parametrize(("kind", "mode"), EVERY)
@awaited
async def test_ask_waits_for_its_answer_while_other_calls_run(
    kind: str, mode: str, workspace: McpWorkspace
) -> None:
    async with (
        workspace.live() as live,
        workspace.entrance(kind, live) as door,
        door.client("otto-cli", mode) as otto,
        door.client("vera", mode) as vera,
    ):
        asking = asyncio.create_task(
            otto.ok("ask", to="@vera", question="which?", options=["a", "b"], wait_s=45)
        )
        (ask,) = (await vera.ok("inbox", wait_s=45))["messages"]
        assert ask["payload"] == {"question": "which?", "options": ["a", "b"]}
        assert (await otto.ok("whoami"))["sender"] == "otto-cli"
        assert not asking.done()
        refused = await vera("send", text="b", reply_to=ask["id"], subject="no")
        assert (refused.code, refused.answer["member"]) == ("USAGE", "subject")
        answer = await vera.ok("send", text="b", reply_to=ask["id"])
        assert answer["message"]["type"] == "answer"
        answered = await asking
        assert answered["answered"]
        assert answered["answer"]["payload"]["text"] == "b"
        assert (await vera.ok("inbox"))["open"] == 0


@awaited
async def test_blockers_have_severity_stop_by_default_and_commands_have_a_reason(
    workspace: McpWorkspace,
) -> None:
    async with (
        workspace.live() as live,
        workspace.entrance("stream", live) as door,
        door.client("otto-cli") as otto,
        door.client("vera") as vera,
    ):
        await otto.ok("send", to="@vera", text="red", type="blocker", fix=["make x"])
        await otto.ok("send", to="@vera", text="ok", type="blocker", severity="warn")
        command = {"why": "stale", "cwd": "/srv", "expects": "green"}
        await otto.ok("send", to="@vera", text="make x", type="command", **command)
        first, second, third = (await vera.ok("inbox"))["messages"]
    assert first["payload"] == {"what": "red", "severity": "stop", "fix": ["make x"]}
    assert second["payload"] == {"what": "ok", "severity": "warn"}
    assert third["payload"] == {"command": "make x"} | command


@awaited
async def test_same_key_sends_once(workspace: McpWorkspace) -> None:
    async with (
        workspace.live() as live,
        workspace.entrance("stream", live) as door,
        door.client("otto-cli") as otto,
    ):
        ids = {
            (await otto.ok("send", to="@vera", text="once", key="k"))["message"]["id"]
            for _ in range(3)
        }
        conflict = await otto("send", to="@vera", text="another", key="k")
    assert len(ids) == 1
    assert conflict.code == "IDEMPOTENCY_CONFLICT"


@awaited
async def test_done_acks_before_the_inbox_is_listed(workspace: McpWorkspace) -> None:
    async with workspace.live() as live, workspace.entrance("stream", live) as door:
        async with door.client("otto-cli") as otto, door.client("vera") as vera:
            ids = [
                (await otto.ok("send", to="@vera", text=f"{n}"))["message"]["id"] for n in range(5)
            ]
            page = await vera.ok("inbox", limit=2)
            assert [m["id"] for m in page["messages"]] == ids[:2]
            rest = await vera.ok("inbox", done=ids[:2], after=page["next"])
            assert [m["id"] for m in rest["messages"]] == ids[2:]
            assert (rest["acked"], rest["open"]) == (ids[:2], 3)
            refused = await vera("inbox", done=[ids[2], "00000000"])
            assert refused.code == "NOT_FOUND"
            assert (await vera.ok("whoami"))["open"] == 3
        receipt = await live.call(workspace.credentials("otto-cli"), ShowReceipts(ids[4]))
    states = [(h["state"], h.get("adapter")) for h in receipt["deliveries"][0]["history"]]
    assert states == [("accepted", None), ("shown", "mcp")]


@pytest.mark.parametrize(("kind", "mode"), EVERY)
@awaited
async def test_parts_of_a_large_body_join_to_the_whole(
    kind: str, mode: str, workspace: McpWorkspace
) -> None:
    whole = "".join(f"{n:>7} grüße 🌊 ≤\n" for n in range(45_000))
    size = len(whole.encode())
    assert size > 1_000_000
    async with workspace.live() as live, workspace.entrance(kind, live) as door:
        act = SendMessage("@vera", {"text": whole}, "send")
        id = (await live.call(workspace.credentials("otto-cli"), act))["message"]["id"]
        async with door.client("vera", mode) as vera:
            parts, offset = [], 0
            while True:
                result = await vera("read", id=id, offset=offset)
                part = result.answer
                assert part["part"]
                assert len(part["payload"]["text"].encode()) <= 60_000
                assert f'part="true" shown="{part["shown"]}"' in result.text
                parts.append(part["payload"]["text"])
                if "next_offset" not in part:
                    break
                assert f"offset {part['next_offset']}." in result.text
                offset = part["next_offset"]
    joined = "".join(parts)
    assert joined == whole
    assert hashlib.sha256(joined.encode()).hexdigest() == part["sha256"]
    assert part["size"] == size


@awaited
async def test_inbox_truncates_long_messages_but_never_commands(
    workspace: McpWorkspace,
) -> None:
    async with (
        workspace.live() as live,
        workspace.entrance("stream", live) as door,
        door.client("otto-cli") as otto,
        door.client("vera") as vera,
    ):
        await otto.ok("send", to="@vera", text="é" * 40_000)
        await otto.ok("send", to="@vera", text="x" * 40_000, type="command", why="long")
        await otto.ok("send", to="@vera", text="short", type="command", why="short")
        result = await vera("inbox")
        long, command, short = result.answer["messages"]
        assert (long["part"], long["shown"], long["next_offset"]) == (True, 20_000, 20_000)
        assert long["payload"]["text"] == "é" * 10_000
        assert (command["part"], command["shown"]) == (True, 0)
        assert command["payload"] == {"why": "long"}
        assert "part" not in short
        assert "Do not run a part of it." in result.text
        assert len(result.text.encode()) < 60_000
        whole = await vera.ok("read", id=command["id"])
        assert whole["payload"]["command"] == "x" * 40_000
        assert "part" not in whole


# --- claims


@awaited
async def test_claim_lasts_an_hour_and_a_second_call_renews_it(
    workspace: McpWorkspace,
) -> None:
    async with (
        workspace.live() as live,
        workspace.entrance("stream", live) as door,
        door.client("otto-cli") as otto,
        door.client("vera") as vera,
    ):
        first = (await otto.ok("claim", paths=["src/**"], branch="fix"))["claim"]
        again = (await otto.ok("claim", paths=["src/**"], note="still"))["claim"]
        assert (first["repo"], first["fence"]) == ("example", again["fence"])
        assert (again["branch"], again["note"]) == ("fix", "still")
        held = await vera.ok("claim", paths=["src/a.py"], repo="example")
        assert held["held_by"][0]["id"] == first["id"]
        assert (await vera.ok("claim", paths=["src/a.py"], repo="elsewhere"))["acquired"]
        listed = await vera.ok("claim", check=True)
        assert len(listed["claims"]) == 2
    assert seconds(first["expires_at"]) - seconds(first["acquired_at"]) == DEFAULT_LEASE_S


def seconds(at: str) -> int:
    from datetime import datetime

    return round(datetime.fromisoformat(at).timestamp())


@awaited
async def test_repository_has_one_name_for_all_forms_of_its_remote(
    workspace: McpWorkspace,
) -> None:
    async with (
        workspace.live() as live,
        workspace.entrance("http", live) as door,
        door.client("otto-cli") as otto,
        door.client("vera") as vera,
    ):
        url = "https://token@example.org:443/otto/engine.git"
        claim = (await otto.ok("claim", paths=["a"], repo=url))["claim"]
        assert claim["repo"] == "example.org/otto/engine"
        other = await vera.ok("claim", paths=["a"], repo="git@example.org:otto/engine")
        assert other["code"] == "CLAIM_HELD"
        without_repo = await otto("claim", paths=["a"])
        assert (without_repo.code, without_repo.answer["member"]) == ("USAGE", "repo")
        assert (await otto.ok("release", paths=["a"], repo=claim["repo"]))["released"]


@pytest.mark.parametrize("kind", ENTRANCES)
@awaited
async def test_release_all_releases_the_claims_of_this_session_only(
    kind: str, workspace: McpWorkspace
) -> None:
    async with (
        workspace.live() as live,
        workspace.entrance(kind, live) as door,
        door.client("otto-cli", session="one") as one,
        door.client("otto-cli", session="two") as two,
    ):
        assert (await one.ok("whoami"))["session"] == "one"
        for number in range(3):
            await one.ok("claim", item=f"B-{number}")
        await two.ok("claim", item="B-9")
        assert not (await two.ok("claim", item="B-1"))["acquired"]
        released = await one.ok("release", all=True)
        assert [c["item"] for c in released["claims"]] == ["B-0", "B-1", "B-2"]
        assert not (await one.ok("release", all=True))["released"]
        assert (await one.ok("whoami"))["claims"] == []
        (left,) = (await two.ok("whoami"))["claims"]
        assert (left["item"], left["session"]) == ("B-9", "two")
        assert (await one("release", item="B-9")).code == "NOT_HOLDER"


@awaited
async def test_waiting_call_gets_the_claim_when_it_is_released(workspace: McpWorkspace) -> None:
    async with (
        workspace.live() as live,
        workspace.entrance("stream", live) as door,
        door.client("otto-cli") as otto,
        door.client("vera") as vera,
    ):
        await otto.ok("claim", item="B-1")
        waiting = asyncio.create_task(vera.ok("claim", item="B-1", wait_s=45))
        await until(lambda: queued(live, 1))
        await otto.ok("release", item="B-1")
        assert (await waiting)["acquired"]


async def queued(live: LiveNode, count: int) -> bool:
    return bool((await live.call(OWNER, ShowStatus()))["waiting"] == count)


# --- the end of a wait


@pytest.mark.parametrize(("kind", "mode"), EVERY)
@awaited
async def test_a_cancelled_call_stops_waiting(
    kind: str, mode: str, workspace: McpWorkspace
) -> None:
    async with workspace.live() as live, workspace.entrance(kind, live) as door:
        await live.call(workspace.credentials("vera"), AcquireClaim("B-1"))
        async with door.client("otto-cli", mode) as otto:
            waiting = asyncio.create_task(otto("claim", item="B-1", wait_s=45))
            await until(lambda: queued(live, 1))
            waiting.cancel()
            await until(lambda: queued(live, 0))
            assert (await otto.ok("whoami"))["claims"] == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["stream", "http"])
@awaited
async def test_a_closed_connection_stops_waiting(
    kind: str, mode: str, workspace: McpWorkspace
) -> None:
    async with workspace.live() as live, workspace.entrance(kind, live) as door:
        await live.call(workspace.credentials("vera"), AcquireClaim("B-1"))
        close = await (left_waiting_on_a_stream if kind == "stream" else left_waiting_on_http)(
            door, mode
        )
        await until(lambda: queued(live, 1))
        await close()
        await until(lambda: queued(live, 0))


async def left_waiting_on_a_stream(door: Entrance, mode: str) -> Callable[[], Any]:
    opened = await line(door.place, "otto-cli ")
    await opened.say(json.dumps(waiting_claim(mode)).encode())

    async def close() -> None:
        await opened.close()

    return close


async def left_waiting_on_http(door: Entrance, mode: str) -> Callable[[], Any]:
    client = http_client(door.workspace.tokens["otto-cli"])
    headers = {"Accept": "application/json, text/event-stream", "Mcp-Method": "tools/call"}
    headers |= {"MCP-Protocol-Version": mode if mode != "legacy" else "2025-06-18"}
    headers |= {"Mcp-Name": "claim"}
    posting = asyncio.create_task(
        client.post(door.place, json=waiting_claim(mode), headers=headers)
    )

    async def close() -> None:
        posting.cancel()
        await client.aclose()

    return close


def waiting_claim(mode: str) -> dict[str, Any]:
    params: dict[str, Any] = {"name": "claim", "arguments": {"item": "B-1", "wait_s": 45}}
    if mode != "legacy":
        prefix = "io.modelcontextprotocol/"
        params["_meta"] = {prefix + "protocolVersion": mode, prefix + "clientCapabilities": {}}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
