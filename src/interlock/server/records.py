"""The files of a server in its workspace's directory: its lock, its address, the owner's token, and
its log."""

import fcntl
import hashlib
import json
import logging
import os
import tempfile
import time
from contextlib import suppress
from hmac import compare_digest
from logging.handlers import RotatingFileHandler
from typing import Any

from interlock.errors import EngineUnavailable
from interlock.local.link import ABOUT, LOCK, About, server_of
from interlock.local.workspace import OWNER, owner_token
from interlock.rooms.identity import token_format

LOG = "server.log"
LARGEST = 10 << 20
# The kernel's own limit is 108 bytes on Linux and 104 on macOS.
MAX_SOCKET_PATH_BYTES = 100
CHECKS_END_WITHIN_S = 0.5


def lock(directory: str) -> int | None:
    """Take the lock of the workspace's server until the process ends. Return None if another server
    has it. A command that checks for a server holds the lock for a moment, so wait a little. Remove
    the address that a killed server left."""
    held = os.open(os.path.join(directory, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + CHECKS_END_WITHIN_S
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
    """Return the path of a socket in the workspace. If that is too long for a socket, return a path
    in a private temporary directory of the user."""
    path = os.path.join(directory, name)
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES:
        return path
    short = hashlib.sha256(os.fsencode(os.path.realpath(directory))).hexdigest()[:16]
    apart = os.path.join(tempfile.gettempdir(), f"interlock-{os.getuid()}")
    os.makedirs(apart, 0o700, exist_ok=True)
    found = os.stat(apart)
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise EngineUnavailable(f"Another user can access {apart}. Make it yours, with mode 0700.")
    path = os.path.join(apart, f"{short}-{name}")
    if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
        raise EngineUnavailable(
            f"The paths of the workspace and of {apart} are both too long for a socket. Set "
            "TMPDIR to a directory with a shorter path, for the server and for its clients."
        )
    return path


def publish(directory: str, about: About) -> None:
    """Write the server's address atomically."""
    path = os.path.join(directory, ABOUT)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(about._asdict(), file)
    os.replace(path + ".new", path)


def withdraw(directory: str, about: About) -> None:
    """Remove the server's address and sockets, unless another server has published since and owns
    the sockets now."""
    if server_of(directory) not in (None, about):
        return
    for path in (os.path.join(directory, ABOUT), about.socket, about.mcp):
        with suppress(FileNotFoundError):
            os.unlink(path)


class Owner:
    """The owner's token. A user who can read it can also write the log's file. It belongs to no
    sender, and is stored apart from the credentials of senders."""

    def __init__(self, directory: str) -> None:
        kept = owner_token(directory)
        if kept is None:
            kept = token_format.compose(os.urandom(token_format.SECRET_BYTES))
            path = os.path.join(directory, OWNER)
            draft = f"{path}.{os.getpid()}"
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
                json.dump({"token": kept}, file)
            os.replace(draft, path)
        self.token = kept

    def is_shown(self, token: str) -> bool:
        return compare_digest(token.encode(), self.token.encode())

    @property
    def key(self) -> bytes:
        """The key that seals the dashboard's cookies. A new token invalidates them."""
        return hashlib.sha256(b"interlock dashboard " + self.token.encode()).digest()


_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """Writes one JSON object per line, without tokens and without the texts of senders."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "log": record.name,
            "event": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure_log(path: str, level: str = "INFO") -> None:
    """Log everything into the file, and start a new file when it has `LARGEST` bytes."""
    handler = RotatingFileHandler(path, maxBytes=LARGEST, backupCount=1, encoding="utf-8")
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for noisy in ("uvicorn.error", "mcp", "asyncio"):
        logging.getLogger(noisy).setLevel("WARNING")
