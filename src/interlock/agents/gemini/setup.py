"""Gemini CLI: hooks and the MCP server in `.gemini/settings.json`, which may have comments.

Its timeouts are in milliseconds. It keeps variables that look like secrets from what it starts; a
session's name is not one of them, and by it a server finds the credential that is kept.
"""

import os

from interlock.agents.gemini.hooks import EDITORS
from interlock.agents.setup.clients import PATIENCE_S, Caller, Wanted, chosen, grouped
from interlock.agents.setup.documents import Document
from interlock.agents.setup.own_entries import SERVER, Hooks, Members
from interlock.agents.setup.places import Place

CLIENT = "gemini"
TITLE = "Gemini CLI"
NAME = "gemini"
PROGRAM = "gemini"
DIRECTORY = ".gemini"


def wanted(place: Place, caller: Caller) -> Wanted:
    notices: list[dict[str, str]] = []
    project = os.path.join(place.root, ".gemini", "settings.json")
    settings, caller = chosen(
        place,
        caller,
        project,
        os.path.join(place.home, ".gemini", "settings.json"),
        notices,
    )
    members: Members = {("mcpServers", SERVER): caller.server()}
    documents = [Document(settings, CLIENT, members=members, hooks=hooks(caller))]
    confirm = [
        "Gemini CLI reads a project's settings only in a folder that you trust.",
        "Gemini CLI warns of new hooks once, when it starts in the project.",
    ]
    return Wanted(documents, confirm if settings == project else [], notices)


def hooks(caller: Caller) -> Hooks:
    return {
        event: [grouped(caller.hook(CLIENT, event), PATIENCE_S * 1000, matcher, name=SERVER)]
        for event, matcher in (
            ("SessionStart", None),
            ("BeforeAgent", None),
            ("BeforeTool", "|".join(EDITORS)),
            ("AfterTool", None),
            ("AfterAgent", None),
            ("PreCompress", None),
            ("SessionEnd", None),
        )
    }
