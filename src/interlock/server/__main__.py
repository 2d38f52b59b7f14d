"""`python -m interlock.server`: the process that `interlock up` starts."""

import argparse
import errno
import json
import logging
import os
import sys
from contextlib import suppress

import uvloop

from interlock.doors.cli import reported
from interlock.errors import EngineUnavailable, Refusal, Usage
from interlock.local.link import About, open_node
from interlock.machine.hosts import is_loopback, proxy, public_url
from interlock.node.servers import sign_in
from interlock.server import logs
from interlock.server.announcing import announcement, say
from interlock.server.records import LOG, lock
from interlock.server.serving import Place, listening, serve

_LOG = logging.getLogger("interlock.server")
BARRED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EISDIR, errno.ENOTDIR)


def main() -> int:
    given = _arguments()
    place = Place(given.workspace, given.host, given.port)
    is_up = False

    try:
        outside = public_url(given.public_url) if given.public_url is not None else None
        place = place._replace(outside=outside, proxies=tuple(map(proxy, given.proxy)))
        key = _read(given.key) if given.key is not None else None
        engine = given.engine if given.engine_fd is None else _handed(given.engine_fd)
        with open_node(place.directory, engine=engine, key=key) as node:
            if lock(place.directory) is None:
                say({"up": True, "started": False, "directory": place.directory}, given.json)
                return 0
            sign_in(place.directory)
            logs.configure(os.path.join(place.directory, LOG))

            def ready(about: About) -> None:
                nonlocal is_up
                told = announcement(node, about, loopback=is_loopback(place.host))
                for hazard in told["hazards"]:
                    _LOG.warning("hazard", extra={"hazard": hazard})
                say(told, given.json)
                is_up = True
                if given.ready_fd is not None:
                    _let_go(given.ready_fd)

            with listening(place) as listener:
                uvloop.run(serve(node, place, listener, ready))
    except Exception as trouble:  # noqa: BLE001 - whoever started us must get the error object
        if is_up:  # and whoever was told so has its document
            _LOG.exception("the server ended")
        return _failed(_refusal(place.directory, trouble), as_json=given.json and not is_up)
    return 0


def _refusal(directory: str, trouble: Exception) -> Refusal:
    if isinstance(trouble, Refusal):
        return trouble
    if isinstance(trouble, OSError) and trouble.errno in BARRED:
        return _barred(directory, trouble)
    return reported(trouble)


def _barred(directory: str, trouble: OSError) -> EngineUnavailable:
    """A file of the workspace's that somebody else made, as a start with sudo does."""
    path = trouble.filename if isinstance(trouble.filename, str) else directory
    return EngineUnavailable(
        f"{path} cannot be written: {trouble.strerror}. Look at its owner and mode: whatever is "
        f"in {directory} is to be of the user who runs Interlock."
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m interlock.server", allow_abbrev=False)
    parser.add_argument("--workspace", required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=7420)
    parser.add_argument("--public-url", help="the address of a proxy before it")
    parser.add_argument("--proxy", action="append", default=[], help="where that asks from")
    parser.add_argument("--engine", help="the URL of what keeps the log")
    parser.add_argument("--engine-fd", type=int, help="the same, to be read there")
    parser.add_argument("--key", help="the file with the key of a workspace that exists there")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--ready-fd", type=int, help="who waits for us to be ready reads it")
    return parser.parse_args()


def _read(file: str) -> bytes:
    try:
        with open(file, "rb") as opened:
            return opened.read()
    except OSError as trouble:
        raise Usage(f"--key: {file} cannot be read: {trouble.strerror}.") from None


def _handed(file: int) -> str:
    with open(file, "rb") as pipe:
        return os.fsdecode(pipe.read())


def _let_go(ready_fd: int) -> None:
    """Tells whoever started us, and lets go of its terminal."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)
    with suppress(BrokenPipeError):  # nobody waits any more
        os.write(ready_fd, b"!")
    os.close(ready_fd)


def _failed(refusal: Refusal, *, as_json: bool) -> int:
    if as_json:
        sys.stdout.write(json.dumps(refusal.as_dict()) + "\n")
    else:
        sys.stderr.write(f"{refusal.title} ({refusal.code}): {refusal.message}\n")
    return refusal.exit


if __name__ == "__main__":
    sys.exit(main())
