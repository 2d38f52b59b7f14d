"""Read the JSON of clients, and write the forms of answers that several clients share.

Reading is lenient: only the parts that decide about an edit must be right.
"""

from collections.abc import Mapping
from typing import Any

from interlock.agents.hooks import HookReply, Step

# Claude Code moves text of more than 10,000 characters into a file that the agent is not asked to
# read. Codex does so above 2,500 tokens of four bytes each. UTF-8 has at least one byte for each
# character, so one limit in bytes respects both.
LIMIT = 10_000
# The maximum length of the note that a text was cut.
NOTE = 160


def kind_of(events: Mapping[str, str], event: str, given: Any) -> str:
    """The kind of step of an event. Raises ValueError for an unknown event, or input that is not an
    object."""
    if event not in events:
        raise ValueError(f"Interlock knows no event {event[:80]!r} of this client.")
    if not isinstance(given, dict):
        raise ValueError("The client's input is not a JSON object.")
    return events[event]


def usable(text: str) -> bool:
    """Whether text can be a path or an id. JSON can contain a zero byte and half of a surrogate
    pair, which no file name and no database accepts."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def text_in(given: Mapping[str, Any], name: str) -> str | None:
    """A member that is a path or an id; None for anything else."""
    value = given.get(name)
    return value if isinstance(value, str) and value and usable(value) else None


def tool_in(given: Mapping[str, Any]) -> str:
    """The name of the tool that is about to run. Raises ValueError."""
    tool = text_in(given, "tool_name")
    if tool is None:
        raise ValueError("The client's input names no tool: `tool_name` should be a string.")
    return tool


def input_in(given: Mapping[str, Any]) -> dict[str, Any]:
    """The input of a tool that changes files. Raises ValueError."""
    tool_input = given.get("tool_input")
    if not isinstance(tool_input, dict):
        raise ValueError("A tool that changes files has no `tool_input` object.")
    return tool_input


def edited_in(given: Mapping[str, Any], tools: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The file that a tool would change; none for a tool that is not among `tools`, which say in
    which member of its input each tool names the file. Raises ValueError."""
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
    anything that a subagent does besides edits, does not matter."""
    if not paths if kind == "edit" else text_in(given, "agent_id") is not None:
        kind = "other"
    held = kind == "stop" and given.get("stop_hook_active") is True
    return Step(kind, text_in(given, "session_id"), text_in(given, "cwd"), paths, int(held))


def client_text(text: str | None, limit: int | None = None) -> str:
    """Text as a client accepts it: valid and within the limit; empty if there is nothing to say."""
    if text is None or not text.strip():
        return ""
    data = text.encode("utf-8", "replace")
    if limit is None or len(data) <= limit:
        return data.decode()
    head = data[: limit - NOTE].decode("utf-8", "ignore")
    head = head.rpartition("\n")[0].rstrip() or head
    return (
        f"{head}\n(This is a part: {len(head)} of {len(text)} characters."
        " `interlock whoami` and `interlock inbox` have the rest.)"
    )


def nested(event: str, kind: str, reply: HookReply, takes_context: bool) -> dict[str, Any]:
    """The answer in the form of Claude Code and Codex."""
    if kind == "stop":
        hold = client_text(reply.hold, LIMIT)
        return {"decision": "block", "reason": hold} if hold else {}
    specific: dict[str, str] = {}
    if kind == "edit" and (denial := client_text(reply.denial, LIMIT)):
        specific |= {"permissionDecision": "deny", "permissionDecisionReason": denial}
    if takes_context and (context := client_text(reply.context, LIMIT)):
        specific["additionalContext"] = context
    return {"hookSpecificOutput": {"hookEventName": event, **specific}} if specific else {}
