"""Gemini CLI's hooks, as its hooks reference describes them.

Gemini CLI reports no start after a compression, only an event before it. Before a tool it accepts a
denial, but no context. It shows `<` and `>` in context to the agent as entities.
"""

from typing import Any

from interlock.agents.hooks import HookReply, Step, client_text, edited_in, kind_of, text_in

EVENTS = {
    "SessionStart": "start",
    "BeforeAgent": "prompt",
    "BeforeTool": "edit",
    "AfterTool": "tool",
    "AfterAgent": "stop",
    "PreCompress": "other",
    "SessionEnd": "end",
    "Notification": "other",
}
# The event before a compaction, after which the client reports no start.
FORGETS = "PreCompress"
CONTEXT = frozenset(("SessionStart", "BeforeAgent", "AfterTool"))
EDITORS = {"write_file": ("file_path",), "replace": ("file_path",)}


def decode(event: str, given: dict[str, Any]) -> Step:
    kind = kind_of(EVENTS, event, given)
    paths = edited_in(given, EDITORS) if kind == "edit" else ()
    if kind == "edit" and not paths:
        kind = "other"
    held = kind == "stop" and given.get("stop_hook_active") is True
    session, cwd = text_in(given, "session_id"), text_in(given, "cwd")
    return Step(kind, session, cwd, paths, int(held), forgets=event == FORGETS)


def encode(event: str, reply: HookReply) -> dict[str, Any]:
    kind = EVENTS.get(event)
    refusal = {"edit": reply.denial, "stop": reply.hold}.get(kind or "other")
    if reason := client_text(refusal):
        return {"decision": "deny", "reason": reason}
    if event in CONTEXT and (context := client_text(reply.context)):
        return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": context}}
    return {}
