"""Runs the user's own git for facts.

It reads objects as they are stored: replacements and grafts show another tree than others get.
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
    """The completed process. Raises `OSError` or `TimeoutExpired` where git cannot be run."""
    return subprocess.run(  # noqa: S603 - words of ours, no shell
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
    """The output without its last newline; None where git failed, or cannot be run."""
    try:
        done = run_git(place, *words, more=more, stdin=stdin, patience_s=patience_s)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return os.fsdecode(done.stdout).removesuffix("\n") if done.returncode == 0 else None
