"""Codex's hooks, as the schemas in its repository (codex-rs/hooks) describe them. The schemas allow
no further members.

The tool `apply_patch` changes files. Its input is the text of a patch. Codex accepts a header on
any line, with blanks around it.
"""

from typing import Any

from interlock.agents.hooks import (
    HookReply,
    Step,
    input_in,
    kind_of,
    nested,
    step_of,
    tool_in,
    usable,
)

EVENTS = {
    "SessionStart": "start",  # `source` is startup, resume, clear or compact
    "UserPromptSubmit": "prompt",
    "PreToolUse": "edit",
    "PostToolUse": "tool",
    "Stop": "stop",
    "SessionEnd": "end",
    "SubagentStart": "other",
    "SubagentStop": "other",
    "PreCompact": "other",  # `SessionStart` follows
    "PostCompact": "other",
}
CONTEXT = frozenset(("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse"))

UPDATE = "*** Update File: "
HEADERS = ("*** Add File: ", "*** Delete File: ", UPDATE)
MOVE = "*** Move to: "


def decode(event: str, given: dict[str, Any]) -> Step:
    kind = kind_of(EVENTS, event, given)
    paths: tuple[str, ...] = ()
    if kind == "edit" and tool_in(given) == "apply_patch":
        paths = files_of(input_in(given).get("command"))
    return step_of(kind, given, paths)


def encode(event: str, reply: HookReply) -> dict[str, Any]:
    return nested(event, EVENTS.get(event, "other"), reply, event in CONTEXT)


def files_of(patch: object) -> tuple[str, ...]:
    """Return the files that a patch adds, changes, deletes, or moves to, each once. Raise
    ValueError for a patch without files."""
    if not isinstance(patch, str):
        raise ValueError("A patch has no text in `tool_input.command`.")
    files = []
    previous = ""
    for line in map(str.strip, patch.split("\n")):
        header = next((start for start in HEADERS if line.startswith(start)), None)
        if header is None and previous.startswith(UPDATE) and line.startswith(MOVE):
            header = MOVE
        if header is not None:
            files.append(line.removeprefix(header))
        previous = line
    paths = tuple(dict.fromkeys(filter(usable, files)))
    if not paths:
        raise ValueError("The patch names no file.")
    return paths
