"""The commands that start and stop the server."""

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
        "host": "the address to listen on (default: 127.0.0.1, only this machine)",
        "port": ("the port to listen on (default: 7420)", Integer(0, 65535)),
        "public_url": "the public URL of a TLS proxy in front of the server, such as https://…",
        "proxy": "the proxy's source address or network (default: this machine)",
        "engine": "the URL of the engine that stores the log (default: the workspace's own file)",
        "key": "the key file of a workspace that already exists on that engine",
        "detach": "start the server in the background, and return when it is ready",
    },
    examples=("interlock up --detach # to stop it: interlock down",),
)
def up(context: Context) -> Answer | int:
    """Start the server and its dashboard.

    Commands, hooks and MCP clients on this machine find the server by themselves. They also work
    without it.
    """
    directory = _directory(context)
    outside, named = context.get("public_url"), context.get("proxy") or []
    if named and outside is None:
        raise Usage("--proxy needs --public-url URL, the public URL of that proxy.")
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

    # The server writes to our terminal until it is ready or has failed.
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
        raise Usage(f"The file of --key cannot be read: {trouble}.") from None


def _refuse_unlike(
    context: Context, directory: str, outside: str | None, proxies: list[str]
) -> None:
    """Refuse if the running server has other options, or does not answer. A server of an older
    release does not publish its options."""
    about = server_of(directory)
    if about is None:
        return
    if is_hanging(about.socket):
        raise EngineUnavailable(
            f"The server of {directory} (process {about.pid}) does not answer. Stop it with "
            f"kill -9 {about.pid}, then run this command again."
        )
    unlike = []
    if (host := context.get("host")) is not None and about.host not in (None, host):
        unlike.append(f"--host {host}")
    if (port := context.get("port")) and about.port not in (None, port):
        unlike.append(f"--port {port}")
    if (engine := context.get("engine")) is not None:
        from interlock.node.opening import is_engine_of

        unlike += [] if is_engine_of(directory, engine) else ["this --engine"]
    if outside is not None and outside != about.url:
        unlike.append(f"--public-url {outside}")
    if proxies and about.proxies not in (None, proxies):
        unlike.append(f"--proxy {' --proxy '.join(proxies)}")
    if unlike:
        raise Usage(
            f"A server already runs at {about.url} for {directory}, without "
            f"{', '.join(unlike)}. To change that: interlock down, then run this command again.",
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
    """Stop the server of the workspace."""
    from interlock.machine.processes import space
    from interlock.node.servers import running

    directory = _directory(context)
    ended: int | None = None
    begun = time.monotonic()
    while True:
        is_held = is_served(directory)
        # The servers of the workspace, even those that another server has replaced. Skip those of
        # other containers: there, the process ids have another meaning.
        pids = [serving.pid for serving in running(directory) if serving.space == space()]
        if not is_held and not pids:
            return {"stopped": False} if ended is None else {"stopped": True, "pid": ended}
        waited_s = time.monotonic() - begun
        about = server_of(directory) if is_held else None
        # A server that is starting is stopped as soon as it has published its process id.
        is_starting = is_held and waited_s < STARTS_WITHIN_S
        pid = about.pid if about is not None else None
        if pid is None and pids and not is_starting:
            pid = pids[-1]
        if pid is not None and pid != ended:
            ended = pid
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        if waited_s > ENDS_WITHIN_S:
            which = f"kill -9 {ended}" if ended else "kill -9 and its process id"
            raise EngineUnavailable(
                f"The server{f' (process {ended})' if ended else ''} does not stop. Read "
                f"server.log in {directory}, then stop the server with {which}."
            )
        time.sleep(POLL_INTERVAL_S)


def _directory(context: Context) -> str:
    place = context.place
    if "://" in place:
        raise Usage(
            f"{place} is the URL of a server. Start and stop a server on its own machine, with the "
            "workspace's directory: --workspace PATH"
        )
    return place
