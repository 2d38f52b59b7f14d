"""Where the caller of a tool stands."""

from typing import NamedTuple


class Here(NamedTuple):
    """The name of the caller's repository, and its directory on this machine. Both are None where
    they are not known, as over HTTP."""

    repo: str | None = None
    directory: str | None = None


ELSEWHERE = Here()
