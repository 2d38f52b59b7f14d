"""What the scrub found, and how it is said. A secret itself is never part of it."""

import hashlib
from typing import Any, Final, NamedTuple

# In the order in which they are shown: what concerns the whole repository first.
CHECKS: Final = ("root", "ref", "secret", "word", "path", "generated", "outside")
FINGERPRINT_DIGITS: Final = 16


class Finding(NamedTuple):
    """One thing that must not become public."""

    check: str  # one of CHECKS
    what: str
    fix: str  # a command for the shell, typed at the root of the repository
    fingerprint: str  # the same in every version of a file, so that a person can say: looked at
    commit: str | None = None  # the one that brought it in
    path: str | None = None
    line: int | None = None  # of the file in that commit, or of the commit's message

    def view(self) -> dict[str, Any]:
        """As doors show it: what is absent is left out."""
        return {name: value for name, value in self._asdict().items() if value is not None}


def fingerprint(*parts: str) -> str:
    """A name for what was found, that neither commits nor line numbers change."""
    joined = "\0".join(parts).encode("utf-8", "surrogateescape")
    return hashlib.sha256(joined).hexdigest()[:FINGERPRINT_DIGITS]


def shown(name: bytes) -> str:
    """A file's name as text. What no terminal should print is escaped."""
    text = name.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else text.encode("unicode_escape").decode()
