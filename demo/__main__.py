"""`make demo`: start a server with a new workspace, and run a scripted day in it.

    python -m demo [--pace SECONDS] [--end]

The day has a real git repository, commits, commands, and a gate that fails and then passes. At the
end, the demo verifies the log, and the server runs until Ctrl-C. With --end, the demo ends.
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

from demo.day import run_day
from demo.stage import Stage
from interlock.local.link import server_of
from interlock.local.workspace import dashboard

STARTS_WITHIN_S = 60


def main() -> int:
    parser = argparse.ArgumentParser("python -m demo", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "--pace", type=float, default=2.5, help="seconds between two steps (default: 2.5)"
    )
    parser.add_argument("--end", action="store_true", help="stop the server when the day is over")
    given = parser.parse_args()
    place = tempfile.mkdtemp(prefix="interlock-demo-")
    try:
        with served(os.path.join(place, "workspace")) as link:
            print(f"The day starts. Open the dashboard: {link}\n", flush=True)
            stage = Stage(place, given.pace)
            run_day(stage)
            verified = stage.verified()
            print(f"\nThe day is over. {verified}", flush=True)
            if not given.end:
                print("The server runs until you press Ctrl-C.", flush=True)
                signal.pause()
    except KeyboardInterrupt:
        print()
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return 0


@contextmanager
def served(directory: str) -> Iterator[str]:
    """Run a server for the workspace on a free port. Yield the link that signs in as the owner."""
    words = [sys.executable, "-m", "interlock", "up", "--port", "0", "--workspace", directory]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as server:  # noqa: S603 - our own
        try:
            deadline = time.monotonic() + STARTS_WITHIN_S
            while (about := server_of(directory)) is None:
                if server.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"The server did not start within {STARTS_WITHIN_S} s.")
                time.sleep(0.05)
            yield dashboard(about.url, directory)
        finally:
            with suppress(ProcessLookupError):
                server.terminate()


if __name__ == "__main__":
    sys.exit(main())
