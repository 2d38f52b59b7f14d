"""Commands that start and end the server."""

import os
import signal
import sys
import time
from contextlib import suppress
from typing import NoReturn

from interlock.doors.cli.context import Context, absolute
from interlock.doors.cli.grammar import command
from interlock.errors import EngineUnavailable, Usage
from interlock.local.link import About, is_hanging, is_served, server_of
from interlock.local.workspace import dashboard
from interlock.machine.hosts import proxy, public_url
from interlock.verbs.answers import Answer
from interlock.verbs.types import Integer

ENDS_WITHIN_S = 20.0
STARTS_WITHIN_S = 10.0
POLL_INTERVAL_S = 0.05
MAX_KEY_LENGTH = 1 << 10


@command(
    "up [--host H] [--port P] [--public-url URL] [--proxy ADDRESS...] [--engine URL] [--key FILE] "
    "[--detach]",
    help={
        "host": "the address to serve; 127.0.0.1 if absent: this machine alone",
        "port": ("the port; 7420 if absent", Integer(0, 65535)),
        "public_url": "the address of a TLS proxy before it, such as https://…",
        "proxy": "the proxy's source address or network (default: this machine)",
        "engine": "where the log is kept; the embedded file if absent",
        "key": "the key of a workspace that exists on that engine",
        "detach": "start it in the background, and return when it is ready",
    },
    examples=("interlock up --detach # ends with: interlock down",),
)
def up(context: Context) -> Answer | int:
    """Start the server, with its dashboard.

    Commands, hooks and MCP clients on this machine find the server by themselves, and work without
    it too.
    """
    directory = _directory(context)
    outside, proxies = _proxied(context)
    _refuse_strange_engine(context.get("engine"), context.get("key"))
    if is_served(directory):
        _refuse_unlike(context, directory, outside, proxies)
        return {"up": True, "started": False} | _described(directory)
    words = [sys.executable, "-P", "-m", "interlock.server", "--workspace", directory]
    given = {"host": context.get("host"), "port": context.get("port"), "public-url": outside}
    if (key := context.get("key")) is not None:
        given["key"] = absolute(key)
    words += [f"--{name}={value}" for name, value in given.items() if value is not None]
    words += [f"--proxy={address}" for address in proxies]
    if context.json:
        words.append("--json")
    handed = [] if (engine := context.get("engine")) is None else [_handed(engine)]
    words += [f"--engine-fd={file}" for file in handed]
    return _detached(words, handed) if context.get("detach") else become(words)


def _handed(engine: str) -> int:
    """A pipe that holds the engine's URL: everybody on the machine may read a command line, and
    there may be a password in it."""
    reading, writing = os.pipe()
    with open(writing, "wb") as pipe:
        pipe.write(os.fsencode(engine))
    os.set_inheritable(reading, True)
    return reading


def _proxied(context: Context) -> tuple[str | None, list[str]]:
    """The address of a proxy before the server, and where that asks from."""
    url, named = context.get("public_url"), context.get("proxy") or []
    if named and url is None:
        raise Usage("--proxy goes with --public-url, which says the address of that proxy.")
    return (None if url is None else public_url(url)), [proxy(each) for each in named]


def _refuse_strange_engine(url: str | None, key: str | None) -> None:
    if url is None and key is None:
        return
    from interlock.node.opening import refuse_strange

    refuse_strange(url, None if key is None else _key(absolute(key)))


def _key(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(MAX_KEY_LENGTH)
    except (OSError, ValueError) as trouble:
        raise Usage(f"--key names a file that cannot be read ({trouble}).") from None


def _refuse_unlike(
    context: Context, directory: str, outside: str | None, proxies: list[str]
) -> None:
    """Refuses where the server that runs is not as it is wished for, or answers nobody."""
    about = server_of(directory)
    if about is None:
        return
    if is_hanging(about.socket):
        raise EngineUnavailable(
            f"A server runs for {directory} (process {about.pid}) and does not answer. End it with "
            f"kill -9 {about.pid}, and start it again."
        )
    unlike = _unlike(context, directory, about)
    if outside is not None and outside != about.url:
        unlike.append(f"--public-url {outside}")
    if proxies and about.proxies not in (None, proxies):
        unlike.append(f"--proxy {' --proxy '.join(proxies)}")
    if unlike:
        raise Usage(
            f"A server runs at {about.url} for {directory} already, and not with "
            f"{', '.join(unlike)}. To have it so: interlock down, then this again.",
            url=about.url,
            pid=about.pid,
        )


def _unlike(context: Context, directory: str, about: About) -> list[str]:
    """What was wished for and is not so. A server of an older release did not say."""
    found = []
    if (host := context.get("host")) is not None and about.host not in (None, host):
        found.append(f"--host {host}")
    if (port := context.get("port")) and about.port not in (None, port):
        found.append(f"--port {port}")
    if (engine := context.get("engine")) is not None:
        from interlock.node.opening import is_engine_of

        found += [] if is_engine_of(directory, engine) else ["that --engine"]
    return found


def become(words: list[str]) -> NoReturn:
    os.execv(words[0], words)  # noqa: S606 - this process is our own module from here on


def _detached(words: list[str], handed: list[int]) -> int:
    """Starts the server in a session of its own, and returns when it is ready or has failed. It
    says so itself: until then it has our terminal."""
    import subprocess

    ready, starting = os.pipe()
    server = subprocess.Popen(  # noqa: S603 - our own module
        [*words, "--ready-fd", str(starting)],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=[starting, *handed],
    )
    for file in (starting, *handed):
        os.close(file)
    return 0 if os.read(ready, 1) else server.wait()


@command("down")
def down(context: Context) -> Answer:
    """End the server that runs for the workspace."""
    # A server that is just starting is ended as soon as it says where it is.
    directory = _directory(context)
    pid: int | None = None
    begun = time.monotonic()
    while is_served(directory) or _running(directory):
        waited_s = time.monotonic() - begun
        found = _found(directory, waited_s)
        if found is not None and found != pid:
            pid = found
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        if waited_s > ENDS_WITHIN_S:
            raise _does_not_end(directory, pid)
        time.sleep(POLL_INTERVAL_S)
    return {"stopped": False} if pid is None else {"stopped": True, "pid": pid}


def _found(directory: str, waited_s: float) -> int | None:
    """The server to be ended: the one that says where it is, else, unless it may be starting, the
    one that was started last."""
    is_held = is_served(directory)
    if is_held and (about := server_of(directory)) is not None:
        return about.pid
    if is_held and waited_s < STARTS_WITHIN_S:
        return None
    return next(reversed(_running(directory)), None)


def _running(directory: str) -> list[int]:
    """The servers of a workspace, whether or not commands find them. Another container's have
    other numbers there."""
    from interlock.machine.processes import space
    from interlock.node.servers import running

    return [serving.pid for serving in running(directory) if serving.space == space()]


def _does_not_end(directory: str, pid: int | None) -> EngineUnavailable:
    which = f"kill -9 {pid}" if pid else "kill -9 and the number of its process"
    return EngineUnavailable(
        f"The server{f' (process {pid})' if pid else ''} does not end. See server.log in "
        f"{directory}, and end it with {which}."
    )


def _directory(context: Context) -> str:
    place = context.place
    if "://" in place:
        raise Usage("A server is started and ended on its own machine.")
    return place


def _described(directory: str) -> Answer:
    about = server_of(directory)
    if about is None:
        return {"directory": directory}
    link = dashboard(about.url, directory)
    return {"url": about.url, "pid": about.pid, "directory": directory, "dashboard": link}
