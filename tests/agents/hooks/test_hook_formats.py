"""The clients' hook formats: what each event means to us, and the exact answer to it.

`hooks/CLIENT/EVENT.json` holds what the client sends at an event and the step that it is, and the
answer to each thing that can be said there; `hooks/schemas` what the client accepts, written after
its published documentation.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from interlock.agents import CLIENTS
from interlock.agents.hooks import LIMIT, NOTHING, HookReply, HooksModule, Step, client_of
from interlock.errors import Usage
from world.paths import ROOT

HERE = Path(__file__).parent / "recorded"
KINDS = {"start", "prompt", "edit", "tool", "stop", "rest", "end", "other"}
CONTEXT = "2 unread, newest from @vera."
DENIAL = "src/a.py is claimed by @vera."
HOLD = "A blocker is open."
SAID = {
    "nothing": NOTHING,
    "context": HookReply(context=CONTEXT),
    "denial": HookReply(denial=DENIAL),
    "denial and context": HookReply(context=CONTEXT, denial=DENIAL),
    "hold": HookReply(hold=HOLD),
}
GOLDEN = [
    (name, file.stem, json.loads(file.read_text()))
    for name in CLIENTS
    for file in sorted((HERE / name).glob("*.json"))
]
STEPS = [
    pytest.param(name, event, case["given"], case["step"], id=f"{name} {event}: {what}")
    for name, event, golden in GOLDEN
    for what, case in golden["steps"].items()
]
ANSWERS = [
    pytest.param(name, event, SAID[what], answer, id=f"{name} {event}: {what}")
    for name, event, golden in GOLDEN
    for what, answer in golden["answers"].items()
]
EVENTS = [(name, event) for name in CLIENTS for event in client_of(name).EVENTS]
EDITS = [(name, event) for name, event in EVENTS if client_of(name).EVENTS[event] == "edit"]


def validator(name: str, event: str) -> Draft202012Validator:
    schemas = json.loads((HERE / "schemas" / f"{name}.json").read_text())
    assert event in schemas["$defs"], "the client's schemas have no such event"
    return Draft202012Validator({**schemas, "$ref": f"#/$defs/{event}"})


VALID = {(name, event): validator(name, event) for name, event in EVENTS}


@pytest.mark.parametrize("name", CLIENTS)
def test_every_event_has_its_golden_file(name: str) -> None:
    client = client_of(name)
    assert {event for whose, event, _ in GOLDEN if whose == name} == set(client.EVENTS)
    assert KINDS - {"rest"} <= set(client.EVENTS.values()) <= KINDS
    assert set(client.EVENTS) >= client.CONTEXT


@pytest.mark.parametrize(("name", "event", "sent", "step"), STEPS)
def test_what_a_client_sends_is_the_step_that_it_is(
    name: str, event: str, sent: dict[str, Any], step: dict[str, Any]
) -> None:
    expected = Step(**{**step, "paths": tuple(step.get("paths", ()))})
    assert client_of(name).decode(event, sent) == expected


@pytest.mark.parametrize(("name", "event", "said", "answer"), ANSWERS)
def test_what_is_said_is_the_answer_that_the_client_takes(
    name: str, event: str, said: HookReply, answer: dict[str, Any]
) -> None:
    assert client_of(name).encode(event, said) == answer
    VALID[name, event].validate(answer)


@pytest.mark.parametrize(("name", "event"), EVENTS)
def test_each_thing_is_said_where_the_client_has_a_place_for_it_and_nowhere_else(
    name: str, event: str
) -> None:
    client = client_of(name)
    kind = client.EVENTS[event]
    quiet = client.encode(event, NOTHING)
    assert (client.encode(event, HookReply(context=CONTEXT)) != quiet) is (event in client.CONTEXT)
    assert (client.encode(event, HookReply(denial=DENIAL)) != quiet) is (kind == "edit")
    assert (client.encode(event, HookReply(hold=HOLD)) != quiet) is (kind == "stop")
    assert client.encode(event, HookReply(" \n", "", "\t")) == quiet


@pytest.mark.parametrize("name", CLIENTS)
def test_an_event_that_nobody_knows_is_refused_by_name_and_answered_with_nothing(name: str) -> None:
    client = client_of(name)
    with pytest.raises(ValueError, match="knows no event 'Nothing'"):
        client.decode("Nothing", {})
    assert client.encode("Nothing", HookReply(CONTEXT, DENIAL, HOLD)) == {}


@pytest.mark.parametrize("sent", [None, True, 7, "text", []])
@pytest.mark.parametrize("name", CLIENTS)
def test_what_is_not_an_object_is_refused(name: str, sent: Any) -> None:
    client = client_of(name)
    for event in client.EVENTS:
        with pytest.raises(ValueError, match="is not a JSON object"):
            client.decode(event, sent)


@pytest.mark.parametrize(("name", "event"), EDITS)
def test_an_edit_that_cannot_be_decided_is_refused(name: str, event: str) -> None:
    client, tool = client_of(name), tools(name)[0]
    for sent in ({}, {"tool_name": 7}, {"tool_name": ""}, {"tool_input": {"file_path": "a"}}):
        with pytest.raises(ValueError, match="names no tool"):
            client.decode(event, sent)
    for given_to_it in (None, "a", ["a"]):
        with pytest.raises(ValueError, match="no `tool_input` object"):
            client.decode(event, {"tool_name": tool, "tool_input": given_to_it})
    unusable: list[Any] = [None, 7, ["a"], {}, "", "a\0b", "\ud800"]
    for value in unusable:
        inner = {"file_path": value, "command": value}
        with pytest.raises(ValueError, match=r"has no (path|text) in|names no file"):
            client.decode(event, {"tool_name": tool, "tool_input": inner})


def tools(name: str) -> list[str]:
    """The client's tools that change files."""
    return list(getattr(client_of(name), "EDITORS", ["apply_patch"]))


