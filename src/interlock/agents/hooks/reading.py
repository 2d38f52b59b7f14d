"""What clients' JSON holds, read leniently: only what an edit is decided by has to be right."""

from collections.abc import Mapping
from typing import Any

from interlock.agents.hooks import Step


def kind_of(events: Mapping[str, str], event: str, given: Any) -> str:
    """The step that an event is. Unknown events and what is not an object are refused."""
    if event not in events:
        raise ValueError(f"Interlock knows no event {event[:80]!r} of this client.")
    if not isinstance(given, dict):
        raise ValueError("What the client sent is not a JSON object.")
    return events[event]


def usable(text: str) -> bool:
    """Whether text can be a path or an id. JSON can spell a zero byte and half of a surrogate pair,
    which no file name and no database takes."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def text_in(given: Mapping[str, Any], name: str) -> str | None:
    """A member that is a path or an id; anything else counts as absent."""
    value = given.get(name)
    return value if isinstance(value, str) and value and usable(value) else None


def tool_in(given: Mapping[str, Any]) -> str:
    """The name of the tool that is about to run."""
    tool = text_in(given, "tool_name")
    if tool is None:
        raise ValueError("What the client sent names no tool: `tool_name` should be a string.")
    return tool


def input_in(given: Mapping[str, Any]) -> dict[str, Any]:
    """What a tool that changes files is about to be given."""
    tool_input = given.get("tool_input")
    if not isinstance(tool_input, dict):
        raise ValueError("A tool that changes files has no `tool_input` object.")
    return tool_input


def edited_in(given: Mapping[str, Any], tools: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The file that a tool would change, by where each such tool names it; none for other tools."""
    names = tools.get(tool_in(given))
    if names is None:
        return ()
    tool_input = input_in(given)
    for name in names:
        path = text_in(tool_input, name)
        if path is not None:
            return (path,)
    raise ValueError(f"A tool that changes files has no path in `tool_input.{names[0]}`.")


def step_of(kind: str, given: Mapping[str, Any], paths: tuple[str, ...]) -> Step:
    """A step of the clients whose JSON has Claude Code's shape. A tool that changes no file, and
    whatever a subagent does beside edits, is nothing to us."""
    if not paths if kind == "edit" else text_in(given, "agent_id") is not None:
        kind = "other"
    held = kind == "stop" and given.get("stop_hook_active") is True
    return Step(kind, text_in(given, "session_id"), text_in(given, "cwd"), paths, int(held))
