"""Links to a node: through the server of a workspace, or directly to the workspace's file.

A link makes requests, and gives the same answers and refusals both ways. Commands and hooks start
hundreds of times a day, so the link to a server imports little. `_socket` is the C part of
`socket`, and is enough for one exchange.
"""

import _thread
import errno
import json
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from interlock import __version__
from interlock.errors import (
    SAME_KEY,
    BadToken,
    EngineUnavailable,
    Internal,
    NotAWorkspace,
    Usage,
    by_code,
)
from interlock.verbs import Record
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials
from interlock.verbs.http import SEEN_HEADER, HttpRequest, encode

if TYPE_CHECKING:
    from interlock.node import Node


ABOUT = "server.json"
LOCK = "server.lock"
PATIENCE_S = 60.0
# After this time without an answer to a read, the link tests whether the server hangs.
QUIET_S = 5.0
MAX_BYTES = 1 << 20
SHORT = 1 << 18
MAX_HEADER_LENGTH = 1 << 13
BARRED = (errno.EACCES, errno.EPERM, errno.EROFS)
# A process that creates a workspace writes these files, in addition to those of `log.db`.
NEW_FILES = ("turnstile.queue", "turnstile.turn", "bells", "keys", "server.lock", "server.log")


class Link:
    """A link to a workspace. `place` is its directory or URL. `home` is the directory with the
    credentials."""

    place: str
    home: str
    is_local: bool

    def open(self) -> None:
        """Create the workspace if it does not exist. Raise NotAWorkspace or EngineUnavailable."""

    def call(self, credentials: Credentials, request: Any) -> Answer:
        """Make the request, and return its answer. Raise the refusals of `errors`."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the workspace's file, if this link has opened it."""


class About(Record):
    """The record that a server writes into its workspace's directory."""

    pid: int
    url: str
    socket: str
    mcp: str
    version: str
    host: str | None = None
    port: int | None = None
    proxies: list[str] | None = None


def server_of(directory: str) -> About | None:
    """Return the record of a workspace's server. Only a call shows whether the server still
    runs."""
    try:
        with open(os.path.join(directory, ABOUT), encoding="utf-8") as file:
            record = json.load(file)
        return About(**{name: record[name] for name in About._fields if name in record})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def matching_server(directory: str) -> About | None:
    """Return the server of a workspace, if it has this version. A server of another version may
    use another protocol. The caller then uses the file, concurrently with that server."""
    about = server_of(directory)
    return about if about is not None and about.version == __version__ else None


