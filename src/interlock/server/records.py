"""What a server keeps in its workspace's directory: the lock that says that it runs, where it can
be reached, and the owner's token."""

import fcntl
import hashlib
import json
import os
import tempfile
import time
from contextlib import suppress
from hmac import compare_digest

from interlock.errors import EngineUnavailable
from interlock.local.link import ABOUT, LOCK, About, server_of
from interlock.local.workspace import OWNER, owner_token
from interlock.rooms.identity import token_format

LOG = "server.log"
# The kernel's own limit is 108 bytes on Linux and 104 on macOS.
MAX_SOCKET_PATH_BYTES = 100
LOOKERS_LEAVE_WITHIN_S = 0.5


def lock(directory: str) -> int | None:
    """The lock of the workspace's one server, held while the process lives; None where another
    has it. Whoever only looks whether there is one holds it too, for a moment. What a killed
    server has said of itself is void from now on."""
    held = os.open(os.path.join(directory, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + LOOKERS_LEAVE_WITHIN_S
    while True:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(held)
                return None
        time.sleep(0.01)
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(directory, ABOUT))
    return held


def socket_path(directory: str, name: str) -> str:
    """Where a socket lies: in the workspace, or, where its path is too long for a socket, in a
    directory of the user's own among the temporary ones."""
    path = os.path.join(directory, name)
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES:
        return path
    short = hashlib.sha256(os.fsencode(os.path.realpath(directory))).hexdigest()[:16]
    apart = os.path.join(tempfile.gettempdir(), f"interlock-{os.getuid()}")
    os.makedirs(apart, 0o700, exist_ok=True)
    found = os.stat(apart)
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise EngineUnavailable(f"{apart} is not yours alone, so no socket can be put there.")
    path = os.path.join(apart, f"{short}-{name}")
    if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
        raise EngineUnavailable(
            f"The paths of the workspace and of {apart} are both too long for a socket. Set "
            "TMPDIR to a directory with a shorter path, for the server and its clients alike."
        )
    return path


def publish(directory: str, about: About) -> None:
    """Says where the server is, in one step."""
    path = os.path.join(directory, ABOUT)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(about._asdict(), file)
    os.replace(path + ".new", path)


def withdraw(directory: str, about: About) -> None:
    """Takes back what was published, unless another server has published since: then the sockets
    are its own."""
    if server_of(directory) not in (None, about):
        return
    for path in (os.path.join(directory, ABOUT), about.socket, about.mcp):
        with suppress(FileNotFoundError):
            os.unlink(path)


class Owner:
    """The owner's token: whoever can read it could write the log's file as well. It stands for no
    sender, and is kept apart from the credentials of those who act."""

    def __init__(self, directory: str) -> None:
        kept = owner_token(directory)
        self.token = kept if kept is not None else _new_token(os.path.join(directory, OWNER))

    def is_shown(self, token: str) -> bool:
        return compare_digest(token.encode(), self.token.encode())

    @property
    def key(self) -> bytes:
        """A secret for what the dashboard gives to browsers; a new token makes it void."""
        return hashlib.sha256(b"interlock dashboard " + self.token.encode()).digest()


def _new_token(path: str) -> str:
    token = token_format.compose(os.urandom(token_format.SECRET_BYTES))
    draft = f"{path}.{os.getpid()}"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
        json.dump({"token": token}, file)
    os.replace(draft, path)
    return token
