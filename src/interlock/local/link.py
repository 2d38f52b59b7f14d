"""The way to a node: through the server that runs for a workspace, or straight to its file.

Whoever has a link asks for acts and gets answers and refusals, the same either way. The way
through a server needs few imports, because commands and hooks are started hundreds of times a day:
`_socket` is the part of `socket` that is written in C, and all that one exchange needs.
"""

import _thread
import errno
import json
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from interlock import __version__
from interlock.errors import (
    BadToken,
    EngineUnavailable,
    Internal,
    NotAWorkspace,
    Refusal,
    Usage,
    by_code,
)
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials
from interlock.verbs.http import SEEN_HEADER, Request, encode

if TYPE_CHECKING:
    import http.client

    from interlock.node import Node


ABOUT = "server.json"
LOCK = "server.lock"
PATIENCE_S = 60.0
# So long an answer may take before whoever only looks wonders whether the server hangs.
QUIET_S = 5.0
MAX_BYTES = 1 << 20
SHORT = 1 << 18
MAX_HEADER_LENGTH = 1 << 13
BARRED = (errno.EACCES, errno.EPERM, errno.EROFS)


class Link(Protocol):
    """`place` is the directory or the URL; `home` the directory whose credentials are used."""

    place: str
    home: str
    is_local: bool

    def open(self) -> None:
        """Makes the workspace where there is none, or refuses to."""

    def call(self, credentials: Credentials, act: Any) -> Answer:
        """Does what is asked; raises the refusals of `errors`."""

    def close(self) -> None:
        """Lets go of the file, where it was opened."""


class About(NamedTuple):
    """What a server says of itself in its workspace's directory."""

    pid: int
    url: str
    socket: str
    mcp: str
    version: str
    host: str | None = None
    port: int | None = None
    proxies: list[str] | None = None


def server_of(directory: str) -> About | None:
    """The server that says it runs for a workspace; whether it does, a call shows."""
    try:
        with open(os.path.join(directory, ABOUT), encoding="utf-8") as file:
            said = json.load(file)
        return About(**{name: said[name] for name in About._fields if name in said})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_served(directory: str) -> bool:
    """Whether a server holds the workspace's lock, be it only starting or ending."""
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


class LocalLink:
    """A workspace on this machine. The first call finds out whether a server runs."""

    is_local = True

    def __init__(self, directory: str) -> None:
        self.place = self.home = directory
        # One of another version may speak otherwise: then the file is used, beside it.
        about = server_of(directory)
        self._server = about if about is not None and about.version == __version__ else None
        self._is_barred = False
        # The process of a server that was asked, and does not answer anybody.
        self.silent: int | None = None
        self._node: Node | None = None
        self._opening = _thread.allocate_lock()

    def open(self) -> None:
        if self._server is None:
            self._opened()

    def call(self, credentials: Credentials, act: Any) -> Answer:
        server = self._server
        if self._node is None and server is not None:
            if _is_large(act):
                return _in_steps(self, credentials, act)
            patience_s = _patience_here(act)
            request = encoded(credentials, _while_here(act, patience_s))
            try:
                looks = request.method == "GET"
                return decoded(*_exchange(server.socket, request, patience_s, looks=looks))
            except NobodyThere as nobody:
                self._server, self._is_barred = None, isinstance(nobody, Barred)
            except OSError as trouble:
                if isinstance(trouble, TimeoutError):
                    self.silent = server.pid
                if request.method != "GET":
                    raise lost(trouble) from None
                self._server = None
        try:
            return self._opened().call(credentials, act)
        except EngineUnavailable as trouble:
            if self._is_barred or not is_open(self.place):
                raise shut_out(self.place, trouble.message) from None
            raise

    def _opened(self) -> "Node":
        """The workspace's node in this process, made on first use."""
        with self._opening:
            if self._node is None:
                self._node = open_node(self.place)
            return self._node

    def close(self) -> None:
        if self._node is not None:
            self._node.close()


