"""Gemini CLI: hooks and the MCP server in `.gemini/settings.json`, which may have comments.

Its timeouts are in milliseconds. Gemini CLI hides variables that look like secrets from its child
processes, but not `INTERLOCK_SESSION`, by which the MCP server finds the stored credential.
"""

import os

from interlock.agents.gemini.hooks import EDITORS, EVENTS, FORGETS
from interlock.agents.setup.clients import (
    HOOK_TIMEOUT_S,
    Invocation,
    SetupTarget,
    Wanted,
    chosen,
    grouped,
)
from interlock.agents.setup.documents import Document
from interlock.agents.setup.own_entries import SERVER, Hooks, Members

CLIENT = "gemini"
TITLE = "Gemini CLI"
NAME = "gemini"


def wanted(place: SetupTarget, caller: Invocation) -> Wanted:
    notices: list[dict[str, str]] = []
    project = os.path.join(place.root, ".gemini", "settings.json")
    users = os.path.join(place.home, ".gemini", "settings.json")
    file, caller = chosen(place, caller, project, users, notices)
    members: Members = {("mcpServers", SERVER): caller.server()}
    documents = [Document(file, CLIENT, members=members, hooks=hooks(caller))]
    confirm = [
        "Trust this folder in Gemini CLI. It does not read the project's settings before that.",
        "When Gemini CLI starts in the project, it warns once about the new hooks.",
    ]
    return Wanted(documents, confirm if file == project else [], notices)


def hooks(caller: Invocation) -> Hooks:
    made: Hooks = {}
    for event, kind in EVENTS.items():
        if kind != "other" or event == FORGETS:
            command, timeout_ms = caller.hook(CLIENT, event), HOOK_TIMEOUT_S * 1000
            matcher = "|".join(EDITORS) if kind == "edit" else None
            made[event] = [grouped(command, timeout_ms, matcher, name=SERVER)]
    return made
