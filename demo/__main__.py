"""`make demo`: starts a server on a workspace of its own, and plays the day before your eyes.

    python -m demo [--pace SECONDS] [--end]

Everything is real: a git repository, commits, commands that run, a gate that fails and passes. At
the end it stays up until Ctrl-C; with --end it ends, having checked the log.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from demo.day import play
from demo.stage import Stage
from interlock.local.link import server_of
from interlock.local.workspace import dashboard

STARTS_WITHIN_S = 60


def main() -> int:
    parser = argparse.ArgumentParser("python -m demo", description=__doc__, allow_abbrev=False)
    parser.add_argument("--pace", type=float, default=2.5, help="seconds between two acts")
    parser.add_argument("--end", action="store_true", help="end when the day is over")
    given = parser.parse_args()
    place = tempfile.mkdtemp(prefix="interlock-demo-")
    try:
        with served(os.path.join(place, "workspace")) as link:
            print(f"The day begins. Look at {link}\n", flush=True)
            stage = Stage(place, given.pace)
            play(stage)
            verified = stage.verified()
            print(f"\nThe day is over, and {verified}.", flush=True)
            if not given.end:
                print("It stays up until Ctrl-C.", flush=True)
                signal.pause()
    except KeyboardInterrupt:
        print()
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return 0


@contextmanager
def served(directory: str) -> Iterator[str]:
    """A server on a free port for the workspace; the link that signs its owner in."""
    words = [sys.executable, "-m", "interlock", "up", "--port", "0", "--workspace", directory]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as server:  # noqa: S603 - our own
        try:
            deadline = time.monotonic() + STARTS_WITHIN_S
            while (about := server_of(directory)) is None:
                if server.poll() is not None or time.monotonic() > deadline:
                    sys.exit("The server did not start.")
                time.sleep(0.05)
            yield dashboard(about.url, directory)
        finally:
            with suppress(ProcessLookupError):
                server.terminate()


if __name__ == "__main__":
    sys.exit(main())
