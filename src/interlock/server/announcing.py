"""What the server says when it is ready: where it is, who is here, and what to type next."""

import json
import os
import shlex
import shutil
import sys

from interlock.link import About
from interlock.server.records import LOG
from interlock.workspace import CredentialStore, dashboard


def announcement(about: About, directory: str, *, loopback: bool) -> dict[str, object]:
    return {
        "up": True,
        "started": True,
        "url": about.url,
        "pid": about.pid,
        "directory": directory,
        "dashboard": dashboard(about.url, directory),
        "mcp": f"{about.url}/mcp",
        "loopback": loopback,
    }


def say(told: dict[str, object], *, as_json: bool) -> None:
    text = json.dumps(told) if as_json else _text(told)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _text(told: dict[str, object]) -> str:
    command = shlex.quote(_command())
    directory = str(told["directory"])
    senders = CredentialStore(directory).senders()
    here = " ".join(f"@{name}" for name in senders) or "nobody yet"
    lines = [
        f"Interlock is up at {told['url']}, for {directory}",
        "",
        f"  Dashboard  {told['dashboard']}",
        "             The link signs its holder in as the owner: keep it to yourself.",
        f"  Joined     {here}. Anybody who may write this workspace can join agents:",
        "",
        f"    {command} join otto",
        f"    {command} run otto -- claude          # or codex, gemini, cursor-agent",
        f"    {command} send @otto 'Hello.'",
        "",
        f"  MCP        {command} mcp  (stdio), or {told['mcp']} with a token",
        f"  Log        {os.path.join(directory, LOG)}",
    ]
    if not told["loopback"]:
        lines += ["", *_OPEN]
    return "\n".join(lines)


_OPEN = (
    "  It can be reached from other machines. Every request needs a token (interlock join, and",
    "  token mint for another machine), and nothing is encrypted on the way: put a TLS proxy or",
    "  an SSH tunnel before it, and let it listen to 127.0.0.1 where the network is not yours.",
)


def _command() -> str:
    """The command as it can be typed: by its name where the shell would find this very one."""
    beside = os.path.join(os.path.dirname(sys.executable), "interlock")
    found = shutil.which("interlock")
    if found is not None and os.path.realpath(found) == os.path.realpath(beside):
        return "interlock"
    return beside
