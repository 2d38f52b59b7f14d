"""What guards ask of git, and refuse without."""

import os
import subprocess

from interlock.errors import Usage
from interlock.machine.git import asked


def ask(place: str, *words: str) -> bytes | None:
    """What git prints, or None where it says no. A guard that cannot ask refuses."""
    try:
        done = asked(place, *words)
    except (OSError, subprocess.TimeoutExpired) as trouble:
        raise Usage(f"git cannot be run here: {trouble}") from None
    return done.stdout if done.returncode == 0 else None


def line(place: str, *words: str) -> str | None:
    """The one line that git prints, if it prints one."""
    said = ask(place, *words)
    return os.fsdecode(said).removesuffix("\n") or None if said is not None else None


def root(place: str) -> str:
    """The root of the working tree, or of a bare repository."""
    found = line(place, "rev-parse", "--show-toplevel") or line(
        place, "rev-parse", "--absolute-git-dir"
    )
    if found is None:
        raise Usage("This is no git repository. Stand in the one that is meant.")
    return found
