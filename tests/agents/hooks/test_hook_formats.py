"""The clients' hook formats: the step of each event, and the exact answers to it.

`recorded/CLIENT/EVENT.json` has the client's input at an event with its step, and the answer to
each kind of reply. `recorded/schemas` has the answers that the client accepts, according to its
published documentation.
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
REPLIES = {
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
    pytest.param(name, event, REPLIES[what], answer, id=f"{name} {event}: {what}")
    for name, event, golden in GOLDEN
    for what, answer in golden["answers"].items()
]
EVENTS = [(name, event) for name in CLIENTS for event in client_of(name).EVENTS]
EDITS = [(name, event) for name, event in EVENTS if client_of(name).EVENTS[event] == "edit"]


def validator(name: str, event: str) -> Draft202012Validator:
    schemas = json.loads((HERE / "schemas" / f"{name}.json").read_text())
    assert event in schemas["$defs"], "the client's schemas do not have this event"
    return Draft202012Validator({**schemas, "$ref": f"#/$defs/{event}"})


VALID = {(name, event): validator(name, event) for name, event in EVENTS}


@pytest.mark.parametrize("name", CLIENTS)
def test_every_event_has_a_recorded_file(name: str) -> None:
    client = client_of(name)
    assert {event for whose, event, _ in GOLDEN if whose == name} == set(client.EVENTS)
    assert KINDS - {"rest"} <= set(client.EVENTS.values()) <= KINDS
    assert set(client.EVENTS) >= client.CONTEXT


@pytest.mark.parametrize(("name", "event", "sent", "step"), STEPS)
def test_the_clients_input_is_decoded_into_its_step(
    name: str, event: str, sent: dict[str, Any], step: dict[str, Any]
) -> None:
    expected = Step(**{**step, "paths": tuple(step.get("paths", ()))})
    assert client_of(name).decode(event, sent) == expected


@pytest.mark.parametrize(("name", "event", "reply", "answer"), ANSWERS)
def test_the_encoded_answer_is_one_that_the_client_accepts(
    name: str, event: str, reply: HookReply, answer: dict[str, Any]
) -> None:
    assert client_of(name).encode(event, reply) == answer
    VALID[name, event].validate(answer)


@pytest.mark.parametrize(("name", "event"), EVENTS)
def test_context_denial_and_hold_appear_only_at_events_that_accept_them(
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
def test_an_unknown_event_is_refused_by_name_and_gets_an_empty_answer(name: str) -> None:
    client = client_of(name)
    with pytest.raises(ValueError, match="Unknown event 'Nothing'"):
        client.decode("Nothing", {})
    assert client.encode("Nothing", HookReply(CONTEXT, DENIAL, HOLD)) == {}


@pytest.mark.parametrize("sent", [None, True, 7, "text", []])
@pytest.mark.parametrize("name", CLIENTS)
def test_input_that_is_not_an_object_is_refused(name: str, sent: Any) -> None:
    client = client_of(name)
    for event in client.EVENTS:
        with pytest.raises(ValueError, match="is not a JSON object"):
            client.decode(event, sent)


@pytest.mark.parametrize(("name", "event"), EDITS)
def test_an_edit_without_a_readable_tool_and_path_is_refused(name: str, event: str) -> None:
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
    """Return the client's tools that change files."""
    return list(getattr(client_of(name), "EDITORS", ["apply_patch"]))


def test_an_unknown_client_is_refused_with_near_matches() -> None:
    with pytest.raises(Usage) as refused:
        client_of("claudecode")
    assert refused.value.as_dict()["did_you_mean"] == ["claude-code"]
    assert "claude-code, codex, cursor, gemini" in str(refused.value)


@pytest.mark.parametrize(
    "text", ["a line\n" * 9_000, "word " * 9_000, "жизнь\n" * 9_000, "😀" * 9_000]
)
@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_text_that_is_too_long_is_cut_at_a_line_and_has_a_note(name: str, text: str) -> None:
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
def test_text_within_the_limit_is_not_cut(name: str) -> None:
    text = "ab\n" * (LIMIT // 3) + "c"
    assert len(text) == LIMIT
    for event in client_of(name).CONTEXT:
        assert text in strings(client_of(name).encode(event, HookReply(context=text)))


@pytest.mark.parametrize("name", ["cursor", "gemini"])
def test_a_client_without_a_known_limit_gets_the_whole_text(name: str) -> None:
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
# Names that the clients use, so that some generated input passes the first checks.
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
def test_any_json_becomes_a_step_or_is_refused_with_a_sentence(sent: Any) -> None:
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
def test_any_reply_is_encoded_in_a_form_that_the_client_accepts(
    context: str | None, denial: str | None, hold: str | None
) -> None:
    for name, event in EVENTS:
        answer = client_of(name).encode(event, HookReply(context, denial, hold))
        VALID[name, event].validate(answer)
        json.dumps(answer, ensure_ascii=False).encode()


def test_the_docs_page_lists_each_event_with_the_kinds_of_its_answer() -> None:
    page = (ROOT / "docs" / "hooks.md").read_text()
    table = page.partition("## Events of each client\n\n")[2].partition("\n\n")[0]
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
        (name, event, kinds_of_answer(name, event))
        for name, event in EVENTS
        if client_of(name).EVENTS[event] != "other"
    }
    assert silent <= written


def kinds_of_answer(name: str, event: str) -> str:
    kind = client_of(name).EVENTS[event]
    told = ["denial"] * (kind == "edit") + ["hold"] * (kind == "stop")
    told += ["context"] * (event in client_of(name).CONTEXT)
    return ", ".join(told) or ("" if kind in ("end", "rest") else "nothing")


def test_each_hooks_module_satisfies_the_protocol() -> None:
    from interlock.agents.claude_code import hooks as claude_code
    from interlock.agents.codex import hooks as codex
    from interlock.agents.cursor import hooks as cursor
    from interlock.agents.gemini import hooks as gemini

    modules: list[HooksModule] = [claude_code, codex, gemini, cursor]
    assert modules == [client_of(name) for name in CLIENTS]


@pytest.mark.parametrize("name", CLIENTS)
def test_decoding_a_hook_has_no_slow_imports(name: str) -> None:
    """A hook runs before and after every tool, so slow imports would slow down the agent."""
    script = f"import sys, interlock.agents.hooks as h; h.client_of({name!r}); print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(ran.stdout.split())
    assert not loaded & {"pydantic", "dataclasses", "inspect", "asyncio", "httpx2", "apsw"}


def test_the_hook_command_has_no_slow_imports() -> None:
    script = "import sys, interlock.doors.cli.hooking; print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    heavy = {"hashlib", "orjson", "dataclasses", "inspect", "asyncio", "interlock.node"}
    assert not set(ran.stdout.split()) & heavy