def is_served(directory: str) -> bool:
    """Return whether a server holds the workspace's lock. It also does while it starts or ends."""
    import fcntl

    try:
        lock = os.open(os.path.join(directory, LOCK), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


class LocalLink(Link):
    """A link to a workspace on this machine. The first call finds out whether a server runs."""

    is_local = True

    def __init__(self, directory: str) -> None:
        self.place = self.home = directory
        self._server = matching_server(directory)
        self._is_barred = False
        # The process id of a server that hangs.
        self.silent: int | None = None
        self._node: Node | None = None
        self._opening = _thread.allocate_lock()

    def open(self) -> None:
        if self._server is None:
            self._opened()

    def call(self, credentials: Credentials, request: Any) -> Answer:
        server = self._server
        if self._node is None and server is not None:
            if (answer := _in_steps(self, credentials, request)) is not None:
                return answer
            # The link notices at once if a server on this machine ends, so a verb that reads the
            # whole log needs no timeout.
            patience_s = None if request.declared.unbounded else patience(request)
            sent = request
            if patience_s is not None and getattr(request, "until_ms", 0) is None:
                sent = request._replace(until_ms=int((time.monotonic() + patience_s) * 1000))
            http_request = encoded(credentials, sent)
            is_read = http_request.method == "GET"
            try:
                return decoded(*_exchange(server.socket, http_request, patience_s, is_read=is_read))
            except NoServer as absent:
                self._server, self._is_barred = None, isinstance(absent, Barred)
            except OSError as trouble:
                if isinstance(trouble, TimeoutError):
                    self.silent = server.pid
                if not is_read:
                    raise unknown_server_outcome(trouble) from None
                self._server = None
        try:
            return self._opened().call(credentials, request)
        except EngineUnavailable as trouble:
            may_use = os.access(self.place, os.R_OK | os.W_OK | os.X_OK)
            if self._is_barred or (os.path.isdir(self.place) and not may_use):
                raise shut_out(self.place, trouble.message) from None
            raise

    def _opened(self) -> "Node":
        """Return the workspace's node in this process. Create it on first use."""
        with self._opening:
            if self._node is None:
                self._node = open_node(self.place)
            return self._node

    def close(self) -> None:
        if self._node is not None:
            self._node.close()


class RemoteLink(Link):
    """A link to a server by its URL."""

    is_local = False

    def __init__(self, url: str, home: str) -> None:
        self.place, self.home = url, home
        scheme, _, rest = url.partition("://")
        self._host, _, path = rest.partition("/")
        self._path = f"/{path}".rstrip("/")
        if scheme not in ("http", "https") or not self._host or "@" in self._host:
            raise Usage(f"{url[:200]!r} is not the URL of a server. Example: http://127.0.0.1:7420")
        self._is_secure = scheme == "https"
        self._seen = 0

    def call(self, credentials: Credentials, request: Any) -> Answer:
        import http.client

        if (answer := _in_steps(self, credentials, request)) is not None:
            return answer
        http_request = encoded(credentials, request)
        kind = http.client.HTTPSConnection if self._is_secure else http.client.HTTPConnection
        try:
            connection = kind(self._host, timeout=patience(request))
            connection.connect()
        except (OSError, ValueError, http.client.HTTPException) as trouble:
            raise EngineUnavailable(f"Cannot reach {self.place}: {trouble}.") from None
        try:
            target = self._path + http_request.target
            headers = http_request.headers | seen_headers(self._seen)
            connection.request(http_request.method, target, http_request.body or None, headers)
            response = connection.getresponse()
            self._seen = max(self._seen, seen_in(response.getheader(SEEN_HEADER)))
            return decoded(response.status, response.read())
        except (OSError, http.client.HTTPException) as trouble:
            if http_request.method != "GET":
                raise unknown_server_outcome(trouble) from None
            raise EngineUnavailable(
                f"{self.place} did not answer like an Interlock server: {trouble!r}."
            ) from None
        finally:
            connection.close()


def open_node(
    directory: str,
    *,
    adopt: bool = False,
    engine: str | None = None,
    key: bytes | None = None,
    is_repair: bool = False,
) -> "Node":
    """Open the node of a workspace. Create the workspace if it does not exist. Raise NotAWorkspace
    for a directory that contains other files."""
    try:
        os.makedirs(directory, 0o700, exist_ok=True)
        others = [name for name in os.listdir(directory) if name not in NEW_FILES]
        is_foreign = any(not name.startswith("log.db") for name in others if name != "engine.json")
        known = (os.path.join(directory, name) for name in ("log.db", "engine.json"))
        if is_foreign and not any(map(os.path.exists, known)):
            raise NotAWorkspace(
                f"{directory} contains other files and no workspace. It was not changed. Name an "
                "empty or a new directory."
            )
    except FileExistsError:
        raise NotAWorkspace(
            f"{directory} is a file, but a workspace must be a directory."
        ) from None
    except OSError as trouble:
        why = f"Cannot use the workspace {directory}: {trouble.strerror}."
        is_barred = trouble.errno in BARRED and not os.path.isdir(directory)
        raise (shut_out(directory, why) if is_barred else EngineUnavailable(why)) from None
    from interlock.node import Node

    return Node(directory, adopt=adopt, engine=engine, key=key, is_repair=is_repair)


def shut_out(place: str, why: str) -> EngineUnavailable:
    return EngineUnavailable(
        f"{why} If this shell is sandboxed, the sandbox may block the server's socket and the "
        f"files in {place}. Use your client's Interlock tools (MCP), which run outside of the "
        "sandbox, or ask a person to allow that directory. To use another workspace: --workspace "
        "DIR. Meanwhile, interlock evidence run stores a run in a file.",
    )


def unknown_server_outcome(trouble: Exception) -> EngineUnavailable:
    """Return the refusal for a request that was sent but got no answer."""
    why = f"closed the connection before it answered ({trouble})"
    if isinstance(trouble, TimeoutError):
        why = "does not answer (to find out why: interlock doctor)"
    return EngineUnavailable(
        f"The server {why}. The outcome is unknown: the server may have executed the request, or "
        "may still execute it.",
        SAME_KEY,
        outcome="unknown",
    )


# --- one exchange


class NoServer(Exception):
    """No server listens, so the request was not sent."""


class Barred(NoServer):
    """A server may listen, but this process has no permission to connect."""


def connected(path: str) -> Any:
    """Connect to a server's socket. Raise `NoServer` if no server listens."""
    import _socket

    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.connect(path)
    except OSError as trouble:
        connection.close()
        if trouble.errno in (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTSOCK):
            raise NoServer from None
        if trouble.errno in BARRED:
            raise Barred from None
        raise
    return connection


def is_hanging(path: str) -> bool:
    """Return whether a server does not even answer a trivial request. The kernel still accepts
    connections for a hanging server."""
    try:
        _exchange(path, HttpRequest("GET", "/healthz", {}, b""), QUIET_S, is_read=False)
    except TimeoutError:
        return True
    except (OSError, NoServer):
        return False
    return False


def _exchange(
    path: str, request: HttpRequest, patience_s: float | None, *, is_read: bool
) -> tuple[int, bytes]:
    """Make one request over the server's socket. With HTTP/1.0, the end of the connection ends the
    answer. A read waits longer than `QUIET_S` only if the server does not hang."""
    headers = request.headers | {"Content-Length": str(len(request.body))}
    lines = [f"{request.method} {request.target} HTTP/1.0", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join([*lines, "", ""]).encode()
    connection = connected(path)
    try:
        connection.settimeout(QUIET_S if is_read else patience_s)
        with suppress(BrokenPipeError, ConnectionResetError):
            # If a server refuses a request early, it may have answered and closed the connection.
            connection.sendall(head + request.body)
        received = bytearray()
        if is_read:
            try:
                received += connection.recv(MAX_BYTES)
            except TimeoutError:
                if is_hanging(path):
                    raise
            connection.settimeout(patience_s)
        while chunk := connection.recv(MAX_BYTES):
            received += chunk
    finally:
        connection.close()
    head, separator, body = bytes(received).partition(b"\r\n\r\n")
    if not separator or f"content-length: {len(body)}\r\n".encode() not in head.lower() + b"\r\n":
        raise ConnectionResetError("the connection was closed")
    return int(head[9:12]), body


def _in_steps(link: Link, credentials: Credentials, request: Any) -> Answer | None:
    """Return the answer to a verb that takes several requests; None for other verbs. For a short
    payload, this function does not import the verbs."""
    payload = getattr(request, "payload", None)
    if not isinstance(payload, dict):
        return None
    if not any(isinstance(text, str) and len(text) > SHORT for text in payload.values()):
        return None
    from interlock.rooms.mail.message_types import is_large
    from interlock.rooms.mail.uploads import send
    from interlock.rooms.mail.verbs import SendMessage
    from interlock.verbs.flows import run

    if not isinstance(request, SendMessage) or not is_large(request.type, request.payload):
        return None
    answer: Answer = run(send(request), lambda step: link.call(credentials, step))
    return answer


def seen_headers(seen: int) -> dict[str, str]:
    """Return the header with the last position that the client has seen, so that the client reads
    its own writes on any node."""
    return {SEEN_HEADER: str(seen)} if seen else {}


def seen_in(header: str | None) -> int:
    return int(header) if header and header.isascii() and header.isdigit() else 0


def encoded(credentials: Credentials, request: Any) -> HttpRequest:
    """Return the HTTP request for a verb. Validate here a request that may not reach its route on
    the server, because its path has another meaning or the request is too long."""
    try:
        http_request = encode(credentials, request)
    except UnicodeEncodeError:
        _check(credentials, request)
        raise Usage("The request contains text that is not valid Unicode.") from None
    target = http_request.target
    longest = max(map(len, [target, *http_request.headers.values()]))
    is_long = longest > MAX_HEADER_LENGTH or len(http_request.body) > SHORT
    if is_long or "%2F" in target or "//" in target or target.endswith("/"):
        _check(credentials, request)
    return http_request


def _check(credentials: Credentials, request: Any) -> None:
    from interlock.rooms.identity.token_format import hashed
    from interlock.verbs.addresses import unicode
    from interlock.verbs.types import SESSION_ID
    from interlock.verbs.verb import validated

    validated(request)
    if credentials.session is not None:
        SESSION_ID.check("session", credentials.session)
    token = credentials.token
    if token is not None and (len(token) > MAX_HEADER_LENGTH or not unicode(token)):
        hashed(token)
        raise BadToken


def decoded(status: int, body: bytes) -> Answer:
    """Return the answer, or raise the refusal in an error object."""
    try:
        answer: Answer = json.loads(body)
        if status == 200:
            return answer
        fixed = ("error", "code", "message")
        members = {name: value for name, value in answer.items() if name not in fixed}
        try:
            kind = by_code(answer["code"])
        except KeyError:
            raise Internal(f"{answer['code']}: {answer['message']}", **members) from None
        raise kind(answer["message"], **members)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise EngineUnavailable(
            f"The server that answered (status {status}) is not an Interlock server, or has "
            "another version."
        ) from None


def patience(request: Any) -> float:
    wait_s = getattr(request, "wait_s", None)
    return PATIENCE_S + (wait_s if isinstance(wait_s, int) else 0)
