"""Several nodes of one workspace on a real server, within this process or as a person has them.

    team = Team(tmp_path, remotes)
    ada, bert = team.open("ada"), team.open("bert")
    otto = team.join("otto")
    send(ada, otto, "@otto", "hello")

Nothing here is a test, and nothing here decides what is right.
"""

import os
from pathlib import Path
from typing import Any

from interlock.local.link import open_node
from interlock.node import Node, audit, upkeep
from interlock.rooms.identity import token_format
from interlock.rooms.identity.verbs import Join
from interlock.rooms.mail import uploads
from interlock.rooms.mail.verbs import ListInbox, SendMessage
from interlock.rooms.workspace.verbs import ShowLog, pages
from interlock.verbs.credentials import Credentials
from interlock.verbs.flows import run
from world.commandline import Place, until
from world.remotes import Remotes

OWNER = Credentials(owner=True)
LARGE = "large " * (uploads.MAX_INLINE_BYTES // 5)
Answer = dict[str, Any]


class Team:
    """A workspace, whose first node makes it and its key; the others join with that. `nodes` are
    those that are open."""

    def __init__(self, root: Path, remotes: Remotes) -> None:
        self.root = root
        self.remotes = remotes
        self._key: bytes | None = None
        self.nodes: list[Node] = []

    def url(self, port: int | None = None) -> str:
        server = self.remotes.server
        through = server.url.replace(f":{server.port}/", f":{port or server.port}/")
        return f"{through}?workspace={self.remotes.name}"

    @property
    def key(self) -> bytes:
        assert self._key is not None
        return self._key

    def open(self, name: str, *, port: int | None = None) -> Node:
        """A node in this process, which is open until the test ends; through another port, where
        one is given."""
        directory = self._directory(name)
        node = open_node(str(directory), engine=self.url(port), key=self._key)
        self.nodes.append(node)
        self._key = (directory / "keys" / "checkpoint.key").read_bytes()
        return node

    def place(self, name: str, *, port: int | None = None) -> Place:
        """A node that has joined, for commands and servers; nothing of it runs yet."""
        node = self.open(name, port=port)
        self.end(node)
        return Place(self.root / name)

    def end(self, node: Node) -> None:
        self.nodes.remove(node)
        node.close()

    def close(self) -> None:
        for node in self.nodes:
            node.close()

    def _directory(self, name: str) -> Path:
        (self.root / name).mkdir(parents=True, exist_ok=True)
        return self.root / name / "workspace"


def join(node: Node, name: str) -> Credentials:
    """Registers somebody, who acts with a token from then on."""
    token = token_format.compose(os.urandom(token_format.SECRET_BYTES))
    node.call(OWNER, Join(name, token_hash=token_format.hashed(token)))
    return Credentials(token=token)


def send(node: Node, who: Credentials, to: str, text: str, key: str | None = None) -> Answer:
    """The message as it was accepted; one that is large goes as a blob, as every door has it."""
    act = SendMessage(to, {"text": text}, "send", key=key)
    answer = node.call(who, act)
    message: Answer = answer["message"]
    return message


def texts(node: Node, who: Credentials) -> list[str]:
    """What lies in somebody's inbox, oldest first, but for what was redacted."""
    found = node.call(who, ListInbox(limit=1000))["messages"]
    return [message["payload"]["text"] for message in found if "payload" in message]


def facts(node: Node, kind: str | None = None, after: int = 0) -> list[Answer]:
    flow = pages(ShowLog(after, 1 << 30, kind))
    found: list[Answer] = run(flow, lambda request: audit.show(node, request))["facts"]
    return found


def hashes(node: Node) -> list[tuple[int, str]]:
    return [(fact["seq"], fact["hash"]) for fact in facts(node)]


def level(*nodes: Node) -> str:
    """Waits until all have the same log, and gives the digest of the state that they have too."""
    first, *rest = nodes
    until(lambda: all(node.head() == first.head() for node in rest))
    digests = {upkeep.state_digest(node) for node in nodes}
    assert len(digests) == 1
    for node in nodes:
        assert audit.verify(node)["ok"], audit.verify(node)
    return digests.pop()
