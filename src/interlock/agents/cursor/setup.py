"""Cursor: the MCP server in `.cursor/mcp.json`, hooks in `.cursor/hooks.json`."""

import os
import shlex

from interlock.agents.cursor.hooks import EDITORS, EVENTS, FORGETS
from interlock.agents.setup.clients import HOOK_TIMEOUT_S, Invocation, SetupTarget, Wanted, chosen
from interlock.agents.setup.documents import Document
from interlock.agents.setup.own_entries import SERVER, Hooks

CLIENT = "cursor"
TITLE = "Cursor"
NAME = "cursor"
NEW = '{\n  "version": 1\n}\n'
# How often in a row the stop hook may keep the agent working.
LOOPS = 5


def wanted(place: SetupTarget, caller: Invocation) -> Wanted:
    notices: list[dict[str, str]] = []
    project, users = (os.path.join(above, ".cursor") for above in (place.root, place.home))
    (servers, served), (hooks_file, hooked) = (
        chosen(place, caller, os.path.join(project, name), os.path.join(users, name), notices)
        for name in ("mcp.json", "hooks.json")
    )
    documents = [
        Document(servers, CLIENT, members={("mcpServers", SERVER): served.server()}),
        Document(hooks_file, CLIENT, hooks=hooks(hooked), start=NEW),
    ]
    confirm = ["Trust this workspace in Cursor. It does not run the project's hooks before that."]
    is_projects = hooks_file == os.path.join(project, "hooks.json")
    about_server = "Turn on the MCP server interlock in Cursor's settings, under MCP."
    return Wanted(documents, confirm if is_projects else [], notices, (about_server,))


def hooks(caller: Invocation) -> Hooks:
    more: dict[str, dict[str, object]] = {
        "edit": {"matcher": "|".join(EDITORS)},
        "stop": {"loop_limit": LOOPS},
    }
    made: Hooks = {}
    for event, kind in EVENTS.items():
        if kind != "other" or event == FORGETS:
            command = shlex.join(caller.hook(CLIENT, event))
            made[event] = [{"command": command, "timeout": HOOK_TIMEOUT_S} | more.get(kind, {})]
    return made