class RemoteLink:
    """A server somewhere else, by its URL."""

    is_local = False

    def __init__(self, url: str, home: str) -> None:
        self.place, self.home = url, home
        secure, _, rest = url.partition("://")
        self._host, _, path = rest.partition("/")
        self._path = f"/{path}".rstrip("/")
        if secure not in ("http", "https") or not self._host or "@" in self._host:
            raise Usage(f"{url[:200]!r} is not a server's address, such as http://127.0.0.1:7420")
        self._secure = secure == "https"
        self._seen = 0

    def open(self) -> None:
        return

    def call(self, credentials: Credentials, act: Any) -> Answer:
        import http.client

        if _is_large(act):
            return _in_steps(self, credentials, act)
        request = encoded(credentials, act)
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        try:
            connection = kind(self._host, timeout=patience(act))
            connection.connect()
        except (OSError, ValueError, http.client.HTTPException) as trouble:
            raise EngineUnavailable(f"{self.place} cannot be reached: {trouble}.") from None
        try:
            return self._asked(connection, request)
        except (OSError, http.client.HTTPException) as trouble:
            if request.method != "GET":
                raise lost(trouble) from None
            raise EngineUnavailable(
                f"{self.place} does not answer as an Interlock server does ({trouble!r})."
            ) from None

    def _asked(self, connection: "http.client.HTTPConnection", request: Request) -> Answer:
        try:
            target = self._path + request.target
            headers = request.headers | seen_headers(self._seen)
            connection.request(request.method, target, request.body or None, headers)
            response = connection.getresponse()
            self._seen = max(self._seen, seen_in(response.getheader(SEEN_HEADER)))
            return decoded(response.status, response.read())
        finally:
            connection.close()

    def close(self) -> None:
        return


def open_node(
    directory: str,
    *,
    adopt: bool = False,
    engine: str | None = None,
    key: bytes | None = None,
    is_repair: bool = False,
) -> "Node":
    """The node of a workspace, made if there is none. A directory that holds something else is
    left alone."""
    try:
        os.makedirs(directory, 0o700, exist_ok=True)
        known = (os.path.join(directory, name) for name in ("log.db", "engine.json"))
        if _foreign(directory) and not any(map(os.path.exists, known)):
            raise NotAWorkspace(
                f"{directory} holds other files and no workspace, and was left alone. Name an "
                "empty or a new directory."
            )
    except FileExistsError:
        raise NotAWorkspace(f"{directory} is a file, and a workspace is a directory.") from None
    except OSError as trouble:
        why = f"The workspace {directory} cannot be used: {trouble.strerror}."
        is_barred = trouble.errno in BARRED and not os.path.isdir(directory)
        raise (shut_out(directory, why) if is_barred else EngineUnavailable(why)) from None
    from interlock.node import Node

    return Node(directory, adopt=adopt, engine=engine, key=key, is_repair=is_repair)


def _foreign(directory: str) -> bool:
    """Whether anything is there but what a process making the workspace just now has put there."""
    ours = {"turnstile.queue", "turnstile.turn", "bells", "keys", "server.lock", "server.log"}
    ours |= {"engine.json"}
    names = os.listdir(directory)
    return any(name not in ours and not name.startswith("log.db") for name in names)


# --- one exchange


class NobodyThere(Exception):
    """No server listens: nothing was asked of anybody."""


class Barred(NobodyThere):
    """A server may listen, and we may not talk to it."""


def connected(path: str) -> Any:
    """A connection to a server's socket; `NobodyThere` where nobody listens."""
    import _socket

    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.connect(path)
    except OSError as trouble:
        connection.close()
        if trouble.errno in (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTSOCK):
            raise NobodyThere from None
        if trouble.errno in BARRED:
            raise Barred from None
        raise
    return connection


def is_open(directory: str) -> bool:
    """Whether a workspace's files may be used here, or there is no such directory yet."""
    may = os.R_OK | os.W_OK | os.X_OK
    return os.access(directory, may) or not os.path.isdir(directory)


def shut_out(place: str, why: str) -> EngineUnavailable:
    return EngineUnavailable(
        f"{why} If this shell is sandboxed, it may use neither the server's socket nor the files "
        f"in {place}: use your client's own Interlock tools (MCP), which run outside of it, or "
        "have a person allow that directory. Another workspace is named with --workspace. "
        "interlock evidence run keeps a run in a file meanwhile.",
    )


def is_hanging(path: str) -> bool:
    """Whether a server does not answer even what costs it nothing. It takes connections still: the
    system does so for it."""
    try:
        _exchange(path, Request("GET", "/healthz", {}, b""), QUIET_S, looks=False)
    except TimeoutError:
        return True
    except (OSError, NobodyThere):
        return False
    return False


def _exchange(
    path: str, request: Request, patience_s: float | None, *, looks: bool
) -> tuple[int, bytes]:
    """One request over the server's socket. HTTP/1.0: the answer ends where the connection does.
    What only `looks` is not waited for where the server answers nobody."""
    with_length = request.headers | {"Content-Length": str(len(request.body))}
    lines = [f"{request.method} {request.target} HTTP/1.0", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in with_length.items()]
    head = "\r\n".join([*lines, "", ""]).encode()
    connection = connected(path)
    try:
        connection.settimeout(QUIET_S if looks else patience_s)
        with suppress(BrokenPipeError, ConnectionResetError):
            # A server that refuses what it has seen of a request may have answered already.
            connection.sendall(head + request.body)
        received = bytearray(_first(connection, path, patience_s) if looks else b"")
        while chunk := connection.recv(MAX_BYTES):
            received += chunk
    finally:
        connection.close()
    head, separator, body = bytes(received).partition(b"\r\n\r\n")
    if not separator or f"content-length: {len(body)}\r\n".encode() not in head.lower() + b"\r\n":
        raise ConnectionResetError("the connection was closed")
    return int(head[9:12]), body


