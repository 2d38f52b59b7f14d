"""The announcement of a server that is ready: its addresses, the senders, and what to type next."""

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
    "  It can be reached from other machines. Every request needs a token (interlock join, and",
    "  token mint for another machine), and nothing is encrypted on the way: put a TLS proxy",
    "  before it (--public-url says its address), or reach it through an SSH tunnel.",
)


def announcement(node: Node, about: About, *, loopback: bool) -> dict[str, Any]:
    """The announcement as data. `hazards` are the troubles with the key and the engine."""
    joined: list[dict[str, Any]] = []
    with suppress(NotAvailable):  # the engine is away
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
    """Print the announcement. A reader that has gone does not end the server."""
    if as_json:
        text = json.dumps(answer)
    elif answer["started"]:
        text = _text(answer)
    else:
        text = f"A server runs for {answer['directory']} already. interlock up shows where."
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except OSError:
        # The interpreter would try to write the rest when the process ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _text(answer: dict[str, Any]) -> str:
    agents: list[str] = answer["agents"]
    command = _command(answer["directory"])
    # Commands that work as they stand, with the credentials that are kept here.
    here = [agent for agent in agents if agent in answer.get("credentials", agents)]
    if agents and not here:
        examples = [f"{command} join NAME          # whose credentials are kept here"]
    elif not agents:
        examples = [
            f"{command} join otto",
            f"{command} run otto -- claude          # or codex, gemini, cursor-agent",
            f"{command} send @otto 'Hello.' --from otto",
        ]
    else:
        examples = [
            f"{command} run {here[0][1:]} -- claude          # or codex, gemini, cursor-agent",
            f"{command} send {agents[-1]} 'Hello.' --from {here[0][1:]}",
            f"{command} join NAME          # one more",
        ]
    named = " ".join(agents[:MAX_NAMED]) + (" …" if len(agents) > MAX_NAMED else "")
    lines = [
        f"Interlock is up at {answer['url']}, for {answer['directory']}",
        "",
        f"  Dashboard  {answer['dashboard']}",
        "             The link signs its holder in as the owner: keep it to yourself.",
        f"  Joined     {named or 'nobody yet'}",
        "             Whoever may write this workspace can join agents and people to it.",
        "",
        *(f"    {line}" for line in examples),
        "",
        f"  MCP        {command} mcp  (stdio), or {answer['mcp']} with a token",
        f"  Log        {os.path.join(answer['directory'], LOG)}",
    ]
    if "engine" in answer:
        lines += [
            "",
            f"  Engine     {answer['engine']}, as the node {answer['node']}",
            f"             Another node needs a copy of {answer['key']}:",
            f"             interlock up --engine '{answer['engine']}' --key FILE",
        ]
    lines += [f"  Warning    {hazard}" for hazard in answer["hazards"]]
    if not answer["loopback"]:
        lines += ["", *_OPEN]
    return "\n".join(lines)


def _command(directory: str) -> str:
    """The command as a user types it: by its name where the shell finds this very program, and
    with the workspace where it is not the default one."""
    beside = os.path.join(os.path.dirname(sys.executable), "interlock")
    found = shutil.which("interlock")
    known = found is not None and os.path.realpath(found) == os.path.realpath(beside)
    command = "interlock" if known else shlex.quote(beside)
    if os.path.realpath(directory) == os.path.realpath(default(os.environ)):
        return command
    return f"{command} --workspace {shlex.quote(directory)}"
