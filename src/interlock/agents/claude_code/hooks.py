"""Claude Code's hooks, as its hooks reference describes them.

At `Stop` the answer is only a hold, which the agent certainly sees. At the tools of a subagent,
Interlock only checks edits. Claude Code would pass other text to the subagent, so the agent would
never see mail that counts as shown.
"""

from typing import Any

from interlock.agents.hooks import HookReply, Step, edited_in, kind_of, nested, step_of

EVENTS = {
    "SessionStart": "start",  # `source` is startup, resume, clear, compact or fork
    "UserPromptSubmit": "prompt",
    "PreToolUse": "edit",
    "PostToolUse": "tool",
    "PostToolUseFailure": "tool",
    "StopFailure": "rest",
    "Stop": "stop",
    "SessionEnd": "end",
    "SubagentStart": "other",
    "SubagentStop": "other",
    "PreCompact": "other",  # `SessionStart` follows
    "PostCompact": "other",
    "Notification": "other",
}
CONTEXT = frozenset(
    ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure")
)
EDITORS = {
    "Edit": ("file_path",),
    "MultiEdit": ("file_path",),
    "Write": ("file_path",),
    "NotebookEdit": ("notebook_path",),
}


def decode(event: str, given: dict[str, Any]) -> Step:
    kind = kind_of(EVENTS, event, given)
    if "cursor_version" in given:
        return Step("other")  # Cursor runs Claude Code's hooks in addition to its own
    return step_of(kind, given, edited_in(given, EDITORS) if kind == "edit" else ())


def encode(event: str, reply: HookReply) -> dict[str, Any]:
    return nested(event, EVENTS.get(event, "other"), reply, event in CONTEXT)
