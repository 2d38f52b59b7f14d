"""Cursor's hooks, as its hooks page describes them.

`preToolUse` is Cursor's only hook before an edit. Cursor treats an answer without the expected
member as a denial, so `encode` always sends that member at both hooks that can deny. Interlock does
not use the hooks before shell commands: an answer that allows a command could replace the person's
own approval.
"""

from typing import Any

from interlock.agents.hooks import HookReply, Step, client_text, edited_in, kind_of, text_in

EVENTS = {
    "sessionStart": "start",
    "beforeSubmitPrompt": "prompt",
    "preToolUse": "edit",
    "postToolUse": "tool",
    "preCompact": "other",
    "stop": "stop",
    "sessionEnd": "end",
    "afterFileEdit": "other",
}
# The event before a compaction, after which the client reports no start.
FORGETS = "preCompact"
CONTEXT = frozenset(("sessionStart", "postToolUse"))
# The page names Write and Delete. Some versions use the other names for the same tools.
EDITORS = dict.fromkeys(
    ("Write", "Delete", "Edit", "MultiEdit", "StrReplace", "EditNotebook"),
    ("file_path", "path", "target_notebook"),
)


def decode(event: str, given: dict[str, Any]) -> Step:
    kind = kind_of(EVENTS, event, given)
    paths = edited_in(given, EDITORS) if kind == "edit" else ()
    if kind == "edit" and not paths:
        kind = "other"
    if kind == "stop" and given.get("status") in ("aborted", "error"):
        kind = "rest"  # Cursor would send a hold in the name of the person who has just stopped it
    # Not every event has `session_id`. If an event has both, they are equal.
    session = text_in(given, "conversation_id") or text_in(given, "session_id")
    # Most events have only the workspace's folders, the agent's own first.
    roots = given.get("workspace_roots")
    first = roots[0] if isinstance(roots, list) and roots else None
    directory = text_in(given, "cwd") or text_in({"root": first}, "root")
    held, loops = 0, given.get("loop_count")
    if kind == "stop" and isinstance(loops, int) and loops is not True:
        held = max(loops, 0)
    return Step(kind, session, directory, paths, held, forgets=event == FORGETS)


def encode(event: str, reply: HookReply) -> dict[str, Any]:
    if event == "preToolUse":
        denial = client_text(reply.denial)
        if not denial:
            return {"permission": "allow"}
        return {"permission": "deny", "user_message": denial, "agent_message": denial}
    if event == "beforeSubmitPrompt":
        return {"continue": True}
    if event == "stop" and (hold := client_text(reply.hold)):
        return {"followup_message": hold}
    if event in CONTEXT and (context := client_text(reply.context)):
        return {"additional_context": context}
    return {}
