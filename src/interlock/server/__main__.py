"""`python -m interlock.server`: the process that `interlock up` starts."""

import argparse
import sys

import uvloop

from interlock.errors import Refusal
from interlock.link import About, open_node
from interlock.server import logs
from interlock.server.records import lock
from interlock.server.serving import Place, listening, serve

FAILED = 4


def main() -> int:
    given = _arguments()
    logs.configure()
    try:
        with open_node(given.workspace) as node:
            if lock(given.workspace) is None:
                return _failed("A server runs for this workspace already.")
            place = Place(given.workspace, given.host, given.port)
            with listening(place) as listener:
                uvloop.run(serve(node, place, listener, _announce))
    except Refusal as refusal:
        return _failed(refusal.message)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m interlock.server", allow_abbrev=False)
    parser.add_argument("--workspace", required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=7420)
    return parser.parse_args()


def _announce(about: About) -> None:
    sys.stdout.write(f"ready {about.url}\n")
    sys.stdout.flush()


def _failed(message: str) -> int:
    sys.stderr.write(message + "\n")
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
