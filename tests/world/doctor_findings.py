"""A workspace that the doctor looks at: made in the past where something must have grown old, and
put right by typing what the doctor says.

Nothing here is a test, and nothing here decides what is right.
"""

import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from interlock.doors.cli.grammar import COMMON
from interlock.doors.cli.lookup import all_commands
from interlock.doors.cli.parser import parse
from interlock.node import Node
from interlock.stores.sqlite import clock_ms
from interlock.verbs.credentials import Credentials
from world.commandline import Place

COMMANDS = all_commands()

OWNER = Credentials(owner=True)
HOUR = 3_600_000
DAY = 24 * HOUR
Found = dict[str, Any]


@contextmanager
def ago(place: Place, ms: int) -> Iterator[Node]:
    """The workspace's node, on a clock that is behind the machine's by that."""
    place.workspace.mkdir(exist_ok=True)
    with Node(str(place.workspace), clock=lambda: clock_ms() - ms) as node:
        yield node


def findings(place: Place, *words: str, **environ: str | None) -> list[Found]:
    """What the doctor finds; its exit status says whether that is anything, and every command of
    ours that it names can be typed."""
    done = place.but(**environ).run("doctor", *words, "--json")
    found: list[Found] = done.json["findings"]
    assert done.json["ok"] is not bool(found), done
    assert done.status == int(bool(found)), done
    for each in found:
        for command in each["do"].split(" && "):
            if command.startswith("interlock "):
                parse(shlex.split(command)[1:], COMMANDS, COMMON)
    return found


def of(place: Place, check: str, **environ: str | None) -> list[Found]:
    """What one check finds."""
    return [found for found in findings(place, **environ) if found["check"] == check]


def only(place: Place, check: str, **environ: str | None) -> Found:
    """The one finding that there is, of this check."""
    (found,) = findings(place, **environ)
    assert found["check"] == check, found
    return found


def typed(place: Place, found: Found) -> str:
    """Types what the doctor says, in a shell where `interlock` is the one that is tested; gives
    what that printed."""
    interlock = f'interlock() {{ {shlex.quote(sys.executable)} -m interlock "$@"; }}\n'
    command = found["do"]
    done = subprocess.run(
        ["bash", "-c", interlock + command],
        env=place.environ,
        cwd=place.cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, (command, done)
    return done.stdout.decode()
