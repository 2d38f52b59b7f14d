"""Cursor's hooks, by its hooks page.

`preToolUse` is its one hook before an edit; for files there is otherwise only `afterFileEdit`. An
answer without the member that it waits for counts as a no there, so both hooks that can refuse are
always answered in full. The hooks before shell commands are not for Interlock: an answer that lets
a command pass could spare it the person's own approval.
"""

from typing import Any

from interlock.agents.hooks import Said, Step
from interlock.agents.hooks.formats import edited_in, kind_of, spoken, text_in

EVENTS = {
    "sessionStart": "start",
    "beforeSubmitPrompt": "prompt",
    "preToolUse": "edit",
    "postToolUse": "tool",
    "stop": "stop",
    "sessionEnd": "end",
    "preCompact": "other",
    "afterFileEdit": "other",
}
CONTEXT = frozenset(("sessionStart", "postToolUse"))
# The page names Write and Delete; the other names are of the same tools in some versions.
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
        kind = "rest"  # a hold would be sent on as the person's words, who has just said stop
    # Not every event has `session_id`; where there are both they are the same.
    session = text_in(given, "conversation_id") or text_in(given, "session_id")
    held = _loops(given) if kind == "stop" else 0
    return Step(kind, session, _directory(given), paths, held, forgets=event == "preCompact")


def encode(event: str, said: Said) -> dict[str, Any]:
    if event == "preToolUse":
        denial = spoken(said.denial)
        if not denial:
            return {"permission": "allow"}
        return {"permission": "deny", "user_message": denial, "agent_message": denial}
    if event == "beforeSubmitPrompt":
        return {"continue": True}
    if event == "stop" and (hold := spoken(said.hold)):
        return {"followup_message": hold}
    if event in CONTEXT and (context := spoken(said.context)):
        return {"additional_context": context}
    return {}


def _directory(given: dict[str, Any]) -> str | None:
    """Where the agent works. Most events have only the workspace's folders, the first its own."""
    roots = given.get("workspace_roots")
    first = roots[0] if isinstance(roots, list) and roots else None
    return text_in(given, "cwd") or text_in({"root": first}, "root")


def _loops(given: dict[str, Any]) -> int:
    count = given.get("loop_count")
    return count if isinstance(count, int) and count is not True and count > 0 else 0