def _first(connection: Any, path: str, patience_s: float | None) -> bytes:
    """What comes first, which takes long only where the server is alive."""
    try:
        return bytes(connection.recv(MAX_BYTES))
    except TimeoutError:
        if is_hanging(path):
            raise
    finally:
        connection.settimeout(patience_s)
    return b""


def _is_large(act: Any) -> bool:
    """Whether it takes several requests. What is short says no without importing the verbs."""
    payload = getattr(act, "payload", None)
    if not isinstance(payload, dict):
        return False
    if not any(isinstance(text, str) and len(text) > SHORT for text in payload.values()):
        return False
    from interlock.rooms.mail.uploads import is_large

    return is_large(act)


def _in_steps(link: Link, credentials: Credentials, act: Any) -> Answer:
    from interlock.rooms.mail.uploads import send
    from interlock.verbs.flows import run

    return run(send(act), lambda step: link.call(credentials, step))


def seen_headers(seen: int) -> dict[str, str]:
    """What tells a node how far the one before it was, so that nobody misses their own writes."""
    return {SEEN_HEADER: str(seen)} if seen else {}


def seen_in(header: str | None) -> int:
    return int(header) if header and header.isascii() and header.isdigit() else 0


def encoded(credentials: Credentials, act: Any) -> Request:
    """The request for an act. What would go astray on the way is checked here, as it is there."""
    try:
        request = encode(credentials, act)
    except UnicodeEncodeError:
        _checked(act)
        _credible(credentials)
        raise Usage("What was given is not text that UTF-8 can hold.") from None
    if _may_go_astray(request):
        _checked(act)
        _credible(credentials)
    return request


def _may_go_astray(request: Request) -> bool:
    """Whether its path leads elsewhere, or it is longer than a server takes."""
    target = request.target
    longest = max(map(len, [target, *request.headers.values()]))
    is_long = longest > MAX_HEADER_LENGTH or len(request.body) > SHORT
    return is_long or "%2F" in target or "//" in target or target.endswith("/")


def _credible(credentials: Credentials) -> None:
    """What is too long to be a token or a session, or is no text, is neither."""
    from interlock.rooms.identity.token_format import hashed
    from interlock.verbs.addresses import unicode
    from interlock.verbs.types import SESSION_ID

    if credentials.session is not None:
        SESSION_ID.check("session", credentials.session)
    token = credentials.token
    if token is not None and (len(token) > MAX_HEADER_LENGTH or not unicode(token)):
        hashed(token)
        raise BadToken


def _checked(act: Any) -> None:
    from interlock.verbs.verb import validated

    validated(act)


def decoded(status: int, body: bytes) -> Answer:
    """The answer, or the refusal, raised."""
    try:
        answer: Answer = json.loads(body)
        if status == 200:
            return answer
        raise refusal_of(answer)
    except (ValueError, KeyError, TypeError):
        raise EngineUnavailable(
            f"What answered (status {status}) is not an Interlock server, or one of another "
            "version."
        ) from None


def refusal_of(error: Answer) -> Refusal:
    """The refusal behind an error object."""
    members = {name: value for name, value in error.items() if name not in _FIXED}
    try:
        kind = by_code(error["code"])
    except KeyError:
        return Internal(f"{error['code']}: {error['message']}", **members)
    return kind(error["message"], **members)


_FIXED = ("error", "code", "message")


def patience(act: Any) -> float:
    wait_s = getattr(act, "wait_s", None)
    return PATIENCE_S + (wait_s if isinstance(wait_s, int) else 0)


def _patience_here(act: Any) -> float | None:
    """On this machine a server that has gone is noticed at once, and work on the whole log may
    take as long as it takes."""
    return None if act.declared.unbounded else patience(act)


def _while_here(act: Any, patience_s: float | None) -> Any:
    """With the moment after which we do not wait any longer, where it matters to the act."""
    if patience_s is None or getattr(act, "until_ms", 0) is not None:
        return act
    return act._replace(until_ms=int((time.monotonic() + patience_s) * 1000))


def lost(trouble: Exception) -> EngineUnavailable:
    """For an act that was sent, of which nobody said what became of it."""
    if isinstance(trouble, TimeoutError):
        what = "does not answer (see interlock doctor), and may have done what was asked, or yet do"
        what += " it."
    else:
        what = f"went away before it answered ({trouble}), and may have done what was asked."
    return EngineUnavailable(
        f"The server {what} Look, or try again with the same --key, which does it at most once.",
        outcome="unknown",
    )
