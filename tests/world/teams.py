"""Several nodes of one workspace on a real engine, in this process or in separate processes.

team = Team(tmp_path, remotes)
ada, bert = team.open("ada"), team.open("bert")
otto = join(ada, "otto")
send_text(bert, otto, "@otto", "hello")
"""

from pathlib import Path

from interlock.local.link import open_node
from interlock.node import Node, audit, upkeep
from interlock.rooms.mail.message_types import MAX_INLINE_BYTES
from interlock.rooms.mail.verbs import ListInbox
from interlock.verbs.credentials import Credentials
from world.commandline import Place, until
from world.remotes import Remotes
from world.workspace import facts

LARGE = "large " * (MAX_INLINE_BYTES // 5)


class Team:
    """A workspace of several nodes. The first one creates the key, and the others join with it.

    `nodes` are the open nodes."""

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
        """Open a node in this process until the test ends, through a port of the engine."""
        directory = self._directory(name)
        node = open_node(str(directory), engine=self.url(port), key=self._key)
        self.nodes.append(node)
        self._key = (directory / "keys" / "checkpoint.key").read_bytes()
        return node

    def place(self, name: str, *, port: int | None = None) -> Place:
        """Join a node, and close it, for commands and servers."""
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


def texts(node: Node, who: Credentials) -> list[str]:
    """The texts in a sender's inbox, oldest first, without redacted messages."""
    found = node.call(who, ListInbox(limit=1000))["messages"]
    return [message["payload"]["text"] for message in found if "payload" in message]


def hashes(node: Node) -> list[tuple[int, str]]:
    """The position and the hash of each fact in a node's log."""
    return [(fact["seq"], fact["hash"]) for fact in facts(node)]


def level(*nodes: Node) -> str:
    """Wait until all nodes have the same log, and return the digest of their common state."""
    first, *rest = nodes
    until(lambda: all(node.head() == first.head() for node in rest))
    digests = {upkeep.state_digest(node) for node in nodes}
    assert len(digests) == 1
    for node in nodes:
        assert audit.verify(node)["ok"], audit.verify(node)
    return digests.pop()
