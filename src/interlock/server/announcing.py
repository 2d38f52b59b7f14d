"""The announcement of a server that is ready: its addresses, the agents, and the next commands."""

import json
import os
import shlex
import shutil
import sys
from contextlib import suppress
from typing import Any

from interlock.errors import NotAvailable
from interlock.local.link import About
from interlock.local.workspace import CredentialStore, dashboard, default
from interlock.node import Node
from interlock.rooms.identity.verbs import ListAgents
from interlock.server.records import LOG
from interlock.verbs.credentials import Credentials

MAX_NAMED = 8
_OPEN = (
    "  Warning    Other machines can reach this server, and its traffic is not encrypted. Put a "
    "TLS",
    "             proxy in front of it (--public-url URL), or use an SSH tunnel. Every request",
    "             needs a token: interlock token mint makes one for another machine.",
)


def announcement(node: Node, about: About, *, loopback: bool) -> dict[str, Any]:
    """Return the announcement as data. `hazards` are problems with the key and the engine."""
    joined: list[dict[str, Any]] = []
    with suppress(NotAvailable):  # the engine cannot be reached
        joined = node.call(Credentials(owner=True), ListAgents())["agents"]
    hazards = []
    if (trouble := node.keys.trouble()) is not None:
        hazards.append(f"Sign-in and invitations are off. {trouble.message} See interlock doctor.")
    answer = {
        "up": True,
        "started": True,
        "url": about.url,
        "pid": about.pid,
        "directory": node.directory,
        "dashboard": dashboard(about.url, node.directory),
        "mcp": f"{about.url}/mcp",
        "loopback": loopback,
        "agents": [agent["address"] for agent in joined],
        "hazards": hazards,
    }
    if node.shared is not None:
        try:
            node.catch_up()
        except NotAvailable as unavailable:
            hazards.append(unavailable.state)
        with suppress(NotAvailable):
            hazards += node.shared.remote.hazards()
        where = node.shared.where
        answer |= {
            "engine": where.shown,
            "node": where.node,
            "key": node.keys.path,
            "credentials": ["@" + name for name in CredentialStore(node.directory).senders()],
        }
    return answer


def print_announcement(answer: dict[str, Any], as_json: bool) -> None:
    """Print the announcement. If its reader has ended, the server goes on."""
    if as_json:
        text = json.dumps(answer)
    elif answer["started"]:
        text = _text(answer)
    else:
        text = f"A server already runs for {answer['directory']}. To show it: interlock up"
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except OSError:
        # Otherwise Python would write the rest when the process ends, and fail.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _text(answer: dict[str, Any]) -> str:
    agents: list[str] = answer["agents"]
    command = _command(answer["directory"])
    # Only commands that work as shown, with the credentials on this machine.
    usable = [agent for agent in agents if agent in answer.get("credentials", agents)]
    if agents and not usable:
        next_steps = "This machine has no credentials of these agents. Add an agent:"
        examples = [f"{command} join NAME"]
    elif not agents:
        next_steps = "Add an agent, start its client, and send it a message:"
        examples = [
            f"{command} join otto",
            f"{command} run otto -- claude          # or codex, gemini, cursor-agent",
            f"{command} send @otto 'Hello.' --from otto",
        ]
    else:
        next_steps = "Start an agent's client, send a message, or add another agent:"
        examples = [
            f"{command} run {usable[0][1:]} -- claude          # or codex, gemini, cursor-agent",
            f"{command} send {agents[-1]} 'Hello.' --from {usable[0][1:]}",
            f"{command} join NAME",
        ]
    named = " ".join(agents[:MAX_NAMED]) + (" …" if len(agents) > MAX_NAMED else "")
    lines = [
        f"Interlock is up at {answer['url']}",
        "",
        f"  Workspace  {answer['directory']}",
        "             Anyone with write access to this directory can add agents and people.",
        f"  Dashboard  {answer['dashboard']}",
        "             This link signs you in as the owner. Do not share it.",
        f"  Docs       {answer['url']}/docs",
        f"  Agents     {named or 'none yet'}",
        "",
        f"  {next_steps}",
        "",
        *(f"    {line}" for line in examples),
        "",
        f"  MCP        {command} mcp (stdio), or {answer['mcp']} (HTTP, with a token)",
        f"  Log file   {os.path.join(answer['directory'], LOG)}",
    ]
    if "engine" in answer:
        lines += [
            "",
            f"  Engine     {answer['engine']} (this node: {answer['node']})",
            f"             To start another node, copy {answer['key']} to its machine as FILE, and "
            "run there:",
            f"             interlock up --engine '{answer['engine']}' --key FILE",
        ]
    lines += [f"  Warning    {hazard}" for hazard in answer["hazards"]]
    if not answer["loopback"]:
        lines += ["", *_OPEN]
    return "\n".join(lines)


def _command(directory: str) -> str:
    """Return the command that a user must type: its name if the shell finds this program under it,
    else its path. Name the workspace if it is not the default one."""
    installed = os.path.join(os.path.dirname(sys.executable), "interlock")
    found = shutil.which("interlock")
    known = found is not None and os.path.realpath(found) == os.path.realpath(installed)
    command = "interlock" if known else shlex.quote(installed)
    if os.path.realpath(directory) == os.path.realpath(default(os.environ)):
        return command
    return f"{command} --workspace {shlex.quote(directory)}"
