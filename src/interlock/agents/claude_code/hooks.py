"""Claude Code's hooks, by its hooks reference.

At `Stop` only a hold is said, which the agent is sure to see. Tools of subagents are watched for
edits alone: words would reach the subagent, and the agent itself would never see what then counts
as shown.
"""

from typing import Any

from interlock.agents.hooks import Said, Step
from interlock.agents.hooks.formats import edited_in, kind_of, nested, step_of

EVENTS = {
    "SessionStart": "start",  # `source` is startup, resume, clear, compact or fork
    "UserPromptSubmit": "prompt",
    "PreToolUse": "edit",
    "PostToolUse": "tool",
    "PostToolUseFailure": "tool",
    "Stop": "stop",
    "SessionEnd": "end",
    "StopFailure": "rest",
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
        return Step("other")  # Cursor runs Claude Code's hooks too, and has its own besides
    return step_of(kind, given, edited_in(given, EDITORS) if kind == "edit" else ())


def encode(event: str, said: Said) -> dict[str, Any]:
    return nested(event, EVENTS.get(event, "other"), said, event in CONTEXT)
