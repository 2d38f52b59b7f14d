"""Signed-in people, and OAuth connections that act for them, created on a node.

No server runs: these functions call the same verbs as the web pages and the OAuth door.
`people_and_apps.py` does the same over HTTP.
"""

import os
from pathlib import Path
from typing import NamedTuple

from interlock.node import Node
from interlock.rooms.identity.token_format import (
    CODE,
    INVITATION,
    PREFIX,
    REFRESH,
    SECRET_BYTES,
    compose,
    hashed,
)
from interlock.rooms.people.verbs import (
    Enrol,
    GrantConnection,
    Invite,
    OpenConnection,
    RefreshConnection,
)
from interlock.verbs.credentials import Credentials

OWNER, ANYBODY = Credentials(owner=True), Credentials()
BROWSER = "Firefox on Linux"
CLIENT = "https://client.example/about.json"
RESOURCE = "https://interlock.example/mcp"
VERIFIER = "5a" * 32


class Connected(NamedTuple):
    """A connection with the code and the tokens that its app holds."""

    id: str
    sender: str
    code: str
    token: str
    refresh: str


def secret(prefix: str = PREFIX) -> str:
    return compose(os.urandom(SECRET_BYTES), prefix)


def invited(node: Node, name: str, *own: str) -> str:
    """Invite a person who owns these agents. Return the code of the invitation."""
    code = secret(INVITATION)
    node.call(OWNER, Invite(name, own=own, code_hash=hashed(code)))
    return code


def signed_in(node: Node, name: str, *own: str) -> str:
    """Invite and enrol a person who owns these agents. Return the token of their browser."""
    token = secret()
    asked = Enrol(invited(node, name, *own), VERIFIER, hashed(token), BROWSER)
    node.call(ANYBODY, asked)
    return token


def granted(
    node: Node, browser: str, agent: str, surface: str | None = None, *scopes: str
) -> Connected:
    """Grant a connection that its app has not opened yet."""
    made = Connected("", "", secret(CODE), secret(), secret(REFRESH))
    asked = GrantConnection(
        agent,
        surface,
        scopes or ("mail", "claim", "work"),
        CLIENT,
        "A client",
        RESOURCE,
        "https://client.example/back",
        "c" * 43,
        hashed(made.code),
    )
    answer = node.call(Credentials(token=browser), asked)
    return made._replace(id=answer["id"], sender=answer["sender"])


def connected(
    node: Node, browser: str, agent: str, surface: str | None = None, *scopes: str
) -> Connected:
    """Grant a connection, and open it as its app."""
    made = granted(node, browser, agent, surface, *scopes)
    asked = OpenConnection(made.code, CLIENT, hashed(made.token), hashed(made.refresh))
    answer = node.call(ANYBODY, asked)
    assert "refused" not in answer, answer
    return made


def refreshed(node: Node, before: Connected) -> Connected:
    """Refresh a connection, and return it with its new tokens."""
    made = before._replace(token=secret(), refresh=secret(REFRESH))
    asked = RefreshConnection(before.refresh, CLIENT, hashed(made.token), hashed(made.refresh))
    answer = node.call(ANYBODY, asked)
    assert "refused" not in answer, answer
    return made


def let_in(workspace: Path, person: str, *own: str) -> tuple[str, Connected]:
    """Enrol a person in a workspace, and connect an app that acts as them. Return the token of
    their browser and the connection. No server may run for the workspace yet."""
    workspace.mkdir(0o700, exist_ok=True)
    with Node(str(workspace)) as node:
        browser = signed_in(node, person, *own)
        return browser, connected(node, browser, person)
