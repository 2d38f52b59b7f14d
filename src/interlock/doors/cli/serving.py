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
from interlock.local.link import is_hanging, is_served, server_of
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
    outside, named = context.get("public_url"), context.get("proxy") or []
    if named and outside is None:
        raise Usage("--proxy goes with --public-url, which says the address of that proxy.")
    outside = None if outside is None else public_url(outside)
    proxies = [proxy(each) for each in named]
    engine, key = context.get("engine"), context.get("key")
    if engine is not None or key is not None:
        from interlock.node.opening import refuse_strange

        refuse_strange(engine, None if key is None else _key(absolute(key)))
    if is_served(directory):
        _refuse_unlike(context, directory, outside, proxies)
        return {"up": True, "started": False} | _described(directory)
    words = [sys.executable, "-P", "-m", "interlock.server", "--workspace", directory]
    given = {"host": context.get("host"), "port": context.get("port"), "public-url": outside}
    if key is not None:
        given["key"] = absolute(key)
    words += [f"--{name}={value}" for name, value in given.items() if value is not None]
    words += [f"--proxy={address}" for address in proxies]
    if context.json:
        words.append("--json")
    pipes: list[int] = []
    if engine is not None:
        # The engine's URL may contain a password, and every user may read a command line.
        reading, writing = os.pipe()
        with open(writing, "wb") as pipe:
            pipe.write(os.fsencode(engine))
        os.set_inheritable(reading, True)
        pipes.append(reading)
        words.append(f"--engine-fd={reading}")
    if not context.get("detach"):
        become(words)
    import subprocess

    # The server has our terminal until it is ready or has failed, and says so itself.
    ready, starting = os.pipe()
    server = subprocess.Popen(  # noqa: S603 - our own module
        [*words, "--ready-fd", str(starting)],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=[starting, *pipes],
    )
    for file in (starting, *pipes):
        os.close(file)
    return 0 if os.read(ready, 1) else server.wait()


def _key(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(MAX_KEY_LENGTH)
    except (OSError, ValueError) as trouble:
        raise Usage(f"--key names a file that cannot be read ({trouble}).") from None


def _refuse_unlike(
    context: Context, directory: str, outside: str | None, proxies: list[str]
) -> None:
    """Refuse if the running server differs from the options, or does not answer. A server of an
    older release does not say its options."""
    about = server_of(directory)
    if about is None:
        return
    if is_hanging(about.socket):
        raise EngineUnavailable(
            f"A server runs for {directory} (process {about.pid}) and does not answer. End it with "
            f"kill -9 {about.pid}, and start it again."
        )
    unlike = []
    if (host := context.get("host")) is not None and about.host not in (None, host):
        unlike.append(f"--host {host}")
    if (port := context.get("port")) and about.port not in (None, port):
        unlike.append(f"--port {port}")
    if (engine := context.get("engine")) is not None:
        from interlock.node.opening import is_engine_of

        unlike += [] if is_engine_of(directory, engine) else ["that --engine"]
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


def _described(directory: str) -> Answer:
    about = server_of(directory)
    if about is None:
        return {"directory": directory}
    link = dashboard(about.url, directory)
    return {"url": about.url, "pid": about.pid, "directory": directory, "dashboard": link}


def become(words: list[str]) -> NoReturn:
    os.execv(words[0], words)  # noqa: S606 - this process is our own module from here on


@command("down")
def down(context: Context) -> Answer:
    """End the server that runs for the workspace."""
    from interlock.machine.processes import space
    from interlock.node.servers import running

    directory = _directory(context)
    ended: int | None = None
    begun = time.monotonic()
    while True:
        is_held = is_served(directory)
        # The servers of the workspace, even those that another has replaced. The processes of
        # another container have other numbers there.
        pids = [serving.pid for serving in running(directory) if serving.space == space()]
        if not is_held and not pids:
            return {"stopped": False} if ended is None else {"stopped": True, "pid": ended}
        waited_s = time.monotonic() - begun
        about = server_of(directory) if is_held else None
        # A server that is just starting is ended as soon as it says where it is.
        is_starting = is_held and waited_s < STARTS_WITHIN_S
        pid = about.pid if about is not None else None
        if pid is None and pids and not is_starting:
            pid = pids[-1]
        if pid is not None and pid != ended:
            ended = pid
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        if waited_s > ENDS_WITHIN_S:
            which = f"kill -9 {ended}" if ended else "kill -9 and the number of its process"
            raise EngineUnavailable(
                f"The server{f' (process {ended})' if ended else ''} does not end. See server.log "
                f"in {directory}, and end it with {which}."
            )
        time.sleep(POLL_INTERVAL_S)


def _directory(context: Context) -> str:
    place = context.place
    if "://" in place:
        raise Usage("A server is started and ended on its own machine.")
    return place
