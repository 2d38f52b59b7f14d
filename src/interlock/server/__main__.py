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
from interlock.server.announcing import announcement, print_announcement
from interlock.server.records import LOG, configure_log, lock
from interlock.server.serving import ServerOptions, listening, serve

_LOG = logging.getLogger("interlock.server")
BARRED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EISDIR, errno.ENOTDIR)


def main() -> int:
    """Serve a workspace until a signal ends the process. Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m interlock.server", allow_abbrev=False)
    parser.add_argument("--workspace", required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=7420)
    parser.add_argument("--public-url", help="the public URL of a TLS proxy in front of the server")
    parser.add_argument(
        "--proxy",
        action="append",
        default=[],
        help="the source address of that proxy (default: this machine)",
    )
    parser.add_argument("--engine", help="the URL of the engine that stores the log")
    parser.add_argument("--engine-fd", type=int, help="a file descriptor to read that URL from")
    parser.add_argument(
        "--key", help="the key file of a workspace that already exists on that engine"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--ready-fd", type=int, help="a file descriptor to write to when ready")
    given = parser.parse_args()
    options = ServerOptions(given.workspace, given.host, given.port)
    is_up = False

    try:
        outside = public_url(given.public_url) if given.public_url is not None else None
        options = options._replace(outside=outside, proxies=tuple(map(proxy, given.proxy)))
        key, engine = None, given.engine
        if given.key is not None:
            try:
                with open(given.key, "rb") as file:
                    key = file.read()
            except OSError as trouble:
                raise Usage(
                    f"The file of --key, {given.key}, cannot be read: {trouble.strerror}."
                ) from None
        if given.engine_fd is not None:
            with open(given.engine_fd, "rb") as pipe:
                engine = os.fsdecode(pipe.read())
        with open_node(options.directory, engine=engine, key=key) as node:
            if lock(options.directory) is None:
                print_announcement(
                    {"up": True, "started": False, "directory": options.directory}, given.json
                )
                return 0
            sign_in(options.directory)
            configure_log(os.path.join(options.directory, LOG))

            def ready(about: About) -> None:
                nonlocal is_up
                answer = announcement(node, about, loopback=is_loopback(options.host))
                for hazard in answer["hazards"]:
                    _LOG.warning("the key or the engine has a problem", extra={"hazard": hazard})
                print_announcement(answer, given.json)
                is_up = True
                if given.ready_fd is not None:
                    # Release the terminal of the command that started this process, and signal it.
                    nowhere = os.open(os.devnull, os.O_RDWR)
                    for stream in (1, 2):
                        os.dup2(nowhere, stream)
                    os.close(nowhere)
                    with suppress(BrokenPipeError):  # the command has ended
                        os.write(given.ready_fd, b"!")
                    os.close(given.ready_fd)

            with listening(options) as listener:
                uvloop.run(serve(node, options, listener, ready))
        return 0
    except Exception as trouble:  # noqa: BLE001 - the command that started us needs the error
        if is_up:
            _LOG.exception("the server failed")
        if isinstance(trouble, Refusal):
            refusal = trouble
        elif isinstance(trouble, OSError) and trouble.errno in BARRED:
            # Another user created a file of the workspace, for example by a start with sudo.
            path = trouble.filename if isinstance(trouble.filename, str) else options.directory
            refusal = EngineUnavailable(
                f"{path} cannot be written: {trouble.strerror}. Check its owner and permissions: "
                f"the user who runs Interlock must own all files in {options.directory}."
            )
        else:
            refusal = reported(trouble)
    # A server that was up has printed its JSON document already.
    if given.json and not is_up:
        sys.stdout.write(json.dumps(refusal.as_dict()) + "\n")
    else:
        sys.stderr.write(f"{refusal.title} ({refusal.code}): {refusal.message}\n")
    return refusal.exit


if __name__ == "__main__":
    sys.exit(main())
