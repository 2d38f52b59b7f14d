"""Run the user's own git to read a repository.

Git reads objects as they are stored: with replacements and grafts, this machine would see another
tree than other machines.
"""

import os
import subprocess

TRUTHFUL = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull}
PATIENCE_S = 60.0


def run_git(
    place: str,
    *words: str,
    more: dict[str, str] | None = None,
    stdin: bytes = b"",
    patience_s: float = PATIENCE_S,
) -> "subprocess.CompletedProcess[bytes]":
    """Return the completed process. Raise OSError or TimeoutExpired if git cannot run."""
    return subprocess.run(  # noqa: S603 - our own arguments, no shell
        ["git", "-C", place, *words],  # noqa: S607 - the user's own git
        input=stdin,
        capture_output=True,
        env=os.environ | TRUTHFUL | (more or {}),
        timeout=patience_s,
        check=False,
    )


def git_output(
    place: str,
    *words: str,
    more: dict[str, str] | None = None,
    stdin: bytes = b"",
    patience_s: float = PATIENCE_S,
) -> str | None:
    """Return the output without its last newline; None if git failed or cannot run."""
    try:
        done = run_git(place, *words, more=more, stdin=stdin, patience_s=patience_s)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return os.fsdecode(done.stdout).removesuffix("\n") if done.returncode == 0 else None
