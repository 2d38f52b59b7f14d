"""What a plan is, where its caller stands, and what it may ask for beside acts."""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

Answer = dict[str, Any]
Plan = Generator[Any, Answer, Answer]


class Here(NamedTuple):
    """The repository that the caller stands in, by its name, and its directory on this machine;
    None for each where that is not known, as over HTTP."""

    repo: str | None = None
    directory: str | None = None


ELSEWHERE = Here()


class Nearby(NamedTuple):
    """A look at the caller's files or its git, which may take a moment; the reply has what it
    `found`."""

    look: Callable[[], Any]
