"""Claude Code: hooks in the worktree's local settings, MCP in `.mcp.json`.

Both are files of one worktree. Where git tracks `.mcp.json`, the user's own file has a place for
servers of one directory. Commands are given as lists, so no shell takes them apart.
"""

import os
from typing import Any

from interlock.agents.claude_code.hooks import EDITORS
from interlock.agents.setup.clients import PATIENCE_S, Caller, Wanted, chosen
from interlock.agents.setup.documents import Document
from interlock.agents.setup.own_entries import SERVER, Hooks, Members
from interlock.agents.setup.places import Place

CLIENT = "claude-code"
TITLE = "Claude Code"
NAME = "claude"
PROGRAM = "claude"
DIRECTORY = ".claude"
# An idle session waits for mail for as long as it may; the client ends the wait with the session.
AWAIT_S = 24 * 60 * 60


def wanted(place: Place, caller: Caller) -> Wanted:
    notices: list[dict[str, str]] = []
    own = place.in_home("CLAUDE_CONFIG_DIR", DIRECTORY)
    settings, hooked = chosen(
        place,
        caller,
        os.path.join(place.root, ".claude", "settings.local.json"),
        os.path.join(own, "settings.json"),
        notices,
    )
    project = os.path.join(place.root, ".mcp.json")
    server, for_all = chosen(place, caller, project, _users_servers(place), notices)
    served = for_all if place.user else caller
    documents = [
        Document(settings, CLIENT, hooks=hooks(hooked)),
        Document(server, CLIENT, members=_members(place, served, is_project=server == project)),
    ]
    confirm = ["Start Claude Code anew, so that it reads its settings."]
    if server == project:
        about_server = "Claude Code asks whether to use the MCP server interlock: say yes."
    else:
        about_server = f"End Claude Code first if it is running: it writes {server} itself."
    return Wanted(documents, confirm, notices, (about_server,))


def hooks(caller: Caller) -> Hooks:
    """The hooks by event. The second one at Stop waits in the background, and wakes the session
    when there is mail."""
    return {
        "SessionStart": [_group(caller, "SessionStart")],
        "UserPromptSubmit": [_group(caller, "UserPromptSubmit")],
        "PreToolUse": [{"matcher": "|".join(EDITORS)} | _group(caller, "PreToolUse")],
        "PostToolUse": [_group(caller, "PostToolUse")],
        "PostToolUseFailure": [_group(caller, "PostToolUseFailure")],
        "StopFailure": [_group(caller, "StopFailure")],
        "Stop": [
            _group(caller, "Stop"),
            _group(caller, "Stop", "--await", timeout=AWAIT_S, asyncRewake=True),
        ],
        "SessionEnd": [_group(caller, "SessionEnd")],
    }


def _group(
    caller: Caller, event: str, *words: str, timeout: int = PATIENCE_S, **more: Any
) -> dict[str, Any]:
    command, *args = caller.hook(CLIENT, event, *words)
    hook = {"type": "command", "command": command, "args": args, "timeout": timeout}
    return {"hooks": [hook | more]}


def _users_servers(place: Place) -> str:
    """The file with what Claude Code knows of the user, servers among it."""
    moved = place.environ.get("CLAUDE_CONFIG_DIR")
    return os.path.join(moved or place.home, ".claude.json")


def _members(place: Place, caller: Caller, *, is_project: bool) -> Members:
    server = {"type": "stdio"} | caller.server()
    if is_project or place.user:
        return {("mcpServers", SERVER): server}
    return {("projects", place.root, "mcpServers", SERVER): server}
