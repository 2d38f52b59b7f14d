"""The parts that all measurements share: a scratch directory on the repository's disk, a workspace
with senders, and child processes that answer in JSON."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from interlock.node import Node
from interlock.rooms.identity.token_format import SECRET_BYTES, compose, hashed
from interlock.rooms.identity.verbs import Join
from interlock.rooms.mail.verbs import SendMessage
from interlock.rooms.workspace.verbs import ChangeSetting
from interlock.verbs.credentials import Credentials

OWNER = Credentials(owner=True)
CALLERS = 32
CHILD_S = 600.0
TEXT = (
    "The migration in src/store/schema.py drops the index that the inbox needs; with 40,000 rows "
    "the list takes two seconds. Please restore it before the release, and add the test."
)


class Sender(NamedTuple):
    """A sender, and the recipient of its messages."""

    name: str
    to: str
    credentials: Credentials

    def act(self) -> SendMessage:
        return SendMessage(self.to, {"text": TEXT}, "send")


@contextmanager
def scratch() -> Iterator[str]:
    """Make a directory in `.bench/`, which git ignores, and delete it afterwards."""
    above = os.path.abspath(".bench")
    os.makedirs(above, exist_ok=True)
    with open(os.path.join(above, ".gitignore"), "w", encoding="utf-8") as file:
        file.write("*\n")
    directory = tempfile.mkdtemp(dir=above)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def opened(
    directory: str, senders: int = CALLERS, engine: str | None = None
) -> tuple[Node, list[Sender]]:
    """Open a new workspace with a rate limit that no sender reaches, but that is checked."""
    os.makedirs(directory)
    node = Node(directory, engine=engine)
    node.call(OWNER, ChangeSetting("limits.sends_per_minute", "1000000000"))
    joined = []
    for number in range(senders):
        token = compose(os.urandom(SECRET_BYTES))
        node.call(OWNER, Join(f"agent{number}", token_hash=hashed(token)))
        to = f"@agent{(number + 1) % senders}"
        joined.append(Sender(f"agent{number}", to, Credentials(token=token)))
    return node, joined


def child(
    module: str, *words: str, environ: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start a Python process that runs one of our modules. Its last output is JSON."""
    return subprocess.Popen(
        [sys.executable, "-m", module, *words],
        env={**os.environ, **(environ or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def answer(process: subprocess.Popen[str], given: str = "") -> Any:
    """Write `given` to the child's standard input, wait for its end, and return its result."""
    try:
        out, _ = process.communicate(given, timeout=CHILD_S)
    except BaseException:
        process.kill()
        process.wait()
        raise
    if process.returncode:
        raise SystemExit(f"bench: a child failed: {process.args!r}")
    return json.loads(out)
