"""The findings of the doctor, and the commands that it advises.

Tests write old entries through a node whose clock is in the past."""

import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from interlock.doors.cli.grammar import COMMON, parse
from interlock.doors.cli.lookup import all_commands
from interlock.node import Node
from world.commandline import Place
from world.workspace import MovedClock

COMMANDS = all_commands()

Found = dict[str, Any]


@contextmanager
def node_in_the_past(place: Place, ms: int) -> Iterator[Node]:
    """The workspace's node, on a clock that is behind the machine's by some milliseconds."""
    place.workspace.mkdir(exist_ok=True)
    with Node(str(place.workspace), clock=MovedClock(-ms)) as node:
        yield node


def findings(place: Place, *words: str, **environ: str | None) -> list[Found]:
    """All findings of the doctor.

    Its exit status says whether there are any, and each advised command of ours can be parsed."""
    done = place.but(**environ).run("doctor", *words, "--json")
    found: list[Found] = done.json["findings"]
    assert done.json["ok"] is not bool(found), done
    assert done.status == int(bool(found)), done
    for each in found:
        for command in each["do"].split(" && "):
            if command.startswith("interlock "):
                parse(shlex.split(command)[1:], COMMANDS, COMMON)
    return found


def findings_of(place: Place, check: str, **environ: str | None) -> list[Found]:
    """The findings of one check."""
    return [found for found in findings(place, **environ) if found["check"] == check]


def only_finding(place: Place, check: str, **environ: str | None) -> Found:
    """The only finding, which is of this check."""
    (found,) = findings(place, **environ)
    assert found["check"] == check, found
    return found


def run_advice(place: Place, found: Found) -> str:
    """Run the advised command in a shell whose `interlock` is the tested one; return its output."""
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
