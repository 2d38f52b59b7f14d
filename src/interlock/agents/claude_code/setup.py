"""Claude Code: hooks in the worktree's local settings, MCP in `.mcp.json`.

Both files belong to one worktree. Commands are lists, so that no shell splits them.
"""

import os
from typing import Any

from interlock.agents.claude_code.hooks import EDITORS, EVENTS
from interlock.agents.setup.clients import HOOK_TIMEOUT_S, Invocation, SetupTarget, Wanted, chosen
from interlock.agents.setup.documents import Document
from interlock.agents.setup.own_entries import SERVER, Hooks

CLIENT = "claude-code"
TITLE = "Claude Code"
NAME = "claude"
# An idle session waits for mail as long as possible. The client ends the wait with the session.
AWAIT_S = 24 * 60 * 60


def wanted(place: SetupTarget, caller: Invocation) -> Wanted:
    notices: list[dict[str, str]] = []
    settings, hooked = chosen(
        place,
        caller,
        os.path.join(place.root, ".claude", "settings.local.json"),
        os.path.join(place.in_home("CLAUDE_CONFIG_DIR", ".claude"), "settings.json"),
        notices,
    )
    project = os.path.join(place.root, ".mcp.json")
    users = os.path.join(place.environ.get("CLAUDE_CONFIG_DIR") or place.home, ".claude.json")
    file, for_all = chosen(place, caller, project, users, notices)
    server = {"type": "stdio"} | (for_all if place.user else caller).server()
    # The user's file has a section for the servers of one directory.
    above = () if file == project or place.user else ("projects", place.root)
    documents = [
        Document(settings, CLIENT, hooks=hooks(hooked)),
        Document(file, CLIENT, members={(*above, "mcpServers", SERVER): server}),
    ]
    if file == project:
        about_server = "Claude Code asks whether to use the MCP server interlock: approve it."
    else:
        about_server = f"Close Claude Code first if it is running: it also writes {file}."
    confirm = ["Restart Claude Code, so that it reads its settings."]
    return Wanted(documents, confirm, notices, (about_server,))


def hooks(caller: Invocation) -> Hooks:
    """Return the hooks by event. The second hook at Stop waits in the background, and wakes the
    session when mail arrives."""
    groups = {event: [_group(caller, event)] for event, kind in EVENTS.items() if kind != "other"}
    groups["PreToolUse"] = [{"matcher": "|".join(EDITORS)} | _group(caller, "PreToolUse")]
    groups["Stop"].append(_group(caller, "Stop", "--await", timeout=AWAIT_S, asyncRewake=True))
    return groups


def _group(
    caller: Invocation, event: str, *words: str, timeout: int = HOOK_TIMEOUT_S, **more: Any
) -> dict[str, Any]:
    command, *args = caller.hook(CLIENT, event, *words)
    hook = {"type": "command", "command": command, "args": args, "timeout": timeout}
    return {"hooks": [hook | more]}
