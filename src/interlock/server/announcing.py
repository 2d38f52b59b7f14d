"""What the server says when it is ready: where it is, who is here, and what to type next."""

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


def announcement(node: Node, about: About, *, loopback: bool) -> dict[str, Any]:
    joined: list[dict[str, Any]] = []
    with suppress(NotAvailable):  # it will be known when the engine is there
        joined = node.call(Credentials(owner=True), ListAgents())["agents"]
    return {
        "up": True,
        "started": True,
        "url": about.url,
        "pid": about.pid,
        "directory": node.directory,
        "dashboard": dashboard(about.url, node.directory),
        "mcp": f"{about.url}/mcp",
        "loopback": loopback,
        "agents": [agent["address"] for agent in joined],
        "hazards": [*_of_key(node), *(_of_engine(node) if node.shared else ())],
    } | (_shared(node) if node.shared else {})


def _of_key(node: Node) -> list[str]:
    """What does not work without the key, where it cannot be used."""
    trouble = node.keys.trouble()
    if trouble is None:
        return []
    return [f"Nobody can sign in or be invited. {trouble.message} See interlock doctor."]


def _of_engine(node: Node) -> list[str]:
    """Why it cannot be followed, and what it may lose."""
    assert node.shared is not None
    found: list[str] = []
    try:
        node.catch_up()
    except NotAvailable as trouble:
        found.append(trouble.state)
    with suppress(NotAvailable):
        found += node.shared.remote.hazards()
    return found


def _shared(node: Node) -> dict[str, Any]:
    """Where the log is kept, and how another node joins."""
    assert node.shared is not None
    where = node.shared.where
    kept = ["@" + sender for sender in CredentialStore(node.directory).senders()]
    return {
        "engine": where.shown,
        "node": where.node,
        "key": node.keys.path,
        "credentials": kept,
    }


def say(told: dict[str, Any], as_json: bool) -> None:
    text = json.dumps(told) if as_json else _text(told) if told["started"] else _running(told)
    _print(text)


def _print(text: str) -> None:
    """That nobody reads it any more is no reason for a server to end."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except OSError:
        # What is left of it would be tried again when the process ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _running(told: dict[str, Any]) -> str:
    return f"A server runs for {told['directory']} already. interlock up shows where."


def _text(told: dict[str, Any]) -> str:
    agents: list[str] = told["agents"]
    named = " ".join(agents[:MAX_NAMED]) + (" …" if len(agents) > MAX_NAMED else "")
    lines = [
        f"Interlock is up at {told['url']}, for {told['directory']}",
        "",
        f"  Dashboard  {told['dashboard']}",
        "             The link signs its holder in as the owner: keep it to yourself.",
        f"  Joined     {named or 'nobody yet'}",
        "             Whoever may write this workspace can join agents and people to it.",
        "",
        *(f"    {line}" for line in _next(_command(told["directory"]), told)),
        "",
        f"  MCP        {_command(told['directory'])} mcp  (stdio), or {told['mcp']} with a token",
        f"  Log        {os.path.join(told['directory'], LOG)}",
    ]
    if "engine" in told:
        lines += ["", *_engine(told)]
    lines += [f"  Warning    {hazard}" for hazard in told["hazards"]]
    if not told["loopback"]:
        lines += ["", *_OPEN]
    return "\n".join(lines)


def _engine(told: dict[str, Any]) -> list[str]:
    return [
        f"  Engine     {told['engine']}, as the node {told['node']}",
        f"             Another node needs a copy of {told['key']}:",
        f"             interlock up --engine '{told['engine']}' --key FILE",
    ]


def _next(command: str, told: dict[str, Any]) -> list[str]:
    """What to type next: commands that work as they stand, with the credentials that are here."""
    agents: list[str] = told["agents"]
    here = [agent for agent in agents if agent in told.get("credentials", agents)]
    if agents and not here:
        return [f"{command} join NAME          # whose credentials are kept here"]
    if not agents:
        return [
            f"{command} join otto",
            f"{command} run otto -- claude          # or codex, gemini, cursor-agent",
            f"{command} send @otto 'Hello.' --from otto",
        ]
    first, last = here[0], agents[-1]
    return [
        f"{command} run {first[1:]} -- claude          # or codex, gemini, cursor-agent",
        f"{command} send {last} 'Hello.' --from {first[1:]}",
        f"{command} join NAME          # one more",
    ]


_OPEN = (
    "  It can be reached from other machines. Every request needs a token (interlock join, and",
    "  token mint for another machine), and nothing is encrypted on the way: put a TLS proxy",
    "  before it (--public-url says its address), or reach it through an SSH tunnel.",
)


def _command(directory: str) -> str:
    """The command as it can be typed: by its name where the shell would find this very one, and
    with the workspace where it would take another one."""
    beside = os.path.join(os.path.dirname(sys.executable), "interlock")
    found = shutil.which("interlock")
    known = found is not None and os.path.realpath(found) == os.path.realpath(beside)
    command = "interlock" if known else shlex.quote(beside)
    if os.path.realpath(directory) == os.path.realpath(default(os.environ)):
        return command
    return f"{command} --workspace {shlex.quote(directory)}"