def test_a_client_that_nobody_knows_is_refused_with_those_that_are_near() -> None:
    with pytest.raises(Usage) as refused:
        client_of("claudecode")
    assert refused.value.as_dict()["did_you_mean"] == ["claude-code"]
    assert "claude-code, codex, cursor, gemini" in str(refused.value)


@pytest.mark.parametrize(
    "text", ["a line\n" * 9_000, "word " * 9_000, "жизнь\n" * 9_000, "😀" * 9_000]
)
@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_what_is_too_long_is_cut_at_a_line_and_says_that_it_is_a_part(name: str, text: str) -> None:
    client = client_of(name)
    told = client.encode("SessionStart", HookReply(context=text))["hookSpecificOutput"]
    part = told["additionalContext"]
    assert len(part.encode()) <= LIMIT
    head, _, note = part.rpartition("\n")
    assert text.startswith(head)
    assert len(head.encode()) > LIMIT * 0.95
    assert f"{len(head)} of {len(text)} characters" in note
    assert "`interlock inbox`" in note
    if "\n" in text:
        assert text[len(head)] == "\n"
    held = client.encode("Stop", HookReply(hold=text))["reason"]
    denied = client.encode("PreToolUse", HookReply(denial=text))["hookSpecificOutput"]
    assert held == denied["permissionDecisionReason"] == part


@pytest.mark.parametrize("name", CLIENTS)
def test_what_is_within_the_limit_stays_whole(name: str) -> None:
    text = "ab\n" * (LIMIT // 3) + "c"
    assert len(text) == LIMIT
    for event in client_of(name).CONTEXT:
        assert text in strings(client_of(name).encode(event, HookReply(context=text)))


@pytest.mark.parametrize("name", ["cursor", "gemini"])
def test_a_client_without_a_known_limit_gets_everything(name: str) -> None:
    text = "line\n" * 9_000
    for event in client_of(name).CONTEXT:
        assert text in strings(client_of(name).encode(event, HookReply(context=text)))


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for member in value.values() for text in strings(member)]
    return [value] if isinstance(value, str) else []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
# Names that matter, so that what is made up gets past the first checks.
TOOLS = st.sampled_from([tool for name in CLIENTS for tool in tools(name)])
SENT = JSON | st.fixed_dictionaries(
    {},
    optional={
        "session_id": JSON,
        "conversation_id": JSON,
        "cwd": JSON,
        "workspace_roots": JSON,
        "tool_name": TOOLS | JSON,
        "tool_input": JSON
        | st.fixed_dictionaries({}, optional={"file_path": JSON, "command": JSON, "path": JSON}),
        "stop_hook_active": JSON,
        "loop_count": JSON,
        "status": JSON,
        "agent_id": JSON,
    },
)


