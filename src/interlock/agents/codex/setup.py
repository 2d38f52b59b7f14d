"""Codex: the MCP server in `.codex/config.toml`, hooks in `.codex/hooks.json`.

In a linked worktree Codex reads hooks from the repository's main checkout, and other settings from
the worktree. It runs a hook only after a person has trusted exactly this hook. Codex passes to an
MCP server only the environment variables that the configuration names.
"""

import os

from interlock.agents.codex.hooks import EVENTS
from interlock.agents.setup.clients import (
    HOOK_TIMEOUT_S,
    Invocation,
    SetupTarget,
    Wanted,
    chosen,
    grouped,
)
from interlock.agents.setup.documents import Document
from interlock.agents.setup.own_entries import SERVER, Hooks

CLIENT = "codex"
TITLE = "Codex"
NAME = "codex"
EDITORS = "apply_patch|Edit|Write"
VARIABLES = ("INTERLOCK_TOKEN", "INTERLOCK_SESSION", "INTERLOCK_WORKSPACE")
# Codex's maximum timeout for a hook at the end of a session.
END_TIMEOUT_S = 3


def wanted(place: SetupTarget, caller: Invocation) -> Wanted:
    notices: list[dict[str, str]] = []
    own = place.in_home("CODEX_HOME", ".codex")
    (config, servers), (hooks_file, hooked) = (
        chosen(place, caller, os.path.join(root, ".codex", name), os.path.join(own, name), notices)
        for root, name in ((place.root, "config.toml"), (place.main, "hooks.json"))
    )
    server = servers.server() | {"env_vars": list(VARIABLES)}
    documents = [
        Document(config, CLIENT, members={("mcp_servers", SERVER): server}),
        Document(hooks_file, CLIENT, hooks=hooks(hooked)),
    ]
    confirm = [
        "Type /hooks in Codex and trust Interlock's hooks. Codex does not run them before that."
    ]
    if not all(file.startswith(os.path.join(own, "")) for file in (config, hooks_file)):
        confirm.insert(
            0,
            "Trust this project in Codex. Codex does not read the project's settings before that.",
        )
    return Wanted(documents, confirm, notices)


def hooks(caller: Invocation) -> Hooks:
    made: Hooks = {}
    for event, kind in EVENTS.items():
        if kind != "other":
            timeout_s = END_TIMEOUT_S if kind == "end" else HOOK_TIMEOUT_S
            matcher = EDITORS if kind == "edit" else None
            made[event] = [grouped(caller.hook(CLIENT, event), timeout_s, matcher)]
    return made