def decoded(name: str, event: str, sent: Any) -> Step | ValueError:
    try:
        return client_of(name).decode(event, sent)
    except ValueError as wrong:
        return wrong


@example(sent={"tool_name": "apply_patch", "tool_input": {"command": "*** Add File: \ud800"}})
@example(sent={"status": [], "loop_count": 10**400, "workspace_roots": [[]]})
@given(sent=SENT)
def test_whatever_json_comes_is_a_step_or_refused_in_a_sentence(sent: Any) -> None:
    for name, event in EVENTS:
        step = decoded(name, event, sent)
        if isinstance(step, ValueError):
            assert type(step) is ValueError
            assert str(step).endswith(".")
            continue
        assert step.kind in KINDS
        assert (step.kind == "edit") is bool(step.paths)
        assert step.held >= 0
        for text in (step.session, step.cwd, *step.paths):
            assert text is None or (text.encode() and "\0" not in text)


TEXT = st.none() | st.text(st.characters(), max_size=40)


@example(context="\ud800", denial="a\udfff", hold="x" * (LIMIT + 1))
@given(context=TEXT, denial=TEXT, hold=TEXT)
def test_whatever_is_said_fits_what_the_client_takes(
    context: str | None, denial: str | None, hold: str | None
) -> None:
    for name, event in EVENTS:
        answer = client_of(name).encode(event, HookReply(context, denial, hold))
        VALID[name, event].validate(answer)
        json.dumps(answer, ensure_ascii=False).encode()


def test_the_page_gives_each_step_with_what_is_said_there() -> None:
    page = (ROOT / "docs" / "hooks.md").read_text()
    table = page.partition("## What each client tells and is told\n\n")[2].partition("\n\n")[0]
    head, _, *rows = ([cell.strip() for cell in row.split("|")[2:-1]] for row in table.split("\n"))
    assert head == ["Claude Code", "Codex", "Gemini CLI", "Cursor"]
    written = {
        (name, event, cell.partition(": ")[2])
        for row in rows
        for name, cell in zip(("claude-code", "codex", "gemini", "cursor"), row, strict=True)
        for event in re.findall(r"`(\w+)`", cell)
    }
    silent = {("gemini", "PreCompress", "nothing"), ("cursor", "preCompact", "nothing")}
    assert written - silent == {
        (name, event, said_at(name, event))
        for name, event in EVENTS
        if client_of(name).EVENTS[event] != "other"
    }
    assert silent <= written


def said_at(name: str, event: str) -> str:
    kind = client_of(name).EVENTS[event]
    told = ["denial"] * (kind == "edit") + ["hold"] * (kind == "stop")
    told += ["context"] * (event in client_of(name).CONTEXT)
    return ", ".join(told) or ("" if kind in ("end", "rest") else "nothing")


def test_the_modules_are_clients() -> None:
    from interlock.agents.claude_code import hooks as claude_code
    from interlock.agents.codex import hooks as codex
    from interlock.agents.cursor import hooks as cursor
    from interlock.agents.gemini import hooks as gemini

    modules: list[HooksModule] = [claude_code, codex, gemini, cursor]
    assert modules == [client_of(name) for name in CLIENTS]


@pytest.mark.parametrize("name", CLIENTS)
def test_reading_a_hook_takes_no_heavy_imports(name: str) -> None:
    """A hook runs before and after every tool, so what it imports is felt."""
    script = f"import sys, interlock.agents.hooks as h; h.client_of({name!r}); print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(ran.stdout.split())
    assert not loaded & {"pydantic", "dataclasses", "inspect", "asyncio", "httpx2", "apsw"}


def test_the_command_for_hooks_takes_no_heavy_imports() -> None:
    script = "import sys, interlock.doors.cli.hooking; print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    heavy = {"hashlib", "orjson", "dataclasses", "inspect", "asyncio", "interlock.node"}
    assert not set(ran.stdout.split()) & heavy
